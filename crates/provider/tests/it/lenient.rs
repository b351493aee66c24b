//! No frame is all or nothing: a field of a wrong type costs itself, and a session goes on whatever came.

use crate::mutation::{Mutations, places, variants};
use crate::recorded::received;
use crate::{Said, codec, decode};
use serde_json::{Value, json};
use windlass_session::model::ModelEvent;

const MODEL: &str = "gemini-3.8-live";

/// Frames as the service documents them, where the recordings have none.
fn published() -> Vec<Value> {
    vec![
        json!({"setupComplete": {"sessionId": "s1", "voiceConsentSignature": {"signature": "x"}}}),
        json!({"toolCall": {"functionCalls": [{"id": "c1", "name": "look", "args": {"q": 1}}]}, "usageMetadata": {"promptTokenCount": 1,
            "totalTokenCount": "3", "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 1}]}}),
        json!({"toolCallCancellation": {"ids": ["c0"]}}),
        json!({"serverContent": {"inputTranscription": {"text": "Hi", "languageCode": "en", "finished": true}}}),
        json!({"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": "Hm", "thought": true, "thoughtSignature": "eA=="}, {"text": "Hi"},
            {"executableCode": {"language": "PYTHON", "code": "1"}}, {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "AAAA"}}]},
            "groundingMetadata": {"groundingChunks": [{"web": {"uri": "u", "title": "t"}}]}, "urlContextMetadata": {"urlMetadata": []}}}),
        json!({"serverContent": {"outputTranscription": {"text": "Hi", "words": [{"word": "Hi"}]}, "generationComplete": true}}),
        json!({"serverContent": {"turnComplete": true, "turnCompleteReason": "NEED_MORE_INPUT", "interactionStatus": "IDLE"},
            "usageMetadata": {"responseTokenCount": 4, "trafficType": "ON_DEMAND"}}),
        json!({"sessionResumptionUpdate": {"newHandle": "h", "resumable": true, "lastConsumedClientMessageIndex": "4"}}),
        json!({"voiceActivity": {"type": "ACTIVITY_START", "audioOffset": "1s"}}),
        json!({"goAway": {"timeLeft": "50s"}}),
    ]
}

fn sessions() -> Vec<Vec<Value>> {
    let mut sessions = received();
    for frame in sessions.iter_mut().flatten() {
        shorten(frame);
    }
    sessions.push(published());
    sessions
}

/// What it sounds like is nothing to these tests.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => text.truncate(if text.is_ascii() { 400 } else { text.len() }),
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a field only informs: counts, sources, details.
fn informs(place: &str) -> bool {
    const INFORMING: [&str; 13] = [
        "/usageMetadata",
        "groundingMetadata",
        "urlContextMetadata",
        "languageCode",
        "audioOffset",
        "executableCode",
        "role",
        "words",
        "voiceConsentSignature",
        "thoughtSignature",
        "lastConsumedClientMessageIndex",
        "codeExecutionResult",
        "sessionId",
    ];
    INFORMING.iter().any(|name| place.contains(name))
}

fn essence(said: &[Said]) -> Vec<&Said> {
    said.iter()
        .filter(|said| {
            !matches!(
                said,
                Said::Event(
                    ModelEvent::Usage(_)
                        | ModelEvent::Unknown { .. }
                        | ModelEvent::Ready { .. }
                        | ModelEvent::ExternalContent { .. }
                )
            )
        })
        .collect()
}

const CALL: &[u8] =
    br#"{"toolCall":{"functionCalls":[{"id":"c-last","name":"look","args":{"q":1}}]}}"#;

#[test]
fn a_field_of_any_type_costs_itself_and_nothing_else() {
    for frames in sessions() {
        for frame in &frames {
            let expected = decode(&mut codec(MODEL), frame.to_string().as_bytes());
            for place in places(frame) {
                for variant in variants(frame, &place) {
                    let mut codec = codec(MODEL);
                    let said = decode(&mut codec, variant.to_string().as_bytes());
                    assert!(
                        !said.iter().any(|said| matches!(said, Said::Event(ModelEvent::Malformed { problem }) if !problem.contains("base64"))),
                        "{place} of {variant}: {said:?}"
                    );
                    if informs(&place) {
                        assert_eq!(essence(&said), essence(&expected), "{place} of {variant}");
                    }
                    let said = decode(&mut codec, CALL);
                    assert!(
                        matches!(&said[..], [Said::Event(ModelEvent::Calls(calls))] if calls[0].arguments.is_ok()),
                        "{said:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn after_a_hundred_thousand_damaged_frames_a_call_is_still_read() {
    let frames: Vec<Value> = sessions().into_iter().flatten().collect();
    let mut mutations = Mutations::of(&frames);
    let mut codec = codec(MODEL);
    for number in 0..100_000_u32 {
        let said = decode(&mut codec, &mutations.next());
        assert!(said.len() < 300, "{said:?}");
        if number % 500 == 0 {
            let said = decode(&mut codec, CALL);
            assert!(
                matches!(&said[..], [Said::Event(ModelEvent::Calls(_))]),
                "{said:?}"
            );
        }
    }
}
