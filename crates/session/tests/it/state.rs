//! What handlers keep for a conversation: set by an intent, within a schema and limits, known to later calls, to the next process
//! and to other sessions of the conversation.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_tool::kind::Mode;

#[test]
fn a_value_that_is_set_is_what_later_calls_are_given() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            > calls function-call-1 look {"text":"a"}
            > returns 1 {"intents":[{"type":"SET_STATE","key":"basket","value":["tea"]},{"type":"SET_STATE","key":"total","value":2.50}]}
            > calls function-call-2 look {"text":"b"}
            > returns 2 {"intents":[{"type":"SET_STATE","key":"basket","value":null}]}
            > calls function-call-3 look {"text":"c"}
            > log
        "#]],
    );
}

#[test]
fn what_no_schema_and_no_limit_allows_is_rejected_and_nothing_is_kept() {
    check_with(
        Mode::Text,
        |config| {
            let limits = Arc::make_mut(&mut config.limits);
            limits.state_value_bytes_max = 20;
            limits.state_bytes_max = 30;
        },
        expect![[r#"
            > text go
            > calls function-call-1 look {"text":"a"}
            > returns 1 {"intents":[{"type":"SET_STATE","key":"colour","value":"red"},{"type":"SET_STATE","key":"total","value":"much"},{"type":"SET_STATE","key":"basket","value":["a",7]},{"type":"SET_STATE","key":"basket"},{"type":"SET_STATE","value":1}]}
            > calls function-call-2 look {"text":"b"}
            > returns 2 {"intents":[{"type":"SET_STATE","key":"basket","value":["a long name of tea"]},{"type":"SET_STATE","key":"basket","value":["short one"]},{"type":"SET_STATE","key":"total","value":12345678}]}
            > calls function-call-3 look {"text":"c"}
        "#]],
    );
}

#[test]
fn what_is_kept_outlives_its_process_and_another_session_has_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            > calls function-call-1 look {"text":"a"}
            > returns 1 {"intents":[{"type":"SET_STATE","key":"basket","value":["tea"]}]}
            > done
            > killed
            > connected 1
            > ready
            > text and now
            > calls function-call-2 look {"text":"b"}
            > opens chat by text
            > chat: text what is in it
            > chat: calls function-call-1 look {"text":"c"}
            > chat: returns 3 {"intents":[{"type":"SET_STATE","key":"total","value":4}]}
            > returns 2 {}
            > calls function-call-3 look {"text":"d"}
        "#]],
    );
}

#[test]
fn a_conversation_has_so_many_values_and_no_more() {
    check_with(
        Mode::Text,
        |config| Arc::make_mut(&mut config.limits).state_values_max = 1,
        expect![[r#"
            > text go
            > calls function-call-1 look {"text":"a"}
            > returns 1 {"intents":[{"type":"SET_STATE","key":"basket","value":["tea"]},{"type":"SET_STATE","key":"total","value":1},{"type":"SET_STATE","key":"basket","value":["salt"]}]}
            > calls function-call-2 look {"text":"b"}
        "#]],
    );
}
