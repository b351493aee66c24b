//! What begins a turn, and what ends it, once.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::model::{CallSupport, ModelProfile};

#[test]
fn a_turn_ends_once_at_the_providers_end() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > hears  there
            client: User piece " there"
            > says Hi.
            client: User said "hello there"
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > done
        "#]],
    );
}

#[test]
fn a_turn_end_with_a_blocking_call_open_ends_nothing() {
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
            > generated
            > done
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says here
            client: ModelGenerating
            client: Assistant piece "here"
            > done
            client: Assistant said "here"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn an_interruption_ends_the_turn_and_the_end_that_follows_ends_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > audio
            client: User said "hello"
            client: ModelGenerating
            > says I was
            client: Assistant piece "I was"
            > hears stop
            client: User piece "stop"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "I was"
            client: User said "stop"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > says saying that
            > done
            accept audio
            > says Yes?
            client: ModelGenerating
            client: Assistant piece "Yes?"
            > done
            client: Assistant said "Yes?"
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn calls_of_an_interrupted_answer_are_not_run() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > audio
            client: User said "hello"
            client: ModelGenerating
            > says one moment
            client: Assistant piece "one moment"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "one moment"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            > calls function-call-1 write {"text":"a"}
            call-1 rejected Cancelled
            to model: function-call-1 CANCELLED the user interrupted before the call began
            client: ToolsComplete { tool_count: 1 }
            > done
            accept audio
        "#]],
    );
}

#[test]
fn an_interruption_after_the_answer_only_empties_the_players() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > says Hi.
            client: User said "hello"
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > interrupted
            discard audio
            client: Interrupted
            accept audio
            > hears next
            turn 2 started
            client: User piece "next"
            > says Yes.
            client: User said "next"
            client: ModelGenerating
            client: Assistant piece "Yes."
            > done
            client: Assistant said "Yes."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn typing_into_an_answer_begins_the_next_turn_when_this_one_ends() {
    check(
        Mode::Voice,
        expect![[r#"
            > text one
            turn 1 started
            to model: text "one"
            > says answer one
            client: ModelGenerating
            client: Assistant piece "answer one"
            > text two
            to model: text "two"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "answer one"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > done
            accept audio
            > says answer two
            client: ModelGenerating
            client: Assistant piece "answer two"
            > done
            client: Assistant said "answer two"
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn the_users_own_interruption_is_not_undone_by_the_providers() {
    check(
        Mode::Voice,
        expect![[r#"
            > text one
            turn 1 started
            to model: text "one"
            > audio
            client: ModelGenerating
            > says answer one
            client: Assistant piece "answer one"
            > interrupt
            discard audio
            client: Interrupted
            client: Assistant said "answer one"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            > text two
            turn 2 started
            to model: text "two"
            > interrupted
            > done
            accept audio
            > audio
            client: ModelGenerating
            > says answer two
            client: Assistant piece "answer two"
            > generated
            > done
            client: Assistant said "answer two"
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn an_answer_that_nobody_asked_for_begins_a_turn() {
    check(
        Mode::Voice,
        expect![[r#"
            > says Welcome.
            client: Assistant piece "Welcome."
            > audio
            turn 1 started
            client: ModelGenerating
            > says Welcome.
            client: Assistant piece "Welcome."
            > done
            client: Assistant said "Welcome.Welcome."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn not_idle_is_not_the_end() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > says First
            client: User said "hello"
            client: ModelGenerating
            client: Assistant piece "First"
            > busy
            > says Second
            client: ModelGenerating
            client: Assistant piece "Second"
            > done
            client: Assistant said "FirstSecond"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_silent_provider_is_told_of_and_the_turn_ends() {
    check(
        Mode::Voice,
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > wait 29000
            > wait 1000
            client: error provider_silent: the model has said nothing for 30 seconds
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: resynchronize
        "#]],
    );
}

#[test]
fn silence_after_a_result_is_counted() {
    check(
        Mode::Voice,
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > calls function-call-1 look {}
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > wait 8000
            provider silent after a result
            > says late
            client: Assistant piece "late"
            > done
            client: Assistant said "late"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn what_was_given_behind_words_that_trail_is_still_to_be_spoken_of_in_its_turn() {
    check_with(
        Mode::Voice,
        |config| {
            config.profile = Arc::new(ModelProfile {
                calls: CallSupport::NonBlockingOnly,
                ..(*config.profile).clone()
            });
        },
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > calls function-call-1 search {"query":"a"}
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"a","top_k":3}
            > generated
            > done
            turn 1 ended: calls 1 retrieval 1 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > says Let me see.
            client: Assistant piece "Let me see."
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 WhenIdle ok quoted {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > done
            client: ModelGenerating
            client: Assistant said "Let me see."
            client: TurnComplete { turn: 1 }
            > calls function-call-2 search {"query":"b"}
            client: ModelGenerating
            call-2 clamped top_k 5 to 3
            start call-2 search {"query":"b","top_k":3}
        "#]],
    );
}
