//! JSON-RPC 2.0 as workers speak it: one message a line. Knows no method's meaning, no call and no process.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Bytes of an id that the worker made.
const ID_BYTES_MAX: usize = 100;
/// Characters of an error's text.
const MESSAGE_CHARACTERS_MAX: usize = 500;

pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// The code for a call that the worker has not begun.
pub(crate) const NOT_BEGUN: i32 = -32002;
/// The code for every refusal of a capability.
pub(crate) const REFUSED: i32 = -32000;

/// A line of a worker.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// The answer to a request of the server; `None` for an id that the server never gave.
    Answer(Option<u64>, Result<&'a RawValue, RpcError>),
    Request(&'a RawValue, Cow<'a, str>, &'a RawValue),
    Notification(Cow<'a, str>, &'a RawValue),
}

/// An error of either side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// An error with a code in words, which handlers look at.
    pub(crate) fn named(name: &str, message: impl Into<String>) -> Self {
        Self {
            data: Some(serde_json::json!({ "code": name })),
            ..Self::new(REFUSED, message)
        }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "even_null")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// `result: null` is a result.
fn even_null<'de: 'a, 'a, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one line. The error says why the line is no message, and quotes nothing of it.
pub(crate) fn read(line: &[u8]) -> Result<Incoming<'_>, String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| match error.is_data() {
        true => "a line has members that JSON-RPC does not have so".to_owned(),
        false => format!("a line is no JSON ({:?} error)", error.classify()),
    })?;
    let is_null = |id: &&RawValue| id.get() == "null";
    match (line.method, line.result, line.error) {
        (Some(method), None, None) => {
            let params = line.params.unwrap_or(RawValue::NULL);
            match line.id.filter(|id| !is_null(id)) {
                Some(id) if is_id(id) => Ok(Incoming::Request(id, method, params)),
                Some(_) => Err("the id of a request is no number and no short text".to_owned()),
                None => Ok(Incoming::Notification(method, params)),
            }
        }
        (None, Some(result), None) => Ok(Incoming::Answer(number(line.id), Ok(result))),
        (None, None, Some(mut error)) => {
            let length = error.message.char_indices().nth(MESSAGE_CHARACTERS_MAX);
            error
                .message
                .truncate(length.map_or(error.message.len(), |(at, _)| at));
            Ok(Incoming::Answer(number(line.id), Err(error)))
        }
        _ => Err("a line is neither a request nor an answer of JSON-RPC".to_owned()),
    }
}

fn is_id(id: &RawValue) -> bool {
    let text = id.get();
    text.len() <= ID_BYTES_MAX
        && text
            .bytes()
            .next()
            .is_some_and(|byte| byte == b'"' || byte == b'-' || byte.is_ascii_digit())
}

fn number(id: Option<&RawValue>) -> Option<u64> {
    id?.get().parse().ok()
}

/// A request or notification, without the id and the end of its line.
pub(crate) fn tail(method: &str, params: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(b"\"method\":");
    serde_json::to_writer(&mut text, method)?;
    text.extend_from_slice(b",\"params\":");
    serde_json::to_writer(&mut text, params)?;
    text.extend_from_slice(b"}\n");
    Ok(text)
}

/// A request's line.
pub(crate) fn request(id: u64, tail: &[u8]) -> Vec<u8> {
    let mut line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},").into_bytes();
    line.extend_from_slice(tail);
    line
}

/// The line that cancels a request.
pub(crate) fn cancel(id: u64) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel\",\"params\":{{\"id\":{id}}}}}\n")
        .into_bytes()
}

/// The line that answers a request of the worker.
pub(crate) fn answer(id: &RawValue, result: &Result<Value, RpcError>) -> Vec<u8> {
    let (name, value) = match result {
        Ok(value) => ("result", serde_json::to_vec(value)),
        Err(error) => ("error", serde_json::to_vec(error)),
    };
    let value = value.unwrap_or_else(|_| b"null".to_vec());
    let mut line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"{name}\":", id.get()).into_bytes();
    line.extend_from_slice(&value);
    line.extend_from_slice(b"}\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let shown = match read(line.as_bytes()) {
            Ok(incoming) => format!("{incoming:?}"),
            Err(problem) => problem,
        };
        assert!(shown.contains(expected), "{line}: {shown}");
    }

    #[test]
    fn a_line_is_an_answer_a_request_or_a_notification() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
            "Answer(Some(7), Ok(",
        );
        check(
            r#"{"id":7,"error":{"code":1,"message":"m"}}"#,
            "Answer(Some(7), Err(",
        );
        check(r#"{"id":"7","result":1}"#, "Answer(None, Ok(");
        check(r#"{"id":null,"result":1}"#, "Answer(None, Ok(");
        check(r#"{"id":"a","method":"kb.get","params":{}}"#, "Request(");
        check(
            r#"{"method":"progress","params":{}}"#,
            "Notification(\"progress\"",
        );
        check(
            r#"{"id":null,"method":"progress"}"#,
            "Notification(\"progress\"",
        );
        for (line, expected) in [
            ("", "no JSON"),
            ("hello", "no JSON"),
            ("[]", "neither a request nor an answer"),
            ("{}", "neither a request nor an answer"),
            (
                r#"{"id":1,"result":1,"error":{"code":1,"message":"m"}}"#,
                "neither",
            ),
            (r#"{"id":1,"result":1,"method":"x"}"#, "neither"),
            (r#"{"id":[1],"method":"x"}"#, "no number and no short text"),
            (r#"{"id":1,"error":"text of a user"}"#, "does not have so"),
        ] {
            check(line, expected);
        }
        let long = format!(
            r#"{{"id":1,"error":{{"code":1,"message":"{}"}}}}"#,
            "é".repeat(2_000)
        );
        let Ok(Incoming::Answer(_, Err(error))) = read(long.as_bytes()) else {
            panic!("it is an answer")
        };
        assert_eq!(error.message.chars().count(), MESSAGE_CHARACTERS_MAX);
    }
}
