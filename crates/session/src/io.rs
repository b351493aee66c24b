//! The core's one door in and its one list out. The driver obeys every output and answers those that ask.

use crate::client::{ClientEvent, ClientUpdate, MessageKey};
use crate::event::{EndReason, SessionEvent};
use crate::model::{ConnectionEvent, ModelCommand, ModelEvent};
pub use crate::policy::{AdmittedCall, EffectLookup};
use crate::snapshot::Restored;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::arguments::Arguments;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::handler::{Finding, HandlerMessage, HandlerResult};
use windlass_tool::id::{CallNumber, CallRef, EffectId, ToolId};
use windlass_tool::kind::RateLimit;
use windlass_tool::sensitive::Sensitive;

/// SHA-256 of a confirmation's token. The core never sees a token.
pub type TokenHash = [u8; 32];

/// The attempt number under which a lookup runs; attempts of a call count from 1.
pub const LOOKUP_ATTEMPT: u32 = 0;

/// What happens to a session, one thing at a time, each with its time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    Model(ModelEvent),
    Connection(ConnectionEvent),
    Client(ClientEvent),
    /// The answer to [`Output::ReadLedger`]. Until it has come no change starts.
    Ledger(Result<Remembered, ReservationError>),
    /// Another session of the conversation has changed something since the ledger was last read for this one, which has to be
    /// done again; until then no further change starts.
    ChangedElsewhere,
    /// What an earlier session of the conversation left open. Given once, after the ledger and before the client is heard.
    Continued(Continued),
    /// What the session before this one left, whose process has ended; it holds the ledger's entries, too. Given once,
    /// before anything else.
    Restored(Box<Restored>),
    /// The answer to [`Output::RequestConfirmation`]. This and the other answers of the store come in the order in which it was
    /// asked, however late.
    Proposed {
        call: CallNumber,
        outcome: Result<Proposed, ReservationRefusal>,
    },
    /// The answer to [`Output::Reserve`].
    Reserved(Reservation),
    /// The answer to [`Output::RecordOutcome`]: whether it is durable. An effect may have had several outcomes to be stored, so
    /// that the answer names the one that it is about.
    Recorded {
        effect_id: EffectId,
        state: OutcomeState,
        stored: bool,
    },
    /// The answer to [`Output::DeclineConfirmation`]: whether it is durable.
    Declined {
        token_hash: TokenHash,
        stored: bool,
    },
    /// The answer to [`Output::Lookup`]: what the handler found.
    LookedUp {
        call: CallNumber,
        finding: Finding,
    },
    /// The answer to [`Output::Lookup`] where no handler was asked.
    LookupSpared {
        call: CallNumber,
        reason: Spared,
    },
    /// The answer to [`Output::AwaitEffect`]: what the ledger has of the effect; `None` where it has nothing, or does not
    /// answer.
    EffectAwaited {
        call: CallNumber,
        entry: Option<Box<LedgerEntry>>,
    },
    /// The answer to [`Output::FindApproval`]: the question to this user that has the token, where its time is not up.
    ApprovalFound {
        token_hash: TokenHash,
        found: Result<Option<Box<FoundQuestion>>, ReservationError>,
    },
    /// The answer to [`Output::CheckRate`].
    RateChecked {
        call: CallNumber,
        decision: RateDecision,
    },
    /// An attempt has ended.
    CallFinished {
        call: CallRef,
        result: HandlerResult,
    },
    /// A running attempt says something.
    HandlerMessage {
        call: CallRef,
        message: HandlerMessage,
    },
    /// The server is shutting down: tell the client, let started writes end.
    Shutdown,
    /// A deadline of the session's next deadline has come.
    Tick,
}

/// What the store has of a conversation when one of its sessions begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Remembered {
    /// Its effects of the last day, oldest first.
    pub effects: Vec<LedgerEntry>,
    /// A model has read in it what others wrote.
    pub has_read: bool,
}

/// One effect of the conversation, as the ledger has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LedgerEntry {
    pub fingerprint: [u8; 32],
    pub effect_id: EffectId,
    pub tool: ToolId,
    pub state: OutcomeState,
    /// What was answered; `None` where that is not kept.
    pub response: Option<Arc<ToolResponse>>,
    /// Whether the answer has reached the model.
    pub is_answered: bool,
    /// Another session of this process is at it, so that its end will be known.
    #[serde(default)]
    pub is_under_way: bool,
    /// In milliseconds since the Unix epoch.
    pub reserved_at_unix_ms: u64,
    /// What it was asked for with. How often the user had said something says nothing to another session, unless that has
    /// taken the place of the one that made it.
    #[serde(default)]
    pub wish: Wish,
}

/// What the user had said when something was asked for. A second wish is told from a repeat by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// How often the user had certainly said something in the session.
    pub input: u64,
    /// The message that it was last, where the client knows its messages by ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageKey>,
    /// When the session that counts so began, in milliseconds since 1970, which tells its effects from those of others however
    /// the clock is set; the same in each process that goes on with it. `None` until something is reserved for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

impl Wish {
    /// Whether the user has said anything else since. The same message that is sent again, or whose answer is wanted anew, is
    /// the same wish, in whatever session it comes.
    pub(crate) fn is_second_after(self, earlier: Self) -> bool {
        let is_same_message = self.message.is_some() && self.message == earlier.message;
        self.input > earlier.input && !is_same_message
    }
}

/// Why no handler is asked what became of an effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spared {
    /// Another session of this process is at it. It may happen yet, whatever a handler says now.
    UnderWay,
    /// Another session has settled it: the ledger's own entry.
    Settled(Box<LedgerEntry>),
}

/// Where an earlier session of the conversation ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Continued {
    /// The highest number that a call had.
    pub last_call: CallNumber,
    /// What the user may still answer.
    pub questions: Vec<OpenQuestion>,
    /// What the user has approved, for answers that come once more.
    pub approved: Vec<AnsweredQuestion>,
    /// What the user has declined, for the same; nothing came of it.
    #[serde(default)]
    pub declined: Vec<AnsweredQuestion>,
}

/// A question that the user has answered: its approval has been used, or it was declined.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnsweredQuestion {
    /// The number by which the client knows the call; `None` where that is not known, and a new one is given.
    pub call: Option<CallNumber>,
    pub token_hash: TokenHash,
    pub effect_id: EffectId,
    pub tool: ToolId,
    /// What came of it; `None` where nobody knows, and where nothing did because it was declined.
    pub response: Option<Arc<ToolResponse>>,
    pub expires_at_unix_ms: u64,
}

/// A question of which the session that is shown its token knows nothing: another one of the conversation has asked it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundQuestion {
    /// It waits for its answer, and no session that lives is to get that. Its call has no number here.
    Open(OpenQuestion),
    Approved(AnsweredQuestion),
    Declined(AnsweredQuestion),
}

/// A question to the user that is stored and waits for its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// The number by which the client knows the call.
    pub call: CallNumber,
    pub token_hash: TokenHash,
    pub effect_id: EffectId,
    pub tool: ToolId,
    pub tool_version: Arc<str>,
    pub fingerprint: [u8; 32],
    /// Those that were shown and will run.
    pub arguments: Sensitive<Arc<Arguments>>,
    pub expires_at_unix_ms: u64,
}

/// How an effect ended. One that was reserved and of which nothing more is known is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeState {
    Succeeded,
    /// It has definitely not happened.
    Failed,
    Unknown,
}

/// A confirmation that is stored, and whose token has been minted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposed {
    pub effect_id: EffectId,
    pub token_hash: TokenHash,
    pub expires_at_unix_ms: u64,
}

/// What the store says to a reservation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reservation {
    pub call: CallNumber,
    pub outcome: Result<Begun, ReservationRefusal>,
}

/// An effect that may start now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    pub effect_id: EffectId,
    /// It was begun before, and nobody knows how that ended: a failure now does not say that it has not happened.
    pub may_be_done: bool,
}

impl Begun {
    /// An effect that has certainly not happened yet.
    pub fn first(effect_id: EffectId) -> Self {
        Self {
            effect_id,
            may_be_done: false,
        }
    }
}

/// Why an effect may not start.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationRefusal {
    /// It could not be stored.
    Unavailable(ReservationError),
    /// No confirmation has this token, or it was given for something else.
    GrantUnknown,
    GrantExpired,
    GrantDeclined,
    /// It was used before; what came of it, where that is known.
    GrantConsumed(Option<Arc<ToolResponse>>),
    /// The same change was begun elsewhere, and how it ended is not known, of which the user is not told or was not.
    Open(EffectId),
    /// This very effect has happened; what was answered, where that is known.
    Done(Option<Arc<ToolResponse>>),
    /// The conversation has as many effects as the store keeps.
    Full,
    /// A model of the conversation has read what others wrote, in another session. It runs with a grant alone.
    Read,
    /// The store does not keep arguments of this length, so that nobody can be asked about them.
    QuestionTooLong,
    /// The conversation has as many open questions as the store keeps.
    TooManyQuestions,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the store does not answer: {problem}")]
pub struct ReservationError {
    /// For the log.
    pub problem: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateDecision {
    Allowed,
    Refused { retry_after: Duration },
}

/// What the driver is to do, in this order. What is large and rare is boxed, because every output is moved several times.
#[derive(Debug)]
pub enum Output {
    /// Read what the store has of the conversation, the effects of the last day above all, and answer with [`Input::Ledger`].
    ReadLedger,
    /// The model is given what others wrote: store that of the conversation, before any session of it reserves a change. Said
    /// once.
    NoteReading,
    /// Mint a token, store what the user is to be asked, durably, and answer with [`Input::Proposed`].
    RequestConfirmation(Box<ConfirmationRequest>),
    /// The user said no: the token must never count, not even after a restart. Store that, and answer with
    /// [`Input::Declined`].
    DeclineConfirmation {
        token_hash: TokenHash,
    },
    /// Nobody asks any more: forget the token.
    WithdrawConfirmation {
        token_hash: TokenHash,
    },
    /// Store the intention to run this call, and use up its grant, durably and at once, and answer with
    /// [`Input::Reserved`].
    Reserve(Box<ReserveRequest>),
    /// Store how an effect ended, and answer with [`Input::Recorded`].
    RecordOutcome(OutcomeRecord),
    /// The model has read the effect's answer.
    MarkAnswered {
        effect_id: EffectId,
    },
    /// Ask the handler what became of an effect, and answer with [`Input::LookedUp`]; or with [`Input::LookupSpared`] where
    /// another session is at it, or has settled it.
    Lookup(EffectLookup),
    /// Wait until no session of this process is at an effect any more, then read what the ledger has of it, and answer with
    /// [`Input::EffectAwaited`].
    AwaitEffect {
        call: CallNumber,
        effect_id: EffectId,
    },
    /// Look in the store for an approval that this user gave in another session of the conversation, and that is used up, and
    /// answer with [`Input::ApprovalFound`].
    FindApproval {
        token_hash: TokenHash,
    },
    /// Ask the user's limit whether a call may run now, and answer with [`Input::RateChecked`].
    CheckRate {
        call: CallNumber,
        tool: ToolId,
        limit: RateLimit,
        charge: RateCharge,
    },
    /// Run the handler. There is no other way to one.
    StartCall(AdmittedCall),
    /// Tell the attempt that nobody waits for it. With `drop`, stop it; else let it run to its end.
    AbortCall {
        call: CallRef,
        drop: bool,
    },
    /// Close the provider's connection if there is one, and open the next, which takes up the session by this handle or
    /// begins it afresh. The first connection of a session is opened without being asked for. What becomes of it comes as
    /// [`Input::Connection`].
    Connect {
        generation: u64,
        handle: Option<Sensitive<String>>,
        /// Whether history will be the first that is sent; some providers have to be told in the setup.
        history_follows: bool,
    },
    SendModel(ModelCommand),
    SendClient(ClientUpdate),
    /// Throw away audio that was not played, and what still arrives, until [`Output::AcceptAudio`].
    DiscardAudio,
    /// A new answer may be heard again.
    AcceptAudio,
    /// From now on audio of the model goes, or does not go, to the client.
    SuppressAudio(bool),
    /// Hold the microphone back, or let it through.
    HoldMicrophone(bool),
    Event(SessionEvent),
    /// The session is over. No further output follows.
    Close(EndReason),
}

/// Whether asking the limit uses up a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateCharge {
    /// The call runs next.
    Charge,
    /// The user is asked first; the call is charged when it runs.
    Peek,
}

/// What the user is to be asked, and all that an approval is bound to.
#[derive(Clone, Debug)]
pub struct ConfirmationRequest {
    pub call: CallNumber,
    /// The effect that is to run again; a new one is minted where there is none.
    pub effect_id: Option<EffectId>,
    pub tool: ToolId,
    pub tool_version: Arc<str>,
    pub fingerprint: [u8; 32],
    /// Those that will run.
    pub arguments: Sensitive<Arc<Arguments>>,
    pub preview: Sensitive<String>,
    /// The user is told that it may have happened.
    pub says_unknown: bool,
    pub valid_for: Duration,
    /// An open confirmation in whose place this one comes; its token is dead from then on.
    pub replaces: Option<TokenHash>,
}

/// An effect that is to start.
#[derive(Clone, Debug)]
pub struct ReserveRequest {
    pub call: CallNumber,
    /// The effect that is to run; a new one is minted where there is none.
    pub effect_id: Option<EffectId>,
    pub tool: ToolId,
    pub tool_version: Arc<str>,
    pub fingerprint: [u8; 32],
    pub turn: u64,
    pub wish: Wish,
    /// The token with which the user approved it.
    pub grant: Option<TokenHash>,
    /// Refuse it where a model has read what others wrote in another session of the conversation.
    pub minds_reading: bool,
}

/// How an effect ended.
#[derive(Clone, Debug)]
pub struct OutcomeRecord {
    pub effect_id: EffectId,
    pub state: OutcomeState,
    pub response: Option<Sensitive<Arc<ToolResponse>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_small_enough_to_be_moved_often() {
        assert!(size_of::<Output>() <= 96, "{} bytes", size_of::<Output>());
        assert!(size_of::<Input>() <= 96, "{} bytes", size_of::<Input>());
    }
}
