//! The gates in their order, and what each answers.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;

#[test]
fn one_call_runs_with_defaults_and_its_answer_cites_what_was_found() {
    check(
        Mode::Text,
        expect![[r#"
            > text find Fram
            turn 1 started
            > calls function-call-1 search {"query":"fram"}
            client: ModelGenerating
            start call-1 search {"query":"fram","top_k":5}
            > wait 20
            > returns 1 {"results":[{"id":"doc:fram","title":"Fram"}]}
            call-1 finished
            to model: function-call-1 ok quoted {"results":[{"id":"doc:fram","title":"Fram"}]}
            client: ToolsComplete { tool_count: 1 }
            > says The Fram.
            client: Assistant piece "The Fram."
            > done
            client: Assistant said "The Fram." citing doc:fram
            turn 1 ended: calls 1 retrieval 1 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_call_without_a_name_or_with_broken_arguments_is_refused_not_dropped() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 - {} + function-call-2 search {"query":1,"query":2}
            client: User said "hello"
            client: ModelGenerating
            call-1 rejected Validation
            call-2 rejected Validation
            to model: function-call-1 VALIDATION the call names no tool + function-call-2 VALIDATION the arguments are no JSON object: the key "query" is there twice: keep one of the two (line 1, column 18)
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn an_unknown_tool_is_not_found_and_the_nearest_is_named() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 serch {"query":"x"}
            client: User said "hello"
            client: ModelGenerating
            call-1 rejected NotFound
            to model: function-call-1 NOT_FOUND there is no tool "serch"
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn mode_comes_before_validation() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 text_only {"nonsense":1}
            client: User said "hello"
            client: ModelGenerating
            call-1 rejected ModeRestricted
            to model: function-call-1 MODE_RESTRICTED text_only is not for voice sessions
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn every_violation_is_named_and_nothing_runs() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 search {"query":"","top_k":99,"limit":3}
            client: User said "hello"
            client: ModelGenerating
            call-1 rejected Validation
            to model: function-call-1 VALIDATION /limit: there is no argument named `limit`; /query: must be at least 1 characters long; /top_k: must be 10 or less
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn top_k_is_clamped_to_the_modes_maximum_given_or_defaulted() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 search {"query":"x","top_k":10} + function-call-2 search {"query":"y"}
            client: User said "hello"
            client: ModelGenerating
            call-1 clamped top_k 10 to 3
            start call-1 search {"query":"x","top_k":3}
            call-2 clamped top_k 5 to 3
            start call-2 search {"query":"y","top_k":3}
        "#]],
    );
}

#[test]
fn a_whole_float_is_an_integer_and_stays_as_it_was_written() {
    check(
        Mode::Text,
        expect![[r#"
            > text hello
            turn 1 started
            > calls function-call-1 search {"query":"x","top_k":4.0}
            client: ModelGenerating
            start call-1 search {"query":"x","top_k":4.0}
        "#]],
    );
}

#[test]
fn a_tool_that_needs_consent_does_not_run_whatever_the_model_says() {
    check(
        Mode::Text,
        expect![[r#"
            > text pay
            turn 1 started
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > calls function-call-2 pay {"text":"10","confirmation_token":"abc"}
            call-2 rejected Validation
            to model: function-call-2 VALIDATION /confirmation_token: there is no argument named `confirmation_token`
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn reads_of_one_message_run_in_parallel_and_are_answered_together() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"} + function-call-2 look {"text":"b"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            start call-2 look {"text":"b"}
            > returns 2 {"b":1}
            call-2 finished
            > returns 1 {"a":1}
            call-1 finished
            to model: function-call-1 ok {"a":1} + function-call-2 ok {"b":1}
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn writes_of_one_message_run_in_their_order_beside_the_reads() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 write {"text":"a"} + function-call-2 look {} + function-call-3 post {"text":"b"}
            client: ModelGenerating
            request call-1 write
            start call-2 look {}
            start call-1 write (effect-1) {"text":"a"}
            > returns 2 {"x":1}
            call-2 finished
            > returns 1 {"done":1}
            record effect-1 Succeeded
            call-1 finished
            request call-3 post
            start call-3 post (effect-2) {"text":"b"}
            > returns 3 {"done":2}
            record effect-2 Succeeded
            call-3 finished
            to model: function-call-1 ok {"done":1} + function-call-2 ok {"x":1} + function-call-3 ok {"done":2}
            client: ToolsComplete { tool_count: 3 }
        "#]],
    );
}

#[test]
fn a_rate_limit_is_asked_after_the_budgets_and_refuses_with_a_time() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 limited {}
            client: ModelGenerating
            check rate call-1 limited
            start call-1 limited {}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > rate 30000
            > calls function-call-2 limited {}
            check rate call-2 limited
            call-2 rejected RateLimit
            to model: function-call-2 RATE_LIMIT limited was called too often by this user
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_result_that_breaks_its_contract_is_internal_and_says_nothing_of_the_inside() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 typed {}
            client: ModelGenerating
            start call-1 typed {}
            > returns 1 {"m":1}
            call-1 problem: the result of typed breaks its responseSchema
            call-1 finished Internal
            to model: function-call-1 INTERNAL typed failed inside
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {}
            start call-2 look {}
            > returns 2 broken
            call-2 problem: panicked at secret
            call-2 finished Internal
            to model: function-call-2 INTERNAL look failed inside
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_broken_write_is_an_unknown_outcome() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 broken
            record effect-1 Unknown
            call-1 problem: panicked at secret
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 post {"text":"a"}
            request call-2 post
            start call-2 post (effect-2) {"text":"a"}
            > returns 2 transient
            record effect-2 Unknown
            call-2 finished OutcomeUnknown
            to model: function-call-2 OUTCOME_UNKNOWN post was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 post {"text":"b"}
            request call-3 post
            start call-3 post (effect-3) {"text":"b"}
            > returns 3 clean_transient
            record effect-3 Failed
            call-3 finished Transient
            to model: function-call-3 TRANSIENT it failed
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_message_of_a_handler_never_passes_as_the_servers() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {}
            client: ModelGenerating
            start call-1 look {}
            > message 1 {"type":"error","code":"fake"}
            call-1 notes client_message_refused {"type":"error"}
            > message 1 {"type":"timeout","durationSeconds":60}
            call-1 notes client_message_refused {"type":"timeout"}
            > message 1 {"type":"confirmation-request","token":"fake"}
            call-1 notes client_message_refused {"type":"confirmation-request"}
            > message 1 {"type":"Voice-Session-Start"}
            call-1 notes client_message_refused {"type":"Voice-Session-Start"}
            > message 1 {"type":"answer-again"}
            call-1 notes client_message_refused {"type":"answer-again"}
            > message 1 {"type":"tool-progress"}
            call-1 notes client_message_refused {"type":"tool-progress"}
            > message 1 {"type":"weather","sky":"blue"}
            client: custom {"sky":"blue","type":"weather"}
            > progress 1 half way
            call-1 progress: half way
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > message 1 {"type":"weather","sky":"late"}
        "#]],
    );
}

#[test]
fn a_handler_that_says_too_much_is_cut_short() {
    check_with(
        Mode::Text,
        |config| {
            config.limits = Arc::new(Limits {
                messages_per_call_max: 2,
                audit_notes_per_call_max: 1,
                ..Limits::of(Mode::Text)
            });
        },
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {}
            client: ModelGenerating
            start call-1 look {}
            > message 1 {"type":"weather","sky":"blue"}
            client: custom {"sky":"blue","type":"weather"}
            > progress 1 half way
            call-1 progress: half way
            > progress 1 more
            call-1 notes messages_left_out {"max":2}
            > message 1 {"type":"weather","sky":"grey"}
            > notes 1 looked
            call-1 notes looked null
            > notes 1 looked
            call-1 notes audit_notes_left_out {"max":1}
            > notes 1 looked
            > message 1 {"type":"error","code":"fake"}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn text_that_others_wrote_cannot_make_the_model_change_anything_unasked() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 write {"text":"before"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"before"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 search {"query":"a"}
            start call-2 search {"query":"a","top_k":5}
            > returns 2 {"results":[{"id":"doc:a","title":"A"}]}
            call-2 finished
            to model: function-call-2 ok quoted {"results":[{"id":"doc:a","title":"A"}]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 write {"text":"after"} + function-call-4 ignore_user {"text":"rude"}
            request call-3 write
            call-3 rejected ConfirmationRequired
            request call-4 ignore_user
            client: confirm call-3 token-1 {"text":"after"} because "text that others wrote is in the conversation"
            start call-4 ignore_user (effect-2) {"text":"rude"}
            > returns 4 {"x":1}
            record effect-2 Succeeded
            call-4 finished
            to model: function-call-3 CONFIRMATION_REQUIRED write runs only after the user has confirmed it, because this conversation holds text that others wrote + function-call-4 ok {"x":1}
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn a_user_is_blocked_once_a_session_and_a_failed_block_does_not_count() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears rude
            turn 1 started
            client: User piece "rude"
            > calls function-call-1 ignore_user {"text":"a"}
            client: User said "rude"
            client: ModelGenerating
            request call-1 ignore_user
            start call-1 ignore_user (effect-1) {"text":"a"}
            > returns 1 clean_transient
            record effect-1 Failed
            call-1 finished Transient
            to model: function-call-1 TRANSIENT it failed
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 ignore_user {"text":"a"} + function-call-3 ignore_user {"text":"b"}
            request call-2 ignore_user
            start call-2 ignore_user (effect-1) {"text":"a"}
            > returns 2 {"x":1}
            record effect-1 Succeeded
            call-2 finished
            request call-3 ignore_user
            call-3 rejected BudgetExceeded
            to model: function-call-2 ok {"x":1} + function-call-3 BUDGET_EXCEEDED ignore_user runs once a session
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn an_answer_names_the_pictures_that_its_calls_brought_and_each_once() {
    check(
        Mode::Voice,
        expect![[r#"
            > text show
            turn 1 started
            to model: text "show"
            > calls function-call-1 send_image {} + function-call-2 look {}
            client: ModelGenerating
            start call-1 send_image {}
            start call-2 look {}
            > message 1 {"type":"image","url":"/assets/photo:deck","caption":"Deck"}
            client: message {"caption":"Deck","type":"image","url":"/assets/photo:deck"}
            > message 1 {"type":"image","caption":"without an address"}
            client: message {"caption":"without an address","type":"image"}
            > returns 1 {"pictures":["/assets/photo:deck"]}
            call-1 finished
            > returns 2 {"pictures":["https://example.org/hull.png"]}
            call-2 finished
            to model: function-call-1 ok {"pictures":["/assets/photo:deck"]} + function-call-2 ok {"pictures":["https://example.org/hull.png"]}
            client: ToolsComplete { tool_count: 2 }
            > says Here they are.
            client: Assistant piece "Here they are."
            > done
            client: Assistant said "Here they are." showing /assets/photo:deck (Deck), https://example.org/hull.png
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text thanks
            turn 2 started
            to model: text "thanks"
            > says You are welcome.
            client: ModelGenerating
            client: Assistant piece "You are welcome."
            > done
            client: Assistant said "You are welcome."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}
