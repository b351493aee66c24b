//! Rules for the text of any file: nothing in it points at the machine it was written on.

use crate::report::Problem;

/// Folders of machines that the project is developed on. Each is cut in two, so that this file keeps the rule itself.
const MACHINE_FOLDERS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tm", "p/t/"),
];

pub(super) fn check(file: &str, content: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in content.lines().enumerate() {
        for folder in MACHINE_FOLDERS {
            if names_folder(line, folder) {
                let text = format!("names `{folder}`, a folder of one machine: say it relatively");
                problems.push(Problem::at(file, index + 1, text));
            }
        }
    }
    problems
}

/// Whether a line holds an absolute path that begins with the folder. In `https://host/…/` and `target/…/` it does not.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '~' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_machine_is_found_and_a_path_in_the_project_is_not() {
        for (line, breaches) in [
            (concat!("see /wo", "rk/main/x"), 1),
            (concat!("\"/ro", "ot/.cargo\""), 1),
            (concat!("cp /tm", "p/t/a b"), 1),
            (concat!("cd /ho", "me/someone"), 1),
            (concat!("https://example.org/wo", "rk/1"), 0),
            (concat!("target/wo", "rk/1"), 0),
            (concat!("../wo", "rk/1"), 0),
            (concat!("/tm", "p/other"), 0),
        ] {
            let found = check("a.md", line);
            assert_eq!(found.len(), breaches, "{line}");
        }
    }

    #[test]
    fn a_breach_is_placed_on_its_line() {
        let found = check("a.md", concat!("one\ntwo /wo", "rk/x\n"));
        assert!(found[0].to_string().starts_with("a.md:2: "), "{}", found[0]);
    }
}
