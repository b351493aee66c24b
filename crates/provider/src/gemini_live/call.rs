//! One function call on the wire, read so leniently that no call is ever lost: a model's mistake makes a call with a problem,
//! which can be answered. Never guesses and never repairs.

use crate::arguments::read_arguments;
use crate::message::{Field, PassedOver, Path, Shape, Text};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::json::NUMBER;
use windlass_session::model::{ArgumentsProblem, IncomingCall};

/// The way in which the arguments of a call are read.
pub(super) trait GivenArguments<'a>: Deserialize<'a> {
    fn arguments(self) -> Result<Arguments, ArgumentsProblem>;
}

/// At once: arguments with a fault make the message unreadable.
impl GivenArguments<'_> for Arguments {
    fn arguments(self) -> Result<Arguments, ArgumentsProblem> {
        Ok(self)
    }
}

/// Later: a fault in them is a problem of the call, and its message is readable.
impl<'a> GivenArguments<'a> for &'a RawValue {
    fn arguments(self) -> Result<Arguments, ArgumentsProblem> {
        read_arguments(self.get())
    }
}

/// A call as it was written.
#[derive(Debug)]
pub(super) struct FunctionCall<'a, G> {
    id: Option<Text<'a>>,
    name: Option<Text<'a>>,
    arguments: Option<G>,
    /// Vertex can stream arguments in pieces to clients that ask for it; we never ask.
    in_pieces: bool,
    problem: Option<String>,
    unknown: Vec<Cow<'a, str>>,
}

impl<G> Default for FunctionCall<'_, G> {
    fn default() -> Self {
        Self {
            id: None,
            name: None,
            arguments: None,
            in_pieces: false,
            problem: None,
            unknown: Vec::new(),
        }
    }
}

impl<G> FunctionCall<'_, G> {
    fn not_an_object() -> Self {
        Self {
            problem: Some("the call is no JSON object".to_owned()),
            ..Self::default()
        }
    }
}

impl<'a, G: GivenArguments<'a>> FunctionCall<'a, G> {
    pub(super) fn incoming(self) -> IncomingCall {
        IncomingCall {
            id: text_of(self.id.as_ref()).map(Arc::from),
            name: text_of(self.name.as_ref()).map(Arc::from),
            arguments: match self.problem {
                Some(problem) => Err(ArgumentsProblem(problem)),
                None if self.in_pieces => Err(ArgumentsProblem(
                    "the arguments came in pieces, which was not asked for".to_owned(),
                )),
                None => self
                    .arguments
                    .map_or_else(|| Ok(Arguments::none()), G::arguments),
            },
        }
    }
}

impl<G> PassedOver for FunctionCall<'_, G> {
    fn is_whole(&self) -> bool {
        self.unknown.is_empty()
    }

    fn passed_over(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        for name in &self.unknown {
            report(&Path { parent: path, name });
        }
    }
}

/// `None` for an empty text.
fn text_of<'c>(text: Option<&'c Text<'_>>) -> Option<&'c str> {
    text.map(|text| &*text.0).filter(|text| !text.is_empty())
}

/// A string, or something else that counts as absent.
fn loose<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Text<'de>>, A::Error> {
    let mut text = None;
    Field::take(map, &mut text)?;
    Ok(text)
}

impl<'de, G: GivenArguments<'de>> Shape<'de> for FunctionCall<'de, G> {
    fn of_text(_: Cow<'de, str>) -> Option<Self> {
        Some(Self::not_an_object())
    }

    fn of_flag(_: bool) -> Option<Self> {
        Some(Self::not_an_object())
    }

    fn of_number(_: u64) -> Option<Self> {
        Some(Self::not_an_object())
    }

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Some(Self::not_an_object()))
    }

    fn of_null_in_list() -> Option<Self> {
        Some(Self::not_an_object())
    }

    fn of_object<A: MapAccess<'de>>(mut map: A, place: &mut Option<Self>) -> Result<(), A::Error> {
        let call = place.insert(FunctionCall::default());
        let (mut ids, mut names, mut arguments) = (0_u32, 0_u32, 0_u32);
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "id" => {
                    ids += 1;
                    call.id = loose(&mut map)?;
                }
                "name" => {
                    names += 1;
                    call.name = loose(&mut map)?;
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
                // A number came in place of the call.
                NUMBER => {
                    map.next_value::<IgnoredAny>()?;
                    *call = Self::not_an_object();
                    return Ok(());
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    call.unknown.push(key);
                }
            }
        }
        for (count, key) in [(ids, "id"), (names, "name"), (arguments, "args")] {
            if count > 1 {
                call.problem = Some(format!(
                    "the call cannot be read: the key {key:?} is there twice"
                ));
            }
        }
        Ok(())
    }
}
