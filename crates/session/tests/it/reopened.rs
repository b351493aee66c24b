//! Approvals that came to nothing: the user need not be asked again for what was not begun.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn an_approval_that_the_store_did_not_take_can_be_given_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > store down
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"pay was not started: the store does not answer\",\"suggestion\":\"It did not work this time. Say so; the user may try again.\",\"type\":\"TRANSIENT\"}}"
            > store up
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
            > confirm token-1
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn an_approval_that_came_too_often_can_be_given_again_later() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 limited_pay {"text":"10"}
            client: ModelGenerating
            check rate call-1 limited_pay (free)
            propose call-1 limited_pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED limited_pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Run limited_pay"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > rate 5000
            > confirm token-1
            call-1 Approved
            check rate call-1 limited_pay
            call-1 finished RateLimit
            client: confirmation result call-1 RATE_LIMIT limited_pay was called too often by this user
            to model: notice "(A message of the system, not of the user.) The user approved the call of limited_pay. It did not work: {\"error\":{\"message\":\"limited_pay was called too often by this user\",\"suggestion\":\"Too many calls just now. Tell the user to wait a little.\",\"type\":\"RATE_LIMIT\"}}"
            > rate none
            > confirm token-1
            call-1 Approved
            check rate call-1 limited_pay
            reserve call-1 limited_pay as effect-1 with token-1
            start call-1 limited_pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of limited_pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn a_model_that_asks_again_has_the_question_put_anew_under_one_token() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > store down
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"pay was not started: the store does not answer\",\"suggestion\":\"It did not work this time. Say so; the user may try again.\",\"type\":\"TRANSIENT\"}}"
            > says Once more.
            client: Assistant piece "Once more."
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            propose call-2 pay in place of token-1
            call-2 problem: the store does not answer: disk full
            call-2 finished Transient
            to model: function-call-2 TRANSIENT pay was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > store up
            > calls function-call-3 pay {"text":"10"}
            propose call-3 pay in place of token-1
            call-1 Withdrawn
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 "Pay 10"
            > confirm token-1
            find token-1
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > confirm token-2
            find token-2
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > confirm token-3
            call-3 Approved
            reserve call-3 pay as effect-1 with token-3
            start call-3 pay (effect-1) {"text":"10"}
            > returns 3 {"paid":10}
            record effect-1 Succeeded
            call-3 finished
            client: confirmation result call-3 ok
        "#]],
    );
}

#[test]
fn an_approval_that_came_to_nothing_can_still_be_taken_back() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > store down
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"pay was not started: the store does not answer\",\"suggestion\":\"It did not work this time. Say so; the user may try again.\",\"type\":\"TRANSIENT\"}}"
            > store up
            > decline token-1
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > confirm token-1
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn an_approval_that_came_to_nothing_runs_out_at_the_end_of_its_time() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > store down
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"pay was not started: the store does not answer\",\"suggestion\":\"It did not work this time. Say so; the user may try again.\",\"type\":\"TRANSIENT\"}}"
            > store up
            > wait 300000
            client: error provider_silent: the model has said nothing for 30 seconds
            call-1 Expired
            call-1 rejected ConfirmationExpired
            client: confirmation result call-1 CONFIRMATION_EXPIRED the user did not answer in time
            > confirm token-1
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn an_approval_of_a_call_that_was_begun_is_used_up() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 clean_transient
            record effect-1 Failed
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT it failed
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"it failed\",\"suggestion\":\"It did not work this time. Say so; the user may try again.\",\"type\":\"TRANSIENT\"}}"
            > confirm token-1
            client: confirmation result call-1 TRANSIENT it failed
        "#]],
    );
}

#[test]
fn an_approval_that_came_to_nothing_waits_on_after_a_restart() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > store down
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"pay was not started: the store does not answer\",\"suggestion\":\"It did not work this time. Say so; the user may try again.\",\"type\":\"TRANSIENT\"}}"
            > store up
            > killed
            read ledger
            > back
            propose call-1 pay in place of token-1
            client: confirm call-1 "Pay 10"
            > confirm token-2
            call-1 Approved
            reserve call-1 pay as effect-1 with token-2
            start call-1 pay (effect-1) {"text":"10"}
        "#]],
    );
}

#[test]
fn an_approval_that_the_store_took_too_late_is_asked_for_anew() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > store slow
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            > wait 10000
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"pay was not started: the store does not answer\",\"suggestion\":\"It did not work this time. Say so; the user may try again.\",\"type\":\"TRANSIENT\"}}"
            > store up
            > reserved 1 effect-1
            record effect-1 Failed
            call-1 Withdrawn
            call-1 rejected ConfirmationExpired
            client: confirmation result call-1 CONFIRMATION_EXPIRED the store took this approval when it was too late to begin; ask for it again
            > confirm token-1
            client: confirmation result call-1 CONFIRMATION_EXPIRED the store took this approval when it was too late to begin; ask for it again
            > text pay now
            turn 2 started
            to model: text "pay now"
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            propose call-2 pay
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Pay 10"
            > confirm token-2
            call-2 Approved
            reserve call-2 pay as effect-1 with token-2
            start call-2 pay (effect-1) {"text":"10"}
        "#]],
    );
}

#[test]
fn a_question_whose_new_token_may_be_the_good_one_is_waited_for_no_more() {
    check(
        Mode::Text,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > store down
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"pay was not started: the store does not answer\",\"suggestion\":\"It did not work this time. Say so; the user may try again.\",\"type\":\"TRANSIENT\"}}"
            > store slow
            > text pay now
            turn 2 started
            to model: text "pay now"
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            propose call-2 pay in place of token-1
            > wait 10000
            withdraw token-1
            call-1 Withdrawn
            call-1 rejected ConfirmationExpired
            client: confirmation result call-1 CONFIRMATION_EXPIRED the store did not answer when this was to be asked once more; ask for it again
            call-2 finished Transient
            to model: function-call-2 TRANSIENT pay was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > store up
            > confirm token-1
            client: confirmation result call-1 CONFIRMATION_EXPIRED the store did not answer when this was to be asked once more; ask for it again
            > text pay, please
            to model: text "pay, please"
            > calls function-call-3 pay {"text":"10"}
            propose call-3 pay
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 "Pay 10"
            > confirm token-2
            call-3 Approved
            reserve call-3 pay as effect-1 with token-2
            start call-3 pay (effect-1) {"text":"10"}
        "#]],
    );
}

#[test]
fn an_approval_that_comes_to_nothing_once_more_is_a_record_of_its_own_for_another_cause_alone() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 limited_pay {"text":"10"}
            client: ModelGenerating
            check rate call-1 limited_pay (free)
            propose call-1 limited_pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED limited_pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Run limited_pay"
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > rate 5000
            > confirm token-1
            call-1 Approved
            check rate call-1 limited_pay
            call-1 finished RateLimit
            client: confirmation result call-1 RATE_LIMIT limited_pay was called too often by this user
            to model: notice "(A message of the system, not of the user.) The user approved the call of limited_pay. It did not work: {\"error\":{\"message\":\"limited_pay was called too often by this user\",\"suggestion\":\"Too many calls just now. Tell the user to wait a little.\",\"type\":\"RATE_LIMIT\"}}"
            > confirm token-1
            call-1 Approved
            check rate call-1 limited_pay
            call-1 finished RateLimit again
            client: confirmation result call-1 RATE_LIMIT limited_pay was called too often by this user
            > rate none
            > store down
            > confirm token-1
            call-1 Approved
            check rate call-1 limited_pay
            reserve call-1 limited_pay as effect-1 with token-1
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT limited_pay was not started: the store does not answer
            to model: notice "(A message of the system, not of the user.) The user approved the call of limited_pay. It did not work: {\"error\":{\"message\":\"limited_pay was not started: the store does not answer\",\"suggestion\":\"It did not work this time. Say so; the user may try again.\",\"type\":\"TRANSIENT\"}}"
            > rate 5000
            > confirm token-1
            call-1 Approved
            reserve call-1 limited_pay as effect-1 with token-1
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient again
            client: confirmation result call-1 TRANSIENT limited_pay was not started: the store does not answer
            > rate none
            > confirm token-1
            call-1 Approved
            reserve call-1 limited_pay as effect-1 with token-1
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient again
            client: confirmation result call-1 TRANSIENT limited_pay was not started: the store does not answer
            > store up
            > confirm token-1
            call-1 Approved
            reserve call-1 limited_pay as effect-1 with token-1
            start call-1 limited_pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of limited_pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
        "#]],
    );
}
