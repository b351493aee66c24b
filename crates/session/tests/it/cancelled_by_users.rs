//! Calls that the user stops: what changes nothing stops and the model reads that, what has begun to change something goes on, and
//! every request has an answer.

use crate::harness::{check, check_with};
use expect_test::{Expect, expect};
use std::sync::Arc;
use windlass_session::limits::Limits;
use windlass_session::model::{CallSupport, ModelProfile};
use windlass_tool::kind::Mode;

/// A model that waits for every call, for two seconds of the five that each may take.
fn check_waiting(mode: Mode, script: Expect) {
    check_with(
        mode,
        |config| {
            config.limits = Arc::new(Limits {
                result_wait_ms: 2_000,
                ..Limits::of(mode)
            });
            config.profile = Arc::new(ModelProfile {
                calls: CallSupport::BlockingOnly,
                ..(*config.profile).clone()
            });
        },
        script,
    );
}

#[test]
fn a_call_that_changes_nothing_stops_and_the_model_reads_who_stopped_it() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            > calls function-call-1 look {"text":"a"}
            > cancels 1 by http
            > cancels 1 by http
            > returns 1 {"seen":1}
            > cancels 1 by http
        "#]],
    );
}

#[test]
fn a_change_that_has_begun_goes_on_and_is_not_tried_again() {
    check(
        Mode::Text,
        expect![[r#"
            > text order it
            > calls function-call-1 upsert {"text":"a"}
            > cancels 1 by http
            > cancels 1 by http
            > returns 1 clean_transient
            > cancels 1 by http
        "#]],
    );
}

#[test]
fn a_change_that_has_begun_is_told_of_as_ever() {
    check(
        Mode::Voice,
        expect![[r#"
            > text order it
            > calls function-call-1 write {"text":"a"}
            > cancels 1
            > returns 1 {"ordered":1}
        "#]],
    );
}

#[test]
fn a_change_that_has_not_begun_does_not_begin() {
    check(
        Mode::Voice,
        expect![[r#"
            > text order both
            > calls function-call-1 write {"text":"a"} + function-call-2 write {"text":"b"}
            > cancels 2
            > returns 1 {"ordered":1}
            > store slow
            > calls function-call-3 write {"text":"c"}
            > cancels 3
            > store up
        "#]],
    );
}

#[test]
fn a_change_that_waits_for_its_next_attempt_is_given_up() {
    check(
        Mode::Text,
        expect![[r#"
            > text order it
            > calls function-call-1 upsert {"text":"a"}
            > returns 1 clean_transient
            > cancels 1 by http
            > wait 60000
        "#]],
    );
}

#[test]
fn a_call_that_waits_for_the_same_change_of_another_goes_on() {
    check(
        Mode::Text,
        expect![[r#"
            > text order it
            > calls function-call-1 write {"text":"a"}
            > text again
            > calls function-call-2 write {"text":"a"}
            > cancels 2 by http
            > returns 1 {"ordered":1}
        "#]],
    );
}

#[test]
fn what_was_said_to_be_at_work_stops_too_and_its_end_is_told() {
    check_with(
        Mode::Voice,
        |config| {
            config.profile = Arc::new(ModelProfile {
                calls: CallSupport::NonBlockingOnly,
                ..(*config.profile).clone()
            });
        },
        expect![[r#"
            > text look
            > calls function-call-1 look {"text":"a"}
            > done
            > cancels 1
        "#]],
    );
}

#[test]
fn a_change_at_work_goes_on_when_it_is_cancelled_after_its_turn() {
    check_waiting(
        Mode::Text,
        expect![[r#"
            > text export it
            > calls function-call-1 write {"text":"a"}
            > wait 2000
            > shutdown
            > cancels 1 by http
            > cancels 2 by http
            > returns 1 {"rows":7}
        "#]],
    );
}

#[test]
fn what_the_user_approved_stops_where_it_changes_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text peek
            > calls function-call-1 peek {"text":"a"}
            > confirm token-1
            > cancels 2
        "#]],
    );
}

#[test]
fn a_call_of_a_handlers_stops_with_its_parent_and_by_itself() {
    check(
        Mode::Text,
        expect![[r##"
            > text look
            > calls function-call-1 look {"text":"a"}
            > asks 1 #1 search {"query":"a"}
            > cancels 2 by http
            > asks 1 #2 search {"query":"b"}
            > cancels 1 by http
        "##]],
    );
}

#[test]
fn what_is_no_call_is_said_to_be_none() {
    check(
        Mode::Voice,
        expect![[r#"
            > text look
            > calls function-call-1 look {"text":"a"}
            > cancels 0
            > cancels 2
            > cancels 18446744073709551615
            > returns 1 {"seen":1}
            > cancels 1
        "#]],
    );
}
