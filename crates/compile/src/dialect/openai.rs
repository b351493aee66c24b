//! Declarations for OpenAI: nested for Chat Completions, flat for Realtime. JSON Schema is passed through, except for two things that the
//! service refuses: combinators at the root of `parameters`, and arrays without `items`. Knows no other provider.

use super::Notes;
use serde_json::{Map, Value, json};
use windlass_contract::reference;
use windlass_contract::wording::pointer;

const REFUSED_AT_THE_ROOT: [&str; 5] = ["allOf", "anyOf", "enum", "not", "oneOf"];

pub(super) fn chat(id: &str, description: &str, parameters: &Value) -> Value {
    json!({
        "type": "function",
        "function": {"name": id, "description": description, "parameters": parameters},
    })
}

pub(super) fn realtime(id: &str, description: &str, parameters: &Value) -> Value {
    json!({"type": "function", "name": id, "description": description, "parameters": parameters})
}

/// The parameters as they are, except that arrays without `items` get empty ones.
pub(super) fn parameters(root: &Value, notes: &mut Notes) -> Value {
    for keyword in REFUSED_AT_THE_ROOT {
        if root.get(keyword).is_some() {
            notes.error(
                &pointer("/parameters", keyword),
                format!("OpenAI refuses `{keyword}` at the top of a tool's parameters"),
                "move it into a property, or check it in the handler",
            );
        }
    }
    with_items(root)
}

fn with_items(schema: &Value) -> Value {
    let Some(object) = schema.as_object() else {
        return schema.clone();
    };
    let mut out = Map::new();
    for (keyword, value) in object {
        let name = keyword.as_str();
        let value = if reference::SCHEMA_MAPS.contains(&name) {
            let members = value.as_object().into_iter().flatten();
            members
                .map(|(member, inner)| (member.clone(), with_items(inner)))
                .collect()
        } else if reference::SCHEMA_LISTS.contains(&name) {
            value
                .as_array()
                .into_iter()
                .flatten()
                .map(with_items)
                .collect()
        } else if reference::SCHEMAS.contains(&name) {
            with_items(value)
        } else {
            value.clone()
        };
        out.insert(keyword.clone(), value);
    }
    let is_array = match object.get("type") {
        Some(Value::String(name)) => name == "array",
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        _ => false,
    };
    if is_array && !object.contains_key("items") {
        out.insert("items".to_owned(), json!({}));
    }
    Value::Object(out)
}
