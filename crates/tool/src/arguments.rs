//! The arguments of one call. Knows no schema.

use crate::json::{Strict, settle};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::hash::{Hash, Hasher};

/// A JSON object without repeated names. Names are sorted, and a number that is whole is an integer however it was written.
#[derive(Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Arguments(Value);

impl Arguments {
    /// Those of a call that gives none.
    pub fn none() -> Self {
        Self::from(Map::new())
    }

    pub fn is_empty(&self) -> bool {
        self.as_map().is_empty()
    }

    /// How many bytes they take when written, about.
    pub fn written_bytes(&self) -> usize {
        written_bytes(&self.0)
    }

    /// A copy of one argument.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }

    /// One argument that is an integer of 64 bits.
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_i64()
    }

    /// The arguments as a type of one's own, which may borrow their texts. Fails where the type does not take what the
    /// schema lets through.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.0)
    }

    /// A copy as a map.
    pub fn to_map(&self) -> Map<String, Value> {
        self.as_map().clone()
    }

    /// A copy as a value.
    pub fn to_value(&self) -> Value {
        self.0.clone()
    }

    /// Feeds a hasher with the texts and numbers at the top, where calls differ most. Equal arguments feed it the same.
    pub fn hash_top(&self, hasher: &mut impl Hasher) {
        for value in self.as_map().values() {
            match value {
                Value::Number(number) => number.hash(hasher),
                Value::String(text) => hasher.write(text.as_bytes()),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
            }
        }
    }

    /// Puts an integer in the place of an argument that is there.
    pub fn replace_integer(&mut self, name: &str, integer: i64) {
        if let Some(value) = self.0.get_mut(name) {
            *value = integer.into();
        }
    }

    pub(crate) fn as_value(&self) -> &Value {
        &self.0
    }

    pub(crate) fn as_value_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    pub(crate) fn as_map(&self) -> &Map<String, Value> {
        self.0.as_object().expect("arguments are an object")
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
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(written_bytes).sum(),
            Value::Object(map) => map
                .iter()
                .map(|(name, value)| name.len() + written_bytes(value))
                .sum(),
        }
}

impl From<Map<String, Value>> for Arguments {
    fn from(map: Map<String, Value>) -> Self {
        let mut value = Value::Object(map);
        settle(&mut value);
        Self(value)
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Strict::deserialize(deserializer)? {
            Strict(object @ Value::Object(_)) => Ok(Self(object)),
            Strict(_) => Err(D::Error::custom("arguments are an object")),
        }
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
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
            // The form that is written is that of a map, whose names are sorted.
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(written, value.to_string());
            assert!(2 + 3 * read.written_bytes() >= written.len(), "{text}");
        }
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
