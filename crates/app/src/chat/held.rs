//! Text sessions, each with the tools that it began with. Knows no conversation.

use super::ChatHost;
use crate::clock;
use crate::context;
use crate::sessions::{TextLease, TextSessions};
use crate::toolbox::{ModeTools, Toolbox};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use windlass_provider::profile;
use windlass_runtime::ids::{self, NoRandomness};
use windlass_runtime::prompt::ContextEstimate;
use windlass_runtime::text::{Past, TextRequest, TextSession, TextSettings};
use windlass_session::limits::Limits;
use windlass_session::model::HistoryEntry;
use windlass_session::session::SessionConfig;
use windlass_store::{ConversationRef, Epoch};
use windlass_tool::handler::World;
use windlass_tool::id::{CallNumber, ClientId, UserId};
use windlass_tool::kind::Mode;

/// A session whose instruction, declarations and rules are of one and the same tools, whatever other sessions are given since.
pub(crate) struct HeldSession {
    session: TextSession,
    toolbox: Arc<Toolbox>,
    lease: TextLease,
}

/// What a session of this user is begun with.
pub(super) struct SessionMaker {
    pub(super) user_id: UserId,
    pub(super) client_id: ClientId,
    pub(super) world: Arc<dyn World>,
}

/// What a session is begun with.
pub(super) struct SessionRequest {
    pub(super) maker: SessionMaker,
    pub(super) reference: ConversationRef,
    pub(super) mode: Mode,
    pub(super) limits: Arc<Limits>,
    pub(super) settings: Arc<TextSettings>,
    /// What the client says was said before, where the log has nothing of it.
    pub(super) history: Vec<HistoryEntry>,
    pub(super) past: Past,
    /// Whether there is a client who can be asked for consent.
    pub(super) can_ask: bool,
}

impl ChatHost {
    /// A session that keeps these tools.
    pub(super) fn held_session(
        &self,
        request: SessionRequest,
        toolbox: Arc<Toolbox>,
        tools: &ModeTools,
    ) -> Result<HeldSession, NoRandomness> {
        let session = self.begin_session(request, tools)?;
        Ok(HeldSession::new(session, toolbox, &self.sessions))
    }

    fn begin_session(
        &self,
        request: SessionRequest,
        tools: &ModeTools,
    ) -> Result<TextSession, NoRandomness> {
        let SessionRequest {
            maker,
            reference,
            mode,
            limits,
            settings,
            history,
            past,
            can_ask,
        } = request;
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
            None => Arc::new(profile::openai_chat("", "").profile.model),
        };
        Ok(TextSession::begin(TextRequest {
            session: SessionConfig {
                session_id,
                epoch: Epoch(1),
                tenant: reference.tenant.clone(),
                user_id: maker.user_id,
                conversation_id: reference.conversation_id.clone(),
                mode,
                registry: tools.registry.clone(),
                limits,
                profile,
                started_unix_ms: clock::now_unix_ms(),
                history,
                last_call: CallNumber(0),
                can_ask,
                pending_request: None,
            },
            client_id: maker.client_id,
            conversation: reference,
            world: maker.world,
            shared: self.shared.clone(),
            settings,
            tools: tools.text_declared.clone(),
            past,
        }))
    }
}

impl HeldSession {
    fn new(session: TextSession, toolbox: Arc<Toolbox>, sessions: &Arc<TextSessions>) -> Self {
        let lease = sessions.enter(session.id(), &toolbox.version);
        Self {
            session,
            toolbox,
            lease,
        }
    }

    /// The system instruction of a turn of it that begins now.
    pub(crate) fn instruction(&self) -> Arc<str> {
        self.toolbox.of(Mode::Text).instruction()
    }

    pub(crate) async fn end(self) {
        Box::pin(self.session.end()).await;
        drop(self.lease);
    }

    pub(super) async fn suspend(self) {
        Box::pin(self.session.suspend()).await;
        drop(self.lease);
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
