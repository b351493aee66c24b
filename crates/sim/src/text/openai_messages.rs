//! The messages of a Chat Completions request: the accepted ones, and their content. Knows nothing of answers.

use super::openai_refusal::Refusal;
use super::openai_rules::is_name;
use super::plan::{Said, text_of, texts_of};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Checks the service's rule: the answers to all calls of a message follow directly after it.
pub(super) fn read_messages(messages: &[Value]) -> Result<Vec<Said>, Refusal> {
    let mut said = Vec::new();
    // Calls of the last message that wait for their answer: id and tool.
    let mut open: BTreeMap<String, String> = BTreeMap::new();
    let mut results = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let place = |name: &str| format!("messages.[{index}].{name}");
        if role != "tool" && !open.is_empty() {
            return Err(unanswered(&open).at(place("role")));
        }
        match role {
            "system" | "developer" => {}
            "user" => said.push(Said::user(texts_of(&message["content"]), "")),
            "assistant" => {
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let name = call["function"]["name"].as_str().unwrap_or_default();
                    let arguments = call["function"]["arguments"].as_str();
                    let is_sound = arguments.is_some_and(|text| {
                        serde_json::from_str::<Map<String, Value>>(text).is_ok()
                    });
                    let (Some(id), true, true) = (call["id"].as_str(), is_name(name), is_sound)
                    else {
                        let message = "Invalid tool call in 'messages'.";
                        return Err(Refusal::invalid(message).at(place("tool_calls")));
                    };
                    open.insert(id.to_owned(), name.to_owned());
                }
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                let Some(tool) = open.remove(id) else {
                    let message = "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.";
                    return Err(Refusal::invalid(message).at(place("role")));
                };
                let text = text_of(&message["content"]);
                let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
                results.push((tool, value));
                if open.is_empty() {
                    said.push(Said::Results(std::mem::take(&mut results)));
                }
            }
            other => {
                let message = format!(
                    "Invalid value: '{other}'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'."
                );
                return Err(Refusal::invalid(message).at(place("role")));
            }
        }
    }
    if open.is_empty() {
        Ok(said)
    } else {
        Err(unanswered(&open).at("messages"))
    }
}

fn unanswered(open: &BTreeMap<String, String>) -> Refusal {
    let ids: Vec<&str> = open.keys().map(String::as_str).collect();
    Refusal::invalid(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        ids.join(", ")
    ))
}
