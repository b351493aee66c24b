//! The running sessions, by voice and by text, each with the version of the tools that it keeps. Knows nothing of a session's content.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_contract::id::{ConversationId, SessionId, TenantId};
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_session::event::SessionEvent;

/// Voice sessions. A conversation has one at a time.
#[derive(Default)]
pub(crate) struct VoiceSessions(Mutex<RunningSessions>);

/// A conversation's id is its tenant's own choice, and another's may be the same.
type RunningSessions = HashMap<(TenantId, ConversationId), RunningSession>;

struct RunningSession {
    session: SessionId,
    version: Arc<str>,
    /// Its client has not left it; a session without a client may begin anew.
    has_client: bool,
}

/// Holds a conversation's place while its session lives.
pub(crate) struct VoiceLease {
    sessions: Arc<VoiceSessions>,
    conversation: (TenantId, ConversationId),
}

/// The open sessions by text.
#[derive(Default)]
pub(crate) struct TextSessions(Mutex<HashMap<SessionId, Arc<str>>>);

/// A session's place in the list, until nothing of it runs any more.
pub(crate) struct TextLease {
    sessions: Arc<TextSessions>,
    id: SessionId,
}

impl VoiceSessions {
    /// `None` where the conversation has one already.
    pub(crate) fn enter(
        self: &Arc<Self>,
        tenant: &TenantId,
        conversation: &ConversationId,
        session: &SessionId,
        version: &Arc<str>,
    ) -> Option<VoiceLease> {
        let conversation = (tenant.clone(), conversation.clone());
        let mut running = self.lock();
        if running.contains_key(&conversation) {
            return None;
        }
        let entry = RunningSession {
            session: session.clone(),
            version: version.clone(),
            has_client: true,
        };
        running.insert(conversation.clone(), entry);
        Some(VoiceLease {
            sessions: self.clone(),
            conversation,
        })
    }

    /// Whether a client talks by voice in this conversation now.
    pub(crate) fn is_talking(&self, tenant: &TenantId, conversation: &ConversationId) -> bool {
        let running = self.lock();
        let entry = running.get(&(tenant.clone(), conversation.clone()));
        entry.is_some_and(|entry| entry.has_client)
    }

    /// Says of each session that has other tools than these that it keeps them.
    pub(crate) fn report_older_than(&self, version: &str) {
        for entry in self.lock().values() {
            report_older(&entry.session, &entry.version, version);
        }
    }

    fn lock(&self) -> MutexGuard<'_, RunningSessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes who is there.
impl Subscriber for VoiceSessions {
    fn event(&self, session: &SessionIdentity, _now_unix_ms: u64, event: &SessionEvent) {
        let has_client = match event {
            SessionEvent::ClientConnected => true,
            SessionEvent::ClientLost => false,
            _ => return,
        };
        let mut running = self.lock();
        let conversation = (session.tenant.clone(), session.conversation_id.clone());
        let entry = running.get_mut(&conversation);
        if let Some(entry) = entry.filter(|entry| entry.session == session.session_id) {
            entry.has_client = has_client;
        }
    }
}

impl Drop for VoiceLease {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.conversation);
    }
}

impl TextSessions {
    pub(crate) fn enter(self: &Arc<Self>, id: &SessionId, version: &Arc<str>) -> TextLease {
        self.lock().insert(id.clone(), version.clone());
        TextLease {
            sessions: self.clone(),
            id: id.clone(),
        }
    }

    /// Says of each session that has other tools than these that it keeps them.
    pub(crate) fn report_older_than(&self, version: &str) {
        for (session, own) in self.lock().iter() {
            report_older(session, own, version);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TextLease {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.id);
    }
}

fn report_older(session: &SessionId, own: &str, newest: &str) {
    if own != newest {
        tracing::info!(%session, %own, %newest, "a session goes on with older tools");
    }
}
