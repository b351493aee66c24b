//! Arguments as others read and write them: their JSON, and the types that handlers have for them.

use super::{Arguments, Members, Part};
use crate::json_view::{Seen, View};
use serde::de::value::{BorrowedStrDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Error, Map, Value};

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_members(self.members(), serializer)
    }
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.see() {
            Seen::Null => serializer.serialize_unit(),
            Seen::Bool(flag) => serializer.serialize_bool(flag),
            Seen::Number(number) => number.serialize(serializer),
            Seen::Text(text) => serializer.serialize_str(text),
            Seen::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.clone().count()))?;
                for item in items {
                    list.serialize_element(&item)?;
                }
                list.end()
            }
            Seen::Object(members) => serialize_members(members, serializer),
        }
    }
}

fn serialize_members<S: Serializer>(
    members: Members<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(members.clone().count()))?;
    for (name, part) in members {
        map.serialize_entry(name, &part)?;
    }
    map.end()
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::<String, Value>::deserialize(deserializer).map(Self::from)
    }
}

/// A key, which may be kept by whoever reads it.
struct Name<'de>(&'de str);

impl<'de> IntoDeserializer<'de, Error> for Name<'de> {
    type Deserializer = BorrowedStrDeserializer<'de, Error>;

    fn into_deserializer(self) -> Self::Deserializer {
        BorrowedStrDeserializer::new(self.0)
    }
}

impl<'de> IntoDeserializer<'de, Error> for Part<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

fn visit_members<'de, V: Visitor<'de>>(
    members: Members<'de>,
    visitor: V,
) -> Result<V::Value, Error> {
    let mut map = MapDeserializer::new(members.map(|(name, part)| (Name(name), part)));
    let value = visitor.visit_map(&mut map)?;
    map.end().map(|()| value)
}

impl<'de> Deserializer<'de> for &'de Arguments {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visit_members(self.members(), visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> Deserializer<'de> for Part<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.see() {
            Seen::Null => visitor.visit_unit(),
            Seen::Bool(flag) => visitor.visit_bool(flag),
            Seen::Number(number) => number.deserialize_any(visitor),
            Seen::Text(text) => visitor.visit_borrowed_str(text),
            Seen::Array(items) => {
                let mut list = SeqDeserializer::new(items);
                let value = visitor.visit_seq(&mut list)?;
                list.end().map(|()| value)
            }
            Seen::Object(members) => visit_members(members, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.see() {
            Seen::Null => visitor.visit_none(),
            Seen::Bool(_) | Seen::Number(_) | Seen::Text(_) | Seen::Array(_) | Seen::Object(_) => {
                visitor.visit_some(self)
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// What nobody asks for is not looked into.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    /// A name alone, or an object of one member whose name says which.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (name, content) = match self.see() {
            Seen::Text(name) => (name, None),
            Seen::Object(mut members) => match (members.next(), members.next()) {
                (Some((name, part)), None) => (name, Some(part)),
                (_, _) => return Err(Error::custom("an object with one member was expected")),
            },
            Seen::Null | Seen::Bool(_) | Seen::Number(_) | Seen::Array(_) => {
                return Err(Error::custom("a text or an object was expected"));
            }
        };
        visitor.visit_enum(Variant { name, content })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

struct Variant<'de> {
    name: &'de str,
    content: Option<Part<'de>>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Content<'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), Error> {
        let name = seed.deserialize(BorrowedStrDeserializer::<Error>::new(self.name))?;
        Ok((name, Content(self.content)))
    }
}

/// What a variant holds, where it holds anything.
struct Content<'de>(Option<Part<'de>>);

impl<'de> Content<'de> {
    fn part(self) -> Result<Part<'de>, Error> {
        self.0
            .ok_or_else(|| Error::custom("a variant with content was expected"))
    }
}

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Deserialize::deserialize)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.part()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.part()?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.part()?.deserialize_any(visitor)
    }
}
