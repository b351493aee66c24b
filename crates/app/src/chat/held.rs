//! Text sessions, each with the tools that it began with, and which of them there are now. Knows no conversation.

use super::ChatHost;
use crate::clock;
use crate::context;
use crate::toolbox::{ModeTools, Toolbox};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_provider::openai_chat::profile;
use windlass_runtime::ids::{self, NoRandomness};
use windlass_runtime::prompt::ContextEstimate;
use windlass_runtime::text::{Past, TextRequest, TextSession};
use windlass_session::limits::Limits;
use windlass_session::model::HistoryEntry;
use windlass_session::session::SessionConfig;
use windlass_tool::handler::World;
use windlass_tool::id::{ClientId, ConversationId, SessionId, UserId};
use windlass_tool::kind::Mode;

/// The sessions by text that have not ended, each with the version of its tools.
#[derive(Default)]
pub(crate) struct TextSessions(Mutex<HashMap<SessionId, Arc<str>>>);

/// A session whose instruction, declarations and rules are of one and the same tools, whatever other sessions are given since.
pub(crate) struct HeldSession {
    session: TextSession,
    toolbox: Arc<Toolbox>,
    listed: Listed,
}

/// Its place in the list, until nothing of it runs any more.
struct Listed {
    sessions: Arc<TextSessions>,
    id: SessionId,
}

impl TextSessions {
    /// Says of each session that has other tools than these that it keeps them.
    pub(crate) fn report_older_than(&self, version: &str) {
        for (session, own) in self.lock().iter().filter(|(_, own)| ***own != *version) {
            report_older(session, own, version);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that a session keeps the tools with which it began.
pub(crate) fn report_older(session: &SessionId, own: &str, newest: &str) {
    tracing::info!(%session, %own, %newest, "a session goes on with older tools");
}

/// What a session of this user is begun with.
pub(super) struct SessionMaker {
    pub(super) user_id: UserId,
    pub(super) client_id: ClientId,
    pub(super) world: Arc<dyn World>,
}

impl ChatHost {
    /// A session with the tools of the chat, which it keeps.
    pub(super) fn session(
        &self,
        maker: SessionMaker,
        conversation_id: ConversationId,
        toolbox: Arc<Toolbox>,
        history: Vec<HistoryEntry>,
        past: Past,
    ) -> Result<HeldSession, NoRandomness> {
        let tools = toolbox.of(Mode::Text);
        let limits = self.limits.clone();
        let session = self.session_with(maker, conversation_id, tools, limits, history, past)?;
        Ok(HeldSession::new(session, toolbox, &self.sessions))
    }

    pub(super) fn session_with(
        &self,
        maker: SessionMaker,
        conversation_id: ConversationId,
        tools: &ModeTools,
        limits: Arc<Limits>,
        history: Vec<HistoryEntry>,
        past: Past,
    ) -> Result<TextSession, NoRandomness> {
        let settings = self.settings.clone();
        let session_id = ids::session_id()?;
        let profile = match settings.models.first() {
            Some(model) => {
                let declarations = tools.text_declared.text(&model.protocol);
                let estimate = ContextEstimate::of(&tools.instruction(), declarations);
                let window = model.profile.context_tokens_max;
                context::report(&session_id, &estimate, window, &self.metrics);
                model.profile.clone()
            }
            // Nobody asks it anything, so that it may be any.
            None => Arc::new(profile::find("", "").profile.model_profile()),
        };
        Ok(TextSession::begin(TextRequest {
            session: SessionConfig {
                session_id,
                user_id: maker.user_id,
                conversation_id,
                mode: Mode::Text,
                registry: tools.registry.clone(),
                limits,
                profile,
                started_unix_ms: clock::now_unix_ms(),
                history,
                pending_request: None,
            },
            client_id: maker.client_id,
            world: maker.world,
            shared: self.shared.clone(),
            settings,
            tools: tools.text_declared.clone(),
            past,
        }))
    }
}

impl HeldSession {
    pub(super) fn new(
        session: TextSession,
        toolbox: Arc<Toolbox>,
        sessions: &Arc<TextSessions>,
    ) -> Self {
        let (id, version) = (session.id().clone(), toolbox.version.clone());
        sessions.lock().insert(id.clone(), version);
        let sessions = sessions.clone();
        Self {
            session,
            toolbox,
            listed: Listed { sessions, id },
        }
    }

    /// The system instruction of a turn of it that begins now.
    pub(crate) fn instruction(&self) -> Arc<str> {
        self.toolbox.of(Mode::Text).instruction()
    }

    pub(crate) async fn end(self) {
        Box::pin(self.session.end()).await;
        drop(self.listed);
    }

    pub(super) async fn suspend(self) {
        Box::pin(self.session.suspend()).await;
        drop(self.listed);
    }
}

impl Deref for HeldSession {
    type Target = TextSession;

    fn deref(&self) -> &TextSession {
        &self.session
    }
}

impl DerefMut for HeldSession {
    fn deref_mut(&mut self) -> &mut TextSession {
        &mut self.session
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.id);
    }
}
