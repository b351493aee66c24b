//! JSON as the system needs it: strict parsing, the canonical form behind every hash, and cutting to a size.

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
        while let Some(key) = access.next_key::<String>()? {
            let Strict(value) = access.next_value()?;
            match map.entry(key) {
                serde_json::map::Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                serde_json::map::Entry::Occupied(entry) => {
                    return Err(serde::de::Error::custom(format!(
                        "the key {:?} is there twice",
                        entry.key()
                    )));
                }
            }
        }
        Ok(Value::Object(map))
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

fn write_string(text: &str, bytes: &mut Vec<u8>) {
    // Most texts need no escape and are copied in one go.
    if text
        .bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
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

/// How long a value is when written, in characters.
fn written_length(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.iter().filter(|byte| (**byte & 0xC0) != 0x80).count();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("counting cannot fail");
    count.0
}

/// Shortens a value to about `characters_max` written characters, by dropping whole list items from the end and by
/// cutting the ends of strings; what comes out is always a whole value. Also says in words what was cut.
pub fn cap(value: &Value, characters_max: usize) -> (Value, Option<String>) {
    if written_length(value) <= characters_max {
        return (value.clone(), None);
    }
    let mut cut = value.clone();
    let (mut items_dropped, mut strings_cut) = (0_usize, 0_usize);
    // Items first: the last item of the longest list goes until the rest fits or no list has more than one item.
    while written_length(&cut) > characters_max {
        let Some(list) = longest_list(&mut cut) else {
            break;
        };
        list.pop();
        items_dropped += 1;
    }
    let mut limit = characters_max / 2;
    while written_length(&cut) > characters_max && limit >= 8 {
        strings_cut = 0;
        cut_strings(&mut cut, limit, &mut strings_cut);
        limit /= 2;
    }
    let mut cut = if written_length(&cut) > characters_max {
        Value::Null
    } else {
        cut
    };
    let words = match (items_dropped, strings_cut, cut.is_null()) {
        (_, _, true) => {
            cut = Value::Null;
            "the result was too long to show".to_owned()
        }
        (items, 0, false) => format!("{items} list items were left out for length"),
        (0, strings, false) => format!("{strings} texts were cut for length"),
        (items, strings, false) => {
            format!("{items} list items were left out and {strings} texts were cut for length")
        }
    };
    (cut, Some(words))
}

/// The list with the most written characters that still has more than one item.
fn longest_list(value: &mut Value) -> Option<&mut Vec<Value>> {
    fn find(value: &Value, path: &mut Vec<usize>, best: &mut Option<(usize, Vec<usize>)>) {
        let children: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => return,
        };
        if matches!(value, Value::Array(items) if items.len() > 1) {
            let length = written_length(value);
            if best.as_ref().is_none_or(|(longest, _)| length > *longest) {
                *best = Some((length, path.clone()));
            }
        }
        for (index, child) in children.into_iter().enumerate() {
            path.push(index);
            find(child, path, best);
            path.pop();
        }
    }
    let mut best = None;
    find(value, &mut Vec::new(), &mut best);
    let (_, path) = best?;
    let mut place = value;
    for index in path {
        place = match place {
            Value::Array(items) => items.get_mut(index)?,
            Value::Object(map) => map.values_mut().nth(index)?,
            _ => return None,
        };
    }
    place.as_array_mut()
}

fn cut_strings(value: &mut Value, characters_max: usize, count: &mut usize) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(characters_max) {
                text.truncate(end);
                text.push('…');
                *count += 1;
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| cut_strings(item, characters_max, count)),
        Value::Object(map) => map
            .values_mut()
            .for_each(|item| cut_strings(item, characters_max, count)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
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

    #[test]
    fn capping_drops_items_before_it_cuts_words_and_always_leaves_json() {
        let value = json!({"results": (0..50).map(|n| json!({"id": n, "text": "x".repeat(50)})).collect::<Vec<_>>()});
        let (cut, words) = cap(&value, 500);
        assert!(written_length(&cut) <= 500);
        assert!(cut["results"].as_array().unwrap().len() >= 5, "{cut}");
        assert_eq!(
            words.unwrap(),
            format!(
                "{} list items were left out for length",
                50 - cut["results"].as_array().unwrap().len()
            )
        );

        let (cut, words) = cap(&json!({"body": "é".repeat(9_000)}), 1_000);
        assert!(written_length(&cut) <= 1_000 && cut["body"].as_str().unwrap().ends_with('…'));
        assert_eq!(words.unwrap(), "1 texts were cut for length");

        let (same, words) = cap(&json!([1, 2]), 100);
        assert_eq!((same, words), (json!([1, 2]), None));
    }
}
