//! Sessions that were recorded with the real service: every frame of it is understood, our answers have the recorded
//! shape, and no damage to a frame is fatal.

use crate::{Said, codec, decode, encode, to_snake_case};
use serde_json::{Value, json};
use std::path::PathBuf;
use windlass_contract::envelope::{Projection, ProjectionBody};
use windlass_provider::gemini_live::{Codec, DeclaredTools, encode_setup};
use windlass_provider::profile;
use windlass_session::model::{
    HistoryEntry, IncomingCall, ModelCommand, ModelEvent, ModelToolResponse, Role,
};

const MODEL: &str = "gemini-2.5-flash-native-audio-preview-09-2025";

struct Recording {
    name: String,
    sent: Vec<Value>,
    received: Vec<Value>,
}

/// The recorded sessions, in the order of their names; none where the fixtures are not at hand.
fn recordings() -> Vec<Recording> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/realtime");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no recorded sessions at {}", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("google-") && name.ends_with(".yaml")
        })
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no session", folder.display());
    paths.iter().map(read).collect()
}

/// What the service sent in each of them.
pub(crate) fn received() -> Vec<Vec<Value>> {
    recordings()
        .into_iter()
        .map(|recording| recording.received)
        .collect()
}

fn read(path: &PathBuf) -> Recording {
    let text = std::fs::read_to_string(path).unwrap();
    let recording: Value = serde_saphyr::from_str(&text).unwrap();
    let side = |direction: &str| {
        recording["interactions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["direction"] == direction)
            .map(|message| message["data"].clone())
            .collect()
    };
    Recording {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        sent: side("sent"),
        received: side("received"),
    }
}

fn said(frames: &[String]) -> Vec<Said> {
    let mut codec = codec(MODEL);
    frames
        .iter()
        .flat_map(|frame| decode(&mut codec, frame.as_bytes()))
        .collect()
}

#[test]
fn every_recorded_frame_is_understood_in_either_spelling_and_layout() {
    for recording in recordings() {
        let frames = |write: &dyn Fn(&Value) -> String| {
            recording.received.iter().map(write).collect::<Vec<_>>()
        };
        let compact = said(&frames(&Value::to_string));
        let pretty = said(&frames(&|frame| {
            serde_json::to_string_pretty(frame).unwrap()
        }));
        let snake = said(&frames(&|frame| to_snake_case(frame).to_string()));
        assert!(
            !compact.iter().any(|said| matches!(
                said,
                Said::Event(ModelEvent::Malformed { .. } | ModelEvent::Unknown { .. })
            )),
            "{}: {compact:?}",
            recording.name
        );
        assert_eq!(compact, pretty, "{}", recording.name);
        assert_eq!(compact, snake, "{}", recording.name);
        assert!(
            matches!(compact.first(), Some(Said::Event(ModelEvent::Ready { .. }))),
            "{}",
            recording.name
        );
        assert!(
            matches!(
                compact.last(),
                Some(Said::Event(ModelEvent::TurnComplete { idle: true, .. }))
            ),
            "{}",
            recording.name
        );
    }
}

#[test]
fn no_thought_is_among_what_was_said() {
    for recording in recordings() {
        let frames: Vec<String> = recording.received.iter().map(Value::to_string).collect();
        assert!(
            !said(&frames)
                .iter()
                .any(|said| matches!(said, Said::Event(ModelEvent::OutputText { .. }))),
            "{}",
            recording.name
        );
    }
}

/// The calls of a recorded session, as the codec reads them.
fn recorded_calls(recording: &Recording) -> (Codec, Vec<IncomingCall>) {
    let mut codec = codec(MODEL);
    let mut calls = Vec::new();
    for frame in &recording.received {
        for said in decode(&mut codec, frame.to_string().as_bytes()) {
            if let Said::Event(ModelEvent::Calls(more)) = said {
                calls.extend(more);
            }
        }
    }
    (codec, calls)
}

#[test]
fn our_answer_to_a_recorded_call_has_the_recorded_shape() {
    for recording in recordings() {
        let (mut codec, calls) = recorded_calls(&recording);
        let answers: Vec<&Value> = recording
            .sent
            .iter()
            .filter_map(|frame| frame.get("tool_response"))
            .collect();
        assert_eq!(calls.len(), answers.len(), "{}", recording.name);
        for (call, answer) in calls.iter().zip(answers) {
            assert_eq!(
                call.arguments.as_ref().unwrap().to_value()["zqx_measurement"],
                json!(5)
            );
            let name = call.name.clone().unwrap();
            let command = ModelCommand::ToolResponses(vec![ModelToolResponse {
                id: call.id.clone(),
                name: name.clone(),
                projection: Projection {
                    duration_ms: 1,
                    body: ProjectionBody::Success {
                        data: Some(json!("Recorded 5 (steady).").into()),
                        content: vec![],
                        cut: None,
                        quoted: false,
                    },
                },
                scheduling: None,
            }]);
            let frames = encode(&mut codec, &command);
            let mut ours = frames[0]["toolResponse"].clone();
            // What the model reads is ours to choose; where it stands is not.
            let output = ours["functionResponses"][0]["response"]["output"].take();
            assert_eq!(
                output,
                json!({"status": "success", "data": "Recorded 5 (steady)."})
            );
            ours["functionResponses"][0]["response"]["output"] = json!("Recorded 5 (steady).");
            assert_eq!((frames.len(), &ours), (1, answer), "{}", recording.name);
        }
    }
}

#[test]
fn our_setup_holds_no_field_that_the_recorded_ones_contradict() {
    for recording in recordings() {
        let recorded = &recording.sent[0]["setup"];
        let tools = DeclaredTools::default();
        let mut frame = Vec::new();
        let request = crate::setup::plain_request(&tools, recorded["model"].as_str().unwrap());
        encode_setup(
            &request,
            &profile::gemini_live(MODEL).profile.model,
            &mut frame,
        );
        let ours: Value = serde_json::from_slice(&frame).unwrap();
        for field in [
            "model",
            "generationConfig",
            "inputAudioTranscription",
            "outputAudioTranscription",
        ] {
            assert_eq!(
                ours["setup"][field], recorded[field],
                "{}: {field}",
                recording.name
            );
        }
    }
}

#[test]
fn our_history_has_the_shape_of_the_recorded_seed() {
    for recording in recordings() {
        let seeds: Vec<&Value> = recording
            .sent
            .iter()
            .filter_map(|frame| frame.get("client_content"))
            .collect();
        let [seed, question] = seeds[..] else {
            continue;
        };
        let mut entries = Vec::new();
        for turn in [seed, question]
            .iter()
            .flat_map(|content| content["turns"].as_array().unwrap())
        {
            entries.push(HistoryEntry {
                role: if turn["role"] == "user" {
                    Role::User
                } else {
                    Role::Assistant
                },
                text: turn["parts"][0]["text"].as_str().unwrap().to_owned().into(),
            });
        }
        let command = ModelCommand::History {
            entries,
            answer_now: true,
        };
        let frames = encode(&mut codec(MODEL), &command);
        let [frame] = &frames[..] else {
            panic!("{frames:?}");
        };
        let turns = frame["clientContent"]["turns"].as_array().unwrap();
        // Behind our marker stand the recorded turns, the question last and complete.
        let recorded: Vec<&Value> = seed["turns"]
            .as_array()
            .unwrap()
            .iter()
            .chain(question["turns"].as_array().unwrap())
            .collect();
        assert_eq!(turns.iter().skip(1).collect::<Vec<_>>(), recorded);
        assert_eq!(frame["clientContent"]["turnComplete"], json!(true));
    }
}

#[test]
fn no_prefix_of_a_frame_and_no_damage_to_it_is_fatal() {
    let mut frames: Vec<String> = recordings()
        .iter()
        .flat_map(|recording| recording.received.iter().map(Value::to_string))
        .filter(|frame| !frame.contains("inlineData"))
        .collect();
    frames.sort();
    frames.dedup();
    // One of every kind that the recordings lack.
    frames.extend(
        [
            json!({"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "AAEC/w=="}}]}}}),
            json!({"serverContent": {"turnComplete": true, "interactionStatus": "IDLE", "turnCompleteReason": "BLOCKLIST"}}),
            json!({"toolCall": {"functionCalls": [{"id": "c1", "name": "f", "args": "{\"a\":1}"}]}}),
            json!({"toolCallCancellation": {"ids": ["c1"]}}),
            json!({"goAway": {"timeLeft": "9.5s"}, "sessionResumptionUpdate": {"newHandle": "h", "resumable": true}}),
            json!({"voiceActivity": {"type": "ACTIVITY_START"}, "usageMetadata": {"totalTokenCount": "7"}}),
        ]
        .iter()
        .map(Value::to_string),
    );
    let mut codec = codec(MODEL);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for frame in &frames {
        let bytes = frame.as_bytes();
        for end in 0..bytes.len() {
            let said = decode(&mut codec, &bytes[..end]);
            assert!(
                matches!(said[..], [Said::Event(ModelEvent::Malformed { .. })]),
                "{} bytes of {frame}: {said:?}",
                end
            );
        }
        for _ in 0..300 {
            let mut damaged = bytes.to_vec();
            for _ in 0..=seed % 3 {
                // Xorshift, which needs no randomness from outside.
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let place = usize::try_from(seed >> 32).unwrap() % damaged.len();
                damaged[place] = seed.to_le_bytes()[0];
            }
            decode(&mut codec, &damaged);
        }
    }
}
