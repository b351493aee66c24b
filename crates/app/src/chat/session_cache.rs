//! Text sessions, each with the tools that it began with. Knows no conversation.

use super::ChatHost;
use crate::capabilities::at_user;
use crate::clock::{self, UserZone};
use crate::sessions::TextLease;
use crate::toolbox::{ModeKit, ModeTools, Toolbox};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use windlass_contract::condition::{Facts, Given};
use windlass_contract::handler::{Capabilities, Page};
use windlass_contract::id::{CallNumber, ClientId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::rights::Rights;
use windlass_provider::log::Image;
use windlass_provider::profile;
use windlass_runtime::caller::Validity;
use windlass_runtime::ids::{self, NoRandomness};
use windlass_runtime::prompt;
use windlass_runtime::text::{Past, TextRequest, TextSession, TextSettings, TurnMemory};
use windlass_session::client::MessageKey;
use windlass_session::limits::Limits;
use windlass_session::model::HistoryEntry;
use windlass_session::session::SessionConfig;
use windlass_store::{Beginner, ConversationRef, Epoch};

/// A session whose instruction, declarations and rules are of one and the same tools, whatever other sessions are given since.
pub(crate) struct HeldSession {
    session: TextSession,
    tools: Arc<ModeTools>,
    lease: TextLease,
}

/// The user's part of a session's beginning.
pub(super) struct SessionMaker {
    pub(super) user_id: UserId,
    pub(super) client_id: ClientId,
    /// The user's time zone, if the client has said it.
    pub(super) zone: Option<UserZone>,
    /// The page that the user is on, if the client has said.
    pub(super) page: Option<Page>,
    /// The rights of the caller whose request begins the session.
    pub(super) rights: Rights,
    /// Whether that caller still counts.
    pub(super) validity: Validity,
    pub(super) capabilities: Arc<dyn Capabilities>,
    /// The party that begins a new conversation.
    pub(super) beginner: Beginner,
    /// The content of its conversation's log, where that begins with the same request and need not be read.
    pub(super) past: Option<Past>,
    /// The memory that its turns hold.
    pub(super) memory: TurnMemory,
    /// Pictures that the user showed earlier, as the client sends them again.
    pub(super) shown: Vec<(MessageKey, Vec<Image>)>,
}

/// Everything that a session begins with.
pub(super) struct SessionRequest {
    pub(super) maker: SessionMaker,
    pub(super) reference: ConversationRef,
    pub(super) mode: Mode,
    pub(super) limits: Arc<Limits>,
    pub(super) settings: Arc<TextSettings>,
    /// The client's account of the earlier conversation, for a log that has nothing of it.
    pub(super) history: Vec<HistoryEntry>,
    pub(super) past: Past,
    /// Whether there is a client who can be asked for consent.
    pub(super) can_ask: bool,
    /// Whether that client shows what the services of tools ask.
    pub(super) can_ask_input: bool,
}

/// The time at which a session begins, and the facts that conditions read in it.
struct Beginning {
    unix_ms: u64,
    given: Given,
}

impl ChatHost {
    /// A session that keeps these tools.
    pub(super) fn held_session(
        &self,
        request: SessionRequest,
        toolbox: &Toolbox,
        kit: &ModeKit,
    ) -> Result<HeldSession, NoRandomness> {
        let maker = &request.maker;
        let beginning = Beginning {
            unix_ms: clock::now_unix_ms(),
            given: kit.given(maker.zone.as_ref()),
        };
        let tools = kit.offered_to(&Facts {
            rights: &maker.rights,
            user_id: maker.user_id.as_str(),
            tenant: request.reference.tenant.as_str(),
            mode: request.mode,
            unix_ms: beginning.unix_ms,
            given: &beginning.given,
            arguments: None,
        });
        let session = self.begin_session(request, &tools, beginning)?;
        let lease = self.sessions.enter(session.id(), &toolbox.version);
        Ok(HeldSession {
            session,
            tools,
            lease,
        })
    }

    fn begin_session(
        &self,
        request: SessionRequest,
        tools: &ModeTools,
        beginning: Beginning,
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
            can_ask_input,
        } = request;
        let session_id = ids::session_id()?;
        let first = settings.models.first();
        // It is the same for each turn of a chat.
        let estimated = first.filter(|_| past.is_empty());
        let estimate = estimated.map(|model| {
            let instruction = tools.instruction(maker.zone.as_ref());
            prompt::estimate(&instruction, tools.text_declared.text(&model.protocol))
        });
        let (model, profile) = match first {
            Some(model) => (Arc::from(model.name.as_str()), model.profile.clone()),
            // Such a session asks no model, so any profile will do.
            None => {
                let any = profile::openai_chat("", "").profile.model;
                (Arc::default(), Arc::new(any))
            }
        };
        Ok(TextSession::begin(TextRequest {
            session: SessionConfig {
                session_id,
                epoch: Epoch(1),
                tenant: reference.tenant.clone(),
                user_id: maker.user_id,
                rights: maker.rights,
                given: beginning.given,
                conversation_id: reference.conversation_id.clone(),
                mode,
                registry: tools.registry.clone(),
                limits,
                profile,
                model,
                estimate,
                started_unix_ms: beginning.unix_ms,
                history,
                last_call: CallNumber(0),
                can_ask,
                can_ask_input,
                pending_request: None,
            },
            client_id: maker.client_id,
            conversation: reference,
            beginner: maker.beginner,
            capabilities: at_user(maker.capabilities, maker.zone, maker.page),
            shared: self.shared.clone(),
            settings,
            tools: tools.text_declared.clone(),
            past,
            memory: maker.memory,
        }))
    }
}

impl HeldSession {
    /// The system instruction of a turn of it that begins now.
    pub(crate) fn instruction(&self, zone: Option<&UserZone>) -> Arc<str> {
        self.tools.instruction(zone)
    }

    /// The tools that its model is offered.
    pub(crate) fn tools(&self) -> &ModeTools {
        &self.tools
    }

    pub(crate) async fn end(self) {
        Box::pin(self.session.end()).await;
        drop(self.lease);
    }

    /// The same for a conversation that no client comes back to.
    pub(super) async fn end_for_good(self) {
        Box::pin(self.session.end_for_good()).await;
        drop(self.lease);
    }

    pub(super) async fn suspend(self, program_ends: impl Future<Output = ()>) {
        Box::pin(self.session.suspend(program_ends)).await;
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
