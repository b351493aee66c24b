//! JSON for this system: strict parsing, positions in a text, and the canonical form behind every hash.

use crate::number;
use crate::wording::brief;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// The reason why a text is no acceptable JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (line {line}, column {column})")]
pub struct ParseError {
    pub message: String,
    /// From 1.
    pub line: usize,
    /// From 1, in bytes.
    pub column: usize,
}

/// Parses one JSON value. An object with a repeated key is an error: whichever value counts, the other may have been meant.
pub fn parse(text: &[u8]) -> Result<Value, ParseError> {
    serde_json::from_slice::<Strict>(text)
        .map(|strict| strict.0)
        .map_err(|error| problem(&error))
}

/// Reads a type of the caller; as strictly as [`parse`] if it is made of [`Strict`] and [`Members`].
pub fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, ParseError> {
    serde_json::from_str(text).map_err(|error| problem(&error))
}

fn problem(error: &serde_json::Error) -> ParseError {
    let message = error.to_string();
    let place = message.rfind(" at line ").unwrap_or(message.len());
    ParseError {
        line: error.line(),
        column: error.column(),
        message: message[..place].to_owned(),
    }
}

/// A value read strictly; usable as a field of other wire structs.
pub struct Strict(pub Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

/// The name under which the parser passes a number as it was written, with `arbitrary_precision`.
pub const NUMBER: &str = "$serde_json::private::Number";

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        let number = Number::from_i128(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        let number = Number::from_u128(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if key == NUMBER && map.is_empty() {
                let text = access.next_value::<String>()?;
                let number = text.parse::<Number>().map_err(A::Error::custom)?;
                return Ok(Value::Number(number));
            }
            match map.entry(key) {
                Entry::Vacant(place) => {
                    let Strict(value) = access.next_value()?;
                    place.insert(value);
                }
                Entry::Occupied(place) => return Err(twice(place.key())),
            }
        }
        Ok(Value::Object(map))
    }
}

/// The members of an object without repeated names.
pub struct Members<T>(pub BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

struct MembersVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
    type Value = Members<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members<T>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(key) = access.next_key::<String>()? {
            if members.contains_key(&key) {
                return Err(twice(&key));
            }
            members.insert(key, access.next_value()?);
        }
        Ok(Members(members))
    }
}

/// The error of a repeated key, made before its value is read, so that it has the key's position.
fn twice<E: Error>(key: &str) -> E {
    E::custom(format!(
        "the key \"{}\" is there twice: keep one of the two",
        brief(key)
    ))
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in bytes.
    pub column: usize,
}

/// The position of the value at a JSON pointer: of its key if it is a member of an object, else of its first byte. A pointer beyond the
/// existing values gives the last existing position. `None` for a text that is no JSON.
pub fn locate(text: &str, pointer: &str) -> Option<Position> {
    let mut value: &RawValue = serde_json::from_str(text).ok()?;
    let offset = |part: &RawValue| part.get().as_ptr().addr() - text.as_ptr().addr();
    let mut place = offset(value);
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let member = serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get());
        if let Ok(members) = member {
            let Some(inner) = members.get(&token) else {
                break;
            };
            value = inner;
            let key = text[..offset(value)].trim_end().strip_suffix(':');
            let key =
                key.and_then(|key| key.trim_end().strip_suffix(&Value::from(token).to_string()));
            place = key.map_or(offset(value), str::len);
        } else {
            let items: Vec<&RawValue> = serde_json::from_str(value.get()).unwrap_or_default();
            let Some(inner) = token.parse().ok().and_then(|index: usize| items.get(index)) else {
                break;
            };
            value = inner;
            place = offset(value);
        }
    }
    let before = &text.as_bytes()[..place];
    let line_start = before.iter().rposition(|byte| *byte == b'\n');
    Some(Position {
        line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        column: 1 + before.len() - line_start.map_or(0, |newline| newline + 1),
    })
}

/// Writes the canonical form of RFC 8785: keys in UTF-16 order, numbers as ECMAScript prints them, no white space. A number that no
/// double reproduces is written by its exact digits (`number`).
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    write_canonical(value, &mut bytes);
    bytes
}

/// Appends [`canonical`] to the bytes.
pub fn write_canonical(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Null => bytes.extend_from_slice(b"null"),
        Value::Bool(true) => bytes.extend_from_slice(b"true"),
        Value::Bool(false) => bytes.extend_from_slice(b"false"),
        Value::Number(number) => number::write_canonical(number, bytes),
        Value::String(text) => write_string(text, bytes),
        Value::Array(items) => {
            bytes.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                write_canonical(item, bytes);
            }
            bytes.push(b']');
        }
        Value::Object(map) => {
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            // The map iterates in byte order, which is UTF-16 order unless a key leaves the basic plane.
            if !map.keys().all(|key| key.is_ascii()) {
                members
                    .sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
            }
            bytes.push(b'{');
            for (index, (key, item)) in members.into_iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                write_string(key, bytes);
                bytes.push(b':');
                write_canonical(item, bytes);
            }
            bytes.push(b'}');
        }
    }
}

/// Appends a string in the canonical form, quotes included.
pub fn write_string(text: &str, bytes: &mut Vec<u8>) {
    // serde_json escapes exactly as RFC 8785 requires: the two-character escapes, and \u00xx for other controls.
    serde_json::to_writer(&mut *bytes, text).expect("a string always serializes into memory");
}

/// SHA-256 of the canonical form.
pub fn hash(value: &Value) -> [u8; 32] {
    Sha256::digest(canonical(value)).into()
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pointer_is_found_at_its_key_or_its_item() {
        let text = "{\n  \"a\": [1, {\"x\\\"~/\": true}, [\"]\", 2]],\n  \"b\": {\"c\": null}\n}";
        for (pointer, line, column) in [
            ("", 1, 1),
            ("/a", 2, 3),
            ("/a/0", 2, 9),
            ("/a/1", 2, 12),
            ("/a/1/x\"~0~1", 2, 13),
            ("/a/2", 2, 29),
            ("/a/2/1", 2, 35),
            ("/b", 3, 3),
            ("/b/c", 3, 9),
            ("/b/missing/deeper", 3, 3),
            ("/a/9", 2, 3),
        ] {
            let place = locate(text, pointer).unwrap();
            assert_eq!((place.line, place.column), (line, column), "{pointer}");
        }
        assert_eq!(locate("", "/a"), None);
    }

    #[test]
    fn duplicate_keys_are_refused_at_every_depth() {
        for (text, good) in [
            (r#"{"a":1,"b":{"a":1}}"#, true),
            (r#"{"a":1,"a":1}"#, false),
            (r#"[{"x":{"b":1,"b":2}}]"#, false),
            (r#"{"a":1} x"#, false),
            ("", false),
        ] {
            assert_eq!(parse(text.as_bytes()).is_ok(), good, "{text}");
        }
        let error = parse(b"{\"a\":1,\n \"a\":2}").unwrap_err();
        assert_eq!(
            (error.line, error.message.contains("\"a\" is there twice")),
            (2, true)
        );
    }

    #[test]
    fn the_canonical_form_is_that_of_rfc_8785() {
        for (text, canonical_text) in [
            (r#"{"b":1,"a":[true,null]}"#, r#"{"a":[true,null],"b":1}"#),
            (
                "[1e30,4.50,2e-3,1e21,1e-7,0.000001,-0,333333333.3333333]",
                "[1e+30,4.5,0.002,1e+21,1e-7,0.000001,0,333333333.3333333]",
            ),
            (
                "[1.0,100,-5,1e2,123456789012345680000,9007199254740993]",
                "[1,100,-5,100,123456789012345680000,9007199254740993]",
            ),
            (
                "\"\\u20ac$\\u000f\\u000aA'B\\u0042\\u0022\\u005c\\\\\\\"\\/\"",
                "\"€$\\u000f\\nA'BB\\\"\\\\\\\\\\\"/\"",
            ),
        ] {
            let value = parse(text.as_bytes()).unwrap();
            assert_eq!(
                String::from_utf8(canonical(&value)).unwrap(),
                canonical_text
            );
        }
        // UTF-16 puts the surrogates of an emoji before U+FB33, UTF-8 behind it.
        let value = json!({"\u{fb33}": 1, "\u{1f600}": 2});
        assert_eq!(
            String::from_utf8(canonical(&value)).unwrap(),
            "{\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
    }
}
