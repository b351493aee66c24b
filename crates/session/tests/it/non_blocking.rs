//! When a model speaks of a result: what the model can, what its tool asks for, and what the result itself says.

use crate::harness::{Bench, check, check_with};
use expect_test::expect;
use std::fmt::Write;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;
use windlass_session::model::{CallSupport, ModelProfile};

fn said(calls: CallSupport, scheduling: bool, tool: &str, result: &str) -> String {
    let (mut bench, _) = Bench::with(Mode::Voice, |config| {
        config.profile = Arc::new(ModelProfile {
            calls,
            scheduling,
            ..(*config.profile).clone()
        });
    });
    for line in ["connected 1", "ready", "hears go"] {
        bench.line(line);
    }
    bench.line(&format!("calls function-call-1 {tool} {{}}"));
    let lines = bench.line(&format!("returns 1 {result}"));
    let answer = lines.lines().find(|line| line.starts_with("to model: "));
    let words: Vec<&str> = answer.unwrap().split(' ').collect();
    match words[3] {
        "ok" | "PERMANENT" => "-".to_owned(),
        scheduling => scheduling.to_owned(),
    }
}

/// Of a tool that blocks, and of three that do not.
#[test]
fn a_result_is_spoken_of_as_model_tool_and_result_say_together() {
    let models = [
        ("blocking only", CallSupport::BlockingOnly, true),
        ("both", CallSupport::Both, true),
        ("non-blocking only", CallSupport::NonBlockingOnly, true),
        ("without scheduling", CallSupport::Both, false),
    ];
    let results = [
        ("success", r#"{"x":1}"#),
        ("success that wants silence", r#"Silent {"x":1}"#),
        ("success that wants to interrupt", r#"Interrupt {"x":1}"#),
        ("failure", "permanent"),
    ];
    let mut table = String::new();
    for (model, calls, scheduling) in models {
        for (name, result) in results {
            let tools = ["look", "background", "slow", "silent"];
            let said = tools.map(|tool| said(calls, scheduling, tool, result));
            writeln!(table, "{model}, {name}: {}", said.join(" ")).unwrap();
        }
    }
    expect![[r#"
        blocking only, success: - - - -
        blocking only, success that wants silence: - - - -
        blocking only, success that wants to interrupt: - - - -
        blocking only, failure: - - - -
        both, success: - WhenIdle Interrupt Silent
        both, success that wants silence: - Silent Silent Silent
        both, success that wants to interrupt: - Interrupt Interrupt Interrupt
        both, failure: - WhenIdle WhenIdle Silent
        non-blocking only, success: WhenIdle WhenIdle Interrupt Silent
        non-blocking only, success that wants silence: Silent Silent Silent Silent
        non-blocking only, success that wants to interrupt: Interrupt Interrupt Interrupt Interrupt
        non-blocking only, failure: WhenIdle WhenIdle WhenIdle Silent
        without scheduling, success: - - - -
        without scheduling, success that wants silence: - - - -
        without scheduling, success that wants to interrupt: - - - -
        without scheduling, failure: - - - -
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_silent_result_after_its_turn_owes_nobody_a_word() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 silent {}
            client: User said "go"
            client: ModelGenerating
            start call-1 silent {}
            > says I am looking.
            client: Assistant piece "I am looking."
            > done
            client: Assistant said "I am looking."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 Silent ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > wait 8000
            provider silent after a result
            > wait 30000
        "#]],
    );
}

#[test]
fn a_failure_after_its_turn_is_spoken_of_when_the_model_is_idle() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 background {}
            client: User said "go"
            client: ModelGenerating
            start call-1 background {}
            > says I am looking.
            client: Assistant piece "I am looking."
            > done
            client: Assistant said "I am looking."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > returns 1 permanent
            call-1 finished Permanent
            to model: function-call-1 WhenIdle PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
            > says It did not work.
            client: Assistant piece "It did not work."
            > done
            client: ModelGenerating
            client: Assistant said "It did not work."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_result_after_an_interruption_keeps_its_scheduling() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 background {} + function-call-2 slow {}
            client: User said "go"
            client: ModelGenerating
            start call-1 background {}
            start call-2 slow {}
            > says I am
            client: Assistant piece "I am"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "I am"
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0 interrupted
            > hears wait
            turn 2 started
            client: User piece "wait"
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 WhenIdle ok {"x":1}
            > returns 2 {"x":2}
            call-2 finished
            to model: function-call-2 Interrupt ok {"x":2}
            client: ToolsComplete { tool_count: 2 }
            > done
            accept audio
        "#]],
    );
}

#[test]
fn a_result_of_a_call_that_was_taken_back_is_not_spoken_of() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 background {} + function-call-2 silent {}
            client: User said "go"
            client: ModelGenerating
            start call-1 background {}
            start call-2 silent {}
            > cancel function-call-1 function-call-2
            abort call-1
            call-1 cancelled
            abort call-2
            call-2 cancelled
            client: ToolsComplete { tool_count: 2 }
            > returns 1 {"x":1}
            call-1 returned late
            > returns 2 permanent
            call-2 returned late
        "#]],
    );
}

#[test]
fn a_result_whose_connection_is_gone_is_told_once_and_a_silent_one_never() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 background {} + function-call-2 silent {} + function-call-3 silent {"text":"b"}
            client: User said "go"
            client: ModelGenerating
            start call-1 background {}
            start call-2 silent {}
            start call-3 silent {"text":"b"}
            > says I am looking.
            client: Assistant piece "I am looking."
            > done
            client: Assistant said "I am looking."
            turn 1 ended: calls 3 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > returns 1 {"x":1}
            call-1 finished
            > returns 2 {"x":2}
            call-2 finished
            > returns 3 permanent
            call-3 finished Permanent
            client: ToolsComplete { tool_count: 3 }
            > connected 2
            > ready
            client: Reconnected
            to model: history "go / I am looking."
            to model: late background ok {"x":1}
            > says Here.
            client: Assistant piece "Here."
            > done
            client: ModelGenerating
            client: Assistant said "Here."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_result_that_is_given_up_because_too_many_wait_is_said_to_be() {
    check_with(
        Mode::Voice,
        |config| {
            config.limits = Arc::new(Limits {
                open_calls_max: 2,
                ..Limits::of(Mode::Voice)
            });
        },
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 look {"text":"a"}
            client: User said "go"
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > returns 1 {"x":1}
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > connected 2
            > ready
            client: Reconnected
            to model: text "go"
            > calls function-call-2 look {"text":"b"} + function-call-3 look {"text":"c"}
            client: ModelGenerating
            start call-2 look {"text":"b"}
            start call-3 look {"text":"c"}
            > lost 2
            client: Reconnecting { attempt: 2 }
            > returns 2 {"x":2}
            call-2 finished
            > returns 3 {"x":3}
            call-3 finished
            call-1 is given up, and the model not told
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}
