//! What is known of a change stays known, whatever comes to nothing beside it, and what nobody knows is not called failed.

use crate::harness::{check, check_from_the_beginning};
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn a_call_that_is_refused_before_the_ledger_is_read_leaves_what_was_done_known() {
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
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > store slow
            > changed elsewhere 0 unheard effect-7 post {"text":"b"}
            read ledger
            > calls function-call-2 write {"text":"a"}
            > wait 10000
            call-2 finished Transient
            to model: function-call-2 TRANSIENT write was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > store up
            > wait 1000
            read ledger
            > calls function-call-3 write {"text":"a"}
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_call_that_is_refused_before_the_ledger_is_read_leaves_a_no_known() {
    check(
        Mode::Voice,
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
            > decline token-1
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            > store slow
            > changed elsewhere 0 unheard effect-7 post {"text":"b"}
            read ledger
            > calls function-call-2 pay {"text":"10"}
            > wait 10000
            call-2 finished Transient
            to model: function-call-2 TRANSIENT pay was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > store up
            > wait 1000
            read ledger
            > calls function-call-3 pay {"text":"10"}
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_reservation_that_comes_too_late_of_what_may_be_done_is_not_called_failed() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 pay {"text":"10"}
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            look up effect-9 of pay
            propose call-1 pay
            call-1 rejected OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > store slow
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-9 with token-1
            > wait 10000
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            provider silent after a result
            > lookup finds no answer
            > calls function-call-2 pay {"text":"10"}
            look up effect-9 of pay
            > store up
            > reserved 1 effect-9 again
            record effect-9 Unknown
            call-1 Withdrawn
            call-1 rejected ConfirmationExpired
            client: confirmation result call-1 CONFIRMATION_EXPIRED the store took this approval when it was too late to begin; ask for it again
        "#]],
    );
}

#[test]
fn a_second_try_that_fails_says_nothing_of_the_first_whatever_the_session_remembers() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger succeeded effect-8 pay {"text":"10"}
            > store has open 7 200 effect-9 pay 1.0.0 {"text":"10"}
            > store slow
            > confirm token-7
            find token-7
            call-1 Approved
            reserve call-1 pay as effect-9 with token-7
            > reserved 1 effect-9 again
            start call-1 pay (effect-9) {"text":"10"}
            > returns 1 permanent
            record effect-9 Unknown
            call-1 finished Permanent
            client: confirmation result call-1 PERMANENT it failed
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"it failed\",\"suggestion\":\"It cannot work. Tell the user and do not repeat the call.\",\"type\":\"PERMANENT\"}}"
            > store up
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            answered effect-9
            client: ModelGenerating
            look up effect-9 of pay
            propose call-2 pay
            call-2 rejected OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Pay 10" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}

#[test]
fn the_stores_answer_to_an_earlier_outcome_is_not_taken_for_that_to_a_later_one() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 write {"text":"a"}
            > recording hangs
            > lookup finds nothing happened
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            look up effect-9 of write
            record effect-9 Failed
            call-1 settled effect-9: false
            reserve call-1 write as effect-9
            start call-1 write (effect-9) {"text":"a"}
            > returns 1 {"x":1}
            record effect-9 Succeeded
            > recorded effect-9 as failed
            > recorded effect-9 as succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_run_that_fails_of_what_the_first_one_did_after_all_is_answered_with_that() {
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
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-2 write {"text":"a"}
            answered effect-1
            client: ModelGenerating
            look up effect-1 of write
            propose call-2 write
            call-2 rejected OutcomeUnknown
            to model: function-call-2 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Run write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > confirm token-1
            call-2 Approved
            reserve call-2 write as effect-1 with token-1
            start call-2 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > returns 2 permanent
            record effect-1 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
            > done
            turn 2 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 2 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of write, and it has run. Its result: {\"data\":{\"x\":1},\"status\":\"success\"}"
            > calls function-call-3 write {"text":"a"}
            answered effect-1
            client: ModelGenerating
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_run_of_what_the_first_one_did_after_all_is_not_tried_again() {
    check(
        Mode::Text,
        expect![[r#"
            > text do it
            turn 1 started
            to model: text "do it"
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            reserve call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > wait 60000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 60000 ms, over Tool 500
            call-1 took 60000 ms, over Turn 10000
            to model: function-call-1 OUTCOME_UNKNOWN upsert was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-2 upsert {"text":"a"}
            answered effect-1
            client: ModelGenerating
            look up effect-1 of upsert
            propose call-2 upsert
            call-2 rejected OutcomeUnknown
            to model: function-call-2 OUTCOME_UNKNOWN upsert was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Run upsert" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > confirm token-1
            call-2 Approved
            reserve call-2 upsert as effect-1 with token-1
            start call-2 upsert (effect-1) {"text":"a"}
            > returns 2 clean_transient
            call-2 attempt 2 in 351 ms
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > wait 5000
            record effect-1 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
        "#]],
    );
}

#[test]
fn a_repeat_of_an_old_call_brings_what_is_known_now() {
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
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            call-2 is a repeat: SameDelivery
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn older_news_of_a_change_does_not_take_the_place_of_what_was_found_out() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > connected 1
            > ready
            > ledger running effect-7 write {"text":"a"}
            await effect-7 for call-1
            > text write it
            turn 1 started
            to model: text "write it"
            > lookup finds it happened {"x":1}
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            look up effect-7 of write
            record effect-7 Succeeded
            call-2 settled effect-7: true
            call-2 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > awaited 1 doubtful effect-7 write {"text":"a"}
            > calls function-call-2 write {"text":"a"}
            call-3 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_the_model_has_just_been_told_is_not_told_again_as_news() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > connected 1
            > ready
            > ledger running effect-7 write {"text":"a"}
            await effect-7 for call-1
            > text write it
            turn 1 started
            to model: text "write it"
            > lookup finds it happened {"kept":true}
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            look up effect-7 of write
            record effect-7 Succeeded
            call-2 settled effect-7: true
            call-2 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
            > audio
            answered effect-7
            > awaited 1 unheard effect-7 write {"text":"a"}
            > generated
            > done
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_first_try_that_fails_while_the_second_is_about_to_begin_says_nothing_of_it() {
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
            > store slow
            > confirm token-2
            call-2 Approved
            reserve call-2 pay as effect-1 with token-2
            > returns 1 permanent
            call-1 returned late
            > reserved 2 effect-1 again
            start call-2 pay (effect-1) {"text":"10"}
            > returns 2 {"x":1}
            record effect-1 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
        "#]],
    );
}
