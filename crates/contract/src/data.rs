//! A tool's result data. It is made as text or as a tree of values, and as the other form on first use. Most data is only passed on to a
//! model, which needs the text. Knows no tool and no provider.

use crate::depth::{DEPTH_MAX, dismantle, is_text_too_deep, is_too_deep};
use memchr::{memchr, memchr_iter, memmem};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A shared JSON value. It derefs to a [`Value`], which is made on first use.
#[derive(Clone)]
pub struct Data(Arc<Forms>);

/// The forms of a value. At least one is set from the beginning.
struct Forms {
    /// As the serializer wrote it.
    text: Option<Box<RawValue>>,
    tree: OnceLock<Value>,
    /// It was given as a tree that was nested too deep and has been dropped.
    was_too_deep: bool,
}

impl Data {
    /// Whether the data was given as a tree deeper than [`DEPTH_MAX`](crate::depth::DEPTH_MAX); it is null now.
    pub fn was_too_deep(&self) -> bool {
        self.0.was_too_deep
    }

    /// Serializes a value. Fails where JSON cannot hold it, as with maps whose keys are no texts, and where it is nested deeper than
    /// [`DEPTH_MAX`].
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let text = to_raw_value(value)?;
        if is_text_too_deep(text.get().as_bytes()) {
            let problem = format!("it is nested deeper than {DEPTH_MAX} levels");
            return Err(serde::ser::Error::custom(problem));
        }
        Ok(Self(Arc::new(Forms {
            text: Some(text),
            tree: OnceLock::new(),
            was_too_deep: false,
        })))
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.text().map(|text| text.get().as_bytes())
    }

    /// The text, if the data was made as text.
    pub fn text(&self) -> Option<&RawValue> {
        self.0.text.as_deref()
    }

    /// Shortens the data to so many characters, with words for the cuts: whole items of lists go first, then the ends of texts. `None`
    /// where it is short enough.
    pub fn shortened(&self, characters_max: usize) -> Option<(Self, String)> {
        if !self.may_be_longer_than(characters_max) {
            return None;
        }
        let (value, words) = crate::cap::cap(self, characters_max)?;
        Some((value.into(), words))
    }

    /// Whether the data takes more characters than `characters_max` when written.
    pub fn is_longer_than(&self, characters_max: usize) -> bool {
        self.may_be_longer_than(characters_max) && crate::cap::is_long(self, characters_max)
    }

    fn may_be_longer_than(&self, characters_max: usize) -> bool {
        self.bytes()
            .is_none_or(|bytes| bytes.len() > characters_max)
    }

    /// The text's bytes if it surely has no name, at any depth, that begins with `$`.
    pub fn bytes_without_dollars(&self) -> Option<&[u8]> {
        let may_begin = |bytes: &[u8]| {
            let mut dollars = memchr_iter(b'$', bytes);
            dollars.any(|at| at > 0 && bytes[at - 1] == b'"')
                || (memchr(b'\\', bytes).is_some() && has(bytes, "\\u0024"))
        };
        self.bytes().filter(|bytes| !may_begin(bytes))
    }

    /// Whether the data is surely an object with members, and without an empty list at any depth. `false` proves nothing.
    pub fn is_surely_full(&self) -> bool {
        let may_be_empty =
            |byte: Option<&u8>| byte.is_none_or(|byte| *byte == b']' || byte.is_ascii_whitespace());
        self.bytes().is_some_and(|bytes| {
            let mut lists = memchr_iter(b'[', bytes);
            bytes.starts_with(b"{\"") && !lists.any(|at| may_be_empty(bytes.get(at + 1)))
        })
    }

    /// Whether the data is an object with one of these members.
    pub fn has_any(&self, names: &[&str]) -> bool {
        if let Some(text) = self.text() {
            let mut has_name = false;
            let search = HasName(names, &mut has_name);
            // An error means that the rest was not read, or that the data is no object.
            drop(serde_json::Deserializer::from_str(text.get()).deserialize_map(search));
            return has_name;
        }
        let object = self.as_object();
        object.is_some_and(|object| names.iter().any(|name| object.contains_key(*name)))
    }
}

fn has(bytes: &[u8], text: &str) -> bool {
    memmem::find(bytes, text.as_bytes()).is_some()
}

/// Notes whether an object itself has a member of these names, and stops reading at the first one.
struct HasName<'n>(&'n [&'n str], &'n mut bool);

impl<'de> Visitor<'de> for HasName<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(is_one) = members.next_key_seed(IsName(self.0))? {
            *self.1 = is_one;
            if is_one {
                break;
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Compares a text with these names without copying it.
#[derive(Clone, Copy)]
struct IsName<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for IsName<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for IsName<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(self.0.contains(&name))
    }
}

impl Deref for Data {
    type Target = Value;

    fn deref(&self) -> &Value {
        // The same crate wrote the text, so reading fails only at a depth that no tool needs.
        let read = || serde_json::from_str(self.text().map_or("null", RawValue::get));
        self.0.tree.get_or_init(|| read().unwrap_or_default())
    }
}

impl From<Value> for Data {
    fn from(mut value: Value) -> Self {
        let was_too_deep = is_too_deep(&value);
        if was_too_deep {
            dismantle(value.take());
        }
        Self(Arc::new(Forms {
            text: None,
            tree: OnceLock::from(value),
            was_too_deep,
        }))
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<Value> for Data {
    fn eq(&self, other: &Value) -> bool {
        **self == *other
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl fmt::Display for Data {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

/// Names are written sorted, whichever form the data has.
impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_and_tree_are_the_same_data() {
        for value in [
            json!({"b": [1, {"a": null}], "a": "ß\n"}),
            json!([1.5, true]),
            json!("x"),
            json!(null),
        ] {
            let (written, tree) = (Data::of(&value).unwrap(), Data::from(value.clone()));
            assert_eq!(written, tree);
            assert_eq!(written, value);
            assert_eq!(written.text().unwrap().get(), value.to_string());
            assert!(tree.text().is_none());
            assert_eq!(
                serde_json::to_string(&written).unwrap(),
                serde_json::to_string(&tree).unwrap()
            );
            assert_eq!(format!("{written:?} {written}"), format!("{tree:?} {tree}"));
        }
    }

    #[test]
    fn members_are_found_at_the_top_alone_however_the_data_were_made() {
        for (value, found) in [
            (json!({"results": []}), true),
            (
                json!({"a": [{"results": 1}], "b": "results", "c": -1.5}),
                false,
            ),
            (json!({"a": "\"", "b": {"x": [[], {}]}, "items": 1}), true),
            (json!({"a": "\\", "b": "items"}), false),
            (
                json!({"a": {"results": 1}, "b": [{"items": 1}, "items"]}),
                false,
            ),
            (json!({"a": ["}", {}], "results": 1}), true),
            (json!({}), false),
            (json!(["results"]), false),
            (json!([1, "results", {"items": 2}]), false),
            (json!("results"), false),
        ] {
            let names = ["results", "items"];
            assert_eq!(Data::of(&value).unwrap().has_any(&names), found, "{value}");
            assert_eq!(Data::from(value.clone()).has_any(&names), found, "{value}");
        }
    }

    #[test]
    fn what_is_said_of_a_text_overlooks_nothing() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        for text in [
            r#"{"results":[],"$ref":1}"#,
            r#"{"results":[ ],"\u0024ref":1}"#,
        ] {
            let raw = Data::of(&std::collections::BTreeMap::from([("results", raw(text))]));
            let raw = raw.unwrap();
            assert_eq!(raw.bytes_without_dollars(), None, "{text}");
            assert!(raw.has_any(&["results"]) && !raw.is_surely_full(), "{text}");
        }
        for (value, is_free, is_full) in [
            (json!({"a": {"b": [{"$ref": 1}]}}), false, true),
            (json!({"a": "a$", "b$": [" $"]}), true, true),
            (json!({"a": [[1], []]}), true, false),
            (json!({"a": [[], [1]]}), true, false),
            (json!({"a": "b", "b": {}, "c": [{}]}), true, true),
            (json!({}), true, false),
            (json!([1]), true, false),
        ] {
            let data = Data::of(&value).unwrap();
            assert_eq!(data.bytes_without_dollars().is_some(), is_free, "{value}");
            assert_eq!(data.is_surely_full(), is_full, "{value}");
            let tree = Data::from(value);
            assert!(!tree.is_surely_full() && tree.bytes_without_dollars().is_none());
        }
    }

    #[test]
    fn what_json_cannot_hold_is_an_error() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(Data::of(&map).is_err());
    }
}
