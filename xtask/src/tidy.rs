//! The rules of the house that no other tool checks, over every file that is or could be committed. Reports all breaches at once; knows
//! nothing of a file's purpose.

mod code;
mod links;
mod requirements;
mod text;

pub(crate) use code::{FILE_LINES_ADVISED, hidden_subjects};

use crate::report::Problem;
use crate::workspace::Workspace;
use std::collections::BTreeSet;
use std::fs;

/// The documents that a newcomer looks for first.
const DOCUMENTS: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
];

pub(crate) fn check(workspace: &Workspace) -> Vec<Problem> {
    let files = match workspace.files() {
        Ok(files) => files,
        Err(problem) => return vec![problem],
    };
    let known: BTreeSet<&str> = files.iter().map(String::as_str).collect();
    let mut problems: Vec<Problem> = DOCUMENTS
        .iter()
        .filter(|document| !known.contains(*document))
        .map(|document| Problem::of_file(document, "is missing"))
        .collect();
    for file in &files {
        // A file that is no text, such as a picture or a recording, has no lines to check.
        let content = fs::read_to_string(workspace.path(file)).unwrap_or_default();
        problems.extend(check_file(file, &content, &known));
    }
    let table = fs::read_to_string(workspace.path(requirements::TABLE)).unwrap_or_default();
    problems.extend(requirements::check(&table, |file| {
        let is_known = known.contains(file);
        is_known.then(|| fs::read_to_string(workspace.path(file)).ok())?
    }));
    problems.sort();
    problems
}

/// Advice about long files and functions, which may be long: for a reader, not a rule.
pub(crate) fn advise(workspace: &Workspace) -> Vec<Problem> {
    let files = workspace.files().unwrap_or_default();
    let rust = files.iter().filter(|file| file.ends_with(".rs"));
    let advice = rust.flat_map(|file| {
        let content = fs::read_to_string(workspace.path(file)).unwrap_or_default();
        code::advise(file, &content)
    });
    advice.collect()
}

fn check_file(file: &str, content: &str, known: &BTreeSet<&str>) -> Vec<Problem> {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    let mut problems = text::check(file, content);
    match extension {
        "rs" => {
            problems.extend(code::check(file, content));
            problems.extend(code::check_rust(file, content));
        }
        "js" | "mjs" | "ts" | "css" | "html" | "py" | "sh" => {
            problems.extend(code::check(file, content));
        }
        "md" if is_document(file) => problems.extend(links::check(file, content, known)),
        _ => {}
    }
    problems
}

/// Whether a Markdown file is about the project. Tools' guides, prompts and the knowledge base are the product's data, and may name
/// things that are no files.
fn is_document(file: &str) -> bool {
    !file.contains('/')
        || file.starts_with("docs/")
        || file.starts_with("examples/")
        || file.ends_with("README.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_file_has_its_rules() {
        let known = BTreeSet::from(["README.md"]);
        for (file, content, breaches) in [
            ("crates/a/src/lib.rs", "fn main() {}\n", 1),
            ("crates/a/ui/page.js", "let x = 1;\n", 0),
            ("crates/a/ui/helper.js", "let x = 1;\n", 1),
            ("README.md", "[a](gone.md)\n", 1),
            ("kb/fram.md", "[a](gone.md)\n", 0),
            ("docs/a.md", "[a](../README.md)\n", 0),
            ("LICENSE-MIT", "MIT\n", 0),
        ] {
            let found = check_file(file, content, &known);
            assert_eq!(found.len(), breaches, "{file}: {found:?}");
        }
    }
}
