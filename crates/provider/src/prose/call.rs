//! Whether JSON among a model's words is a call of a declared tool. Other JSON is part of the answer, and is shown.

use serde_json::Value;
use std::sync::Arc;

pub(super) enum JsonLook {
    Call,
    /// The text may become a call.
    Part,
    None,
}

/// Names under which models write the tool, and its arguments.
const NAMES: [&str; 5] = ["name", "tool", "tool_name", "function", "recipient_name"];
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "args", "input", "tool_input"];
/// Names of members that hold a call.
const AROUND: [&str; 4] = ["tool_calls", "function", "tool_call", "function_call"];
/// Other members that may stand first.
const OTHERS: [&str; 2] = ["id", "type"];

/// Bytes from its beginning within which a call has its first key.
const AROUND_BYTES_MAX: usize = 256;

/// Looks at text that begins with a brace, a bracket or a fence. At the end of the text, an unfinished call is judged by its
/// beginning.
pub(super) fn json_look(text: &str, tools: &[Arc<str>], is_end: bool) -> JsonLook {
    let part = match is_end {
        true => JsonLook::None,
        false => JsonLook::Part,
    };
    let json = match text.strip_prefix("```") {
        None if text.starts_with('`') && "```".starts_with(text) => return part,
        None => text,
        Some(fenced) => {
            let Some((language, inner)) = fenced.split_once('\n') else {
                return match fenced.len() < 16 && fenced.bytes().all(is_of_word) {
                    true => part,
                    false => JsonLook::None,
                };
            };
            match language.trim_end().bytes().all(is_of_word) {
                true => inner,
                false => return JsonLook::None,
            }
        }
    };
    match first_key(json) {
        FirstKey::Part => return part,
        FirstKey::None => return JsonLook::None,
        FirstKey::Fits => {}
    }
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) if is_call(&value, tools) => JsonLook::Call,
        Some(Ok(_)) => JsonLook::None,
        Some(Err(error)) if error.is_eof() && !is_end => JsonLook::Part,
        Some(Err(error)) if error.is_eof() && names_one(json, tools) => JsonLook::Call,
        Some(Err(_)) | None => JsonLook::None,
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

enum FirstKey {
    Fits,
    Part,
    None,
}

/// Whether the first member of the first object is one that calls begin with. Other JSON is not held.
fn first_key(json: &str) -> FirstKey {
    let near = &json[..json.floor_char_boundary(AROUND_BYTES_MAX)];
    let opened =
        near.trim_start_matches(|sign: char| sign == '[' || sign == '{' || sign.is_whitespace());
    let Some(key) = opened.strip_prefix('"') else {
        return match opened.is_empty() && near.len() == json.len() {
            true => FirstKey::Part,
            false => FirstKey::None,
        };
    };
    let mut keys = NAMES.iter().chain(&ARGUMENTS).chain(&AROUND).chain(&OTHERS);
    match key.split_once('"') {
        Some((key, _)) if keys.any(|known| *known == key) => FirstKey::Fits,
        None if keys.any(|known| known.starts_with(key)) => FirstKey::Part,
        Some(_) | None => FirstKey::None,
    }
}

fn is_call(value: &Value, tools: &[Arc<str>]) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| is_call(item, tools)),
        Value::Object(members) => {
            let member = |names: &[&str]| names.iter().find_map(|name| members.get(*name));
            let name = NAMES.iter().find_map(|name| members.get(*name)?.as_str());
            let is_tool = name.is_some_and(|name| is_declared(name, tools));
            let has_arguments = match member(&ARGUMENTS) {
                Some(Value::Object(_) | Value::String(_)) => true,
                Some(Value::Null) | None => members.len() == 1,
                Some(_) => false,
            };
            is_tool && has_arguments
                || AROUND
                    .iter()
                    .filter_map(|name| members.get(*name))
                    .any(|inner| is_call(inner, tools))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn is_declared(name: &str, tools: &[Arc<str>]) -> bool {
    let name = name.strip_prefix("functions.").unwrap_or(name);
    tools.iter().any(|tool| **tool == *name)
}

/// Whether JSON that was cut off reaches as far as a tool's name.
fn names_one(json: &str, tools: &[Arc<str>]) -> bool {
    let mut parts = json.split('"').skip(1).step_by(2);
    let key = parts.next().unwrap_or_default();
    let value = parts.next().unwrap_or_default();
    NAMES.contains(&key) && is_declared(value, tools)
}
