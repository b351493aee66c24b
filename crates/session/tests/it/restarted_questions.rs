//! Questions to the user that outlive the process of their session, and what came of those that were answered.

use crate::harness::{check, check_from_the_beginning};
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn an_open_question_waits_on_under_a_new_token() {
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
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > killed
            read ledger
            > back
            propose call-1 pay in place of token-1
            client: confirm call-1 "Pay 10"
            > connected 1
            > ready
            to model: history "pay / Please confirm."
            > confirm token-1
            find token-1
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > confirm token-2
            call-1 Approved
            reserve call-1 pay as effect-1 with token-2
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
            > confirm token-2
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn a_model_that_asks_again_joins_the_open_question() {
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
            > killed
            read ledger
            > back
            propose call-1 pay in place of token-1
            client: confirm call-1 "Pay 10"
            > connected 1
            > ready
            to model: text "pay"
            > calls other-call-1 pay {"text":"10"}
            client: ModelGenerating
            call-2 is a repeat: SameEffectAsked
            to model: other-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn an_approved_change_has_its_answer_for_the_client_the_model_and_the_used_token() {
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
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > recording hangs
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            > recording works
            > killed
            read ledger
            client: confirmation result call-1 ok
            > back
            > connected 1
            > ready
            to model: history "pay / Please confirm."
            to model: late pay ok {"paid":10}
            > confirm token-1
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn an_approved_change_that_may_have_happened_says_so() {
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
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > killed
            read ledger
            client: confirmation result call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > back
            > connected 1
            > ready
            to model: history "pay / Please confirm."
            to model: late pay OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > confirm token-1
            await effect-1 for call-1
            > calls other-call-1 pay {"text":"10"}
            answered effect-1
            turn 2 started
            client: ModelGenerating
            look up effect-1 of pay
            call-3 is a repeat: SameEffectFinished
            to model: other-call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_no_stays_a_no() {
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
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > decline token-1
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > killed
            read ledger
            > back
            > connected 1
            > ready
            to model: history "pay / Please confirm."
            > confirm token-1
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            > calls other-call-1 pay {"text":"10"}
            turn 2 started
            client: ModelGenerating
            call-3 is a repeat: SameEffectFinished
            to model: other-call-1 CONFIRMATION_DECLINED the user was asked and said no
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
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
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
            > killed
            read ledger
            > back
            > confirm token-1
            find token-1
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn a_question_that_was_asked_after_the_last_save_waits_on_all_the_same() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > disk full
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > killed
            read ledger
            > back
            propose call-1 pay in place of token-1
            client: confirm call-1 "Pay 10"
            > confirm token-2
            call-1 Approved
            reserve call-1 pay as effect-1 with token-2
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn a_client_that_waits_for_a_question_hears_that_its_time_is_up() {
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
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > disk full
            > wait 300000
            call-1 Expired
            call-1 rejected ConfirmationExpired
            client: confirmation result call-1 CONFIRMATION_EXPIRED the user did not answer in time
            > killed
            read ledger
            client: confirmation result call-1 CONFIRMATION_EXPIRED the question is not open any more: its time is up, or it was taken back
            > back
            > confirm token-1
            find token-1
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn a_question_about_a_tool_that_has_changed_is_closed_with_that_reason() {
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
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > killed, tools changed
            read ledger
            withdraw token-1
            call-1 Withdrawn
            client: confirmation result call-1 CONFIRMATION_EXPIRED pay has changed since you were asked, so that this approval does not count; ask for it again
            > confirm token-1
            client: confirmation result call-1 CONFIRMATION_EXPIRED pay has changed since you were asked, so that this approval does not count; ask for it again
            > back
            > killed
            read ledger
            > confirm token-1
            find token-1
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn what_was_asked_when_the_server_shut_down_waits_on() {
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
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > shutdown
            client: error shutting_down: the server is shutting down
            client: session complete, 2 transcripts
            session ended: Shutdown
            close Shutdown
            > killed
            read ledger
            > back
            propose call-1 pay in place of token-1
            client: confirm call-1 "Pay 10"
            > connected 1
            > ready
            to model: history "pay / Please confirm."
            > confirm token-2
            call-1 Approved
            reserve call-1 pay as effect-1 with token-2
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn each_of_two_questions_about_one_effect_says_that_it_may_have_happened() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-7 write {"text":"a"}
            > continued 3 7 60 effect-7 write 1.0.0 {"text":"a"}
            > continued 5 8 60 effect-7 write 1.0.0 {"text":"a"}
            > gone
            > back
            propose call-3 write in place of token-7
            propose call-5 write in place of token-8
            client: confirm call-3 "Run write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            client: confirm call-5 "Run write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}
