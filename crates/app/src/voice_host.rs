//! Decides what session a voice client gets: its user, its conversation, its tools and its model. Knows no socket.

use crate::chat::conversation::{Asked, Conversation};
use crate::chat::conversations::Conversations as TextConversations;
use crate::chat::held::report_older;
use crate::chat::{ChatHost, ChatRefusal, answerer, no_answer};
use crate::clock;
use crate::context;
use crate::provider::Settings;
use crate::toolbox::Toolbox;
use crate::world::SharedWorld;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use windlass_runtime::caller::Caller;
use windlass_runtime::client_protocol::Start;
use windlass_runtime::effects::Beside;
use windlass_runtime::ids::{self, NoRandomness};
use windlass_runtime::metrics::Metrics;
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_runtime::voice::{Admission, Elsewhere, Host, Refusal};
use windlass_session::client::ErrorCode;
use windlass_session::event::SessionEvent;
use windlass_session::io::TokenHash;
use windlass_session::limits::Limits;
use windlass_session::model::{HistoryEntry, ModelProfile};
use windlass_session::session::SessionConfig;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::handler::World;
use windlass_tool::id::{ClientId, ConversationId, SessionId, UserId};
use windlass_tool::kind::Mode;

/// Everything that a session is made of.
pub(crate) struct VoiceHost {
    pub(crate) toolbox: Arc<ArcSwap<Toolbox>>,
    pub(crate) profile: Arc<ModelProfile>,
    pub(crate) provider: Settings,
    pub(crate) limits: Arc<Limits>,
    pub(crate) world: SharedWorld,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) conversations: Arc<Conversations>,
    /// What was said by text in a conversation, and what is to be answered first.
    pub(crate) text: Arc<TextConversations>,
    /// Which goes on with questions that were asked by text.
    pub(crate) chat: Arc<ChatHost>,
}

/// The conversations that have a voice session now.
#[derive(Default)]
pub(crate) struct Conversations(Mutex<HashMap<ConversationId, Talk>>);

struct Talk {
    session: SessionId,
    /// The version of its tools.
    version: Arc<str>,
    /// Its client has not left it; one that has may begin anew.
    has_client: bool,
}

impl Conversations {
    fn enter(
        self: &Arc<Self>,
        conversation: &ConversationId,
        session: &SessionId,
        version: &Arc<str>,
    ) -> Option<Lease> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(conversation) {
            return None;
        }
        let talk = Talk {
            session: session.clone(),
            version: version.clone(),
            has_client: true,
        };
        running.insert(conversation.clone(), talk);
        Some(Lease {
            conversations: self.clone(),
            conversation: conversation.clone(),
        })
    }

    /// Whether somebody talks in this conversation now.
    pub(crate) fn is_talking(&self, conversation: &ConversationId) -> bool {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running
            .get(conversation)
            .is_some_and(|talk| talk.has_client)
    }

    /// Says of each session that has other tools than these that it keeps them.
    fn report_older_than(&self, version: &str) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for Talk {
            session,
            version: own,
            ..
        } in running.values().filter(|talk| *talk.version != *version)
        {
            report_older(session, own, version);
        }
    }
}

/// Notes who is there.
impl Subscriber for Conversations {
    fn event(&self, session: &SessionIdentity, _now_unix_ms: u64, event: &SessionEvent) {
        let has_client = match event {
            SessionEvent::ClientConnected => true,
            SessionEvent::ClientLost => false,
            _ => return,
        };
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let talk = running.get_mut(&session.conversation_id);
        if let Some(talk) = talk.filter(|talk| talk.session == session.session_id) {
            talk.has_client = has_client;
        }
    }
}

/// Holds a conversation's place while its session lives.
struct Lease {
    conversations: Arc<Conversations>,
    conversation: ConversationId,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut running = self
            .conversations
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.conversation);
    }
}

impl Host for VoiceHost {
    fn start(&self, caller: &Caller, mut start: Start) -> Result<Admission, Refusal> {
        let (user_id, world) = self
            .world
            .of_user(&caller.client_id, start.user_id.as_deref());
        self.refuse_blocked(&user_id, world.as_ref())?;
        let session_id = ids::session_id().map_err(|error| broken(&error))?;
        let (conversation_id, is_new) = match start.conversation_id.take() {
            Some(id) => (ConversationId::new(id), false),
            None => (
                ids::conversation_id().map_err(|error| broken(&error))?,
                true,
            ),
        };
        let toolbox = self.toolbox.load();
        let tools = toolbox.of(Mode::Voice);
        let lease = self
            .conversations
            .enter(&conversation_id, &session_id, &toolbox.version)
            .ok_or_else(|| Refusal::Error {
                code: ErrorCode::SessionActive,
                message: "this conversation has a voice session already; end that one first"
                    .to_owned(),
            })?;
        // Nobody can know a conversation whose id has just been made.
        let known = match is_new {
            true => None,
            false => self.find(&conversation_id)?,
        };
        let (history, pending_request) =
            self.handed_over(caller, &conversation_id, known, &mut start);
        let system_instruction = tools.instruction();
        let estimate = tools.estimate(&system_instruction);
        let window = self.profile.context_tokens_max;
        context::report(&session_id, &estimate, window, &self.metrics);
        Ok(Admission {
            session: SessionConfig {
                session_id,
                user_id,
                conversation_id,
                mode: Mode::Voice,
                registry: tools.registry.clone(),
                limits: self.limits.clone(),
                profile: self.profile.clone(),
                started_unix_ms: clock::now_unix_ms(),
                history,
                pending_request,
            },
            world,
            provider: self.provider.open(system_instruction, tools.declared()),
            resume_token: ids::resume_token().map_err(|error| broken(&error))?,
            lease: Box::new(lease),
        })
    }

    fn admit(&self, caller: &Caller, conversation: &ConversationId) -> Result<(), Refusal> {
        let known = self.find(conversation)?;
        match known.is_none_or(|known| known.admits(&caller.client_id)) {
            true => Ok(()),
            false => Err(Refusal::Error {
                code: ErrorCode::ForeignConversation,
                message:
                    "this conversation belongs to another client; begin one with an id of its own"
                        .to_owned(),
            }),
        }
    }

    fn serves(&self, client: &ClientId, user: &UserId) -> Result<(), Refusal> {
        let world = self.world.of_known_user(client, user);
        self.refuse_blocked(user, world.as_ref())
    }

    fn asks(&self, session: &SessionIdentity, token_hash: TokenHash) -> Option<Beside> {
        let known = self.text.get(&session.conversation_id)?;
        let asked = Asked {
            token_hash,
            user_id: session.user_id.clone(),
            client_id: Some(session.client_id.clone()),
            by_voice: true,
            is_here: true,
        };
        known.has_asked(asked.clone());
        Some(known.beside_spoken_question(asked))
    }

    fn answer(
        &self,
        caller: &Caller,
        session: &SessionIdentity,
        token_hash: TokenHash,
        approved: bool,
    ) -> Elsewhere {
        let known = self.text.get(&session.conversation_id);
        let Some((known, asked)) = known.and_then(|known| {
            let asked = known.asked(&token_hash)?;
            Some((known, asked))
        }) else {
            return Elsewhere::Nowhere;
        };
        let is_nameless = session.user_id.as_str() == session.client_id.as_str();
        let named = (!is_nameless).then_some(&session.user_id);
        if answerer(&known, caller, named, &token_hash).is_err() {
            return Elsewhere::Foreign;
        }
        if asked.by_voice && asked.user_id == session.user_id {
            return match asked.is_left_behind() {
                true => Elsewhere::Gone,
                false => Elsewhere::Nowhere,
            };
        }
        let (chat, caller) = (self.chat.clone(), caller.clone());
        let id = session.conversation_id.clone();
        let version = self.toolbox.load().version.clone();
        let (reply, answered) = oneshot::channel();
        tokio::spawn(async move {
            let response = match chat.confirm(&caller, &id, token_hash, approved).await {
                Ok(response) => response,
                Err(ChatRefusal::Busy | ChatRefusal::Internal) => {
                    let problem = "the conversation cannot take this answer now; send it again";
                    no_answer(CallError::new(ErrorType::Transient, problem), version)
                }
                Err(ChatRefusal::Blocked(_) | ChatRefusal::Foreign | ChatRefusal::Unknown) => {
                    return;
                }
            };
            // The session may have ended.
            let _ = reply.send(response);
        });
        Elsewhere::Taken(answered)
    }

    fn user(&self, caller: &Caller, named: &str) -> UserId {
        self.world.of_user(&caller.client_id, Some(named)).0
    }
}

impl VoiceHost {
    /// Says of each session, by voice and by text, that has other tools than these that it keeps them.
    pub(crate) fn report_older_than(&self, version: &str) {
        self.conversations.report_older_than(version);
        self.chat.sessions.report_older_than(version);
    }

    /// What the session knows of the conversation, and what it answers first: the server's own account of it before the
    /// client's.
    fn handed_over(
        &self,
        caller: &Caller,
        id: &ConversationId,
        known: Option<Arc<Conversation>>,
        start: &mut Start,
    ) -> (Vec<HistoryEntry>, Option<String>) {
        let told = std::mem::take(&mut start.history);
        let asked = start.pending_request.take().map(|asked| asked.into_inner());
        let conversation = known.unwrap_or_else(|| {
            let (conversation, is_new) = self.text.open(id, caller.keeper());
            if is_new {
                conversation.seed(&told);
            }
            conversation
        });
        if !conversation.admits(&caller.client_id) {
            return (told, asked);
        }
        let said = conversation.said();
        let history = if said.is_empty() { told } else { said };
        let asked = asked.or_else(|| conversation.take_pending_request());
        (history, asked)
    }

    /// Fails where the store does: whose a conversation is must be known before anybody enters it.
    fn find(&self, id: &ConversationId) -> Result<Option<Arc<Conversation>>, Refusal> {
        let found = self.text.find_now(id, self.world.store.as_ref());
        found.map_err(|error| {
            tracing::error!(%error, "a voice session could not begin");
            internal()
        })
    }

    fn refuse_blocked(&self, user_id: &UserId, world: &dyn World) -> Result<(), Refusal> {
        let now_unix_ms = clock::now_unix_ms();
        match world.blocks().blocked(user_id, now_unix_ms) {
            Ok(None) => Ok(()),
            Ok(Some(block)) => Err(Refusal::Blocked {
                now_unix_ms,
                until_unix_ms: block.until_unix_ms,
                farewell_message: block.farewell_message,
            }),
            // Nobody gets around a block by breaking the store.
            Err(error) => {
                tracing::error!(%error, "a session could not begin");
                Err(internal())
            }
        }
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
