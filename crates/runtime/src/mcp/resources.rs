//! The resources and prompts of a server as a handler: they are listed and read, and nothing is changed. Reads what the server answers
//! within bounds. Knows no connection.

use super::exchange::{self, Exchange, NoAnswer};
use super::headers::written;
use super::link::{AskError, Asked, Link, UnansweredEnd};
use super::listing::{List, ListError, pages};
use super::message::{Meta, object};
use super::result::{broken, picture};
use super::server::{McpServer, Ready};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use windlass_compile::handler_file::McpResourceHandler;
use windlass_contract::arguments::Arguments;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    ContentPart, Context, Execution, Failure, Handler, Invocation, Placement, Success,
};

/// Resources or prompts that a list names; that there are more is said.
const LISTED_MAX: usize = 500;
/// Parts of a resource, or messages of a prompt, that are read.
const PARTS_MAX: usize = 1_000;
/// The error of older servers for a resource that they do not have.
const NO_SUCH_RESOURCE: i32 = -32002;

const RESOURCES: List = List {
    method: "resources/list",
    member: "resources",
};
const PROMPTS: List = List {
    method: "prompts/list",
    member: "prompts",
};
/// The members of a list's item that a model needs.
const SHOWN: [&str; 7] = [
    "uri",
    "name",
    "title",
    "description",
    "mimeType",
    "size",
    "arguments",
];

pub(super) fn handler(server: Arc<McpServer>, file: McpResourceHandler) -> Arc<dyn Handler> {
    Arc::new(McpReader(Arc::new(Inner { server, file })))
}

struct McpReader(Arc<Inner>);

struct Inner {
    server: Arc<McpServer>,
    file: McpResourceHandler,
}

impl Handler for McpReader {
    /// It only waits for its server.
    fn placement(&self) -> Placement {
        Placement::Elsewhere
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        let reader = self.0.clone();
        Execution::Pending(Box::pin(async move {
            exchange::run(&reader.server, &*reader, invocation).await
        }))
    }
}

/// The model's request.
#[derive(Debug, Deserialize)]
struct Wanted {
    action: Action,
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Vec<PromptArgument>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    ListResources,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

#[derive(Debug, Deserialize)]
struct PromptArgument {
    name: String,
    value: String,
}

#[derive(Serialize)]
struct ReadParams<'a> {
    uri: &'a str,
    #[serde(rename = "_meta")]
    meta: Meta<'a>,
}

#[derive(Serialize)]
struct PromptParams<'a> {
    name: &'a str,
    arguments: BTreeMap<&'a str, &'a str>,
    #[serde(rename = "_meta")]
    meta: Meta<'a>,
}

impl Exchange for Inner {
    fn timeout_ms(&self) -> Option<u64> {
        self.file.timeout_ms
    }

    async fn exchange(
        &self,
        ready: &Ready,
        arguments: &Arc<Arguments>,
        _context: &Context,
        until: Instant,
    ) -> Result<Success, NoAnswer> {
        let wanted: Wanted = arguments.read().map_err(|_| {
            lacking(
                "say in `action` what is to be listed or read, as the tool's description has it",
            )
        })?;
        let link = &*ready.link;
        let missing = |name: &str| lacking(&format!("`{name}` is missing, and says what is read"));
        match wanted.action {
            Action::ListResources => listed(link, &RESOURCES, until).await,
            Action::ListPrompts => listed(link, &PROMPTS, until).await,
            Action::ReadResource => {
                let uri = wanted.uri.as_deref().ok_or_else(|| missing("uri"))?;
                let meta = link.revision.meta();
                let params = ReadParams { uri, meta };
                let answer = ask(link, "resources/read", (uri, &params), until).await;
                Ok(resource(&answer.map_err(no_such_resource)?)?)
            }
            Action::GetPrompt => {
                let name = wanted.name.as_deref().ok_or_else(|| missing("name"))?;
                let arguments = wanted.arguments.iter();
                let params = PromptParams {
                    name,
                    arguments: arguments
                        .map(|argument| (argument.name.as_str(), argument.value.as_str()))
                        .collect(),
                    meta: link.revision.meta(),
                };
                let answer = ask(link, "prompts/get", (name, &params), until).await?;
                Ok(prompt(&answer)?)
            }
        }
    }
}

fn lacking(words: &str) -> Failure {
    Failure::new(FailureKind::Validation, words)
}

fn no_such_resource(error: AskError) -> NoAnswer {
    match error {
        AskError::Refused(refusal) if refusal.code == NO_SUCH_RESOURCE => {
            Failure::new(FailureKind::NotFound, "the server has no such resource").into()
        }
        error => error.into(),
    }
}

/// Asks for one thing, which servers over HTTP are told by name in a header as well.
async fn ask(
    link: &Link,
    method: &'static str,
    (name, params): (&str, &impl Serialize),
    until: Instant,
) -> Result<Box<RawValue>, AskError> {
    let mut asked = Asked::new(link.next_id(), method, params, until)?;
    if !link.is_process() {
        asked.headers.push(("Mcp-Name".to_owned(), written(name)));
    }
    asked.end = UnansweredEnd::Cancelled;
    link.ask(asked).await
}

async fn listed(link: &Link, list: &List, until: Instant) -> Result<Success, NoAnswer> {
    let mut items = Vec::new();
    let is_whole = pages(link, until, list, LISTED_MAX, &mut |mut item| {
        item.retain(|name, _| SHOWN.contains(&name.as_str()));
        items.push(Value::Object(item));
    })
    .await;
    let is_whole = is_whole.map_err(|error| match error {
        ListError::Asking(error) => NoAnswer::Asking(error),
        ListError::Unreadable(problem) => broken(problem).into(),
    })?;
    let mut data = Map::new();
    data.insert(list.member.to_owned(), items.into());
    if !is_whole {
        data.insert("more".to_owned(), true.into());
    }
    Ok(Success::new(Value::Object(data)))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadResult {
    #[serde(default)]
    result_type: Option<String>,
    #[serde(default)]
    contents: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptResult {
    #[serde(default)]
    result_type: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    messages: Vec<PromptMessage>,
}

#[derive(Debug, Deserialize)]
struct PromptMessage {
    role: String,
    content: Value,
}

/// Only what is complete is an answer.
fn is_complete(result_type: Option<&str>) -> Result<(), Failure> {
    match result_type {
        None | Some("complete") => Ok(()),
        Some("input_required") => Err(Failure::new(
            FailureKind::Permanent,
            "the server asks its user for something first, which is served for its tools alone",
        )),
        Some(_) => Err(broken(
            "the server's answer is of a kind that nobody asked for",
        )),
    }
}

/// The texts of a resource as data, its pictures as such, and of everything else that it is there.
fn resource(answer: &RawValue) -> Result<Success, Failure> {
    let result: ReadResult =
        object(answer).ok_or_else(|| broken("the server's answer is no resource"))?;
    is_complete(result.result_type.as_deref())?;
    let mut pictures = Vec::new();
    let contents = result.contents.iter().take(PARTS_MAX);
    let mut parts: Vec<Value> = contents
        .filter_map(Value::as_object)
        .filter_map(|part| piece(part, &mut pictures))
        .collect();
    let data = match parts.len() {
        0 => None,
        1 => Some(parts.remove(0)),
        _ => Some(json!({ "contents": parts })),
    };
    Ok(Success {
        content: pictures,
        ..data.map_or_else(Success::default, Success::new)
    })
}

/// One part of a resource; `None` of a picture, which goes to the pictures.
fn piece(part: &Map<String, Value>, pictures: &mut Vec<ContentPart>) -> Option<Value> {
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    let mime_type = text("mimeType").unwrap_or_default();
    let blob = text("blob");
    if let Some(picture) = blob.and_then(|blob| picture(mime_type, blob)) {
        pictures.push(picture);
        return None;
    }
    let mut piece = Map::new();
    for name in ["uri", "mimeType", "text"] {
        if let Some(text) = text(name) {
            piece.insert(name.to_owned(), text.into());
        }
    }
    // Neither a model nor a client could read it.
    if let Some(blob) = blob {
        piece.insert("bytes".to_owned(), (blob.len() / 4 * 3).into());
    }
    Some(Value::Object(piece))
}

/// The messages of a prompt, with their pictures beside them.
fn prompt(answer: &RawValue) -> Result<Success, Failure> {
    let result: PromptResult =
        object(answer).ok_or_else(|| broken("the server's answer is no prompt"))?;
    is_complete(result.result_type.as_deref())?;
    let mut pictures = Vec::new();
    let messages = result.messages.into_iter().take(PARTS_MAX);
    let messages: Vec<Value> = messages
        .map(|message| {
            let mut said = Map::from_iter([("role".to_owned(), message.role.into())]);
            let nothing = Map::new();
            let content = message.content.as_object().unwrap_or(&nothing);
            let text = |name: &str| content.get(name).and_then(Value::as_str);
            match text("type") {
                Some("text") => {
                    said.insert("text".to_owned(), text("text").unwrap_or_default().into());
                }
                Some("image") => {
                    let data = text("data").unwrap_or_default();
                    pictures.extend(picture(text("mimeType").unwrap_or_default(), data));
                    said.insert("picture".to_owned(), true.into());
                }
                Some("resource") => {
                    let part = content.get("resource").and_then(Value::as_object);
                    let piece = part.and_then(|part| piece(part, &mut pictures));
                    said.insert("resource".to_owned(), piece.into());
                }
                Some("resource_link") => {
                    let mut link = content.clone();
                    link.retain(|name, _| SHOWN.contains(&name.as_str()));
                    said.insert("resource".to_owned(), link.into());
                }
                kind => {
                    let kind: String = kind.unwrap_or("nothing").chars().take(40).collect();
                    said.insert("leftOut".to_owned(), kind.into());
                }
            }
            Value::Object(said)
        })
        .collect();
    let mut data = Map::new();
    if let Some(description) = result.description {
        data.insert("description".to_owned(), description.into());
    }
    data.insert("messages".to_owned(), messages.into());
    Ok(Success {
        content: pictures,
        ..Success::new(Value::Object(data))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_contract::handler::Cause;

    fn shown(read: Result<Success, Failure>) -> String {
        match read {
            Ok(success) => {
                let data = serde_json::to_value(&success.data).expect("it is JSON");
                format!("{data} {}", success.content.len())
            }
            Err(Failure {
                cause: Cause::Reported(report),
                ..
            }) => format!("{:?}", report.kind),
            Err(Failure {
                cause: Cause::Broken(problem),
                ..
            }) => format!("broken: {problem}"),
        }
    }

    fn check(
        read: fn(&RawValue) -> Result<Success, Failure>,
        cases: impl IntoIterator<Item = (Value, &'static str)>,
    ) {
        for (answer, expected) in cases {
            let answer = serde_json::value::to_raw_value(&answer).expect("it is JSON");
            assert_eq!(shown(read(&answer)), expected, "{answer}");
        }
    }

    #[test]
    fn a_resource_is_its_text_its_pictures_and_the_size_of_what_nobody_reads() {
        check(
            resource,
            [
                (
                    json!({"contents": [{"uri": "a:1", "mimeType": "text/plain", "text": "Hi", "_meta": {}}]}),
                    r#"{"mimeType":"text/plain","text":"Hi","uri":"a:1"} 0"#,
                ),
                (
                    json!({"resultType": "complete", "contents": [
                        {"uri": "a:1", "text": "one"}, {"uri": "a:2", "text": "two"}]}),
                    r#"{"contents":[{"text":"one","uri":"a:1"},{"text":"two","uri":"a:2"}]} 0"#,
                ),
                (
                    json!({"contents": [{"uri": "a:1", "mimeType": "image/png", "blob": "iVBO"}]}),
                    "null 1",
                ),
                (
                    json!({"contents": [{"uri": "a:1", "mimeType": "application/pdf", "blob": "JVBERi0x"}]}),
                    r#"{"bytes":6,"mimeType":"application/pdf","uri":"a:1"} 0"#,
                ),
                (json!({"contents": []}), "null 0"),
                (json!({"contents": [1, "x", null]}), "null 0"),
                (json!({"resultType": "input_required"}), "Permanent"),
                (
                    json!({"resultType": "task"}),
                    "broken: the server's answer is of a kind that nobody asked for",
                ),
                (json!([]), "broken: the server's answer is no resource"),
                (
                    json!({"contents": "x"}),
                    "broken: the server's answer is no resource",
                ),
            ],
        );
    }

    #[test]
    fn a_prompt_is_its_messages() {
        check(
            prompt,
            [
                (
                    json!({"description": "Asks.", "messages": [
                        {"role": "user", "content": {"type": "text", "text": "Review this"}},
                        {"role": "assistant", "content": {"type": "image", "mimeType": "image/png", "data": "iVBO"}},
                        {"role": "user", "content": {"type": "resource", "resource": {"uri": "a:1", "text": "x"}}},
                        {"role": "user", "content": {"type": "resource_link", "uri": "a:2", "name": "n", "icons": []}},
                        {"role": "user", "content": {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}}]}),
                    r#"{"description":"Asks.","messages":[{"role":"user","text":"Review this"},{"picture":true,"role":"assistant"},{"resource":{"text":"x","uri":"a:1"},"role":"user"},{"resource":{"name":"n","uri":"a:2"},"role":"user"},{"leftOut":"audio","role":"user"}]} 1"#,
                ),
                (json!({"messages": []}), r#"{"messages":[]} 0"#),
                (json!({"resultType": "input_required"}), "Permanent"),
                (
                    json!({"messages": [{"role": "user"}]}),
                    "broken: the server's answer is no prompt",
                ),
            ],
        );
    }
}
