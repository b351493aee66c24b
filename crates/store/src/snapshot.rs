//! Snapshots: what a session needs to go on after its process has ended, by the hashes of its resume tokens. Does not know what
//! a snapshot holds.

use crate::{Hash, StoreLimits, StoreUnavailable};
use windlass_tool::id::{ConversationId, SessionId, UserId};
use windlass_tool::sensitive::Sensitive;

/// The last known state of sessions, one a session.
pub trait Snapshots {
    /// Keeps a session's snapshot in place of its earlier one. Tokens of that one that this one lacks are unknown afterwards.
    fn save_snapshot(&mut self, snapshot: &Snapshot) -> Result<Saved, StoreUnavailable>;

    /// `None` where no session has the token, or it has run out.
    fn snapshot(
        &mut self,
        token_hash: &Hash,
        now_unix_ms: u64,
    ) -> Result<Option<Snapshot>, StoreUnavailable>;

    /// The session is over. False where it had no snapshot.
    fn forget_snapshot(&mut self, session_id: &SessionId) -> Result<bool, StoreUnavailable>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub session_id: SessionId,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    pub tokens: ResumeTokens,
    /// Whatever its writer wants to read again.
    pub body: Sensitive<Vec<u8>>,
    pub expires_at_unix_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    Stored,
    /// The body is longer than the store keeps. An earlier snapshot stays.
    TooLong,
    /// Another session has one of the tokens.
    TokenTaken,
}

/// SHA-256 of each resume token that leads to a session; the tokens themselves are never kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeTokens {
    /// What the client was given last.
    pub current: Hash,
    /// What it will be given next, so that the store knows a token before a client does.
    pub next: Option<Hash>,
    /// What it had before, in case that it never heard of the current one.
    pub previous: Option<Hash>,
}

impl ResumeTokens {
    /// A session with one token.
    pub fn only(current: Hash) -> Self {
        Self {
            current,
            next: None,
            previous: None,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Hash> {
        [
            Some(&self.current),
            self.next.as_ref(),
            self.previous.as_ref(),
        ]
        .into_iter()
        .flatten()
    }
}

impl Snapshot {
    pub(crate) fn is_too_long(&self, limits: &StoreLimits) -> bool {
        self.body.expose().len() > limits.snapshot_bytes_max
    }
}
