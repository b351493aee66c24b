//! Snapshots of sessions as the voice endpoint asks for them. Does not know what one holds.

use super::{Answer, DirectStore, LEDGER_MS};
use crate::store_thread::StoreHandle;
use std::sync::Arc;
use windlass_session::snapshot::{KnownQuestion, QuestionState};
use windlass_store::{
    Effect, Grant, GrantState, Hash, Saved, Snapshot, StoreUnavailable, Transaction,
};
use windlass_tool::id::{ConversationId, SessionId, UserId};
use windlass_tool::sensitive::Sensitive;

/// What sessions leave for those that take their place when their process ends.
pub trait SnapshotStore: Send + Sync {
    /// Keeps a session's newest snapshot.
    fn save_snapshot(&self, snapshot: Snapshot) -> Answer<Saved>;

    /// The session is over, and nobody goes on with it.
    fn forget_snapshot(&self, session_id: SessionId) -> Answer<bool>;

    /// The snapshot that has this token, if it has not run out.
    fn snapshot(&self, token_hash: Hash, now_unix_ms: u64) -> Answer<Option<Snapshot>>;

    /// Gives a session's place to another, in one transaction: of two who show one token, one gets what it left. `None`
    /// where the token is known no more.
    fn take_over(&self, request: TakeOver) -> Answer<Option<Left>>;
}

/// A session that takes another's place.
#[derive(Clone, Debug)]
pub struct TakeOver {
    /// That of the session before.
    pub token_hash: Hash,
    /// Where that one was found to lead: another session may have taken this one's place since.
    pub before: SessionId,
    /// The new session's own.
    pub snapshot: Snapshot,
    /// Milliseconds since the Unix epoch, by the clock of the new session.
    pub now_unix_ms: u64,
}

/// What the store knows of a conversation besides its sessions' snapshots.
#[derive(Clone, Debug)]
pub struct Left {
    /// Effects of the last day.
    pub effects: Vec<Effect>,
    /// A model of it has read what others wrote.
    pub has_read: bool,
    /// The user's questions whose time is not up.
    pub grants: Vec<Grant>,
}

/// Whoever can be asked for anything.
trait Asked: Send + Sync {
    fn asked<T: Send + 'static>(
        &self,
        request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable> + Send + 'static,
    ) -> Answer<T>;
}

impl Asked for StoreHandle {
    fn asked<T: Send + 'static>(
        &self,
        request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable> + Send + 'static,
    ) -> Answer<T> {
        Answer::Pending(self.ask(request))
    }
}

impl Asked for DirectStore {
    fn asked<T: Send + 'static>(
        &self,
        request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable> + Send + 'static,
    ) -> Answer<T> {
        Answer::Ready(self.store.ask(request))
    }
}

impl<S: Asked> SnapshotStore for S {
    fn save_snapshot(&self, snapshot: Snapshot) -> Answer<Saved> {
        self.asked(move |transaction| transaction.save_snapshot(&snapshot))
    }

    fn forget_snapshot(&self, session_id: SessionId) -> Answer<bool> {
        self.asked(move |transaction| transaction.forget_snapshot(&session_id))
    }

    fn snapshot(&self, token_hash: Hash, now_unix_ms: u64) -> Answer<Option<Snapshot>> {
        self.asked(move |transaction| transaction.snapshot(&token_hash, now_unix_ms))
    }

    fn take_over(&self, request: TakeOver) -> Answer<Option<Left>> {
        self.asked(move |transaction| taken_over(transaction, &request))
    }
}

fn taken_over(
    transaction: &mut dyn Transaction,
    request: &TakeOver,
) -> Result<Option<Left>, StoreUnavailable> {
    let TakeOver {
        token_hash,
        before,
        snapshot,
        now_unix_ms,
    } = request;
    // Whether it has run out was seen before; here it matters whether somebody else came first.
    let found = transaction.snapshot(token_hash, 0)?;
    let Some(found) = found.filter(|found| found.session_id == *before) else {
        return Ok(None);
    };
    // The new session has the shown token, too.
    transaction.forget_snapshot(before)?;
    if transaction.save_snapshot(snapshot)? != Saved::Stored {
        transaction.save_snapshot(&found)?;
        return Ok(None);
    }
    let (conversation, user) = (&snapshot.conversation_id, &snapshot.user_id);
    Left::read(transaction, conversation, user, *now_unix_ms).map(Some)
}

/// What a conversation has changed in the last day, or tried to.
pub(super) fn changed(
    transaction: &mut dyn Transaction,
    conversation: &ConversationId,
    now_unix_ms: u64,
) -> Result<Vec<Effect>, StoreUnavailable> {
    transaction.effects_of(conversation, now_unix_ms.saturating_sub(LEDGER_MS))
}

impl Left {
    /// Effects are a conversation's, questions a user's.
    pub(super) fn read(
        transaction: &mut dyn Transaction,
        conversation: &ConversationId,
        user: &UserId,
        now_unix_ms: u64,
    ) -> Result<Self, StoreUnavailable> {
        let effects = changed(transaction, conversation, now_unix_ms)?;
        let mut grants = transaction.grants_of(conversation, now_unix_ms)?;
        grants.retain(|grant| grant.user_id == *user);
        Ok(Self {
            effects,
            has_read: transaction.has_read(conversation, now_unix_ms)?,
            grants,
        })
    }
}

/// A question to the user as a session gets it that takes another's place; `None` where it cannot be read.
pub(crate) fn known_question(grant: Grant) -> Option<KnownQuestion> {
    let arguments = serde_json::from_str(grant.arguments.expose()).ok()?;
    Some(KnownQuestion {
        token_hash: grant.token_hash,
        effect_id: grant.effect_id,
        tool: grant.tool,
        tool_version: grant.tool_version.into(),
        fingerprint: grant.fingerprint,
        arguments: Sensitive(Arc::new(arguments)),
        state: match grant.state {
            GrantState::Open => QuestionState::Open,
            GrantState::Declined => QuestionState::Declined,
            GrantState::Consumed => QuestionState::Consumed,
        },
        expires_at_unix_ms: grant.expires_at_unix_ms,
    })
}
