//! Bodies of `generateContent`: which fields go to which model, and how a conversation stands in them.

use super::{
    call, chat_route, gemini_body, gemini_request, gemini_route, log_of, result, said, user,
    with_found_pictures,
};
use crate::setup::tool;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::kind::Behavior;
use windlass_provider::gemini_live::ThinkingLevel;
use windlass_provider::gemini_text::{DeclaredTools, Request, path};
use windlass_provider::log::{Call, ConversationLog, Entry, Image, Opaque, TextPiece};
use windlass_provider::profile;
use windlass_provider::request::{Delivery, ToolUse};
use windlass_session::model::{ModelProfile, Thinking};

const GEMINI_3: &str = "gemini-3.5-flash";
const GEMINI_2_5: &str = "gemini-2.5-flash";
const GEMINI_2_0: &str = "gemini-2.0-flash";

fn contents(log: &ConversationLog, model: &str) -> Value {
    let (route, tools) = (gemini_route(), DeclaredTools::default());
    let request = gemini_request(log, &route, &tools);
    gemini_body(&request, &profile::gemini_text(model).profile)["contents"].take()
}

fn signature(text: &str) -> Option<Opaque> {
    Some(Opaque::ThoughtSignature(Arc::<str>::from(text).into()))
}

#[test]
fn every_model_gets_the_fields_that_it_knows() {
    let (log, route) = (log_of([user("Hi")]), gemini_route());
    let native = json!({"name": "kb_search", "description": "d", "parameters": {"type": "OBJECT"}});
    let with_json_schema = json!({"name": "kb_search", "description": "d", "parametersJsonSchema": {"type": "object"}});
    for (model, declaration, thinking) in [
        (GEMINI_3, &with_json_schema, json!({"thinkingLevel": "LOW"})),
        (GEMINI_2_5, &with_json_schema, json!({"thinkingBudget": 0})),
        (GEMINI_2_0, &native, Value::Null),
    ] {
        let profile = profile::gemini_text(model).profile;
        let tools = DeclaredTools::new(&[tool("kb_search", Behavior::Blocking)], &profile.model);
        let request = Request {
            tool_use: ToolUse::Required,
            temperature: Some(0.5),
            output_tokens_max: Some(1_024),
            thinking_level: Some(ThinkingLevel::Low),
            thinking_budget: Some(0),
            ..gemini_request(&log, &route, &tools)
        };
        let mut generation =
            json!({"temperature": 0.5, "maxOutputTokens": 1024, "thinkingConfig": thinking});
        if thinking.is_null() {
            generation.as_object_mut().unwrap().remove("thinkingConfig");
        }
        assert_eq!(
            gemini_body(&request, &profile),
            json!({
                "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "tools": [{"functionDeclarations": [declaration]}],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
                "generationConfig": generation
            }),
            "{model}"
        );
    }
}

#[test]
fn what_is_not_asked_for_is_not_sent() {
    let (log, route) = (log_of([user("Hi")]), gemini_route());
    let profile = profile::gemini_text(GEMINI_3).profile;
    let none = DeclaredTools::default();
    let plain = Request {
        system_instruction: "".into(),
        tool_use: ToolUse::Forbidden,
        ..gemini_request(&log, &route, &none)
    };
    assert_eq!(
        gemini_body(&plain, &profile),
        json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
    );
    let some = DeclaredTools::new(&[tool("kb_search", Behavior::Blocking)], &profile.model);
    let forbidden = Request {
        tool_use: ToolUse::Forbidden,
        ..gemini_request(&log, &route, &some)
    };
    let body = gemini_body(&forbidden, &profile);
    assert_eq!(
        (&body["tools"], &body["toolConfig"]),
        (&Value::Null, &Value::Null)
    );
    // A cache holds the instruction and the tools, and is refused beside them.
    let cached = Request {
        cached_content: Some("cachedContents/1"),
        ..gemini_request(&log, &route, &some)
    };
    assert_eq!(
        gemini_body(&cached, &profile),
        json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "cachedContent": "cachedContents/1"})
    );
    // It would bring the tools that are forbidden.
    let cached_and_forbidden = Request {
        tool_use: ToolUse::Forbidden,
        ..cached
    };
    assert_eq!(gemini_body(&cached_and_forbidden, &profile), body);
    // Nothing may be said of calls beside it.
    let required = Request {
        tool_use: ToolUse::Required,
        ..gemini_request(&log, &route, &some)
    };
    let body = gemini_body(&required, &profile);
    assert_eq!(
        body["toolConfig"]["functionCallingConfig"]["mode"],
        json!("ANY")
    );
    let cached_and_required = Request {
        cached_content: Some("cachedContents/1"),
        ..required
    };
    assert_eq!(gemini_body(&cached_and_required, &profile), body);
}

#[test]
fn an_answer_goes_back_as_it_came_with_every_signature_on_its_part() {
    let log = log_of([
        user("Weather?"),
        Entry::AnswerStarted(gemini_route()),
        said("Let me see."),
        Entry::Call(Call {
            opaque: signature("QUJD"),
            ..call(Some("call_41"), "weather", r#"{"city": "Oslo"}"#)
        }),
        Entry::Call(call(Some("call_42"), "weather", "{}")),
        result(Some("call_42"), "weather", json!({"c": 9})),
        result(Some("call_41"), "weather", json!({"c": 4})),
        Entry::AnswerStarted(gemini_route()),
        Entry::Text(TextPiece {
            is_thought: true,
            opaque: signature("REVG"),
            ..TextPiece::plain("hm".to_owned())
        }),
        Entry::Text(TextPiece {
            is_thought: true,
            ..TextPiece::plain("unsigned".to_owned())
        }),
        said("Four and nine."),
        Entry::Text(TextPiece {
            opaque: signature("R0hJ"),
            ..TextPiece::plain(String::new())
        }),
        user("Thanks."),
    ]);
    assert_eq!(
        contents(&log, GEMINI_3),
        json!([
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {"role": "model", "parts": [
                {"text": "Let me see."},
                {"functionCall": {"id": "call_41", "name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "QUJD"},
                {"functionCall": {"id": "call_42", "name": "weather", "args": {}}}
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "call_41", "name": "weather", "response": {"output": {"status": "success", "data": {"c": 4}}}}},
                {"functionResponse": {"id": "call_42", "name": "weather", "response": {"output": {"status": "success", "data": {"c": 9}}}}}
            ]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true, "thoughtSignature": "REVG"},
                {"text": "Four and nine."},
                {"text": "", "thoughtSignature": "R0hJ"}
            ]},
            {"role": "user", "parts": [{"text": "Thanks."}]}
        ])
    );
}

#[test]
fn calls_that_another_model_made_get_the_signature_that_stands_for_none() {
    let log = log_of([
        user("Weather?"),
        Entry::AnswerStarted(chat_route()),
        Entry::Call(Call {
            opaque: signature("FOREIGN"),
            ..call(Some("call_1"), "weather", "{}")
        }),
        Entry::Call(call(Some("call_2"), "weather", "{}")),
        Entry::AnswerStarted(gemini_route()),
        Entry::Call(call(None, "weather", "{}")),
    ]);
    for (model, signatures, ids) in [
        (
            GEMINI_3,
            [json!("skip_thought_signature_validator"), Value::Null],
            [json!("wl0000000"), json!("wl0000001"), json!("wl0000100")],
        ),
        (
            GEMINI_2_0,
            [Value::Null, Value::Null],
            [Value::Null, Value::Null, Value::Null],
        ),
    ] {
        let contents = contents(&log, model);
        let part = |content: usize, part: usize| contents[content]["parts"][part].clone();
        let signed = [part(1, 0), part(1, 1)].map(|mut part| part["thoughtSignature"].take());
        assert_eq!(signed, signatures, "{model}");
        let calls =
            [part(1, 0), part(1, 1), part(3, 0)].map(|mut part| part["functionCall"]["id"].take());
        assert_eq!(calls, ids, "{model}");
        let answers = [part(2, 0), part(2, 1), part(4, 0)]
            .map(|mut part| part["functionResponse"]["id"].take());
        assert_eq!(answers, ids, "{model}");
        assert_eq!(
            part(4, 0)["functionResponse"]["response"]["error"]["type"],
            "CANCELLED"
        );
    }
}

#[test]
fn calls_without_ids_find_their_answers_by_name_and_order() {
    let log = log_of([
        user("Hi"),
        Entry::AnswerStarted(gemini_route()),
        Entry::Call(call(None, "a", "{}")),
        Entry::Call(call(None, "b", "{}")),
        Entry::Call(call(None, "a", "{}")),
        result(None, "b", json!(2)),
        result(None, "a", json!(1)),
        result(None, "a", json!(3)),
    ]);
    let contents = contents(&log, GEMINI_2_0);
    let answers: Vec<&Value> = contents[2]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| &part["functionResponse"]["response"]["output"]["data"])
        .collect();
    assert_eq!(answers, [&json!(1), &json!(2), &json!(3)]);
}

#[test]
fn results_use_no_key_that_the_service_takes_for_its_own() {
    let log = log_of([
        user("Hi"),
        Entry::Call(call(None, "f", "{}")),
        result(
            None,
            "f",
            json!({"$ref": 1, "ref": 2, "deep": [{"$defs": 3}]}),
        ),
    ]);
    assert_eq!(
        contents(&log, GEMINI_3)[2]["parts"][0]["functionResponse"]["response"]["output"]["data"],
        json!({"_ref": 1, "ref": 2, "deep": [{"defs": 3}]})
    );
}

#[test]
fn pictures_go_to_models_that_see() {
    let log = log_of([
        user("What is this?"),
        Entry::UserImage(Image {
            mime_type: "image/png".to_owned(),
            data: Arc::<[u8]>::from(*b"abc").into(),
        }),
    ]);
    assert_eq!(
        contents(&log, GEMINI_3)[0]["parts"][1],
        json!({"inlineData": {"mimeType": "image/png", "data": "YWJj"}})
    );
    assert!(contents(&log, "gemma-9")[0]["parts"][1]["text"].is_string());
}

#[test]
fn pictures_of_results_stand_beside_the_results_for_models_that_see() {
    let log = with_found_pictures();
    let sent = contents(&log, GEMINI_3);
    let parts = sent[2]["parts"].as_array().unwrap();
    assert!(parts[0]["functionResponse"].is_object(), "{sent}");
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "YWJj"}});
    let elsewhere =
        json!({"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/b.png"}});
    assert_eq!((&parts[2], &parts[4]), (&inline, &elsewhere), "{sent}");
    assert!(parts[1]["text"].is_string() && parts[3]["text"].is_string());
    assert_eq!((parts.len(), sent.as_array().unwrap().len()), (5, 3));
    let unseen = contents(&log, "gemma-9");
    assert_eq!(unseen[2]["parts"].as_array().unwrap().len(), 1, "{unseen}");
}

#[test]
fn a_path_names_model_and_delivery() {
    assert_eq!(
        path("models/gemini-3.5-flash", Delivery::Stream),
        "models/gemini-3.5-flash:streamGenerateContent?alt=sse"
    );
    assert_eq!(
        path("models/gemini-3.5-flash", Delivery::Whole),
        "models/gemini-3.5-flash:generateContent"
    );
}

#[test]
fn the_core_sees_a_text_model_as_one_whose_calls_block() {
    let profile: ModelProfile = profile::gemini_text(GEMINI_2_5).profile.model;
    assert_eq!(profile.thinking, Thinking::Budget);
    assert!(!profile.scheduling && !profile.resumption && profile.vision);
}
