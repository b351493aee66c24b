//! The programs in `examples/` run, and show what they are there to show.

use crate::documents::{blocks_in, read, root};
use std::fs;

#[path = "../../../../examples/one_tool.rs"]
mod one_tool;
#[path = "../../../../examples/simulated_voice_session.rs"]
mod simulated_voice_session;
#[path = "../../../../examples/subscriptions.rs"]
mod subscriptions;

/// Lines that must come in this order, among others.
fn check(output: Vec<u8>, expected: &[&str]) {
    let text = String::from_utf8(output).unwrap();
    let mut rest = text.as_str();
    for part in expected {
        let Some((_, behind)) = rest.split_once(part) else {
            panic!("there is no {part:?} in what is left:\n{rest}\nof:\n{text}");
        };
        rest = behind;
    }
}

#[test]
fn one_tool_answers_a_good_call_and_refuses_a_bad_one() {
    let mut output = Vec::new();
    one_tool::run(&mut output).unwrap();
    check(
        output,
        &[
            "convert_distance {\"value\":300}",
            "\"ok\": true",
            "\"value\": 555.6",
            "\"defaultsApplied\": [\n      \"/to\"",
            "\"ok\": false",
            "\"type\": \"VALIDATION\"",
            "/unit: there is no argument named `unit`",
        ],
    );
    one_tool::main().unwrap();
}

#[test]
fn callbacks_hear_of_calls_turns_and_the_tools_own_events() {
    let mut output = Vec::new();
    subscriptions::run(&mut output).unwrap();
    check(
        output,
        &[
            "converted 300 nautical miles",
            "call convert_distance Finished, ok: true",
            "turn 1 is over, calls: 1",
            "call convert_distance Rejected, ok: false",
            "turn 2 is over, calls: 1",
            "session session-1 ended: Stopped",
        ],
    );
    subscriptions::main().unwrap();
}

#[test]
fn the_simulated_session_searches_reads_cites_and_ends_after_its_farewell() {
    let mut output = Vec::new();
    simulated_voice_session::run(&mut output).unwrap();
    check(
        output,
        &[
            "user: Who designed the ship Fram?",
            "call-1 kb_search",
            "call-1 ok",
            "call-2 kb_get",
            "call-2 ok",
            "Colin Archer",
            "turn 1 is over: 2 calls",
            "user: Let's stop here.",
            "call-3 end_voice_session",
            "turn 2 is over: 1 calls",
            "the session ends: user_requested",
        ],
    );
    simulated_voice_session::main().unwrap();
}

#[test]
fn what_is_shown_of_embedding_is_in_the_examples() {
    const PAGE: &str = "docs/embedding.md";
    let shown = |language| {
        let blocks = blocks_in(PAGE, language);
        let [block] = blocks.as_slice() else {
            panic!("{PAGE} has {} blocks of {language}", blocks.len());
        };
        block.text.clone()
    };
    let tool = "examples/tools/convert-distance";
    assert_eq!(shown("json"), read(&format!("{tool}/schema.json")));
    assert_eq!(shown("markdown"), read(&format!("{tool}/guide.md")));
    let sources = [
        "crates/app/src/project/templates/rust/main.rs",
        "examples/one_tool.rs",
        "examples/subscriptions.rs",
    ]
    .map(read);
    let blocks = blocks_in(PAGE, "rust");
    assert_eq!(blocks.len(), sources.len());
    for block in blocks {
        let is_real = sources.iter().any(|source| source.contains(&block.text));
        assert!(is_real, "{} is in no example", block.place);
    }
}

#[test]
fn every_script_line_in_the_policies_is_of_a_test_of_the_core() {
    let scripts: Vec<Vec<String>> = fs::read_dir(root().join("crates/session/tests/it"))
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
        .map(|text| text.lines().map(|line| line.trim().to_owned()).collect())
        .collect();
    let mut shown = 0;
    for block in blocks_in("docs/policies.md", "text") {
        let lines: Vec<&str> = block.text.lines().collect();
        let is_known = scripts
            .iter()
            .any(|script| script.windows(lines.len()).any(|window| window == lines));
        assert!(is_known, "no test has the script of {}", block.place);
        shown += 1;
    }
    assert!(shown > 2, "docs/policies.md shows only {shown} scripts");
}
