//! Whole conversations, event by event: who may speak when, and what is made of interruptions, races and broken calls.

use super::{Talk, answer, call};
use serde_json::json;
use std::time::Duration;
use windlass_contract::kind::Scheduling;
use windlass_provider::openai_realtime::Options;
use windlass_session::model::{HistoryEntry, ModelCommand, Role};

#[test]
fn a_typed_question_is_answered_aloud() {
    Talk::new()
        .hears(&json!({"type": "session.created", "event_id": "e", "session": {"id": "sess_1"}}))
        .expect("")
        .hears(&json!({"type": "session.updated", "event_id": "e", "session": {"id": "sess_1"}}))
        .expect("ready")
        .hears(&json!({"type": "session.updated", "event_id": "e", "session": {"id": "sess_1"}}))
        .expect("")
        .typed("Hi")
        .expect("<user <create")
        .acknowledged(1)
        .created("r1")
        .hears(&json!({"type": "response.output_audio_transcript.delta", "response_id": "r1", "item_id": "a1", "delta": "Hello"}))
        .speaks("r1", "a1", 20)
        .speaks("r1", "a1", 20)
        .expect("says:Hello audio pcm:960 pcm:960")
        .hears(&json!({"type": "response.done", "event_id": "e", "response": {"id": "r1", "status": "completed",
            "usage": {"total_tokens": 20, "input_tokens": 12, "output_tokens": 8}}}))
        .expect("usage:20 generated end");
}

#[test]
fn the_calls_of_a_response_are_one_message_and_their_results_bring_one_response() {
    let mut talk = Talk::new();
    talk.created("r1")
        .finishes_call("r1", &call("c1", "completed", "{\"q\":1}"))
        .finishes_call("r1", &call("c2", "completed", ""))
        .expect("")
        .done(
            "r1",
            "completed",
            json!([call("c1", "completed", "{\"q\":1}")]),
        )
        .expect(r#"calls:c1/look{"q":1}+c2/look{} generated"#)
        .answered(&["c1"])
        .expect("<output:c1")
        .answered(&["c2"])
        .expect("<output:c2 <create")
        .acknowledged(1)
        .acknowledged(2)
        .created("r2")
        .speaks("r2", "a2", 20)
        .done("r2", "completed", json!([]))
        .expect("audio pcm:960 generated end");
}

#[test]
fn a_call_is_run_once_however_often_it_comes_and_only_if_it_is_complete() {
    Talk::new()
        .created("r1")
        .finishes_call("r1", &call("c1", "completed", "{}"))
        .finishes_call("r1", &call("c1", "completed", "{}"))
        .finishes_call("r1", &call("c2", "incomplete", "{\"a"))
        .finishes_call("r1", &call("c3", "completed", "{\"a"))
        .done(
            "r1",
            "completed",
            json!([call("c1", "completed", "{}"), call("c4", "completed", "{}")]),
        )
        .expect("calls:c1/look{}+c3/lookbad+c4/look{} generated")
        .finishes_call("r1", &call("c4", "completed", "{}"))
        .expect("")
        // An item behind its response's end.
        .finishes_call("r1", &call("c5", "completed", "{}"))
        .expect("calls:c5/look{}");
}

#[test]
fn a_call_id_that_comes_again_is_the_cores_to_judge_and_leaves_nobody_waiting() {
    const ID: &str = "call_number_1";
    let of = |arguments: &str| call(ID, "completed", arguments);
    let mut talk = Talk::new();
    // Two items of one response, each in a frame of its own and in the list.
    talk.created("r1")
        .finishes_call_at("r1", 0, &of("{}"))
        .finishes_call_at("r1", 1, &of(r#"{"q":1}"#))
        .done("r1", "completed", json!([of("{}"), of(r#"{"q":1}"#)]))
        .expect(r#"calls:call_number_1/look{}+call_number_1/look{"q":1} generated"#)
        .answered(&[ID])
        .acknowledged(1)
        .expect("<output:call_number_1 <create")
        // In the list alone.
        .created("r2")
        .done(
            "r2",
            "completed",
            json!([of(r#"{"q":2}"#), call("call_number_2", "completed", "{}")]),
        )
        .expect(r#"calls:call_number_1/look{"q":2}+call_number_2/look{} generated"#)
        .answered(&["call_number_2"])
        .acknowledged(2)
        .expect("<output:call_number_2 <create")
        // Nothing else is asked for: words are wished for once.
        .created("r3")
        .finishes_call("r3", &of("{}"))
        .done("r3", "completed", json!([of("{}")]))
        .expect("calls:call_number_1/look{} generated <create")
        .created("r4")
        .done("r4", "completed", json!([of("{}")]))
        .expect("calls:call_number_1/look{} generated end");
    // An id that names no delivery may be another call's, which is answered; but not the same call's twice in a turn.
    let short = |arguments: &str| call("c1", "completed", arguments);
    let mut talk = Talk::new();
    for arguments in ["{}", r#"{"q":1}"#] {
        talk.created("r")
            .done("r", "completed", json!([short(arguments)]))
            .expect(&format!("calls:c1/look{arguments} generated"))
            .answered(&["c1"])
            .acknowledged(1)
            .expect("<output:c1 <create");
    }
    talk.created("r3")
        .done("r3", "completed", json!([short("{}")]))
        .expect("calls:c1/look{} generated <create")
        .created("r4")
        .done("r4", "completed", json!([]))
        .expect("generated end")
        .typed("Look again")
        .acknowledged(3)
        .created("r5")
        .done("r5", "completed", json!([short("{}")]))
        .expect("<user <create calls:c1/look{} generated")
        .answered(&["c1"])
        .expect("<output:c1 <create");
}

#[test]
fn speech_cuts_the_answer_where_the_user_stopped_hearing_it() {
    let mut talk = Talk::new();
    talk.created("r1")
        .speaks("r1", "a1", 1_000)
        .expect("audio pcm:48000");
    talk.unplayed = Duration::from_millis(400);
    talk.hears_speech()
        .expect("speech interrupted <truncate:a1@600")
        .speaks("r1", "a1", 20)
        .expect("")
        .done("r1", "cancelled", json!([call("c1", "incomplete", "{\"a")]))
        .expect("end");
    talk.unplayed = Duration::ZERO;
    talk.hears_quiet()
        .created("r2")
        .speaks("r2", "a2", 20)
        .done("r2", "completed", json!([]))
        .expect("quiet audio pcm:960 generated end");
    // What was generated in full is cut all the same while it is being heard.
    talk.unplayed = Duration::from_millis(15);
    talk.hears_speech()
        .expect("speech interrupted <truncate:a2@5")
        .hears_quiet()
        .expect("quiet");
    talk.unplayed = Duration::ZERO;
    talk.hears_speech().expect("speech");
}

#[test]
fn without_barge_in_speech_interrupts_nothing() {
    let mut talk = Talk::with(Options {
        barge_in: false,
        ..Options::default()
    });
    talk.unplayed = Duration::from_secs(1);
    talk.created("r1")
        .speaks("r1", "a1", 20)
        .hears_speech()
        .speaks("r1", "a1", 20)
        .expect("audio pcm:960 speech pcm:960");
}

#[test]
fn an_interruption_by_the_client_cancels_the_response_wherever_it_is() {
    let mut talk = Talk::new();
    talk.created("r1").speaks("r1", "a1", 1_000);
    talk.unplayed = Duration::from_secs(2);
    talk.discards()
        .expect("audio pcm:48000 <cancel:r1 <truncate:a1@0")
        .hears(&json!({"type": "error", "event_id": "e", "error": {"code": "response_cancel_not_active"}}))
        .done("r1", "cancelled", json!([]))
        .expect("end");
    // Asked for, and not yet begun.
    talk.typed("Hi")
        .discards()
        .created("r2")
        .done("r2", "cancelled", json!([]))
        .expect("<user <create <cancel:r2");
}

#[test]
fn typing_into_an_answer_takes_its_place() {
    Talk::new()
        .created("r1")
        .speaks("r1", "a1", 20)
        .typed("No, the other")
        .expect("audio pcm:960 <cancel:r1 <user")
        .done("r1", "cancelled", json!([]))
        .expect("interrupted end <create");
}

#[test]
fn speech_while_a_call_is_open_ends_the_turn_and_its_result_waits_for_the_answer_to_it() {
    Talk::new()
        .created("r1")
        .done("r1", "completed", json!([call("c1", "completed", "{}")]))
        .expect("calls:c1/look{} generated")
        .hears_speech()
        .expect("speech interrupted end")
        .answered(&["c1"])
        .acknowledged(1)
        .hears_quiet()
        .expect("<output:c1 quiet <create")
        .hears(&json!({"type": "error", "event_id": "e",
            "error": {"code": "conversation_already_has_active_response", "event_id": "wl_response_1"}}))
        .created("v1")
        .done("v1", "completed", json!([]))
        .expect("generated end");
}

#[test]
fn a_result_without_a_wish_to_speak_brings_no_response() {
    let mut talk = Talk::new();
    talk.created("r1")
        .done("r1", "completed", json!([call("c1", "completed", "{}")]))
        .expect("calls:c1/look{} generated");
    let mut silent = answer("c1");
    silent.scheduling = Some(Scheduling::Silent);
    talk.told(&ModelCommand::ToolResponses(vec![silent]))
        .expect("<output:c1");
}

#[test]
fn results_that_come_during_a_response_are_answered_behind_it_in_the_same_turn() {
    Talk::new()
        .created("r1")
        .done("r1", "completed", json!([call("c1", "completed", "{}")]))
        .created("r2")
        .answered(&["c1"])
        .acknowledged(1)
        .expect("calls:c1/look{} generated <output:c1")
        .done("r2", "completed", json!([]))
        .expect("generated <create");
}

#[test]
fn a_failed_response_is_asked_for_once_more_and_then_ends_the_turn() {
    let failed = |id: &str, kind: &str, code: &str| {
        json!({"type": "response.done", "event_id": "e", "response": {"id": id, "status": "failed", "output": [],
            "status_details": {"type": "failed", "error": {"type": kind, "code": code, "message": "secret words"}}}})
    };
    Talk::new()
        .typed("Hi")
        .created("r1")
        .hears(&failed("r1", "server_error", ""))
        .expect("<user <create malformed:a response failed: server_error <create")
        .hears(&failed("r2", "server_error", ""))
        .expect(r#"malformed:a response failed: server_error end:Other("failed")"#)
        .typed("Hi")
        .hears(&failed("r3", "invalid_request_error", "inference_rate_limit_exceeded"))
        .expect(r#"<user <create malformed:a response failed: inference_rate_limit_exceeded end:Other("failed")"#)
        .typed("Hi")
        .hears(&failed("r4", "invalid_request_error", "insufficient_quota"))
        .expect(r#"<user <create lost:Closed { code: 1008, reason: "insufficient_quota" }"#);
    for (reason, end) in [
        ("max_output_tokens", r#"end:Other("length")"#),
        ("content_filter", "end:blocked"),
    ] {
        Talk::new()
            .created("r1")
            .hears(&json!({"type": "response.done", "event_id": "e", "response": {"id": "r1", "status": "incomplete",
                "status_details": {"type": "incomplete", "reason": reason}, "output": []}}))
            .expect(end);
    }
}

#[test]
fn earlier_conversation_goes_in_as_text_and_is_answered_only_on_request() {
    let entry = |role, text: &str| HistoryEntry {
        role,
        text: text.to_owned().into(),
    };
    let entries = vec![
        entry(Role::User, "Hi"),
        entry(Role::Assistant, "Hello."),
        entry(Role::User, "Who designed the Fram?"),
    ];
    Talk::new()
        .told(&ModelCommand::History {
            entries: entries.clone(),
            answer_now: false,
        })
        .expect("<system <user <assistant <user")
        .told(&ModelCommand::History {
            entries,
            answer_now: true,
        })
        .expect("<system <user <assistant <user <create");
}

#[test]
fn a_refused_request_leaves_nobody_waiting() {
    Talk::new()
        .typed("Hi")
        .hears(&json!({"type": "error", "event_id": "e", "error": {"type": "invalid_request_error",
            "code": "invalid_value", "message": "secret", "param": "response", "event_id": "wl_response_1"}}))
        .expect(r#"<user <create malformed:the provider refuses: invalid_value (response) end:Other("refused")"#)
        .typed("Hi")
        .expect("<user <create");
}

#[test]
fn what_ends_the_session_is_told_from_what_does_not() {
    let error = |code: &str, about: Option<&str>| {
        json!({"type": "error", "event_id": "e", "error": {"type": "invalid_request_error", "code": code,
            "message": "secret", "param": "session.tools[0].meta", "event_id": about}})
    };
    for (code, about, expected) in [
        ("session_expired", None, "lost:Closed { code: 1001"),
        ("invalid_api_key", None, "lost:Unauthorized"),
        ("beta_api_shape_disabled", None, "lost:Closed { code: 4000"),
        (
            "unknown_parameter",
            Some("wl_setup"),
            "lost:Closed { code: 1007, reason: \"the setup was refused: unknown_parameter (session.tools[0].meta)\" }",
        ),
        (
            "unknown_parameter",
            None,
            "malformed:the provider refuses: unknown_parameter",
        ),
        ("input_audio_buffer_commit_empty", None, ""),
        ("cannot_update_voice", None, ""),
    ] {
        let mut talk = Talk::new();
        talk.hears(&error(code, about));
        let log = talk.log.join(" ");
        assert!(log.starts_with(expected), "{code}: {log}");
        assert!(!log.contains("secret"), "{code}: {log}");
        assert_eq!(log.is_empty(), expected.is_empty(), "{code}: {log}");
    }
}

#[test]
fn what_the_user_said_comes_whole_and_begins_nothing() {
    Talk::new()
        .hears(&json!({"type": "conversation.item.input_audio_transcription.delta", "item_id": "u", "delta": "hel"}))
        .hears(&json!({"type": "conversation.item.input_audio_transcription.completed", "item_id": "u",
            "transcript": "hello", "usage": {"type": "duration", "seconds": 2}}))
        .hears(&json!({"type": "conversation.item.input_audio_transcription.completed", "item_id": "u", "transcript": " "}))
        .expect("user:hello");
}

#[test]
fn a_response_that_is_believed_active_and_is_not_keeps_nothing_waiting() {
    let not_active = json!({"type": "error", "error": {"type": "invalid_request_error", "code": "response_cancel_not_active"}});
    // The end of a response was lost. What is typed cancels it, and the service knows of none.
    Talk::new()
        .created("r1")
        .typed("Hi")
        .expect("<cancel:r1 <user")
        .hears(&not_active)
        .expect("<create")
        .created("r2")
        .done("r2", "completed", json!([]))
        .expect("generated end");
    // The service says nothing at all: whoever waits has it looked after.
    Talk::new()
        .created("r1")
        .finishes_call("r1", &call("c1", "completed", "{}"))
        .typed("Hi")
        .expect("<cancel:r1 <user")
        .told(&ModelCommand::Resynchronize)
        .expect("<create")
        .created("r2")
        .finishes_call("r2", &call("c2", "completed", "{}"))
        .done("r2", "completed", json!([]))
        .expect("calls:c2/look{} generated")
        .answered(&["c2"])
        .expect("<output:c2 <create");
    // What was heard of the cancelled one is not said, be it late.
    Talk::new()
        .created("r1")
        .speaks("r1", "a1", 20)
        .typed("Hi")
        .expect("audio pcm:960 <cancel:r1 <user")
        .hears(&not_active)
        .speaks("r1", "a1", 20)
        .expect("interrupted end <create");
    // An end that comes twice ends nothing else.
    Talk::new()
        .created("r1")
        .done("r1", "completed", json!([]))
        .expect("generated end")
        .created("r2")
        .done("r1", "completed", json!([]))
        .created("r1")
        .typed("Hi")
        .expect("<cancel:r2 <user");
    // A request that nobody answered is made again, and so is one after which the user's silence was lost.
    Talk::new()
        .typed("Hi")
        .expect("<user <create")
        .told(&ModelCommand::Resynchronize)
        .expect("<create");
    Talk::new()
        .hears_speech()
        .typed("Hi")
        .expect("speech <user")
        .told(&ModelCommand::Resynchronize)
        .expect("<create");
}
