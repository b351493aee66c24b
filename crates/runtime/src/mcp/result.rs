//! Reads a server's answer to a call: data, pictures, or a failure. Knows no connection.

use super::input::{InputRequired, Wanted};
use super::link::AskError;
use super::message::{is_not_carried_out, object};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_compile::handler_file::{status_failure, unanswered};
use windlass_contract::characters::steers;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Cause, ContentPart, Failure, FetchError, Report, Success};

/// Characters of a server's own words about a failure.
const WORDS_MAX: usize = 2_000;
/// Parts of one answer that are read.
const PARTS_MAX: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    /// Not said by older servers.
    #[serde(default)]
    result_type: Option<String>,
    #[serde(default)]
    content: Vec<Value>,
    #[serde(default)]
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: Option<bool>,
}

/// The outcome of a call that was answered.
pub(super) fn read(answer: &RawValue, server: &str) -> Result<Success, NotDone> {
    let Some(result) = object::<CallResult>(answer) else {
        return Err(broken("the server's answer is no result of a tool").into());
    };
    match result.result_type.as_deref() {
        None | Some("complete") => {}
        Some("input_required") => return Err(asked(answer, server)),
        Some(_) => {
            return Err(broken("the server's answer is of a kind that nobody asked for").into());
        }
    }
    let parts = Parts::of(result.content);
    if result.is_error == Some(true) {
        let words = match parts.text.is_empty() {
            true => "the tool failed, and did not say why".to_owned(),
            false => words_of(&parts.text.join("\n")),
        };
        return Err(Failure::new(FailureKind::Permanent, words).into());
    }
    Ok(parts.success(result.structured_content))
}

/// Why a call that was answered has no result.
#[derive(Debug)]
pub(super) enum NotDone {
    /// The server wants the same call once more, with this.
    Again(String),
    Failed(Failure),
}

impl From<Failure> for NotDone {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The server's question before it goes on. The protocol does not promise that nothing was done until then: a change that is left so is in
/// doubt.
fn asked(answer: &RawValue, server: &str) -> NotDone {
    let required: Option<InputRequired> = object(answer);
    let (input, problem) = match required.map(|required| required.wanted(server)) {
        Some(Ok(Wanted::Again(state))) => return NotDone::Again(state),
        Some(Ok(Wanted::Input(input))) => (
            Some(input),
            "the server asks its user something, and nobody can be asked here",
        ),
        Some(Err(problem)) => (None, problem),
        None => (None, "the server asks what cannot be read"),
    };
    let report = Report {
        partial_side_effects: Some(true),
        input,
        ..Report::new(FailureKind::Permanent, problem)
    };
    NotDone::Failed(report.into())
}

/// The failure of a call that has no result.
pub(super) fn failure(error: &AskError, writes: bool) -> Failure {
    match error {
        AskError::NotSent(_) | AskError::SessionOver => {
            not_begun("the tool's server cannot be reached")
        }
        AskError::Lost(problem) => unanswered(&FetchError::Unanswered(problem.clone())).into(),
        AskError::Status(answer) => status_failure(answer, writes).into(),
        AskError::Refused(refusal) => {
            let words = words_of(&refusal.message);
            match is_not_carried_out(refusal.code) {
                true => Report {
                    partial_side_effects: writes.then_some(false),
                    ..Report::new(
                        FailureKind::Permanent,
                        format!("the tool's server refused the call: {words}"),
                    )
                }
                .into(),
                // It may have begun: of a change nobody knows.
                false => Failure::new(
                    FailureKind::Transient,
                    format!("the tool's server failed: {words}"),
                ),
            }
        }
    }
}

/// The failure of a call before anything was sent.
pub(super) fn not_begun(words: &str) -> Failure {
    Report {
        partial_side_effects: Some(false),
        ..Report::new(FailureKind::Transient, words)
    }
    .into()
}

pub(super) fn broken(problem: &str) -> Failure {
    Failure {
        cause: Cause::Broken(problem.to_owned()),
        intents: Vec::new(),
    }
}

/// A server's words: no longer than a failure needs, and nothing that could hide a part of them.
fn words_of(text: &str) -> String {
    let kept = |character: &char| *character == '\n' || !steers(*character);
    let words: String = text.trim().chars().filter(kept).take(WORDS_MAX).collect();
    match words.is_empty() {
        true => "it gave no reason".to_owned(),
        false => words,
    }
}

/// The content of an answer, told apart.
#[derive(Default)]
struct Parts {
    text: Vec<String>,
    pictures: Vec<ContentPart>,
    /// All other parts, as the server wrote them. The check of every result takes out their base64.
    others: Vec<Value>,
}

impl Parts {
    fn of(content: Vec<Value>) -> Self {
        let mut parts = Self::default();
        for part in content.into_iter().take(PARTS_MAX) {
            let Value::Object(mut part) = part else {
                continue;
            };
            // For machines on the other side.
            part.remove("_meta");
            match part.get("type").and_then(Value::as_str) {
                Some("text") => {
                    if let Some(Value::String(text)) = part.remove("text") {
                        parts.text.push(text);
                    }
                }
                Some("image") => match picture_of(&part) {
                    Some(picture) => parts.pictures.push(picture),
                    None => parts.others.push(Value::Object(part)),
                },
                _ => parts.others.push(Value::Object(part)),
            }
        }
        parts
    }

    fn success(self, structured: Option<Value>) -> Success {
        let Self {
            mut text,
            pictures,
            others,
        } = self;
        // Servers write structured content a second time, as a text for those that do not know it.
        let said = match (
            structured.filter(|structured| !structured.is_null()),
            text.len(),
        ) {
            (Some(structured), _) => Some(structured),
            (None, 0) => None,
            (None, 1) => Some(as_data(text.remove(0))),
            (None, _) => Some(text.join("\n").into()),
        };
        let data = match (said, others.is_empty()) {
            (said, true) => said,
            (Some(said), false) => Some(json!({ "result": said, "resources": others })),
            (None, false) => Some(json!({ "resources": others })),
        };
        Success {
            content: pictures,
            ..data.map_or_else(Success::default, Success::new)
        }
    }
}

/// A text that is an object or a list in JSON as what it is.
fn as_data(text: String) -> Value {
    let is_likely = text.trim_start().starts_with(['{', '[']);
    let read = is_likely.then(|| serde_json::from_str::<Value>(&text).ok());
    match read.flatten() {
        Some(data @ (Value::Object(_) | Value::Array(_))) => data,
        _ => text.into(),
    }
}

fn picture_of(part: &Map<String, Value>) -> Option<ContentPart> {
    picture(part.get("mimeType")?.as_str()?, part.get("data")?.as_str()?)
}

/// Bytes in base64 as a picture, where their type says that they are one.
pub(super) fn picture(mime_type: &str, data: &str) -> Option<ContentPart> {
    let is_picture = mime_type.strip_prefix("image/").is_some_and(|kind| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
        (1..=64).contains(&kind.len()) && kind.bytes().all(fits)
    });
    is_picture.then(|| ContentPart::Image {
        mime_type: mime_type.to_owned(),
        url: format!("data:{mime_type};base64,{data}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::wire::RpcError;
    use windlass_contract::handler::{HandlerResult, HttpAnswer};

    /// Data and pictures, or the kind of failure with its words.
    fn shown(result: HandlerResult) -> String {
        match result {
            Ok(success) => {
                let data = serde_json::to_value(&success.data).expect("it is JSON");
                let pictures = success.content.len();
                format!("{data} {pictures}")
            }
            Err(Failure {
                cause: Cause::Reported(report),
                ..
            }) => format!(
                "{:?} {:?} {}",
                report.kind, report.partial_side_effects, report.message
            ),
            Err(Failure {
                cause: Cause::Broken(problem),
                ..
            }) => format!("broken: {problem}"),
        }
    }

    #[test]
    fn what_a_server_answers_becomes_data_pictures_or_a_failure() {
        for (answer, expected) in [
            (json!({"content": []}), "null 0"),
            (
                json!({"content": [{"type": "text", "text": "Hello"}]}),
                "\"Hello\" 0",
            ),
            (
                json!({"content": [{"type": "text", "text": "{\"n\": 1.50}"}]}),
                "{\"n\":1.50} 0",
            ),
            (
                json!({"content": [{"type": "text", "text": "{no json"}]}),
                "\"{no json\" 0",
            ),
            (
                json!({"content": [{"type": "text", "text": "7"}]}),
                "\"7\" 0",
            ),
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
                "\"a\\nb\" 0",
            ),
            (
                json!({"content": [{"type": "text", "text": "{\"n\":1}"}], "structuredContent": {"n": 1}}),
                "{\"n\":1} 0",
            ),
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "image", "mimeType": "image/png", "data": "iVBO"}]}),
                "\"a\" 1",
            ),
            (
                json!({"content": [{"type": "image", "mimeType": "text/html;x", "data": "iVBO"}]}),
                "{\"resources\":[{\"data\":\"iVBO\",\"mimeType\":\"text/html;x\",\"type\":\"image\"}]} 0",
            ),
            (
                json!({"content": [{"type": "text", "text": "a"},
                    {"type": "resource_link", "uri": "file:///a", "name": "a", "_meta": {"x": 1}}]}),
                "{\"resources\":[{\"name\":\"a\",\"type\":\"resource_link\",\"uri\":\"file:///a\"}],\"result\":\"a\"} 0",
            ),
            (
                json!({"content": [{"type": "text", "text": "No such\u{202e} file"}], "isError": true}),
                "Permanent None No such file",
            ),
            (
                json!({"content": [], "isError": true}),
                "Permanent None the tool failed, and did not say why",
            ),
            (
                json!({"resultType": "input_required", "inputRequests": {}}),
                "Permanent Some(true) the server asks for nothing, and does not go on",
            ),
            (
                json!({"resultType": "input_required", "requestState": "s"}),
                "again s",
            ),
            (
                json!({"resultType": "input_required", "inputRequests": {"k": {"method": "elicitation/create",
                    "params": {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}}}}),
                "Permanent Some(true) the server asks its user something, and nobody can be asked here",
            ),
            (
                json!({"resultType": "input_required", "inputRequests": []}),
                "Permanent Some(true) the server asks what cannot be read",
            ),
            (
                json!({"resultType": "task", "task": {}}),
                "broken: the server's answer is of a kind that nobody asked for",
            ),
            (
                json!([]),
                "broken: the server's answer is no result of a tool",
            ),
            (
                json!(null),
                "broken: the server's answer is no result of a tool",
            ),
        ] {
            let answer = serde_json::value::to_raw_value(&answer).expect("it is JSON");
            let shown = match read(&answer, "shop") {
                Ok(success) => shown(Ok(success)),
                Err(NotDone::Failed(failure)) => shown(Err(failure)),
                Err(NotDone::Again(state)) => format!("again {state}"),
            };
            assert_eq!(shown, expected, "{answer}");
        }
    }

    #[test]
    fn only_what_proves_it_says_that_a_change_was_not_made() {
        let refused = |code| AskError::Refused(RpcError::new(code, "so it is"));
        let status = |status| {
            AskError::Status(Box::new(HttpAnswer {
                status,
                url: String::new(),
                headers: Vec::new(),
                body: Ok(Vec::new()),
            }))
        };
        for (error, expected) in [
            (
                AskError::NotSent("x".to_owned()),
                "Transient Some(false) the tool's server cannot be reached",
            ),
            (
                AskError::SessionOver,
                "Transient Some(false) the tool's server cannot be reached",
            ),
            (
                AskError::Lost("x".to_owned()),
                "Transient None the service did not answer",
            ),
            (
                refused(-32602),
                "Permanent Some(false) the tool's server refused the call: so it is",
            ),
            (
                refused(-32022),
                "Permanent Some(false) the tool's server refused the call: so it is",
            ),
            (
                refused(-32603),
                "Transient None the tool's server failed: so it is",
            ),
            (
                refused(1),
                "Transient None the tool's server failed: so it is",
            ),
            (status(401), "Auth Some(false) the service answered 401"),
            (status(502), "Transient Some(true) the service answered 502"),
            (status(302), "Permanent Some(true) the service answered 302"),
        ] {
            assert_eq!(shown(Err(failure(&error, true))), expected, "{error:?}");
        }
    }
}
