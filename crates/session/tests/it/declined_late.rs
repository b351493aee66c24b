//! A no and what else happens to its question meanwhile: it is put again, the change is made by another right, or nobody knows of one
//! before.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn a_no_of_which_the_store_hears_too_late_is_said_to_the_new_token_all_the_same() {
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
            > wait 500
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no (not stored)
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > proposed 1 token-2
            declined token-2
            > stored no to token-1
            > confirm token-1
            declined token-2
            > stored no to token-2
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            > confirm token-1
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_no_to_a_found_question_keeps_what_nobody_knows() {
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
            > lookup finds nobody knows
            > changed elsewhere 0 unknown effect-9 pay {"text":"10"}
            read ledger
            > calls function-call-2 pay {"text":"10"}
            call-3 is a repeat: SameEffectFinished
            to model: function-call-2 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 0 retrieval 0 refusals 1 repeats 1
            client: TurnComplete { turn: 1 }
            > text do it after all
            turn 2 started
            to model: text "do it after all"
            > calls function-call-3 pay {"text":"10"}
            client: ModelGenerating
            look up effect-9 of pay
            propose call-4 pay
            call-4 rejected OutcomeUnknown
            to model: function-call-3 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-4 "Pay 10" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}

#[test]
fn a_no_to_what_has_been_done_does_not_say_that_it_has_not_run() {
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
            > decline token-2
            declined token-2
            call-2 Declined
            call-2 rejected ConfirmationDeclined
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. Do not call it again unless the user asks for it."
        "#]],
    );
}

#[test]
fn a_no_to_a_found_question_is_told_once_in_all_processes() {
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
            > store has open 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > decline token-7
            find token-7
            declined token-7
            call-2 Declined
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            > killed
            read ledger
            client: confirmation result call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > back
        "#]],
    );
}

#[test]
fn a_no_that_was_not_stored_is_told_anew_to_who_asks_once_more() {
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
            > recording fails
            > decline token-1
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no (not stored)
            > decline token-1
            declined token-1
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no (not stored)
            > recording works
            > confirm token-1
            declined token-1
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            > confirm token-1
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_no_after_a_yes_counts_where_nothing_is_begun() {
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
            > store slow
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            > decline token-1
            > wait 5000
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            > store up
            > confirm token-1
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_no_after_a_yes_says_nothing_where_the_change_is_made() {
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
            > decline token-1
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn a_no_ends_a_call_that_waits_for_its_turn() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write both
            turn 1 started
            to model: text "write both"
            > calls function-call-1 write {"text":"b"} + function-call-2 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"b"}
            > store has open 7 60 effect-9 write 1.0.0 {"text":"a"}
            > decline token-7
            find token-7
            declined token-7
            call-3 Declined
            call-2 rejected ConfirmationDeclined
            call-3 rejected ConfirmationDeclined
            client: confirmation result call-3 CONFIRMATION_DECLINED the user was asked and said no
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1} + function-call-2 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn what_was_done_before_a_no_does_not_take_its_place() {
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
            > wait 2000
            > decline token-1
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            > changed elsewhere 1000 succeeded effect-7 pay {"text":"10"}
            read ledger
            > calls function-call-2 pay {"text":"10"}
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 1
            client: TurnComplete { turn: 1 }
            > text do it after all
            turn 2 started
            to model: text "do it after all"
            > calls function-call-3 pay {"text":"10"}
            client: ModelGenerating
            propose call-3 pay
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 "Pay 10" warned "The same was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn a_chats_model_is_told_of_what_was_done_before_a_no() {
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
            > wait 2000
            > decline token-1
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > changed elsewhere 1000 unheard effect-7 pay {"text":"10"}
            read ledger
            to model: late pay ok {"kept":true}
            > text so
            turn 2 started
            to model: text "so"
            > calls function-call-2 pay {"text":"10"}
            answered effect-7
            client: ModelGenerating
            propose call-3 pay
            call-3 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 "Pay 10" warned "The same was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
        "#]],
    );
}
