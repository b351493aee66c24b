//! Gemini's simulated Interactions through their public face: what they take, what they refuse, and what they stream.

use serde_json::{Value, json};
use windlass_sim::runner::Options;
use windlass_sim::script::Script;
use windlass_sim::text::{HttpAnswer, Piece, Protocol, Request, Server};

const SCRIPT: &str = "exchanges:
- when: any
  do:
  - search: {query: q, pages: [{url: 'https://e.example', title: E}]}
  - say: One, two.
  - call: {name: look, args: {q: 1}, id: call_1}
  - expect_response
  - say: '{result.output}'
";

fn ask_as(key: &str, body: &Value) -> HttpAnswer {
    let script = Script::parse("test.yaml", SCRIPT).unwrap();
    let mut server = Server::new(Protocol::Gemini, Options::scripted(script));
    server.answer(&Request {
        method: "POST",
        path: "/v1beta/interactions",
        query: "",
        headers: &[("x-goog-api-key".to_owned(), key.to_owned())],
        body: body.to_string().as_bytes(),
    })
}

fn ask(body: &Value) -> HttpAnswer {
    ask_as("k", body)
}

fn bytes(answer: &HttpAnswer) -> Vec<u8> {
    let bytes = answer.body.iter().map(|piece| match piece {
        Piece::Bytes(bytes) | Piece::Endless(bytes) => bytes.as_slice(),
        Piece::WaitMs(_) | Piece::Cut => &[],
    });
    bytes.collect::<Vec<_>>().concat()
}

fn body(answer: &HttpAnswer) -> Value {
    serde_json::from_slice(&bytes(answer)).unwrap()
}

fn request(input: &Value) -> Value {
    json!({"model": "gemini-3.5-flash", "input": input, "store": false, "tools": [
        {"type": "google_search"},
        {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    ]})
}

fn question() -> Value {
    json!({"type": "user_input", "content": [{"type": "text", "text": "Look."}]})
}

#[test]
fn what_was_given_to_keep_has_to_come_back_as_it_was() {
    let first = body(&ask(&request(&json!([question()]))));
    assert_eq!(first["status"], "requires_action");
    let steps = first["steps"].as_array().unwrap().clone();
    let kinds: Vec<&str> = steps
        .iter()
        .map(|step| step["type"].as_str().unwrap())
        .collect();
    let expected = [
        "thought",
        "google_search_call",
        "google_search_result",
        "model_output",
        "function_call",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(
        steps[3]["content"][0]["annotations"][0]["url"],
        "https://e.example"
    );
    assert_eq!(steps[4]["arguments"], json!({"q": 1}));
    let result = json!({"type": "function_result", "call_id": "call_1", "name": "look",
        "result": [{"type": "text", "text": "{\"output\":\"There.\"}"}]});
    let whole = || {
        let mut input = vec![question()];
        input.extend(steps.clone());
        input.push(result.clone());
        input
    };
    let second = ask(&request(&json!(whole())));
    assert_eq!(second.status, 200, "{}", body(&second));
    assert_eq!(body(&second)["steps"][1]["content"][0]["text"], "There.");
    assert_eq!(body(&second)["status"], "completed");
    type Change = fn(&mut Vec<Value>);
    let cases: [(Change, &str); 7] = [
        (
            |input| input[1]["signature"] = json!("x"),
            "thought signature",
        ),
        (|input| drop(input.remove(1)), "missing a thought signature"),
        (|input| input[2]["signature"] = json!(""), "built-in tool"),
        (|input| drop(input.pop()), "function_result is missing"),
        (|input| drop(input.remove(5)), "no function_call"),
        (
            |input| input.insert(6, question()),
            "function_result is missing",
        ),
        (|input| input[0]["type"] = json!("message"), "not supported"),
    ];
    for (change, refusal) in cases {
        let mut input = whole();
        change(&mut input);
        let answer = ask(&request(&json!(input)));
        let error = &body(&answer)["error"];
        assert_eq!(
            (answer.status, &error["code"]),
            (400, &json!("invalid_request"))
        );
        assert!(error["message"].to_string().contains(refusal), "{error}");
    }
}

#[test]
fn a_stream_has_named_events_and_says_the_same() {
    let mut request = request(&json!("Look."));
    request["stream"] = json!(true);
    let text = String::from_utf8(bytes(&ask(&request))).unwrap();
    let (mut kinds, mut words, mut arguments) = (Vec::new(), String::new(), String::new());
    for event in text.split_terminator("\n\n") {
        let (name, data) = event.split_once('\n').unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        let name = name.strip_prefix("event: ").unwrap();
        if name == "done" {
            assert_eq!(data, "[DONE]");
            continue;
        }
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(event["event_type"], name);
        if name == "step.start" {
            kinds.push(event["step"]["type"].as_str().unwrap().to_owned());
        }
        match event["delta"]["type"].as_str() {
            Some("text") => words.push_str(event["delta"]["text"].as_str().unwrap()),
            Some("arguments_delta") => {
                arguments.push_str(event["delta"]["arguments"].as_str().unwrap());
            }
            _ => {}
        }
    }
    assert_eq!(kinds.len(), 5, "{kinds:?}");
    assert_eq!(
        (words.as_str(), arguments.as_str()),
        ("One, two.", "{\"q\":1}")
    );
    assert!(text.ends_with("event: done\ndata: [DONE]\n\n"));
}

#[test]
fn requests_that_the_service_refuses_are_refused() {
    let with = |key: &str, value: Value| {
        let mut request = request(&json!("Hi"));
        request[key] = value;
        request
    };
    let mut bare = request(&json!("Hi"));
    bare["tools"] = json!([{"type": "google_search"}]);
    bare["generation_config"] = json!({"tool_choice": "any"});
    for (request, code) in [
        (with("contents", json!([])), "parameter_unknown"),
        (
            with("generation_config", json!({"thinking_budget": 1})),
            "parameter_unknown",
        ),
        (
            with("generation_config", json!({"thinking_level": "LOW"})),
            "invalid_request",
        ),
        (
            with("tools", json!([{"googleSearch": {}}])),
            "invalid_request",
        ),
        (
            with("previous_interaction_id", json!("v1_x")),
            "invalid_request",
        ),
        (with("input", json!([])), "invalid_request"),
        (with("model", Value::Null), "invalid_request"),
        (bare, "invalid_request"),
    ] {
        let answer = ask(&request);
        assert_eq!(
            (answer.status, &body(&answer)["error"]["code"]),
            (400, &json!(code)),
            "{request}"
        );
    }
    for (key, status) in [("", 401), ("bad-k", 401), ("quota-k", 429)] {
        assert_eq!(ask_as(key, &request(&json!("Hi"))).status, status);
    }
}
