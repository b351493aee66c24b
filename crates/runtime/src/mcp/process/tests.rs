//! The line of a server that ended which says best why.

use super::*;

#[test]
fn the_line_that_names_the_cause_is_told() {
    let node = "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module 'zod'\n    at Function.load (loader:1:1) {\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v20.20.2";
    let python = "Traceback (most recent call last):\n  File \"<string>\", line 1\nModuleNotFoundError: No module named 'nope'";
    for (written, told) in [
        (node, "Error: Cannot find module 'zod'"),
        (python, "ModuleNotFoundError: No module named 'nope'"),
        (
            "starting\nerror: no such option --port\nusage: server",
            "error: no such option --port",
        ),
        ("Error: one\nError: two\nbye", "Error: two"),
        (
            "notes: error [OLD_NODE] Node is too old\nsee the manual",
            "notes: error [OLD_NODE] Node is too old",
        ),
        (
            "notes: error [OLD_NODE]\nProblem: Node 18 is too old\nCure: install Node 22",
            "Problem: Node 18 is too old",
        ),
        ("starting\nno token is set", "no token is set"),
        ("no token is set\n\n", "no token is set"),
        ("", ""),
    ] {
        let mut words = LastWords::default();
        written.lines().for_each(|line| words.hear(&shown(line)));
        assert_eq!(words.line, told, "{written}");
    }
}
