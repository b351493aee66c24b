//! Answers that wait for others of their message: they stand for what they repeat only once they go out.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;

#[test]
fn a_repeat_that_is_taken_back_before_it_goes_out_leaves_the_late_result_to_be_told() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > connected 2
            > ready
            client: Reconnected
            to model: text "write it"
            > calls function-call-2 write {"text":"a"} + function-call-3 look {}
            client: ModelGenerating
            request call-2 write
            start call-3 look {}
            call-2 is a repeat: SameEffectFinished
            > cancel function-call-2
            > returns 3 {"found":1}
            call-3 finished
            to model: function-call-3 ok {"found":1}
            client: ToolsComplete { tool_count: 2 }
            > generated
            > done
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            to model: late write ok {"x":1}
        "#]],
    );
}

#[test]
fn of_two_repeats_in_one_message_the_one_that_is_left_tells_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > connected 2
            > ready
            client: Reconnected
            to model: text "write it"
            > calls function-call-2 write {"text":"a"} + function-call-3 look {} + function-call-4 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            start call-3 look {}
            call-2 is a repeat: SameEffectFinished
            request call-4 write
            call-4 is a repeat: SameEffectFinished
            > cancel function-call-4
            > returns 3 {"found":1}
            call-3 finished
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.) + function-call-3 ok {"found":1}
            client: ToolsComplete { tool_count: 3 }
            > generated
            > done
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 2
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn refusals_make_room_for_an_answer_of_which_nobody_knows_whether_it_arrived() {
    check_with(
        Mode::Voice,
        |config| {
            config.limits = Arc::new(Limits {
                open_calls_max: 3,
                ..(*config.limits).clone()
            });
        },
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"} + function-call-2 look {} + function-call-3 nosuch {} + function-call-4 nosuch {"a":1} + function-call-5 nosuch {"a":2}
            client: ModelGenerating
            request call-1 write
            start call-2 look {}
            call-3 rejected NotFound
            call-4 rejected NotFound
            call-5 rejected NotFound
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            > returns 2 {"found":1}
            call-2 finished
            to model: function-call-1 ok {"x":1} + function-call-2 ok {"found":1} + function-call-3 NOT_FOUND there is no tool "nosuch" + function-call-4 NOT_FOUND there is no tool "nosuch" + function-call-5 NOT_FOUND there is no tool "nosuch"
            client: ToolsComplete { tool_count: 5 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "write it"
            > says Well.
            client: ModelGenerating
            client: Assistant piece "Well."
            > generated
            > done
            client: Assistant said "Well."
            turn 1 ended: calls 5 retrieval 0 refusals 3 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late write ok {"x":1} + look ok {"found":1}
        "#]],
    );
}
