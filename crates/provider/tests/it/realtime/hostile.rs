//! What no server should send: nothing of it panics, and nothing of it is quoted.

use super::{Talk, call};
use serde_json::json;
use windlass_provider::openai_realtime::close_reason;
use windlass_session::model::LostReason;

#[test]
fn what_is_no_event_is_said_without_its_content() {
    for frame in [
        "",
        "null",
        "[]",
        "secret",
        "{\"secret\":1}",
        "{\"type\":7}",
        "{\"type\":\"response.done\",\"type\":\"response.done\"}",
    ] {
        Talk::new()
            .hears_text(frame)
            .expect("malformed:the provider's frame is no event of the protocol");
    }
    Talk::new()
        .hears(&json!({"type": "response.output_audio.delta", "response_id": "r", "item_id": "i", "delta": "é"}))
        .expect("malformed:the audio of the model is no base64")
        .hears(&json!({"type": "response.output_audio.delta", "response_id": "r", "item_id": "i", "delta": "AAAA"}))
        .expect("audio pcm:2");
}

#[test]
fn an_unknown_kind_is_reported_and_changes_nothing() {
    Talk::new()
        .hears(&json!({"type": "session.paused"}))
        .hears(&json!({"type": "session.paused"}))
        .hears(&json!({"type": "response.sung.delta", "response_id": "r", "delta": "la"}))
        .expect("unknown:type=session.paused unknown:type=session.paused unknown:type=response.sung.delta")
        // No response is believed to be under way.
        .typed("Hi")
        .expect("<user <create");
    // The kind of an event says enough, whatever else of it can be read.
    Talk::new()
        .created("r1")
        .hears(&json!({"type": "response.done", "response": "secret"}))
        .expect("unknown:response.done: response generated end")
        .typed("Hi")
        .expect("<user <create");
}

#[test]
fn events_in_any_order_and_damaged_anywhere_never_panic() {
    let events = [
        json!({"type": "response.created", "response": {"id": "r1"}}),
        json!({"type": "response.output_item.done", "response_id": "r1", "item": call("c1", "completed", "{}")}),
        json!({"type": "input_audio_buffer.speech_started"}),
        json!({"type": "response.output_audio.delta", "response_id": "r1", "item_id": "i", "delta": "AAAA"}),
        json!({"type": "response.done", "response": {"id": "r1", "status": "cancelled", "output": null, "usage": null}}),
        json!({"type": "error", "error": {"code": "conversation_already_has_active_response", "event_id": null}}),
        json!({"type": "input_audio_buffer.speech_stopped"}),
        json!({"type": "response.done", "response": {}}),
        json!({"type": "error"}),
    ];
    let mut seed = 1_u64;
    for _ in 0..300 {
        let mut talk = Talk::new();
        for _ in 0..30 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pick = (seed >> 33) as usize;
            let event = events[pick % events.len()].to_string();
            match pick % 7 {
                0 => talk.hears_text(&event[..pick % event.len()]),
                1 => talk.typed("Hi"),
                2 => talk.answered(&["c1"]),
                3 => talk.discards(),
                _ => talk.hears_text(&event),
            };
        }
        // One request at a time: each is followed by a response's end, a refusal, or another response's beginning.
        assert!(talk.log.len() < 400);
    }
}

/// As it is recorded: the event does not always come before the close.
#[test]
fn a_close_that_refuses_the_key_is_no_lost_connection() {
    for (code, reason, expected) in [
        (
            3000,
            "invalid_request_error.invalid_api_key",
            LostReason::Unauthorized,
        ),
        (
            4000,
            "invalid_request_error.beta_api_shape_disabled",
            LostReason::Closed {
                code: 4000,
                reason: "invalid_request_error.beta_api_shape_disabled".to_owned(),
            },
        ),
        (
            1001,
            "",
            LostReason::Closed {
                code: 1001,
                reason: String::new(),
            },
        ),
    ] {
        assert_eq!(close_reason(code, reason.to_owned()), expected);
    }
}
