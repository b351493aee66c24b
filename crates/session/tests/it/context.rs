//! A model's window that fills: what is estimated at the start, what providers count, and who is told.

use crate::harness::{Bench, check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::context::ContextEstimate;
use windlass_session::model::{HistoryEntry, Role};
use windlass_session::session::SessionConfig;

fn window_of(tokens: u64) -> impl FnOnce(&mut SessionConfig) {
    move |config| Arc::make_mut(&mut config.profile).context_tokens_max = tokens
}

#[test]
fn a_voice_session_is_told_once_before_its_window_is_full() {
    check_with(
        Mode::Voice,
        window_of(1_000),
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > says Hello.
            client: ModelGenerating
            client: Assistant piece "Hello."
            > counts 900
            > counts 901
            model is nearly full: 901 of 1000 counted
            client: message {"tokens":901,"type":"context_nearly_full","windowTokens":1000}
            > done
            client: Assistant said "Hello."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) This conversation has nearly filled what you can keep in mind. Tell the user so in one or two sentences: you may soon forget how it began, or it may end, and a new conversation has room again. Name what is still open. Then go on as before."
            > says We have talked for long.
            client: Assistant piece "We have talked for long."
            > counts 980
            > done
            client: ModelGenerating
            client: Assistant said "We have talked for long."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_text_session_notes_it_and_says_nothing() {
    check_with(
        Mode::Text,
        window_of(1_000),
        expect![[r#"
            > text hello
            turn 1 started
            > counts 950
            model is nearly full: 950 of 1000 counted
            > counts 990
        "#]],
    );
}

#[test]
fn each_model_is_warned_of_once_in_a_conversation_whoever_speaks_in_it() {
    check_with(
        Mode::Voice,
        window_of(1_000),
        expect![[r#"
            > counts_of helper 950
            helper is nearly full: 950 of 1000 counted
            > counts 950
            model is nearly full: 950 of 1000 counted
            client: message {"tokens":950,"type":"context_nearly_full","windowTokens":1000}
            to model: notice "(A message of the system, not of the user.) This conversation has nearly filled what you can keep in mind. Tell the user so in one or two sentences: you may soon forget how it began, or it may end, and a new conversation has room again. Name what is still open. Then go on as before."
            > counts_of helper 990
            > killed
            > connected 1
            > ready
            > counts 960
            > opens chat by text
            > chat: counts_of helper 970
            > log
            s-1: begins by voice
            s-1: ContextWarned { model: "helper" }
            s-1: ContextWarned { model: "model" }
            s-1: notice "(A message of the system, not of the user.) This conversation has nearly filled what you can keep in mind. Tell the user so in one or two sentences: you may soon forget how it began, or it may end, and a new conversation has room again. Name what is still open. Then go on as before."
            s-1: begins by voice
        "#]],
    );
}

#[test]
fn another_models_window_is_no_matter_of_the_talk() {
    check(
        Mode::Voice,
        expect![[r#"
            > counts_of helper 899
            > counts_of helper 950
            helper is nearly full: 950 of 1000 counted
        "#]],
    );
}

#[test]
fn what_a_session_begins_with_is_warned_of_with_its_history() {
    for (tool_decl_tokens, warns) in [(500, false), (600, true)] {
        let (_, text) = Bench::with(Mode::Voice, |config| {
            window_of(1_000)(config);
            config.estimate = Some(ContextEstimate {
                system_prompt_tokens: 200,
                tool_decl_tokens,
                history_tokens: 0,
            });
            config.history = vec![HistoryEntry {
                role: Role::User,
                text: "x".repeat(404).into(),
            }];
        });
        let warned = text.contains("model is nearly full: 901 of 1000 estimated");
        assert_eq!(warned, warns, "{text}");
    }
}
