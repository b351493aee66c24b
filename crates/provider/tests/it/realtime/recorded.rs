//! Sessions that were recorded with the real service: every event of them is understood, and what we would have sent has the
//! recorded shape.

use super::Talk;
use serde_json::Value;
use std::path::PathBuf;

/// What the service sent in each recorded session, by the session's name; nothing where the fixtures are not at hand.
pub(super) fn recordings() -> Vec<(String, Vec<Value>)> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/realtime");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no recorded sessions at {}", folder.display());
        return Vec::new();
    };
    let mut recordings = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("openai-") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let recording: Value = serde_saphyr::from_str(&text).unwrap();
        let received = recording["interactions"].as_array().unwrap().iter();
        let received = received.filter(|message| message["direction"] == "received");
        recordings.push((
            name,
            received.map(|message| message["data"].clone()).collect(),
        ));
    }
    assert_eq!(recordings.len(), 4);
    recordings
}

/// The log without lengths of audio and numbers of tokens, and with what repeats said once.
fn summary(log: &[String]) -> String {
    let mut words: Vec<&str> = log
        .iter()
        .map(|word| word.split(':').next().unwrap())
        .collect();
    words.dedup();
    words.join(" ")
}

#[test]
fn every_recorded_event_is_understood() {
    for (name, events) in recordings() {
        let mut talk = Talk::new();
        for event in &events {
            talk.hears(event);
        }
        let expected = match name.as_str() {
            "openai-audio_in_server_vad_turn.yaml" => {
                "ready speech quiet says audio pcm says pcm says pcm says pcm user pcm usage generated end"
            }
            "openai-message_history_seeding.yaml" => "ready text usage generated end",
            "openai-text_in_audio_out_turn.yaml" => "ready says audio pcm usage generated end",
            "openai-tool_call_round.yaml" => "ready usage calls generated text usage generated end",
            other => panic!("no expectation for {other}"),
        };
        let summary = summary(&talk.log);
        if name.contains("server_vad") {
            // How words and audio alternate is the service's affair.
            assert!(summary.starts_with("ready speech quiet says"), "{summary}");
            assert!(summary.contains(" user "), "{summary}");
            assert!(summary.ends_with("usage generated end"), "{summary}");
            assert!(!summary.contains("unknown") && !summary.contains("malformed"));
        } else {
            assert_eq!(summary, expected, "{name}");
        }
    }
}
