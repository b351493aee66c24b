//! The log of a conversation: the one form in which what was said and done is kept. Does not know what an entry of a session says.

use crate::id::{AttemptNumber, EntryNumber, LegNumber, QuestionNumber};
use serde::{Deserialize, Serialize};
use windlass_tool::id::{EffectId, SessionId, ToolId};
use windlass_tool::intent::Intent;
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub number: EntryNumber,
    pub at_unix_ms: u64,
    /// The leg that wrote it, or whose command caused it.
    pub leg: Option<SessionId>,
    /// The leg's own number of an entry that it wrote itself.
    pub leg_number: Option<LegNumber>,
    /// By what a client knows it when it comes again.
    pub key: Option<String>,
    pub event: EntryEvent,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryEvent {
    /// A user turn begins.
    Onset,
    /// What was said, called or answered, in the JSON form of the session that wrote it.
    Said(Sensitive<String>),
    /// An effect began, or is known to have ended in another way than before.
    Effect(EffectChange),
    /// A question was put, or answered.
    Question(QuestionChange),
    /// A model was told again what had been done.
    Replayed(EffectId),
    /// A run that no session of its own had wants something of a session.
    Asked(LegRequest),
    Attached(Mode),
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectChange {
    pub effect_id: EffectId,
    pub tool: ToolId,
    pub attempt: AttemptNumber,
    pub state: EffectState,
    /// The question whose approval this attempt runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionNumber>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionChange {
    pub number: QuestionNumber,
    pub tool: ToolId,
    pub state: QuestionState,
    /// The effect that the approval began, or that made the question void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_id: Option<EffectId>,
}

/// Intents of an approved run, for the leg that asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LegRequest {
    pub leg: SessionId,
    pub question: QuestionNumber,
    pub intents: Vec<Intent>,
    /// The leg was gone: nobody carries them out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rejected: bool,
}

/// Where an effect stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// An attempt holds its lease.
    Running,
    Done,
    /// It has definitely not happened.
    NotDone,
    /// It was started, and how it ended is not known.
    Unknown,
}

/// Where a question stands. One whose time is up is open here; whether it is, [`crate::Question::is_open`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionState {
    Open,
    Approved,
    Denied,
    /// Another question took its place, its effect was done without it, or nobody asks any more.
    Closed,
}

/// An entry that a leg writes.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// The leg's own number; an entry whose number the log has already is left out. `None` of one that is known by its key alone.
    pub leg_number: Option<LegNumber>,
    /// An entry whose key the conversation has already is left out.
    pub key: Option<String>,
    pub event: EntryEvent,
}
