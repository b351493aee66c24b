//! Text conversations as the server holds them: who may talk, which turn runs, what a repeat gets. Owns the tasks of turns;
//! knows neither HTTP nor a model's protocol.

pub(crate) mod conversation;
pub(crate) mod record;
pub(crate) mod request;
mod sink;

use crate::clock;
use crate::toolbox::{ModeTools, Toolbox};
use crate::world::SharedWorld;
use arc_swap::ArcSwap;
use conversation::{Conversation, Conversations};
use record::{TurnReader, TurnRecord};
use request::{ChatRequest, Wish};
use sink::ChatSink;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use windlass_provider::log::Entry;
use windlass_runtime::call_driver::Shared;
use windlass_runtime::ids::{self, NoRandomness};
use windlass_runtime::text::ui_stream::UiStream;
use windlass_runtime::text::{
    TextRequest, TextSession, TextSettings, TurnEnd, TurnInput, TurnSink, UserInput,
};
use windlass_session::limits::Limits;
use windlass_session::model::HistoryEntry;
use windlass_session::session::SessionConfig;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::handler::{Block, World};
use windlass_tool::id::{ClientId, ConversationId, UserId};
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

/// How long a message waits for a turn that is being given up.
const TURN_PATIENCE: Duration = Duration::from_secs(10);

/// Everything that a text session is made of.
pub(crate) struct ChatHost {
    pub(crate) toolbox: Arc<ArcSwap<Toolbox>>,
    pub(crate) settings: Arc<TextSettings>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) world: SharedWorld,
    pub(crate) shared: Shared,
    pub(crate) conversations: Arc<Conversations>,
}

/// Who asks.
pub(crate) struct Caller {
    pub(crate) client_id: ClientId,
    /// The client keeps its id, so that a conversation can be its own.
    pub(crate) is_known: bool,
}

/// Why there is no turn.
#[derive(Debug)]
pub(crate) enum ChatRefusal {
    /// The user is not served until a time.
    Blocked(Block),
    /// The conversation is another client's.
    Foreign,
    /// Another message of the conversation is being answered.
    Busy,
    /// There is no such conversation.
    Unknown,
    Internal,
}

/// A turn to read, and the conversation that it is of.
pub(crate) struct Answering {
    pub(crate) reader: TurnReader,
    pub(crate) conversation: ConversationId,
}

impl ChatHost {
    /// Begins the turn that a request asks for, or finds the one that it had.
    pub(crate) fn chat(
        self: &Arc<Self>,
        caller: &Caller,
        request: ChatRequest,
    ) -> Result<Answering, ChatRefusal> {
        let (user_id, world) = self
            .world
            .of_user(&caller.client_id, request.user.as_deref());
        refuse_blocked(&user_id, world.as_ref())?;
        let id = match request.conversation {
            Some(id) => ConversationId::new(id),
            None => ids::conversation_id().map_err(|error| broken(&error))?,
        };
        let conversation = self.open(&id, caller, &request.earlier)?;
        let (message, input) = match request.wish {
            Wish::Say {
                message,
                input,
                again,
            } => {
                if let Some(known) = message.as_deref().filter(|_| !again)
                    && let Some(record) = conversation.turn_of(known)
                {
                    return Ok(answering(&conversation, &record));
                }
                let input = match again {
                    true => TurnInput::Again(input),
                    false => TurnInput::User(input),
                };
                (message, input)
            }
            Wish::Approve { token, approved } => {
                let token_hash = ids::token_hash(token.expose());
                let input = TurnInput::Confirm {
                    token_hash,
                    approved,
                };
                (None, input)
            }
        };
        if conversation
            .running()
            .is_some_and(|running| running.has_readers())
        {
            return Err(ChatRefusal::Busy);
        }
        let maker = SessionMaker {
            user_id,
            client_id: caller.client_id.clone(),
            world,
        };
        self.begin_turn(conversation, maker, message, input, None)
    }

    /// The user's answer to a request for consent; what came of it. The model goes on with it in its own time.
    pub(crate) async fn confirm(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: String,
        token: &Sensitive<String>,
        approved: bool,
    ) -> Result<Arc<ToolResponse>, ChatRefusal> {
        let (user_id, world) = self.world.of_user(&caller.client_id, None);
        refuse_blocked(&user_id, world.as_ref())?;
        let known = self.conversations.get(&ConversationId::new(conversation));
        let conversation = known.ok_or(ChatRefusal::Unknown)?;
        if !conversation.admits(&caller.client_id) {
            return Err(ChatRefusal::Foreign);
        }
        let maker = SessionMaker {
            user_id,
            client_id: caller.client_id.clone(),
            world,
        };
        let input = TurnInput::Confirm {
            token_hash: ids::token_hash(token.expose()),
            approved,
        };
        let (answer, answered) = oneshot::channel();
        self.begin_turn(conversation, maker, None, input, Some(answer))?;
        answered.await.map_err(|_| ChatRefusal::Busy)
    }

    /// The conversation, with what the client says of its past where nobody here knows it.
    fn open(
        &self,
        id: &ConversationId,
        caller: &Caller,
        earlier: &[HistoryEntry],
    ) -> Result<Arc<Conversation>, ChatRefusal> {
        let owner = caller.is_known.then_some(&caller.client_id);
        let (conversation, is_new) = self.conversations.open(id, owner);
        if is_new {
            conversation.seed(earlier);
        } else if !conversation.admits(&caller.client_id) {
            return Err(ChatRefusal::Foreign);
        }
        Ok(conversation)
    }

    fn begin_turn(
        self: &Arc<Self>,
        conversation: Arc<Conversation>,
        maker: SessionMaker,
        message: Option<String>,
        input: TurnInput,
        answer: Option<oneshot::Sender<Arc<ToolResponse>>>,
    ) -> Result<Answering, ChatRefusal> {
        let message_id = ids::message_id().map_err(|error| broken(&error))?;
        let (record, writer) = TurnRecord::new();
        conversation.begin_turn(message, record.clone());
        let answering = answering(&conversation, &record);
        let continues = matches!(input, TurnInput::Confirm { .. });
        let waits_for_reader = answer.is_none();
        let mut sink = ChatSink {
            conversation: conversation.clone(),
            stream: UiStream::new(writer, message_id, continues),
            answer,
        };
        let host = self.clone();
        tokio::spawn(async move {
            let mut given_up = std::pin::pin!(async {
                if !waits_for_reader {
                    std::future::pending::<()>().await;
                }
                record.abandoned().await;
            });
            host.run_turn(&conversation, maker, input, &mut sink, given_up.as_mut())
                .await;
            // The record is over, and whatever a call still does is looked after without it.
            drop(sink);
            look_after(&conversation).await;
        });
        Ok(answering)
    }

    async fn run_turn(
        &self,
        conversation: &Conversation,
        maker: SessionMaker,
        input: TurnInput,
        sink: &mut ChatSink,
        given_up: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) {
        conversation.wanted.notify_one();
        let Ok(mut place) = tokio::time::timeout(TURN_PATIENCE, conversation.session.lock()).await
        else {
            return refuse(
                sink,
                "another message of this conversation is being answered",
            );
        };
        let toolbox = self.toolbox.load_full();
        let tools = toolbox.of(Mode::Text);
        let instruction = tools.instruction();
        let heard_by_voice = conversation.take_heard_by_voice();
        let session = match &mut *place {
            Some(session) if !session.is_over() => {
                for entry in heard_by_voice {
                    session.heard_elsewhere(Entry::earlier(entry));
                }
                session
            }
            place => {
                let begun =
                    self.session(maker, conversation.id.clone(), tools, conversation.said());
                match begun {
                    Ok(session) => place.insert(session),
                    Err(error) => {
                        broken(&error);
                        return refuse(sink, "the server cannot begin a session now");
                    }
                }
            }
        };
        session.turn(input, &instruction, sink, given_up).await;
        conversation.touch();
    }

    fn session(
        &self,
        maker: SessionMaker,
        conversation_id: ConversationId,
        tools: &ModeTools,
        history: Vec<HistoryEntry>,
    ) -> Result<TextSession, NoRandomness> {
        let settings = self.settings.clone();
        let profile = settings.models[0].profile.clone();
        Ok(TextSession::begin(TextRequest {
            session: SessionConfig {
                session_id: ids::session_id()?,
                user_id: maker.user_id,
                conversation_id,
                mode: Mode::Text,
                registry: tools.registry.clone(),
                limits: self.limits.clone(),
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
            inherited: None,
        }))
    }

    /// One turn of a session that is forgotten afterwards: `history` is what was said before.
    pub(crate) async fn complete(
        &self,
        caller: Caller,
        history: Vec<HistoryEntry>,
        input: UserInput,
        instructions: &str,
        sink: &mut dyn TurnSink,
        cancelled: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> Result<TurnEnd, ChatRefusal> {
        let (user_id, world) = self.world.of_user(&caller.client_id, None);
        refuse_blocked(&user_id, world.as_ref())?;
        let conversation_id = ids::conversation_id().map_err(|error| broken(&error))?;
        let toolbox = self.toolbox.load_full();
        let tools = &toolbox.completions;
        let maker = SessionMaker {
            user_id,
            client_id: caller.client_id,
            world,
        };
        let mut session = self
            .session(maker, conversation_id, tools, history)
            .map_err(|error| broken(&error))?;
        let own = tools.instruction();
        let instruction = match instructions.trim() {
            "" => own,
            theirs => {
                format!("{own}\n\n# What the calling program asks of you\n\n{theirs}\n").into()
            }
        };
        let end = session
            .turn(TurnInput::User(input), &instruction, sink, cancelled)
            .await;
        tokio::spawn(session.end());
        Ok(end)
    }

    /// A session that its caller holds, as the terminal does.
    pub(crate) fn session_of(
        &self,
        client_id: ClientId,
        user_id: UserId,
    ) -> Result<TextSession, NoRandomness> {
        let maker = SessionMaker {
            user_id,
            client_id,
            world: Arc::new(self.world.clone()),
        };
        let toolbox = self.toolbox.load_full();
        self.session(
            maker,
            ids::conversation_id()?,
            toolbox.of(Mode::Text),
            Vec::new(),
        )
    }

    /// The system instruction of a turn that begins now.
    pub(crate) fn instruction(&self) -> Arc<str> {
        self.toolbox.load().of(Mode::Text).instruction()
    }

    /// Whether the user may be served at all.
    pub(crate) fn check_user(&self, caller: &Caller) -> Result<(), ChatRefusal> {
        let (user_id, world) = self.world.of_user(&caller.client_id, None);
        refuse_blocked(&user_id, world.as_ref())
    }

    /// Ends every conversation and waits for the changes that are under way.
    pub(crate) async fn shut_down(&self) {
        let mut ending = tokio::task::JoinSet::new();
        for conversation in self.conversations.take_all() {
            ending.spawn(conversation.end());
        }
        while ending.join_next().await.is_some() {}
    }
}

/// What a session of this user is begun with.
struct SessionMaker {
    user_id: UserId,
    client_id: ClientId,
    world: Arc<dyn World>,
}

fn answering(conversation: &Conversation, record: &Arc<TurnRecord>) -> Answering {
    Answering {
        reader: record.reader(),
        conversation: conversation.id.clone(),
    }
}

fn refuse(sink: &mut ChatSink, message: &str) {
    sink.failed(windlass_session::client::ErrorCode::Overloaded, message);
    sink.flush();
}

/// Lets changes that have begun come to their end, unless the next turn wants the session, which looks after them then.
async fn look_after(conversation: &Conversation) {
    let mut place = conversation.session.lock().await;
    let Some(session) = &mut *place else { return };
    while session.is_working() {
        tokio::select! {
            () = conversation.wanted.notified() => return,
            () = session.work() => {}
        }
    }
}

fn refuse_blocked(user_id: &UserId, world: &dyn World) -> Result<(), ChatRefusal> {
    match world.blocks().blocked(user_id, clock::now_unix_ms()) {
        Ok(None) => Ok(()),
        Ok(Some(block)) => Err(ChatRefusal::Blocked(block)),
        // Nobody gets around a block by breaking the store.
        Err(error) => {
            tracing::error!(%error, "a chat could not begin");
            Err(ChatRefusal::Internal)
        }
    }
}

fn broken(error: &NoRandomness) -> ChatRefusal {
    tracing::error!(%error, "a chat could not begin");
    ChatRefusal::Internal
}
