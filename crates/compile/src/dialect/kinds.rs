//! The types of value that a schema and its keywords apply to. Knows no provider.

use serde_json::{Map, Value};

/// The types that a schema names.
pub(crate) fn kinds_of(object: &Map<String, Value>) -> Vec<&str> {
    match object.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The type of a schema without a type and choices, by its keywords; `None` where no keyword has a type.
pub(super) fn kind_by_keywords(object: &Map<String, Value>) -> Option<&'static str> {
    ["object", "array", "number", "string"]
        .into_iter()
        .find(|kind| {
            object
                .keys()
                .any(|keyword| type_of_keyword(keyword).is_some_and(|of| of == *kind))
        })
}

/// The types of the choices of a schema without a type; empty where it has no choices.
pub(crate) fn kinds_of_choices(object: &Map<String, Value>) -> Vec<&'static str> {
    let choices = match (object.get("enum"), object.get("const")) {
        (_, Some(only)) => std::slice::from_ref(only),
        (Some(choices), None) => choices.as_array().map_or(&[][..], Vec::as_slice),
        (None, None) => &[],
    };
    let mut kinds: Vec<&str> = Vec::new();
    for choice in choices {
        let kind = match choice {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.contains(&"number") {
        kinds.retain(|kind| *kind != "integer");
    }
    kinds
}

pub(super) fn is_of_kind(value: &Value, kind: &str) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::Number(number) => {
            kind == "number" || (kind == "integer" && windlass_contract::number::is_whole(number))
        }
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
    }
}

/// The type that a keyword applies to.
fn type_of_keyword(keyword: &str) -> Option<&'static str> {
    match keyword {
        "properties"
        | "required"
        | "additionalProperties"
        | "patternProperties"
        | "propertyNames"
        | "minProperties"
        | "maxProperties"
        | "dependentRequired"
        | "dependentSchemas"
        | "unevaluatedProperties" => Some("object"),
        "items" | "prefixItems" | "contains" | "minContains" | "maxContains" | "minItems"
        | "maxItems" | "uniqueItems" | "unevaluatedItems" => Some("array"),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            Some("number")
        }
        "minLength" | "maxLength" | "pattern" | "format" => Some("string"),
        _ => None,
    }
}

pub(super) fn belongs_to_other_type(keyword: &str, kind: &str) -> bool {
    let kind = if kind == "integer" { "number" } else { kind };
    type_of_keyword(keyword).is_some_and(|of| of != kind)
}
