//! What the engine says of handlers before they are called.

use std::sync::Arc;
use windlass_script::{Flaw, Modules, judge};

const ENTRY: &str = "own/handler.js";

fn modules<const N: usize>(files: [(&str, &str); N]) -> Arc<Modules> {
    let files = files
        .into_iter()
        .map(|(path, source)| (path.to_owned(), source.into()));
    Arc::new(files.collect())
}

/// The one flaw of a handler, as `file:line:column message`.
fn check<const N: usize>(files: [(&str, &str); N], expected: &str) {
    let verdict = judge(ENTRY, &modules(files));
    let [
        Flaw {
            file,
            line,
            column,
            message,
            ..
        },
    ] = &verdict.flaws[..]
    else {
        panic!("{files:?}: {:?}", verdict.flaws);
    };
    let place = [*line, *column]
        .into_iter()
        .flatten()
        .fold(file.clone(), |place, number| format!("{place}:{number}"));
    let found = format!("{place} {message}");
    assert!(found.starts_with(expected), "{files:?}: {found}");
}

#[test]
fn a_handler_that_can_run_has_no_flaw_and_says_what_it_is_made_of() {
    let files = modules([
        (
            ENTRY,
            "import { shared } from '../_shared/a.js';\nimport { ToolError } from '../error-types.js';\nawait null;\nexport const execute = async () => shared;",
        ),
        ("_shared/a.js", "export const shared = 1;"),
        ("_shared/unused.js", "this is no JavaScript"),
        ("own/notes.js", "neither is this"),
    ]);
    let verdict = judge(ENTRY, &files);
    assert_eq!(verdict.flaws, []);
    let used: Vec<&str> = verdict.used.iter().map(String::as_str).collect();
    assert_eq!(used, ["_shared/a.js", ENTRY]);
}

#[test]
fn a_flaw_is_named_with_its_line_and_column() {
    const GOOD: &str = "export async function execute() {}";
    check(
        [(ENTRY, "export async function execute() {\n  const x = ;\n}")],
        "own/handler.js:2:13 SyntaxError: ",
    );
    check(
        [(ENTRY, "export async function execute() {\n")],
        "own/handler.js:2:1 SyntaxError: ",
    );
    check(
        [
            (
                ENTRY,
                "import './other.js';\nexport async function execute() {}",
            ),
            ("own/other.js", "let a;\nlet a;"),
        ],
        "own/other.js:2:",
    );
    check(
        [(ENTRY, "const execute = 1;")],
        "own/handler.js the file does not export a function `execute`",
    );
    check(
        [(ENTRY, "export default async function execute() {}")],
        "own/handler.js the file does not export a function `execute`",
    );
    check(
        [(ENTRY, "export const execute = 1;")],
        "own/handler.js what the file exports as `execute` is no function",
    );
    check(
        [(ENTRY, &format!("\nimport fs from 'fs';\n{GOOD}"))],
        "own/handler.js:2:16 the import \"fs\" leads nowhere: there are no packages",
    );
    check(
        [(ENTRY, &format!("import {{ x }} from './none.js';\n{GOOD}"))],
        "own/handler.js:1:19 the import \"./none.js\" leads nowhere: there is no file own/none.js",
    );
    check(
        [
            (
                ENTRY,
                &format!("import {{ none }} from './other.js';\n{GOOD}"),
            ),
            ("own/other.js", "export const x = 1;"),
        ],
        "own/handler.js",
    );
    check(
        [(ENTRY, &format!("{GOOD}\nconst fs = require('fs');"))],
        "own/handler.js:2:12 ReferenceError: require is not defined",
    );
    check(
        [(ENTRY, &format!("{GOOD}\nthrow new TypeError('no');"))],
        "own/handler.js:2:11 TypeError: no",
    );
}

#[test]
fn what_does_not_end_at_the_top_is_a_flaw() {
    check(
        [(ENTRY, "export async function execute() {}\nfor (;;) {}")],
        "own/handler.js what stands at the top of the file does not end within",
    );
    check(
        [(
            ENTRY,
            "export async function execute() {}\nawait new Promise(() => {});",
        )],
        "own/handler.js what stands at the top of the file awaits what can never come",
    );
    check(
        [(
            ENTRY,
            "export async function execute() {}\nawait fetch('https://example.org');",
        )],
        "own/handler.js",
    );
}
