//! Budgets belong to a turn, whatever the messages that a model packs its calls into.

use crate::harness::{Bench, check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;

#[test]
fn voice_admits_two_retrievals_and_three_calls_a_turn_over_all_messages() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 search {"query":"a"}
            client: User said "hello"
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"a","top_k":3}
            > returns 1 {"results":[1]}
            call-1 finished
            to model: function-call-1 ok quoted {"results":[1]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 search {"query":"b"}
            call-2 clamped top_k 5 to 3
            start call-2 search {"query":"b","top_k":3}
            > returns 2 {"results":[1]}
            call-2 finished
            to model: function-call-2 ok quoted {"results":[1]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 search {"query":"c"}
            call-3 rejected BudgetExceeded
            to model: function-call-3 BUDGET_EXCEEDED no more than 2 retrieval calls in one voice turn
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-4 look {}
            call-4 rejected BudgetExceeded
            to model: function-call-4 BUDGET_EXCEEDED no more than 3 tool calls in one voice turn
            client: ToolsComplete { tool_count: 1 }
            > says enough
            client: Assistant piece "enough"
            > done
            client: Assistant said "enough"
            turn 1 ended: calls 4 retrieval 2 refusals 2 repeats 0
            client: TurnComplete { turn: 1 }
            > hears again
            turn 2 started
            client: User piece "again"
            > calls function-call-5 search {"query":"d"}
            client: User said "again"
            client: ModelGenerating
            call-5 clamped top_k 5 to 3
            start call-5 search {"query":"d","top_k":3}
        "#]],
    );
}

#[test]
fn budgets_follow_the_order_of_the_calls_in_one_message() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 search {"query":"a"} + function-call-2 search {"query":"b"} + function-call-3 search {"query":"c"} + function-call-4 look {}
            client: User said "hello"
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"a","top_k":3}
            call-2 clamped top_k 5 to 3
            start call-2 search {"query":"b","top_k":3}
            call-3 rejected BudgetExceeded
            call-4 rejected BudgetExceeded
        "#]],
    );
}

#[test]
fn refused_calls_count_in_the_total() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 nonsense {} + function-call-2 text_only {} + function-call-3 search {} + function-call-4 look {}
            client: User said "hello"
            client: ModelGenerating
            call-1 rejected NotFound
            call-2 rejected ModeRestricted
            call-3 rejected Validation
            call-4 rejected BudgetExceeded
            to model: function-call-1 NOT_FOUND there is no tool "nonsense" + function-call-2 MODE_RESTRICTED text_only is not for voice sessions + function-call-3 VALIDATION /query: `query` is required + function-call-4 BUDGET_EXCEEDED no more than 3 tool calls in one voice turn
            client: ToolsComplete { tool_count: 4 }
        "#]],
    );
}

#[test]
fn text_admits_five_retrievals() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 search {"query":"1"} + function-call-2 search {"query":"2"} + function-call-3 search {"query":"3"} + function-call-4 search {"query":"4"} + function-call-5 search {"query":"5"} + function-call-6 search {"query":"6"} + function-call-7 look {}
            client: ModelGenerating
            start call-1 search {"query":"1","top_k":5}
            start call-2 search {"query":"2","top_k":5}
            start call-3 search {"query":"3","top_k":5}
            start call-4 search {"query":"4","top_k":5}
            start call-5 search {"query":"5","top_k":5}
            call-6 rejected BudgetExceeded
            start call-7 look {}
        "#]],
    );
}

#[test]
fn describing_a_tool_costs_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 describe_tool {"text":"a"} + function-call-2 look {} + function-call-3 look {"text":"b"} + function-call-4 look {"text":"c"} + function-call-5 describe_tool {"text":"b"}
            client: User said "hello"
            client: ModelGenerating
            start call-1 describe_tool {"text":"a"}
            start call-2 look {}
            start call-3 look {"text":"b"}
            start call-4 look {"text":"c"}
            start call-5 describe_tool {"text":"b"}
        "#]],
    );
}

#[test]
fn a_model_that_ignores_every_refusal_is_wound_up_and_earns_no_new_budget() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 nope {} + function-call-2 nope {} + function-call-3 nope {} + function-call-4 nope {}
            client: User said "hello"
            client: ModelGenerating
            call-1 rejected NotFound
            call-2 rejected NotFound
            call-3 rejected NotFound
            call-4 rejected NotFound
            to model: function-call-1 NOT_FOUND there is no tool "nope" + function-call-2 NOT_FOUND there is no tool "nope" + function-call-3 NOT_FOUND there is no tool "nope" + function-call-4 NOT_FOUND there is no tool "nope"
            client: ToolsComplete { tool_count: 4 }
            > calls function-call-5 nope {}
            call-5 rejected NotFound
            to model: function-call-5 NOT_FOUND there is no tool "nope"
            client: ToolsComplete { tool_count: 1 }
            client: error tool_loop: the model called tools over and over
            turn 1 ended: calls 5 retrieval 0 refusals 5 repeats 0 wound up
            client: TurnComplete { turn: 1 }
            > calls function-call-6 look {}
            client: ModelGenerating
            call-6 rejected BudgetExceeded
            to model: function-call-6 BUDGET_EXCEEDED no more than 3 tool calls in one voice turn
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-7 look {}
            call-7 rejected BudgetExceeded
            to model: function-call-7 BUDGET_EXCEEDED no more than 3 tool calls in one voice turn
            client: ToolsComplete { tool_count: 1 }
            > done
            client: TurnComplete { turn: 1 }
            > hears a new question
            turn 2 started
            client: User piece "a new question"
            > calls function-call-8 look {}
            client: User said "a new question"
            client: ModelGenerating
            start call-8 look {}
        "#]],
    );
}

#[test]
fn soft_limits_warn_after_the_fact_and_stop_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 search {"query":"a"}
            client: User said "hello"
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"a","top_k":3}
            > wait 900
            > returns 1 {"results":[1]}
            call-1 finished
            call-1 took 900 ms, over Tool 500
            call-1 took 900 ms, over Retrieval 800
            to model: function-call-1 ok quoted {"results":[1]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {}
            start call-2 look {}
            > wait 700
            > returns 2 {"x":1}
            call-2 finished
            call-2 took 700 ms, over Tool 500
            call-2 took 1600 ms, over Turn 1500
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn the_third_identical_call_and_the_call_after_two_empty_results_are_loops() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {"text":"a"}
            start call-2 look {"text":"a"}
            > returns 2 {"x":1}
            call-2 finished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 look {"text":"a"}
            call-3 rejected LoopDetected
            to model: function-call-3 LOOP_DETECTED look was already called 2 times with the same arguments in this turn
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-4 search {"query":"a"}
            start call-4 search {"query":"a","top_k":5}
            > returns 5 {"results":[]}
            call-5 returned late
            > calls function-call-5 search {"query":"b"}
            start call-5 search {"query":"b","top_k":5}
            > returns 5 {"results":[]}
            call-5 finished
            to model: function-call-5 ok quoted {"results":[]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-6 search {"query":"c"}
            start call-6 search {"query":"c","top_k":5}
            > returns 6 {"results":[]}
            call-6 finished
            to model: function-call-6 ok quoted {"results":[]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-7 search {"query":"d"}
            call-7 rejected LoopDetected
            to model: function-call-7 LOOP_DETECTED search has returned nothing 2 times in this turn
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_new_turn_has_no_history_of_calls() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {"text":"a"}
            start call-2 look {"text":"a"}
            > returns 2 {"x":1}
            call-2 finished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says That is all.
            client: Assistant piece "That is all."
            > done
            client: Assistant said "That is all."
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text and again
            turn 2 started
            > calls function-call-3 look {"text":"a"}
            client: ModelGenerating
            start call-3 look {"text":"a"}
        "#]],
    );
}

#[test]
fn a_failure_is_no_empty_result() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 permanent
            call-1 finished Permanent
            to model: function-call-1 PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {"text":"b"}
            start call-2 look {"text":"b"}
            > returns 2 permanent
            call-2 finished Permanent
            to model: function-call-2 PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 look {"text":"c"}
            start call-3 look {"text":"c"}
        "#]],
    );
}

#[test]
fn configuration_changes_a_budget() {
    check_with(
        Mode::Voice,
        |config| {
            let mut limits = (*config.limits).clone();
            limits.turn.calls_max = 1;
            config.limits = Arc::new(limits);
        },
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 look {}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {}
            > calls function-call-2 look {"text":"b"}
            call-2 rejected BudgetExceeded
            to model: function-call-2 BUDGET_EXCEEDED no more than 1 tool calls in one voice turn
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_result_beyond_its_limit_is_kept_short_and_the_log_says_so() {
    check_with(
        Mode::Voice,
        |config| {
            let mut limits = (*config.limits).clone();
            limits.result_characters_max = 60;
            config.limits = Arc::new(limits);
        },
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 look {}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"results":["one that is long","two that is long","three that is long","four that is long"]}
            call-1 problem: the result of look is over 60 characters long: 2 list items were left out for length
            call-1 finished
            to model: function-call-1 ok {"results":["one that is long","two that is long"]} (2 list items were left out for length)
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {}
            start call-2 look {}
        "#]],
    );
}

#[test]
fn a_failure_beyond_the_limit_is_kept_short_as_a_result_is() {
    check_with(
        Mode::Voice,
        |config| {
            let mut limits = (*config.limits).clone();
            limits.result_characters_max = 30;
            config.limits = Arc::new(limits);
        },
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 look {}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 permanent the reason is much longer than this
            call-1 problem: the result of look is over 30 characters long: 1 texts were cut for length
            call-1 finished Permanent
            to model: function-call-1 PERMANENT the reason is much longer t…
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn every_refused_call_is_answered_however_many_there_are() {
    let (mut bench, _) = Bench::new(Mode::Voice);
    bench.line("hears hello");
    for number in 1..=40 {
        let text = bench.line(&format!("calls function-call-{number} nonsense {{}}"));
        let answer = format!("to model: function-call-{number} NOT_FOUND");
        assert!(text.contains(&answer), "{number}: {text}");
    }
}

#[test]
fn a_refused_describe_tool_costs_no_call() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 describe_tool {"tool":1}
            client: User said "hello"
            client: ModelGenerating
            call-1 rejected Validation
            to model: function-call-1 VALIDATION /tool: there is no argument named `tool`
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 describe_tool {"tool":2}
            call-2 rejected Validation
            to model: function-call-2 VALIDATION /tool: there is no argument named `tool`
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 describe_tool {"tool":3}
            call-3 rejected Validation
            to model: function-call-3 VALIDATION /tool: there is no argument named `tool`
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-4 look {}
            start call-4 look {}
        "#]],
    );
}

#[test]
fn a_refusal_of_a_silent_tool_is_silent() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 silent {"nonsense":1}
            client: User said "hello"
            client: ModelGenerating
            call-1 rejected Validation
            to model: function-call-1 Silent VALIDATION /nonsense: there is no argument named `nonsense`
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_session_that_may_have_no_call_open_refuses_them_all() {
    check_with(
        Mode::Voice,
        |config| {
            config.limits = Arc::new(Limits {
                open_calls_max: 0,
                ..Limits::of(Mode::Voice)
            });
        },
        expect![[r#"
            > hears look
            turn 1 started
            client: User piece "look"
            > calls function-call-1 look {} + function-call-2 look {}
            client: User said "look"
            client: ModelGenerating
            call-1 rejected BudgetExceeded
            call-2 rejected BudgetExceeded
            to model: function-call-1 BUDGET_EXCEEDED 0 calls are open already + function-call-2 BUDGET_EXCEEDED 0 calls are open already
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}
