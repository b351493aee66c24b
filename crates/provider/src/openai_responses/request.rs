//! The body of a request. Knows the fields that the service takes and the order of the items; the values are the configuration's.

use super::tools::DeclaredTools;
use crate::log::{
    FOUND, Found, ModelItem, Piece, Route, Sees, Step, UserItem, Window, own_call_id, wire_name,
};
use crate::openai_chat::{CacheRetention, PromptCache, ReasoningEffort, UNSEEN, data_url};
use crate::profile::Profile;
use crate::projection::Reading;
use crate::request::{Delivery, Instruction, ToolUse};
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
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

/// Appends the body: one JSON text.
pub fn encode_request(request: &Request<'_>, profile: &Profile, body: &mut Vec<u8>) {
    let wire = wire(request, profile);
    serde_json::to_writer(body, &wire).expect("strings and JSON values always serialize");
}

/// Without this field a model's thoughts are lost to its next step, because the service stores nothing.
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

fn wire<'a>(request: &Request<'a>, profile: &Profile) -> Wire<'a> {
    let tools = request
        .tools
        .raw()
        .filter(|_| request.tool_use != ToolUse::Forbidden);
    let tool_choice = (request.tool_use == ToolUse::Required).then_some("required");
    let cache = request
        .prompt_cache
        .filter(|_| profile.request.prompt_cache);
    let reasons = profile.model.thinking == Thinking::Level;
    Wire {
        model: request.model,
        input: input(request, profile),
        // The service refuses both fields without tools.
        tool_choice: tool_choice.filter(|_| tools.is_some()),
        parallel_tool_calls: request
            .parallel_calls
            .filter(|_| profile.request.parallel_tool_calls && tools.is_some()),
        tools,
        stream: request.delivery == Delivery::Stream,
        store: false,
        // A model that does not reason refuses the field.
        include: (reasons || profile.request.encrypted_reasoning).then_some([ENCRYPTED_REASONING]),
        temperature: request.temperature.filter(|_| profile.request.temperature),
        max_output_tokens: request.output_tokens_max,
        reasoning: request
            .reasoning_effort
            .filter(|_| reasons)
            .map(|effort| Reasoning { effort }),
        prompt_cache_key: cache.map(|cache| cache.key),
        prompt_cache_retention: cache.and_then(|cache| cache.retention),
    }
}

fn input<'a>(request: &Request<'a>, profile: &Profile) -> Vec<Item<'a>> {
    let steps = request.window.steps(Sees::of(profile.model.vision));
    let mut input = Vec::with_capacity(steps.len() * 2 + 1);
    if !request.system_instruction.is_empty() {
        // The instruction is an item, because not every server of this protocol knows `instructions`.
        input.push(Item::Message(Message::System {
            content: request.system_instruction,
        }));
    }
    for step in steps {
        match step {
            Step::User(items) => input.push(Item::Message(Message::User {
                content: user_content(items, profile.model.vision),
            })),
            Step::Model(items) => model_items(&items, request, &mut input),
        }
    }
    input
}

fn user_content(items: Vec<UserItem<'_>>, sees: bool) -> Vec<Part<'_>> {
    let mut content = Vec::with_capacity(items.len());
    for item in items {
        match item {
            UserItem::Text(text) => content.push(Part::InputText { text }),
            UserItem::Image(_) | UserItem::Found(_) if !sees => {
                content.push(Part::InputText {
                    text: UNSEEN.into(),
                });
            }
            UserItem::Image(image) => content.push(Part::InputImage {
                image_url: data_url(image).into(),
            }),
            UserItem::Found(found) => {
                content.push(Part::InputText { text: FOUND.into() });
                let image_url = match found {
                    Found::Image(image) => data_url(image).into(),
                    Found::Address { url, .. } => url.into(),
                };
                content.push(Part::InputImage { image_url });
            }
        }
    }
    content
}

/// The items of one answer of the model in their order, and the answers to its calls behind them.
fn model_items<'a>(items: &[ModelItem<'a>], request: &Request<'a>, input: &mut Vec<Item<'a>>) {
    let mut results = Vec::new();
    let mut ids: Vec<Arc<str>> = Vec::new();
    for item in items {
        let is_ours = item.answer.route.takes_back(request.route);
        match &item.logged.piece {
            Piece::Text(text) => {
                let own = text.opaque.as_ref().filter(|_| is_ours);
                if let Some(unread) = own.and_then(|opaque| opaque.item()) {
                    input.push(Item::Unread(unread));
                } else if !text.is_thought && !text.text.expose().is_empty() {
                    input.push(Item::Message(Message::Assistant {
                        content: text.text.expose(),
                        phase: own.and_then(|opaque| {
                            opaque.fields()?.get(super::decode::PHASE)?.as_str()
                        }),
                    }));
                }
            }
            Piece::Call(call) => {
                let call_id = call_id(item, call.id.as_ref(), is_ours, &ids);
                let reading = match &item.logged.result {
                    Some(projection) => Reading::of(&call.name, projection),
                    None => Reading::unanswered(&call.name),
                };
                input.push(Item::Call(Call {
                    kind: "function_call",
                    call_id: call_id.clone(),
                    name: wire_name(&call.name),
                    arguments: call
                        .arguments
                        .as_ref()
                        .map_or("{}", |arguments| arguments.expose().get()),
                }));
                results.push(Item::Output(Output {
                    kind: "function_call_output",
                    call_id: call_id.clone(),
                    output: reading.openai(),
                }));
                ids.push(call_id);
            }
        }
    }
    input.append(&mut results);
}

/// The server's own id if it gave one, otherwise one of ours. Ids are unique within one answer.
fn call_id(
    item: &ModelItem<'_>,
    id: Option<&Arc<str>>,
    is_ours: bool,
    ids: &[Arc<str>],
) -> Arc<str> {
    const ID_BYTES_MAX: usize = 64;
    let fits = |id: &str| {
        let is_sound = |byte: u8| byte.is_ascii_graphic();
        (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_sound) && !id.starts_with("wl")
    };
    match id {
        Some(id) if is_ours && fits(id) && !ids.contains(id) => id.clone(),
        Some(_) | None => own_call_id(item.answer.number, item.call_index),
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    model: &'a str,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<CacheRetention>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: ReasoningEffort,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Message(Message<'a>),
    Call(Call<'a>),
    Output(Output),
    /// The item as the service gave it.
    Unread(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: Instruction<'a>,
    },
    User {
        content: Vec<Part<'a>>,
    },
    Assistant {
        content: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: Cow<'a, str> },
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    call_id: Arc<str>,
    name: Cow<'a, str>,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Output {
    #[serde(rename = "type")]
    kind: &'static str,
    call_id: Arc<str>,
    output: String,
}
