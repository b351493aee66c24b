//! Two sessions of one conversation: what one changes the other hears of, and either takes an answer of the user.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn a_session_waits_for_what_another_is_at_and_hears_its_end() {
    check(
        Mode::Voice,
        expect![[r#"
            > opens b by text
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > b: text write it
            b: turn 1 started
            > b: calls b-call-number-1 write {"text":"a"}
            b: client: ModelGenerating
            b: request call-1 write
            b: call-1 is a repeat: SameEffectRunning
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            b: request call-1 write
            b: to model: b-call-number-1 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            b: client: ToolsComplete { tool_count: 1 }
            > b: says It is written.
            b: client: Assistant piece "It is written."
            > b: done
            b: client: Assistant said "It is written."
            b: heard effect-1
            b: turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 1
            b: client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn an_approval_in_another_session_tells_both_clients_and_the_model_that_asked() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > opens b by text
            > b: confirm token-1
            b: answer question-1 yes as call-2
            b: call-2 Approved
            b: start call-2 pay (effect-1) {"text":"10"}
            > confirm token-1
            answer question-1 yes as call-1
            > b: returns 2 {"paid":1}
            b: record effect-1 Succeeded
            b: call-2 finished
            b: client: confirmation result call-1 ok
            answer question-1 yes as call-1
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":1},\"status\":\"success\"}"
            client: confirmation result call-1 ok
            > audio
            heard effect-1, question-1
            client: ModelGenerating
            > says Paid.
            client: Assistant piece "Paid."
            > done
            client: Assistant said "Paid."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn what_an_approved_run_wants_of_the_session_that_asked_goes_there() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > opens b by text
            > b: confirm token-1
            b: answer question-1 yes as call-2
            b: call-2 Approved
            b: start call-2 pay (effect-1) {"text":"10"}
            > b: returns 2 {"intents":[{"type":"SUPPRESS_AUDIO","value":true}]}
            b: record effect-1 Succeeded
            b: call-2 finished
            b: client: confirmation result call-1 ok
            call-1 applied SUPPRESS_AUDIO
            suppress audio true
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"intents\":[{\"type\":\"SUPPRESS_AUDIO\",\"value\":true}]},\"status\":\"success\"}"
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "pay"
            s-1: question-1 about pay Open
            s-1: call-1 pay {"text":"10"} brought {"message":"pay runs only after the user has confirmed it"}
            s-1: effect-1 of pay Running, attempt 1
            s-1: question-1 about pay Approved
            s-1: asked of s-1: [SuppressAudio { value: true }]
            s-1: effect-1 of pay Done, attempt 1
            b: begins by text
            b: call-2 pay {"text":"10"} brought {"data":{"intents":[{"type":"SUPPRESS_AUDIO","value":true}]}}
            s-1: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"intents\":[{\"type\":\"SUPPRESS_AUDIO\",\"value\":true}]},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn a_denial_in_another_session_is_told_to_the_one_that_asked() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > opens b by text
            > b: decline token-1
            b: answer question-1 no
            b: call-1 Declined
            b: call-2 rejected ConfirmationDeclined
            b: client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            call-1 Declined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run with {\"text\":\"10\"} and said no. It has not run. Do not call it again unless the user asks for it."
            > b: confirm token-1
            b: answer question-1 yes as call-3
            b: call-1 Refused
            b: client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            > calls function-call-2 pay {"text":"10"}
            heard question-1
            client: ModelGenerating
            request call-2 pay
            call-2 is a repeat: SameEffectDenied
            to model: function-call-2 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_was_approved_elsewhere_is_asked_about_when_it_is_wanted_once_more() {
    check(
        Mode::Voice,
        expect![[r#"
            > text search
            turn 1 started
            to model: text "search"
            > calls function-call-1 search {"query":"a"}
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"a","top_k":3}
            > returns 1 {"results":[]}
            call-1 finished
            to model: function-call-1 ok quoted {"results":[]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED write runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} because "text that others wrote is in the conversation"
            > says May I?
            client: Assistant piece "May I?"
            > done
            client: Assistant said "May I?"
            turn 1 ended: calls 2 retrieval 1 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > opens b by text
            > b: confirm token-1
            b: answer question-1 yes as call-3
            b: call-3 Approved
            b: start call-3 write (effect-1) {"text":"a"}
            > b: returns 3 {"x":1}
            b: record effect-1 Succeeded
            b: call-3 finished
            b: client: confirmation result call-2 ok
            client: confirmation result call-2 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of write, and it has run. Its result: {\"data\":{\"x\":1},\"status\":\"success\"}"
            > text and
            turn 2 started
            to model: text "and"
            > calls function-call-3 write {"text":"a"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-3 write
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:40.000Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-2 {"text":"a"} warned "This was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn what_was_done_elsewhere_is_told_again_or_asked_about() {
    check(
        Mode::Voice,
        expect![[r#"
            > opens b by text
            > b: text write it
            b: turn 1 started
            > b: calls b-call-number-1 write {"text":"a"}
            b: client: ModelGenerating
            b: request call-1 write
            b: start call-1 write (effect-1) {"text":"a"}
            > b: returns 1 {"x":1}
            b: record effect-1 Succeeded
            b: call-1 finished
            b: to model: b-call-number-1 ok {"x":1}
            b: client: ToolsComplete { tool_count: 1 }
            > b: says Written.
            b: client: Assistant piece "Written."
            > b: done
            b: client: Assistant said "Written."
            b: heard effect-1
            b: turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            b: client: TurnComplete { turn: 1 }
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:40.000Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"text":"a"} warned "This was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
            > decline token-1
            answer question-1 no
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether write may run with {"text":"a"} and said no
        "#]],
    );
}

#[test]
fn what_one_session_has_read_the_other_minds() {
    check(
        Mode::Voice,
        expect![[r#"
            > opens b by text
            > b: text search
            b: turn 1 started
            > b: calls b-call-number-1 search {"query":"a"}
            b: client: ModelGenerating
            b: start call-1 search {"query":"a","top_k":5}
            > b: returns 1 {"results":[]}
            b: call-1 finished
            b: to model: b-call-number-1 ok quoted {"results":[]}
            b: client: ToolsComplete { tool_count: 1 }
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"} + function-call-2 ignore_user {"text":"a"}
            client: ModelGenerating
            request call-1 write
            call-1 rejected ConfirmationRequired
            request call-2 ignore_user
            client: confirm call-1 token-1 {"text":"a"} because "text that others wrote is in the conversation"
            start call-2 ignore_user (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_text_session_takes_over_what_a_session_asked_that_is_gone() {
    check(
        Mode::Text,
        expect![[r#"
            > text pay
            turn 1 started
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > shutdown
            client: error shutting_down: the server is shutting down
            client: session complete, 1 transcripts
            session ended: Shutdown
            close Shutdown
            > opens b by text
            b: client: confirm call-1 token-1 "Pay 10"
            > b: confirm token-1
            b: answer question-1 yes as call-1
            b: call-1 Approved
            b: start call-1 pay (effect-1) {"text":"10"}
            > b: returns 1 {"paid":1}
            b: record effect-1 Succeeded
            b: call-1 finished
            b: client: confirmation result call-1 ok
            b: to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":1},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn a_text_session_is_told_of_what_no_model_has_heard() {
    check(
        Mode::Text,
        expect![[r#"
            > text write it
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > stop
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 1 transcripts
            client: Stopped
            session ended: Stopped
            close Stopped
            > opens b by text
            b: to model: late write ok {"x":1}
        "#]],
    );
}

#[test]
fn a_user_is_blocked_in_each_session() {
    check(
        Mode::Voice,
        expect![[r#"
            > opens b by text
            > text block me
            turn 1 started
            to model: text "block me"
            > calls function-call-1 ignore_user {"text":"a"}
            client: ModelGenerating
            request call-1 ignore_user
            start call-1 ignore_user (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > b: text block me
            b: turn 1 started
            > b: calls b-call-number-1 ignore_user {"text":"a"}
            b: client: ModelGenerating
            b: request call-1 ignore_user
            b: start call-1 ignore_user (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn an_approval_of_what_runs_elsewhere_waits_for_its_end() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > opens b by text
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"10"}
            > b: confirm token-1
            b: answer question-1 yes as call-2
            > returns 1 {"paid":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":1},\"status\":\"success\"}"
            b: answer question-1 yes as call-2
            b: client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn an_approval_beside_what_the_question_did_not_name_is_asked_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > opens b by text
            > b: text search
            b: turn 1 started
            > b: calls b-call-number-1 search {"query":"a"}
            b: client: ModelGenerating
            b: start call-2 search {"query":"a","top_k":5}
            > b: returns 2 {"results":[]}
            b: call-2 finished
            b: to model: b-call-number-1 ok quoted {"results":[]}
            b: client: ToolsComplete { tool_count: 1 }
            > confirm token-1
            answer question-1 yes as call-1
            client: confirm call-1 token-2 "Pay 10"
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_REQUIRED text that others wrote has come into the conversation since you were asked about pay: see the new question
            > confirm token-1
            answer question-1 yes as call-2
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > confirm token-2
            answer question-2 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"10"}
        "#]],
    );
}

#[test]
fn requests_of_two_legs_that_numbered_alike_are_told_apart() {
    check(
        Mode::Text,
        expect![[r#"
            > opens b by text
            > text pay
            turn 1 started
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > b: text pay
            b: turn 1 started
            > b: calls function-call-1 pay {"text":"20"}
            b: client: ModelGenerating
            b: request call-1 pay
            b: call-1 rejected ConfirmationRequired
            b: to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            b: client: ToolsComplete { tool_count: 1 }
            b: client: confirm call-1 token-2 "Pay 20"
            > b: done
            b: turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            b: client: TurnComplete { turn: 1 }
            > shutdown
            client: error shutting_down: the server is shutting down
            client: session complete, 1 transcripts
            session ended: Shutdown
            close Shutdown
            > b: shutdown
            b: client: error shutting_down: the server is shutting down
            b: client: session complete, 1 transcripts
            b: session ended: Shutdown
            b: close Shutdown
            > opens c by text
            c: client: confirm call-1 token-1 "Pay 10"
            c: client: confirm call-2 token-2 "Pay 20"
            > c: decline token-2
            c: answer question-2 no
            c: call-2 Declined
            c: call-2 rejected ConfirmationDeclined
            c: client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"20"} and said no
            c: to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run with {\"text\":\"20\"} and said no. It has not run. Do not call it again unless the user asks for it."
            > c: confirm token-1
            c: answer question-1 yes as call-1
            c: call-1 Approved
            c: start call-1 pay (effect-1) {"text":"10"}
        "#]],
    );
}
