//! What a block consists of in each mode, and what is left when a part of it fails.

use crate::bench::{Bench, NOW_UNIX_MS};
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Block, Placement};
use windlass_contract::id::UserId;
use windlass_contract::intent::{EndAfter, Intent};
use windlass_contract::kind::Mode;

const FAREWELL: &str = "This conversation is over.";

fn minute() -> Value {
    json!({"duration_seconds": 60, "farewell_message": FAREWELL})
}

#[test]
fn the_user_is_blocked_the_client_told_and_the_audit_written_in_both_modes() {
    for mode in [Mode::Text, Mode::Voice] {
        let bench = Bench::new(mode);
        let data = bench.data("ignore_user", minute());
        let until_unix_ms = NOW_UNIX_MS + 60_000;
        assert_eq!(data["timeoutUntil"], until_unix_ms);
        assert_eq!(data["duration"], 60);
        assert_eq!(
            *bench.fakes.blocks.lock().unwrap(),
            [Block {
                user_id: UserId::new("user"),
                until_unix_ms,
                farewell_message: FAREWELL.into(),
            }]
        );
        assert_eq!(
            bench.client_messages(),
            [json!({
                "type": "timeout",
                "durationSeconds": 60,
                "timeoutUntil": until_unix_ms,
                "farewellMessage": FAREWELL
            })]
        );
        assert_eq!(
            bench.audit_lines(),
            [(
                "user_timeout".to_owned(),
                json!({"duration": 60, "timeoutUntil": until_unix_ms, "reason": "tool_invocation"})
            )]
        );
    }
}

#[test]
fn the_voice_session_ends_after_the_farewell_and_stays_silent_then() {
    assert_eq!(
        Bench::new(Mode::Voice)
            .succeed("ignore_user", minute())
            .intents,
        [
            Intent::EndVoiceSession {
                after: EndAfter::FarewellSpoken,
                reason: Some("user_blocked".into()),
                closing_message: Some(FAREWELL.into()),
                text_response: None,
            },
            Intent::SuppressAudio { value: true },
        ]
    );
}

#[test]
fn a_text_conversation_has_no_voice_session_to_end() {
    assert_eq!(
        Bench::new(Mode::Text)
            .succeed("ignore_user", minute())
            .intents,
        []
    );
}

#[test]
fn the_model_is_told_to_speak_the_farewell() {
    for (mode, verb) in [(Mode::Voice, "Speak"), (Mode::Text, "Answer with")] {
        for (farewell, expected) in [(FAREWELL, FAREWELL), ("  ", "one short, calm farewell")] {
            let data = Bench::new(mode).data(
                "ignore_user",
                json!({"duration_seconds": 30, "farewell_message": farewell}),
            );
            let instruction = data["instruction"].as_str().unwrap();
            assert!(
                instruction.contains(verb) && instruction.contains(expected),
                "{instruction}"
            );
        }
    }
}

#[test]
fn fractions_of_a_second_count() {
    let data = Bench::new(Mode::Text).data(
        "ignore_user",
        json!({"duration_seconds": 30.25, "farewell_message": "Bye"}),
    );
    assert_eq!(data["timeoutUntil"], NOW_UNIX_MS + 30_250);
    assert_eq!(data["duration"], 30.25);
}

#[test]
fn a_session_that_is_over_is_left_alone() {
    let mut bench = Bench::new(Mode::Voice);
    bench.session_is_active = false;
    let report = bench.report("ignore_user", minute());
    assert_eq!(report.kind, FailureKind::SessionInactive);
    assert!(bench.fakes.blocks.lock().unwrap().is_empty());
    assert!(bench.fakes.messages.lock().unwrap().is_empty());
}

#[test]
fn a_client_that_cannot_be_told_leaves_no_block() {
    let bench = Bench::new(Mode::Voice);
    *bench.fakes.outbox_is_closed.lock().unwrap() = true;
    let report = bench.report("ignore_user", minute());
    assert_eq!(report.kind, FailureKind::Transient);
    assert_eq!(report.partial_side_effects, Some(false));
    assert!(bench.fakes.blocks.lock().unwrap().is_empty());
}

#[test]
fn a_block_that_cannot_be_stored_is_told_to_nobody() {
    let bench = Bench::new(Mode::Voice);
    *bench.fakes.blocks_fail.lock().unwrap() = true;
    let report = bench.report("ignore_user", minute());
    assert_eq!(report.kind, FailureKind::Transient);
    assert_eq!(report.partial_side_effects, Some(false));
    assert!(!report.message.contains("/var"), "{}", report.message);
    assert_eq!(bench.client_messages(), [] as [Value; 0]);
    assert_eq!(bench.audit_lines()[0].0, "blocks_unavailable");
}

#[test]
fn what_writes_or_computes_leaves_the_threads_alone_that_move_audio() {
    let handlers = windlass_handlers::builtin();
    for (tool, handler) in &handlers {
        let expected = match tool.as_str() {
            "cancel_task" | "escalate" | "extract_contacts" | "get_task" | "ignore_user"
            | "image_generate" | "list_tasks" | "query_tool_memory" | "rank_results"
            | "send_image" | "web_search" => Placement::Apart,
            tool if tool.starts_with("calendar_") => Placement::Apart,
            _ => Placement::Inline,
        };
        assert_eq!(handler.placement(), expected, "{tool}");
    }
}
