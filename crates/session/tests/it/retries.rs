//! Further attempts: when they are made, how long after, and what they may never repeat.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;

#[test]
fn a_failed_read_is_tried_three_times_more_and_the_pauses_double() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 transient
            call-1 attempt 2 in 285 ms
            > wait 400
            start call-1 look {"text":"a"}
            > returns 1/2 transient
            call-1 attempt 3 in 630 ms
            > wait 800
            start call-1 look {"text":"a"}
            > returns 1/3 transient
            call-1 attempt 4 in 1332 ms
            > wait 1500
            start call-1 look {"text":"a"}
            > returns 1/4 transient
            call-1 finished Transient
            call-1 took 2700 ms, over Tool 500
            to model: function-call-1 TRANSIENT it failed
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_retry_that_works_is_the_answer() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 transient
            call-1 attempt 2 in 285 ms
            > wait 400
            start call-1 look {"text":"a"}
            > returns 1/2 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_the_handler_says_about_retries_holds() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 once
            call-1 attempt 2 in 2000 ms
            > wait 1999
            > wait 1
            start call-1 look {"text":"a"}
            > returns 1/2 once
            call-1 finished Transient
            call-1 took 2000 ms, over Tool 500
            to model: function-call-1 TRANSIENT it failed
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_read_that_ran_out_of_time_is_tried_again_and_its_late_result_is_not_heard() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > wait 5000
            abort call-1
            call-1 attempt 2 in 285 ms
            > wait 400
            start call-1 look {"text":"a"}
            > returns 1 {"late":1}
            call-1 returned late
            > returns 1/2 {"x":1}
            call-1 finished
            call-1 took 5400 ms, over Tool 500
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn nothing_is_tried_again_while_somebody_listens() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 transient
            call-1 finished Transient
            to model: function-call-1 TRANSIENT it failed
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_may_not_be_repeated_is_not() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 clean_transient
            record effect-1 Failed
            call-1 finished Transient
            to model: function-call-1 TRANSIENT it failed
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_may_be_repeated_keeps_its_effect() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 clean_transient
            record effect-1 Failed
            call-1 attempt 2 in 285 ms
            > wait 400
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1/2 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_may_have_happened_is_never_tried_again_by_itself() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 transient
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN upsert was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_call_that_is_taken_back_between_attempts_ends() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 transient
            call-1 attempt 2 in 285 ms
            > cancel function-call-1
            call-1 cancelled
            client: ToolsComplete { tool_count: 1 }
            > wait 4000
        "#]],
    );
}

#[test]
fn no_attempt_begins_after_the_turns_deadline() {
    check_with(
        Mode::Text,
        |config| {
            let mut limits = Limits::of(Mode::Text);
            limits.turn.retry_within_ms = 200;
            config.limits = Arc::new(limits);
        },
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 transient
            call-1 finished Transient
            to model: function-call-1 TRANSIENT it failed
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_service_that_is_busy_for_longer_than_the_lease_has_refused_and_is_asked_again() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 busy
            record effect-1 Failed
            call-1 attempt 2 in 25000 ms
            > wait 20000
            > sweep
            > wait 5000
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1/2 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            call-1 took 25000 ms, over Tool 500
            call-1 took 25000 ms, over Turn 10000
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_is_taken_back_between_attempts_has_not_happened() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 busy
            record effect-1 Failed
            call-1 attempt 2 in 25000 ms
            > cancel function-call-1
            call-1 cancelled
            client: ToolsComplete { tool_count: 1 }
            > wait 30000
            > text again
            > calls function-call-2 upsert {"text":"a"}
            request call-2 upsert
            start call-2 upsert (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn what_was_approved_once_is_tried_again_without_a_further_question() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 settle {"text":"a"}
            client: ModelGenerating
            request call-1 settle
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED settle runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"text":"a"}
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 settle (effect-1) {"text":"a"}
            > returns 1 busy
            record effect-1 Failed
            call-1 attempt 2 in 25000 ms
            > confirm token-1
            > wait 25000
            answer question-1 yes as call-1
            start call-1 settle (effect-1) {"text":"a"}
            > returns 1/2 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            call-1 took 25000 ms, over Tool 500
            call-1 took 25000 ms, over Turn 10000
            client: confirmation result call-1 ok
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of settle, and it has run. Its result: {\"data\":{\"x\":1},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn a_retry_is_judged_anew_when_its_wait_is_over() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"} + function-call-2 search {"query":"q"}
            client: ModelGenerating
            request call-1 upsert
            start call-2 search {"query":"q","top_k":5}
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 busy
            record effect-1 Failed
            call-1 attempt 2 in 25000 ms
            > returns 2 {"x":1}
            call-2 finished
            > wait 25000
            request call-1 upsert
            client: confirm call-1 token-1 {"text":"a"} because "text that others wrote is in the conversation"
            call-1 finished ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED upsert runs only after the user has confirmed it, because this conversation holds text that others wrote + function-call-2 ok quoted {"x":1}
            client: ToolsComplete { tool_count: 2 }
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 upsert (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_call_that_asks_for_what_waits_for_its_next_attempt_waits_for_its_end() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > calls function-call-2 upsert {"text":"a"}
            request call-2 upsert
            call-2 is a repeat: SameEffectRunning
            > returns 1 busy
            record effect-1 Failed
            call-1 attempt 2 in 25000 ms
            > wait 25000
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1/2 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            call-1 took 25000 ms, over Tool 500
            call-1 took 25000 ms, over Turn 10000
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            request call-2 upsert
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:07:05.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_retry_that_the_store_does_not_take_ends_with_the_failure() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 busy
            record effect-1 Failed
            call-1 attempt 2 in 25000 ms
            > store down
            > wait 25000
            request call-1 upsert
            call-1 problem: the store does not answer: disk full
            call-1 finished RateLimit
            to model: function-call-1 RATE_LIMIT it failed
            client: ToolsComplete { tool_count: 1 }
            > store up
        "#]],
    );
}

#[test]
fn a_waiting_retry_knows_what_another_session_has_done_meanwhile() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 busy
            record effect-1 Failed
            call-1 attempt 2 in 25000 ms
            > opens b by text
            > b: text go
            b: turn 1 started
            > b: calls function-call-2 upsert {"text":"a"}
            b: client: ModelGenerating
            b: request call-1 upsert
            b: start call-1 upsert (effect-1) {"text":"a"}
            > b: returns 1 {"x":1}
            b: record effect-1 Succeeded
            b: call-1 finished
            b: to model: function-call-2 ok {"x":1}
            b: client: ToolsComplete { tool_count: 1 }
            > store down
            > wait 25000
            request call-1 upsert
            call-1 problem: the store does not answer: disk full
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            b: provider silent after a result
            > wait 25000
            provider silent after a result
        "#]],
    );
}
