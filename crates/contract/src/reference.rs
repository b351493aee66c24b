//! All rules of a schema for a value: its own, those behind a `$ref`, and those in an `allOf`. Knows the document alone; reports nothing.

use serde_json::{Map, Value};

/// Keywords whose value is an object of schemas.
pub const SCHEMA_MAPS: [&str; 4] = [
    "$defs",
    "dependentSchemas",
    "patternProperties",
    "properties",
];
/// Keywords whose value is a list of schemas.
pub const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is one schema.
pub const SCHEMAS: [&str; 11] = [
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// The most schemas that apply to one value; the limits of a whole schema exclude more.
const PARTS_MAX: usize = 256;

/// The target of a local reference: `#`, a JSON pointer behind `#`, or an anchor.
pub fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let fragment = percent_decode(reference.strip_prefix('#')?)?;
    let target = if fragment.is_empty() || fragment.starts_with('/') {
        root.pointer(&fragment)?
    } else {
        find_anchor(root, &fragment)?
    };
    (target.is_object() || target.is_boolean()).then_some(target)
}

fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

fn find_anchor<'s>(value: &'s Value, anchor: &str) -> Option<&'s Value> {
    match value {
        Value::Object(object) => {
            if object.get("$anchor").and_then(Value::as_str) == Some(anchor) {
                return Some(value);
            }
            object.values().find_map(|inner| find_anchor(inner, anchor))
        }
        Value::Array(items) => items.iter().find_map(|inner| find_anchor(inner, anchor)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Whether a reference leads back to itself, directly or through others: written out, it would have no end.
pub fn leads_to_itself(root: &Value, reference: &str) -> bool {
    let mut found = vec![reference];
    let mut next = 0;
    while let Some(named) = found.get(next).copied() {
        next += 1;
        let mut named_there = Vec::new();
        if let Some(target) = resolve(root, named) {
            references_in(target, &mut named_there);
        }
        if named_there.contains(&reference) {
            return true;
        }
        named_there.retain(|name| !found.contains(name));
        found.extend(named_there);
    }
    false
}

/// The references of a schema and of those inside it.
fn references_in<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
    for (keyword, value) in schema.as_object().into_iter().flatten() {
        let keyword = keyword.as_str();
        if let ("$ref", Some(reference)) = (keyword, value.as_str()) {
            found.push(reference);
        } else if SCHEMA_MAPS.contains(&keyword) {
            let members = value.as_object().into_iter().flatten();
            members.for_each(|(_, inner)| references_in(inner, found));
        } else if SCHEMA_LISTS.contains(&keyword) {
            let items = value.as_array().into_iter().flatten();
            items.for_each(|inner| references_in(inner, found));
        } else if SCHEMAS.contains(&keyword) {
            references_in(value, found);
        }
    }
}

/// All schemas that always hold for a value of these schemas, the schemas themselves before their targets. A schema that is reached again
/// is left out.
pub fn parts<'s>(root: &'s Value, schemas: &[&'s Value]) -> Vec<&'s Map<String, Value>> {
    let mut parts = Vec::with_capacity(schemas.len());
    for schema in schemas {
        gather(root, schema, &mut parts);
    }
    parts
}

fn gather<'s>(root: &'s Value, schema: &'s Value, parts: &mut Vec<&'s Map<String, Value>>) {
    let Some(object) = schema.as_object() else {
        return;
    };
    let is_known = || parts.iter().any(|part| std::ptr::eq(*part, object));
    if parts.len() >= PARTS_MAX || is_known() {
        return;
    }
    parts.push(object);
    if let Some(target) = object
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| resolve(root, reference))
    {
        gather(root, target, parts);
    }
    if let Some(Value::Array(all)) = object.get("allOf") {
        for part in all {
            gather(root, part, parts);
        }
    }
}

/// The default of a schema: its own, else the first behind its reference or in its `allOf`.
pub fn default_of<'s>(root: &'s Value, schema: &'s Value) -> Option<&'s Value> {
    parts(root, &[schema])
        .into_iter()
        .find_map(|part| part.get("default"))
}

/// All schemas that hold for the argument of a JSON pointer, through properties and items. `None` for an unknown argument.
pub fn parameter<'s>(root: &'s Value, pointer: &str) -> Option<Vec<&'s Map<String, Value>>> {
    if !pointer.starts_with('/') {
        return None;
    }
    let mut schemas = vec![root];
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let is_item = token == "*" || token.parse::<usize>().is_ok();
        let here = parts(root, &schemas);
        schemas = here
            .iter()
            .filter_map(|part| part.get("properties")?.get(&token))
            .collect();
        if schemas.is_empty() && is_item {
            schemas = here.iter().filter_map(|part| part.get("items")).collect();
        }
        if schemas.is_empty() {
            return None;
        }
    }
    Some(parts(root, &schemas))
}

/// Whether one of two JSON pointers names the other's value or a part of it. `*` stands for every item.
pub fn overlap(left: &str, right: &str) -> bool {
    let tokens =
        |pointer: &str| -> Vec<String> { pointer.split('/').skip(1).map(str::to_owned).collect() };
    tokens(left)
        .iter()
        .zip(&tokens(right))
        .all(|(left, right)| left == right || left == "*" || right == "*")
}

/// The name that a segment of a JSON pointer stands for.
pub fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The argument that a pointer of `effectKey` or `remember` names.
pub fn argument_of(pointer: &str) -> String {
    unescaped(pointer.strip_prefix('/').unwrap_or(pointer))
}
