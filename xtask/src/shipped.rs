//! What the shipped program is built with: no feature that only tests may have. Reads cargo's own view of it.

use crate::report::Problem;
use crate::workspace::{Workspace, output_of};

/// The feature with which the core has bugs planted.
const TEST_ONLY: &str = "planted-bugs";

pub(crate) fn check(workspace: &Workspace) -> Vec<Problem> {
    let tree = workspace.cargo(&[
        "tree",
        "--package=windlass-app",
        "--all-features",
        "--edges=normal",
        "--prefix=none",
        "--format={p} {f}",
    ]);
    match output_of(tree, "cargo tree") {
        Ok(text) => check_tree(&text),
        Err(problem) => vec![problem],
    }
}

/// Each line is a name, a version, for a member its folder, and its features with commas between them.
fn check_tree(tree: &str) -> Vec<Problem> {
    let has_test_only = |line: &&str| line.split([' ', ',']).skip(2).any(|word| word == TEST_ONLY);
    let lines = tree.lines().filter(has_test_only);
    let packages = lines.filter_map(|line| line.split(' ').next());
    packages
        .map(|package| {
            Problem::general(format!(
                "the shipped program builds `{package}` with `{TEST_ONLY}`, which is for tests: no crate beneath windlass-app may ask for it"
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(features: &str) -> usize {
        check_tree(&format!(
            "windlass-app v0.1.0 (/w/crates/app) \nwindlass-session v0.1.0 (/w/crates/session) {features}\nserde v1.0.0 default,std (*)\n"
        ))
        .len()
    }

    #[test]
    fn a_feature_for_tests_is_found_among_others() {
        assert_eq!(check(""), 0);
        assert_eq!(check("default"), 0);
        assert_eq!(check("planted-bugs"), 1);
        assert_eq!(check("default,planted-bugs,other (*)"), 1);
    }

    #[test]
    fn the_program_as_it_is_has_none() {
        assert!(super::check(&Workspace::of_this_program()).is_empty());
    }
}
