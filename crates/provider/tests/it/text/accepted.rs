//! What a provider takes, written down apart from what we send: a request that breaks one of these rules is answered with
//! status 400 by some server or other.

use serde_json::Value;
use std::collections::BTreeSet;

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// What differs between servers of Chat Completions.
#[derive(Clone, Copy, Default)]
pub(super) struct ChatRules {
    pub(super) nine_letter_ids: bool,
    pub(super) no_user_after_tool: bool,
    pub(super) signed_calls: bool,
    pub(super) reasoned_calls: bool,
}

/// Checks the messages of a request; the text says which rule it breaks.
pub(super) fn chat(body: &Value, rules: ChatRules) -> Result<(), String> {
    let mut messages = body["messages"].as_array().ok_or("no messages")?.as_slice();
    if messages
        .first()
        .is_some_and(|first| first["role"] == "system")
    {
        messages = &messages[1..];
    }
    if messages.first().is_none_or(|first| first["role"] != "user") {
        return Err("the user does not begin".to_owned());
    }
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut before = "";
    for message in messages {
        let role = message["role"].as_str().ok_or("no role")?;
        if role != "tool" && !open.is_empty() {
            return Err(format!("{role} before every call has its answer"));
        }
        match role {
            "user" => {
                if before == "user" || (rules.no_user_after_tool && before == "tool") {
                    return Err(format!("user after {before}"));
                }
                chat_user(&message["content"])?;
            }
            "assistant" => {
                if before == "assistant" {
                    return Err("assistant after assistant".to_owned());
                }
                open = chat_assistant(message, rules)?;
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().ok_or("no tool_call_id")?;
                if !open.remove(id) {
                    return Err(format!("an answer to {id}, which was not called"));
                }
                let content = message["content"].as_str().ok_or("no content")?;
                let envelope: Value =
                    serde_json::from_str(content).map_err(|error| error.to_string())?;
                if !envelope["ok"].is_boolean() || !envelope["meta"]["toolId"].is_string() {
                    return Err(format!("no envelope: {envelope}"));
                }
            }
            other => return Err(format!("role {other}")),
        }
        before = role;
    }
    if !open.is_empty() {
        return Err(format!("calls without an answer: {open:?}"));
    }
    match before {
        "user" | "tool" => Ok(()),
        other => Err(format!("{other} at the end")),
    }
}

fn chat_user(content: &Value) -> Result<(), String> {
    let is_good = match content {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(parts) => {
            !parts.is_empty()
                && parts.iter().all(|part| match part["type"].as_str() {
                    Some("text") => part["text"].as_str().is_some_and(|text| !text.is_empty()),
                    Some("image_url") => part["image_url"]["url"]
                        .as_str()
                        .is_some_and(|url| url.starts_with("data:image/")),
                    _ => false,
                })
        }
        _ => false,
    };
    is_good.then_some(()).ok_or(format!("content {content}"))
}

fn chat_assistant(message: &Value, rules: ChatRules) -> Result<BTreeSet<&str>, String> {
    let calls = message["tool_calls"].as_array();
    match (&message["content"], calls) {
        (Value::Null, Some(calls)) if !calls.is_empty() => {}
        (Value::String(text), _) if !text.is_empty() => {}
        (content, _) => return Err(format!("content {content}")),
    }
    let mut ids = BTreeSet::new();
    for (index, call) in calls.into_iter().flatten().enumerate() {
        let id = call["id"].as_str().ok_or("no id")?;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric();
        let is_id = if rules.nine_letter_ids {
            id.len() == 9 && id.bytes().all(is_letter)
        } else {
            (1..=40).contains(&id.len())
                && id
                    .bytes()
                    .all(|byte| is_letter(byte) || matches!(byte, b'_' | b'-'))
        };
        if !is_id || !ids.insert(id) {
            return Err(format!("id {id}"));
        }
        let function = &call["function"];
        if call["type"] != "function" || !function["name"].as_str().is_some_and(is_name) {
            return Err(format!("call {call}"));
        }
        let arguments = function["arguments"].as_str().ok_or("no arguments")?;
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
            return Err(format!("arguments {arguments}"));
        }
        let signature = &call["extra_content"]["google"]["thought_signature"];
        if rules.signed_calls && index == 0 && !signature.is_string() {
            return Err("the first call is not signed".to_owned());
        }
    }
    if rules.reasoned_calls && !ids.is_empty() && !message["reasoning_content"].is_string() {
        return Err("calls without their reasoning".to_owned());
    }
    Ok(ids)
}

/// What differs between models of Gemini.
#[derive(Clone, Copy)]
pub(super) struct GeminiRules {
    pub(super) ids_everywhere: bool,
    pub(super) signed_calls: bool,
}

/// Checks the contents of a request; the text says which rule it breaks.
pub(super) fn gemini(body: &Value, rules: GeminiRules) -> Result<(), String> {
    let contents = body["contents"].as_array().ok_or("no contents")?;
    if contents.first().is_none_or(|first| first["role"] != "user") {
        return Err("the user does not begin".to_owned());
    }
    if contents.last().is_none_or(|last| last["role"] != "user") {
        return Err("the user does not end".to_owned());
    }
    let mut open: Vec<&Value> = Vec::new();
    let mut before = Kind::None;
    for content in contents {
        let parts = content["parts"].as_array().ok_or("no parts")?;
        if parts.is_empty() {
            return Err("a content without parts".to_owned());
        }
        for part in parts {
            one_thing(part)?;
        }
        let kind = kind_of(content, parts)?;
        if (kind == Kind::Responses) == open.is_empty() {
            return Err(format!("{kind:?} with {} calls open", open.len()));
        }
        match (before, kind) {
            (Kind::User, Kind::User) => return Err("user after user".to_owned()),
            (Kind::Model, Kind::Model) => return Err("model after model".to_owned()),
            _ => {}
        }
        match kind {
            Kind::Model => {
                open = parts
                    .iter()
                    .map(|part| &part["functionCall"])
                    .filter(|call| !call.is_null())
                    .collect();
                gemini_calls(parts, rules)?;
            }
            Kind::Responses => gemini_responses(&std::mem::take(&mut open), parts)?,
            Kind::User | Kind::None => {}
        }
        before = kind;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    User,
    Model,
    Responses,
}

fn kind_of(content: &Value, parts: &[Value]) -> Result<Kind, String> {
    let responses = parts
        .iter()
        .filter(|part| part["functionResponse"].is_object())
        .count();
    let has_calls = parts.iter().any(|part| part["functionCall"].is_object());
    match (content["role"].as_str(), responses) {
        (Some("model"), 0) => Ok(Kind::Model),
        (Some("user"), 0) if !has_calls => Ok(Kind::User),
        (Some("user"), all) if all == parts.len() => Ok(Kind::Responses),
        (role, _) => Err(format!("role {role:?} with {responses} responses")),
    }
}

fn one_thing(part: &Value) -> Result<(), String> {
    let things = ["text", "inlineData", "functionCall", "functionResponse"];
    let count = things
        .iter()
        .filter(|thing| !part[**thing].is_null())
        .count();
    let is_silent = part["text"] == "" && part["thoughtSignature"].is_null();
    if count != 1 || is_silent {
        return Err(format!("part {part}"));
    }
    Ok(())
}

fn gemini_calls(parts: &[Value], rules: GeminiRules) -> Result<(), String> {
    let calls = parts.iter().filter(|part| part["functionCall"].is_object());
    for (index, part) in calls.enumerate() {
        let call = &part["functionCall"];
        if !call["name"].as_str().is_some_and(is_name) || !call["args"].is_object() {
            return Err(format!("call {call}"));
        }
        if rules.ids_everywhere && call["id"].is_null() {
            return Err("a call without an id".to_owned());
        }
        if rules.signed_calls && index == 0 && !part["thoughtSignature"].is_string() {
            return Err("the first call is not signed".to_owned());
        }
    }
    Ok(())
}

fn gemini_responses(calls: &[&Value], parts: &[Value]) -> Result<(), String> {
    if calls.len() != parts.len() {
        return Err(format!("{} answers to {} calls", parts.len(), calls.len()));
    }
    for (call, part) in calls.iter().zip(parts) {
        let response = &part["functionResponse"];
        if call["id"] != response["id"] || call["name"] != response["name"] {
            return Err(format!("{response} answers {call}"));
        }
        let answer = response["response"].as_object().ok_or("no response")?;
        let is_read =
            answer.len() == 1 && (answer.contains_key("output") || answer.contains_key("error"));
        if !is_read {
            return Err(format!("response {response}"));
        }
    }
    Ok(())
}

/// Checks the steps of a request of Gemini's Interactions; the text says which rule it breaks.
pub(super) fn interactions(body: &Value) -> Result<(), String> {
    let steps = body["input"].as_array().ok_or("no input")?;
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut before = "";
    for step in steps {
        let kind = step["type"].as_str().ok_or("no type")?;
        let content = |key: &str| {
            let parts = step[key].as_array().filter(|parts| !parts.is_empty());
            parts.map(drop).ok_or(format!("an empty {key}"))
        };
        match kind {
            "user_input" if !open.is_empty() => {
                return Err("the user before every call has its result".to_owned());
            }
            "user_input" if before == kind => return Err("two inputs of the user".to_owned()),
            "user_input" | "model_output" => content("content")?,
            "thought" => {}
            "function_call" => {
                let id = step["id"].as_str().filter(|id| !id.is_empty());
                let is_sound = is_name(step["name"].as_str().unwrap_or_default())
                    && step["arguments"].is_object();
                if !is_sound || !open.insert(id.ok_or("a call without an id")?) {
                    return Err(format!("{step} is no call"));
                }
            }
            "function_result" => {
                content("result")?;
                let id = step["call_id"].as_str().ok_or("no call_id")?;
                if !open.remove(id) {
                    return Err(format!("a result of {id}, which was not called"));
                }
            }
            other => return Err(format!("a step {other}")),
        }
        before = kind;
    }
    match before {
        "user_input" | "function_result" if open.is_empty() => Ok(()),
        _ => Err(format!("{before} is the last")),
    }
}
