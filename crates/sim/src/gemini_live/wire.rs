//! Checks a client message against the protocol's field lists in one walk, and brings every field name to lowerCamelCase, because
//! protobuf JSON allows both spellings. Knows no field and no meaning of one.
//!
//! The refusals are worded like the service's own protobuf JSON errors.

use super::fields::{CLIENT_MESSAGE, Kind, Message};
use super::refusal::Refusal;
use serde_json::{Map, Value};
use std::fmt;

/// The position of the walk in a message; printed in snake_case like by the service.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => {
                if !matches!(parent, Self::Root) {
                    write!(formatter, "{parent}.")?;
                }
                for character in name.chars() {
                    if character.is_ascii_uppercase() {
                        write!(formatter, "_{}", character.to_ascii_lowercase())?;
                    } else {
                        write!(formatter, "{character}")?;
                    }
                }
                Ok(())
            }
            Self::Item(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

/// Reads one client frame: JSON of the right shape, every known name in lowerCamelCase, unset fields left out.
pub(crate) fn read(frame: &[u8]) -> Result<Map<String, Value>, Refusal> {
    let mut value: Value = serde_json::from_slice(frame)
        .map_err(|_| Refusal::invalid("Invalid JSON payload received. Parse error."))?;
    walk_message(&mut value, &CLIENT_MESSAGE, Path::Root)?;
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(Refusal::invalid_argument()),
    }
}

fn walk(value: &mut Value, kind: &'static Kind, path: Path<'_>) -> Result<(), Refusal> {
    let (fits, type_name) = match kind {
        Kind::Message(message) => return walk_message(value, message, path),
        Kind::List(item) => match value {
            Value::Array(items) => {
                for (index, entry) in items.iter_mut().enumerate() {
                    walk(entry, item, Path::Item(&path, index))?;
                }
                (true, "")
            }
            _ => (false, "LIST"),
        },
        Kind::Map(item) => match value {
            Value::Object(map) => {
                for (key, entry) in map.iter_mut() {
                    walk(entry, item, Path::Field(&path, key))?;
                }
                (true, "")
            }
            _ => (false, "MAP"),
        },
        Kind::Text => (value.is_string(), "TYPE_STRING"),
        Kind::Bool => (value.is_boolean(), "TYPE_BOOL"),
        Kind::Number => (value.is_number(), "TYPE_DOUBLE"),
        Kind::Integer => (is_integer(value), "TYPE_INT64"),
        Kind::Enumeration(names) => (
            value.as_str().is_some_and(|name| names.contains(&name)),
            "TYPE_ENUM",
        ),
        Kind::Struct => (value.is_object(), "google.protobuf.Struct"),
        Kind::Any => (true, ""),
    };
    if fits {
        Ok(())
    } else {
        Err(Refusal::invalid(format!(
            "Invalid value at '{path}' ({type_name})"
        )))
    }
}

fn is_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_i64()
                || number.is_u64()
                || number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        Value::String(text) => text.parse::<i64>().is_ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn walk_message(value: &mut Value, message: &Message, path: Path<'_>) -> Result<(), Refusal> {
    let Value::Object(map) = value else {
        return Err(Refusal::invalid(format!(
            "Invalid value at '{path}' (MESSAGE)"
        )));
    };
    // Null means unset in protobuf JSON.
    map.retain(|_, entry| !entry.is_null());
    let mut renames: Vec<(String, &'static str)> = Vec::new();
    for (key, entry) in map.iter_mut() {
        let Some((name, kind)) = message.find(key) else {
            return Err(Refusal::unknown_name(key, &path));
        };
        walk(entry, kind, Path::Field(&path, name))?;
        if key != name {
            renames.push((key.clone(), name));
        }
    }
    for (key, name) in renames {
        if let Some(entry) = map.remove(&key)
            && map.insert(name.to_owned(), entry).is_some()
        {
            return Err(Refusal::invalid(format!(
                "Invalid JSON payload received. Field '{}' is set twice.",
                Path::Field(&path, name)
            )));
        }
    }
    Ok(())
}
