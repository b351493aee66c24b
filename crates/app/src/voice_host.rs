//! Decides the session that a voice client gets: its user, its conversation, its tools and its model. Knows no socket.

use crate::capabilities::{SharedCapabilities, at_user};
use crate::chat::ChatHost;
use crate::chat::owner::{self, ConversationOwner};
use crate::clock::{self, UserZone};
use crate::crowding;
use crate::provider::Settings;
use crate::toolbox::Toolbox;
use arc_swap::ArcSwap;
use std::sync::Arc;
use windlass_contract::condition::Facts;
use windlass_contract::handler::Capabilities;
use windlass_contract::id::{CallNumber, ConversationId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::caller::Caller;
use windlass_runtime::client_protocol::Start;
use windlass_runtime::ids::{self, NoRandomness};
use windlass_runtime::metrics::Metrics;
use windlass_runtime::voice::{Admission, Host, Party, Refusal};
use windlass_session::client::ErrorCode;
use windlass_session::limits::Limits;
use windlass_session::model::ModelProfile;
use windlass_session::session::SessionConfig;
use windlass_store::{ConversationRef, Epoch, LegRef, PartyKind};

/// Everything that a session is made of.
pub(crate) struct VoiceHost {
    pub(crate) toolbox: Arc<ArcSwap<Toolbox>>,
    pub(crate) profile: Arc<ModelProfile>,
    /// The model's name.
    pub(crate) model: Arc<str>,
    pub(crate) provider: Settings,
    pub(crate) limits: Arc<Limits>,
    pub(crate) capabilities: SharedCapabilities,
    pub(crate) metrics: Arc<Metrics>,
    /// The text chat, where a conversation leaves the request that has to be answered first.
    pub(crate) chat: Arc<ChatHost>,
}

impl Host for VoiceHost {
    fn admit(&self, caller: &Caller, start: &Start) -> Result<Party, Refusal> {
        let tenant = &caller.tenant;
        let (conversation_id, is_new) = match &start.conversation_id {
            Some(id) => (ConversationId::new(id.as_str()), false),
            None => (
                ids::conversation_id().map_err(|error| broken(&error))?,
                true,
            ),
        };
        // The id has just been made, so no store knows the conversation.
        let known = match is_new {
            true => None,
            false => self
                .capabilities
                .store
                .conversation(tenant, &conversation_id)
                .map_err(|error| {
                    tracing::error!(%error, "a voice session could not begin");
                    internal()
                })?,
        };
        let named = start.user_id.as_deref();
        let named = named.map(|named| self.user(caller, named));
        let whose = owner::admit(known.as_ref(), caller, named.as_ref()).map_err(|_| foreign())?;
        self.refuse_blocked(caller, &whose.user_id)?;
        Ok(Party {
            caller: caller.clone(),
            conversation: whose.reference(tenant, &conversation_id),
            user_id: whose.user_id,
            is_new,
        })
    }

    fn start(
        &self,
        party: &Party,
        start: Start,
        leg: Option<&LegRef>,
    ) -> Result<Admission, Refusal> {
        let (caller, user_id) = (&party.caller, &party.user_id);
        let capabilities = self.refuse_blocked(caller, user_id)?;
        let ConversationRef {
            tenant,
            conversation_id,
            ..
        } = &party.conversation;
        let (session_id, epoch) = match leg {
            Some(leg) => (leg.leg.clone(), leg.epoch),
            None => (ids::session_id().map_err(|error| broken(&error))?, Epoch(1)),
        };
        // A start that is refused leaves the request there that a chat has handed over.
        let zone = start.time_zone.as_deref().map_or(Ok(None), UserZone::parse);
        let zone = zone.map_err(|message| Refusal::Error {
            code: ErrorCode::BadMessage,
            message: format!("timeZone: {message}"),
        })?;
        let zone = zone.or_else(|| UserZone::of_name(caller.zone.as_deref()));
        let toolbox = self.toolbox.load();
        let kit = toolbox.of(Mode::Voice);
        let started_unix_ms = clock::now_unix_ms();
        let given = kit.given(zone.as_ref());
        let tools = kit.offered_to(&Facts {
            rights: &caller.rights,
            user_id: user_id.as_str(),
            tenant: tenant.as_str(),
            mode: Mode::Voice,
            unix_ms: started_unix_ms,
            given: &given,
            arguments: None,
        });
        let lease = self
            .capabilities
            .voice
            .enter(tenant, conversation_id, &session_id, &toolbox.version)
            .ok_or_else(|| Refusal::Error {
                code: ErrorCode::SessionActive,
                message: "this conversation has a voice session already; end that one first"
                    .to_owned(),
            })?;
        let asked = start.pending_request.map(Sensitive::into_inner);
        let pending_request = asked.or_else(|| {
            self.chat
                .conversations
                .take_pending_request(tenant, conversation_id)
        });
        let system_instruction = tools.instruction(zone.as_ref());
        // A session that goes on has said it when it began.
        let estimate = leg.is_none().then(|| tools.estimate(&system_instruction));
        Ok(Admission {
            session: SessionConfig {
                session_id,
                epoch,
                tenant: tenant.clone(),
                user_id: user_id.clone(),
                rights: caller.rights.clone(),
                given,
                conversation_id: conversation_id.clone(),
                mode: Mode::Voice,
                registry: tools.registry.clone(),
                limits: self.limits.clone(),
                profile: self.profile.clone(),
                model: self.model.clone(),
                estimate,
                started_unix_ms,
                history: Vec::new(),
                last_call: CallNumber(0),
                can_ask: true,
                can_ask_input: true,
                pending_request,
            },
            capabilities: at_user(capabilities, zone, start.page),
            provider: self.provider.open(system_instruction, &tools),
            resume_token: ids::resume_token().map_err(|error| broken(&error))?,
            lease: Box::new(lease),
        })
    }

    fn ledger_user(
        &self,
        caller: &Caller,
        conversation: &ConversationRef,
        named: Option<&str>,
    ) -> UserId {
        let whose = ConversationOwner::of(&conversation.user_id);
        let named = named.map(|named| self.user(caller, named));
        let user_id = named.unwrap_or_else(|| whose.user_id.clone());
        ConversationOwner { user_id, ..whose }.ledger_user()
    }

    fn crowded(&self, kind: PartyKind) -> String {
        crowding::note(kind, &self.metrics)
    }

    fn user_of(&self, conversation: &ConversationRef) -> UserId {
        ConversationOwner::of(&conversation.user_id).user_id
    }
}

impl VoiceHost {
    /// Says of each session, by voice and by text, that has other tools than these that it keeps them.
    pub(crate) fn report_older_than(&self, version: &str) {
        self.capabilities.voice.report_older_than(version);
        self.chat.sessions.report_older_than(version);
    }

    /// The user whom a client names, as sessions have it.
    fn user(&self, caller: &Caller, named: &str) -> UserId {
        self.capabilities.of_user(caller, Some(named)).0
    }

    /// The capabilities of the user's tools, where the user is served.
    fn refuse_blocked(
        &self,
        caller: &Caller,
        user_id: &UserId,
    ) -> Result<Arc<dyn Capabilities>, Refusal> {
        let capabilities =
            self.capabilities
                .of_known_user(&caller.tenant, &caller.client_id, user_id);
        let now_unix_ms = clock::now_unix_ms();
        match capabilities.blocks().blocked(user_id, now_unix_ms) {
            Ok(None) => Ok(capabilities),
            Ok(Some(block)) => Err(Refusal::Blocked {
                now_unix_ms,
                until_unix_ms: block.until_unix_ms,
                farewell_message: block.farewell_message,
            }),
            // A broken store lets no blocked user in.
            Err(error) => {
                tracing::error!(%error, "a session could not begin");
                Err(internal())
            }
        }
    }
}

fn foreign() -> Refusal {
    Refusal::Error {
        code: ErrorCode::ForeignConversation,
        message: "this conversation belongs to another client; begin one with an id of its own"
            .to_owned(),
    }
}

fn broken(error: &NoRandomness) -> Refusal {
    tracing::error!(%error, "a session could not begin");
    internal()
}

fn internal() -> Refusal {
    Refusal::Error {
        code: ErrorCode::Internal,
        message: "the server cannot begin a session now".to_owned(),
    }
}
