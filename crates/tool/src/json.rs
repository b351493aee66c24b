//! JSON as the system needs it: strict parsing, and the canonical form behind every hash.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Why a text is not acceptable JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (line {line}, column {column})")]
pub struct ParseError {
    pub message: String,
    /// From 1.
    pub line: usize,
    /// From 1, in bytes.
    pub column: usize,
}

/// Parses one JSON value. An object with the same key twice is an error: whichever one were taken, somebody meant the
/// other.
pub fn parse(text: &[u8]) -> Result<Value, ParseError> {
    serde_json::from_slice::<Strict>(text)
        .map(|strict| strict.0)
        .map_err(|error| ParseError {
            line: error.line(),
            column: error.column(),
            message: strip_position(&error.to_string()),
        })
}

fn strip_position(message: &str) -> String {
    message
        .rsplit_once(" at line ")
        .map_or(message, |(text, _)| text)
        .to_owned()
}

/// A value read strictly; usable as a field of other wire structs.
pub struct Strict(pub Value);

impl<'de> serde::Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> serde::de::Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // JSON has one kind of number, and providers write 3 as 3.0 at times: whoever reads an integer gets one.
        if let Some(integer) = whole_number(value) {
            return Ok(integer.into());
        }
        Ok(serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        // Refused where it is read, so that the error has the second key's place.
        while let Some(key) = access.next_key_seed(NewKey(&map))? {
            let Strict(value) = access.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// A key that an object does not have yet.
struct NewKey<'m>(&'m Map<String, Value>);

impl<'de> serde::de::DeserializeSeed<'de> for NewKey<'_> {
    type Value = String;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        let key: String = serde::Deserialize::deserialize(deserializer)?;
        match self.0.contains_key(&key) {
            false => Ok(key),
            true => Err(serde::de::Error::custom(format!(
                "the key {key:?} is there twice"
            ))),
        }
    }
}

/// The integer that a floating-point number is, where it is one and exact.
pub(crate) fn whole_number(float: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (float.fract() == 0.0 && float.abs() <= EXACT).then(|| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the number is whole and within 2^53"
        )]
        let integer = float as i64;
        integer
    })
}

/// Writes the canonical form of RFC 8785: keys in UTF-16 order, numbers as ECMAScript prints them, no white space.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    write_canonical(value, &mut bytes);
    bytes
}

/// [`canonical`], appended to what is there.
pub fn write_canonical(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Null => bytes.extend_from_slice(b"null"),
        Value::Bool(true) => bytes.extend_from_slice(b"true"),
        Value::Bool(false) => bytes.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, bytes),
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
            bytes.push(b'{');
            // The map iterates in byte order, which is UTF-16 order unless a key leaves the basic plane.
            if map.keys().all(|key| key.is_ascii()) {
                write_members(map.iter(), bytes);
            } else {
                let mut members: Vec<(&String, &Value)> = map.iter().collect();
                members
                    .sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
                write_members(members.into_iter(), bytes);
            }
            bytes.push(b'}');
        }
    }
}

fn write_members<'v>(members: impl Iterator<Item = (&'v String, &'v Value)>, bytes: &mut Vec<u8>) {
    for (index, (key, item)) in members.enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        write_string(key, bytes);
        bytes.push(b':');
        write_canonical(item, bytes);
    }
}

/// Appends a string in the canonical form, quotes included.
pub fn write_string(text: &str, bytes: &mut Vec<u8>) {
    // Most texts need no escape and are copied in one go.
    if !needs_escape(text) {
        bytes.reserve(text.len() + 2);
        bytes.push(b'"');
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(b'"');
        return;
    }
    // serde_json escapes exactly what RFC 8785 asks for: the two-character escapes, and \u00xx for other controls.
    serde_json::to_writer(&mut *bytes, text).expect("a string always serializes into memory");
}

fn write_number(number: &serde_json::Number, bytes: &mut Vec<u8>) {
    use std::io::Write;
    const EXACT: u64 = 1 << 53;
    if let Some(integer) = number
        .as_i64()
        .filter(|integer| integer.unsigned_abs() <= EXACT)
    {
        write!(bytes, "{integer}").expect("writing to memory cannot fail");
        return;
    }
    let float = number.as_f64().unwrap_or(0.0);
    write_ecmascript(float, bytes);
}

/// ECMAScript's Number::toString, as RFC 8785 section 3.2.2.3 asks.
fn write_ecmascript(float: f64, bytes: &mut Vec<u8>) {
    use std::io::Write;
    if float == 0.0 {
        bytes.push(b'0');
        return;
    }
    let shortest = format!("{float:e}");
    let (mantissa, exponent) = shortest
        .split_once('e')
        .expect("the e format has an exponent");
    let exponent: i32 = exponent
        .parse()
        .expect("the e format's exponent is a number");
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let count = i32::try_from(digits.len()).expect("a double has at most 17 digits");
    let point = exponent + 1;
    let text = if (count..=21).contains(&point) {
        format!(
            "{digits}{}",
            "0".repeat(usize::try_from(point - count).unwrap_or(0))
        )
    } else if (1..=21).contains(&point) {
        let split = usize::try_from(point).unwrap_or(0);
        format!("{}.{}", &digits[..split], &digits[split..])
    } else if (-5..=0).contains(&point) {
        format!(
            "0.{}{digits}",
            "0".repeat(usize::try_from(-point).unwrap_or(0))
        )
    } else {
        let shown = point - 1;
        let plus = if shown > 0 { "+" } else { "" };
        let fraction = if digits.len() > 1 {
            format!(".{}", &digits[1..])
        } else {
            String::new()
        };
        format!("{}{fraction}e{plus}{shown}", &digits[..1])
    };
    write!(bytes, "{sign}{text}").expect("writing to memory cannot fail");
}

/// SHA-256 of the canonical form.
pub fn hash(value: &Value) -> [u8; 32] {
    Sha256::digest(canonical(value)).into()
}

/// Whether a string holds what JSON writes as an escape.
fn needs_escape(text: &str) -> bool {
    plain_length(text.as_bytes()) < text.len()
}

/// How many bytes come before the first that cannot stand in a JSON string as it is: a control character, a quote or a
/// backslash. Most text in the system passes here several times, so it is looked at eight bytes at once. A function of its
/// own, because whoever had its constants inside would save and restore as many registers for each short text.
#[inline(never)]
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    const CHUNK: usize = size_of::<u64>();
    for (index, chunk) in bytes.as_chunks::<CHUNK>().0.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*chunk));
        if special != 0 {
            return index * CHUNK + special.trailing_zeros() as usize / 8;
        }
    }
    // What is left is looked at together with plain bytes before it, where there are enough.
    if let Some(last) = bytes.last_chunk::<CHUNK>() {
        let special = special_bytes(u64::from_le_bytes(*last));
        return match special {
            0 => bytes.len(),
            _ => bytes.len() - CHUNK + special.trailing_zeros() as usize / 8,
        };
    }
    // Shorter ones are looked at from both ends.
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let both =
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
        if special_bytes(both) == 0 {
            return bytes.len();
        }
    }
    bytes
        .iter()
        .position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'))
        .unwrap_or(bytes.len())
}

/// The top bit of each byte that is special; of the lowest such byte for sure, of those above it perhaps, because a
/// subtraction borrows only from bytes above one that is special.
fn special_bytes(chunk: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    // With the quote in the place of the space, all that is special but the backslash lies below one bound.
    const QUOTE_FOR_SPACE: u64 = ONES * (b'"' ^ b' ') as u64;
    let controls_and_quotes = (chunk ^ QUOTE_FOR_SPACE).wrapping_sub(ONES * u64::from(b' ' + 1));
    let backslashes = (chunk ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
    (controls_and_quotes | backslashes) & !chunk & TOPS
}

/// Whether two names are the same. Most are short, and then it takes two looks and no call.
#[inline]
pub(crate) fn is_same_name(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let ends_match = match one.len() {
        8..=16 => both_ends::<8>(one, other),
        4..=7 => both_ends::<4>(one, other),
        2..=3 => both_ends::<2>(one, other),
        _ => None,
    };
    ends_match.unwrap_or_else(|| one == other)
}

/// Whether so many bytes at the beginning are the same, and so many at the end; `None` where there are fewer.
#[inline]
fn both_ends<const LENGTH: usize>(one: &[u8], other: &[u8]) -> Option<bool> {
    let begins_alike = one.first_chunk::<LENGTH>()? == other.first_chunk::<LENGTH>()?;
    Some(begins_alike && one.last_chunk::<LENGTH>()? == other.last_chunk::<LENGTH>()?)
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
    fn a_text_is_plain_up_to_the_first_byte_that_needs_an_escape() {
        for byte in 0..=u8::MAX {
            let is_special = byte < 0x20 || byte == b'"' || byte == b'\\';
            for length in 1..20 {
                for at in 0..length {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    let expected = if is_special { at } else { length };
                    assert_eq!(plain_length(&bytes), expected, "{byte} at {at} of {length}");
                    // What comes behind a special byte does not hide it, nor what comes before.
                    bytes[at + 1..].fill(b'!');
                    bytes[..at].fill(0xff);
                    assert_eq!(plain_length(&bytes), expected, "{byte} at {at} of {length}");
                }
            }
        }
        assert_eq!(plain_length(b""), 0);
    }

    #[test]
    fn names_of_every_length_are_told_apart_by_every_byte() {
        for length in 0..40 {
            let name: Vec<u8> = (0..length).collect();
            assert!(is_same_name(&name, &name.clone()));
            for at in 0..name.len() {
                let mut other = name.clone();
                other[at] = b'!' + 40;
                assert!(!is_same_name(&name, &other), "{at} of {length}");
                assert!(!is_same_name(&name, &name[..at]));
            }
        }
    }

    #[test]
    fn the_canonical_form_is_that_of_rfc_8785() {
        for (text, canonical_text) in [
            (r#"{"b":1,"a":[true,null]}"#, r#"{"a":[true,null],"b":1}"#),
            (
                "[1e30,4.50,2e-3,1e21,1e-7,0.000001,-0,333333333.33333329]",
                "[1e+30,4.5,0.002,1e+21,1e-7,0.000001,0,333333333.3333333]",
            ),
            (
                "[1.0,100,-5,1e2,123456789012345680000]",
                "[1,100,-5,100,123456789012345680000]",
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
