//! Knows at a glance that a schema is JSON Schema 2020-12 and compiles: the quick judge of schemas, as its neighbour is of
//! values. It says either "surely sound" or "ask the validator crate"; so most tools are compiled and loaded without it.

use serde_json::{Map, Value};

/// Whether every keyword is one of the plain ones and has a value of its kind. References, patterns, conditions and all
/// that is rare are left to the validator crate. The caller has bounded the depth.
pub(super) fn is_surely_sound(schema: &Value) -> bool {
    match schema {
        Value::Bool(_) => true,
        Value::Object(keywords) => keywords
            .iter()
            .all(|(keyword, value)| is_plain(keyword, value)),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

fn is_plain(keyword: &str, value: &Value) -> bool {
    match keyword {
        "title" | "description" | "$comment" | "format" => value.is_string(),
        "default" | "const" => true,
        "examples" => value.is_array(),
        "enum" => value.as_array().is_some_and(|choices| !choices.is_empty()),
        "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => value.is_boolean(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|step| step > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "type" => is_type(value),
        "required" => is_list_of_names(value),
        "properties" => value.as_object().is_some_and(are_surely_sound),
        "items" | "additionalProperties" => is_surely_sound(value),
        _ => false,
    }
}

fn are_surely_sound(schemas: &Map<String, Value>) -> bool {
    schemas.values().all(is_surely_sound)
}

fn is_type(value: &Value) -> bool {
    const TYPES: [&str; 7] = [
        "array", "boolean", "integer", "null", "number", "object", "string",
    ];
    let is_name = |name: &str| TYPES.contains(&name);
    match value {
        Value::String(name) => is_name(name),
        Value::Array(names) => {
            !names.is_empty()
                && is_list_of_names(value)
                && names.iter().all(|name| name.as_str().is_some_and(is_name))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// Strings without repeats. Lists are short, so that looking at each pair costs less than a set.
fn is_list_of_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| {
        names
            .iter()
            .enumerate()
            .all(|(index, name)| name.is_string() && !names[..index].contains(name))
    })
}
