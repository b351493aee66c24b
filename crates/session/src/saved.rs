//! The state of a session that outlives its process beside the log: the driver saves it at certain moments, and a session that goes on
//! is given it. Owns the saved form and its version; knows no store.

use crate::client::MessageKey;
use crate::event::TurnSummary;
use crate::log_text::{KeptState, Said};
use crate::policy::SavedLoops;
use crate::state::PendingEnd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::id::{CallNumber, ToolId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::{Effect, LegNumber, Question, StandingApproval};

/// The version of the saved form. A session of another version is not taken up.
pub const SAVED_VERSION: u32 = 2;

/// One session as it was at one moment. The log has its words and calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Saved {
    pub(crate) version: u32,
    /// The user's request that is answered at once, if no model has heard it.
    pub pending_request: Option<Sensitive<String>>,
    pub(crate) turns_begun: u64,
    pub(crate) open_turn: Option<OpenTurn>,
    /// The texts that the user typed while no model could hear them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting_texts: Vec<WaitingText>,
    pub last_call: CallNumber,
    pub(crate) last_entry: LegNumber,
    pub(crate) onset: Option<LegNumber>,
    pub(crate) pending_end: Option<Sensitive<PendingEnd>>,
    pub(crate) pending_message: Option<Sensitive<String>>,
    pub(crate) blocks_made: u32,
}

/// A turn whose question has not been answered in full, with its spent budget.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenTurn {
    pub(crate) number: u64,
    /// The user's words.
    pub(crate) words: Sensitive<String>,
    /// The leg's first entry of the turn.
    pub(crate) from: LegNumber,
    pub(crate) summary: TurnSummary,
    pub(crate) loops: SavedLoops,
}

/// The place in the log where an unanswered turn of a leg begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFrom {
    /// The leg's own first entry of the user's words.
    pub(crate) entry: LegNumber,
    pub(crate) turn: u64,
}

/// Text that the user typed, in a message of the client's, and that waits for the provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WaitingText {
    pub(crate) text: Sensitive<String>,
    pub(crate) message: Option<MessageKey>,
}

/// The state that a session finds when it begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Began {
    /// The session's saved state, if it goes on in another process.
    pub saved: Option<Saved>,
    /// The conversation's approval requests that wait for the user, for a session that takes them over with its client.
    pub questions: Vec<Question>,
    /// The highest number of a turn of the conversation, if the session's turns go on with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_turn: u64,
    /// The spent part of a turn whose answer was broken off, if the session takes it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<SpentTurn>,
    /// Effects that have ended, and that no model has heard of.
    pub unheard: Vec<Effect>,
    /// Answered approval requests that no model has heard of.
    pub unheard_questions: Vec<Question>,
    /// Effects that are at work, and whose ends no other session tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_work: Vec<Effect>,
    /// The values that handlers keep for the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<KeptState>,
    /// The models for whose windows a warning was already given.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub warned_models: BTreeSet<Arc<str>>,
    /// The standing approvals of the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<StandingApproval>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The calls of a turn whose answer was broken off, by the log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SpentTurn {
    pub(crate) calls: u32,
    /// The calls whose arguments the log has.
    pub(crate) loops: SavedLoops,
}

impl SpentTurn {
    /// Counts the calls among the entries since the turn's message.
    pub fn of<'a>(said: impl IntoIterator<Item = &'a Said>) -> Self {
        let mut spent = Self::default();
        for said in said {
            let Said::Call {
                tool, arguments, ..
            } = said
            else {
                continue;
            };
            spent.calls = spent.calls.saturating_add(1);
            let arguments = arguments.as_ref().map(Sensitive::expose);
            let arguments = arguments.and_then(serde_json::Value::as_object);
            if let (Some(tool), Some(arguments)) = (ToolId::parse(tool), arguments) {
                let arguments = Arguments::from(arguments.clone());
                spent.loops.note(tool, Sensitive(Arc::new(arguments)));
            }
        }
        spent
    }
}

impl Began {
    /// All arguments of calls in it, with the tool of each, for a journal that must leave some of them out.
    pub fn arguments_mut(
        &mut self,
    ) -> impl Iterator<Item = (&ToolId, &mut Sensitive<Arc<Arguments>>)> {
        let open_turn = self
            .saved
            .iter_mut()
            .filter_map(|saved| saved.open_turn.as_mut());
        let spent = self.spent.iter_mut().map(|spent| &mut spent.loops);
        let loops = open_turn.map(|turn| &mut turn.loops).chain(spent);
        loops.flat_map(SavedLoops::arguments_mut)
    }
}

impl Saved {
    /// Whether this version of the program can take it up.
    pub fn is_current(&self) -> bool {
        self.version == SAVED_VERSION
    }

    /// The place in the log from which its words are put to the model again.
    pub fn open_from(&self) -> Option<OpenFrom> {
        let open = self.open_turn.as_ref()?;
        Some(OpenFrom {
            entry: open.from,
            turn: open.number,
        })
    }

    /// Removes the words that tools wanted said, for a journal that must not show them. Returns whether there were any. The request for
    /// an end, and its time, stay.
    pub fn forget_pending_words(&mut self) -> bool {
        let message = self.pending_message.take();
        let Some(Sensitive(end)) = &mut self.pending_end else {
            return message.is_some();
        };
        end.reason.clear();
        end.closing_message = None;
        end.text_response = None;
        true
    }
}
