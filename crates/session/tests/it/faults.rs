//! Timeouts, cancellations, stores that do not answer, results that come too late.

use crate::harness::{check, check_with};
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn a_read_that_takes_too_long_is_transient_and_dropped() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 look {}
            client: User said "go"
            client: ModelGenerating
            start call-1 look {}
            > wait 5000
            abort call-1
            call-1 finished Transient
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 TRANSIENT look did not answer within 5000 ms
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":1}
            call-1 returned late
        "#]],
    );
}

#[test]
fn a_write_that_takes_too_long_is_unknown_and_runs_on() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 write {"text":"a"}
            client: User said "go"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":1}
            call-1 returned late
            call-1 settled effect-1: true
            record effect-1 Succeeded
        "#]],
    );
}

#[test]
fn a_cancelled_read_is_dropped_and_gets_no_answer() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 look {}
            client: User said "go"
            client: ModelGenerating
            start call-1 look {}
            > cancel function-call-1 function-call-9
            abort call-1
            call-1 cancelled
            client: ToolsComplete { tool_count: 1 }
            > cancel function-call-1
            > returns 1 {"x":1}
            call-1 returned late
        "#]],
    );
}

#[test]
fn a_cancelled_write_that_had_started_is_recorded_and_not_spoken_of() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 write {"text":"a"} + function-call-2 post {"text":"b"}
            client: User said "go"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > cancel function-call-1 function-call-2
            call-2 cancelled
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn an_interruption_cancels_only_what_says_so() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 cancellable {}
            client: User said "go"
            client: ModelGenerating
            start call-1 cancellable {}
            > hears stop
            client: User piece "stop"
            > interrupted
            discard audio
            client: Interrupted
            abort call-1
            call-1 cancelled
            to model: function-call-1 CANCELLED cancellable was taken back
            client: ToolsComplete { tool_count: 1 }
            client: User said "stop"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > done
            accept audio
            > hears go
            client: User piece "go"
            > calls function-call-2 look {}
            client: User said "go"
            client: ModelGenerating
            start call-2 look {}
            > hears stop
            client: User piece "stop"
            > interrupted
            discard audio
            client: Interrupted
            client: User said "stop"
            turn 2 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            turn 3 started
            > done
            accept audio
            > returns 2 {"x":1}
            call-2 finished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_stale_attempt_is_not_taken_for_the_real_one() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 look {}
            client: User said "go"
            client: ModelGenerating
            start call-1 look {}
            > returns 1/2 {"x":1}
            call-1 returned late
            > returns 7 {"x":1}
            call-7 returned late
            > returns 1 {"x":2}
            call-1 finished
            to model: function-call-1 ok {"x":2}
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":3}
            call-1 returned late
        "#]],
    );
}

#[test]
fn a_non_blocking_result_carries_its_scheduling() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 slow {}
            client: User said "go"
            client: ModelGenerating
            start call-1 slow {}
            > says I am looking.
            client: Assistant piece "I am looking."
            > done
            client: Assistant said "I am looking."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 Interrupt ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says Found it.
            client: Assistant piece "Found it."
            > done
            client: ModelGenerating
            client: Assistant said "Found it."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn the_microphone_is_held_while_a_blocking_call_is_open_where_the_model_needs_it() {
    check_with(
        Mode::Voice,
        |config| {
            let mut profile = (*config.profile).clone();
            profile.hold_microphone = true;
            config.profile = std::sync::Arc::new(profile);
        },
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 look {} + function-call-2 look {"text":"b"}
            client: User said "go"
            client: ModelGenerating
            start call-1 look {}
            hold microphone true
            start call-2 look {"text":"b"}
            > returns 1 {"x":1}
            call-1 finished
            > returns 2 {"x":1}
            call-2 finished
            to model: function-call-1 ok {"x":1} + function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 2 }
            hold microphone false
        "#]],
    );
}
