//! The simulated Responses through its public face: what it takes, what it refuses, and what it streams.

use serde_json::{Value, json};
use windlass_sim::runner::Options;
use windlass_sim::script::Script;
use windlass_sim::text::{HttpAnswer, Piece, Protocol, Request, Server};

const SCRIPT: &str = "exchanges:\n- when: any\n  do:\n  - say: \"One:\\n\\n- two\"\n  - call: {name: look, args: {q: 1}, id: call_1}\n  - expect_response\n  - say: \"{result}\"\n";

fn ask(path: &str, body: &Value) -> HttpAnswer {
    let script = Script::parse("test.yaml", SCRIPT).unwrap();
    let mut server = Server::new(Protocol::ChatCompletions, Options::scripted(script));
    server.answer(&Request {
        method: "POST",
        path,
        query: "",
        headers: &[("authorization".to_owned(), "Bearer k".to_owned())],
        body: body.to_string().as_bytes(),
    })
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

fn tools() -> Value {
    json!([{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": false}])
}

fn request(model: &str, input: &Value) -> Value {
    json!({"model": model, "input": input, "tools": tools(), "store": false, "include": ["reasoning.encrypted_content"]})
}

#[test]
fn what_was_reasoned_has_to_come_back_as_it_was() {
    let question = json!({"role": "user", "content": "Look."});
    let first = body(&ask(
        "/v1/responses",
        &request("gpt-5.4", &json!([question])),
    ));
    let output = first["output"].as_array().unwrap().clone();
    let kinds: Vec<&str> = output
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);
    assert_eq!(output[1]["content"][0]["text"], "One:\n\n- two");
    let result =
        json!({"type": "function_call_output", "call_id": "call_1", "output": "{\"found\":1}"});
    let whole = || {
        let mut input = vec![question.clone()];
        input.extend(output.clone());
        input.push(result.clone());
        input
    };
    let second = ask("/v1/responses", &request("gpt-5.4", &json!(whole())));
    assert_eq!(second.status, 200, "{}", body(&second));
    let said = &body(&second)["output"][1]["content"][0]["text"];
    assert_eq!(said, "{\"found\":1}");
    // Item of the input, the change of it, and the refusal.
    type Change = fn(&mut Vec<Value>);
    let cases: [(Change, &str); 5] = [
        (
            |input| input[1]["encrypted_content"] = json!("x"),
            "could not be verified",
        ),
        (
            |input| {
                input[1]
                    .as_object_mut()
                    .unwrap()
                    .remove("encrypted_content");
            },
            "not found",
        ),
        (|input| drop(input.drain(2..)), "required following item"),
        (
            |input| drop(input.pop()),
            "No tool output found for function call call_1",
        ),
        (|input| drop(input.remove(3)), "No tool call found"),
    ];
    for (change, refusal) in cases {
        let mut input = whole();
        change(&mut input);
        let answer = ask("/v1/responses", &request("gpt-5.4", &json!(input)));
        let message = body(&answer)["error"]["message"].to_string();
        assert!(
            answer.status >= 400 && message.contains(refusal),
            "{message}"
        );
    }
}

#[test]
fn fields_that_the_service_refuses_are_refused() {
    let with = |key: &str, value: Value| {
        let mut request = request("gpt-5.4", &json!("Hi"));
        request[key] = value;
        request
    };
    let many: Vec<Value> = (0..129)
        .map(|number| json!({"type": "function", "name": format!("t{number}")}))
        .collect();
    for (request, code) in [
        (with("messages", json!([])), json!("unknown_parameter")),
        (with("max_tokens", json!(5)), json!("unknown_parameter")),
        (with("tools", json!(many)), json!("array_above_max_length")),
        (
            with(
                "tools",
                json!([{"type": "function", "function": {"name": "look"}}]),
            ),
            json!("missing_required_parameter"),
        ),
        (with("input", json!([])), Value::Null),
        (request("gpt-4.1", &json!("Hi")), Value::Null),
    ] {
        let answer = ask("/v1/responses", &request);
        assert_eq!(answer.status, 400, "{request}");
        assert_eq!(body(&answer)["error"]["code"], code, "{request}");
    }
}

#[test]
fn a_stream_has_named_events_in_their_order_and_ends_with_the_whole() {
    let mut request = request("gpt-5.4", &json!("Hi"));
    request["stream"] = json!(true);
    let text = String::from_utf8(bytes(&ask("/v1/responses", &request))).unwrap();
    let mut words = String::new();
    let mut last = Value::Null;
    for (number, event) in text.split_terminator("\n\n").enumerate() {
        let (name, data) = event.split_once('\n').unwrap();
        last = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), last["type"].as_str());
        assert_eq!(last["sequence_number"], number);
        if last["type"] == "response.output_text.delta" {
            words.push_str(last["delta"].as_str().unwrap());
        }
    }
    assert_eq!(words, "One:\n\n- two");
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"].as_array().unwrap().len(), 3);
}

#[test]
fn chat_completions_refuse_tools_of_models_that_reason() {
    let tools = json!([{"type": "function", "function": {"name": "look"}}]);
    for (model, effort, status) in [
        ("gpt-4.1", json!(null), 200),
        ("gpt-5.4-mini", json!(null), 200),
        ("gpt-5.4-mini", json!("low"), 400),
        ("gpt-5.4-mini", json!("none"), 200),
        ("gpt-5.6-terra", json!(null), 400),
        ("gpt-5.6-terra", json!("none"), 200),
        ("llama", json!("high"), 200),
    ] {
        let messages = json!([{"role": "user", "content": "Hi"}]);
        let mut request = json!({"model": model, "messages": messages, "tools": tools});
        request["reasoning_effort"] = effort.clone();
        let answer = ask("/v1/chat/completions", &request);
        assert_eq!(answer.status, status, "{model} {effort}");
        if status == 400 {
            assert_eq!(body(&answer)["error"]["param"], "reasoning_effort");
        }
    }
}
