//! The input of `decide` and its changes: the rows of one conversation that bear on a command, and their new values. An engine only
//! loads and writes them.

use crate::effect::Effect;
use crate::id::{EffectKey, EntryNumber, LegNumber, Nonce, OwnerId, QuestionNumber};
use crate::leg::{Conversation, Delivery, Leg};
use crate::log::Entry;
use crate::party::{ConversationPlace, Crowd, Parties};
use crate::question::Question;
use crate::task::RunningTasks;
use crate::{Hash, StoreLimits, StoreUnavailable};
use windlass_contract::id::{EffectId, SessionId, ToolId};

/// The rows that are loaded for one command. Rows that it does not need are missing.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub conversation: Option<Conversation>,
    pub leg: Option<Leg>,
    /// For a conversation that is to begin: its parties, as they are counted, and those of them without room for it.
    pub parties: Parties,
    pub crowds: Vec<Crowd>,
    /// Another session of the conversation is not over.
    pub has_other_legs: bool,
    /// The key of a request, and the looser one.
    pub key: Option<EffectKey>,
    pub near_key: Option<EffectKey>,
    /// Effects of the command's key, under any version of the tool, or those that it names; oldest first.
    pub effects: Vec<Effect>,
    /// Other effects of the looser key, oldest first.
    pub near: Vec<Effect>,
    /// Approval requests of the keys of these.
    pub near_questions: Vec<Question>,
    /// Approval requests of the command's key, or those that it names; oldest first.
    pub questions: Vec<Question>,
    /// The approval request of an answer.
    pub question: Option<Question>,
    pub delivery: Option<Delivery>,
    /// The entry with which the request's user turn began.
    pub onset: Option<EntryNumber>,
    /// The command was given up before it came.
    pub is_abandoned: bool,
    /// Effects of the same tool whose end no model has heard, and running ones, whatever their key.
    pub unheard: Vec<Effect>,
    /// Effects of the same tool that have begun since the answered approval request was put.
    pub begun_since: Vec<Effect>,
    pub counts: Counts,
    /// The running tasks of the user and the tenant that ask for a task.
    pub running_tasks: RunningTasks,
    /// Entries of an append that the log has already, by their place in the command.
    pub known_entries: Vec<Option<EntryNumber>>,
    /// The log has already the entry of a record.
    pub has_values_entry: bool,
    pub resumed: Option<ResumeRows>,
    /// A session of the process that asks is live.
    pub is_live_here: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub effects: usize,
    /// The approval requests that wait for an answer.
    pub questions: usize,
}

/// The rows for a leg that is resumed.
#[derive(Clone, Debug, Default)]
pub struct ResumeRows {
    pub log: Vec<Entry>,
    pub questions: Vec<Question>,
    pub unheard: Vec<Effect>,
    pub unheard_questions: Vec<Question>,
}

/// One row's new value.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Conversation(Conversation),
    Leg(Leg),
    /// The session is over.
    LegOver(SessionId),
    Effect(Effect),
    Question(Question),
    Delivery(Delivery),
    Entry(Entry),
    Abandoned {
        nonce: Nonce,
        at_unix_ms: u64,
    },
    /// A conversation is deleted with everything in it: this one, or another one of its parties.
    Forgotten(ConversationPlace),
    /// Every leg is over, and their saved states are deleted.
    LegsEnded,
}

/// The rows of one conversation within one transaction.
pub(crate) trait Tables {
    fn conversation(&mut self) -> Result<Option<Conversation>, StoreUnavailable>;
    /// The parties without room for one more conversation.
    fn crowds(
        &mut self,
        parties: &Parties,
        owner: &OwnerId,
        now_unix_ms: u64,
        limits: &StoreLimits,
    ) -> Result<Vec<Crowd>, StoreUnavailable>;
    fn leg(&mut self, leg: &SessionId) -> Result<Option<Leg>, StoreUnavailable>;
    /// Whether a session of the conversation is not over, beside this one.
    fn has_legs(&mut self, but: Option<&SessionId>) -> Result<bool, StoreUnavailable>;
    fn leg_by_token(&mut self, token: &Hash) -> Result<Option<Leg>, StoreUnavailable>;
    /// Effects of the looser key, oldest first: those of the exact key are among them.
    fn effects_near(&mut self, near: &EffectKey) -> Result<Vec<Effect>, StoreUnavailable>;
    /// The newest effects of a tool whose keys were compared in another way than this, oldest first.
    fn effects_of_other_specs(
        &mut self,
        tool: &ToolId,
        fingerprint: i64,
        effects_max: usize,
    ) -> Result<Vec<Effect>, StoreUnavailable>;
    fn effect(&mut self, effect_id: &EffectId) -> Result<Option<Effect>, StoreUnavailable>;
    fn children(
        &mut self,
        parent: &EffectId,
        ordinal: u32,
    ) -> Result<Vec<Effect>, StoreUnavailable>;
    /// Whether the conversation is in use, so that it stays however long it has rested: an effect runs, a request waits for its answer,
    /// or a session is live.
    fn is_in_use(&mut self, owner: &OwnerId, now_unix_ms: u64) -> Result<bool, StoreUnavailable>;
    /// Whether a leg of this process is live.
    fn has_live_leg(&mut self, owner: &OwnerId) -> Result<bool, StoreUnavailable>;
    fn running(&mut self) -> Result<Vec<Effect>, StoreUnavailable>;
    /// Settled effects whose end no model has heard, oldest first; of one tool, or of all.
    fn unheard(&mut self, tool: Option<&ToolId>) -> Result<Vec<Effect>, StoreUnavailable>;
    /// Effects of a tool that have begun at this time or later, oldest first.
    fn begun_since(
        &mut self,
        tool: &ToolId,
        at_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable>;
    /// Oldest first.
    fn questions_of_key(&mut self, key: &EffectKey) -> Result<Vec<Question>, StoreUnavailable>;
    fn question(&mut self, number: QuestionNumber) -> Result<Option<Question>, StoreUnavailable>;
    /// Open, or answered and not heard of; oldest first.
    fn pending_questions(&mut self) -> Result<Vec<Question>, StoreUnavailable>;
    fn delivery(&mut self, leg: &SessionId, id: &str)
    -> Result<Option<Delivery>, StoreUnavailable>;
    fn entry_of_leg(
        &mut self,
        leg: &SessionId,
        number: LegNumber,
    ) -> Result<Option<EntryNumber>, StoreUnavailable>;
    fn entry_of_key(&mut self, key: &str) -> Result<Option<EntryNumber>, StoreUnavailable>;
    /// The newest entries, oldest first.
    fn newest_entries(&mut self, entries_max: usize) -> Result<Vec<Entry>, StoreUnavailable>;
    fn is_abandoned(&mut self, nonce: &Nonce) -> Result<bool, StoreUnavailable>;
    fn counts(&mut self, now_unix_ms: u64) -> Result<Counts, StoreUnavailable>;
    /// The running tasks of the conversation's user, and of its tenant.
    fn running_tasks(&mut self) -> Result<RunningTasks, StoreUnavailable>;
    fn write(&mut self, change: Change) -> Result<(), StoreUnavailable>;
}

impl Conversation {
    /// Whether it has rested for so long that nothing of it counts any more.
    pub(crate) fn is_idle(&self, now_unix_ms: u64, limits: &StoreLimits) -> bool {
        let rest_ms = limits.conversation_ms.max(limits.effect_ms);
        self.used_at_unix_ms.saturating_add(rest_ms) <= now_unix_ms
    }
}
