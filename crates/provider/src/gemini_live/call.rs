//! One function call on the wire, read so leniently that no call is ever lost: what a model got wrong becomes a call with
//! a problem, which can be answered. Never guesses and never repairs.

use super::wire::{Path, Text, Unlisted};
use crate::arguments::read_arguments;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use windlass_session::model::{ArgumentsProblem, IncomingCall};
use windlass_tool::arguments::Arguments;

/// A call as it was written.
#[derive(Debug, Default)]
pub(super) struct FunctionCall<'a> {
    id: Loose<'a>,
    name: Loose<'a>,
    arguments: Option<&'a RawValue>,
    /// Vertex can stream arguments in pieces to those who ask for it; we never do.
    in_pieces: bool,
    problem: Option<String>,
    unknown: Vec<Cow<'a, str>>,
}

impl FunctionCall<'_> {
    /// The provider's id; `None` where it gave none, or an empty one.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.text()
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.text()
    }

    pub(super) fn incoming(&self) -> IncomingCall {
        IncomingCall {
            id: self.id().map(Arc::from),
            name: self.name().map(Arc::from),
            arguments: self.arguments(),
        }
    }

    fn arguments(&self) -> Result<Arguments, ArgumentsProblem> {
        if let Some(problem) = &self.problem {
            return Err(ArgumentsProblem(problem.clone()));
        }
        if self.in_pieces {
            return Err(ArgumentsProblem(
                "the arguments came in pieces, which was not asked for".to_owned(),
            ));
        }
        self.arguments
            .map_or_else(|| Ok(Arguments::none()), |raw| read_arguments(raw.get()))
    }
}

impl Unlisted for FunctionCall<'_> {
    fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        for name in &self.unknown {
            report(&Path { parent: path, name });
        }
    }
}

/// A string, or something else that counts as absent.
#[derive(Debug, Default)]
struct Loose<'a>(Option<Text<'a>>);

impl Loose<'_> {
    fn text(&self) -> Option<&str> {
        self.0
            .as_ref()
            .map(|text| &*text.0)
            .filter(|text| !text.is_empty())
    }
}

/// Gives every kind of JSON value that is not wanted the same meaning.
macro_rules! otherwise {
    ($value:expr) => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Loose(Some(Text(Cow::Borrowed(text)))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Loose(Some(Text(Cow::Owned(text.to_owned())))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose(None))
    }

    otherwise!(Loose(None));
}

impl<'de> Deserialize<'de> for Loose<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct CallVisitor;

impl<'de> CallVisitor {
    fn not_an_object() -> FunctionCall<'de> {
        FunctionCall {
            problem: Some("the call is no JSON object".to_owned()),
            ..FunctionCall::default()
        }
    }
}

impl<'de> Visitor<'de> for CallVisitor {
    type Value = FunctionCall<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a function call")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut call = FunctionCall::default();
        let (mut ids, mut names, mut arguments) = (0_u32, 0_u32, 0_u32);
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            match &*key {
                "id" => {
                    ids += 1;
                    call.id = map.next_value()?;
                }
                "name" => {
                    names += 1;
                    call.name = map.next_value()?;
                }
                "args" => {
                    arguments += 1;
                    call.arguments = Some(map.next_value()?);
                }
                "partialArgs" | "partial_args" => {
                    map.next_value::<IgnoredAny>()?;
                    call.in_pieces = true;
                }
                "willContinue" | "will_continue" => {
                    let raw: &RawValue = map.next_value()?;
                    call.in_pieces |= raw.get() == "true";
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    call.unknown.push(key);
                }
            }
        }
        for (count, key) in [(ids, "id"), (names, "name"), (arguments, "args")] {
            if count > 1 {
                call.problem = Some(format!("the key {key:?} of the call is there twice"));
            }
        }
        Ok(call)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Self::not_an_object())
    }

    otherwise!(Self::not_an_object());
}

impl<'de> Deserialize<'de> for FunctionCall<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CallVisitor)
    }
}
