//! Answers to confirmations that count for nothing, one by one.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn refused_a_forged_token() {
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
            > confirm token-9
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn refused_an_expired_token() {
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
            > wait 300000
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
fn a_question_outlives_the_call_that_asked_it() {
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
            > cancel function-call-1
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"10"}
        "#]],
    );
}

#[test]
fn refused_a_token_after_the_session() {
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
            > stop
            client: session complete, 2 transcripts
            client: Stopped
            session ended: Stopped
            close Stopped
            > confirm token-1
        "#]],
    );
}

#[test]
fn a_used_token_tells_what_came_of_it_also_past_its_validity() {
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
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
            > wait 300000
            client: error provider_silent: the model has said nothing for 30 seconds
            to model: resynchronize
            > confirm token-1
            answer question-1 yes as call-2
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn refused_a_token_in_the_arguments() {
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
            > calls function-call-2 pay {"text":"10","confirmation_token":"token-1"}
            call-2 rejected Validation
            to model: function-call-2 VALIDATION /confirmation_token: there is no argument named `confirmation_token`
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn refused_other_arguments_than_were_shown() {
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
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"10"}
            > calls function-call-2 pay {"text":"99"}
            client: ModelGenerating
            request call-2 pay
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 "Pay 99"
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
        "#]],
    );
}
