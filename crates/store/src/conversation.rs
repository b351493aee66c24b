//! Conversations: whose each is, and what was said in it, entry by entry, until it has been idle for too long. Does not
//! know what an entry says.

use crate::{StoreLimits, StoreUnavailable};
use windlass_tool::id::{ConversationId, UserId};
use windlass_tool::sensitive::Sensitive;

/// What was said, by conversation.
pub trait Conversations {
    /// Begins a conversation, or goes on with one. Counts as use of it.
    fn open_conversation(
        &mut self,
        conversation_id: &ConversationId,
        user_id: &UserId,
        now_unix_ms: u64,
    ) -> Result<Opened, StoreUnavailable>;

    /// `None` where there is none, or it has been idle for too long.
    fn conversation(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<Option<Conversation>, StoreUnavailable>;

    /// Appends entries in their order; one whose key the conversation has already is left out. The oldest make room
    /// where the conversation is full. Counts as use of it.
    fn append(
        &mut self,
        conversation_id: &ConversationId,
        entries: &[NewEntry],
        now_unix_ms: u64,
    ) -> Result<Appended, StoreUnavailable>;

    /// The newest entries, oldest first.
    fn entries(
        &mut self,
        conversation_id: &ConversationId,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable>;

    /// The entry with a key.
    fn entry(
        &mut self,
        conversation_id: &ConversationId,
        key: &str,
    ) -> Result<Option<Entry>, StoreUnavailable>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    pub begun_at_unix_ms: u64,
    pub used_at_unix_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// There was none, or it had been idle for too long; it is empty.
    Begun,
    Continued(Conversation),
    /// It is another user's. Nothing has changed.
    Foreign,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// What makes the entry known when it comes again: a client's id of its message.
    pub key: Option<String>,
    /// Whatever its writer wants to read again, as JSON.
    pub body: Sensitive<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From 1, in the order of the entries, without gaps but at the front.
    pub sequence: u64,
    pub key: Option<String>,
    pub body: Sensitive<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// For each entry its sequence number, or that of the earlier one with its key.
    Stored(Vec<u64>),
    /// There is no such conversation.
    Missing,
    /// An entry is longer than the store keeps. Nothing was appended.
    TooLong,
}

/// Bytes of an entry's key.
const KEY_BYTES_MAX: usize = 256;

impl NewEntry {
    pub(crate) fn is_too_long(&self, limits: &StoreLimits) -> bool {
        self.body.expose().len() > limits.entry_bytes_max
            || self
                .key
                .as_ref()
                .is_some_and(|key| key.len() > KEY_BYTES_MAX)
    }
}

impl Conversation {
    pub(crate) fn is_idle(&self, now_unix_ms: u64, limits: &StoreLimits) -> bool {
        self.used_at_unix_ms.saturating_add(limits.conversation_ms) <= now_unix_ms
    }

    /// A clock that was set back does not make a conversation older than it was.
    pub(crate) fn use_at(&mut self, now_unix_ms: u64) {
        self.used_at_unix_ms = self.used_at_unix_ms.max(now_unix_ms);
    }
}
