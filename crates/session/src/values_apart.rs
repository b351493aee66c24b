//! The values that a result keeps for its conversation when no session carries that out: a service calls back, or a handler is asked
//! about an effect's outcome. Knows no store; its caller has the log.

use crate::event::SessionEvent;
use crate::limits::Limits;
use crate::log_text::KeptState;
use crate::values::Values;
use std::sync::Arc;
use windlass_contract::id::{CallNumber, ToolId};
use windlass_contract::intent::{Intent, SET_STATE};
use windlass_contract::registry::Registry;
use windlass_store::command::ValuesEntry;
use windlass_store::{Entry, EntryEvent, LegNumber};

/// The conversation that a result is about, as it is now.
pub struct ValuesApart<'a> {
    pub tool: &'a ToolId,
    pub registry: &'a Arc<Registry>,
    pub limits: &'a Arc<Limits>,
    /// The newest entries of the log, oldest first. Read it if [`keeps_values`] returns true.
    pub log: &'a [Entry],
}

/// The results of a response's intents.
#[derive(Debug, Default)]
pub struct SetApart {
    /// The log entry for the ledger to write with the outcome.
    pub values: Option<ValuesEntry>,
    /// The event of each intent, applied or rejected. Report them once the ledger has the outcome. Their call has the number zero.
    pub events: Vec<SessionEvent>,
}

/// Whether some of a result's intents keep something for the conversation.
pub fn keeps_values(intents: &[Intent]) -> bool {
    intents.iter().any(Intent::is_of_conversation)
}

impl ValuesApart<'_> {
    /// Judges intents as a session would. Intents for a session are rejected.
    pub fn set(&self, intents: &[Intent]) -> SetApart {
        let mut values = Values::new(self.registry.clone(), self.limits.clone());
        if let Some(kept) = KeptState::of_log(self.log) {
            values.restore(kept, 0);
        }
        let mut events = Vec::with_capacity(intents.len());
        for intent in intents {
            let (call, tool) = (CallNumber(0), Some(self.tool.clone()));
            let change = match intent {
                Intent::SetState { key, value } => values.set(key, value.expose()),
                other if other.is_of_conversation() => Err(format!("{SET_STATE} {MALFORMED}")),
                other => Err(format!(
                    "{}: the session that it is for has no such call any more",
                    other.shown_name()
                )),
            };
            let intent = Box::new(intent.clone());
            events.push(match change {
                Ok(change) => SessionEvent::IntentApplied {
                    call,
                    tool,
                    intent,
                    change,
                },
                Err(problem) => SessionEvent::IntentRejected {
                    call,
                    tool,
                    intent,
                    problem,
                },
            });
        }
        let entry = values.are_changed().then(|| values.said(LegNumber(0)));
        let values = entry.and_then(|said| match said.event() {
            EntryEvent::Said(said) => Some(ValuesEntry { by: None, said }),
            _ => None,
        });
        SetApart { values, events }
    }
}

/// The state controller's message about such an intent, too.
pub(crate) const MALFORMED: &str = "needs a key and a value";
