//! What of a session outlives its process: what the driver saves of it at certain moments, and what a session that takes
//! its place is given. Owns the saved form and its version; knows no store. What the store keeps by itself, the ledger and
//! the questions to the user, is not in it.

mod elsewhere;

use crate::client::{ClientEvent, ClientUpdate, MessageKey};
use crate::event::{SessionEvent, TurnSummary};
use crate::io::{Input, LedgerEntry, Output, TokenHash};
use crate::model::HistoryEntry;
use crate::policy::SavedLoops;
use crate::state::PendingEnd;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_tool::arguments::Arguments;
use windlass_tool::id::{CallNumber, EffectId, ToolId};
use windlass_tool::sensitive::Sensitive;

/// The version of the saved form. A session of another version is not taken up.
pub const SNAPSHOT_VERSION: u32 = 1;

/// One session as it was at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    pub(crate) version: u32,
    /// When the first session of its line began, in milliseconds since the Unix epoch.
    pub began_unix_ms: u64,
    /// What was said, oldest first, but for the question that is still to be answered. It begins the configuration of the
    /// session that follows.
    pub history: Vec<HistoryEntry>,
    /// What the user wanted answered at once, where no model has heard it.
    pub pending_request: Option<Sensitive<String>>,
    pub(crate) turns_begun: u64,
    pub(crate) inputs: u64,
    pub(crate) open_turn: Option<OpenTurn>,
    /// What the user typed while no model could hear it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting_texts: Vec<WaitingText>,
    pub(crate) last_call: CallNumber,
    pub(crate) questions: Vec<AskedQuestion>,
    pub(crate) pending_end: Option<Sensitive<PendingEnd>>,
    pub(crate) pending_message: Option<Sensitive<String>>,
    pub(crate) external_in_context: bool,
    pub(crate) blocks_made: u32,
}

/// A turn whose question has not been answered in full, with what it has spent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenTurn {
    pub(crate) number: u64,
    /// What the user said.
    pub(crate) words: Sensitive<String>,
    pub(crate) summary: TurnSummary,
    pub(crate) loops: SavedLoops,
}

/// Text that the user typed, in a message of the client's, and that waits for the provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WaitingText {
    pub(crate) text: Sensitive<String>,
    pub(crate) message: Option<MessageKey>,
}

/// A question of which the client has not heard the end, under the number that it knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AskedQuestion {
    pub(crate) call: CallNumber,
    pub(crate) token_hash: TokenHash,
}

/// What a session is given that takes the place of one whose process has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Restored {
    pub snapshot: Snapshot,
    /// The conversation's effects of the last day.
    pub effects: Vec<LedgerEntry>,
    /// A model of the conversation has read what others wrote, in whichever session.
    #[serde(default)]
    pub has_read: bool,
    /// The conversation's questions whose time is not up, answered ones too.
    pub questions: Vec<KnownQuestion>,
}

/// A question to the user, as the store has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KnownQuestion {
    pub token_hash: TokenHash,
    pub effect_id: EffectId,
    pub tool: ToolId,
    pub tool_version: Arc<str>,
    pub fingerprint: [u8; 32],
    /// Those that were shown.
    pub arguments: Sensitive<Arc<Arguments>>,
    pub state: QuestionState,
    pub expires_at_unix_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionState {
    /// The user has not answered.
    Open,
    Declined,
    /// Approved, and used up by its effect.
    Consumed,
}

impl Snapshot {
    /// Whether this version of the program can take it up.
    pub fn is_current(&self) -> bool {
        self.version == SNAPSHOT_VERSION
    }

    /// Takes up what was said elsewhere in the conversation since, by the conversation's own account, oldest first.
    pub fn hear_account(&mut self, account: &[HistoryEntry]) {
        let open_words = self.open_turn.as_ref().map(|turn| turn.words.expose());
        let since = elsewhere::said_since(&self.history, account, open_words.map(String::as_str));
        self.history.extend(since);
    }
}

impl Restored {
    /// All arguments of calls in it, with the tool of each, for whoever must leave some of them out.
    pub fn arguments_mut(
        &mut self,
    ) -> impl Iterator<Item = (&ToolId, &mut Sensitive<Arc<Arguments>>)> {
        let open_turn = self.snapshot.open_turn.iter_mut();
        let questions = self.questions.iter_mut();
        open_turn
            .flat_map(|turn| turn.loops.arguments_mut())
            .chain(questions.map(|question| (&question.tool, &mut question.arguments)))
    }

    /// Leaves out the words that tools of the earlier session wanted said, for whoever must not show them; whether there were
    /// any. That the session is to end, and when, stays.
    pub fn forget_pending_words(&mut self) -> bool {
        let message = self.snapshot.pending_message.take();
        let Some(Sensitive(end)) = &mut self.snapshot.pending_end else {
            return message.is_some();
        };
        end.reason.clear();
        end.closing_message = None;
        end.text_response = None;
        true
    }
}

/// Whether a session is worth saving anew after this input, whatever came of it: what is typed may wait for the provider.
pub fn brings_words(input: &Input) -> bool {
    matches!(input, Input::Client(ClientEvent::Text { .. }))
}

/// Whether a session is worth saving anew after this output: something was said, a turn has ended, a question was
/// put or answered, a change has settled, or the session's state has changed. Several of them in one step are worth one
/// save.
pub fn is_worth_saving(output: &Output) -> bool {
    let event = match output {
        Output::Event(event) => event,
        // The client has heard the end of the question.
        Output::SendClient(ClientUpdate::ConfirmationResult { .. }) => return true,
        _ => return false,
    };
    match event {
        SessionEvent::TurnEnded { .. }
        | SessionEvent::ConfirmationRequested { .. }
        | SessionEvent::ConfirmationResolved { .. }
        | SessionEvent::Transcript { .. }
        | SessionEvent::EffectSettled { .. }
        | SessionEvent::IntentApplied { .. } => true,
        SessionEvent::CallFinished(record) => record.effect_id.is_some(),
        _ => false,
    }
}
