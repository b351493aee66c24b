//! Tools that the provider runs itself, as they are published: what they did goes back to the letter and to the same model
//! alone, their pages are cited, and the core hears that external content was read.

use super::{
    calls_of, decode_gemini, gemini_body, gemini_request, gemini_route, log_of, pieces_of, result,
    stream_of, user, words,
};
use crate::setup::tool;
use serde_json::{Value, json};
use windlass_contract::kind::Behavior;
use windlass_provider::answer::AnswerLimits;
use windlass_provider::gemini_text::DeclaredTools;
use windlass_provider::log::{Entry, Route};
use windlass_provider::openai_responses;
use windlass_provider::profile;
use windlass_provider::provider_tools::ProviderTool;
use windlass_provider::request::ToolUse;
use windlass_session::model::ModelEvent;

/// By <https://ai.google.dev/gemini-api/docs/tool-combination>: a search, and a call of a function in the same answer.
fn searched() -> [Value; 3] {
    [
        json!({"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["northernmost city"]}, "id": "a7b3k9p2"}, "thoughtSignature": "QQ=="}),
        json!({"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"search_suggestions": "<div>é</div>"}, "id": "a7b3k9p2"}, "thoughtSignature": "Qg=="}),
        json!({"functionCall": {"name": "kb_search", "args": {"q": 1}, "id": "m4q8z1v6"}, "thoughtSignature": "Qw=="}),
    ]
}

fn chunk(parts: &[Value], more: Value) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    candidate
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({ "candidates": [candidate] })
}

/// What the core hears of external content: the cited pages of each event.
fn external(events: &[ModelEvent]) -> Vec<Vec<String>> {
    let sources = events.iter().filter_map(|event| match event {
        ModelEvent::ExternalContent { sources } => Some(sources.expose()),
        _ => None,
    });
    sources
        .map(|sources| {
            let sources = sources.iter();
            sources
                .map(|source| format!("{} {}", source.title, source.id))
                .collect()
        })
        .collect()
}

/// The model's content in a request that goes on behind an answer.
fn model_content(entries: Vec<Entry>, reader: &Route) -> Value {
    let mut all = vec![user("Look.")];
    all.extend(entries);
    all.push(result(Some("m4q8z1v6"), "kb_search", json!({"found": 1})));
    let log = log_of(all);
    let tools = DeclaredTools::default();
    let request = gemini_request(&log, reader, &tools);
    let profile = profile::gemini_text("gemini-3.5-flash").profile;
    gemini_body(&request, &profile)["contents"][1].take()
}

#[test]
fn parts_of_geminis_own_tools_go_back_as_they_came() {
    let [call, response, function] = searched();
    let (events, answer) = decode_gemini(
        stream_of(&[
            chunk(std::slice::from_ref(&call), json!({})),
            chunk(std::slice::from_ref(&response), json!({})),
            chunk(
                std::slice::from_ref(&function),
                json!({"finishReason": "STOP"}),
            ),
        ])
        .as_bytes(),
    );
    assert_eq!(external(&events), [[] as [String; 0]]);
    assert_eq!(calls_of(&answer).len(), 1);
    let route = gemini_route();
    let content = model_content(answer.entries(&route), &route);
    assert_eq!(content["parts"], json!([call, response, function]));
    // Another model is shown nothing of it.
    let content = model_content(answer.entries(&Route::new("other")), &route);
    assert_eq!(content["parts"].as_array().unwrap().len(), 1, "{content}");

    let code = json!({"executableCode": {"language": "PYTHON", "code": "print(2)", "id": "x1"}, "thoughtSignature": "QQ=="});
    let output =
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n", "id": "x1"}});
    let (events, answer) = decode_gemini(
        stream_of(&[chunk(
            &[
                code.clone(),
                output.clone(),
                json!({"text": "Two."}),
                function.clone(),
            ],
            json!({"finishReason": "STOP"}),
        )])
        .as_bytes(),
    );
    assert_eq!(
        (words(&events).as_str(), external(&events).len()),
        ("Two.", 1)
    );
    let content = model_content(answer.entries(&route), &route);
    assert_eq!(
        content["parts"],
        json!([code, output, {"text": "Two."}, function])
    );
}

#[test]
fn an_answer_that_broke_off_keeps_no_part_that_would_be_refused() {
    let [call, ..] = searched();
    let (_, answer) =
        decode_gemini(stream_of(&[chunk(&[json!({"text": "Hm"}), call], json!({}))]).as_bytes());
    assert_eq!(pieces_of(&answer), ["text Hm"]);
}

#[test]
fn pages_are_cited_and_what_no_browser_should_open_is_not() {
    let grounding = |chunks: Value| {
        json!({"finishReason": "STOP", "groundingMetadata": {"webSearchQueries": ["q"], "groundingChunks": chunks,
        "searchEntryPoint": {"renderedContent": "<div>"}, "groundingSupports": [{"segment": {"endIndex": 3}, "groundingChunkIndices": [0]}]}})
    };
    let long = format!("https://e.example/{}", "a".repeat(3_000));
    for (chunks, cited) in [
        (
            json!([{"web": {"uri": "https://e.example/a", "title": "A"}}, {"web": {"uri": "https://e.example/b"}}]),
            vec![
                "A https://e.example/a",
                "https://e.example/b https://e.example/b",
            ],
        ),
        (
            json!([{"web": {"uri": "javascript:alert(1)", "title": "x"}}, {"web": {"uri": long, "title": "x"}}, {"web": null}, 7, {"maps": {}},
                {"web": {"uri": "https://e.example/\"><b>", "title": "x y"}}, {"web": {"uri": "https://e.example/ x", "title": "x"}}]),
            vec!["x y https://e.example/\"><b>"],
        ),
        (json!("none"), vec![]),
    ] {
        let messages = [chunk(&[json!({"text": "Yes."})], grounding(chunks))];
        let (events, _) = decode_gemini(stream_of(&messages).as_bytes());
        assert_eq!(external(&events), [cited]);
    }
    // Vertex sends an empty one with every answer.
    let messages = [chunk(
        &[json!({"text": "Yes."})],
        json!({"groundingMetadata": {}, "finishReason": "STOP"}),
    )];
    let (events, _) = decode_gemini(stream_of(&messages).as_bytes());
    assert_eq!(external(&events), [] as [Vec<String>; 0]);
}

#[test]
fn gemini_is_told_that_both_kinds_of_tools_are_wanted() {
    let (log, route) = (log_of([user("Hi")]), gemini_route());
    let profile = profile::gemini_text("gemini-3.5-flash").profile;
    let own = [ProviderTool::GoogleSearch, ProviderTool::CodeExecution];
    let functions = DeclaredTools::new(&[tool("kb_search", Behavior::Blocking)], &profile.model);
    let mixed = functions.beside(&own);
    let body = gemini_body(&gemini_request(&log, &route, &mixed), &profile);
    assert_eq!(body["tools"][1], json!({"googleSearch": {}}));
    assert_eq!(body["tools"][2], json!({"codeExecution": {}}));
    assert_eq!(
        body["toolConfig"],
        json!({"functionCallingConfig": {"mode": "VALIDATED"}, "includeServerSideToolInvocations": true})
    );
    let alone = DeclaredTools::default().beside(&own[..1]);
    let body = gemini_body(&gemini_request(&log, &route, &alone), &profile);
    assert_eq!(
        (&body["tools"], &body["toolConfig"]),
        (&json!([{"googleSearch": {}}]), &Value::Null)
    );
    let mut last = gemini_request(&log, &route, &mixed);
    last.tool_use = ToolUse::Forbidden;
    assert_eq!(gemini_body(&last, &profile)["tools"], Value::Null);
}

/// By <https://developers.openai.com/api/docs/guides/tools-web-search>.
#[test]
fn pages_that_responses_found_are_cited_and_its_items_stay_in_their_place() {
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "Fram"}});
    let message = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "Archer.",
        "annotations": [{"type": "url_citation", "start_index": 0, "end_index": 7, "url": "https://e.example/a", "title": "A"},
            {"type": "file_citation", "url": "https://e.example/b"}, 7]}]});
    let done = |item: &Value| json!({"type": "response.output_item.done", "item": item});
    let messages = [
        done(&search),
        json!({"type": "response.output_text.delta", "delta": "Archer."}),
        done(&message),
        json!({"type": "response.completed", "response": {"status": "completed"}}),
    ];
    let mut events = Vec::new();
    let mut decoder = openai_responses::Decoder::new(7, AnswerLimits::default());
    decoder.push(stream_of(&messages).as_bytes(), &mut events);
    let answer = decoder.finish(&mut events);
    assert_eq!(
        external(&events),
        [vec![], vec!["A https://e.example/a".to_owned()]]
    );
    assert_eq!(words(&events), "Archer.");
    assert_eq!(pieces_of(&answer), ["text ", "text Archer."]);
    let tools = openai_responses::DeclaredTools::default()
        .beside(&[ProviderTool::WebSearch, ProviderTool::CodeInterpreter]);
    let declared: Value = serde_json::from_str(tools.text()).unwrap();
    assert_eq!(
        declared,
        json!([{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}])
    );
}
