//! The body of a request. Knows the fields that a server takes and the order of the messages; the values are the configuration's.

use super::tools::DeclaredTools;
use crate::gemini_live::ThinkingLevel;
use crate::log::{
    FOUND, Found, Image, ModelItem, Opaque, Piece, Route, Sees, Step, UserItem, Window,
    own_call_id, wire_name,
};
use crate::profile::{CallIds, OutputLimit, Profile, Reasoning};
use crate::projection::Reading;
use crate::request::{Delivery, Instruction, ToolUse};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use windlass_session::model::Thinking;

/// A request to a model. Fields that the profile does not support are left out.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub model: &'a str,
    pub system_instruction: Instruction<'a>,
    pub window: Window<'a>,
    /// The route of this server and model. Opaque pieces of the window go back only to the route that they came from.
    pub route: &'a Route,
    pub tools: &'a DeclaredTools,
    pub tool_use: ToolUse,
    /// `None` leaves it to the server.
    pub parallel_calls: Option<bool>,
    pub delivery: Delivery,
    pub temperature: Option<f64>,
    pub output_tokens_max: Option<u32>,
    pub reasoning_effort: Option<ReasoningEffort>,
    pub prompt_cache: Option<PromptCache<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    #[serde(rename = "xhigh")]
    ExtraHigh,
    Max,
}

impl From<ThinkingLevel> for ReasoningEffort {
    fn from(level: ThinkingLevel) -> Self {
        match level {
            ThinkingLevel::None => Self::None,
            ThinkingLevel::Minimal => Self::Minimal,
            ThinkingLevel::Low => Self::Low,
            ThinkingLevel::Medium => Self::Medium,
            ThinkingLevel::High => Self::High,
            ThinkingLevel::ExtraHigh => Self::ExtraHigh,
            ThinkingLevel::Max => Self::Max,
        }
    }
}

/// Settings for the server's own cache of prompts. Requests with one key and the same beginning share entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptCache<'a> {
    pub key: &'a str,
    /// `None` leaves it to the server.
    pub retention: Option<CacheRetention>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub enum CacheRetention {
    #[serde(rename = "in_memory")]
    InMemory,
    #[serde(rename = "24h")]
    Day,
}

/// Appends the body: one JSON text.
pub fn encode_request(request: &Request<'_>, profile: &Profile, body: &mut Vec<u8>) {
    let wire = wire(request, profile);
    serde_json::to_writer(body, &wire).expect("strings and JSON values always serialize");
}

fn wire<'a>(request: &Request<'a>, profile: &Profile) -> Wire<'a> {
    let is_streamed = request.delivery == Delivery::Stream;
    // Some servers ignore `tool_choice: "none"`, but a model does not call a tool that it is not shown.
    let tools = request
        .tools
        .raw()
        .filter(|_| request.tool_use != ToolUse::Forbidden);
    let tool_choice = (request.tool_use == ToolUse::Required).then_some("required");
    let cache = request
        .prompt_cache
        .filter(|_| profile.request.prompt_cache);
    let (max_completion_tokens, max_tokens) = match profile.request.output_limit {
        OutputLimit::MaxCompletionTokens => (request.output_tokens_max, None),
        OutputLimit::MaxTokens => (None, request.output_tokens_max),
    };
    Wire {
        model: request.model,
        messages: messages(request, profile),
        // Servers refuse both fields without tools.
        tool_choice: tool_choice.filter(|_| profile.request.tool_choice && tools.is_some()),
        parallel_tool_calls: request
            .parallel_calls
            .filter(|_| profile.request.parallel_tool_calls && tools.is_some()),
        tools,
        stream: is_streamed,
        stream_options: (is_streamed && profile.request.stream_usage).then_some(StreamOptions {
            include_usage: true,
        }),
        temperature: request.temperature.filter(|_| profile.request.temperature),
        max_completion_tokens,
        max_tokens,
        reasoning_effort: request
            .reasoning_effort
            .filter(|_| profile.model.thinking == Thinking::Level),
        prompt_cache_key: cache.map(|cache| cache.key),
        prompt_cache_retention: cache.and_then(|cache| cache.retention),
    }
}

/// Goes between the answer to a call and a user's message, for servers that want an answer of the model there.
const BRIDGE: &str = "(I was interrupted before I could say anything to this.)";
/// The same before a picture of the call's answer.
const BRIDGE_TO_PICTURE: &str = "(The picture of this result comes next.)";
/// Replaces a picture for a model that cannot see.
pub(crate) const UNSEEN: &str = "(The user sent a picture, which you cannot see.)";

fn messages<'a>(request: &Request<'a>, profile: &Profile) -> Vec<Message<'a>> {
    let steps = request.window.steps(Sees::of(profile.model.vision));
    let mut messages = Vec::with_capacity(steps.len() * 2 + 1);
    if !request.system_instruction.is_empty() {
        messages.push(Message::System {
            content: request.system_instruction,
        });
    }
    for step in steps {
        match step {
            Step::User(items) => {
                let is_after_tool = matches!(messages.last(), Some(Message::Tool { .. }));
                if is_after_tool && !profile.request.user_after_tool {
                    let bridge = match items.first() {
                        Some(UserItem::Found(_)) => BRIDGE_TO_PICTURE,
                        Some(UserItem::Text(_) | UserItem::Image(_)) | None => BRIDGE,
                    };
                    messages.push(Message::Assistant(Assistant::saying(bridge)));
                }
                messages.push(Message::User {
                    content: user_content(items, profile),
                });
            }
            Step::Model(items) => model_messages(&items, request, profile, &mut messages),
        }
    }
    messages
}

fn user_content<'a>(items: Vec<UserItem<'a>>, profile: &Profile) -> UserContent<'a> {
    let is_picture = |item: &UserItem<'_>| match item {
        UserItem::Image(_) | UserItem::Found(_) => true,
        UserItem::Text(_) => false,
    };
    if profile.model.vision && items.iter().any(is_picture) {
        let mut content = Vec::with_capacity(items.len());
        for item in items {
            if let UserItem::Found(_) = item {
                content.push(Part::Text { text: FOUND.into() });
            }
            content.push(part(item));
        }
        return UserContent::Parts(content);
    }
    let mut texts = items.into_iter().map(|item| match item {
        UserItem::Text(text) => text,
        UserItem::Image(_) | UserItem::Found(_) => Cow::Borrowed(UNSEEN),
    });
    let mut content = texts.next().unwrap_or_default();
    for text in texts {
        let content = content.to_mut();
        content.push_str("\n\n");
        content.push_str(&text);
    }
    UserContent::Text(content)
}

fn part(item: UserItem<'_>) -> Part<'_> {
    let url = match item {
        UserItem::Text(text) => return Part::Text { text },
        UserItem::Image(image) | UserItem::Found(Found::Image(image)) => data_url(image).into(),
        UserItem::Found(Found::Address { url, .. }) => url.into(),
    };
    Part::ImageUrl {
        image_url: ImageUrl { url },
    }
}

pub(crate) fn data_url(image: &Image) -> String {
    let data = base64_simd::STANDARD.encode_to_string(image.data.expose());
    format!("data:{};base64,{data}", image.mime_type)
}

/// One answer of the model with all its calls, and the answers to these.
fn model_messages<'a>(
    items: &[ModelItem<'a>],
    request: &Request<'a>,
    profile: &Profile,
    messages: &mut Vec<Message<'a>>,
) {
    let mut assistant = Assistant::default();
    let mut results: Vec<Message<'a>> = Vec::new();
    let mut ids: Vec<Arc<str>> = Vec::new();
    for item in items {
        let is_ours = item.answer.route.takes_back(request.route);
        match &item.logged.piece {
            Piece::Text(text) if text.is_thought => {}
            Piece::Text(text) => assistant.say(text.text.expose()),
            Piece::Call(call) => {
                let id = wire_id(item, call.id.as_ref(), is_ours, profile, &ids);
                let fields = call
                    .opaque
                    .as_ref()
                    .filter(|_| is_ours)
                    .and_then(Opaque::fields)
                    .or_else(|| {
                        (profile.request.thought_signatures && ids.is_empty()).then_some(&*UNSIGNED)
                    });
                let reading = match &item.logged.result {
                    Some(projection) => Reading::of(&call.name, projection),
                    None => Reading::unanswered(&call.name),
                };
                assistant.tool_calls.push(ToolCall {
                    id: id.clone(),
                    kind: "function",
                    function: Function {
                        name: wire_name(&call.name),
                        arguments: call
                            .arguments
                            .as_ref()
                            .map_or("{}", |arguments| arguments.expose().get()),
                    },
                    fields,
                });
                results.push(Message::Tool {
                    tool_call_id: id.clone(),
                    content: reading.openai(),
                });
                ids.push(id);
            }
        }
    }
    let own = items
        .iter()
        .rev()
        .filter(|item| item.answer.route.takes_back(request.route))
        .find_map(|item| item.answer.opaque.as_ref()?.fields());
    assistant.extra_content = own.and_then(|fields| fields.get(EXTRA_CONTENT));
    if profile.request.reasoning == Reasoning::ReturnedWithCalls && !assistant.tool_calls.is_empty()
    {
        let reasoning = own.and_then(|fields| fields.get(REASONING_CONTENT)?.as_str());
        assistant.reasoning_content = Some(reasoning.unwrap_or_default());
    }
    if profile.request.reasoning == Reasoning::DetailsReturned {
        assistant.reasoning_details = own.and_then(|fields| fields.get(REASONING_DETAILS));
    }
    messages.push(Message::Assistant(assistant));
    messages.append(&mut results);
}

pub(super) const REASONING_DETAILS: &str = "reasoning_details";
pub(super) const EXTRA_CONTENT: &str = "extra_content";
pub(super) const REASONING_CONTENT: &str = "reasoning_content";

/// The signature that the Gemini compatibility layer takes on the first call of an answer that it did not write.
static UNSIGNED: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let signature = json!({"google": {"thought_signature": "skip_thought_signature_validator"}});
    Map::from_iter([(EXTRA_CONTENT.to_owned(), signature)])
});

/// The server's own id if the server gave one and takes it back, otherwise one of ours. Ids are unique within one message.
fn wire_id(
    item: &ModelItem<'_>,
    id: Option<&Arc<str>>,
    is_ours: bool,
    profile: &Profile,
    ids: &[Arc<str>],
) -> Arc<str> {
    let own = own_call_id(item.answer.number, item.call_index);
    let fits = |id: &str| match profile.request.call_ids {
        CallIds::Short | CallIds::Always | CallIds::AsGiven => {
            (1..=40).contains(&id.len())
                && id
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        }
        CallIds::Nine => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
    };
    match id {
        // An id in our form might be the id of another call.
        Some(id) if is_ours && fits(id) && !id.starts_with("wl") && !ids.contains(id) => id.clone(),
        Some(_) | None => own,
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<ReasoningEffort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<CacheRetention>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: Instruction<'a>,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant(Assistant<'a>),
    Tool {
        tool_call_id: Arc<str>,
        content: String,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: Cow<'a, str>,
}

#[derive(Default, Serialize)]
struct Assistant<'a> {
    /// Null for a message with calls alone.
    #[serde(serialize_with = "text_or_null")]
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a Value>,
}

impl<'a> Assistant<'a> {
    fn saying(text: &'a str) -> Self {
        Self {
            content: text.into(),
            ..Self::default()
        }
    }

    fn say(&mut self, text: &'a str) {
        if self.content.is_empty() {
            self.content = text.into();
        } else {
            self.content.to_mut().push_str(text);
        }
    }
}

#[expect(
    clippy::ptr_arg,
    reason = "serde hands over a reference to the field as it is"
)]
fn text_or_null<S: Serializer>(text: &Cow<'_, str>, serializer: S) -> Result<S::Ok, S::Error> {
    if text.is_empty() {
        serializer.serialize_none()
    } else {
        serializer.serialize_str(text)
    }
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: Arc<str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
    #[serde(flatten)]
    fields: Option<&'a Map<String, Value>>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
}
