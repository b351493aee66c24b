//! The seam for everything that watches sessions: audit, metrics, callbacks of an embedding program. Knows none of them.

use crate::pump::AudioCounts;
use windlass_contract::id::{ClientId, ConversationId, SessionId, TenantId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::rights::Rights;
use windlass_session::event::SessionEvent;
use windlass_session::session::SessionConfig;
use windlass_store::ConversationRef;

/// The identity of a session and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionIdentity {
    pub client_id: ClientId,
    pub session_id: SessionId,
    pub tenant: TenantId,
    pub user_id: UserId,
    /// The proven rights of the caller.
    pub rights: Rights,
    pub conversation_id: ConversationId,
    pub mode: Mode,
    /// The conversation as the ledger has it; `None` for a session without one.
    pub ledger: Option<ConversationRef>,
}

impl SessionIdentity {
    /// The identity of a client's session.
    pub(crate) fn of(client_id: ClientId, session: &SessionConfig) -> Self {
        Self {
            client_id,
            session_id: session.session_id.clone(),
            tenant: session.tenant.clone(),
            user_id: session.user_id.clone(),
            rights: session.rights.clone(),
            conversation_id: session.conversation_id.clone(),
            mode: session.mode,
            ledger: None,
        }
    }
}

/// Watches sessions. Called on the session's own task, so it must never block.
pub trait Subscriber: Send + Sync {
    fn event(&self, session: &SessionIdentity, now_unix_ms: u64, event: &SessionEvent);

    /// The end of an intent that no session carried out: a service reported its result, or a lookup found it. The identity names
    /// the session that made the call, which may be over.
    fn event_apart(&self, _leg: &SessionIdentity, _now_unix_ms: u64, _event: &SessionEvent) {}

    /// The counts of the session's audio since the last call: as soon as some audio was dropped, and at the session's end.
    fn audio(&self, _session: &SessionIdentity, _counts: &AudioCounts) {}
}
