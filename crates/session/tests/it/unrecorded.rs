//! Outcomes that the store has not taken: they are said to be unrecorded and tried again, and no change starts before they are
//! stored.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn an_outcome_that_is_not_stored_in_time_is_said_so_and_no_change_starts_until_it_is() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording hangs
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            > wait 500
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"b"}
            record effect-1 Succeeded
            > recording works
            > wait 1000
            record effect-1 Succeeded
            all outcomes recorded
            reserve call-2 write
            start call-2 write (effect-2) {"text":"b"}
            > text again
            to model: text "again"
            > calls function-call-4 write {"text":"c"}
            reserve call-3 write
            start call-3 write (effect-3) {"text":"c"}
        "#]],
    );
}

#[test]
fn a_change_that_waits_for_an_outcome_to_be_stored_runs_as_soon_as_it_is() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording fails
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > recording works
            > calls function-call-2 write {"text":"b"} + function-call-3 write {"text":"c"}
            record effect-1 Succeeded
            all outcomes recorded
            reserve call-2 write
            start call-2 write (effect-2) {"text":"b"}
            > returns 2 {"x":2}
            record effect-2 Succeeded
            call-2 finished
            reserve call-3 write
            start call-3 write (effect-3) {"text":"c"}
            > returns 3 {"x":3}
            record effect-3 Succeeded
            call-3 finished
            to model: function-call-2 ok {"x":2} + function-call-3 ok {"x":3}
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn a_change_waits_for_one_more_try_to_store_an_outcome() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording fails
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"b"} + function-call-3 write {"text":"c"}
            record effect-1 Succeeded
            call-2 finished Transient
            record effect-1 Succeeded
            call-3 finished Transient
            to model: function-call-2 TRANSIENT write was not started: the store does not answer + function-call-3 TRANSIENT write was not started: the store does not answer
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn a_change_waits_no_longer_for_an_outcome_to_be_stored_than_for_the_store() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording hangs
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            > wait 500
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"b"}
            record effect-1 Succeeded
            > calls function-call-3 write {"text":"c"}
            record effect-1 Succeeded
            > cancel function-call-3
            call-3 cancelled
            client: ToolsComplete { tool_count: 1 }
            > wait 5000
            record effect-1 Succeeded
            call-2 finished Transient
            to model: function-call-2 TRANSIENT write was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > recording works
            > wait 1000
            record effect-1 Succeeded
            all outcomes recorded
        "#]],
    );
}

#[test]
fn an_outcome_that_was_never_stored_is_tried_once_more_at_the_end() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording fails
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > stop
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 1 transcripts
            record effect-1 Succeeded
            client: Stopped
            session ended: Stopped
            close Stopped
        "#]],
    );
}

#[test]
fn what_was_reserved_too_late_is_called_failed_until_the_store_has_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > store slow
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            > wait 5000
            call-1 finished Transient
            to model: function-call-1 TRANSIENT write was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > recording fails
            > reserved 1 effect-1
            record effect-1 Failed
            > recording works
            > wait 1000
            record effect-1 Failed
            all outcomes recorded
        "#]],
    );
}

#[test]
fn an_outcome_of_an_earlier_run_is_not_stored_again_once_the_effect_has_begun_again() {
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
            > unrecorded effect-9 as failed
            > wait 1000
            > returns 1 {"x":1}
            record effect-9 Succeeded
            > recorded effect-9 as succeeded
            call-1 finished
            call-1 took 1000 ms, over Tool 500
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_a_lookup_found_not_to_have_happened_is_stored_as_surely() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 pay {"text":"10"}
            > recording fails
            > lookup finds nothing happened
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            look up effect-9 of pay
            record effect-9 Failed
            call-1 settled effect-9: false
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > recording works
            > wait 1000
            record effect-9 Failed
            all outcomes recorded
        "#]],
    );
}

#[test]
fn what_is_known_is_not_taken_back_by_a_reservation_that_came_too_late() {
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
            > recording fails
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > wait 5000
            record effect-1 Succeeded
            call-2 finished Transient
            client: confirmation result call-2 TRANSIENT pay was not started: the store does not answer
            > reserved 2 effect-1 again
            call-2 Withdrawn
            call-2 rejected ConfirmationExpired
            client: confirmation result call-2 CONFIRMATION_EXPIRED the store took this approval when it was too late to begin; ask for it again
            > recording works
            > wait 1000
            record effect-1 Succeeded
            all outcomes recorded
        "#]],
    );
}

#[test]
fn the_stores_answer_to_an_earlier_try_does_not_begin_the_next_one() {
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
            > wait 5000
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            > reserved 1 effect-1
            record effect-1 Failed
            > wait 5000
            provider silent after a result
            call-1 finished Transient again
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
        "#]],
    );
}
