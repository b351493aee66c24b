//! The seam for everything that watches sessions: audit, metrics, callbacks of an embedding program. Knows none of them.

use crate::pump::AudioCounts;
use windlass_session::event::SessionEvent;
use windlass_session::session::SessionConfig;
use windlass_store::ConversationRef;
use windlass_tool::id::{ClientId, ConversationId, SessionId, TenantId, UserId};
use windlass_tool::kind::Mode;
use windlass_tool::rights::Rights;

/// Whose session it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionIdentity {
    pub client_id: ClientId,
    pub session_id: SessionId,
    pub tenant: TenantId,
    pub user_id: UserId,
    /// What was proven of the caller.
    pub rights: Rights,
    pub conversation_id: ConversationId,
    pub mode: Mode,
    /// The conversation as the ledger has it; `None` of a session that has no part in one.
    pub ledger: Option<ConversationRef>,
}

impl SessionIdentity {
    /// That of a client's session.
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

    /// What came of an intent that no session carried out: its result was told by a service, or found by a lookup. The identity names
    /// the session that made the call, which may be over.
    fn event_apart(&self, _leg: &SessionIdentity, _now_unix_ms: u64, _event: &SessionEvent) {}

    /// What has become of the session's audio since the last time: as soon as some of it was dropped, and at the session's end.
    fn audio(&self, _session: &SessionIdentity, _counts: &AudioCounts) {}
}
