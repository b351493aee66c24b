//! Calls in streams of Chat Completions, in whatever pieces a server sends them.

use super::chat_stream::{calls, chunk, finish};
use super::{calls_of, decode_chat, stream_of};
use serde_json::{Value, json};
use windlass_provider::answer::{Ending, ModelAnswer};

/// One call as it is expected: its id, its name, and its arguments or a part of what is said to be wrong with them.
type Expected<'a> = (&'a str, &'a str, Value);

pub(super) fn check_calls(what: &str, answer: &ModelAnswer, expected: &[Expected<'_>]) {
    assert_eq!(answer.ending, Ending::Complete, "{what}");
    let calls = calls_of(answer);
    assert_eq!(calls.len(), expected.len(), "{what}: {calls:?}");
    for ((id, name, arguments), (expected_id, expected_name, expected_arguments)) in
        calls.iter().zip(expected)
    {
        assert_eq!(id.as_deref(), Some(*expected_id), "{what}");
        assert_eq!(
            name.as_deref().unwrap_or_default(),
            *expected_name,
            "{what}"
        );
        match (arguments, expected_arguments) {
            (Value::String(problem), Value::String(part)) => {
                assert!(problem.contains(part.as_str()), "{what}: {problem}");
            }
            (arguments, expected) => assert_eq!(arguments, expected, "{what}"),
        }
    }
}

#[test]
fn calls_are_put_together_from_whatever_pieces_a_server_sends() {
    let paris = json!({"city": "Paris"});
    let rome = json!({"city": "Rome"});
    let whole = |id: Value, index: Value, city: &str| {
        json!({"id": id, "index": index, "type": "function",
            "function": {"name": "get_time", "arguments": format!("{{\"city\":\"{city}\"}}")}})
    };
    let begun = |index: u64| json!({"index": index, "id": "call_1", "function": {"name": "get_time", "arguments": ""}});
    let both = [
        ("call_1", "get_time", paris.clone()),
        ("call_2", "get_time", rome.clone()),
    ];
    let one = [("call_1", "get_time", paris.clone())];
    let table: Vec<(&str, Vec<Value>, Vec<Expected<'_>>)> = vec![
        (
            "openai: id and name first, then letters by index, one call after the other",
            vec![
                calls(
                    json!([{"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": ""}}]),
                ),
                calls(json!([{"index": 0, "function": {"arguments": "{\"city\":"}}])),
                calls(json!([{"index": 0, "function": {"arguments": "\"Paris\"}"}}])),
                calls(
                    json!([{"index": 1, "id": "call_2", "type": "function", "function": {"name": "get_time", "arguments": ""}}]),
                ),
                calls(json!([{"index": 1, "function": {"arguments": "{\"city\":\"Rome\"}"}}])),
            ],
            both.to_vec(),
        ),
        (
            "letters of two calls by turns",
            vec![
                calls(json!([
                    {"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": "{\"city\":"}},
                    {"index": 1, "id": "call_2", "function": {"name": "get_time", "arguments": "{\"city\":"}}
                ])),
                calls(json!([
                    {"index": 1, "function": {"arguments": "\"Rome\"}"}},
                    {"index": 0, "function": {"arguments": "\"Paris\"}"}}
                ])),
            ],
            both.to_vec(),
        ),
        (
            "gemini: no index, whole calls with ids of their own",
            vec![
                calls(json!([whole(json!("call_1"), Value::Null, "Paris")])),
                calls(json!([whole(json!("call_2"), Value::Null, "Rome")])),
            ],
            both.to_vec(),
        ),
        (
            "two calls with one index",
            vec![
                calls(json!([whole(json!("call_1"), json!(0), "Paris")])),
                calls(json!([whole(json!("call_2"), json!(0), "Rome")])),
            ],
            both.to_vec(),
        ),
        (
            "neither ids nor indexes: a name after a whole call begins another, and the codec gives ids",
            vec![
                calls(json!([whole(Value::Null, Value::Null, "Paris")])),
                calls(json!([whole(json!(""), Value::Null, "Rome")])),
            ],
            vec![
                ("wl0000700", "get_time", paris.clone()),
                ("wl0000701", "get_time", rome.clone()),
            ],
        ),
        (
            "neither ids nor indexes, in letters",
            vec![
                calls(json!([{"function": {"name": "get_time", "arguments": "{\"city\":"}}])),
                calls(json!([{"function": {"arguments": "\"Paris\"}"}}])),
            ],
            vec![("wl0000700", "get_time", paris.clone())],
        ),
        (
            "the id in every piece",
            vec![
                calls(
                    json!([{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": "{\"city\":"}}]),
                ),
                calls(
                    json!([{"index": 0, "id": "call_1", "function": {"arguments": "\"Paris\"}"}}]),
                ),
            ],
            one.to_vec(),
        ),
        (
            "llama.cpp: the name in every piece, and the id within the function",
            vec![
                calls(
                    json!([{"index": 0, "function": {"id": "call_1", "name": "get_time", "arguments": "{\"city\":"}}]),
                ),
                calls(
                    json!([{"index": 0, "function": {"name": "get_time", "arguments": "\"Paris\"}"}}]),
                ),
            ],
            one.to_vec(),
        ),
        (
            "ollama: the index within the function",
            vec![calls(json!([
                {"id": "call_1", "function": {"index": 0, "name": "get_time", "arguments": "{\"city\":\"Paris\"}"}},
                {"id": "call_2", "function": {"index": 1, "name": "get_time", "arguments": "{\"city\":\"Rome\"}"}}
            ]))],
            both.to_vec(),
        ),
        (
            "arguments as an object",
            vec![calls(
                json!([{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": {"city": "Paris"}}}]),
            )],
            one.to_vec(),
        ),
        (
            "a call that is not in a list",
            vec![calls(whole(json!("call_1"), json!(0), "Paris"))],
            one.to_vec(),
        ),
        (
            "null and empty pieces",
            vec![
                calls(
                    json!([{"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": null}}]),
                ),
                chunk(json!({"tool_calls": null, "content": null})),
                calls(json!([])),
                calls(
                    json!([{"index": 0, "id": null, "function": {"name": null, "arguments": ""}}]),
                ),
                calls(json!([{"index": 0}])),
            ],
            vec![("call_1", "get_time", json!({}))],
        ),
        (
            "arguments that never become JSON",
            vec![calls(
                json!([{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": "{\"city\":\"Par"}}]),
            )],
            vec![("call_1", "get_time", json!("no valid JSON"))],
        ),
        (
            "arguments that are no object",
            vec![calls(
                json!([{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": "[1]"}}]),
            )],
            vec![("call_1", "get_time", json!("must be a JSON object"))],
        ),
        (
            "arguments that are a text with an object in it",
            vec![calls(
                json!([{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": "\"{\\\"city\\\":\\\"Paris\\\"}\""}}]),
            )],
            vec![("call_1", "get_time", json!("must be a JSON object"))],
        ),
        (
            "arguments that are the text null",
            vec![calls(
                json!([{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": "null"}}]),
            )],
            vec![("call_1", "get_time", json!({}))],
        ),
        (
            "arguments that are white space",
            vec![calls(
                json!([{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": " \n"}}]),
            )],
            vec![("call_1", "get_time", json!({}))],
        ),
        (
            "arguments with a key twice",
            vec![calls(
                json!([{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": "{\"a\":1,\"a\":2}"}}]),
            )],
            vec![("call_1", "get_time", json!("twice"))],
        ),
        (
            "two calls run into one",
            vec![
                calls(json!([whole(Value::Null, json!(0), "Paris")])),
                calls(json!([whole(Value::Null, json!(0), "Rome")])),
            ],
            vec![("wl0000700", "get_time", json!("run into one"))],
        ),
        (
            "two calls with one id, each whole under an index of its own",
            vec![calls(json!([
                whole(json!("call_1"), json!(0), "Paris"),
                whole(json!("call_1"), json!(1), "Rome")
            ]))],
            vec![
                ("call_1", "get_time", paris.clone()),
                ("call_1", "get_time", rome.clone()),
            ],
        ),
        (
            "two calls with one id, in letters by index",
            vec![
                calls(json!([begun(0)])),
                calls(json!([{"index": 0, "function": {"arguments": "{\"city\":\"Paris\"}"}}])),
                calls(json!([begun(1)])),
                calls(
                    json!([{"index": 1, "id": "call_1", "function": {"arguments": "{\"city\":"}}]),
                ),
                calls(json!([{"index": 1, "function": {"arguments": "\"Rome\"}"}}])),
            ],
            vec![
                ("call_1", "get_time", paris.clone()),
                ("call_1", "get_time", rome.clone()),
            ],
        ),
        (
            "one call that is said twice",
            vec![calls(json!([
                whole(json!("call_1"), json!(0), "Paris"),
                whole(json!("call_1"), json!(1), "Paris")
            ]))],
            one.to_vec(),
        ),
        (
            "one call whose pieces are counted, with all that is known of it in each",
            vec![
                calls(
                    json!([{"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": "{\"city\":"}}]),
                ),
                calls(
                    json!([{"index": 1, "id": "call_1", "function": {"name": "get_time", "arguments": "\"Paris\"}"}}]),
                ),
                calls(json!([begun(2)])),
            ],
            one.to_vec(),
        ),
        (
            "a call without a name",
            vec![calls(
                json!([{"index": 0, "id": "call_1", "function": {"arguments": "{}"}}]),
            )],
            vec![("call_1", "", json!({}))],
        ),
        (
            "the form before tools",
            vec![
                chunk(json!({"function_call": {"name": "get_time", "arguments": "{\"city\":"}})),
                chunk(json!({"function_call": {"arguments": "\"Paris\"}"}})),
            ],
            vec![("wl0000700", "get_time", paris.clone())],
        ),
        (
            "entries that are no calls",
            vec![calls(json!([
                1,
                null,
                "x",
                whole(json!("call_1"), json!(0), "Paris")
            ]))],
            one.to_vec(),
        ),
    ];
    for (what, mut messages, expected) in table {
        messages.push(finish("tool_calls"));
        let stream = stream_of(&messages) + "data: [DONE]\n\n";
        let (_, answer) = decode_chat(stream.as_bytes());
        check_calls(what, &answer, &expected);
    }
}
