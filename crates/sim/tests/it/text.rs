//! The simulated text services through their public face: requests in, answers out.

use serde_json::{Value, json};
use windlass_sim::runner::Options;
use windlass_sim::script::Script;
use windlass_sim::text::{HttpAnswer, Piece, Protocol, Request, Server};

fn scripted(protocol: Protocol, actions: &str) -> Server {
    let script = format!("exchanges:\n- when: any\n  do:\n{actions}");
    let script = Script::parse("test.yaml", &script).unwrap();
    Server::new(protocol, Options::scripted(script))
}

fn post(server: &mut Server, path: &str, key: &str, body: &[u8]) -> HttpAnswer {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    server.answer(&Request {
        method: "POST",
        path,
        query,
        headers: &[
            ("authorization".to_owned(), format!("Bearer {key}")),
            ("x-goog-api-key".to_owned(), key.to_owned()),
        ],
        body,
    })
}

const CHAT: &str = "/v1/chat/completions";
const STREAM: &str = "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse";
const WHOLE: &str = "/v1beta/models/gemini-3-flash:generateContent";

fn ask(server: &mut Server, path: &str, body: &Value) -> HttpAnswer {
    post(server, path, "k", body.to_string().as_bytes())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn chat(messages: Value, streams: bool) -> Value {
    json!({"model": "m", "messages": messages, "stream": streams})
}

fn contents(contents: Value) -> Value {
    json!({ "contents": contents })
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

/// The messages of a stream; its end mark as text.
fn events(answer: &HttpAnswer) -> Vec<Value> {
    let text = String::from_utf8_lossy(&bytes(answer)).into_owned();
    text.split("\n\n")
        .filter(|event| !event.is_empty())
        .map(|event| {
            let data = event.strip_prefix("data: ").unwrap();
            serde_json::from_str(data).unwrap_or_else(|_| json!(data))
        })
        .collect()
}

fn words(answer: &HttpAnswer) -> String {
    let of = |event: &Value| {
        let delta = event["choices"][0]["delta"]["content"].as_str();
        let part = event["candidates"][0]["content"]["parts"][0]["text"].as_str();
        delta.or(part).unwrap_or_default().to_owned()
    };
    events(answer).iter().map(of).collect()
}

#[test]
fn a_stream_has_the_shape_that_official_clients_insist_on() {
    let mut server = scripted(
        Protocol::ChatCompletions,
        "  - say: One moment.\n  - calls: [{name: look, args: {q: 1}}, {name: look, args: {q: 2}}]\n",
    );
    let mut request = chat(json!([user("Hi")]), true);
    request["stream_options"] = json!({"include_usage": true});
    let answer = ask(&mut server, CHAT, &request);
    assert_eq!(
        answer.headers[0],
        ("content-type", "text/event-stream".to_owned())
    );
    assert_eq!(words(&answer), "One moment.");
    let events = events(&answer);
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    let pieces = events.iter().filter_map(|event| {
        event["choices"][0]["delta"]["tool_calls"][0]
            .as_object()
            .cloned()
    });
    let pieces: Vec<Value> = pieces.map(Value::Object).collect();
    assert_eq!(
        pieces,
        [
            json!({"index": 0, "id": "call_1_0", "type": "function", "function": {"name": "look", "arguments": ""}}),
            json!({"index": 0, "function": {"arguments": "{\"q\":1}"}}),
            json!({"index": 1, "id": "call_1_1", "type": "function", "function": {"name": "look", "arguments": ""}}),
            json!({"index": 1, "function": {"arguments": "{\"q\":2}"}}),
        ]
    );
    let [.., finish, usage, done] = events.as_slice() else {
        panic!("a stream has more than two events");
    };
    assert_eq!(finish["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(usage["choices"], json!([]));
    assert!(usage["usage"]["total_tokens"].as_u64().unwrap() > 0);
    assert_eq!(done, "[DONE]");
}

#[test]
fn a_whole_answer_says_the_same_and_a_script_reads_the_results() {
    let actions = "  - call: {name: look, args: {q: 1}, id: c1}\n  - expect_response\n  - say: \"It is {result.data.t}.\"\n";
    let mut server = scripted(Protocol::ChatCompletions, actions);
    let mut messages = vec![user("Hi")];
    let first = body(&ask(&mut server, CHAT, &chat(json!(messages), false)));
    let message = &first["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
    messages.push(message.clone());
    messages
        .push(json!({"role": "tool", "tool_call_id": "c1", "content": "{\"data\":{\"t\":12}}"}));
    let second = body(&ask(&mut server, CHAT, &chat(json!(messages), false)));
    assert_eq!(second["choices"][0]["message"]["content"], "It is 12.");
    assert_eq!(second["choices"][0]["finish_reason"], "stop");

    let mut server = scripted(
        Protocol::Gemini,
        "  - call: {name: look, args: {q: 1}, id: c1}\n  - expect_response\n  - say: \"It is {result.output.t}.\"\n",
    );
    let mut turns = vec![json!({"role": "user", "parts": [{"text": "Hi"}]})];
    let first = body(&ask(&mut server, WHOLE, &contents(json!(turns))));
    assert_eq!(
        first["candidates"][0]["content"]["parts"],
        json!([{"functionCall": {"id": "c1", "name": "look", "args": {"q": 1}}, "thoughtSignature": "c2ltdWxhdGVk"}])
    );
    turns.push(first["candidates"][0]["content"].clone());
    turns.push(json!({"role": "user", "parts": [
        {"functionResponse": {"id": "c1", "name": "look", "response": {"output": {"t": 12}}}}]}));
    let second = ask(&mut server, STREAM, &contents(json!(turns)));
    assert_eq!(words(&second), "It is 12.");
    let last = events(&second).pop().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
}

#[test]
fn the_demo_model_answers_from_what_its_tools_found() {
    let parameters = json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]});
    let mut server = Server::new(Protocol::ChatCompletions, Options::demo());
    let mut request = chat(json!([user("Who designed the ship Fram?")]), false);
    request["tools"] =
        json!([{"type": "function", "function": {"name": "kb_search", "parameters": parameters}}]);
    let first = body(&ask(&mut server, CHAT, &request));
    let message = first["choices"][0]["message"].clone();
    assert_eq!(message["tool_calls"][0]["function"]["name"], "kb_search");
    let id = message["tool_calls"][0]["id"].clone();
    let found = json!({"ok": true, "data": {"results": [
        {"id": "r1", "title": "Fram", "snippet": "Fram was designed by Colin Archer."}]}});
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(message);
    messages.push(json!({"role": "tool", "tool_call_id": id, "content": found.to_string()}));
    let second = body(&ask(&mut server, CHAT, &request));
    let words = second["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(words.contains("Colin Archer"), "{words}");
}

/// A script's fault, and what it looks like: status, a part of the body, and whether the stream has its end mark.
#[test]
fn faults_look_as_they_do_at_the_services() {
    for (actions, status, part, ends) in [
        (
            "  - fail: {status: 400}\n",
            400,
            "invalid_request_error",
            false,
        ),
        (
            "  - fail: {status: 401}\n",
            401,
            "authentication_error",
            false,
        ),
        ("  - fail: {status: 403}\n", 403, "permission_error", false),
        ("  - fail: {status: 404}\n", 404, "not_found_error", false),
        (
            "  - fail: {status: 429, retry_after: 2}\n",
            429,
            "rate_limit_error",
            false,
        ),
        ("  - fail: {status: 500}\n", 500, "server_error", false),
        (
            "  - fail: {status: 503, message: busy}\n",
            503,
            "busy",
            false,
        ),
        (
            "  - fail: {status: 502, html: true}\n",
            502,
            "<html>",
            false,
        ),
        (
            "  - fail: {status: 200, html: true}\n",
            200,
            "<html>",
            false,
        ),
        (
            "  - say: Well\n  - fail: {status: 503}\n",
            200,
            "server_error",
            false,
        ),
        ("  - say: Well\n  - leave_open\n", 200, "Well", false),
        ("  - say: Well\n  - drop\n", 200, "Well", false),
        (
            "  - half_frame: {choices: []}\n  - say: Never\n",
            200,
            "data: {\"cho",
            false,
        ),
        ("  - endless\n", 200, "and on", false),
        ("  - half_a_character\n", 200, "\u{fffd}\"", true),
        (
            "  - call: {name: look, args: \"{{\\\"q\\\":\"}\n",
            200,
            r#""arguments":"{\"q\":""#,
            true,
        ),
        ("  - call: {name: nobody}\n", 200, "nobody", true),
    ] {
        let mut server = scripted(Protocol::ChatCompletions, actions);
        let answer = ask(&mut server, CHAT, &chat(json!([user("Hi")]), true));
        let text = String::from_utf8_lossy(&bytes(&answer)).into_owned();
        assert_eq!(answer.status, status, "{actions}");
        assert!(text.contains(part), "{actions}: {text}");
        assert_eq!(text.ends_with("data: [DONE]\n\n"), ends, "{actions}");
    }
    let mut server = scripted(
        Protocol::ChatCompletions,
        "  - fail: {status: 429, retry_after: 2}\n",
    );
    let answer = ask(&mut server, CHAT, &chat(json!([user("Hi")]), true));
    assert!(answer.headers.contains(&("retry-after", "2".to_owned())));
    let mut server = scripted(
        Protocol::Gemini,
        "  - fail: {status: 429, retry_after: 2}\n",
    );
    let answer = ask(
        &mut server,
        STREAM,
        &contents(json!([{"parts": [{"text": "Hi"}]}])),
    );
    let error = body(&answer);
    assert_eq!(error["error"]["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(error["error"]["details"][0]["retryDelay"], "2s");
    let mut server = scripted(
        Protocol::ChatCompletions,
        "  - calls: [{name: a}, {name: b, deliver: same_index}]\n",
    );
    let answer = ask(&mut server, CHAT, &chat(json!([user("Hi")]), true));
    let indexes: Vec<u64> = events(&answer)
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["tool_calls"][0]["index"].as_u64())
        .collect();
    assert_eq!(indexes, [0, 0, 0, 0]);
}

#[test]
fn requests_that_the_service_refuses_are_refused() {
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "1"});
    let mut server = Server::new(Protocol::ChatCompletions, Options::demo());
    for (messages, part) in [
        (json!([]), "messages"),
        (
            json!([user("Hi"), call]),
            "did not have response messages: c1",
        ),
        (
            json!([user("Hi"), call, user("Well?")]),
            "did not have response messages: c1",
        ),
        (
            json!([user("Hi"), result]),
            "must be a response to a preceding message",
        ),
        (json!([{"role": "robot", "content": "Hi"}]), "'robot'"),
    ] {
        let answer = ask(&mut server, CHAT, &chat(messages, false));
        assert_eq!(answer.status, 400);
        let message = body(&answer)["error"]["message"].to_string();
        assert!(message.contains(part), "{message}");
    }
    let good = chat(json!([user("Hi"), call, result]), false).to_string();
    for (path, key, body, status) in [
        (CHAT, "k", good.as_bytes(), 200),
        (CHAT, "", good.as_bytes(), 401),
        (CHAT, "bad-key", good.as_bytes(), 401),
        (CHAT, "quota-key", good.as_bytes(), 429),
        ("/v1/embeddings", "k", good.as_bytes(), 404),
        (CHAT, "k", &b"{"[..], 400),
        (CHAT, "k", &b"\xff"[..], 400),
        (CHAT, "k", &b"[]"[..], 400),
    ] {
        assert_eq!(
            post(&mut server, path, key, body).status,
            status,
            "{path} {key}"
        );
    }
    let mut server = Server::new(Protocol::Gemini, Options::demo());
    let asks = json!({"role": "user", "parts": [{"text": "Hi"}]});
    let unsigned = json!({"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "look", "args": {}}}]});
    let mut signed = unsigned.clone();
    signed["parts"][0]["thoughtSignature"] = json!("skip_thought_signature_validator");
    let answered = |id: &str| json!({"role": "user", "parts": [{"functionResponse": {"id": id, "name": "look", "response": {}}}]});
    for (turns, status) in [
        (json!([asks]), 200),
        (json!([asks, signed, answered("c1")]), 200),
        (json!([asks, unsigned, answered("c1")]), 400),
        (json!([asks, signed, answered("c2")]), 400),
        (json!([asks, signed]), 400),
        (json!([asks, signed, asks]), 400),
        (json!([asks, answered("c1")]), 400),
        (json!([signed, answered("c1")]), 400),
        (json!([]), 400),
    ] {
        let answer = ask(&mut server, WHOLE, &contents(turns.clone()));
        assert_eq!(answer.status, status, "{turns}");
    }
    let unknown = json!({"contents": [asks], "temperature": 1});
    assert_eq!(ask(&mut server, WHOLE, &unknown).status, 400);
    assert_eq!(post(&mut server, WHOLE, "", b"{}").status, 403);
}

const TODAY: &str = "You help.\n\n# Today\n\nIt is Saturday, 28 November 2026, 12:30 (Europe/Oslo, UTC+01:00; the user's time zone).\n\n\
    # Available Tools (v1)\n\n## lookup_order\nCall lookup_order when the user asks \"Where is order A-1001?\".\n";

#[test]
fn the_demo_model_goes_by_the_instruction_and_hears_of_approvals() {
    let schema = json!({"type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}});
    let mut server = Server::new(Protocol::ChatCompletions, Options::demo());
    let mut say = |messages: Value| {
        let mut all = vec![json!({"role": "system", "content": TODAY})];
        all.extend(messages.as_array().unwrap().iter().cloned());
        let mut request = chat(all.into(), false);
        request["tools"] = json!([{"type": "function", "function": {"name": "lookup_order", "parameters": schema}}]);
        body(&ask(&mut server, CHAT, &request))["choices"][0]["message"].clone()
    };
    let asked = user("Where is order B-2?");
    let answer = say(json!([asked]));
    let call = &answer["tool_calls"][0];
    assert_eq!(call["function"]["arguments"], "{\"order\":\"B-2\"}");
    // The user is asked about it, and what comes of that is heard by text, too.
    let waits = json!({"ok": false, "error": {"type": "CONFIRMATION_REQUIRED", "message": "lookup_order runs only after the user has confirmed it"}});
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": waits.to_string()});
    let waiting = say(json!([asked, answer, result]));
    assert_eq!(
        waiting["content"],
        "lookup_order waits for your yes: nothing has been done yet."
    );
    let notice = "(Notice of the system, not of the user:)\n(A message of the system, not of the user.) The user";
    for (told, expected) in [
        (
            "approved the call of lookup_order, and it has run. Its result: {\"status\":\"success\",\"data\":{\"at\":\"sea\"}}",
            "You said yes. lookup_order answered: at: sea.",
        ),
        (
            "approved the call of lookup_order, and nobody knows whether it has happened: {\"error\":{\"type\":\"OUTCOME_UNKNOWN\"}}",
            "You said yes to lookup_order, and nobody knows whether it has happened. Please look for yourself before it is done again.",
        ),
        (
            "was asked whether lookup_order may run with {\"order\":\"B-2\"} and said no, with this reason in the user's own words: \"not mine\". It has not run. Do not call it again unless the user asks for it.",
            "You said no to lookup_order, and it has not run. Your words were: “not mine”.",
        ),
    ] {
        let notice = user(&format!("{notice} {told}"));
        let answer = say(json!([asked, answer, result, waiting, notice]));
        assert_eq!(answer["content"], expected);
    }
}

#[test]
fn every_text_protocol_gives_the_demo_model_its_instruction() {
    let parts = json!({"parts": [{"text": TODAY}]});
    let gemini = json!({
        "systemInstruction": parts, "contents": [{"role": "user", "parts": [{"text": "Where is order B-2?"}]}],
        "tools": [{"functionDeclarations": [{"name": "lookup_order", "parameters": {"type": "OBJECT", "required": ["order"],
            "properties": {"order": {"type": "STRING"}}}}]}]
    });
    let tool = json!([{"type": "function", "name": "lookup_order", "parameters": {"type": "object", "required": ["order"],
        "properties": {"order": {"type": "string"}}}}]);
    let responses =
        json!({"model": "m", "instructions": TODAY, "input": "Where is order B-2?", "tools": tool});
    let interactions = json!({"model": "gemini-3-flash", "system_instruction": TODAY, "input": "Where is order B-2?", "tools": tool, "store": false});
    for (protocol, path, request) in [
        (Protocol::Gemini, WHOLE, gemini),
        (Protocol::ChatCompletions, "/v1/responses", responses),
        (Protocol::Gemini, "/v1beta/interactions", interactions),
    ] {
        let mut server = Server::new(protocol, Options::demo());
        let answer = ask(&mut server, path, &request);
        let text = String::from_utf8(bytes(&answer)).unwrap();
        assert!(
            text.contains("lookup_order") && text.contains("B-2"),
            "{path}: {text}"
        );
    }
}
