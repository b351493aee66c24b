//! What the model is to know of an approval: told until it reacts, and the newest alone.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn what_came_of_an_approval_is_told_until_the_model_reacts() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
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
            > done
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: history "pay / Please confirm."
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
            > refused 2 1008
            client: Reconnecting { attempt: 2 }
            > wait 1000
            connect 3 with h-1
            > resumed 3
            > ready
            client: Reconnected
            to model: history "pay / Please confirm."
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
            > audio
            heard effect-1, question-1
            client: ModelGenerating
            > says It is paid.
            client: Assistant piece "It is paid."
            > done
            client: Assistant said "It is paid."
            client: TurnComplete { turn: 1 }
            > lost 3
            client: Reconnecting { attempt: 1 }
            connect 4 with h-1
            > wait 1000
            > connected 4
            > ready
            client: Reconnected
            to model: history "pay / Please confirm. / It is paid."
        "#]],
    );
}

#[test]
fn what_came_of_an_approval_is_told_after_a_kill() {
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
            > killed
            client: confirmation result call-1 ok
            > connected 1
            > ready
            to model: history "pay / Please confirm."
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn that_the_user_said_no_is_told_until_the_model_reacts() {
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
            > decline token-1
            answer question-1 no
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run with {\"text\":\"10\"} and said no. It has not run. Do not call it again unless the user asks for it."
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "pay / Please confirm."
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run with {\"text\":\"10\"} and said no. It has not run. Do not call it again unless the user asks for it."
            > calls function-call-2 pay {"text":"10"}
            heard question-1
            client: ModelGenerating
            request call-3 pay
            call-3 is a repeat: SameEffectDenied
            to model: function-call-2 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            client: ToolsComplete { tool_count: 1 }
            > lost 2
            client: Reconnecting { attempt: 2 }
            > wait 1000
            connect 3
            > connected 3
            > ready
            client: Reconnected
            to model: text "pay"
        "#]],
    );
}

#[test]
fn clicks_that_came_too_often_are_told_of_once() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 limited_pay {"text":"10"}
            client: ModelGenerating
            check rate call-1 limited_pay (free)
            request call-1 limited_pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED limited_pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"text":"10"}
            > says Please
            client: Assistant piece "Please"
            > rate 3000
            > confirm token-1
            check rate call-1 limited_pay (free)
            answer question-1 yes as call-1
            call-1 rejected RateLimit
            call-1 Refused
            client: confirmation result call-1 RATE_LIMIT limited_pay was called too often by this user
            > confirm token-1
            check rate call-1 limited_pay (free)
            answer question-1 yes as call-1
            call-1 Refused
            client: confirmation result call-1 RATE_LIMIT limited_pay was called too often by this user
            > confirm token-1
            check rate call-1 limited_pay (free)
            answer question-1 yes as call-1
            call-1 Refused
            client: confirmation result call-1 RATE_LIMIT limited_pay was called too often by this user
            > done
            client: Assistant said "Please"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            check rate call-1 limited_pay (free)
            answer question-1 yes as call-1
            call-1 Refused
            client: confirmation result call-1 RATE_LIMIT limited_pay was called too often by this user
            > rate free
            > confirm token-1
            check rate call-1 limited_pay (free)
            answer question-1 yes as call-1
            check rate call-1 limited_pay (noted)
            call-1 Approved
            start call-1 limited_pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of limited_pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "pay / Please"
            to model: notice "(A message of the system, not of the user.) The user approved the call of limited_pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
        "#]],
    );
}
