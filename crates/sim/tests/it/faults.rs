//! What goes wrong with the real service, on demand.

use crate::dialogue::{
    AT_ONCE, Dialogue, Do, LIVE, check, check_setup, gemini, output, scripted, setup_of, text,
};
use serde_json::json;
use std::time::Duration;

fn script(actions: &str) -> String {
    let lines: String = actions
        .lines()
        .map(|line| format!("  - {}\n", line.trim()))
        .collect();
    format!("{AT_ONCE}exchanges:\n- when: {{text: go}}\n  do:\n{lines}")
}

const LOOKUP: &str = "call lookup {\"n\":\"a\"}";
const END: [&str; 2] = ["generated", "turn over"];

#[test]
fn one_call_is_delivered_as_a_part_and_as_a_call() {
    let script =
        script("call: {name: lookup, args: {n: a}, deliver: both}\nexpect_response\nsay: ok");
    let mut dialogue = Dialogue::connect(scripted(&script), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_of(LIVE)));
    dialogue.act(&text("go"));
    assert_eq!(
        dialogue.lines,
        ["ready", "part lookup {\"n\":\"a\"}", LOOKUP]
    );
    assert_eq!(dialogue.calls[0], dialogue.calls[1]);
    // It is one call: one answer settles it, a second one belongs to nothing.
    dialogue.act(&Do::Answer(0, output(json!(1))));
    assert_eq!(dialogue.lines[3..], ["says: ok", "generated", "turn over"]);
    check(
        &script.replace("both", "part"),
        LIVE,
        &[text("go"), Do::Answer(0, output(json!(1)))],
        &[
            &["ready", "part lookup {\"n\":\"a\"}", "says: ok"][..],
            &END,
        ]
        .concat(),
    );
}

#[test]
fn a_call_is_repeated_under_its_id() {
    let script = script(
        "call: {name: lookup, args: {n: a}, id: same}\ncall: {name: lookup, args: {n: a}, id: same}\nexpect_response\nsay: ok",
    );
    check(
        &script,
        LIVE,
        &[text("go"), Do::Answer(1, output(json!(1)))],
        &[&["ready", LOOKUP, LOOKUP, "says: ok"][..], &END].concat(),
    );
}

#[test]
fn a_call_comes_with_an_empty_id_or_none() {
    for (id, sent) in [("\"\"", Some(json!(""))), ("null", None)] {
        let script = script(&format!(
            "call: {{name: lookup, args: {{n: a}}, id: {id}}}\nexpect_response\nsay: ok"
        ));
        let mut dialogue = Dialogue::connect(scripted(&script), &gemini()).unwrap();
        dialogue.act(&Do::Send(setup_of(LIVE)));
        dialogue.act(&text("go"));
        assert_eq!(dialogue.calls[0].get("id"), sent.as_ref());
        dialogue.act(&Do::Answer(0, output(json!(1))));
        assert_eq!(dialogue.lines[2], "says: ok");
    }
}

#[test]
fn audio_trails_a_call() {
    let script = script(
        "say: let me see\ncall: {name: lookup, args: {n: a}}\naudio_ms: 200\nexpect_response\nsay: ok",
    );
    let begin = ["ready", "says: let me see", LOOKUP];
    check(
        &script,
        LIVE,
        &[text("go")],
        &[&begin[..], &["audio"]].concat(),
    );
    // Audio without words joins the words that follow it.
    check(
        &script,
        LIVE,
        &[text("go"), Do::Answer(0, output(json!(1)))],
        &[&begin[..], &["says: ok"], &END].concat(),
    );
}

#[test]
fn the_turn_ends_before_the_result() {
    let script = script("call: {name: lookup, args: {n: a}}\nend_turn\nexpect_response\nsay: ok");
    check(
        &script,
        LIVE,
        &[text("go")],
        &["ready", LOOKUP, "turn over"],
    );
    check(
        &script,
        LIVE,
        &[text("go"), Do::Answer(0, output(json!(1)))],
        &[&["ready", LOOKUP, "turn over", "says: ok"][..], &END].concat(),
    );
}

#[test]
fn nothing_follows_a_result() {
    let script = script("call: {name: lookup, args: {n: a}}\nexpect_response\nleave_open");
    check(
        &script,
        LIVE,
        &[
            text("go"),
            Do::Answer(0, output(json!(1))),
            Do::WaitMs(60_000),
        ],
        &["ready", LOOKUP],
    );
}

#[test]
fn the_connection_closes_at_any_point_with_any_code() {
    for code in [1000, 1007, 1008, 1011, 4000] {
        let close = format!("close: {{code: {code}, reason: why}}");
        let closed = format!("closed {code} why");
        check(
            &script(&close),
            LIVE,
            &[text("go"), text("more")],
            &["ready", &closed],
        );
        check(
            &script(&format!(
                "call: {{name: lookup, args: {{n: a}}}}\nwait_ms: 50\n{close}"
            )),
            LIVE,
            &[text("go"), Do::WaitMs(50)],
            &["ready", LOOKUP, &closed],
        );
        let at_setup = format!("{AT_ONCE}exchanges:\n- when: setup\n  do:\n  - {close}\n");
        check(&at_setup, LIVE, &[], &["ready", &closed]);
        let before_setup =
            format!("settings: {{setup: {{close: {{code: {code}, reason: why}}}}}}\n");
        check(&before_setup, LIVE, &[], &[&closed]);
    }
    check(
        &script("say: half\ndrop"),
        LIVE,
        &[text("go")],
        &["ready", "says: half", "dropped"],
    );
    check(
        &script("say: half\nhalf_frame: {toolCall: {}}\nsay: never"),
        LIVE,
        &[text("go"), text("more")],
        &["ready", "says: half", r#"dropped within {"toolCall":{}}"#],
    );
}

#[test]
fn so_many_connections_are_turned_away_and_the_next_is_let_in() {
    let script = script("refuse_connects: 2\ndrop");
    let mut dialogue = Dialogue::connect(scripted(&script), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_of(LIVE)));
    dialogue.act(&text("go"));
    assert_eq!(dialogue.lines, ["ready", "dropped"]);
    for _ in 0..2 {
        let refusal = dialogue.reconnect(&gemini()).unwrap_err();
        assert_eq!(refusal.http_status, 503);
    }
    dialogue.reconnect(&gemini()).unwrap();
}

#[test]
fn the_setup_is_never_answered() {
    check(
        "settings: {setup: ignore}\n",
        LIVE,
        &[text("hi"), Do::WaitMs(60_000)],
        &[],
    );
}

#[test]
fn the_upgrade_is_refused() {
    let refusal = Dialogue::connect(scripted("settings: {upgrade_status: 503}\n"), &gemini())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(refusal.http_status, 503);
}

#[test]
fn the_end_is_announced_and_then_comes() {
    let script = script("go_away_ms: 2500\nsay: soon");
    let deadline = "closed 1011 Deadline expired before operation could complete.";
    check(
        &script,
        LIVE,
        &[text("go"), Do::WaitMs(2_499)],
        &[&["ready", "go away 2.500s", "says: soon"][..], &END].concat(),
    );
    check(
        &script,
        LIVE,
        &[text("go"), Do::WaitMs(2_500)],
        &[
            &["ready", "go away 2.500s", "says: soon"][..],
            &END,
            &[deadline],
        ]
        .concat(),
    );
}

#[test]
fn a_slow_server_stops_reading() {
    let mut dialogue = Dialogue::connect(scripted(&script("stall_ms: 9000")), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_of(LIVE)));
    dialogue.act(&text("go"));
    assert_eq!(
        dialogue.stalled,
        Some(dialogue.now + Duration::from_millis(9_000))
    );
}

#[test]
fn usage_alone_empty_content_unknown_fields_and_rubbish_are_sent_as_written() {
    let script = script(
        "raw: {usageMetadata: {totalTokenCount: 3}}\nraw: {serverContent: {}}\nraw: {serverContent: {novelty: 1}}\n\
         raw: {sessionResumptionUpdate: {}}\nraw_text: '{\"serverContent\":'\nraw: [1]\nsay: ok",
    );
    check(
        &script,
        LIVE,
        &[text("go")],
        &[
            &[
                "ready",
                "empty",
                "novelty 1",
                "no handle",
                "{\"serverContent\":",
                "[1]",
                "says: ok",
            ][..],
            &END,
        ]
        .concat(),
    );
}

#[test]
fn a_call_in_a_raw_frame_is_a_call() {
    let script = script(
        "raw: {toolCall: {functionCalls: [{id: r1, name: lookup, args: {n: a}}]}}\nexpect_response\nsay: \"{result.output}\"",
    );
    check(
        &script,
        LIVE,
        &[text("go"), Do::Answer(0, output(json!("fine")))],
        &[&["ready", LOOKUP, "says: fine"][..], &END].concat(),
    );
    let cancelled = script.replace(
        "- expect_response",
        "- raw: {toolCallCancellation: {ids: [r1]}}\n  - expect_response",
    );
    let cancelled = cancelled.replace("say: \"{result.output}\"", "say: gone");
    check(
        &cancelled,
        LIVE,
        &[text("go"), Do::Answer(0, output(json!(1)))],
        &[&["ready", LOOKUP, "cancelled 0", "says: gone"][..], &END].concat(),
    );
}

#[test]
fn a_flood_comes_at_once() {
    let mut dialogue = Dialogue::connect(scripted(&script("flood: 5000")), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_of(LIVE)));
    dialogue.act(&text("go"));
    assert_eq!(dialogue.frames.len(), 1 + 5_000 + 2);
    check_setup(
        &script("flood: 1"),
        &gemini(),
        &setup_of(LIVE),
        &[text("go")],
        &["ready", "audio", "generated", "turn over"],
    );
}
