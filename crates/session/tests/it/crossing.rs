//! Turns that the provider ends while an answer of ours is on its way: what the model makes of it continues them.

use crate::harness::{Bench, check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::{Limits, TurnLimits};
use windlass_session::model::{CallSupport, ModelProfile};
use windlass_session::session::SessionConfig;

fn never_waits(config: &mut SessionConfig) {
    config.profile = Arc::new(ModelProfile {
        calls: CallSupport::NonBlockingOnly,
        ..(*config.profile).clone()
    });
}

#[test]
fn what_the_model_says_of_an_answer_that_a_turn_end_crossed_continues_the_turn_and_cites() {
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
            > returns 1 {"results":[{"id":"person:a","type":"person","title":"A"}]}
            call-1 finished
            to model: function-call-1 ok quoted {"results":[{"id":"person:a","title":"A","type":"person"}]}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            turn 1 ended: calls 1 retrieval 1 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > audio
            client: ModelGenerating
            > says here
            client: Assistant piece "here"
            > generated
            > done
            client: Assistant said "here" citing person:a
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn words_alone_continue_the_turn_too() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 look {}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > says here
            client: Assistant piece "here"
            > done
            client: ModelGenerating
            client: Assistant said "here"
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_turn_end_behind_each_call_earns_no_budget() {
    check(
        Mode::Voice,
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > calls function-call-1 search {"query":"a"}
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"a","top_k":3}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok quoted {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            turn 1 ended: calls 1 retrieval 1 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > calls function-call-2 search {"query":"b"}
            client: ModelGenerating
            call-2 clamped top_k 5 to 3
            start call-2 search {"query":"b","top_k":3}
            > returns 2 {"x":1}
            call-2 finished
            to model: function-call-2 ok quoted {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            client: TurnComplete { turn: 1 }
            > calls function-call-3 search {"query":"c"}
            client: ModelGenerating
            call-3 rejected BudgetExceeded
            to model: function-call-3 BUDGET_EXCEEDED no more than 2 retrieval calls in one voice turn
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            client: TurnComplete { turn: 1 }
            > audio
            client: ModelGenerating
            > done
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_is_asked_for_again_behind_a_turn_end_is_answered_from_the_record() {
    check(
        Mode::Voice,
        expect![[r#"
            > microphone
            > hears do it
            turn 1 started
            client: User piece "do it"
            > calls function-call-1 write {"text":"a"}
            client: User said "do it"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > calls function-call-2 write {"text":"a"}
            heard effect-1
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > done
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_model_that_does_not_wait_earns_no_budget_by_ending_its_turns() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 search {"query":"a"}
            client: User said "hello"
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"a","top_k":3}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 WhenIdle ok quoted {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > audio
            > says let me look
            client: Assistant piece "let me look"
            > done
            client: Assistant said "let me look"
            turn 1 ended: calls 1 retrieval 1 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > audio
            client: ModelGenerating
            > calls function-call-2 search {"query":"b"}
            call-2 clamped top_k 5 to 3
            start call-2 search {"query":"b","top_k":3}
            > done
            client: TurnComplete { turn: 1 }
            > returns 2 {"x":1}
            call-2 finished
            to model: function-call-2 WhenIdle ok quoted {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > audio
            client: ModelGenerating
            > calls function-call-3 search {"query":"c"}
            call-3 rejected BudgetExceeded
            to model: function-call-3 WhenIdle BUDGET_EXCEEDED no more than 2 retrieval calls in one voice turn
            client: ToolsComplete { tool_count: 1 }
            > done
            client: TurnComplete { turn: 1 }
            > audio
            client: ModelGenerating
            > says nothing there
            client: Assistant piece "nothing there"
            > done
            client: Assistant said "nothing there"
            client: TurnComplete { turn: 1 }
            > microphone
            > audio
            turn 2 started
            client: ModelGenerating
            > done
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn who_says_nothing_to_an_answer_begins_no_turn_by_it_and_the_user_does() {
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
            > returns 1 {"results":[{"id":"person:a","type":"person","title":"A"}]}
            call-1 finished
            to model: function-call-1 ok quoted {"results":[{"id":"person:a","title":"A","type":"person"}]}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 1 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > hears next
            turn 2 started
            client: User piece "next"
            > audio
            client: User said "next"
            client: ModelGenerating
            > says yes
            client: Assistant piece "yes"
            > done
            client: Assistant said "yes"
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > microphone
            > audio
            turn 3 started
            client: ModelGenerating
            > done
            turn 3 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 3 }
        "#]],
    );
}

#[test]
fn an_interruption_ends_what_the_model_waited_for() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 look {}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > interrupted
            discard audio
            client: Interrupted
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            > done
            accept audio
            > audio
            turn 2 started
            client: ModelGenerating
            > done
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn a_spoken_answer_that_is_heard_of_by_its_words_alone_is_a_turn() {
    check(
        Mode::Voice,
        expect![[r#"
            > microphone
            > says Hello.
            client: Assistant piece "Hello."
            > generated
            > done
            turn 1 started
            client: ModelGenerating
            client: Assistant said "Hello."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > hears next
            turn 2 started
            client: User piece "next"
            > audio
            client: User said "next"
            client: ModelGenerating
            > done
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > says trailing
            client: Assistant piece "trailing"
            > interrupted
            discard audio
            client: Interrupted
            accept audio
            > done
            client: Assistant said "trailing"
        "#]],
    );
}

#[test]
fn what_is_typed_behind_the_providers_interruption_is_answered_though_the_turn_end_never_comes() {
    check(
        Mode::Voice,
        expect![[r#"
            > text one
            turn 1 started
            to model: text "one"
            > audio
            client: ModelGenerating
            > says first
            client: Assistant piece "first"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "first"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            > says rest of it
            > text two
            accept audio
            turn 2 started
            to model: text "two"
            > audio
            client: ModelGenerating
            > says second
            client: Assistant piece "second"
            > generated
            > done
            client: Assistant said "second"
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn many_different_calls_are_no_loop() {
    let (mut bench, _) = Bench::with(Mode::Voice, |config| {
        config.limits = Arc::new(Limits {
            turn: TurnLimits {
                calls_max: 200,
                retrieval_calls_max: 200,
                ..TurnLimits::of(Mode::Voice)
            },
            ..Limits::of(Mode::Voice)
        });
    });
    for line in ["connected 1", "ready", "hears go"] {
        bench.line(line);
    }
    for number in 1..=70 {
        let call = format!(r#"calls function-call-{number} look {{"text":"{number}"}}"#);
        let lines = bench.line(&call);
        assert!(lines.contains(&format!("start call-{number} ")), "{lines}");
        bench.line(&format!(r#"returns {number} {{"x":1}}"#));
    }
}
