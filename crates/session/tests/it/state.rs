//! What handlers keep for a conversation: set by an intent, within a schema and limits, known to later calls, to the next process
//! and to other sessions of the conversation.

use crate::harness::tools::registry;
use crate::harness::{check, check_with};
use expect_test::expect;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::handler::StateValues;
use windlass_contract::id::ToolId;
use windlass_contract::intent::Intent;
use windlass_contract::kind::Mode;
use windlass_session::event::SessionEvent;
use windlass_session::limits::Limits;
use windlass_session::log_text::{KeptState, Said};
use windlass_session::{SetApart, ValuesApart};
use windlass_store::{Entry, EntryNumber};

#[test]
fn a_value_that_is_set_is_what_later_calls_are_given() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"intents":[{"type":"SET_STATE","key":"basket","value":["tea"]},{"type":"SET_STATE","key":"total","value":2.50}]}
            call-1 finished
            call-1 applied SET_STATE of basket: none to 7 bytes
            call-1 applied SET_STATE of total: none to 4 bytes
            to model: function-call-1 ok {"intents":[{"key":"basket","type":"SET_STATE","value":["tea"]},{"key":"total","type":"SET_STATE","value":2.50}]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {"text":"b"}
            start call-2 look {"text":"b"} knowing {"basket":["tea"],"total":2.50}
            > returns 2 {"intents":[{"type":"SET_STATE","key":"basket","value":null}]}
            call-2 finished
            call-2 applied SET_STATE of basket: 7 bytes to none
            to model: function-call-2 ok {"intents":[{"key":"basket","type":"SET_STATE","value":null}]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 look {"text":"c"}
            start call-3 look {"text":"c"} knowing {"total":2.50}
            > log
            s-1: begins by text
            s-1: the user begins
            s-1: User said "go"
            s-1: call-1 look {"text":"a"} brought {"data":{"intents":[{"key":"basket","type":"SET_STATE","value":["tea"]},{"key":"total","type":"SET_STATE","value":2.50}]}}
            s-1: values {"basket":["tea"],"total":2.50} after basket, total
            s-1: call-2 look {"text":"b"} brought {"data":{"intents":[{"key":"basket","type":"SET_STATE","value":null}]}}
            s-1: values {"total":2.50} after basket
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
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"intents":[{"type":"SET_STATE","key":"colour","value":"red"},{"type":"SET_STATE","key":"total","value":"much"},{"type":"SET_STATE","key":"basket","value":["a",7]},{"type":"SET_STATE","key":"basket"},{"type":"SET_STATE","value":1}]}
            call-1 finished
            call-1 intent rejected: SET_STATE of "colour", which no tool declares; name it under `state` in the schema.json of the tool
            call-1 intent rejected: SET_STATE of total: it must be a number
            call-1 intent rejected: SET_STATE of basket/1: it must be a string
            call-1 intent rejected: SET_STATE needs a key and a value
            call-1 intent rejected: SET_STATE needs a key and a value
            to model: function-call-1 ok {"intents":[{"key":"colour","type":"SET_STATE","value":"red"},{"key":"total","type":"SET_STATE","value":"much"},{"key":"basket","type":"SET_STATE","value":["a",7]},{"key":"basket","type":"SET_STATE"},{"type":"SET_STATE","value":1}]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {"text":"b"}
            start call-2 look {"text":"b"}
            > returns 2 {"intents":[{"type":"SET_STATE","key":"basket","value":["a long name of tea"]},{"type":"SET_STATE","key":"basket","value":["short one"]},{"type":"SET_STATE","key":"total","value":12345678}]}
            call-2 finished
            call-2 intent rejected: SET_STATE of basket: it takes 22 bytes, more than 20
            call-2 applied SET_STATE of basket: none to 13 bytes
            call-2 intent rejected: SET_STATE of total: all values would take 32 bytes, more than 30; take one away with null
            to model: function-call-2 ok {"intents":[{"key":"basket","type":"SET_STATE","value":["a long name of tea"]},{"key":"basket","type":"SET_STATE","value":["short one"]},{"key":"total","type":"SET_STATE","value":12345678}]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 look {"text":"c"}
            start call-3 look {"text":"c"} knowing {"basket":["short one"]}
        "#]],
    );
}

#[test]
fn what_is_kept_outlives_its_process_and_another_session_has_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"intents":[{"type":"SET_STATE","key":"basket","value":["tea"]}]}
            call-1 finished
            call-1 applied SET_STATE of basket: none to 7 bytes
            to model: function-call-1 ok {"intents":[{"key":"basket","type":"SET_STATE","value":["tea"]}]}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > killed
            > connected 1
            > ready
            to model: history "go"
            > text and now
            turn 2 started
            to model: text "and now"
            > calls function-call-2 look {"text":"b"}
            client: ModelGenerating
            start call-2 look {"text":"b"} knowing {"basket":["tea"]}
            > opens chat by text
            > chat: text what is in it
            chat: turn 1 started
            > chat: calls function-call-1 look {"text":"c"}
            chat: client: ModelGenerating
            chat: start call-2 look {"text":"c"} knowing {"basket":["tea"]}
            > chat: returns 2 {"intents":[{"type":"SET_STATE","key":"total","value":4}]}
            chat: call-2 finished
            chat: call-2 applied SET_STATE of total: none to 1 bytes
            chat: to model: function-call-1 ok {"intents":[{"key":"total","type":"SET_STATE","value":4}]}
            chat: client: ToolsComplete { tool_count: 1 }
            > returns 2 {}
            call-2 finished
            to model: function-call-2 ok {}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 look {"text":"d"}
            start call-3 look {"text":"d"} knowing {"basket":["tea"],"total":4}
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
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"intents":[{"type":"SET_STATE","key":"basket","value":["tea"]},{"type":"SET_STATE","key":"total","value":1},{"type":"SET_STATE","key":"basket","value":["salt"]}]}
            call-1 finished
            call-1 applied SET_STATE of basket: none to 7 bytes
            call-1 intent rejected: SET_STATE of total: the conversation has 1 values already; take one away with null
            call-1 applied SET_STATE of basket: 7 bytes to 8 bytes
            to model: function-call-1 ok {"intents":[{"key":"basket","type":"SET_STATE","value":["tea"]},{"key":"total","type":"SET_STATE","value":1},{"key":"basket","type":"SET_STATE","value":["salt"]}]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {"text":"b"}
            start call-2 look {"text":"b"} knowing {"basket":["salt"]}
        "#]],
    );
}

#[test]
fn a_late_result_keeps_its_values_and_asks_nothing_of_the_session() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"intents":[{"type":"SET_STATE","key":"basket","value":["tea"]},{"type":"SET_STATE","key":"total","value":"much"},{"type":"SUPPRESS_AUDIO"}]}
            call-1 returned late
            call-1 intent rejected: SUPPRESS_AUDIO: its call had ended when the result came
            call-1 settled effect-1: true
            call-1 applied SET_STATE of basket: none to 7 bytes
            call-1 intent rejected: SET_STATE of total: it must be a number
            record effect-1 Succeeded
            > calls function-call-2 look {"text":"b"}
            start call-2 look {"text":"b"} knowing {"basket":["tea"]}
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write Unknown, attempt 1
            s-1: call-1 write {"text":"a"} brought {"message":"write was started, and how it ended is not known"}
            s-1: values {"basket":["tea"]} after basket
            s-1: effect-1 of write Done, attempt 1
        "#]],
    );
}

#[test]
fn the_late_result_of_a_read_is_rejected_and_told() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > wait 5000
            abort call-1
            call-1 finished Transient
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 TRANSIENT look did not answer within 5000 ms
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"intents":[{"type":"SET_STATE","key":"basket","value":["tea"]}]}
            call-1 returned late
            call-1 intent rejected: SET_STATE: its call had ended when the result came
            > calls function-call-2 look {"text":"b"}
            start call-2 look {"text":"b"}
        "#]],
    );
}

#[test]
fn a_change_that_outlives_its_session_keeps_its_values_with_its_outcome() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > stop
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 1 transcripts
            > returns 1 {"intents":[{"type":"SET_STATE","key":"basket","value":["tea"]},{"type":"SUPPRESS_AUDIO"}]}
            call-1 applied SET_STATE of basket: none to 7 bytes
            record effect-1 Succeeded
            call-1 finished
            call-1 intent rejected: SUPPRESS_AUDIO on a session that is over
            client: ToolsComplete { tool_count: 1 }
            client: Stopped
            session ended: Stopped
            close Stopped
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: effect-1 of write Running, attempt 1
            s-1: values {"basket":["tea"]} after basket
            s-1: effect-1 of write Done, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"intents":[{"key":"basket","type":"SET_STATE","value":["tea"]},{"type":"SUPPRESS_AUDIO"}]}}
            s-1: is over
            > opens chat by text
            chat: to model: late write ok {"intents":[{"key":"basket","type":"SET_STATE","value":["tea"]},{"type":"SUPPRESS_AUDIO"}]}
            > chat: text what is in it
            chat: turn 1 started
            > chat: calls function-call-1 look {"text":"b"}
            chat: client: ModelGenerating
            chat: start call-3 look {"text":"b"} knowing {"basket":["tea"]}
        "#]],
    );
}

#[test]
fn an_approved_run_of_another_session_keeps_its_values_itself() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > opens chat by text
            > chat: confirm token-1
            chat: answer question-1 yes as call-2
            chat: call-2 Approved
            chat: start call-2 pay (effect-1) {"text":"10"}
            > chat: returns 2 {"intents":[{"type":"SET_STATE","key":"total","value":10},{"type":"SUPPRESS_TRANSCRIPT"}]}
            chat: call-2 applied SET_STATE of total: none to 2 bytes
            chat: record effect-1 Succeeded
            chat: call-2 finished
            chat: client: confirmation result call-1 ok
            call-1 applied SUPPRESS_TRANSCRIPT
            client: confirmation result call-1 ok
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: question-1 about pay Open
            s-1: call-1 pay {"text":"10"} brought {"message":"pay runs only after the user has confirmed it"}
            s-1: effect-1 of pay Running, attempt 1
            s-1: question-1 about pay Approved
            s-1: asked of s-1: [SuppressTranscript { value: true }]
            chat: values {"total":10} after total
            s-1: effect-1 of pay Done, attempt 1
            chat: begins by text
            chat: call-2 pay {"text":"10"} brought {"data":{"intents":[{"key":"total","type":"SET_STATE","value":10},{"type":"SUPPRESS_TRANSCRIPT"}]}}
            > calls function-call-2 look {"text":"b"}
            start call-2 look {"text":"b"} knowing {"total":10}
        "#]],
    );
}

#[test]
fn a_members_name_that_no_schema_has_is_in_no_cause() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > returns 1 {"intents":[{"type":"SET_STATE","key":"address","value":{"city":1}},{"type":"SET_STATE","key":"address","value":{"city":"Oslo","0470123456":1}},{"type":"SET_STATE","key":"address","value":{"city":"Oslo","notes":{"0470123456":1}}}]}
            call-1 finished
            call-1 intent rejected: SET_STATE of address/city: it must be a string
            call-1 intent rejected: SET_STATE of address/…: it has a member that its schema does not name
            call-1 intent rejected: SET_STATE of address/notes/…: it must be a string
            to model: function-call-1 ok {"intents":[{"key":"address","type":"SET_STATE","value":{"city":1}},{"key":"address","type":"SET_STATE","value":{"0470123456":1,"city":"Oslo"}},{"key":"address","type":"SET_STATE","value":{"city":"Oslo","notes":{"0470123456":1}}}]}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

/// What is set without a session, in a conversation whose log says this.
fn set_apart(intents: Value, before: Option<&Said>) -> SetApart {
    let intents: Vec<Intent> = serde_json::from_value(intents).unwrap();
    let log = before.map(|said| Entry {
        number: EntryNumber(1),
        at_unix_ms: 0,
        leg: None,
        leg_number: None,
        key: None,
        event: said.event(),
    });
    let apart = ValuesApart {
        tool: &ToolId::parse("look").unwrap(),
        registry: &Arc::new(registry()),
        limits: &Arc::new(Limits::of(Mode::Text)),
        log: log.as_slice(),
    };
    apart.set(&intents)
}

#[test]
fn without_a_session_a_value_is_added_to_what_the_log_says() {
    let before = Said::State {
        changed: vec!["total".into()],
        values: StateValues::new([("total".into(), json!(1))].into()),
    };
    let intents = json!([{"type": "SET_STATE", "key": "basket", "value": ["tea"]}]);
    let set = set_apart(intents, Some(&before));
    let kept = KeptState::of(set.values.unwrap().said.expose()).unwrap();
    assert_eq!(kept.changed, ["basket".into()]);
    assert_eq!(kept.values.get("total"), Some(&json!(1)));
    assert_eq!(kept.values.get("basket"), Some(&json!(["tea"])));
}

#[test]
fn without_a_session_what_is_not_allowed_and_what_is_for_a_session_is_rejected() {
    let intents = json!([
        {"type": "SET_STATE", "key": "colour", "value": 1},
        {"type": "SET_STATE", "key": "total"},
        {"type": "SUPPRESS_AUDIO"},
    ]);
    let set = set_apart(intents, None);
    assert_eq!(set.values, None);
    let problems = set.events.iter().map(|event| match event {
        SessionEvent::IntentRejected { problem, .. } => problem.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        problems.collect::<Vec<_>>(),
        [
            "SET_STATE of \"colour\", which no tool declares; name it under `state` in the schema.json of the tool",
            "SET_STATE needs a key and a value",
            "SUPPRESS_AUDIO: the session that it is for has no such call any more",
        ]
    );
}
