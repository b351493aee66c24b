//! The simulator beside recordings of the real service: what the clients sent is understood, and what comes back has
//! the recorded shape. Skips, with a notice, where the recordings are not at hand.

use crate::dialogue::{Dialogue, Do, gemini, scripted};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

#[derive(Deserialize)]
struct Recording {
    interactions: Vec<Interaction>,
}

#[derive(Deserialize)]
struct Interaction {
    direction: String,
    data: Value,
}

/// The fields of a message by path, list positions left out, and the type of each leaf.
fn shape(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) if map.is_empty() => {
            into.insert(format!("{path} {{}}"));
        }
        Value::Object(map) => map
            .iter()
            .for_each(|(key, inner)| shape(inner, &format!("{path}.{key}"), into)),
        Value::Array(items) => items
            .iter()
            .for_each(|item| shape(item, &format!("{path}[]"), into)),
        Value::String(_) => drop(into.insert(format!("{path} text"))),
        Value::Number(_) => drop(into.insert(format!("{path} number"))),
        Value::Bool(flag) => drop(into.insert(format!("{path} {flag}"))),
        Value::Null => drop(into.insert(format!("{path} null"))),
    }
}

fn check(name: &str, script: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/fixtures/realtime")
        .join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: there is no recording {}", path.display());
        return;
    };
    let recording: Recording = serde_saphyr::from_str(&text).unwrap();
    let mut dialogue = Dialogue::connect(scripted(script), &gemini()).unwrap();
    let mut recorded = BTreeSet::new();
    for interaction in recording.interactions {
        if interaction.direction == "received" {
            shape(&interaction.data, "", &mut recorded);
            continue;
        }
        let mut message = interaction.data;
        if let Some(id) = message.pointer_mut("/tool_response/functionResponses/0/id") {
            *id = dialogue.calls[0]["id"].clone();
        }
        dialogue.act(&Do::Send(message));
    }
    let mut simulated = BTreeSet::new();
    for frame in &dialogue.frames {
        shape(&serde_json::from_slice(frame).unwrap(), "", &mut simulated);
    }
    // The simulator need not say all that was recorded, but nothing else.
    let strange: Vec<&String> = simulated.difference(&recorded).collect();
    assert!(strange.is_empty(), "{name}: {strange:?}");
    let ends = [
        ".serverContent.turnComplete true",
        ".serverContent.generationComplete true",
        ".setupComplete {}",
    ];
    assert!(
        ends.iter().all(|end| simulated.contains(*end)),
        "{name}: {simulated:?}"
    );
}

const FAST: &str = "settings: {speed: 0, await_playback: false}\nexchanges:\n";

#[test]
fn a_text_turn_has_the_recorded_shape() {
    check(
        "google-text_in_audio_out_turn.yaml",
        &format!("{FAST}- when: any\n  do:\n  - say: Hello there.\n"),
    );
}

#[test]
fn a_tool_call_round_has_the_recorded_shape() {
    check(
        "google-tool_call_round.yaml",
        &[
            FAST,
            "- when: {text: record}",
            "  do:",
            "  - call: {name: record_reading, args: {zqx_measurement: 5, qbf_note: steady}}",
            "  - expect_response",
            "  - say: I have recorded it.",
        ]
        .join("\n"),
    );
}

#[test]
fn seeded_history_has_the_recorded_shape() {
    check(
        "google-message_history_seeding.yaml",
        &format!("{FAST}- when: any\n  do:\n  - say: \"Your name is in: {{remembered}}\"\n"),
    );
}
