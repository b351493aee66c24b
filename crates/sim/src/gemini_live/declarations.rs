//! The tools of a session, accepted or refused like by the service: names, behaviours and Gemini's `Schema` subset. Knows nothing of
//! calls.

use super::profile::{CallRule, Profile};
use super::refusal::Refusal;
use crate::declaration::Declaration;
use crate::family::Family;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The service's own messages name 64; newer SDK texts say 128, which no recorded answer confirms.
const NAME_CHARACTERS_MAX: usize = 64;
/// The limit of `generateContent`.
const DECLARATIONS_MAX: usize = 512;
/// The deepest nesting; beyond it the service reports that the schema exceeds the maximum allowed depth. The number is ours.
const DEPTH_MAX: usize = 32;

/// Reads `tools`, whose field names were checked before.
pub(crate) fn read(tools: &[Value], profile: &Profile) -> Result<Vec<Declaration>, Refusal> {
    let mut declarations = Vec::new();
    let mut names = BTreeSet::new();
    let mut searches = false;
    for (tool_index, tool) in tools.iter().enumerate() {
        refuse_unsupported(tool, profile)?;
        if tool.get("googleSearch").is_some() {
            searches = true;
        }
        let functions = tool.get("functionDeclarations").and_then(Value::as_array);
        for (index, function) in functions.into_iter().flatten().enumerate() {
            let place = format!("setup.tools[{tool_index}].function_declarations[{index}]");
            let declaration = read_one(function, profile, &place)?;
            if !names.insert(declaration.name.clone()) {
                return Err(Refusal::invalid(format!(
                    "Duplicate function declaration found: {}",
                    declaration.name
                )));
            }
            declarations.push(declaration);
        }
    }
    if searches && !declarations.is_empty() && profile.family == Family::Native25 {
        return Err(Refusal::invalid_argument());
    }
    if declarations.len() > DECLARATIONS_MAX {
        return Err(Refusal::invalid_argument());
    }
    Ok(declarations)
}

fn refuse_unsupported(tool: &Value, profile: &Profile) -> Result<(), Refusal> {
    let refused = |what: &str| {
        Err(Refusal::invalid(format!(
            "{what} tool is not supported for this model"
        )))
    };
    // The 3.1 models accept these two without any effect.
    if profile.family != Family::Flash31 {
        if tool.get("codeExecution").is_some() {
            return refused("Code Execution");
        }
        if tool.get("urlContext").is_some() && profile.family != Family::Native25 {
            return refused("URL Context");
        }
    }
    Ok(())
}

fn read_one(function: &Value, profile: &Profile, place: &str) -> Result<Declaration, Refusal> {
    let text = |key: &str| function.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    if !is_function_name(name) {
        return Err(Refusal::invalid(format!(
            "Invalid function name at '{place}.name'. Must start with a letter or an underscore."
        )));
    }
    let (schema, json_schema) = (
        function.get("parameters"),
        function.get("parametersJsonSchema"),
    );
    if schema.is_some() && json_schema.is_some() {
        return Err(Refusal::invalid(format!(
            "Only one of 'parameters' and 'parameters_json_schema' may be set at '{place}'."
        )));
    }
    if let Some(schema) = schema {
        check_schema(schema, profile, &format!("{place}.parameters"), 0)?;
    }
    if let Some(schema) = function.get("response") {
        check_schema(schema, profile, &format!("{place}.response"), 0)?;
    }
    let behavior = text("behavior").filter(|behavior| *behavior != "UNSPECIFIED");
    if profile.calls == CallRule::NonBlockingAlways && behavior == Some("BLOCKING") {
        return Err(Refusal::invalid(
            "Blocking function calling is not supported for this model",
        ));
    }
    Ok(Declaration {
        name: name.to_owned(),
        description: text("description").unwrap_or_default().to_owned(),
        parameters: schema.or(json_schema).cloned().unwrap_or(Value::Null),
        json_schema: json_schema.is_some(),
        blocking: profile.blocks(behavior),
    })
}

fn is_function_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|other| other.is_ascii_alphanumeric() || "_.:-".contains(other))
        && name.len() <= NAME_CHARACTERS_MAX
}

/// The rules beyond the list of fields: types, formats, and allowed combinations of fields.
fn check_schema(
    schema: &Value,
    profile: &Profile,
    place: &str,
    depth: usize,
) -> Result<(), Refusal> {
    if depth > DEPTH_MAX {
        return Err(Refusal::invalid(
            "The specified schema exceeds the maximum allowed nesting depth.",
        ));
    }
    let Some(fields) = schema.as_object() else {
        return Err(Refusal::invalid_argument());
    };
    if !profile.vertex {
        for name in ["additionalProperties", "defs", "ref"] {
            if fields.contains_key(name) {
                return Err(Refusal::unknown_name(name, &place));
            }
        }
    }
    check_type(fields, place)?;
    let nested = |schema: &Value, step: String| {
        check_schema(schema, profile, &format!("{place}.{step}"), depth + 1)
    };
    if let Some(items) = fields.get("items") {
        nested(items, "items".to_owned())?;
    }
    for (name, property) in fields
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        nested(property, format!("properties[{name}]"))?;
    }
    for (index, branch) in fields
        .get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        nested(branch, format!("any_of[{index}]"))?;
    }
    Ok(())
}

fn check_type(fields: &Map<String, Value>, place: &str) -> Result<(), Refusal> {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let kind = text("type").map(str::to_ascii_uppercase);
    let format = text("format");
    let formats: &[&str] = match kind.as_deref() {
        Some("STRING") => &["enum", "date-time"],
        Some("NUMBER") => &["float", "double"],
        Some("INTEGER") => &["int32", "int64"],
        Some("BOOLEAN" | "OBJECT" | "NULL" | "TYPE_UNSPECIFIED") | None => &[],
        Some("ARRAY") => {
            if !fields.contains_key("items") {
                return Err(Refusal::invalid(format!("{place}.items: missing field.")));
            }
            &[]
        }
        Some(_) => {
            return Err(Refusal::invalid(format!(
                "Invalid value at '{place}.type' (TYPE_ENUM)"
            )));
        }
    };
    if let Some(format) = format
        && kind.is_some()
        && !formats.contains(&format)
    {
        return Err(Refusal::invalid(format!(
            "{place}.format: unsupported format"
        )));
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    let required = fields.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !properties.is_some_and(|properties| properties.contains_key(name)) {
            return Err(Refusal::invalid(format!(
                "{place}.required: property is not defined"
            )));
        }
    }
    Ok(())
}
