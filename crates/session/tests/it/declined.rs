//! A no is told once the store has it, so that no later process puts the question again to somebody who was told that it is closed.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn a_no_is_told_once_it_is_stored_and_to_each_who_waits() {
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
            > says Shall I?
            client: Assistant piece "Shall I?"
            > generated
            > done
            client: Assistant said "Shall I?"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > recording hangs
            > decline token-1
            declined token-1
            call-1 Declined
            > confirm token-1
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
            > stored no to token-1
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            > confirm token-1
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_no_that_the_store_does_not_answer_is_told_as_not_stored() {
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
            > says Shall I?
            client: Assistant piece "Shall I?"
            > generated
            > done
            client: Assistant said "Shall I?"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > recording hangs
            > decline token-1
            declined token-1
            call-1 Declined
            > wait 499
            > wait 1
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no (not stored)
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > stored no to token-1
            > confirm token-1
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_no_that_the_store_does_not_take_is_told_as_not_stored() {
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
            > says Shall I?
            client: Assistant piece "Shall I?"
            > generated
            > done
            client: Assistant said "Shall I?"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > recording fails
            > decline token-1
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no (not stored)
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
        "#]],
    );
}

#[test]
fn a_session_ends_when_its_last_no_is_stored() {
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
            > says Shall I?
            client: Assistant piece "Shall I?"
            > generated
            > done
            client: Assistant said "Shall I?"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > recording hangs
            > decline token-1
            declined token-1
            call-1 Declined
            > stop
            client: session complete, 2 transcripts
            > stored no to token-1
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            client: Stopped
            session ended: Stopped
            close Stopped
        "#]],
    );
}

#[test]
fn a_process_that_ends_before_a_no_is_stored_leaves_the_question_open() {
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
            > says Shall I?
            client: Assistant piece "Shall I?"
            > generated
            > done
            client: Assistant said "Shall I?"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > recording hangs
            > decline token-1
            declined token-1
            call-1 Declined
            > killed
            read ledger
            > recording works
            > back
            propose call-1 pay in place of token-1
            client: confirm call-1 "Pay 10"
            > connected 1
            > ready
            to model: history "pay / Shall I?"
            > decline token-2
            declined token-2
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
        "#]],
    );
}

#[test]
fn a_process_that_ends_after_a_no_was_told_says_nothing_more_of_it() {
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
            > says Shall I?
            client: Assistant piece "Shall I?"
            > generated
            > done
            client: Assistant said "Shall I?"
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
            to model: history "pay / Shall I?"
            > confirm token-1
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_no_to_a_token_that_is_being_replaced_is_said_to_the_new_one() {
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
            > says Shall I?
            client: Assistant piece "Shall I?"
            > generated
            > done
            client: Assistant said "Shall I?"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > recording hangs
            > store slow
            > gone
            > back
            propose call-1 pay in place of token-1
            > decline token-1
            declined token-1
            call-1 Declined
            > proposed 1 token-2
            declined token-2
            > stored no to token-1
            > stored no to token-2
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > confirm token-2
            find token-2
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn a_no_while_the_same_is_to_be_asked_anew_is_said_to_the_new_question() {
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
            > says Shall I?
            client: Assistant piece "Shall I?"
            > generated
            > done
            client: Assistant said "Shall I?"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > text pay it now
            turn 2 started
            to model: text "pay it now"
            > recording hangs
            > store slow
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            propose call-2 pay in place of token-1
            > decline token-1
            declined token-1
            call-1 Declined
            call-2 rejected ConfirmationDeclined
            to model: function-call-2 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
            > proposed 2 token-2
            declined token-2
            > stored no to token-1
            > stored no to token-2
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_no_to_a_found_question_is_told_once_it_is_stored() {
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
            > says Shall I?
            client: Assistant piece "Shall I?"
            > generated
            > done
            client: Assistant said "Shall I?"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > store has open 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > recording hangs
            > decline token-7
            find token-7
            declined token-7
            call-2 Declined
            > decline token-7
            > stored no to token-7
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_no_to_what_has_been_done_meanwhile_asks_for_no_other() {
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
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > wait 30000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 30000 ms, over Tool 500
            call-1 took 30000 ms, over Turn 1500
            client: confirmation result call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"pay was started, and how it ended is not known\",\"suggestion\":\"It may or may not have happened. Say so, and do not try again.\",\"type\":\"OUTCOME_UNKNOWN\"}}"
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-2 pay {"text":"10"}
            answered effect-1
            client: ModelGenerating
            look up effect-1 of pay
            propose call-2 pay
            call-2 rejected OutcomeUnknown
            to model: function-call-2 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Pay 10" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > done
            turn 2 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 2 }
            > text so
            turn 3 started
            to model: text "so"
            > decline token-2
            declined token-2
            call-2 Declined
            call-2 rejected ConfirmationDeclined
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            > calls function-call-3 pay {"text":"10"}
            client: ModelGenerating
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_no_to_a_found_question_ends_the_lookup_of_the_same_wish() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 pay {"text":"10"}
            > text pay
            turn 1 started
            to model: text "pay"
            > lookup finds no answer
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            look up effect-9 of pay
            > store has open 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > decline token-7
            find token-7
            declined token-7
            call-2 Declined
            abort call-1
            call-1 rejected ConfirmationDeclined
            to model: function-call-1 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
            call-2 rejected ConfirmationDeclined
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            > calls function-call-2 pay {"text":"10"}
            call-3 is a repeat: SameEffectFinished
            to model: function-call-2 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}
