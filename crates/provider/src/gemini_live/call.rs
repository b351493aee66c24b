//! One function call on the wire, read so leniently that no call is ever lost: what a model got wrong becomes a call with
//! a problem, which can be answered. Never guesses and never repairs.

use super::reading::{Path, Text, Unlisted};
use crate::arguments::read_arguments;
use serde::de::{Deserialize, Deserializer, IgnoredAny};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_session::model::{ArgumentsProblem, IncomingCall};
use windlass_tool::arguments::Arguments;
use windlass_tool::json::{self, Members};

/// A call as it was written: its members, the last one of each name, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct FunctionCall<'a> {
    members: BTreeMap<Text<'a>, &'a RawValue>,
    problem: Option<String>,
}

/// Vertex can stream arguments in pieces to those who ask for it; we never do.
const IN_PIECES: [&str; 2] = ["partialArgs", "partial_args"];
const CONTINUED: [&str; 2] = ["willContinue", "will_continue"];

impl FunctionCall<'_> {
    /// The provider's id; `None` where it gave none, or an empty one.
    pub(super) fn id(&self) -> Option<Arc<str>> {
        self.text("id")
    }

    pub(super) fn incoming(&self) -> IncomingCall {
        IncomingCall {
            id: self.id(),
            name: self.text("name"),
            arguments: self.arguments(),
        }
    }

    fn member(&self, name: &str) -> Option<&RawValue> {
        self.members.get(name).copied()
    }

    /// What is no string counts as absent.
    fn text(&self, name: &str) -> Option<Arc<str>> {
        let Text(text) = serde_json::from_str(self.member(name)?.get()).ok()?;
        (!text.is_empty()).then(|| Arc::from(text))
    }

    fn arguments(&self) -> Result<Arguments, ArgumentsProblem> {
        if let Some(problem) = &self.problem {
            return Err(ArgumentsProblem(problem.clone()));
        }
        let is_true = |name: &&str| self.member(name).is_some_and(|raw| raw.get() == "true");
        if IN_PIECES.iter().any(|name| self.member(name).is_some()) || CONTINUED.iter().any(is_true)
        {
            return Err(ArgumentsProblem(
                "the arguments came in pieces, which was not asked for".to_owned(),
            ));
        }
        self.member("args")
            .map_or_else(|| Ok(Arguments::none()), |raw| read_arguments(raw.get()))
    }
}

impl Unlisted for FunctionCall<'_> {
    fn unlisted(&self, path: Option<&Path<'_>>, report: &mut dyn FnMut(&Path<'_>)) {
        let is_listed = |name: &str| {
            matches!(name, "id" | "name" | "args")
                || IN_PIECES.contains(&name)
                || CONTINUED.contains(&name)
        };
        for Text(name) in self.members.keys().filter(|name| !is_listed(&name.0)) {
            report(&Path { parent: path, name });
        }
    }
}

impl<'de> Deserialize<'de> for FunctionCall<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let Ok(members) = serde_json::from_str(raw.get()) else {
            return Ok(Self {
                problem: Some("the call is no JSON object".to_owned()),
                ..Self::default()
            });
        };
        let strictly = json::read::<Members<IgnoredAny>>(raw.get().as_bytes());
        let problem = strictly
            .err()
            .map(|error| format!("the call cannot be read: {}", error.message));
        Ok(Self { members, problem })
    }
}
