//! The hand-over from text to voice.

use crate::bench::{Bench, effect_id};
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::kind::Mode;

#[test]
fn the_client_is_asked_to_start_and_given_the_pending_request() {
    for (arguments, pending_request) in [
        (
            json!({"pending_request": "tell a joke"}),
            json!("tell a joke"),
        ),
        (
            json!({"pending_request": "  tell a joke\n"}),
            json!("tell a joke"),
        ),
        (json!({"pending_request": ""}), Value::Null),
        (json!({"pending_request": "   "}), Value::Null),
        (json!({}), Value::Null),
    ] {
        let bench = Bench::new(Mode::Text);
        let success = bench.succeed("start_voice_session", arguments);
        assert_eq!(
            success.data.unwrap(),
            json!({"conversation_id": "conversation", "pending_request": pending_request})
        );
        assert_eq!(success.intents, []);
        assert_eq!(
            bench.client_messages(),
            [json!({
                "type": "voice_session_start",
                "conversationId": "conversation",
                "pendingRequest": pending_request,
                "effectId": effect_id().as_str()
            })]
        );
    }
}

#[test]
fn the_audit_says_that_there_is_a_request_but_not_which() {
    let bench = Bench::new(Mode::Text);
    bench.succeed(
        "start_voice_session",
        json!({"pending_request": "my secret"}),
    );
    assert_eq!(
        bench.audit_lines(),
        [(
            "voice_session_start".to_owned(),
            json!({"hasPendingRequest": true})
        )]
    );
}

#[test]
fn a_voice_session_cannot_be_started_from_voice() {
    let bench = Bench::new(Mode::Voice);
    let report = bench.report("start_voice_session", json!({}));
    assert_eq!(report.kind, FailureKind::SessionActive);
    assert!(bench.fakes.messages.lock().unwrap().is_empty());
}

#[test]
fn a_voice_session_cannot_be_started_beside_one_of_the_same_conversation() {
    let bench = Bench::new(Mode::Text);
    *bench.fakes.is_in_voice.lock().unwrap() = true;
    let report = bench.report("start_voice_session", json!({}));
    assert_eq!(report.kind, FailureKind::SessionActive);
    assert!(bench.fakes.messages.lock().unwrap().is_empty());
}

#[test]
fn a_client_that_is_not_ready_is_a_transient_failure_without_side_effects() {
    let bench = Bench::new(Mode::Text);
    *bench.fakes.outbox_is_closed.lock().unwrap() = true;
    let report = bench.report("start_voice_session", json!({}));
    assert_eq!(report.kind, FailureKind::Transient);
    assert_eq!(report.partial_side_effects, Some(false));
}

#[test]
fn a_session_that_is_over_starts_nothing() {
    let mut bench = Bench::new(Mode::Text);
    bench.session_is_active = false;
    let report = bench.report("start_voice_session", json!({}));
    assert_eq!(report.kind, FailureKind::SessionInactive);
}
