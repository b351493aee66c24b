//! Sessions that go on in another process: questions that wait, results that nobody has heard, turns that were open.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn an_open_question_waits_on_under_its_token() {
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
            > killed
            client: confirm call-1 token-1 "Pay 10"
            > connected 1
            > ready
            to model: history "pay / Please confirm."
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":1},\"status\":\"success\"}"
            > audio
            heard effect-1, question-1
            turn 2 started
            client: ModelGenerating
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "pay"
            s-1: question-1 about pay Open
            s-1: call-1 pay {"text":"10"} brought {"message":"pay runs only after the user has confirmed it"}
            s-1: Assistant said "Please confirm."
            s-1: begins by voice
            s-1: effect-1 of pay Running, attempt 1
            s-1: question-1 about pay Approved
            s-1: effect-1 of pay Done, attempt 1
            s-1: call-1 pay {"text":"10"} brought {"data":{"paid":1}}
            s-1: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":1},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn a_model_that_asks_again_is_told_that_the_user_is_asked() {
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
            > killed
            client: confirm call-1 token-1 "Pay 10"
            > connected 1
            > ready
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-2 pay
            call-2 is a repeat: SameEffectAsked
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_question_that_ran_out_meanwhile_is_over() {
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
            > says Please.
            client: Assistant piece "Please."
            > done
            client: Assistant said "Please."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 200000
            > killed
            client: confirm call-1 token-1 "Pay 10"
            > connected 1
            > ready
            to model: history "pay / Please."
            > wait 100000
            call-1 Expired
            call-1 rejected ConfirmationExpired
            client: confirmation result call-1 CONFIRMATION_EXPIRED the user did not answer in time
            > confirm token-1
            answer question-1 yes as call-2
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn a_tool_that_has_changed_is_not_run_with_an_old_approval() {
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
            > says Please.
            client: Assistant piece "Please."
            > done
            client: Assistant said "Please."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > killed, tools changed
            client: confirm call-1 token-1 "Pay 10"
            > connected 1
            > ready
            to model: history "pay / Please."
            > confirm token-1
            answer question-1 yes as call-2
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED pay has changed since you were asked, so that this approval does not count; ask for it again
            > confirm token-1
            answer question-1 yes as call-3
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn a_denial_that_the_model_has_not_heard_of_is_told() {
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
            > says Please
            client: Assistant piece "Please"
            > decline token-1
            answer question-1 no
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            > killed
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            > connected 1
            > ready
            to model: text "pay"
            > says Please.
            client: ModelGenerating
            client: Assistant piece "Please."
            > done
            client: Assistant said "Please."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run with {\"text\":\"10\"} and said no. It has not run. Do not call it again unless the user asks for it."
            > audio
            heard question-1
            client: ModelGenerating
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "pay"
            s-1: question-1 about pay Open
            s-1: call-1 pay {"text":"10"} brought {"message":"pay runs only after the user has confirmed it"}
            s-1: question-1 about pay Denied
            s-1: begins by voice
            s-1: Assistant said "Please."
            s-1: notice "(A message of the system, not of the user.) The user was asked whether pay may run with {\"text\":\"10\"} and said no. It has not run. Do not call it again unless the user asks for it."
        "#]],
    );
}

#[test]
fn an_approved_change_that_the_model_has_not_heard_of_is_told() {
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
            > says Please.
            client: Assistant piece "Please."
            > done
            client: Assistant said "Please."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > hears so
            turn 2 started
            client: User piece "so"
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > killed
            client: confirmation result call-1 ok
            > connected 1
            > ready
            to model: history "pay / Please."
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":1},\"status\":\"success\"}"
            > says So.
            client: Assistant piece "So."
            > done
            turn 3 started
            client: ModelGenerating
            client: Assistant said "So."
            turn 3 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 3 }
            > audio
            heard effect-1, question-1
            turn 4 started
            client: ModelGenerating
        "#]],
    );
}

#[test]
fn an_approved_change_that_was_running_is_told_as_unknown() {
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
            > says Please.
            client: Assistant piece "Please."
            > done
            client: Assistant said "Please."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"10"}
            > killed
            client: confirmation result call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > connected 1
            > ready
            to model: history "pay / Please."
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and nobody knows whether it has happened: {\"error\":{\"message\":\"pay was started, and how it ended is not known\",\"suggestion\":\"It may or may not have happened. Say so, and do not try again.\",\"type\":\"OUTCOME_UNKNOWN\"}}"
            > audio
            heard effect-1, question-1
            turn 2 started
            client: ModelGenerating
            > done
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > confirm token-1
            answer question-1 yes as call-2
            client: confirmation result call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
        "#]],
    );
}

#[test]
fn ids_that_begin_anew_are_no_conflict() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says Written.
            client: Assistant piece "Written."
            > done
            client: Assistant said "Written."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > killed
            > connected 1
            > ready
            to model: history "write it / Written."
            > text write b
            turn 2 started
            to model: text "write b"
            > calls function-call-1 write {"text":"b"}
            client: ModelGenerating
            request call-2 write
            start call-2 write (effect-2) {"text":"b"}
            > returns 2 {"x":2}
            record effect-2 Succeeded
            call-2 finished
            to model: function-call-1 ok {"x":2}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_is_written_after_a_kill_loses_nothing_to_what_was_written_before_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > says Good day.
            client: ModelGenerating
            client: Assistant piece "Good day."
            > done
            client: Assistant said "Good day."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > disk full
            > text write it
            turn 2 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says Written.
            client: Assistant piece "Written."
            > done
            client: Assistant said "Written."
            heard effect-1
            turn 2 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > killed
            > connected 1
            > ready
            to model: history "hello / Good day. / write it / Written."
            > text write it
            turn 2 started
            to model: text "write it"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:40.000Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} warned "This was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "hello"
            s-1: Assistant said "Good day."
            s-1: the user begins
            s-1: User said "write it"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write Done, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"x":1}}
            s-1: Assistant said "Written."
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "write it"
            s-1: question-1 about write Open
            s-1: call-2 write {"text":"a"} brought {"message":"write was done before, at 2026-11-18T11:06:40.000Z with {\"text\":\"a\"}. It was not done again: the user is being asked whether to do it once more"}
        "#]],
    );
}
