//! The scripts that are handed out with the program are valid, and scripts choose exchanges as they say.

use crate::dialogue::{AT_ONCE, LIVE, check, text};
use std::path::Path;
use windlass_sim::script::Script;

#[test]
fn every_script_of_the_repository_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for folder in ["scripts", "tests/sdk/scripts"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            Script::parse(&path.display().to_string(), &text).unwrap();
            count += 1;
        }
    }
    assert!(count >= 4);
}

#[test]
fn the_examples_in_the_documentation_are_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
    let text = std::fs::read_to_string(path).unwrap();
    let examples: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(!examples.is_empty());
    for example in examples {
        Script::parse("docs/simulator.md", example).unwrap();
    }
}

#[test]
fn the_first_exchange_whose_conditions_all_hold_is_taken() {
    let script = format!(
        "{AT_ONCE}exchanges:\n- when: any\n  turn: 2\n  do:\n  - say: second\n- when: {{text: ICE}}\n  do:\n  - say: cold\n\
         - when: {{text: ice}}\n  do:\n  - say: never\n"
    );
    let end = ["generated", "turn over"];
    check(
        &script,
        LIVE,
        &[text("the Ice cap"), text("ice"), text("nice"), text("sun")],
        &[
            &["ready", "says: cold"][..],
            &end,
            &["says: second"],
            &end,
            &["says: cold"],
            &end,
            &["says: The script has no answer to this."],
            &end,
        ]
        .concat(),
    );
}
