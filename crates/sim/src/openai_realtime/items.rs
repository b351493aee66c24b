//! The conversation's items: the accepted ones, and the conversation that the model reads from them. Knows no time.

use super::config::Refusal;
use crate::text::plan::Said;
use serde_json::{Value, json};

/// One item, with the service's hidden facts about it.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) shown: Value,
    /// The length of an assistant message's audio.
    pub(super) audio_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct Items(Vec<Item>);

/// The most items; the service's window holds far fewer.
const ITEMS_MAX: usize = 4_096;

impl Items {
    pub(super) fn last_id(&self) -> Value {
        self.0
            .last()
            .map_or(Value::Null, |item| item.shown["id"].clone())
    }

    pub(super) fn find(&mut self, id: &str) -> Option<&mut Item> {
        self.0.iter_mut().find(|item| item.shown["id"] == id)
    }

    pub(super) fn remove(&mut self, id: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|item| item.shown["id"] != id);
        self.0.len() < before
    }

    pub(super) fn push(&mut self, shown: Value, audio_ms: u64) {
        if self.0.len() == ITEMS_MAX {
            self.0.remove(0);
        }
        self.0.push(Item { shown, audio_ms });
    }

    /// Reads the client's item; it gets this id unless it has its own.
    pub(super) fn read(&self, item: &Value, id: &str) -> Result<Value, Refusal> {
        let missing = |param: &str| {
            let message = format!("Missing required parameter: '{param}'.");
            Refusal::new("missing_required_parameter", param, message)
        };
        let mut shown = match item["type"].as_str() {
            Some("message") => read_message(item)?,
            Some("function_call") => {
                if item["name"].as_str().is_none() {
                    return Err(missing("item.name"));
                }
                item.clone()
            }
            Some("function_call_output") => {
                let Some(call_id) = item["call_id"].as_str() else {
                    return Err(missing("item.call_id"));
                };
                if item["output"].as_str().is_none() {
                    return Err(missing("item.output"));
                }
                if self.tool_of(call_id).is_none() {
                    let message = format!("Tool call ID '{call_id}' not found in conversation.");
                    return Err(Refusal::new(
                        "invalid_tool_call_id",
                        "item.call_id",
                        message,
                    ));
                }
                item.clone()
            }
            Some(_) => {
                return Err(Refusal::new(
                    "invalid_value",
                    "item.type",
                    "Invalid value for 'item.type'.",
                ));
            }
            None => return Err(missing("item.type")),
        };
        if shown["id"].as_str().is_none_or(str::is_empty) {
            shown["id"] = json!(id);
        }
        shown["object"] = json!("realtime.item");
        shown["status"] = json!("completed");
        Ok(shown)
    }

    fn tool_of(&self, call_id: &str) -> Option<&str> {
        let call = self
            .0
            .iter()
            .find(|item| item.shown["type"] == "function_call" && item.shown["call_id"] == call_id);
        call?.shown["name"].as_str()
    }

    /// The conversation for the model. Results count once they have come.
    pub(super) fn said(&self) -> Vec<Said> {
        let mut said = Vec::new();
        for item in &self.0 {
            let shown = &item.shown;
            match (shown["type"].as_str(), shown["role"].as_str()) {
                (Some("message"), Some("user")) => {
                    let content = shown["content"].as_array().into_iter().flatten();
                    let texts = content.filter_map(|part| part["text"].as_str());
                    let texts: Vec<String> = texts.map(str::to_owned).collect();
                    said.push(match texts.iter().all(String::is_empty) {
                        true => Said::Speech,
                        false => Said::user(texts, ""),
                    });
                }
                (Some("function_call_output"), _) => {
                    let call_id = shown["call_id"].as_str().unwrap_or_default();
                    let tool = self.tool_of(call_id).unwrap_or_default().to_owned();
                    let text = shown["output"].as_str().unwrap_or_default();
                    let value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
                    match said.last_mut() {
                        Some(Said::Results(results)) => results.push((tool, value)),
                        _ => said.push(Said::Results(vec![(tool, value)])),
                    }
                }
                // A call after results belongs to the next round.
                (Some("function_call"), _) if matches!(said.last(), Some(Said::Results(_))) => {
                    said.push(Said::Results(Vec::new()));
                }
                _ => {}
            }
        }
        said.retain(|said| !matches!(said, Said::Results(results) if results.is_empty()));
        said
    }
}

fn read_message(item: &Value) -> Result<Value, Refusal> {
    let kinds: &[&str] = match item["role"].as_str() {
        Some("user") => &["input_text", "input_audio", "input_image"],
        Some("system") => &["input_text"],
        Some("assistant") => &["output_text"],
        _ => {
            return Err(Refusal::new(
                "invalid_value",
                "item.role",
                "Invalid value for 'item.role'.",
            ));
        }
    };
    let content = item["content"].as_array();
    let Some(content) = content.filter(|content| !content.is_empty()) else {
        return Err(Refusal::new(
            "missing_required_parameter",
            "item.content",
            "Missing required parameter: 'item.content'.",
        ));
    };
    for (index, part) in content.iter().enumerate() {
        let kind = part["type"].as_str().unwrap_or_default();
        if kinds.contains(&kind) {
            continue;
        }
        let (code, param) = if kind == "output_audio" {
            (
                "missing_required_parameter",
                format!("item.content[{index}].text"),
            )
        } else {
            ("invalid_value", format!("item.content[{index}].type"))
        };
        let message = format!("Invalid content at '{param}'.");
        return Err(Refusal::new(code, &param, message));
    }
    Ok(item.clone())
}
