//! Calls as models write them, well and badly, once and twice.

use crate::events::{MODEL, check, event, turn_complete};
use crate::{Said, codec, decode};
use serde_json::{Value, json};
use windlass_session::model::{ArgumentsProblem, IncomingCall, ModelEvent};

fn call(id: Option<&str>, name: Option<&str>, arguments: Value) -> IncomingCall {
    IncomingCall {
        id: id.map(Into::into),
        name: name.map(Into::into),
        arguments: Ok(arguments.as_object().unwrap().clone().into()),
    }
}

fn calls(calls: &[IncomingCall]) -> Said {
    event(ModelEvent::Calls(calls.to_vec()))
}

#[test]
fn calls_are_read_as_the_model_wrote_them() {
    check(
        &[json!({"toolCall": {"functionCalls": [
            {"id": "function-call-1", "name": "lookup_order", "args": {"number": "A7", "deepList": [{"someKey": null}]}},
            {"id": "function-call-2", "name": "now"},
            {"id": "", "name": "now", "args": {}},
            {"name": "now", "args": null},
            {"name": "now", "args": "", "willContinue": false},
            {"name": "now", "args": " {\"zone\": \"UTC\"} "},
            {"id": "function-call-3", "args": {}},
            {"id": 5, "name": ["x"], "args": {}}
        ]}})],
        &[calls(&[
            call(
                Some("function-call-1"),
                Some("lookup_order"),
                json!({"number": "A7", "deepList": [{"someKey": null}]}),
            ),
            call(Some("function-call-2"), Some("now"), json!({})),
            call(None, Some("now"), json!({})),
            call(None, Some("now"), json!({})),
            call(None, Some("now"), json!({})),
            call(None, Some("now"), json!({"zone": "UTC"})),
            call(Some("function-call-3"), None, json!({})),
            call(None, None, json!({})),
        ])],
    );
}

#[test]
fn arguments_that_are_no_object_are_a_problem_and_never_guessed() {
    const NOT_AN_OBJECT: &str = "the arguments must be a JSON object";
    for (written, problem) in [
        (r#""id":"c1","name":"f","args":[1]"#, NOT_AN_OBJECT),
        (r#""id":"c1","name":"f","args":7"#, NOT_AN_OBJECT),
        (r#""id":"c1","name":"f","args":true"#, NOT_AN_OBJECT),
        (r#""id":"c1","name":"f","args":"[1]""#, NOT_AN_OBJECT),
        (r#""id":"c1","name":"f","args":"nul""#, NOT_AN_OBJECT),
        (
            r#""id":"c1","name":"f","args":{"a":1,"a":2}"#,
            "the key \"a\" is there twice",
        ),
        (
            r#""id":"c1","name":"f","args":{"a":"\ud800"}"#,
            "the arguments are no valid JSON",
        ),
        (
            r#""id":"c1","name":"f","args":"{\"a\":{\"b\":1,\"b\":1}}""#,
            "the key \"b\" is there twice",
        ),
        (
            r#""id":"c1","name":"f","args":"{'a':1}""#,
            "the arguments are no valid JSON",
        ),
        (
            r#""id":"c1","name":"f","args":"{\"a\":1""#,
            "the arguments are no valid JSON",
        ),
        (
            r#""id":"c1","name":"f","args":{},"args":{}"#,
            "the call cannot be read: the key \"args\" is there twice",
        ),
        (
            r#""id":"c1","name":"f","partialArgs":[{"jsonPath":"$.a","stringValue":"x"}],"willContinue":true"#,
            "the arguments came in pieces, which was not asked for",
        ),
    ] {
        let frame = format!(r#"{{"toolCall":{{"functionCalls":[{{{written}}}]}}}}"#);
        let said = decode(&mut codec(MODEL), frame.as_bytes());
        let [Said::Event(ModelEvent::Calls(calls))] = &said[..] else {
            panic!("{written}: {said:?}");
        };
        let [
            IncomingCall {
                id,
                name,
                arguments: Err(ArgumentsProblem(said)),
            },
        ] = &calls[..]
        else {
            panic!("{written}: {calls:?}");
        };
        assert_eq!((id.as_deref(), name.as_deref()), (Some("c1"), Some("f")));
        assert!(said.contains(problem), "{written}: {said}");
    }
}

#[test]
fn a_call_that_is_no_object_is_still_a_call() {
    let frame = r#"{"toolCall":{"functionCalls":["x",null,[1],{"id":"c1","name":"f"}]}}"#;
    let said = decode(&mut codec(MODEL), frame.as_bytes());
    let [Said::Event(ModelEvent::Calls(calls))] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(calls.len(), 4);
    assert!(calls[..3].iter().all(|call| call.arguments.is_err()));
    assert_eq!(calls[3].id.as_deref(), Some("c1"));
}

fn part_calls(written: &[Value]) -> Value {
    let parts: Vec<Value> = written
        .iter()
        .map(|call| json!({"functionCall": call}))
        .collect();
    json!({"serverContent": {"modelTurn": {"parts": parts}}})
}

#[test]
fn a_call_that_comes_twice_is_one_call() {
    let written = json!({"id": "c1", "name": "f", "args": {}});
    let tool_call = json!({"toolCall": {"functionCalls": [written]}});
    let end = json!({"serverContent": {"turnComplete": true}});
    let once = [
        calls(&[call(Some("c1"), Some("f"), json!({}))]),
        turn_complete(true, None),
    ];
    let part = part_calls(std::slice::from_ref(&written));
    check(&[part.clone(), tool_call.clone(), end.clone()], &once);
    check(&[tool_call, part, end.clone()], &once);

    let nameless = json!({"name": "f", "args": {}});
    check(
        &[
            part_calls(std::slice::from_ref(&nameless)),
            json!({"toolCall": {"functionCalls": [nameless]}}),
            end,
        ],
        &[
            calls(&[call(None, Some("f"), json!({}))]),
            turn_complete(true, None),
        ],
    );
}

#[test]
fn a_call_that_came_only_as_a_part_is_made_at_the_turns_end() {
    let written = json!({"id": "c1", "name": "f", "args": {"a": 1}});
    let part = part_calls(&[written.clone(), written]);
    let end = json!({"serverContent": {"turnComplete": true}});
    check(
        &[part.clone(), end.clone()],
        &[
            calls(&[call(Some("c1"), Some("f"), json!({"a": 1}))]),
            turn_complete(true, None),
        ],
    );
    check(
        &[
            part.clone(),
            json!({"serverContent": {"interrupted": true}}),
            end.clone(),
        ],
        &[event(ModelEvent::Interrupted), turn_complete(true, None)],
    );
    check(
        &[part, json!({"toolCallCancellation": {"ids": ["c1"]}}), end],
        &[
            event(ModelEvent::CallsCancelled(vec!["c1".into()])),
            turn_complete(true, None),
        ],
    );
}

/// A frame spelt as the service spells it is read the short way, one in the other spelling by the general decoder.
#[test]
fn the_short_way_reads_what_the_general_decoder_reads_whatever_happened_to_the_frame() {
    let read = |frame: &str| match &decode(&mut codec(MODEL), frame.as_bytes())[..] {
        [Said::Event(ModelEvent::Malformed { .. })] => vec![Said::Event(ModelEvent::Interrupted)],
        said => said.to_vec(),
    };
    let frames = [
        r#"{"toolCall":{"functionCalls":[{"id":"c1","name":"f","args":{"a":[1,-2.5,3.0,null],"é":"ß"}}]}}"#,
        r#"{ "toolCall" : { "functionCalls" : [ { "name" : "f", "args" : { }, "id" : "c1" } , {"id":"c2","name":"g","args":{"x":{"y":"a\"b"}}} ] } }"#,
    ];
    for frame in frames {
        for (at, character) in frame.char_indices() {
            let (before, after) = frame.split_at(at);
            let rest = &after[character.len_utf8()..];
            let mut damaged = vec![before.to_owned(), format!("{before}{rest}")];
            damaged.extend(
                "\"{}[],:0e-\\ \u{1}é"
                    .chars()
                    .map(|extra| format!("{before}{extra}{after}")),
            );
            damaged.push(format!("{before}{after}"));
            for frame in damaged
                .iter()
                .filter(|frame| frame.contains("\"toolCall\""))
            {
                let general = frame.replacen("\"toolCall\"", "\"tool_call\"", 1);
                assert_eq!(read(frame), read(&general), "{frame}");
            }
        }
    }
}
