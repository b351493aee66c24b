//! Sessions that are taken up again on another connection.

use crate::dialogue::{Dialogue, Do, FLASH, LIVE, gemini, output, scripted, setup_with, text};
use serde_json::{Value, json};

const SCRIPT: &str = "settings: {speed: 0, await_playback: false}\nexchanges:\n\
    - when: {text: call}\n  do:\n  - call: {name: lookup}\n  - expect_response\n  - say: done\n\
    - when: resumed\n  do:\n  - say: \"again: {remembered}\"\n\
    - when: any\n  do:\n  - say: \"turn {heard}\"\n";

fn setup(model: &str, handle: Option<&str>) -> Do {
    let resumption = handle.map_or(json!({}), |handle| json!({ "handle": handle }));
    let tools = json!([{"functionDeclarations": [{"name": "lookup", "behavior": "BLOCKING"}]}]);
    Do::Send(setup_with(
        model,
        json!({"sessionResumption": resumption, "outputAudioTranscription": {}, "tools": tools}),
    ))
}

fn begun(script: &str) -> Dialogue {
    let mut dialogue = Dialogue::connect(scripted(script), &gemini()).unwrap();
    dialogue.act(&setup(LIVE, None));
    dialogue.act(&text("one"));
    dialogue.act(&text("two"));
    dialogue
}

#[test]
fn handles_come_when_nothing_is_under_way() {
    let mut dialogue = begun(SCRIPT);
    assert_eq!(
        dialogue.lines[..7],
        [
            "ready",
            "handle",
            "no handle",
            "says: turn one",
            "generated",
            "turn over",
            "handle"
        ]
    );
    dialogue.lines.clear();
    dialogue.act(&text("call"));
    assert_eq!(dialogue.lines, ["no handle", "call lookup {}"]);
    dialogue.act(&Do::Answer(0, output(json!(1))));
    assert_eq!(
        dialogue.lines[2..],
        ["says: done", "generated", "turn over", "handle"]
    );
    let mut plain = Dialogue::connect(scripted(SCRIPT), &gemini()).unwrap();
    plain.act(&Do::Send(setup_with(LIVE, json!({}))));
    assert_eq!(plain.lines, ["ready"]);
}

#[test]
fn a_handle_restores_the_conversation_up_to_where_it_was_made() {
    for (handle, remembered) in [(2, "one; two"), (1, "one"), (0, "")] {
        let mut dialogue = begun(SCRIPT);
        dialogue.act(&Do::Hang);
        let handle = dialogue.handles[handle].clone();
        dialogue.reconnect(&gemini()).unwrap();
        dialogue.act(&setup(LIVE, Some(&handle)));
        let says = format!("says: again: {remembered}");
        assert_eq!(
            dialogue.lines,
            [
                "ready",
                "handle",
                "no handle",
                says.trim_end_matches(' '),
                "generated",
                "turn over",
                "handle"
            ]
        );
    }
}

#[test]
fn a_handle_is_refused_while_its_connection_lives() {
    let mut dialogue = begun(SCRIPT);
    let handle = dialogue.handles.last().unwrap().clone();
    let old = dialogue.reconnect(&gemini()).unwrap();
    dialogue.act(&setup(LIVE, Some(&handle)));
    assert_eq!(dialogue.lines, ["closed 1011 Internal error occurred."]);
    assert!(dialogue.server.is_open(old));
}

#[test]
fn an_unknown_handle_is_refused_as_the_script_says() {
    for (script, code) in [
        (SCRIPT.to_owned(), 1008),
        (
            SCRIPT.replace("speed: 0", "speed: 0, unknown_handle_code: 1007"),
            1007,
        ),
    ] {
        for handle in ["gone", "sim-00000009-0001", "sim-zz-1", "sim--"] {
            let mut dialogue = begun(&script);
            dialogue.reconnect(&gemini()).unwrap();
            dialogue.act(&setup(LIVE, Some(handle)));
            assert_eq!(
                dialogue.lines,
                [format!(
                    "closed {code} BidiGenerateContent session not found"
                )]
            );
        }
    }
}

#[test]
fn a_handle_of_another_model_is_refused() {
    let mut dialogue = begun(SCRIPT);
    dialogue.act(&Do::Hang);
    let handle = dialogue.handles.last().unwrap().clone();
    dialogue.reconnect(&gemini()).unwrap();
    dialogue.act(&setup(FLASH, Some(&handle)));
    assert_eq!(
        dialogue.lines,
        ["closed 1007 Request contains an invalid argument."]
    );
}

#[test]
fn a_handle_is_good_for_two_hours() {
    for (minutes, lives) in [(119, true), (121, false)] {
        let mut dialogue = begun(SCRIPT);
        dialogue.act(&Do::Hang);
        dialogue.act(&Do::WaitMs(minutes * 60_000));
        let handle = dialogue.handles.last().unwrap().clone();
        dialogue.reconnect(&gemini()).unwrap();
        dialogue.act(&setup(LIVE, Some(&handle)));
        assert_eq!(dialogue.lines[0] == "ready", lives, "{minutes}");
    }
}

#[test]
fn a_resumed_session_may_die_again_and_again() {
    let script = SCRIPT.replace(
        "say: \"again: {remembered}\"",
        "close: {code: 1011, reason: again}",
    );
    let mut dialogue = begun(&script);
    dialogue.act(&Do::Hang);
    for _ in 0..3 {
        let handle = dialogue.handles.last().unwrap().clone();
        dialogue.reconnect(&gemini()).unwrap();
        dialogue.act(&setup(LIVE, Some(&handle)));
        assert_eq!(dialogue.lines, ["ready", "handle", "closed 1011 again"]);
    }
}

#[test]
fn a_call_of_the_old_connection_is_unknown_to_the_new_one() {
    let mut dialogue = begun(SCRIPT);
    let handle = dialogue.handles.last().unwrap().clone();
    dialogue.act(&text("call"));
    let id: Value = dialogue.calls[0]["id"].clone();
    dialogue.act(&Do::Hang);
    dialogue.reconnect(&gemini()).unwrap();
    dialogue.act(&setup(LIVE, Some(&handle)));
    dialogue.lines.clear();
    dialogue.act(&Do::Send(json!({"toolResponse": {"functionResponses": [{"id": id, "name": "lookup", "response": {}}]}})));
    assert_eq!(
        dialogue.lines,
        ["closed 1008 Requested entity was not found."]
    );
}

#[test]
fn a_connection_is_closed_at_58_minutes_and_its_session_may_be_refused() {
    let mut dialogue = begun(SCRIPT);
    dialogue.lines.clear();
    dialogue.act(&Do::WaitMs(58 * 60_000 - 1_000));
    assert_eq!(dialogue.lines.len(), 0, "{:?}", dialogue.lines);
    dialogue.act(&Do::WaitMs(1_000));
    let closed = "closed 1011 Deadline expired before operation could complete.";
    assert_eq!(dialogue.lines, [closed]);
    let script = SCRIPT.replace("speed: 0", "speed: 0, refuse_resumption: true");
    let mut dialogue = begun(&script);
    dialogue.act(&Do::Hang);
    let handle = dialogue.handles.last().unwrap().clone();
    dialogue.reconnect(&gemini()).unwrap();
    dialogue.act(&setup(LIVE, Some(&handle)));
    let refused = "closed 1007 Request contains an invalid argument.";
    assert_eq!(dialogue.lines, [refused]);
}
