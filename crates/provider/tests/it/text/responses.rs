//! Responses: bodies as the service takes them, and its streams as they are published.

use super::{
    call, calls_of, chat_profile, log_of, pieces_of, result, said, stream_of, user, words,
};
use crate::setup::tool;
use serde_json::{Value, json};
use windlass_contract::kind::Behavior;
use windlass_provider::answer::{AnswerLimits, AnswerPiece, Ending, ModelAnswer};
use windlass_provider::failure::FailureClass;
use windlass_provider::log::{ConversationLog, Entry, Route};
use windlass_provider::openai_chat::{PromptCache, ReasoningEffort};
use windlass_provider::openai_responses::{
    DeclaredTools, Decoder, Request, decode_whole, encode_request,
};
use windlass_provider::profile;
use windlass_provider::request::{Delivery, ToolUse};
use windlass_session::model::ModelEvent;

const OPENAI: &str = "https://api.openai.com/v1";

fn route() -> Route {
    Route::new("responses")
}

fn body_of(log: &ConversationLog, tools: &DeclaredTools, model: &str) -> Value {
    body_for(OPENAI, log, tools, model)
}

fn body_for(url: &str, log: &ConversationLog, tools: &DeclaredTools, model: &str) -> Value {
    let route = route();
    let request = Request {
        model,
        system_instruction: "Be brief.".into(),
        window: log.window(u64::MAX),
        route: &route,
        tools,
        tool_use: ToolUse::Free,
        parallel_calls: None,
        delivery: Delivery::Stream,
        temperature: None,
        output_tokens_max: Some(500),
        reasoning_effort: Some(ReasoningEffort::Low),
        prompt_cache: Some(PromptCache {
            key: "k",
            retention: None,
        }),
    };
    let mut body = Vec::new();
    let profile = profile::openai_chat(url, model).profile;
    encode_request(&request, &profile, &mut body);
    serde_json::from_slice(&body).unwrap()
}

fn decode(stream: &[u8]) -> (Vec<ModelEvent>, ModelAnswer) {
    let mut events = Vec::new();
    let mut decoder = Decoder::new(7, AnswerLimits::default());
    decoder.push(stream, &mut events);
    let answer = decoder.finish(&mut events);
    (events, answer)
}

fn reasoning(id: &str) -> Value {
    json!({"id": id, "type": "reasoning", "summary": [], "encrypted_content": "gAAA=", "new": {"b": 1, "a": [2.50]}})
}

fn function_call(id: &str, arguments: &str) -> Value {
    json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": id, "name": "kb_search", "arguments": arguments})
}

/// An answer that thinks, speaks and calls, as the service streams it.
fn thoughtful() -> Vec<Value> {
    let message = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "commentary",
        "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]});
    let done = |index: u64, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item, "sequence_number": 9});
    vec![
        json!({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1", "status": "in_progress", "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "rs_1", "type": "reasoning", "summary": []}}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": "Hm"}),
        done(0, reasoning("rs_1")),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"id": "msg_1", "type": "message", "content": []}}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "Let me "}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "look."}),
        done(1, message),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2, "delta": "{\"q\""}),
        done(2, function_call("call_1", "{\"q\":1}")),
        json!({"type": "response.completed", "sequence_number": 12, "response": {"id": "resp_1", "status": "completed", "output": [],
            "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 50,
                "output_tokens_details": {"reasoning_tokens": 30}, "total_tokens": 150}}}),
    ]
}

#[test]
fn what_the_model_thought_goes_back_as_it_came_and_where_it_stood() {
    let (events, answer) = decode(stream_of(&thoughtful()).as_bytes());
    assert_eq!(words(&events), "Let me look.");
    assert_eq!(answer.ending, Ending::Complete);
    assert_eq!(
        calls_of(&answer),
        [(
            Some("call_1".to_owned()),
            Some("kb_search".to_owned()),
            json!({"q": 1})
        )]
    );
    let usage = answer.usage.unwrap();
    assert_eq!(
        [
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.response_tokens,
            usage.thoughts_tokens
        ],
        [100, 60, 20, 30]
    );
    let entries = |route: &Route| {
        let mut entries = vec![user("Who?")];
        entries.extend(answer.entries(route));
        entries.push(result(Some("call_1"), "kb_search", json!({"found": 1})));
        entries
    };
    let log = log_of(entries(&route()));
    let tools = DeclaredTools::new(&[tool("kb_search", Behavior::Blocking)]);
    let body = body_of(&log, &tools, "gpt-5.4-mini");
    let input = body["input"].as_array().unwrap();
    let kinds: Vec<&str> = input
        .iter()
        .map(|item| item["type"].as_str().or(item["role"].as_str()).unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "system",
            "user",
            "reasoning",
            "assistant",
            "function_call",
            "function_call_output"
        ]
    );
    assert_eq!(input[2], reasoning("rs_1"));
    assert_eq!(
        input[3],
        json!({"role": "assistant", "content": "Let me look.", "phase": "commentary"})
    );
    assert_eq!(
        input[4],
        json!({"type": "function_call", "call_id": "call_1", "name": "kb_search", "arguments": "{\"q\":1}"})
    );
    assert_eq!(input[5]["call_id"], "call_1");
    let mut fields = body;
    fields.as_object_mut().unwrap().remove("input");
    assert_eq!(
        fields,
        json!({"model": "gpt-5.4-mini", "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 500, "reasoning": {"effort": "low"}, "prompt_cache_key": "k",
            "tools": [{"type": "function", "name": "kb_search", "description": "d", "parameters": {"type": "object"}, "strict": false}]})
    );
    // To the letter: the text of the item is what came.
    let mut text = Vec::new();
    let own = route();
    let request = Request {
        model: "gpt-5.4-mini",
        system_instruction: "".into(),
        window: log.window(u64::MAX),
        route: &own,
        tools: &tools,
        tool_use: ToolUse::Forbidden,
        parallel_calls: None,
        delivery: Delivery::Whole,
        temperature: None,
        output_tokens_max: None,
        reasoning_effort: None,
        prompt_cache: None,
    };
    encode_request(&request, &chat_profile(OPENAI), &mut text);
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(&reasoning("rs_1").to_string()), "{text}");
    assert!(!text.contains("\"tools\""), "{text}");
    // Another model is not shown it, and reads the rest.
    let log = log_of(entries(&Route::new("another")));
    let body = body_of(&log, &tools, "gpt-5.4-mini");
    assert!(!body.to_string().contains("gAAA"), "{body}");
    assert!(body.to_string().contains("Let me look."), "{body}");
}

#[test]
fn a_model_that_does_not_reason_is_asked_nothing_of_it() {
    let log = log_of([user("Hi")]);
    let body = body_of(&log, &DeclaredTools::default(), "gpt-4.1-mini");
    assert_eq!((body.get("include"), body.get("reasoning")), (None, None));
}

#[test]
fn an_answer_ends_as_the_service_says() {
    let end = |kind: &str, response: Value| {
        stream_of(&[
            json!({"type": "response.output_text.delta", "delta": "Half"}),
            json!({"type": "response.output_item.done", "item": reasoning("rs_1")}),
            json!({"type": "response.output_item.done", "item": function_call("c", "{}")}),
            json!({"type": kind, "response": response}),
        ])
    };
    for (stream, expected) in [
        (
            end(
                "response.completed",
                json!({"status": "completed", "usage": "none"}),
            ),
            "Complete",
        ),
        (
            end(
                "response.incomplete",
                json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
            ),
            "CallCut",
        ),
        (
            end(
                "response.incomplete",
                json!({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}),
            ),
            "Blocked { reason: \"content_filter\" }",
        ),
        (
            end("response.cancelled", json!({"status": "cancelled"})),
            "Stopped { reason: \"cancelled\" }",
        ),
        (
            stream_of(&[json!({"type": "response.output_text.delta", "delta": "Half"})]),
            "Cut",
        ),
    ] {
        let (events, answer) = decode(stream.as_bytes());
        assert_eq!(format!("{:?}", answer.ending), expected, "{stream}");
        assert_eq!(words(&events), "Half");
        let is_complete = answer.ending == Ending::Complete;
        // What was cut off is neither run nor sent back.
        assert_eq!(answer.calls.len(), usize::from(is_complete), "{stream}");
        assert_eq!(
            answer.pieces.len(),
            if is_complete { 3 } else { 1 },
            "{stream}"
        );
    }
}

#[test]
fn an_error_in_the_stream_is_the_answers_end() {
    for (event, class, retryable) in [
        (
            json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": null, "sequence_number": 3}),
            FailureClass::RateLimited,
            true,
        ),
        (
            json!({"type": "error", "error": {"type": "invalid_request_error", "code": "x", "message": "no"}}),
            FailureClass::InvalidRequest,
            false,
        ),
        (
            json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "m"}}}),
            FailureClass::ServerFault,
            true,
        ),
        (
            json!({"type": "response.failed", "response": {"status": "failed", "error": null}}),
            FailureClass::Protocol,
            true,
        ),
        (
            json!({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key", "type": "invalid_request_error"}}),
            FailureClass::Auth,
            false,
        ),
    ] {
        let (_, answer) = decode(stream_of(std::slice::from_ref(&event)).as_bytes());
        let Ending::Failed(failure) = &answer.ending else {
            panic!("{event}: {answer:?}");
        };
        assert_eq!(
            (failure.class, failure.retryable),
            (class, retryable),
            "{event}"
        );
    }
    let (_, answer) = decode(b"<html>hunter2</html>");
    let Ending::Failed(failure) = &answer.ending else {
        panic!("{answer:?}");
    };
    assert_eq!(failure.class, FailureClass::Protocol);
}

#[test]
fn an_answer_that_comes_whole_is_read_as_well() {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Hello"}, {"type": "refusal", "refusal": " no"}]});
    let whole = json!({"id": "resp_1", "object": "response", "status": "completed", "error": null,
        "output": [reasoning("rs_1"), message, function_call("", "not json")], "usage": {"total_tokens": 3}});
    let mut events = Vec::new();
    let answer = decode_whole(
        whole.to_string().as_bytes(),
        7,
        AnswerLimits::default(),
        &mut events,
    );
    assert_eq!(words(&events), "Hello no");
    assert_eq!(
        pieces_of(&answer),
        ["text ", "text Hello no", "call kb_search unusable"]
    );
    // The id of the item stands for that of the call.
    assert_eq!(answer.calls[0].id.as_deref(), Some("fc_1"));
    // A server that answers whole although a stream was asked for.
    assert_eq!(decode(whole.to_string().as_bytes()).1.pieces, answer.pieces);
}

#[test]
fn an_event_of_any_type_and_cut_anywhere_never_panics_and_never_runs_what_was_cut() {
    let events = thoughtful();
    let stream = stream_of(&events);
    for end in 0..stream.len() {
        let (_, answer) = decode(&stream.as_bytes()[..end]);
        let is_whole = answer.ending == Ending::Complete;
        assert!(is_whole || answer.calls.is_empty());
        assert!(!is_whole || end > stream.len() - 4, "{end}");
    }
    for (index, event) in events.iter().enumerate() {
        for place in crate::mutation::places(event) {
            for variant in crate::mutation::variants(event, &place) {
                let mut events = events.clone();
                events[index] = variant;
                let (_, answer) = decode(stream_of(&events).as_bytes());
                assert!(answer.calls.len() <= 1);
                // Usage and details only inform.
                if place.contains("usage") || place.contains("sequence_number") {
                    assert_eq!(answer.calls.len(), 1, "{place}");
                }
            }
        }
    }
}

#[test]
fn words_of_another_model_stand_as_words() {
    let log = log_of([
        user("Hi"),
        said("Hello."),
        user("Look."),
        Entry::Call(call(Some("toolu/1"), "kb search", "{}")),
    ]);
    let body = body_of(&log, &DeclaredTools::default(), "gpt-5.4");
    let input = body["input"].as_array().unwrap();
    assert_eq!(input[2], json!({"role": "assistant", "content": "Hello."}));
    assert_eq!(input[4]["name"], "kb_search");
    assert_eq!(input[4]["call_id"], input[5]["call_id"]);
    assert!(input[5]["output"].as_str().unwrap().contains("not known"));
}

#[test]
fn xai_is_asked_for_its_reasoning_and_gets_it_back() {
    let entry = |route: &Route| {
        let (_, answer) = decode(stream_of(&thoughtful()).as_bytes());
        let mut entries = vec![user("Who?")];
        entries.extend(answer.entries(route));
        entries.push(result(Some("call_1"), "kb_search", json!({"found": 1})));
        entries
    };
    let log = log_of(entry(&route()));
    let tools = DeclaredTools::default();
    let body = body_for("https://api.x.ai/v1", &log, &tools, "grok-4.3");
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["reasoning"], Value::Null);
    assert!(
        body["input"]
            .as_array()
            .unwrap()
            .contains(&reasoning("rs_1")),
        "{body}"
    );
    let silent = "grok-4-1-fast-non-reasoning";
    let body = body_for("https://api.x.ai/v1", &log, &tools, silent);
    assert_eq!(body["include"], Value::Null);
}

#[test]
fn items_that_overlap_are_told_apart_and_go_back_in_the_order_of_the_answer() {
    let added = |index: u64, item: Value| json!({"type": "response.output_item.added", "output_index": index, "item": item});
    let done = |index: u64, item: Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    let delta = |index: u64, id: &str, words: &str| json!({"type": "response.output_text.delta", "item_id": id, "output_index": index, "delta": words});
    let message = |id: &str, text: &str| {
        json!({"id": id, "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": text}]})
    };
    let messages = [
        json!({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}),
        added(1, json!({"id": "m1", "type": "message", "content": []})),
        delta(1, "m1", "Let me "),
        // It begins while the message is open, and ends before it.
        added(0, json!({"id": "rs_1", "type": "reasoning", "summary": []})),
        delta(1, "m1", "look."),
        added(3, json!({"id": "fc_1", "type": "function_call"})),
        done(3, function_call("call_2", "{\"q\":2}")),
        added(2, json!({"id": "fc_0", "type": "function_call"})),
        done(
            2,
            json!({"id": "fc_0", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "kb_search", "arguments": "{}"}),
        ),
        done(1, message("m1", "Let me look.")),
        done(0, reasoning("rs_1")),
        json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}),
    ];
    let (events, answer) = decode(stream_of(&messages).as_bytes());
    assert_eq!(words(&events), "Let me look.");
    let kind = |piece: &AnswerPiece| match piece {
        AnswerPiece::Text(text) if text.is_thought => "thought".to_owned(),
        AnswerPiece::Text(text) => text.text.expose().clone(),
        AnswerPiece::Call(call) => call.id.as_deref().unwrap().to_owned(),
    };
    let kinds: Vec<String> = answer.pieces.iter().map(kind).collect();
    assert_eq!(kinds, ["thought", "Let me look.", "call_1", "call_2"]);
    let ids: Vec<Option<String>> = calls_of(&answer).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, [Some("call_1".to_owned()), Some("call_2".to_owned())]);

    // Two messages in turn, told apart by their ids alone, and a message of which nothing came in pieces.
    let delta = |id: &str, words: &str| json!({"type": "response.output_text.delta", "item_id": id, "delta": words});
    let done = |item: Value| json!({"type": "response.output_item.done", "item": item});
    let messages = [
        delta("m1", "One"),
        delta("m2", "Two"),
        delta("m1", "."),
        done(message("m2", "Two")),
        done(message("m1", "One.")),
        done(message("m3", " Three.")),
        json!({"type": "response.completed", "response": {"id": "r", "status": "completed"}}),
    ];
    let (events, answer) = decode(stream_of(&messages).as_bytes());
    assert_eq!(words(&events), "OneTwo. Three.");
    assert_eq!(answer.pieces.len(), 3);
}
