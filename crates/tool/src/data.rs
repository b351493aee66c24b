//! What a tool brought back: made as text or as a tree of values, and as the other once somebody asks for it. Most of it is
//! only passed on to a model, for which text does. Knows no tool and no provider.

mod names;
mod writing;

use crate::depth::{dismantle, is_too_deep};
use names::Names;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use writing::Writer;

/// Bytes that most results are shorter than.
const ROOM: usize = 1_000;

/// A JSON value, shared by all who keep it. It reads as a [`Value`], which is made when it is first looked at.
#[derive(Clone)]
pub struct Data(Arc<Forms>);

/// One of them is there from the beginning.
struct Forms {
    /// JSON in UTF-8, as the serializer wrote it. That is looked at again only where somebody needs a `str`.
    bytes: Option<Box<[u8]>>,
    /// Of the bytes.
    names: Names,
    tree: OnceLock<Value>,
    /// It was given as a tree that is nested too deep, which is no longer there.
    was_too_deep: bool,
}

impl Data {
    /// Whether it was given as a tree that is nested deeper than [`DEPTH_MAX`](crate::depth::DEPTH_MAX); it is null now.
    pub fn was_too_deep(&self) -> bool {
        self.0.was_too_deep
    }

    /// Writes a value down. Fails where JSON cannot hold it, as with maps whose keys are no texts.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        // Written where there is room for most results and copied once, which costs less than growing and shrinking.
        let mut writer = Writer::with_room(ROOM);
        value.serialize(&mut writer)?;
        let Writer { bytes, names, .. } = writer;
        Ok(Self(Arc::new(Forms {
            bytes: Some(bytes.as_slice().into()),
            names,
            tree: OnceLock::new(),
            was_too_deep: false,
        })))
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.0.bytes.as_deref()
    }

    /// The text, where it was made as text.
    pub fn text(&self) -> Option<&str> {
        self.bytes().and_then(|bytes| str::from_utf8(bytes).ok())
    }

    /// As much of it as so many characters hold, with words for what was cut: whole items of lists, then the ends of texts.
    /// `None` where it is short enough.
    pub fn shortened(&self, characters_max: usize) -> Option<(Self, String)> {
        if !self.may_be_longer_than(characters_max) {
            return None;
        }
        let (value, words) = crate::cap::cap(self, characters_max)?;
        Some((value.into(), words))
    }

    /// Whether it takes more characters than that when written.
    pub fn is_longer_than(&self, characters_max: usize) -> bool {
        self.may_be_longer_than(characters_max) && crate::cap::is_long(self, characters_max)
    }

    fn may_be_longer_than(&self, characters_max: usize) -> bool {
        self.bytes()
            .is_none_or(|bytes| bytes.len() > characters_max)
    }

    /// The text's bytes, where no name in it begins with `$`, at any depth.
    pub fn bytes_without_dollars(&self) -> Option<&[u8]> {
        self.bytes()
            .filter(|_| !self.0.names.may_begin_with_dollar())
    }

    /// Whether it is surely an object that has members, and holds no empty list at any depth. `false` says nothing.
    pub fn is_surely_full(&self) -> bool {
        let is_full = |bytes: &[u8]| bytes.starts_with(b"{\"");
        self.bytes().is_some_and(is_full) && !self.0.names.may_have_empty_list()
    }

    /// Whether it is an object with one of these members.
    pub fn has_any(&self, names: &[&str]) -> bool {
        let may_have = |name: &&str| self.0.names.may_have(name);
        if self.bytes().is_some() && !names.iter().any(may_have) {
            return false;
        }
        if let Some(bytes) = self.bytes() {
            let mut text = serde_json::Deserializer::from_slice(bytes);
            return text.deserialize_map(HasName(names)).unwrap_or(false);
        }
        let object = self.as_object();
        object.is_some_and(|object| names.iter().any(|name| object.contains_key(*name)))
    }
}

/// Whether an object has one of these names for a member of its own.
struct HasName<'n>(&'n [&'n str]);

impl<'de> serde::de::Visitor<'de> for HasName<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let mut has_name = false;
        while let Some((name, _)) = members.next_entry::<Cow<'_, str>, IgnoredAny>()? {
            has_name |= self.0.contains(&&*name);
        }
        Ok(has_name)
    }
}

impl Deref for Data {
    type Target = Value;

    fn deref(&self) -> &Value {
        // What was written by the same crate is read by it, but for a depth that no tool has a use for.
        let read = || serde_json::from_slice(self.bytes().unwrap_or(b"null"));
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
            bytes: None,
            names: Names::default(),
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

/// With its names sorted, however it was made.
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
            assert_eq!(written.text(), Some(&*value.to_string()));
            assert_eq!(tree.text(), None);
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
    fn what_is_noted_while_writing_overlooks_nothing() {
        let raw = |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
        let pieces = std::collections::BTreeMap::from([(Pieces, 1)]);
        let numbers = std::collections::BTreeMap::from([(12, [(); 0])]);
        let empty = Data::of(&numbers).unwrap();
        assert!(empty.has_any(&["12"]) && !empty.has_any(&["results"]) && !empty.is_surely_full());
        assert!(Data::of(&pieces).unwrap().has_any(&["results"]));
        assert!(Data::of(&json!({"": 1})).unwrap().has_any(&[""]));
        let raw = Data::of(&[raw(r#"{"results":[],"$ref":1}"#)]).unwrap();
        assert_eq!(raw.bytes_without_dollars(), None);
        for (value, is_free, is_full) in [
            (json!({"a": {"b": [{"$ref": 1}]}}), false, true),
            (json!({"a": "$ref", "b$": ["$"]}), true, true),
            (json!({"a": [[1], []]}), true, false),
            (json!({"a": [[], [1]]}), true, false),
            (json!({"a": "[]", "b": {}, "c": [{}]}), true, true),
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

    /// A name that is written in two pieces.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct Pieces;

    impl Serialize for Pieces {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(&format_args!("{}{}", "re", "sults"))
        }
    }

    #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
    enum Variants {
        Unit,
        Newtype(Option<bool>),
        Tuple(u8, char),
        Struct { name: String, empty: [u8; 0] },
    }

    #[derive(Serialize)]
    struct Newtype<T>(T);

    #[derive(Serialize)]
    struct Tuple(i128, u128, ());

    #[derive(Serialize)]
    struct Empty {}

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct All {
        variants: Vec<Variants>,
        #[serde(rename = "a \"b\"\n")]
        texts: [&'static str; 5],
        floats: (f32, f64, f64, f64),
        wrapped_up: Newtype<Tuple>,
        empty: Empty,
        nothing: Vec<u8>,
        numbers: std::collections::BTreeMap<i8, bool>,
        truths: std::collections::BTreeMap<bool, u64>,
        letters: std::collections::BTreeMap<char, i64>,
        named: std::collections::BTreeMap<Variants, Newtype<()>>,
        optional: std::collections::BTreeMap<Option<&'static str>, u16>,
        escaped: std::collections::BTreeMap<&'static str, i32>,
    }

    #[test]
    fn what_is_written_here_is_what_serde_json_writes() {
        let all = All {
            variants: vec![
                Variants::Unit,
                Variants::Newtype(None),
                Variants::Newtype(Some(true)),
                Variants::Tuple(255, 'ß'),
                Variants::Struct {
                    name: "\u{1}".repeat(9),
                    empty: [],
                },
            ],
            texts: [
                "",
                "a",
                "\"",
                "long enough to be looked at in pieces\\",
                "日本\u{7f}",
            ],
            floats: (1.5, -0.0, f64::NAN, 1e300),
            wrapped_up: Newtype(Tuple(i128::MIN, u128::MAX, ())),
            empty: Empty {},
            nothing: Vec::new(),
            numbers: [(-1, true), (7, false)].into(),
            truths: [(false, u64::MAX), (true, 0)].into(),
            letters: [('"', i64::MIN), ('x', 1)].into(),
            named: [(Variants::Unit, Newtype(()))].into(),
            optional: [(Some("x"), 1)].into(),
            escaped: [("", 1), ("\n", 2), ("$ref", i32::MIN)].into(),
        };
        let written = Data::of(&all).unwrap();
        assert_eq!(written.text(), serde_json::to_string(&all).ok().as_deref());
        assert!(written.has_any(&["a \"b\"\n"]) && written.has_any(&["wrappedUp"]));
        assert!(!written.has_any(&["x"]) && !written.is_surely_full());
        let escaped = Data::of(&all.escaped).unwrap();
        assert!(escaped.has_any(&["\n"]) && escaped.bytes_without_dollars().is_none());
    }

    #[test]
    fn a_key_is_none_that_serde_json_takes_for_none() {
        use std::collections::BTreeMap;
        let no_text = BTreeMap::from([(Variants::Newtype(None), 1)]);
        assert!(Data::of(&no_text).is_err() && serde_json::to_string(&no_text).is_err());
        let nothing = BTreeMap::from([(None::<u8>, 1)]);
        assert!(Data::of(&nothing).is_err() && serde_json::to_string(&nothing).is_err());
    }

    #[test]
    fn what_json_cannot_hold_is_an_error() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(Data::of(&map).is_err());
    }
}
