//! Whatever a client sends, the server answers or closes; it never panics and never says more than it must.

use crate::dialogue::{Dialogue, Do, LIVE, NATIVE, gemini, scripted, setup_of, text};
use serde_json::{Value, json};
use windlass_sim::runner::Input;

const SCRIPT: &str = "settings: {speed: 0, await_playback: false}\nexchanges:\n- when: any\n  do:\n  - call: {name: lookup}\n  - expect_response\n  - say: \"{result}\"\n";

fn messages(model: &str) -> Vec<Value> {
    vec![
        setup_of(model),
        json!({"client_content": {"turns": [{"role": "user", "parts": [{"text": "hi"}]}], "turnComplete": true}}),
        json!({"realtimeInput": {"audio": {"data": "AAAAAAAA", "mimeType": "audio/pcm;rate=16000"}}}),
        json!({"toolResponse": {"functionResponses": [{"id": "x", "name": "f", "response": {"output": [1, {"a": null}]}, "scheduling": "SILENT"}]}}),
        json!({"contextUpdate": {"tools": {"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}]}}}),
    ]
}

/// Feeds one message to a fresh connection, set up where the message is no setup itself.
fn feed(model: &str, bytes: &[u8], set_up: bool) {
    let mut dialogue = Dialogue::connect(scripted(SCRIPT), &gemini()).unwrap();
    if set_up {
        dialogue.act(&Do::Send(setup_of(model)));
        dialogue.act(&text("go"));
    }
    let mut out = Vec::new();
    dialogue
        .server
        .handle(dialogue.now, dialogue.id, Input::Frame(bytes), &mut out);
    assert!(out.len() < 1_000);
}

#[test]
fn every_prefix_of_a_message_is_survived() {
    for message in messages(LIVE) {
        let text = message.to_string();
        for end in (0..text.len()).step_by(3) {
            feed(
                LIVE,
                &text.as_bytes()[..end],
                message.get("setup").is_none(),
            );
        }
    }
}

#[test]
fn every_message_with_changed_bytes_is_survived() {
    // A linear congruential generator (Knuth, MMIX) is random enough, and the same in every run.
    let mut state: u64 = 7;
    let mut next = |limit: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    for model in [LIVE, NATIVE] {
        for message in messages(model) {
            let original = message.to_string().into_bytes();
            for _ in 0..400 {
                let mut bytes = original.clone();
                for _ in 0..=next(3) {
                    let place = next(bytes.len());
                    bytes[place] = b"{}[]\",:0-.eE\\tfn \xff\x00_A"[next(21)];
                }
                feed(model, &bytes, message.get("setup").is_none());
            }
        }
    }
}

#[test]
fn deep_nesting_and_great_length_are_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    feed(LIVE, deep.as_bytes(), true);
    feed(
        LIVE,
        format!("{{\"toolResponse\":{{\"x\":{deep}}}}}").as_bytes(),
        true,
    );
    let mut dialogue = Dialogue::connect(scripted(SCRIPT), &gemini()).unwrap();
    let mut out = Vec::new();
    dialogue.server.handle(
        dialogue.now,
        dialogue.id,
        Input::Frame(&vec![b' '; 17 << 20]),
        &mut out,
    );
    assert!(matches!(
        &out[..],
        [windlass_sim::runner::Output::Close { code: 1009, .. }]
    ));
}

#[test]
fn a_huge_result_makes_no_huge_frame() {
    let huge = "x".repeat(3 << 20);
    for script in [
        SCRIPT,
        &SCRIPT.replace(
            "say: \"{result}\"",
            "call: {name: lookup, args: {n: \"{result.output}\"}}",
        ),
    ] {
        let mut dialogue = Dialogue::connect(scripted(script), &gemini()).unwrap();
        dialogue.act(&Do::Send(setup_of(NATIVE)));
        dialogue.act(&text("go"));
        // That every frame is below 1 MiB is checked as it arrives.
        dialogue.act(&Do::Answer(0, json!({"response": {"output": huge}})));
        assert!(dialogue.lines.len() > 2);
    }
}
