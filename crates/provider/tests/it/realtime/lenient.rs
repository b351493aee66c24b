//! No event is all or nothing: a field of a wrong type costs itself, and a session goes on whatever came.

use super::recorded::recordings;
use super::{Talk, call};
use crate::mutation::{Mutations, places, variants};
use serde_json::{Value, json};
use windlass_session::model::ModelCommand;

/// Events as vendors publish and send them, where the recordings have none.
fn published() -> Vec<Vec<Value>> {
    vec![
        // xAI: details and usage of other types, and a sign of life in between.
        vec![
            json!({"type": "ping", "event_id": "e", "timestamp": 1}),
            json!({"type": "session.updated", "event_id": "e", "session": {"id": "s1"}}),
            json!({"type": "response.created", "event_id": "e", "response": {"id": "r1", "object": "realtime.response", "status": "in_progress", "metadata": null}}),
            json!({"type": "response.output_item.done", "event_id": "e", "response_id": "r1", "output_index": 0, "item": call("c1", "completed", "{\"q\":1}")}),
            json!({"type": "response.done", "event_id": "e", "response": {"id": "r1", "status": "completed",
                "status_details": "unimplemented", "output": [call("c1", "completed", "{\"q\":1}")],
                "usage": {"total_tokens": null, "input_tokens": null, "output_tokens": null, "input_token_details": null}}}),
        ],
        // Azure Voice Live: the names of the beta.
        vec![
            json!({"type": "session.updated", "event_id": "e", "session": {"id": "s1", "voice": {"name": "en-US-Ava", "type": "azure-standard"}}}),
            json!({"type": "response.created", "event_id": "e", "response": {"id": "r1", "modalities": ["text", "audio"]}}),
            json!({"type": "response.audio_transcript.delta", "event_id": "e", "response_id": "r1", "item_id": "a1", "delta": "Hello"}),
            json!({"type": "response.audio.delta", "event_id": "e", "response_id": "r1", "item_id": "a1", "output_index": 0, "content_index": 0, "delta": "AAAA"}),
            json!({"type": "response.text.delta", "event_id": "e", "response_id": "r1", "item_id": "a1", "delta": "Hi"}),
            json!({"type": "response.audio_timestamp.delta", "event_id": "e", "response_id": "r1", "audio_offset_ms": 0}),
            json!({"type": "response.done", "event_id": "e", "response": {"id": "r1", "status": "failed",
                "status_details": {"type": "failed", "reason": "turn_detected", "error": {"type": "server_error", "code": "x"}},
                "output": [], "usage": {"total_tokens": 3, "input_token_details": {"cached_tokens": 1}}}}),
        ],
        vec![
            json!({"type": "input_audio_buffer.speech_started", "event_id": "e", "audio_start_ms": 1, "item_id": "u"}),
            json!({"type": "input_audio_buffer.speech_stopped", "event_id": "e", "audio_end_ms": 9, "item_id": "u"}),
            json!({"type": "conversation.item.input_audio_transcription.completed", "item_id": "u", "content_index": 0, "transcript": "Hi",
                "usage": {"type": "tokens", "total_tokens": 3}}),
            json!({"type": "error", "event_id": "e", "error": {"type": "invalid_request_error", "code": "response_cancel_not_active",
                "message": "m", "param": null, "event_id": "wl_x"}}),
        ],
    ]
}

fn sessions() -> Vec<Vec<Value>> {
    let recorded = recordings().into_iter().map(|(_, mut events)| {
        // What they sound like is nothing to this test.
        for event in &mut events {
            if let Some(Value::String(delta)) = event.get_mut("delta") {
                delta.truncate(delta.len().min(400));
            }
        }
        events
    });
    published().into_iter().chain(recorded).collect()
}

/// Whether a field says what the state depends on: what kind, of whom, how it ended, and what the model said.
fn drives(place: &str) -> bool {
    const DRIVING: [&str; 12] = [
        "type",
        "id",
        "response_id",
        "item_id",
        "call_id",
        "status",
        "name",
        "arguments",
        "delta",
        "transcript",
        "code",
        "reason",
    ];
    let name = place.rsplit('/').next().unwrap_or_default();
    let holds_driving = matches!(place, "/response" | "/item" | "/error" | "/session")
        || place.starts_with("/response/output") && !place.contains("/content")
        || place == "/response/status_details/error"
        || place == "/response/status_details"
        || place == "/output_index";
    let is_session = place.starts_with("/session");
    !is_session && !place.contains("/content") && (DRIVING.contains(&name) || holds_driving)
}

/// The log without numbers of tokens, what is passed over, and how the failure of a response is described.
fn essence(log: &[String]) -> Vec<&str> {
    log.iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with("usage") && !word.starts_with("unknown"))
        .collect()
}

/// A typed question gets its call, and the call its answer.
#[track_caller]
fn still_answers_a_call(talk: &mut Talk, context: &str) {
    let calls = talk
        .log
        .iter()
        .filter_map(|word| word.strip_prefix("calls:"));
    let calls = calls.flat_map(|calls| calls.split('+'));
    let ids: Vec<String> = calls
        .filter_map(|call| call.split_once('/'))
        .map(|(id, _)| id.to_owned())
        .collect();
    talk.log.clear();
    for id in ids {
        talk.answered(&[&id]);
    }
    for round in 0..4 {
        if !talk.log.iter().any(|word| word == "<create") {
            break;
        }
        let id = format!("r-settled-{round}");
        talk.log.clear();
        talk.created(&id).done(&id, "completed", json!([]));
    }
    talk.log.clear();
    talk.typed("Hi");
    if !talk.log.iter().any(|word| word == "<create") {
        // Nothing comes; the watchdog looks after it.
        talk.told(&ModelCommand::Resynchronize);
    }
    talk.created("r-last")
        .finishes_call("r-last", &call("c-last", "completed", "{}"))
        .done(
            "r-last",
            "completed",
            json!([call("c-last", "completed", "{}")]),
        );
    assert!(
        talk.log
            .iter()
            .any(|word| word.starts_with("calls:") && word.contains("c-last/look{}")),
        "{context}: {:?}",
        talk.log
    );
    talk.log.clear();
    talk.answered(&["c-last"]);
    assert_eq!(talk.log.join(" "), "<output:c-last <create", "{context}");
}

#[test]
fn a_field_of_any_type_costs_itself_and_nothing_else() {
    for events in sessions() {
        let mut plain = Talk::new();
        for event in &events {
            plain.hears(event);
        }
        for (index, event) in events.iter().enumerate() {
            for place in places(event) {
                for variant in variants(event, &place) {
                    let mut talk = Talk::new();
                    for (at, event) in events.iter().enumerate() {
                        talk.hears(if at == index { &variant } else { event });
                    }
                    if !drives(&place) {
                        assert_eq!(
                            essence(&talk.log),
                            essence(&plain.log),
                            "{place} of {variant}"
                        );
                    }
                    still_answers_a_call(&mut talk, &format!("{place} of {variant}"));
                }
            }
        }
    }
}

#[test]
fn what_is_passed_over_is_said_by_kind_each_time() {
    let done = json!({"type": "response.done", "response": {"id": "r1", "status": "completed", "status_details": "unimplemented",
        "usage": {"total_tokens": [7], "input_token_details": 7}}});
    Talk::new().created("r1").hears(&done).expect(
        "unknown:response.done: response.usage.input_token_details,response.done: response.usage.total_tokens usage:0 generated end",
    );
    Talk::new()
        .hears(&json!({"type": "response.output_item.done", "response_id": "r1", "output_index": 0,
            "item": {"type": "function_call", "call_id": "c1", "name": "look", "arguments": {"q": 1}}}))
        .hears(&json!({"type": "response.done", "response": {"id": "r1"}}))
        .expect("calls:c1/lookbad generated");
}

#[test]
fn after_a_hundred_thousand_damaged_events_a_call_is_still_answered() {
    let events: Vec<Value> = sessions().into_iter().flatten().collect();
    let mut mutations = Mutations::of(&events);
    let mut talk = Talk::new();
    for number in 0..100_000_u32 {
        let frame = mutations.next();
        talk.log.clear();
        talk.hears_bytes(&frame);
        assert!(talk.log.len() < 300, "{:?}", talk.log);
        let is_lost = talk.log.iter().any(|word| word.starts_with("lost:"));
        if number % 500 == 0 && !is_lost {
            // Its ids are to be news.
            talk.told(&ModelCommand::Resynchronize);
            still_answers_a_call(&mut talk, &format!("after {number}"));
        }
        if is_lost || number % 500 == 0 {
            talk = Talk::new();
        }
    }
}

#[test]
fn ids_of_any_length_and_events_of_unknown_kinds_without_end_are_survived() {
    let long = "r".repeat(10_000);
    let mut talk = Talk::new();
    talk.created(&long)
        .finishes_call(&long, &call(&long, "completed", "{}"))
        .done(&long, "completed", json!([]));
    talk.log.clear();
    for number in 0..10_000 {
        talk.hears(
            &json!({"type": format!("response.new_{number}"), "response_id": format!("r{number}")}),
        );
        talk.hears(&json!({"type": format!("new_{number}"), "id": number}));
    }
    assert_eq!(talk.log.len(), 20_000);
    assert!(
        talk.log
            .iter()
            .all(|word| word.starts_with("unknown:") && word.len() < 200)
    );
    talk.answered(&[&long]);
    assert!(
        talk.log.last().unwrap().starts_with("<create"),
        "{:?}",
        talk.log.last()
    );
}
