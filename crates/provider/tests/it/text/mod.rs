//! The codecs of the text models through their public doors: a conversation in, a request out; an answer's bytes in,
//! events and an answer out.

mod accepted;
mod chat_calls;
mod chat_request;
mod chat_stream;
mod conversation;
mod damaged;
mod failures;
mod gemini_request;
mod gemini_stream;
mod hostile;
mod interactions;
mod prefixes;
mod provider_tools;
mod responses;

use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::envelope::{Projection, ProjectionBody};
use windlass_contract::handler::ContentPart;
use windlass_provider::answer::{AnswerLimits, AnswerPiece, ModelAnswer};
use windlass_provider::log::{Arguments, Call, ConversationLog, Entry, Image, Route, TextPiece};
use windlass_provider::profile::{self, Profile};
use windlass_provider::request::ToolUse;
use windlass_provider::{gemini_interactions, gemini_text, openai_chat};
use windlass_session::model::{ModelEvent, ModelToolResponse};

fn gemini_route() -> Route {
    Route::new("gemini")
}

fn chat_route() -> Route {
    Route::new("chat")
}

fn user(text: &str) -> Entry {
    Entry::UserText(text.to_owned().into())
}

fn said(text: &str) -> Entry {
    Entry::Text(TextPiece::plain(text.to_owned()))
}

fn call(id: Option<&str>, name: &str, arguments: &str) -> Call {
    Call {
        id: id.map(Arc::from),
        name: name.into(),
        arguments: Arguments::parse(arguments),
        opaque: None,
    }
}

fn result(id: Option<&str>, name: &str, data: Value) -> Entry {
    Entry::Result(ModelToolResponse {
        id: id.map(Arc::from),
        name: name.into(),
        projection: Projection {
            duration_ms: 3,
            body: ProjectionBody::Success {
                data: Some(data.into()),
                content: Vec::new(),
                cut: None,
                quoted: false,
            },
        },
        scheduling: None,
    })
}

/// A call whose answer has a picture of this server and one from elsewhere.
fn with_found_pictures() -> ConversationLog {
    found_pictures([Entry::Call(call(Some("call_1"), "kb_get", "{}"))])
}

/// The same, asked for by this answer.
fn found_pictures(asked: impl IntoIterator<Item = Entry>) -> ConversationLog {
    let picture = |url: &str| ContentPart::Image {
        mime_type: "image/png".to_owned(),
        url: url.to_owned(),
    };
    let answer = ModelToolResponse {
        id: Some("call_1".into()),
        name: "kb_get".into(),
        projection: Projection {
            duration_ms: 3,
            body: ProjectionBody::Success {
                data: None,
                content: vec![
                    picture("/assets/photo:a"),
                    picture("https://example.org/b.png"),
                ],
                cut: None,
                quoted: false,
            },
        },
        scheduling: None,
    };
    let mut entries = vec![user("Show it.")];
    entries.extend(asked);
    entries.push(Entry::Result(answer));
    entries.push(Entry::ResultImage {
        id: Some("call_1".into()),
        name: "kb_get".into(),
        image: Image {
            mime_type: "image/png".to_owned(),
            data: Arc::<[u8]>::from(*b"abc").into(),
        },
    });
    log_of(entries)
}

fn log_of(entries: impl IntoIterator<Item = Entry>) -> ConversationLog {
    let mut log = ConversationLog::default();
    log.append_all(entries).unwrap();
    log
}

fn gemini_request<'a>(
    log: &'a ConversationLog,
    route: &'a Route,
    tools: &'a gemini_text::DeclaredTools,
) -> gemini_text::Request<'a> {
    gemini_text::Request {
        system_instruction: "Be brief.".into(),
        window: log.window(u64::MAX),
        route,
        tools,
        tool_use: ToolUse::Free,
        temperature: None,
        output_tokens_max: None,
        thinking_level: None,
        thinking_budget: None,
        cached_content: None,
    }
}

fn gemini_body(request: &gemini_text::Request<'_>, profile: &Profile) -> Value {
    let mut body = Vec::new();
    gemini_text::encode_request(request, profile, &mut body);
    serde_json::from_slice(&body).unwrap()
}

fn interactions_request<'a>(
    log: &'a ConversationLog,
    route: &'a Route,
    tools: &'a gemini_interactions::DeclaredTools,
) -> gemini_interactions::Request<'a> {
    gemini_interactions::Request {
        model: "gemini-3.5-flash",
        system_instruction: "Be brief.".into(),
        window: log.window(u64::MAX),
        route,
        tools,
        tool_use: ToolUse::Free,
        delivery: windlass_provider::request::Delivery::Stream,
        temperature: None,
        output_tokens_max: None,
        thinking_level: None,
    }
}

fn interactions_body(request: &gemini_interactions::Request<'_>, profile: &Profile) -> Value {
    let mut body = Vec::new();
    gemini_interactions::encode_request(request, profile, &mut body);
    serde_json::from_slice(&body).unwrap()
}

fn chat_request<'a>(
    log: &'a ConversationLog,
    route: &'a Route,
    tools: &'a openai_chat::DeclaredTools,
) -> openai_chat::Request<'a> {
    openai_chat::Request {
        model: "m",
        system_instruction: "Be brief.".into(),
        window: log.window(u64::MAX),
        route,
        tools,
        tool_use: ToolUse::Free,
        parallel_calls: None,
        delivery: windlass_provider::request::Delivery::Stream,
        temperature: None,
        output_tokens_max: None,
        reasoning_effort: None,
        prompt_cache: None,
    }
}

fn chat_body(request: &openai_chat::Request<'_>, profile: &Profile) -> Value {
    let mut body = Vec::new();
    openai_chat::encode_request(request, profile, &mut body);
    serde_json::from_slice(&body).unwrap()
}

const OPENAI: &str = "https://api.openai.com/v1";

fn chat_profile(base_url: &str) -> Profile {
    profile::openai_chat(base_url, "m").profile
}

/// A stream of events, each the text of a message.
fn stream_of(messages: &[Value]) -> String {
    messages
        .iter()
        .map(|message| format!("data: {message}\n\n"))
        .collect()
}

fn decode_chat(stream: &[u8]) -> (Vec<ModelEvent>, ModelAnswer) {
    decode_chat_from(stream, OPENAI)
}

fn decode_chat_from(stream: &[u8], base_url: &str) -> (Vec<ModelEvent>, ModelAnswer) {
    let mut events = Vec::new();
    let mut decoder =
        openai_chat::Decoder::new(&chat_profile(base_url), 7, AnswerLimits::default());
    decoder.push(stream, &mut events);
    let answer = decoder.finish(&mut events);
    (events, answer)
}

fn decode_gemini(stream: &[u8]) -> (Vec<ModelEvent>, ModelAnswer) {
    let mut events = Vec::new();
    let mut decoder = gemini_text::Decoder::new(AnswerLimits::default());
    decoder.push(stream, &mut events);
    let answer = decoder.finish(&mut events);
    (events, answer)
}

fn decode_interactions(stream: &[u8]) -> (Vec<ModelEvent>, ModelAnswer) {
    let mut events = Vec::new();
    let mut decoder = gemini_interactions::Decoder::new(7, AnswerLimits::default());
    decoder.push(stream, &mut events);
    let answer = decoder.finish(&mut events);
    (events, answer)
}

/// The words that were passed on.
fn words(events: &[ModelEvent]) -> String {
    events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::OutputText { text } => Some(text.expose().as_str()),
            _ => None,
        })
        .collect()
}

/// The calls for the core, in a form to compare: id, name, and the arguments or what is wrong with them.
fn calls_of(answer: &ModelAnswer) -> Vec<(Option<String>, Option<String>, Value)> {
    answer
        .calls
        .iter()
        .map(|call| {
            (
                call.id.as_deref().map(str::to_owned),
                call.name.as_deref().map(str::to_owned),
                match &call.arguments {
                    Ok(arguments) => json!(arguments),
                    Err(problem) => json!(problem.to_string()),
                },
            )
        })
        .collect()
}

/// The pieces for the log, in a form to compare.
fn pieces_of(answer: &ModelAnswer) -> Vec<String> {
    answer
        .pieces
        .iter()
        .map(|piece| match piece {
            AnswerPiece::Text(text) => format!("text {}", text.text.expose()),
            AnswerPiece::Call(call) => format!(
                "call {} {}",
                call.name,
                call.arguments
                    .as_ref()
                    .map_or("unusable", |arguments| arguments.expose().get())
            ),
        })
        .collect()
}
