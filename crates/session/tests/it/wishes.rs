//! Wishes that are asked for again: rules D3 to D6.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

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
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > hears try again
            turn 2 started
            client: User piece "try again"
            > calls function-call-2 write {"text":"a"}
            answered effect-1
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
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > audio
            answered effect-1
            > says done
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
            > audio
            answered effect-1
            > says done
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
