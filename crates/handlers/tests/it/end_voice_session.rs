//! The end of a voice session, as the tool asks for it.

use crate::bench::Bench;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::intent::{EndAfter, Intent};
use windlass_contract::kind::Mode;

#[test]
fn the_session_ends_after_the_farewell_with_reason_and_messages() {
    for (arguments, reason, closing_message, text_response) in [
        (json!({}), "user_requested", None, None),
        (
            json!({"reason": "goodbye", "closing_message": "Farewell!", "text_response": "- a link"}),
            "goodbye",
            Some("Farewell!"),
            Some("- a link"),
        ),
        (
            json!({"closing_message": " ", "text_response": "\n"}),
            "user_requested",
            None,
            None,
        ),
    ] {
        let bench = Bench::new(Mode::Voice);
        let success = bench.succeed("end_voice_session", arguments);
        assert_eq!(
            success.intents,
            [Intent::EndVoiceSession {
                after: EndAfter::FarewellSpoken,
                reason: Some(reason.into()),
                closing_message: closing_message.map(str::to_owned),
                text_response: text_response.map(str::to_owned),
            }]
        );
        let data = success.data.unwrap();
        assert_eq!(data["reason"], reason);
        assert_eq!(data["finalMessage"], Value::from(closing_message));
        assert_eq!(data["textResponse"], Value::from(text_response));
        let instruction = data["instruction"].as_str().unwrap();
        assert!(instruction.contains(closing_message.unwrap_or("short farewell")));
        // Telling the client is the state controller's, once the farewell has been heard.
        assert_eq!(bench.client_messages(), [] as [Value; 0]);
    }
}

#[test]
fn a_session_that_is_over_cannot_be_ended_again() {
    let mut bench = Bench::new(Mode::Voice);
    bench.session_is_active = false;
    let failure = bench.call("end_voice_session", json!({})).unwrap_err();
    assert_eq!(failure.intents, []);
    let report = crate::bench::reported(*failure);
    assert_eq!(report.kind, FailureKind::SessionInactive);
}
