//! The calls of one connection: open ones, cancelled ones, and the match of results to calls. Knows ids and names, not the use of a
//! result.

use super::profile::Profile;
use super::refusal::Refusal;
use crate::family::Family;
use crate::script::{Reaction, Settings};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The requested scheduling of a non-blocking call's result. Ordered by urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scheduling {
    Silent,
    WhenIdle,
    Interrupt,
}

#[derive(Clone, Debug)]
pub(crate) struct OpenCall {
    /// `None` for a call that was delivered without an id.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) blocking: bool,
    /// The program that waits for the result.
    pub(crate) program: u64,
}

/// A result that belongs to an open call.
#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) program: u64,
    pub(crate) name: String,
    pub(crate) response: Value,
    pub(crate) scheduling: Scheduling,
    pub(crate) end: AnswerEnd,
}

/// The effect of a result on its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerEnd {
    Final,
    /// More results follow.
    Interim,
    /// The model ignores further results, as with extended thinking after an interim result.
    Abandoned,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    open: Vec<OpenCall>,
    cancelled: VecDeque<String>,
}

/// The most ids of cancelled calls that are remembered.
const CANCELLED_MAX: usize = 256;
const OPEN_MAX: usize = 1_024;

impl Calls {
    /// Opens a call. A call with the id of an open one is a repetition, not another call.
    pub(crate) fn open(&mut self, call: OpenCall) {
        let repeated = call.id.is_some() && self.open.iter().any(|other| other.id == call.id);
        if !repeated && self.open.len() < OPEN_MAX {
            self.open.push(call);
        }
    }

    pub(crate) fn of_program(&self, program: u64) -> impl Iterator<Item = &OpenCall> {
        self.open.iter().filter(move |call| call.program == program)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Cancels the program's calls, all or only the blocking ones; returns the ids of those that had one.
    pub(crate) fn cancel(&mut self, program: u64, blocking_only: bool) -> Vec<String> {
        let mut ids = Vec::new();
        self.open.retain(|call| {
            let taken = call.program == program && (call.blocking || !blocking_only);
            if taken {
                ids.extend(call.id.clone());
            }
            !taken
        });
        for id in &ids {
            self.remember_cancelled(id.clone());
        }
        ids
    }

    /// Cancels one call by id, as a raw frame of the script does.
    pub(crate) fn cancel_id(&mut self, id: &str) {
        self.open.retain(|call| call.id.as_deref() != Some(id));
        self.remember_cancelled(id.to_owned());
    }

    fn remember_cancelled(&mut self, id: String) {
        if self.cancelled.len() >= CANCELLED_MAX {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back(id);
    }

    /// Checks one result and takes it for its call; `None` where it matches no call and is ignored.
    pub(crate) fn answer(
        &mut self,
        given: &Value,
        profile: &Profile,
        settings: &Settings,
    ) -> Result<Option<CallResult>, Refusal> {
        let text = |key: &str| given.get(key).and_then(Value::as_str);
        let Some(response) = given.get("response") else {
            return Err(Refusal::invalid_argument());
        };
        let scheduling = text("scheduling");
        if scheduling.is_some()
            && profile.family == Family::Extended38
            && settings.refuse_scheduling
        {
            return Err(Refusal::invalid(
                "Function response scheduling is not supported for this model",
            ));
        }
        if profile.vertex && given.get("willContinue").is_some() {
            return Err(Refusal::unknown_name(
                "willContinue",
                &"tool_response.function_responses[0]",
            ));
        }
        let id = text("id").filter(|id| !id.is_empty());
        let name = text("name").unwrap_or_default();
        if name.is_empty() && profile.family != Family::Extended38 {
            return Err(Refusal::invalid_argument());
        }
        let Some(index) = self.position(id, name) else {
            return self.reject(id, settings).map(|()| None);
        };
        let end = match given.get("willContinue").and_then(Value::as_bool) {
            Some(true) if self.open[index].blocking => AnswerEnd::Final,
            Some(true) if profile.family == Family::Extended38 => AnswerEnd::Abandoned,
            Some(true) => AnswerEnd::Interim,
            Some(false) | None => AnswerEnd::Final,
        };
        let call = if end == AnswerEnd::Interim {
            self.open[index].clone()
        } else {
            self.open.remove(index)
        };
        if end == AnswerEnd::Abandoned {
            self.cancelled.extend(call.id.clone());
        }
        let response = if name.is_empty() {
            // Measured: extended thinking treats an unnamed result as a failure of the system.
            json!({ "error": "The system failed." })
        } else {
            response.clone()
        };
        Ok(Some(CallResult {
            program: call.program,
            name: call.name,
            response,
            scheduling: match scheduling {
                Some("INTERRUPT") => Scheduling::Interrupt,
                Some("SILENT") => Scheduling::Silent,
                Some(_) | None => Scheduling::WhenIdle,
            },
            end,
        }))
    }

    /// The call by id; a result without an id belongs to the oldest open call of that name that was delivered without one.
    fn position(&self, id: Option<&str>, name: &str) -> Option<usize> {
        self.open
            .iter()
            .position(|call| match (id, call.id.as_deref()) {
                (Some(id), Some(open)) => id == open,
                (None, None) => call.name == name,
                (Some(_), None) | (None, Some(_)) => false,
            })
    }

    fn reject(&self, id: Option<&str>, settings: &Settings) -> Result<(), Refusal> {
        let Some(id) = id else {
            return Err(Refusal::invalid_argument());
        };
        let cancelled = self.cancelled.iter().any(|other| other == id);
        let reaction = if cancelled {
            settings.cancelled_response
        } else {
            settings.unknown_response
        };
        match reaction {
            Reaction::Ignore => Ok(()),
            Reaction::Close => Err(Refusal::policy("Requested entity was not found.")),
        }
    }
}
