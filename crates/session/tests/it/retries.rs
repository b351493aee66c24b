//! Further attempts: when they are made, how long after, and what they may never repeat.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_session::limits::Limits;
use windlass_tool::kind::Mode;

#[test]
fn a_failed_read_is_tried_three_times_more_and_the_pauses_double() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
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
            to model: text "go"
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
            to model: text "go"
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
            to model: text "go"
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
            to model: text "go"
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
            to model: text "go"
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 clean_transient
            call-1 attempt 2 in 285 ms
            > wait 400
            retry call-1 effect-1
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
            to model: text "go"
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
            to model: text "go"
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
