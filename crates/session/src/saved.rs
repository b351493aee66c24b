//! What of a session outlives its process beside the log: what the driver saves of it at certain moments, and what a session
//! that goes on with it is given. Owns the saved form and its version; knows no store.

use crate::client::MessageKey;
use crate::event::TurnSummary;
use crate::policy::SavedLoops;
use crate::said::{KeptState, Said};
use crate::state::PendingEnd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_store::{Effect, LegNumber, Question, StandingApproval};
use windlass_tool::arguments::Arguments;
use windlass_tool::id::{CallNumber, ToolId};
use windlass_tool::sensitive::Sensitive;

/// The version of the saved form. A session of another version is not taken up.
pub const SAVED_VERSION: u32 = 2;

/// One session as it was at one moment. What was said and done is in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Saved {
    pub(crate) version: u32,
    /// What the user wanted answered at once, where no model has heard it.
    pub pending_request: Option<Sensitive<String>>,
    pub(crate) turns_begun: u64,
    pub(crate) open_turn: Option<OpenTurn>,
    /// What the user typed while no model could hear it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting_texts: Vec<WaitingText>,
    pub last_call: CallNumber,
    pub(crate) last_entry: LegNumber,
    pub(crate) onset: Option<LegNumber>,
    pub(crate) pending_end: Option<Sensitive<PendingEnd>>,
    pub(crate) pending_message: Option<Sensitive<String>>,
    pub(crate) blocks_made: u32,
}

/// A turn whose question has not been answered in full, with what it has spent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenTurn {
    pub(crate) number: u64,
    /// What the user said.
    pub(crate) words: Sensitive<String>,
    /// The leg's first entry of it.
    pub(crate) from: LegNumber,
    pub(crate) summary: TurnSummary,
    pub(crate) loops: SavedLoops,
}

/// Where in the log an unanswered turn of a leg begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFrom {
    /// The leg's own first entry of what the user said.
    pub(crate) entry: LegNumber,
    pub(crate) turn: u64,
}

/// Text that the user typed, in a message of the client's, and that waits for the provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WaitingText {
    pub(crate) text: Sensitive<String>,
    pub(crate) message: Option<MessageKey>,
}

/// What a session finds when it begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Began {
    /// Where it goes on in another process: what it had left there.
    pub saved: Option<Saved>,
    /// Questions of the conversation that wait for the user, for a session that takes them over with its client.
    pub questions: Vec<Question>,
    /// The highest number that a turn of the conversation had, where the session's go on with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_turn: u64,
    /// Where the session takes up a turn whose answer was broken off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<SpentTurn>,
    /// Effects that have ended, and that no model has heard of.
    pub unheard: Vec<Effect>,
    /// The same of questions.
    pub unheard_questions: Vec<Question>,
    /// Effects that are at work, and whose ends no other session tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_work: Vec<Effect>,
    /// What handlers keep for the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<KeptState>,
    /// The models of whose windows it was warned already.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub warned_models: BTreeSet<Arc<str>>,
    /// The standing approvals of the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<StandingApproval>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What was called in a turn whose answer was broken off, by the log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SpentTurn {
    pub(crate) calls: u32,
    /// Those whose arguments the log has.
    pub(crate) loops: SavedLoops,
}

impl SpentTurn {
    /// Of what was said and done since its message.
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

    /// From where on the log holds what will be put to the model again.
    pub fn open_from(&self) -> Option<OpenFrom> {
        let open = self.open_turn.as_ref()?;
        Some(OpenFrom {
            entry: open.from,
            turn: open.number,
        })
    }

    /// Leaves out the words that tools wanted said, for a journal that must not show them; whether there were any. That the
    /// session is to end, and when, stays.
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
