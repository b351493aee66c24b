//! The body of a request. Knows the fields that a model takes and the places of calls, answers and signatures; the values are the
//! configuration's.

use super::tools::DeclaredTools;
use crate::gemini_live::ThinkingLevel;
use crate::log::{
    Arguments, Call, FOUND, Found, Image, ModelItem, Opaque, Piece, Route, Sees, Step, TextPiece,
    UserItem, Window, own_call_id, wire_name,
};
use crate::profile::{CallIds, Profile};
use crate::projection::{GeminiResponse, Reading};
use crate::request::{Instruction, ToolUse};
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use windlass_session::model::Thinking;

/// A request to a model. Fields that the profile does not support are left out.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub system_instruction: Instruction<'a>,
    pub window: Window<'a>,
    /// The route of this server and model. Opaque pieces of the window go back only to the route that they came from.
    pub route: &'a Route,
    pub tools: &'a DeclaredTools,
    pub tool_use: ToolUse,
    pub temperature: Option<f64>,
    pub output_tokens_max: Option<u32>,
    pub thinking_level: Option<ThinkingLevel>,
    /// Tokens; 0 turns thinking off if the model can do without.
    pub thinking_budget: Option<u32>,
    /// The name of a cache that holds this system instruction and these tools, which are then not sent: the service refuses them
    /// beside it. A request that fails as [`NotFound`] or [`Auth`] for an expired cache may succeed without it. Not used if calls
    /// are forbidden, because the tools are in the cache. Not used if a call is required, because the service refuses that
    /// setting beside a cache. Caching without a name is the service's own doing.
    ///
    /// [`NotFound`]: crate::failure::FailureClass::NotFound
    /// [`Auth`]: crate::failure::FailureClass::Auth
    pub cached_content: Option<&'a str>,
}

/// Appends the body: one JSON text.
pub fn encode_request(request: &Request<'_>, profile: &Profile, body: &mut Vec<u8>) {
    let wire = wire(request, profile);
    serde_json::to_writer(body, &wire).expect("strings and JSON values always serialize");
}

fn wire<'a>(request: &Request<'a>, profile: &Profile) -> Wire<'a> {
    // The tools in a cache cannot be taken back, and the service takes no `toolConfig` beside one.
    let cached_content = request
        .cached_content
        .filter(|_| request.tool_use == ToolUse::Free);
    let is_cached = cached_content.is_some();
    // Without declarations a model behaves as with mode `NONE` (ai.google.dev/gemini-api/docs/function-calling).
    let tools = request
        .tools
        .raw()
        .filter(|_| !is_cached && request.tool_use != ToolUse::Forbidden);
    // If functions and tools of the service are declared together, the service refuses its default mode, `AUTO`.
    let is_mixed = request.tools.is_mixed();
    let mode = match request.tool_use {
        ToolUse::Required => Some("ANY"),
        ToolUse::Free | ToolUse::Forbidden => is_mixed.then_some("VALIDATED"),
    };
    let thinking_config = match profile.model.thinking {
        Thinking::Omit => None,
        Thinking::Level => request
            .thinking_level
            .filter(|level| *level != ThinkingLevel::None)
            .map(ThinkingConfig::ThinkingLevel),
        Thinking::Budget => request.thinking_budget.map(ThinkingConfig::ThinkingBudget),
    };
    let generation = GenerationConfig {
        temperature: request.temperature.filter(|_| profile.request.temperature),
        max_output_tokens: request.output_tokens_max,
        thinking_config,
    };
    Wire {
        contents: contents(request, profile),
        system_instruction: (!request.system_instruction.is_empty() && !is_cached).then_some(
            SystemInstruction {
                parts: [SystemText {
                    text: request.system_instruction,
                }],
            },
        ),
        tool_config: mode.filter(|_| tools.is_some()).map(|mode| ToolConfig {
            function_calling_config: FunctionCallingConfig { mode },
            include_server_side_tool_invocations: is_mixed.then_some(true),
        }),
        tools,
        generation_config: (!generation.is_empty()).then_some(generation),
        cached_content,
    }
}

/// Replaces a picture for a model that cannot see.
const UNSEEN: &str = "(The user sent a picture, which you cannot see.)";
/// The signature that the service takes on a call that it did not sign.
const UNSIGNED: &str = "skip_thought_signature_validator";

fn contents<'a>(request: &Request<'a>, profile: &Profile) -> Vec<Content<'a>> {
    let steps = request.window.steps(Sees::of(profile.model.vision));
    let mut contents: Vec<Content<'a>> = Vec::with_capacity(steps.len() * 2);
    for step in steps {
        match step {
            Step::User(items) => {
                let is_of_result = matches!(items.first(), Some(UserItem::Found(_)));
                let mut parts = Vec::with_capacity(items.len());
                for item in items {
                    if let UserItem::Found(_) = item {
                        parts.push(Part::text(FOUND.into()));
                    }
                    parts.push(user_part(item, profile));
                }
                match contents.last_mut() {
                    // Pictures of results go into the same content as the results.
                    Some(results) if is_of_result => results.parts.append(&mut parts),
                    Some(_) | None => contents.push(Content::of("user", parts)),
                }
            }
            Step::Model(items) => model_contents(&items, request, profile, &mut contents),
        }
    }
    contents
}

fn user_part<'a>(item: UserItem<'a>, profile: &Profile) -> Part<'a> {
    match item {
        UserItem::Text(text) => Part::text(text),
        UserItem::Image(image) | UserItem::Found(Found::Image(image)) if profile.model.vision => {
            inline(image)
        }
        UserItem::Found(Found::Address { mime_type, url }) if profile.model.vision => Part {
            file_data: Some(FileData {
                mime_type,
                file_uri: url,
            }),
            ..Part::default()
        },
        UserItem::Image(_) | UserItem::Found(_) => Part::text(UNSEEN.into()),
    }
}

fn inline(image: &Image) -> Part<'_> {
    Part {
        inline_data: Some(Blob {
            mime_type: &image.mime_type,
            data: base64_simd::STANDARD.encode_to_string(image.data.expose()),
        }),
        ..Part::default()
    }
}

/// One answer of the model in one content, and the answers to all its calls in the next.
fn model_contents<'a>(
    items: &[ModelItem<'a>],
    request: &Request<'a>,
    profile: &Profile,
    contents: &mut Vec<Content<'a>>,
) {
    let mut parts = Vec::with_capacity(items.len());
    let mut results = Vec::new();
    for item in items {
        let is_ours = item.answer.route.takes_back(request.route);
        let signature = |opaque: &'a Option<Opaque>| {
            opaque
                .as_ref()
                .filter(|_| is_ours)
                .and_then(Opaque::thought_signature)
        };
        match &item.logged.piece {
            Piece::Text(TextPiece {
                opaque: Some(Opaque::Item(unread)),
                ..
            }) => {
                if is_ours {
                    parts.push(Part {
                        unread: Some(unread.expose()),
                        ..Part::default()
                    });
                }
            }
            Piece::Text(piece) => {
                let thought_signature = signature(&piece.opaque);
                let text = piece.text.expose();
                let is_readable = !piece.is_thought && !text.is_empty();
                if is_readable || thought_signature.is_some() {
                    parts.push(Part {
                        thought: piece.is_thought.then_some(true),
                        thought_signature,
                        ..Part::text(text.into())
                    });
                }
            }
            Piece::Call(call) => {
                let is_first = results.is_empty();
                let id = match (&call.id, profile.request.call_ids) {
                    (Some(id), _) if is_ours => Some(id.clone()),
                    (_, CallIds::AsGiven) => None,
                    (_, CallIds::Short | CallIds::Nine | CallIds::Always) => {
                        Some(own_call_id(item.answer.number, item.call_index))
                    }
                };
                let name = wire_name(&call.name);
                let reading = match &item.logged.result {
                    Some(projection) => Reading::of(&call.name, projection),
                    None => Reading::unanswered(&call.name),
                };
                parts.push(Part {
                    function_call: Some(FunctionCall {
                        id: id.clone(),
                        name: name.clone(),
                        args: Args::of(call),
                    }),
                    // Parallel calls bear one signature, on the first call.
                    thought_signature: signature(&call.opaque).or((profile
                        .request
                        .thought_signatures
                        && is_first)
                        .then_some(UNSIGNED)),
                    ..Part::default()
                });
                results.push(Part {
                    function_response: Some(FunctionResponse {
                        id,
                        name,
                        response: Response(reading),
                    }),
                    ..Part::default()
                });
            }
        }
    }
    contents.push(Content::of("model", parts));
    if !results.is_empty() {
        contents.push(Content::of("user", results));
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_content: Option<&'a str>,
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: [SystemText<'a>; 1],
}

#[derive(Serialize)]
struct SystemText<'a> {
    text: Instruction<'a>,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    #[serde(serialize_with = "parts")]
    parts: Vec<Part<'a>>,
}

impl<'a> Content<'a> {
    fn of(role: &'static str, parts: Vec<Part<'a>>) -> Self {
        Self { role, parts }
    }
}

fn parts<S: Serializer>(parts: &[Part<'_>], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(parts.len()))?;
    for part in parts {
        match part.unread {
            Some(unread) => list.serialize_element(unread)?,
            None => list.serialize_element(part)?,
        }
    }
    list.end()
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    /// The whole part as the service gave it, in place of the other fields.
    #[serde(skip)]
    unread: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Blob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<FileData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

impl<'a> Part<'a> {
    fn text(text: Cow<'a, str>) -> Self {
        Self {
            text: Some(text),
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: String,
}

/// A file that the service fetches.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileData<'a> {
    mime_type: &'a str,
    file_uri: &'a str,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Arc<str>>,
    name: Cow<'a, str>,
    args: Args<'a>,
}

/// The arguments: a JSON object; an empty one if the call has none.
pub(crate) struct Args<'a>(Option<&'a RawValue>);

impl<'a> Args<'a> {
    pub(crate) fn of(call: &'a Call) -> Self {
        Self(call.arguments.as_ref().map(Arguments::expose))
    }
}

impl Serialize for Args<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(raw) => raw.serialize(serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Arc<str>>,
    name: Cow<'a, str>,
    response: Response<'a>,
}

struct Response<'a>(Reading<'a>);

impl Serialize for Response<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let response: GeminiResponse<'_> = self.0.gemini();
        response.serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: FunctionCallingConfig,
    /// Calls and results of the service's own tools come as parts, and go back with the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    include_server_side_tool_invocations: Option<bool>,
}

#[derive(Serialize)]
struct FunctionCallingConfig {
    mode: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

impl GenerationConfig {
    fn is_empty(&self) -> bool {
        self.temperature.is_none()
            && self.max_output_tokens.is_none()
            && self.thinking_config.is_none()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ThinkingConfig {
    ThinkingLevel(ThinkingLevel),
    ThinkingBudget(u32),
}
