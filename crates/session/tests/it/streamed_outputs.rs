//! Pieces of results that handlers show before their end: the client sees them by number, size and rate, and no model does.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_session::limits::Limits;
use windlass_tool::kind::Mode;

#[test]
fn the_client_sees_the_pieces_and_the_model_the_result() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            > calls function-call-1 look {"text":"a"}
            > outputs 1 "one "
            > outputs 1 {"two":2}
            > returns 1 {"seen":"one two"}
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
            > calls function-call-1 look {"text":"a"}
            > outputs 1 1
            > outputs 1 2
            > outputs 1 3
            > wait 1000
            > outputs 1 4
            > returns 1 {"seen":4}
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
            > calls function-call-1 look {"text":"a"}
            > outputs 1 "12345"
            > outputs 1 "1234"
            > outputs 1 "12"
            > outputs 1 "1"
            > returns 1 {"seen":4}
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
            > calls function-call-1 look {"text":"a"}
            > outputs 1 1
            > outputs 1 2
            > outputs 1 3
            > wait 999
            > outputs 1 4
            > wait 1
            > outputs 1 5
            > returns 1 {"seen":5}
        "#]],
    );
}

#[test]
fn a_failed_attempt_has_shown_pieces_and_the_next_one_counts_on() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            > calls function-call-1 look {"text":"a"}
            > outputs 1 "one"
            > returns 1 transient
            > outputs 1 "late"
            > wait 60000
            > outputs 1/1 "stale"
            > outputs 1/2 "two"
            > returns 1/2 permanent
        "#]],
    );
}

#[test]
fn what_a_handler_asked_for_shows_nothing_of_its_own() {
    check(
        Mode::Text,
        expect![[r##"
            > text look
            > calls function-call-1 look {"text":"a"}
            > asks 1 #1 search {"query":"a"}
            > outputs 2 "found"
            > returns 2 {"hits":1}
            > outputs 1 "seen"
            > returns 1 {"seen":1}
        "##]],
    );
}
