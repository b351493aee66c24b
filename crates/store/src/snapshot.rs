//! Snapshots: what a session needs to go on after its process has ended, by the hash of a resume token. Does not know what
//! a snapshot holds.

use crate::{Hash, StoreLimits, StoreUnavailable};
use windlass_tool::id::{ConversationId, SessionId, UserId};
use windlass_tool::sensitive::Sensitive;

/// The last known state of sessions, one a session.
pub trait Snapshots {
    /// Keeps a session's snapshot in place of its earlier one, whose token is unknown afterwards.
    fn save_snapshot(&mut self, snapshot: &Snapshot) -> Result<Saved, StoreUnavailable>;

    /// `None` where no session has the token, or it has run out.
    fn snapshot(
        &mut self,
        token_hash: &Hash,
        now_unix_ms: u64,
    ) -> Result<Option<Snapshot>, StoreUnavailable>;

    /// Finds a snapshot by its token and gives it a new token and end in one step, so that of two who show the same
    /// token one goes on. Returns it with the new token.
    fn exchange_token(&mut self, exchange: &Exchange)
    -> Result<Option<Snapshot>, StoreUnavailable>;

    /// The session is over. False where it had no snapshot.
    fn forget_snapshot(&mut self, session_id: &SessionId) -> Result<bool, StoreUnavailable>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub session_id: SessionId,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    /// SHA-256 of the resume token; the token itself is never kept.
    pub token_hash: Hash,
    /// Whatever its writer wants to read again.
    pub body: Sensitive<Vec<u8>>,
    pub expires_at_unix_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    Stored,
    /// The body is longer than the store keeps. An earlier snapshot stays.
    TooLong,
    /// Another session has the token.
    TokenTaken,
}

/// A new token for a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub token_hash: Hash,
    pub new_token_hash: Hash,
    pub expires_at_unix_ms: u64,
    pub now_unix_ms: u64,
}

impl Snapshot {
    pub(crate) fn is_too_long(&self, limits: &StoreLimits) -> bool {
        self.body.expose().len() > limits.snapshot_bytes_max
    }
}
