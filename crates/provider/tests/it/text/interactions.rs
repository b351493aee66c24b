//! Gemini's Interactions: bodies as the service takes them, and its streams as they are published.

use super::{
    call, calls_of, decode_interactions, found_pictures, interactions_body, interactions_request,
    log_of, pieces_of, result, said, stream_of, user, with_found_pictures, words,
};
use crate::setup::tool;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::kind::Behavior;
use windlass_provider::answer::{AnswerLimits, AnswerPiece, Ending, ModelAnswer};
use windlass_provider::failure::{FailureClass, ResponseHead};
use windlass_provider::gemini_interactions::{DeclaredTools, blocked, decode_whole};
use windlass_provider::gemini_live::ThinkingLevel;
use windlass_provider::gemini_text;
use windlass_provider::log::{ConversationLog, Entry, Opaque, Route, TextPiece};
use windlass_provider::profile::{self, ProfileChange, TextTransport};
use windlass_provider::provider_tools::ProviderTool;
use windlass_provider::request::{Delivery, ToolUse};
use windlass_session::model::ModelEvent;

fn route() -> Route {
    Route::new("interactions")
}

fn body_of(log: &ConversationLog, model: &str) -> Value {
    let (route, tools) = (route(), DeclaredTools::default());
    let request = interactions_request(log, &route, &tools);
    interactions_body(&request, &profile::gemini_text(model).profile)
}

/// The stream that the service's page on streaming shows for a search beside a function, with a signature for each of its dots.
const SEARCH_AND_CALL: &str = r#"event: interaction.created
data: {"interaction":{"id":"v1_...","status":"in_progress","object":"interaction","model":"gemini-3.7-flash"},"event_type":"interaction.created"}

event: interaction.status_update
data: {"interaction_id":"v1_...","status":"in_progress","event_type":"interaction.status_update"}

event: step.start
data: {"index":0,"step":{"id":"mkutnkgn","signature":"","type":"google_search_call"},"event_type":"step.start"}

event: step.delta
data: {"index":0,"delta":{"signature":"c2VhcmNo","type":"google_search_call","arguments":{"queries":["largest mountain in Europe"]}},"event_type":"step.delta"}

event: step.stop
data: {"index":0,"event_type":"step.stop"}

event: step.start
data: {"index":1,"step":{"call_id":"mkutnkgn","signature":"","type":"google_search_result"},"event_type":"step.start"}

event: step.delta
data: {"index":1,"delta":{"signature":"Zm91bmQ=","type":"google_search_result","is_error":false},"event_type":"step.delta"}

event: step.stop
data: {"index":1,"event_type":"step.stop"}

event: step.start
data: {"index":2,"step":{"type":"thought"},"event_type":"step.start"}

event: step.delta
data: {"index":2,"delta":{"signature":"dGhvdWdodA==","type":"thought_signature"},"event_type":"step.delta"}

event: step.stop
data: {"index":2,"event_type":"step.stop"}

event: step.start
data: {"index":3,"step":{"id":"ktr5aysg","type":"function_call","name":"get_weather","arguments":{}},"event_type":"step.start"}

event: step.delta
data: {"index":3,"delta":{"arguments":"{\"location\":\"Mount Elbrus, Russia\"}","type":"arguments_delta"},"event_type":"step.delta"}

event: step.stop
data: {"index":3,"event_type":"step.stop"}

event: interaction.completed
data: {"interaction":{"id":"v1_...","status":"requires_action","usage":{"total_tokens":299,"total_input_tokens":138,"input_tokens_by_modality":[{"modality":"text","tokens":138}],"total_cached_tokens":0,"total_output_tokens":20,"total_tool_use_tokens":0,"total_thought_tokens":141},"created":"2026-05-12T17:24:26Z","updated":"2026-05-12T17:24:26Z","service_tier":"standard","object":"interaction","model":"gemini-3.7-flash"},"event_type":"interaction.completed"}

event: done
data: [DONE]

"#;

/// That of the page on thinking: parts stand in the beginnings of steps, too.
const THOUGHT_AND_WORDS: &str = r#"event: interaction.created
data: {"interaction":{"id":"v1_xxx","status":"in_progress","object":"interaction","model":"gemini-3.5-flash"},"event_type":"interaction.created"}

event: step.start
data: {"index":0,"step":{"signature":"","summary":[{"text":"**Evaluating the clues**\n\nI'm considering...","type":"text"}],"type":"thought"},"event_type":"step.start"}

event: step.delta
data: {"index":0,"delta":{"signature":"EpoGCpcGAXLI2nx/...","type":"thought_signature"},"event_type":"step.delta"}

event: step.stop
data: {"index":0,"event_type":"step.stop"}

event: step.start
data: {"index":1,"step":{"content":[{"text":"Based on the clues provided, here","type":"text"}],"type":"model_output"},"event_type":"step.start"}

event: step.delta
data: {"index":1,"delta":{"text":" is the answer to your question...","type":"text"},"event_type":"step.delta"}

event: step.stop
data: {"index":1,"event_type":"step.stop"}

event: interaction.completed
data: {"interaction":{"id":"v1_xxx","status":"completed","usage":{"total_tokens":530,"total_input_tokens":62,"total_output_tokens":171,"total_thought_tokens":297}},"event_type":"interaction.completed"}

event: done
data: [DONE]

"#;

#[test]
fn what_the_service_gives_to_keep_goes_back_where_it_stood() {
    let (events, answer) = decode_interactions(SEARCH_AND_CALL.as_bytes());
    assert_eq!(answer.ending, Ending::Complete);
    let read = events
        .iter()
        .filter(|event| matches!(event, ModelEvent::ExternalContent { .. }));
    assert_eq!(read.count(), 2, "{events:?}");
    assert_eq!(
        calls_of(&answer),
        [(
            Some("ktr5aysg".to_owned()),
            Some("get_weather".to_owned()),
            json!({"location": "Mount Elbrus, Russia"})
        )]
    );
    let usage = answer.usage.unwrap();
    assert_eq!(
        [
            usage.prompt_tokens,
            usage.response_tokens,
            usage.thoughts_tokens,
            usage.total_tokens
        ],
        [138, 20, 141, 299]
    );
    let mut entries = vec![user("How is the weather on Europe's largest mountain?")];
    entries.extend(answer.entries(&route()));
    entries.push(result(
        Some("ktr5aysg"),
        "get_weather",
        json!({"sky": "clear"}),
    ));
    entries.push(user("And tomorrow?"));
    let body = body_of(&log_of(entries), "gemini-3.5-flash");
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    assert_eq!(
        body["input"],
        json!([
            {"type": "user_input", "content": text("How is the weather on Europe's largest mountain?")},
            {"type": "google_search_call", "id": "mkutnkgn", "signature": "c2VhcmNo",
                "arguments": {"queries": ["largest mountain in Europe"]}},
            {"type": "google_search_result", "call_id": "mkutnkgn", "signature": "Zm91bmQ=", "is_error": false},
            {"type": "thought", "signature": "dGhvdWdodA=="},
            {"type": "function_call", "id": "ktr5aysg", "name": "get_weather",
                "arguments": {"location": "Mount Elbrus, Russia"}},
            {"type": "function_result", "call_id": "ktr5aysg", "name": "get_weather",
                "result": text(r#"{"output":{"status":"success","data":{"sky":"clear"}}}"#)},
            {"type": "user_input", "content": text("And tomorrow?")},
        ])
    );
}

#[test]
fn parts_may_stand_where_a_step_begins() {
    let (events, answer) = decode_interactions(THOUGHT_AND_WORDS.as_bytes());
    let said = "Based on the clues provided, here is the answer to your question...";
    assert_eq!(
        (words(&events).as_str(), &answer.ending),
        (said, &Ending::Complete)
    );
    let mut entries = vec![user("Who lives where?")];
    entries.extend(answer.entries(&route()));
    let body = body_of(&log_of(entries), "gemini-3.5-flash");
    assert_eq!(
        body["input"][1],
        json!({"type": "thought", "signature": "EpoGCpcGAXLI2nx/...",
            "summary": [{"type": "text", "text": "**Evaluating the clues**\n\nI'm considering..."}]})
    );
    assert_eq!(
        body["input"][2],
        json!({"type": "model_output", "content": [{"type": "text", "text": said}]})
    );
}

#[test]
fn a_summary_in_pieces_is_one_and_a_thought_without_a_signature_is_none() {
    let start = |index: u64| json!({"event_type": "step.start", "index": index, "step": {"type": "thought"}});
    let piece = |text: &str| json!({"event_type": "step.delta", "index": 0, "delta": {"type": "thought_summary", "content": {"type": "text", "text": text}}});
    let stream = stream_of(&[
        start(0),
        piece("I need "),
        piece("to think."),
        json!({"event_type": "step.delta", "index": 0, "delta": {"type": "thought_signature", "signature": "QUJD"}}),
        start(1),
        json!({"event_type": "step.start", "index": 2, "step": {"type": "model_output"}}),
        json!({"event_type": "step.delta", "index": 2, "delta": {"type": "text", "text": "Done."}}),
        json!({"event_type": "interaction.completed", "interaction": {"status": "completed"}}),
    ]);
    let (_, answer) = decode_interactions(stream.as_bytes());
    let mut entries = vec![user("Think.")];
    entries.extend(answer.entries(&route()));
    let body = body_of(&log_of(entries), "gemini-3.5-flash");
    assert_eq!(
        body["input"][1],
        json!({"type": "thought", "signature": "QUJD", "summary": [{"type": "text", "text": "I need to think."}]})
    );
    assert_eq!(body["input"][2]["type"], "model_output");
}

#[test]
fn a_whole_answer_says_the_same_as_its_stream() {
    let whole = json!({"id": "v1_x", "object": "interaction", "status": "completed", "steps": [
        {"type": "thought", "signature": "QUJD"},
        {"type": "model_output", "content": [{"type": "text", "text": "Here.", "annotations": [
            {"type": "url_citation", "url": "https://e.example/a", "title": "A", "start_index": 0, "end_index": 5},
            {"type": "file_citation", "url": "https://e.example/b"}
        ]}]},
        {"type": "function_call", "id": "c1", "name": "look", "arguments": {"q": 1.5}}
    ], "usage": {"total_input_tokens": 1}});
    let mut events = Vec::new();
    let answer = decode_whole(
        whole.to_string().as_bytes(),
        7,
        AnswerLimits::default(),
        &mut events,
    );
    assert_eq!(words(&events), "Here.");
    let sources: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::ExternalContent { sources } => Some(sources.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(sources.len(), 1);
    assert_eq!(sources[0].expose().len(), 1);
    // It called, and so it waits for the result, whatever its status is named.
    assert_eq!((&answer.ending, answer.calls.len()), (&Ending::Complete, 1));
    assert_eq!(
        pieces_of(&answer),
        ["text ", "text Here.", "call look {\"q\":1.5}"]
    );
}

#[test]
fn an_answer_ends_as_the_service_says() {
    let words =
        json!({"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Half"}});
    let call = json!({"event_type": "step.start", "index": 1, "step": {"type": "function_call", "id": "c", "name": "f", "arguments": {}}});
    let end = |interaction: Value| json!({"event_type": "interaction.completed", "interaction": interaction});
    let status = |status: &str| end(json!({ "status": status }));
    let ended = |messages: &[Value]| decode_interactions(stream_of(messages).as_bytes()).1;
    let stopped = |reason: &str| Ending::Stopped {
        reason: reason.to_owned(),
    };
    for (last, with_call, expected) in [
        (status("completed"), false, Ending::Complete),
        (status("incomplete"), false, Ending::LengthReached),
        (status("incomplete"), true, Ending::CallCut),
        (
            status("requires_continuation"),
            false,
            Ending::LengthReached,
        ),
        (status("cancelled"), true, stopped("cancelled")),
        (status("budget_exceeded"), false, stopped("budget_exceeded")),
        (
            end(
                json!({"status": "failed", "errors": [{"code": "content_blocked", "message": "no"}]}),
            ),
            true,
            Ending::Blocked {
                reason: "content_blocked".to_owned(),
            },
        ),
        (
            json!({"event_type": "error", "error": {"code": "content_blocked", "message": "no"}}),
            false,
            Ending::Blocked {
                reason: "content_blocked".to_owned(),
            },
        ),
        (
            json!({"event_type": "step.stop", "index": 0}),
            true,
            Ending::Cut,
        ),
    ] {
        let mut messages = vec![words.clone()];
        messages.extend(with_call.then(|| call.clone()));
        messages.push(last);
        let answer = ended(&messages);
        assert_eq!(answer.ending, expected);
        if expected != Ending::Complete {
            assert_eq!(pieces_of(&answer), ["text Half"], "{expected:?}");
            assert!(answer.calls.is_empty(), "{expected:?}");
        }
    }
    // The error that the page on streaming shows, and a failure with its error on a step.
    let failures: [(Value, FailureClass, bool); 3] = [
        (
            json!({"error": {"message": "Deadline expired before operation could complete.", "code": "gateway_timeout"}, "event_type": "error"}),
            FailureClass::Timeout,
            true,
        ),
        (
            json!({"error": {"message": "No.", "code": "invalid_request"}, "event_type": "error"}),
            FailureClass::InvalidRequest,
            false,
        ),
        (status("failed"), FailureClass::Protocol, true),
    ];
    for (last, class, retryable) in failures {
        let Ending::Failed(failure) = ended(&[words.clone(), last]).ending else {
            panic!("{class:?}");
        };
        assert_eq!((failure.class, failure.retryable), (class, retryable));
    }
    let of_step = json!({"event_type": "step.start", "index": 0, "step": {"type": "model_output", "error": {"code": 13, "message": "Internal."}}});
    let Ending::Failed(failure) = ended(&[of_step, status("failed")]).ending else {
        panic!("it failed");
    };
    assert_eq!(failure.message, "Internal.");
}

#[test]
fn words_that_the_service_refuses_are_no_fault_of_the_request() {
    let refused = |code: &str| {
        let body = json!({"error": {"message": "no", "code": code}}).to_string();
        let head = ResponseHead {
            status: 400,
            ..ResponseHead::default()
        };
        gemini_text::failure(&head, body.as_bytes())
    };
    assert!(matches!(
        blocked(&refused("content_blocked")),
        Some(Ending::Blocked { .. })
    ));
    assert_eq!(blocked(&refused("invalid_request")), None);
}

#[test]
fn what_nobody_knows_is_passed_over_and_named() {
    let stream = stream_of(&[
        json!({"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}),
        json!({"event_type": "step.delta", "index": 0, "delta": {"type": "image", "data": "QUJD", "mime_type": "image/png"}}),
        json!({"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Look."}}),
        json!({"event_type": "interaction.dreamt"}),
        // What we said ourselves, which the service may repeat.
        json!({"event_type": "step.start", "index": 1, "step": {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}}),
        json!({"event_type": "interaction.completed", "interaction": {"status": "completed"}}),
    ]);
    let (events, answer) = decode_interactions(stream.as_bytes());
    let named: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Unknown { fields } => Some(fields[0].as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        named,
        ["content.type=image", "event_type=interaction.dreamt"]
    );
    assert_eq!(pieces_of(&answer), ["text Look."]);
    // What goes back has to be read whole.
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let deep = format!(
        "data: {{\"event_type\":\"step.start\",\"step\":{{\"type\":\"x\",\"y\":{deep}}}}}\n\n"
    );
    let (events, answer) = decode_interactions(deep.as_bytes());
    assert!(answer.pieces.is_empty(), "{answer:?}");
    let is_damage = |event: &ModelEvent| matches!(event, ModelEvent::Malformed { .. });
    assert!(events.iter().any(is_damage));
    // A piece of a call whose beginning was lost makes the calls of its answer unsafe.
    let call = json!({"event_type": "step.start", "index": 1, "step": {"type": "function_call", "id": "c", "name": "f", "arguments": {}}});
    let lost = json!({"event_type": "step.delta", "index": 5, "delta": {"type": "arguments_delta", "arguments": "{}"}});
    let end = json!({"event_type": "interaction.completed", "interaction": {"status": "requires_action"}});
    let (_, answer) = decode_interactions(stream_of(&[call, lost, end]).as_bytes());
    assert!(matches!(answer.ending, Ending::Failed(_)) && answer.calls.is_empty());
}

#[test]
fn arguments_are_read_strictly_and_a_missing_id_is_made() {
    let start = |arguments: Value| json!({"event_type": "step.start", "index": 0, "step": {"type": "function_call", "name": "f", "arguments": arguments}});
    let piece = |text: &str| json!({"event_type": "step.delta", "index": 0, "delta": {"type": "arguments_delta", "arguments": text}});
    let end = json!({"event_type": "interaction.completed", "interaction": {"status": "requires_action"}});
    for (messages, expected) in [
        (vec![start(json!({}))], json!({})),
        (vec![start(Value::Null)], json!({})),
        (vec![start(json!({"a": 1}))], json!({"a": 1})),
        (
            vec![start(json!({})), piece("{\"a\":"), piece("2}")],
            json!({"a": 2}),
        ),
        (vec![start(json!({})), piece("null")], json!({})),
    ] {
        let mut messages = messages;
        messages.push(end.clone());
        let (_, answer) = decode_interactions(stream_of(&messages).as_bytes());
        let calls = calls_of(&answer);
        assert_eq!(calls[0].2, expected);
        assert_eq!(calls[0].0.as_deref(), Some("wl0000700"));
    }
    for text in ["{\"a\":", "[1]", "{\"a\":1,\"a\":2}", "\"{}\""] {
        let messages = [start(json!({})), piece(text), end.clone()];
        let (_, answer) = decode_interactions(stream_of(&messages).as_bytes());
        assert!(answer.calls[0].arguments.is_err(), "{text}");
    }
}

#[test]
fn a_request_has_the_fields_that_are_asked_for_and_no_others() {
    let log = log_of([user("Hi")]);
    let route = route();
    let own = [ProviderTool::GoogleSearch, ProviderTool::CodeExecution];
    let tools = DeclaredTools::new(&[tool("kb_search", Behavior::Blocking)]).beside(&own);
    let mut request = interactions_request(&log, &route, &tools);
    request.tool_use = ToolUse::Required;
    request.temperature = Some(0.5);
    request.output_tokens_max = Some(500);
    request.thinking_level = Some(ThinkingLevel::Low);
    let profile = |model: &str| profile::gemini_text(model).profile;
    let declared = json!([
        {"type": "function", "name": "kb_search", "description": "d", "parameters": {"type": "object"}},
        {"type": "google_search"}, {"type": "code_execution"}
    ]);
    assert_eq!(
        interactions_body(&request, &profile("gemini-3.5-flash")),
        json!({"model": "gemini-3.5-flash", "stream": true, "store": false, "system_instruction": "Be brief.",
            "input": [{"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}],
            "tools": declared,
            "generation_config": {"temperature": 0.5, "max_output_tokens": 500, "thinking_level": "low", "tool_choice": "any"}})
    );
    // A model with a budget takes a level here, one of which nothing is known none.
    let config =
        |model: &str| interactions_body(&request, &profile(model))["generation_config"].clone();
    assert_eq!(config("gemini-2.5-flash")["thinking_level"], "low");
    assert_eq!(config("gemini-4-argon").get("thinking_level"), None);
    let change = ProfileChange {
        temperature: Some(false),
        transport: Some(TextTransport::Interactions),
        ..ProfileChange::default()
    };
    let changed = profile::gemini_text("gemini-3.8-flash")
        .changed(&change)
        .profile;
    let body = interactions_body(&request, &changed);
    assert_eq!(body["generation_config"].get("temperature"), None);
    // The service's own tools alone take no choice, and a last request none at all.
    let own = DeclaredTools::default().beside(&own);
    request.tools = &own;
    let body = interactions_body(&request, &changed);
    assert_eq!(body["generation_config"].get("tool_choice"), None);
    request.tools = &tools;
    request.tool_use = ToolUse::Forbidden;
    request.delivery = Delivery::Whole;
    request.system_instruction = "".into();
    (request.output_tokens_max, request.thinking_level) = (None, None);
    assert_eq!(
        interactions_body(&request, &changed),
        json!({"model": "gemini-3.5-flash", "stream": false, "store": false,
            "input": [{"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}]})
    );
    assert!(
        tools
            .text()
            .starts_with(r#"[{"type":"function","name":"kb_search""#)
    );
}

#[test]
fn a_call_of_another_service_is_told_in_words_and_its_thoughts_are_not() {
    let sealed = TextPiece {
        text: "secret".to_owned().into(),
        is_thought: true,
        opaque: Some(Opaque::ThoughtSignature(Arc::<str>::from("QUJD").into())),
    };
    let log = log_of([
        user("Who built it?"),
        Entry::AnswerStarted(Route::new("another")),
        Entry::Text(sealed),
        said("Let me look."),
        Entry::Call(call(Some("call_1"), "kb_search", "{\"q\":\"Fram\"}")),
        result(Some("call_1"), "kb_search", json!({"by": "Archer"})),
        user("Go on."),
    ]);
    let body = body_of(&log, "gemini-3.5-flash");
    let input = body["input"].as_array().unwrap();
    let kinds: Vec<&Value> = input.iter().map(|step| &step["type"]).collect();
    assert_eq!(kinds, ["user_input", "model_output", "user_input"]);
    let told = input[2]["content"].to_string();
    for part in ["kb_search", "Fram", "Archer", "Go on.", "not of the user"] {
        assert!(told.contains(part), "{told}");
    }
    assert!(!body.to_string().contains("secret") && !body.to_string().contains("QUJD"));
}

#[test]
fn pictures_of_results_stand_in_them_where_the_model_takes_them_there() {
    let input = |log: &ConversationLog, model: &str| body_of(log, model)["input"].clone();
    // A call of another service is told, and its pictures are shown behind it.
    let told = input(&with_found_pictures(), "gemini-3.5-flash");
    let content = told[0]["content"].as_array().unwrap();
    let kinds: Vec<&Value> = content.iter().map(|part| &part["type"]).collect();
    let expected = ["text", "text", "text", "image", "text", "image"];
    assert_eq!(kinds, expected, "{told}");
    let log = own_with_found_pictures();
    let shown = input(&log, "gemini-3.5-flash");
    assert_eq!(
        shown[2]["result"].as_array().unwrap()[1..],
        [
            json!({"type": "image", "data": "YWJj", "mime_type": "image/png"}),
            json!({"type": "image", "uri": "https://example.org/b.png", "mime_type": "image/png"})
        ]
    );
    assert_eq!(shown.as_array().unwrap().len(), 3);
    // Its predecessors are shown them behind the result, and who cannot see is not shown them.
    let behind = input(&log, "gemini-2.5-flash");
    assert_eq!(behind[2]["result"].as_array().unwrap().len(), 1);
    assert_eq!(behind[3]["content"][1]["type"], "image");
    let unseen = input(&log, "nobody-knows-it");
    assert!(!unseen.to_string().contains("YWJj"), "{unseen}");
}

fn own_with_found_pictures() -> ConversationLog {
    let answer = ModelAnswer {
        pieces: vec![AnswerPiece::Call(call(Some("call_1"), "kb_get", "{}"))],
        opaque: None,
        calls: Vec::new(),
        usage: None,
        ending: Ending::Complete,
        passed_on: false,
    };
    found_pictures(answer.entries(&route()))
}
