//! The calls of one answer, put together from the pieces that servers send: with an index or without, with an id once, always or
//! never, in letters or whole. Guesses nothing: arguments that are no JSON at the end are a call with a problem.

use crate::answer::AnswerLimits;
use crate::arguments::read_arguments_text;
use crate::log::{Arguments, Call, Opaque, own_call_id};
use serde_json::{Map, Value};
use std::sync::Arc;
use windlass_session::model::{ArgumentsProblem, IncomingCall};

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<PartialCall>,
    /// The call that each index stands for now.
    bound: Vec<(u64, usize)>,
}

#[derive(Debug, Default)]
struct PartialCall {
    id: String,
    name: String,
    arguments: String,
    /// Fields beside the protocol's own; a signature may be among them.
    fields: Map<String, Value>,
}

/// The limit that an answer exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooMuch {
    Calls,
    Arguments,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes one entry of `delta.tool_calls`. An entry that is no object is ignored.
    pub(super) fn add(&mut self, entry: Value, limits: &AnswerLimits) -> Result<(), TooMuch> {
        let Value::Object(mut entry) = entry else {
            return Ok(());
        };
        let mut function = match entry.remove("function") {
            Some(Value::Object(function)) => function,
            Some(_) | None => Map::new(),
        };
        // Older servers put the id or the index into the function.
        let mut take = |key: &str| {
            let own = entry.remove(key).filter(|value| !value.is_null());
            own.or_else(|| function.remove(key))
        };
        let id = take("id").and_then(text).unwrap_or_default();
        let index = take("index").and_then(|index| index.as_u64());
        entry.remove("type");
        let name = function.remove("name").and_then(text).unwrap_or_default();
        let arguments = function.remove("arguments");

        let at = self.slot_of(&id, index, &name, limits)?;
        if let Some(index) = index {
            self.bind(index, at);
        }
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        match arguments {
            Some(Value::String(piece)) => call.arguments.push_str(&piece),
            Some(Value::Null) | None => {}
            Some(whole) => call.arguments.push_str(&whole.to_string()),
        }
        call.fields
            .extend(entry.into_iter().filter(|(_, value)| !value.is_null()));
        if call.arguments.len() > limits.arguments_bytes_max || call.fields.len() > FIELDS_MAX {
            return Err(TooMuch::Arguments);
        }
        Ok(())
    }

    /// Takes a piece of the arguments of the call that an index stands for, from an entry without anything else.
    pub(super) fn add_arguments(
        &mut self,
        index: u64,
        piece: &str,
        limits: &AnswerLimits,
    ) -> Result<(), TooMuch> {
        let at = self.slot_of("", Some(index), "", limits)?;
        self.bind(index, at);
        let call = &mut self.calls[at];
        call.arguments.push_str(piece);
        if call.arguments.len() > limits.arguments_bytes_max {
            return Err(TooMuch::Arguments);
        }
        Ok(())
    }

    /// The call of an entry: by id, else by index, else the latest. An entry with a name begins another call if it has neither id
    /// nor index and the latest call is whole, or if it has a whole call's id under a new index.
    fn slot_of(
        &mut self,
        id: &str,
        index: Option<u64>,
        name: &str,
        limits: &AnswerLimits,
    ) -> Result<usize, TooMuch> {
        let found = if !id.is_empty() {
            let of_index = index.and_then(|index| self.bound_to(index));
            let both = of_index.filter(|at| self.calls[*at].id == id);
            both.or_else(|| {
                let of_id = self.calls.iter().position(|call| call.id == id);
                let is_new = of_index.is_none() && index.is_some() && !name.is_empty();
                of_id.filter(|at| !(is_new && self.calls[*at].is_whole()))
            })
        } else if let Some(index) = index {
            self.bound_to(index)
        } else {
            let latest = self.calls.len().checked_sub(1);
            latest.filter(|at| name.is_empty() || !self.calls[*at].is_whole())
        };
        if let Some(at) = found {
            return Ok(at);
        }
        if self.calls.len() >= limits.calls_max {
            return Err(TooMuch::Calls);
        }
        self.calls.push(PartialCall::default());
        Ok(self.calls.len() - 1)
    }

    fn bound_to(&self, index: u64) -> Option<usize> {
        let bound = self.bound.iter().find(|(bound, _)| *bound == index);
        bound.map(|(_, at)| *at)
    }

    /// Binds an index to a call. A server may count without end; the oldest binding is the least likely to be used again.
    fn bind(&mut self, index: u64, at: usize) {
        const BOUND_MAX: usize = 256;
        match self.bound.iter_mut().find(|(bound, _)| *bound == index) {
            Some((_, call)) => *call = at,
            None => {
                if self.bound.len() == BOUND_MAX {
                    self.bound.remove(0);
                }
                self.bound.push((index, at));
            }
        }
    }

    /// A call's id that comes once more, without arguments or with the same ones, asks for no second call.
    fn forget_echoes(&mut self) {
        for at in (1..self.calls.len()).rev() {
            let (earlier, later) = self.calls.split_at(at);
            if earlier.iter().any(|call| later[0].echoes(call)) {
                self.calls.remove(at);
            }
        }
    }

    /// The calls for the log and for the core, each with an id.
    pub(super) fn finish(mut self, answer: u32) -> Vec<(Call, IncomingCall)> {
        self.forget_echoes();
        self.calls
            .into_iter()
            .enumerate()
            .map(|(index, call)| call.finish(answer, index))
            .collect()
    }
}

/// Fields beside the protocol's that one call may bring.
const FIELDS_MAX: usize = 32;

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

impl PartialCall {
    fn echoes(&self, earlier: &Self) -> bool {
        let (said, before) = (self.arguments.trim(), earlier.arguments.trim());
        let is_same = self.id == earlier.id && self.name == earlier.name;
        !self.id.is_empty() && is_same && (said.is_empty() || said == before)
    }

    fn is_whole(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }

    fn finish(self, answer: u32, index: usize) -> (Call, IncomingCall) {
        let id: Arc<str> = if self.id.is_empty() {
            own_call_id(answer, index)
        } else {
            self.id.into()
        };
        let name: Arc<str> = self.name.into();
        let text = self.arguments.trim();
        let arguments =
            read_arguments_text(text).map_err(|problem| merged(text).unwrap_or(problem));
        let call = Call {
            id: Some(id.clone()),
            name: name.clone(),
            arguments: arguments
                .as_ref()
                .ok()
                .map(|map| Arguments::from_parsed(text, map)),
            opaque: (!self.fields.is_empty()).then(|| Opaque::Fields(self.fields.into())),
        };
        let incoming = IncomingCall {
            id: Some(id),
            name: (!name.is_empty()).then_some(name),
            arguments,
        };
        (call, incoming)
    }
}

/// Whether a server joined the arguments of two calls. Their assignment would be a guess.
fn merged(text: &str) -> Option<ArgumentsProblem> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let is_first_whole = matches!(values.next(), Some(Ok(_)));
    (is_first_whole && !text[values.byte_offset()..].trim().is_empty()).then(|| {
        ArgumentsProblem(
            "two calls came run into one, and their arguments cannot be told apart: make one call at a time"
                .to_owned(),
        )
    })
}
