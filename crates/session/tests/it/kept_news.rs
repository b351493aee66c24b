//! A user's no to another try of what nobody knows, and outcomes that the store takes late: neither is undone by older news.

use crate::harness::{check, check_from_the_beginning};
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn a_no_to_another_try_holds_whatever_is_found_out_meanwhile() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 write {"text":"a"}
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            look up effect-9 of write
            propose call-1 write
            call-1 rejected OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Run write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > decline token-1
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            > lookup finds nothing happened
            > calls function-call-2 write {"text":"a"}
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
            > text well, do it
            to model: text "well, do it"
            > calls function-call-3 write {"text":"a"}
            look up effect-9 of write
            record effect-9 Failed
            call-3 settled effect-9: false
            reserve call-3 write as effect-9
            start call-3 write (effect-9) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_no_ends_what_was_to_ask_once_more() {
    check(
        Mode::Text,
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > generated
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > text pay it now
            turn 2 started
            to model: text "pay it now"
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
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            > calls function-call-3 pay {"text":"10"}
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_is_known_takes_the_place_of_an_outcome_that_was_not_stored() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > recording fails
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 30000
            abort call-1 (let it end)
            record effect-1 Unknown
            effect-1 not recorded
            call-1 finished OutcomeUnknown
            call-1 took 30000 ms, over Tool 500
            call-1 took 30000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > wait 1000
            record effect-1 Succeeded
            > recording works
            > wait 1000
            record effect-1 Succeeded
            all outcomes recorded
        "#]],
    );
}

#[test]
fn an_outcome_that_nobody_waits_for_is_stored_as_surely() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 30000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 30000 ms, over Tool 500
            call-1 took 30000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > recording fails
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > recording works
            > wait 1000
            record effect-1 Succeeded
            all outcomes recorded
        "#]],
    );
}

#[test]
fn what_another_session_was_at_is_asked_for_again_where_the_store_could_not_say() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > connected 1
            > ready
            > ledger running effect-7 write {"text":"a"}
            await effect-7 for call-1
            > awaited 1 nothing
            > wait 1000
            await effect-7 for call-1
            > awaited 1 unheard effect-7 write {"text":"a"}
            to model: late write ok {"kept":true}
        "#]],
    );
}

#[test]
fn a_repeat_of_an_old_call_brings_what_is_known_while_the_same_is_asked_for_again() {
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
            > calls function-call-2 pay {"text":"10"}
            answered effect-1
            client: ModelGenerating
            look up effect-1 of pay
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > done
            client: TurnComplete { turn: 1 }
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-3 pay {"text":"10"}
            client: ModelGenerating
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says It is done.
            answered effect-1
            client: Assistant piece "It is done."
            > done
            client: Assistant said "It is done."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 2 }
            > text once more
            turn 3 started
            to model: text "once more"
            > store slow
            > calls function-call-4 pay {"text":"10"}
            client: ModelGenerating
            propose call-4 pay
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "pay / again / It is done."
            to model: text "once more"
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            call-5 is a repeat: SameDelivery
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}
