//! Deliveries that come again: rules D1 and D2.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;

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
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > connected 2
            > ready
            > calls function-call-1 write {"text":"a"}
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
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
fn the_same_call_is_answered_once_more_after_an_unstable_id_was_taken_back() {
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
            > cancel c1
            abort call-1
            call-1 cancelled
            client: ToolsComplete { tool_count: 1 }
            > calls c1 look {"text":"a"}
            start call-2 look {"text":"a"}
            > returns 2 {"x":1}
            call-2 finished
            to model: c1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls c1 look {"text":"a"}
            call-3 is a repeat: SameDelivery
            client: ToolsComplete { tool_count: 1 }
            > calls c1 write {"text":"b"}
            request call-4 write
            start call-4 write (effect-1) {"text":"b"}
            > cancel c1
            > calls c1 write {"text":"b"}
            > returns 4 {"x":2}
            record effect-1 Succeeded
            call-4 finished
            client: ToolsComplete { tool_count: 1 }
            call-5 is a repeat: SameDelivery
            to model: c1 ok {"x":2}
            client: ToolsComplete { tool_count: 1 }
            > cancel c1
            > calls c1 write {"text":"b"}
            request call-6 write
            call-6 is a repeat: SameEffectFinished
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn an_id_that_names_its_delivery_stays_taken_back() {
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
            > cancel function-call-1
            abort call-1
            call-1 cancelled
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-1 look {"text":"a"}
            call-2 is a repeat: SameDelivery
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn an_answer_that_was_taken_back_before_it_was_sent_was_none() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > calls c1 look {"text":"a"} + c2 look {"text":"b"}
            client: User said "hello"
            client: ModelGenerating
            start call-1 look {"text":"a"}
            start call-2 look {"text":"b"}
            > returns 1 {"x":1}
            call-1 finished
            > cancel c1
            > calls c1 look {"text":"a"}
            call-3 is a repeat: SameDelivery
            to model: c1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > returns 2 {"x":2}
            call-2 finished
            to model: c2 ok {"x":2}
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn so_many_calls_wait_for_one_change_and_no_more() {
    check_with(
        Mode::Voice,
        |config| {
            config.limits = Arc::new(Limits {
                open_calls_max: 2,
                ..Limits::of(Mode::Voice)
            });
        },
        expect![[r#"
            > text write
            turn 1 started
            to model: text "write"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > calls function-call-2 write {"text":"a"} + function-call-3 write {"text":"a"}
            request call-2 write
            call-3 rejected BudgetExceeded
            call-2 is a repeat: SameEffectRunning
            > calls function-call-4 write {"text":"a"}
            call-4 rejected BudgetExceeded
            to model: function-call-4 BUDGET_EXCEEDED 2 calls are open already
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            request call-2 write
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.) + function-call-3 BUDGET_EXCEEDED 2 calls are open already
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn by_text_an_id_names_a_delivery_of_its_turn_alone() {
    check(
        Mode::Text,
        expect![[r#"
            > text order it
            turn 1 started
            > calls functions.order:0 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: functions.order:0 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > requests 2
            > calls functions.order:0 write {"text":"a"}
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: functions.order:0 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > says Ordered.
            client: Assistant piece "Ordered."
            > generated
            > done
            client: Assistant said "Ordered."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > text once more
            turn 2 started
            > requests 3
            > calls functions.order:0 write {"text":"a"}
            client: ModelGenerating
            request call-3 write
            call-3 rejected ConfirmationRequired
            to model: functions.order:0 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:40.000Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-1 {"text":"a"} warned "This was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn by_text_a_model_that_asks_call_by_call_has_lost_nothing_between() {
    check(
        Mode::Text,
        expect![[r#"
            > text write both
            turn 1 started
            > calls function-call-1 write {"text":"milk"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"milk"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > requests 2
            > calls function-call-2 write {"text":"bread"}
            request call-2 write
            start call-2 write (effect-2) {"text":"bread"}
            > returns 2 {"x":2}
            record effect-2 Succeeded
            call-2 finished
            to model: function-call-2 ok {"x":2}
            client: ToolsComplete { tool_count: 1 }
            > requests 3
            > calls function-call-3 louder {}
            request call-3 louder
            start call-3 louder (effect-3) {}
            > returns 3 {"x":3}
            record effect-3 Succeeded
            call-3 finished
            to model: function-call-3 ok {"x":3}
            client: ToolsComplete { tool_count: 1 }
            > requests 4
            > calls function-call-4 louder {}
            request call-4 louder
            start call-4 louder (effect-4) {}
        "#]],
    );
}

#[test]
fn by_text_answers_that_wait_for_others_do_not_ride_on_a_later_request() {
    check(
        Mode::Text,
        expect![[r#"
            > text write both
            turn 1 started
            > calls function-call-1 write {"text":"milk"} + function-call-2 write {"text":"bread"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"milk"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            request call-2 write
            start call-2 write (effect-2) {"text":"bread"}
            > requests 2
            > returns 2 {"x":2}
            record effect-2 Succeeded
            call-2 finished
            client: ToolsComplete { tool_count: 2 }
            > says Done.
            client: Assistant piece "Done."
            > done
            client: Assistant said "Done."
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late write ok {"x":1} + write ok {"x":2}
        "#]],
    );
}
