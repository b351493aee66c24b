//! The arguments of one call. Knows no schema.

use crate::json::Strict;
use crate::number;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Number, Value};
use std::fmt;
use std::hash::Hasher;
use std::sync::OnceLock;

/// A JSON object without repeated names. Names are sorted, and numbers stand as they were written. Arguments are equal where their values
/// are: `1e3` is `1000`.
#[derive(Clone)]
pub struct Arguments {
    written: Value,
    /// The same arguments with plain digits for whole numbers that are written with a point or an exponent, for types that read integers;
    /// `None` where there are no such numbers. Made on first use.
    plain: OnceLock<Option<Box<Value>>>,
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        number::same_value(&self.written, &other.written)
    }
}

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(serializer)
    }
}

impl Arguments {
    /// The arguments of a call that gives none.
    pub fn none() -> Self {
        Self::from(Map::new())
    }

    pub fn is_empty(&self) -> bool {
        self.as_map().is_empty()
    }

    /// The bytes that the arguments take when written, approximately.
    pub fn written_bytes(&self) -> usize {
        written_bytes(&self.written)
    }

    /// A copy of one argument.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.written.get(name).cloned()
    }

    /// One argument that is an integer of 64 bits.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.written.get(name)? {
            Value::Number(number) => number::integer(number),
            _ => None,
        }
    }

    /// Reads the arguments into a type of the caller, which may borrow their texts. Fails where arguments that pass the schema do not fit
    /// the type. A whole number is an integer however it is written; a field of type `f64` takes the nearest double.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        let plain = self
            .plain
            .get_or_init(|| with_plain_integers(&self.written).map(Box::new));
        T::deserialize(plain.as_deref().unwrap_or(&self.written))
    }

    /// The arguments as JSON text: names are sorted, numbers and texts stand as they were written.
    pub fn to_text(&self) -> String {
        self.written.to_string()
    }

    /// A copy as a map.
    pub fn to_map(&self) -> Map<String, Value> {
        self.as_map().clone()
    }

    /// A copy as a value.
    pub fn to_value(&self) -> Value {
        self.written.clone()
    }

    /// Feeds a hasher with the top-level texts and numbers, where calls differ most. Equal arguments feed it the same.
    pub fn hash_top(&self, hasher: &mut impl Hasher) {
        for value in self.as_map().values() {
            match value {
                Value::Number(number) => hasher.write_u64(number::near_bits(number)),
                Value::String(text) => hasher.write(text.as_bytes()),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
            }
        }
    }

    /// Replaces the value of an existing argument with an integer.
    pub fn replace_integer(&mut self, name: &str, integer: i64) {
        if let Some(value) = self.as_value_mut().get_mut(name) {
            *value = integer.into();
        }
    }

    pub(crate) fn as_value(&self) -> &Value {
        &self.written
    }

    pub(crate) fn as_value_mut(&mut self) -> &mut Value {
        self.plain = OnceLock::new();
        &mut self.written
    }

    pub fn as_map(&self) -> &Map<String, Value> {
        self.written.as_object().expect("arguments are an object")
    }
}

impl Default for Arguments {
    fn default() -> Self {
        Self::none()
    }
}

fn written_bytes(value: &Value) -> usize {
    const AROUND: usize = 4;
    AROUND
        + match value {
            Value::Null | Value::Bool(_) => 0,
            Value::Number(number) => number.as_str().len(),
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(written_bytes).sum(),
            Value::Object(map) => map
                .iter()
                .map(|(name, value)| name.len() + written_bytes(value))
                .sum(),
        }
}

/// `None` where nothing would change.
fn with_plain_integers(value: &Value) -> Option<Value> {
    fn plain(value: &Value) -> Option<Value> {
        match value {
            Value::Number(number) => {
                let digits = number::whole(number)?;
                digits.parse::<Number>().ok().map(Value::Number)
            }
            Value::Array(items) => {
                let changed: Vec<Option<Value>> = items.iter().map(plain).collect();
                changed.iter().any(Option::is_some).then(|| {
                    let both = changed.into_iter().zip(items);
                    both.map(|(changed, item)| changed.unwrap_or_else(|| item.clone()))
                        .collect()
                })
            }
            Value::Object(map) => {
                let changed: Vec<(&String, Value)> = map
                    .iter()
                    .filter_map(|(name, value)| Some((name, plain(value)?)))
                    .collect();
                (!changed.is_empty()).then(|| {
                    let mut map = map.clone();
                    map.extend(
                        changed
                            .into_iter()
                            .map(|(name, value)| (name.clone(), value)),
                    );
                    Value::Object(map)
                })
            }
            Value::Null | Value::Bool(_) | Value::String(_) => None,
        }
    }
    plain(value)
}

impl From<Map<String, Value>> for Arguments {
    fn from(map: Map<String, Value>) -> Self {
        Self {
            written: Value::Object(map),
            plain: OnceLock::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Strict::deserialize(deserializer)? {
            Strict(Value::Object(map)) => Ok(Self::from(map)),
            Strict(_) => Err(D::Error::custom("arguments are an object")),
        }
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Arguments {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_was_read_and_what_was_copied_are_the_same_arguments() {
        for text in [
            "{}",
            r#"{"b":[1,{"z":null,"y":[[],{}]},"x"],"a":true,"":"","é":"ß 😀","c":{"d":{"e":-1.5}}}"#,
            r#"{"m":1,"a":2,"z":3,"b":4,"y":5,"c":6}"#,
            r#"{"whole":3.0,"list":[{"whole":-2e3}],"long":12345678901234567890}"#,
        ] {
            let plain: Map<String, Value> = serde_json::from_str(text).unwrap();
            let (read, copied) = (read(text), Arguments::from(plain));
            assert_eq!(read, copied, "{text}");
            let value = crate::json::parse(text.as_bytes()).unwrap();
            assert_eq!(read.to_value(), value, "{text}");
            // A map is written with its names sorted.
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(written, value.to_string());
            assert!(2 + 3 * read.written_bytes() >= written.len(), "{text}");
        }
        // Digits stand as they were written; comparison is by value.
        let written = r#"{"a":2512292042121000001,"b":0.1000000000000000055511151231257827,"c":1000.0,"d":-0}"#;
        assert_eq!(read(written).to_text(), written);
        assert_eq!(
            read(r#"{"a":1e3,"b":[-0]}"#),
            read(r#"{"a":1000.0,"b":[0]}"#)
        );
        assert_ne!(
            read(r#"{"a":2512292042121000001}"#),
            read(r#"{"a":2512292042121000002}"#)
        );
        for text in [r#"{"a":1,"b":{"c":1,"c":2}}"#, "[]", "null", "{} x"] {
            assert!(serde_json::from_str::<Arguments>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_integer_takes_the_place_of_an_argument() {
        let mut arguments = read(r#"{"top_k":10,"query":"maud"}"#);
        arguments.replace_integer("top_k", 3);
        arguments.replace_integer("missing", 7);
        assert_eq!(arguments.to_value(), json!({"top_k": 3, "query": "maud"}));
        assert_eq!(arguments.get("top_k"), Some(json!(3)));
        assert_eq!(arguments.get("missing"), None);
    }

    #[test]
    fn a_type_borrows_the_texts_of_arguments() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Search<'a> {
            query: &'a str,
            limit: Option<u32>,
        }
        let arguments = read(r#"{"query":"maud","limit":5.0,"more":{}}"#);
        let (query, limit) = ("maud", Some(5));
        assert_eq!(
            arguments.read::<Search<'_>>().unwrap(),
            Search { query, limit }
        );
        let error = Arguments::none().read::<Search<'_>>().unwrap_err();
        assert!(
            error.to_string().starts_with("missing field `query`"),
            "{error}"
        );
    }
}
