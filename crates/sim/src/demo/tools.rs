//! Arguments for tools by their declarations: only declared parameters, and all required ones. Knows schemas in either of the protocol's
//! forms, not the purpose of any tool.

use crate::declaration::Declaration;
use serde_json::{Map, Value};

/// Picks the declared parameters from `wanted`; the error is a sentence about missing ones. All of `needed` must be declared for the call
/// to make sense.
pub(super) fn arguments(
    tools: &[Declaration],
    name: &str,
    needed: &[&str],
    wanted: &[(&str, Value)],
) -> Result<Map<String, Value>, String> {
    let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
        return Err(format!("no tool {name} was declared to me."));
    };
    let none = Map::new();
    let properties = tool
        .parameters
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    let mut args = Map::new();
    for (key, value) in wanted {
        if let Some(value) = properties
            .get(*key)
            .and_then(|schema| fitted(value, schema))
        {
            args.insert((*key).to_owned(), value);
        }
    }
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    for key in required.chain(needed.iter().copied()) {
        if !args.contains_key(key) {
            return Err(format!("the tool {name} wants something else than I have."));
        }
    }
    Ok(args)
}

/// Whether a tool has this parameter.
pub(super) fn takes(tools: &[Declaration], name: &str, parameter: &str) -> bool {
    let tool = tools.iter().find(|tool| tool.name == name);
    let properties = tool.and_then(|tool| tool.parameters.get("properties"));
    properties.is_some_and(|properties| properties.get(parameter).is_some())
}

/// The value fitted to the schema: one of its choices, within its length and its bounds.
fn fitted(value: &Value, schema: &Value) -> Option<Value> {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return choices.contains(value).then(|| value.clone());
    }
    let bound = |key: &str| schema.get(key).and_then(number);
    match value {
        Value::String(text) => {
            let limit = bound("maxLength").map_or(usize::MAX, |limit| limit as usize);
            Some(Value::String(text.chars().take(limit).collect()))
        }
        Value::Number(given) => {
            let given = given.as_f64()?;
            let fitted = given
                .max(bound("minimum").unwrap_or(f64::MIN))
                .min(bound("maximum").unwrap_or(f64::MAX));
            Some(if fitted.fract() == 0.0 {
                Value::from(fitted as i64)
            } else {
                Value::from(fitted)
            })
        }
        other => Some(other.clone()),
    }
}

/// Protobuf JSON may spell a 64-bit integer as a string.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_f64(),
    }
}
