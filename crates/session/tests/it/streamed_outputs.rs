//! Pieces of results that handlers show before their end: the client sees them by number, size and rate, and no model does.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;

#[test]
fn the_client_sees_the_pieces_and_the_model_the_result() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > outputs 1 "one "
            client: output call-1 #1 "one "
            > outputs 1 {"two":2}
            client: output call-1 #2 {"two":2}
            > returns 1 {"seen":"one two"}
            call-1 finished
            to model: function-call-1 ok {"seen":"one two"}
            client: ToolsComplete { tool_count: 1 }
            > outputs 1 "three"
        "#]],
    );
}

#[test]
fn a_handler_that_shows_too_many_pieces_is_cut_short() {
    check_with(
        Mode::Text,
        |config| {
            config.limits = Arc::new(Limits {
                outputs_per_call_max: 2,
                ..Limits::of(Mode::Text)
            });
        },
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > outputs 1 1
            client: output call-1 #1 1
            > outputs 1 2
            client: output call-1 #2 2
            > outputs 1 3
            call-1 notes outputs_left_out {"limit":"number","sequence":3}
            > wait 1000
            > outputs 1 4
            > returns 1 {"seen":4}
            call-1 finished
            call-1 took 1000 ms, over Tool 500
            to model: function-call-1 ok {"seen":4}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_piece_that_is_too_long_is_left_out_and_so_is_what_exceeds_them_all() {
    check_with(
        Mode::Text,
        |config| {
            config.limits = Arc::new(Limits {
                output_bytes_max: 6,
                output_bytes_per_call_max: 10,
                ..Limits::of(Mode::Text)
            });
        },
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > outputs 1 "12345"
            call-1 notes outputs_left_out {"limit":"size","sequence":1}
            > outputs 1 "1234"
            client: output call-1 #2 "1234"
            > outputs 1 "12"
            client: output call-1 #3 "12"
            > outputs 1 "1"
            > returns 1 {"seen":4}
            call-1 finished
            to model: function-call-1 ok {"seen":4}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn pieces_that_come_too_fast_are_left_out_and_their_numbers_say_so() {
    check_with(
        Mode::Text,
        |config| {
            config.limits = Arc::new(Limits {
                outputs_per_second_max: 2,
                ..Limits::of(Mode::Text)
            });
        },
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > outputs 1 1
            client: output call-1 #1 1
            > outputs 1 2
            client: output call-1 #2 2
            > outputs 1 3
            call-1 notes outputs_left_out {"limit":"rate","sequence":3}
            > wait 999
            > outputs 1 4
            > wait 1
            > outputs 1 5
            client: output call-1 #5 5
            > returns 1 {"seen":5}
            call-1 finished
            call-1 took 1000 ms, over Tool 500
            to model: function-call-1 ok {"seen":5}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_failed_attempt_has_shown_pieces_and_the_next_one_counts_on() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > outputs 1 "one"
            client: output call-1 #1 "one"
            > returns 1 transient
            call-1 attempt 2 in 285 ms
            > outputs 1 "late"
            > wait 60000
            start call-1 look {"text":"a"}
            > outputs 1/1 "stale"
            > outputs 1/2 "two"
            client: output call-1 #2 "two"
            > returns 1/2 permanent
            call-1 finished Permanent
            call-1 took 60000 ms, over Tool 500
            call-1 took 60000 ms, over Turn 10000
            to model: function-call-1 PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_call_that_a_handler_may_not_make_shows_nothing() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > asks 1 #1 look {"text":"b"}
            call-2 look asked for by call-1
            call-2 rejected Permanent
            to call-1 #1: PERMANENT look may not call look, on whose behalf it runs: that would not end
            > outputs 2 "found"
            > returns 2 {"hits":1}
            call-2 returned late
            > outputs 1 "seen"
            client: output call-1 #1 "seen"
            > returns 1 {"seen":1}
            call-1 finished
            to model: function-call-1 ok {"seen":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}
