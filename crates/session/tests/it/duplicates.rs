//! Replays, repeats and second wishes: rules D1 to D5.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn d1_a_repeat_of_a_running_delivery_starts_nothing_and_gets_no_second_answer() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 look {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > calls function-call-1 look {"text":"a"}
            call-2 is a repeat: SameDelivery
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-1 look {"text":"a"}
            call-3 is a repeat: SameDelivery
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d1_a_delivery_without_an_id_is_recognised_by_what_it_asks_in_one_turn() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls - look {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > calls - look {"text":"a"}
            > returns 1 {"x":1}
            call-1 finished
            to model: - ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            call-2 is a repeat: SameDelivery
            to model: - ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls - look {"text":"a"}
            call-3 is a repeat: SameDelivery
            to model: - ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 2
            client: TurnComplete { turn: 1 }
            > hears again
            turn 2 started
            client: User piece "again"
            > calls - look {"text":"a"}
            client: User said "again"
            client: ModelGenerating
            start call-4 look {"text":"a"}
        "#]],
    );
}

#[test]
fn d1_a_replay_over_a_new_connection_is_answered_from_the_record() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 write {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > connected 2
            > ready
            > calls function-call-1 write {"text":"a"}
            answered effect-1
            call-2 is a repeat: SameDelivery
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d2_one_id_with_other_arguments_is_a_conflict_and_nothing_runs() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 look {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > calls function-call-1 look {"text":"b"}
            call-2 rejected Conflict
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d2_one_id_for_another_tool_is_a_conflict_too() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 look {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > calls function-call-1 cancellable {"text":"a"}
            call-2 rejected Conflict
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d1_and_d2_compare_what_was_given_and_not_what_defaults_and_clamps_made_of_it() {
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
            > calls function-call-1 search {"query":"a"}
            call-2 is a repeat: SameDelivery
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-1 search {"query":"a","top_k":5}
            call-3 rejected Conflict
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-1 search {"query":"a","top_k":3}
            call-4 rejected Conflict
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d1_a_repeat_of_refused_arguments_is_known_by_them() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 search {"quary":"a"}
            client: User said "hello"
            client: ModelGenerating
            call-1 rejected Validation
            to model: function-call-1 VALIDATION /quary: there is no argument named `quary`; /query: `query` is required
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-1 search {"quary":"a"}
            call-2 is a repeat: SameDelivery
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-1 search {"quary":"b"}
            call-3 rejected Conflict
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 nothing {"text":"a"}
            call-4 rejected NotFound
            to model: function-call-2 NOT_FOUND there is no tool "nothing"
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 nothing {"text":"a"}
            call-5 is a repeat: SameDelivery
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 nothing {"text":"b"}
            call-6 rejected Conflict
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d2_in_a_later_connection_it_is_a_new_delivery() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 look {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > connected 2
            > calls function-call-1 look {"text":"b"}
            start call-2 look {"text":"b"}
        "#]],
    );
}

#[test]
fn d3_a_write_asked_again_under_a_new_id_while_it_runs_is_one_effect_with_two_answers() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 write {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > calls function-call-2 write {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            call-2 is a repeat: SameEffectRunning
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d4_a_write_asked_again_without_a_word_of_the_user_is_answered_from_the_record() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 write {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            answered effect-1
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says done
            answered effect-1
            client: Assistant piece "done"
            > done
            client: Assistant said "done"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > calls function-call-3 write {"text":"a"}
            turn 2 started
            client: ModelGenerating
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d4_an_answer_that_never_reached_the_model_is_delivered_under_the_new_id() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 write {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > cancel function-call-1
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > interrupted
            discard audio
            client: Interrupted
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            > hears do it please
            turn 2 started
            client: User piece "do it please"
            > done
            accept audio
            > calls function-call-2 write {"text":"a"}
            client: User said "do it please"
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d5_a_second_wish_of_the_user_runs_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 write {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says done
            answered effect-1
            client: Assistant piece "done"
            > done
            client: Assistant said "done"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > hears and once more
            turn 2 started
            client: User piece "and once more"
            > calls function-call-2 write {"text":"a"}
            client: User said "and once more"
            client: ModelGenerating
            reserve call-2 write
            start call-2 write (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn d6_what_may_have_happened_is_not_done_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 write {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 broken
            record effect-1 Unknown
            call-1 problem: panicked at secret
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > done
            answered effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > hears try again
            turn 2 started
            client: User piece "try again"
            > calls function-call-2 write {"text":"a"}
            client: User said "try again"
            client: ModelGenerating
            look up effect-1 of write
            propose call-2 write
            call-2 rejected OutcomeUnknown
            to model: function-call-2 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Run write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}

#[test]
fn reads_under_a_new_id_are_new_calls() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {"text":"a"}
            start call-2 look {"text":"a"}
        "#]],
    );
}

#[test]
fn the_tail_of_the_first_question_is_no_second_wish() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears write
            turn 1 started
            client: User piece "write"
            > calls function-call-1 write {"text":"a"}
            client: User said "write"
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > hears it down
            client: User piece "it down"
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            answered effect-1
            client: User said "it down"
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_retryable_failure_uses_up_no_id() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls function-call-1 post {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            reserve call-1 post
            start call-1 post (effect-1) {"text":"a"}
            > returns 1 clean_transient
            record effect-1 Failed
            call-1 finished Transient
            to model: function-call-1 TRANSIENT it failed
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 post {"text":"a"}
            reserve call-2 post as effect-1
            start call-2 post (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn an_id_that_names_no_delivery_may_come_again_with_another_call() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls c1 look {"text":"a"}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"x":1}
            call-1 finished
            to model: c1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls c1 look {"text":"b"}
            start call-2 look {"text":"b"}
            > returns 2 {"x":2}
            call-2 finished
            to model: c1 ok {"x":2}
            client: ToolsComplete { tool_count: 1 }
            > calls c1 look {"text":"b"}
            call-3 is a repeat: SameDelivery
            client: ToolsComplete { tool_count: 1 }
            > says done
            client: Assistant piece "done"
            > done
            client: Assistant said "done"
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > hears again
            turn 2 started
            client: User piece "again"
            > calls c1 look {"text":"a"}
            client: User said "again"
            client: ModelGenerating
            start call-4 look {"text":"a"}
            > returns 4 {"x":3}
            call-4 finished
            to model: c1 ok {"x":3}
            client: ToolsComplete { tool_count: 1 }
            > calls look look {"text":"c"} + look look {"text":"d"}
            start call-5 look {"text":"c"}
            start call-6 look {"text":"d"}
            > cancel look
            abort call-5
            call-5 cancelled
            abort call-6
            call-6 cancelled
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn d5_a_wish_that_only_the_model_has_heard_runs() {
    check(
        Mode::Voice,
        expect![[r#"
            > microphone
            > calls function-call-1 write {"text":"a"}
            turn 1 started
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            answered effect-1
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says done
            answered effect-1
            client: Assistant piece "done"
            > generated
            > done
            client: Assistant said "done"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > calls function-call-3 write {"text":"a"}
            turn 2 started
            client: ModelGenerating
            reserve call-3 write
            start call-3 write (effect-2) {"text":"a"}
            > hears once more
            client: User piece "once more"
        "#]],
    );
}

#[test]
fn d4_an_answer_that_a_lost_connection_repeats_is_no_wish() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > microphone
            > calls function-call-1 write {"text":"a"}
            turn 1 started
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says done
            answered effect-1
            client: Assistant piece "done"
            > lost 1
            client: Assistant said "done"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: history "done"
            > calls function-call-2 write {"text":"a"}
            turn 2 started
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says done
            answered effect-1
            client: Assistant piece "done"
            > generated
            > done
            client: Assistant said "done"
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 2 }
            > calls function-call-3 write {"text":"a"}
            turn 3 started
            client: ModelGenerating
            reserve call-3 write
            start call-3 write (effect-2) {"text":"a"}
        "#]],
    );
}
