//! Commands in documents are understood by the program, and those that only read are run.

use crate::documents::{blocks_in, documents, root};
use std::process::{Command, Output};

/// The arguments of `cargo run … -- ARGUMENTS` or `windlass ARGUMENTS`, as a shell would split them; comments are left out.
fn arguments(line: &str) -> Option<Vec<String>> {
    let rest = match line.split_once(" -- ") {
        Some((cargo, rest)) if cargo.contains("cargo run") => rest,
        Some(_) | None => line.strip_prefix("windlass ")?,
    };
    let mut arguments = Vec::new();
    for (index, part) in rest.split('\'').enumerate() {
        if index % 2 == 1 {
            arguments.push(part.to_owned());
            continue;
        }
        let (plain, is_over) = match part.split_once('#') {
            Some((plain, _)) => (plain, true),
            None => (part, false),
        };
        let (plain, is_sent_on) = match plain.split_once(['>', '|']) {
            Some((plain, _)) => (plain, true),
            None => (plain, false),
        };
        arguments.extend(plain.split_whitespace().map(str::to_owned));
        if is_over || is_sent_on {
            break;
        }
    }
    Some(arguments)
}

fn run(arguments: &[String]) -> Output {
    let data = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(arguments)
        .current_dir(root())
        .env_clear()
        .env("WINDLASS_FOLDERS_DATA", data.path())
        .output()
        .unwrap()
}

#[test]
fn every_command_in_a_document_has_a_form_that_the_program_knows() {
    let mut known = 0;
    for file in documents() {
        for block in blocks_in(&file, "sh") {
            for mut arguments in block.text.lines().filter_map(arguments) {
                arguments.push("--help".to_owned());
                let output = run(&arguments);
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success(),
                    "{}: {arguments:?}: {error}",
                    block.place
                );
                known += 1;
            }
        }
    }
    assert!(known > 5, "only {known} commands were found");
}

#[test]
fn the_commands_of_the_readme_that_only_read_do_what_they_say() {
    let mut ran = 0;
    for block in blocks_in("README.md", "sh") {
        for arguments in block.text.lines().filter_map(arguments) {
            if !matches!(arguments[0].as_str(), "check" | "call") {
                continue;
            }
            let output = run(&arguments);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments:?}: {error}");
            ran += 1;
        }
    }
    assert_eq!(ran, 2, "README.md shows one check and one call");
}
