//! Rules for documents: a link into the project leads to a file that is there. Never looks beyond the project.

use crate::report::Problem;
use std::collections::BTreeSet;

/// Checks every inline link, picture, link definition and `src` or `href` attribute outside code.
pub(super) fn check(file: &str, content: &str, known: &BTreeSet<&str>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut in_code_block = false;
    for (index, line) in content.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code_block = !in_code_block;
            continue;
        }
        if in_code_block {
            continue;
        }
        for target in targets(&without_code(line)) {
            if !leads_somewhere(file, &target, known) {
                let text = format!("links to `{target}`, which is not in the project");
                problems.push(Problem::at(file, index + 1, text));
            }
        }
    }
    problems
}

/// A line without its `code`, in which brackets mean nothing.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn targets(line: &str) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    for (opening, closing) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        for (start, _) in line.match_indices(opening) {
            let rest = &line[start + opening.len()..];
            if let Some(end) = rest.find(closing) {
                targets.push(rest[..end].to_owned());
            }
        }
    }
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        targets.push(target.to_owned());
    }
    // A title may follow the target, and angle brackets may hold it.
    for target in &mut targets {
        let plain = target.split_whitespace().next().unwrap_or_default();
        *target = plain.trim_matches(['<', '>']).to_owned();
    }
    targets
}

fn leads_somewhere(file: &str, target: &str, known: &BTreeSet<&str>) -> bool {
    if target.contains("://") || target.starts_with("mailto:") || target.starts_with('#') {
        return true;
    }
    let path = target.split(['#', '?']).next().unwrap_or_default();
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let Some(resolved) = resolve(folder, path) else {
        return false;
    };
    let as_folder = format!("{resolved}/");
    resolved.is_empty()
        || known.contains(resolved.as_str())
        || known.iter().any(|name| name.starts_with(&as_folder))
}

/// A path relative to the project's root, or nothing if it leaves the project or is absolute.
fn resolve(folder: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_of_the_project() {
        let known = BTreeSet::from(["README.md", "docs/a.md", "docs/page.png"]);
        for (line, breaches) in [
            ("[a](a.md)", 0),
            ("[a](a.md#part) and [b](../README.md \"the title\")", 0),
            ("![page](page.png)", 0),
            ("[folder](../docs/) [root](..)", 0),
            (
                "[web](https://example.org/x) [part](#part) <x@example.org>",
                0,
            ),
            ("[definition]: a.md", 0),
            ("<img src=\"page.png\" width=\"600\">", 0),
            ("`[code](gone.md)`", 0),
            ("[a](gone.md)", 1),
            ("[a](gone.md) [b](gone-too.md) [c](a.md)", 2),
            ("![page](gone.png)", 1),
            ("[definition]: gone.md", 1),
            ("<img src=\"gone.png\">", 1),
            ("[outside](../../contract.md)", 1),
            ("[absolute](/docs/a.md)", 1),
            ("`code` [a](gone.md) `code`", 1),
        ] {
            let found = check("docs/a.md", line, &known);
            assert_eq!(found.len(), breaches, "{line}: {found:?}");
        }
    }

    #[test]
    fn links_in_code_blocks_are_not_links() {
        let content = "```text\n[a](gone.md)\n```\n[b](gone.md)\n";
        let found = check("README.md", content, &BTreeSet::new());
        assert_eq!(
            found,
            [Problem::at(
                "README.md",
                4,
                "links to `gone.md`, which is not in the project"
            )]
        );
    }
}
