//! Text conversations as the server holds them: who may talk, which turn runs, what a repeat gets. Owns the tasks of turns;
//! knows neither HTTP nor a model's protocol.

pub(crate) mod archive;
mod asked;
mod beside;
pub(crate) mod conversation;
pub(crate) mod conversations;
mod delivery;
pub(crate) mod held;
pub(crate) mod picture;
pub(crate) mod record;
pub(crate) mod request;
mod said;
pub(crate) mod single;
mod sink;

use crate::clock;
use crate::toolbox::Toolbox;
use crate::world::SharedWorld;
use arc_swap::ArcSwap;
use conversation::{Claim, Conversation, Delivery};
use conversations::Conversations;
use delivery::{Answerer, approval, wanted};
pub(crate) use delivery::{answerer, asking, no_answer};
use held::{HeldSession, SessionMaker, TextSessions};
use record::TurnReader;
use request::ChatRequest;
use single::Completing;
use sink::ChatSink;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use windlass_provider::log::Entry;
use windlass_runtime::call_driver::Shared;
use windlass_runtime::caller::Caller;
use windlass_runtime::effects::Ended;
use windlass_runtime::ids::{self, NoRandomness};
use windlass_runtime::metrics::Metrics;
use windlass_runtime::text::ui_stream::UiStream;
use windlass_runtime::text::{
    Consent, FinishReason, Past, TextSettings, TurnEnd, TurnInput, TurnSink,
};
use windlass_session::io::TokenHash;
use windlass_session::limits::Limits;
use windlass_session::model::{HistoryEntry, Usage};
use windlass_store::StoreUnavailable;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::handler::{Block, World};
use windlass_tool::id::{ClientId, ConversationId, UserId};

/// How long a message waits for a turn that is being given up.
const TURN_PATIENCE: Duration = Duration::from_secs(10);

/// Everything that a text session is made of.
pub(crate) struct ChatHost {
    pub(crate) toolbox: Arc<ArcSwap<Toolbox>>,
    pub(crate) settings: Arc<TextSettings>,
    pub(crate) limits: Arc<Limits>,
    /// The same for completions, whose users nobody can ask.
    pub(crate) unattended_limits: Arc<Limits>,
    pub(crate) world: SharedWorld,
    pub(crate) shared: Shared,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) sessions: Arc<TextSessions>,
    pub(crate) completing: Completing,
    pub(crate) metrics: Arc<Metrics>,
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
    /// Whether a model speaks by text. Where none does, questions to users are answered here all the same.
    pub(crate) fn has_model(&self) -> bool {
        !self.settings.models.is_empty()
    }

    /// Begins the turn that a request asks for, or finds the one that it had.
    pub(crate) async fn chat(
        self: &Arc<Self>,
        caller: &Caller,
        request: ChatRequest,
    ) -> Result<Answering, ChatRefusal> {
        let (user_id, world) = self
            .world
            .of_user(&caller.client_id, request.user.as_deref());
        refuse_blocked(&user_id, world.as_ref())?;
        let conversation = match request.conversation {
            Some(id) => {
                self.open(&ConversationId::new(id), caller, &request.earlier)
                    .await?
            }
            None => {
                let id = ids::conversation_id().map_err(|error| broken(&error))?;
                let conversation = self.begin(&id, caller, &request.earlier);
                conversation.has_no_past();
                conversation
            }
        };
        let maker = SessionMaker {
            user_id,
            client_id: caller.client_id.clone(),
            world,
        };
        let named = request.user.is_some().then_some(&maker.user_id);
        let (delivery, input) = wanted(request.wish, &request.answers, |token| {
            match answerer(&conversation, caller, named, token) {
                Ok(Answerer {
                    client_id,
                    user_id,
                    is_left_behind,
                }) => {
                    let user_id = user_id.as_ref().unwrap_or(&maker.user_id);
                    let served = self.refuse_blocked(&client_id, user_id);
                    served.map(|()| Some(is_left_behind))
                }
                Err(_) => Ok(None),
            }
        })?;
        self.begin_turn(conversation, maker, delivery, input, None)
    }

    /// The user's answer to a request for consent; what came of it. The model goes on with it in its own time.
    pub(crate) async fn confirm(
        self: &Arc<Self>,
        caller: &Caller,
        id: &ConversationId,
        token_hash: TokenHash,
        approved: bool,
    ) -> Result<Arc<ToolResponse>, ChatRefusal> {
        let conversation = asking(&self.conversations, caller, id, &token_hash).await?;
        let answerer = answerer(&conversation, caller, None, &token_hash)?;
        let (user_id, world) = self.world.of_user(&caller.client_id, None);
        refuse_blocked(&user_id, world.as_ref())?;
        // Whoever brings the token, it is the user who was asked that answers.
        let user_id = answerer.user_id.unwrap_or(user_id);
        self.refuse_blocked(&answerer.client_id, &user_id)?;
        let maker = SessionMaker {
            world: self.world.of_known_user(&answerer.client_id, &user_id),
            user_id,
            client_id: answerer.client_id,
        };
        let input = TurnInput::Confirm(vec![Consent {
            token_hash,
            approved,
            is_left_behind: answerer.is_left_behind,
        }]);
        let delivery = Delivery {
            message: Some(approval(&[token_hash])),
            waits: true,
            ..Delivery::default()
        };
        let (answer, answered) = oneshot::channel();
        self.begin_turn(conversation, maker, delivery, input, Some(answer))?;
        answered.await.map_err(|_| ChatRefusal::Busy)
    }

    /// What is said of a token that does not count.
    pub(crate) fn not_valid(&self) -> Arc<ToolResponse> {
        let error = CallError::new(
            ErrorType::ConfirmationExpired,
            "this approval is not valid, or not valid any more",
        );
        no_answer(error, self.toolbox.load().version.clone())
    }

    /// Refuses what is done in the name of a user who is not the caller.
    fn refuse_blocked(&self, client_id: &ClientId, user_id: &UserId) -> Result<(), ChatRefusal> {
        let world = self.world.of_known_user(client_id, user_id);
        refuse_blocked(user_id, world.as_ref())
    }

    /// The conversation, from memory or from the store, with what the client says of its past where neither has it.
    async fn open(
        &self,
        id: &ConversationId,
        caller: &Caller,
        earlier: &[HistoryEntry],
    ) -> Result<Arc<Conversation>, ChatRefusal> {
        let known = self.conversations.find(id).await.map_err(unavailable)?;
        let conversation = known.unwrap_or_else(|| self.begin(id, caller, earlier));
        match conversation.admits(&caller.client_id) {
            true => Ok(conversation),
            false => Err(ChatRefusal::Foreign),
        }
    }

    fn begin(
        &self,
        id: &ConversationId,
        caller: &Caller,
        earlier: &[HistoryEntry],
    ) -> Arc<Conversation> {
        let (conversation, is_new) = self.conversations.open(id, caller.keeper());
        if is_new {
            conversation.seed(earlier);
        }
        conversation
    }

    fn begin_turn(
        self: &Arc<Self>,
        conversation: Arc<Conversation>,
        maker: SessionMaker,
        delivery: Delivery,
        input: TurnInput,
        answer: Option<oneshot::Sender<Arc<ToolResponse>>>,
    ) -> Result<Answering, ChatRefusal> {
        let message_id = ids::message_id().map_err(|error| broken(&error))?;
        let id = conversation.id.clone();
        let answering = |reader| Answering {
            reader,
            conversation: id,
        };
        let (record, writer, reader, edits) = match conversation.claim(delivery) {
            Claim::Known(reader) => return Ok(answering(reader)),
            Claim::Busy => return Err(ChatRefusal::Busy),
            Claim::New {
                record,
                writer,
                reader,
                edits,
            } => (record, writer, reader, edits),
        };
        let input = match input {
            TurnInput::User(input) | TurnInput::Again(input) if edits => TurnInput::Edited(input),
            input => input,
        };
        let continues = matches!(input, TurnInput::Confirm(_));
        let waits_for_reader = answer.is_none();
        let mut sink = ChatSink {
            conversation: conversation.clone(),
            user_id: maker.user_id.clone(),
            client_id: maker.client_id.clone(),
            stream: UiStream::new(writer, message_id, continues),
            answer,
            is_message: !continues,
            is_broken_off: false,
            answers_nothing: false,
            has_nobodys_token: false,
            has_changed: false,
            answered: Vec::new(),
        };
        let host = self.clone();
        tokio::spawn(async move {
            let mut given_up = std::pin::pin!(async {
                if !waits_for_reader {
                    std::future::pending::<()>().await;
                }
                record.abandoned().await;
            });
            let ended = host
                .run_turn(&conversation, maker, input, &mut sink, given_up.as_mut())
                .await;
            // Before the client hears that nothing follows: whoever asks the store afterwards finds the turn.
            if ended.is_none() || sink.answers_nothing {
                conversation.disclaim(&record);
            } else if sink.is_broken_off {
                conversation.break_off(&record);
            }
            if let Some(ended) = ended {
                conversation.keep_turn(&record, ended, std::mem::take(&mut sink.answered));
            }
            // The record is over, and whatever a call still does is looked after without it.
            drop(sink);
            conversation.look_after_calls().await;
        });
        Ok(answering(reader))
    }

    /// `None` where there was no turn.
    async fn run_turn(
        &self,
        conversation: &Conversation,
        maker: SessionMaker,
        input: TurnInput,
        sink: &mut ChatSink,
        given_up: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> Option<(UserId, Ended)> {
        let Ok(mut place) = tokio::time::timeout(TURN_PATIENCE, conversation.session()).await
        else {
            refuse(
                sink,
                "another message of this conversation is being answered; send this one again later",
            );
            return None;
        };
        if let Some(maker) = self.of_another_user(conversation, &maker, &input, place.as_deref()) {
            return self
                .answer_beside(conversation, maker, input, sink, given_up)
                .await;
        }
        let heard_by_voice = conversation.take_heard_by_voice();
        let (before, mut is_new) = (conversation.ended(), false);
        let session = match &mut *place {
            Some(session) if !session.is_over() => {
                for entry in heard_by_voice {
                    session.heard_elsewhere(Entry::earlier(entry));
                }
                session
            }
            place => match self.go_on(conversation, maker).await {
                Ok(session) => {
                    is_new = true;
                    place.insert(session)
                }
                Err(_) => {
                    refuse(sink, "the server cannot begin a session now");
                    return None;
                }
            },
        };
        let instruction = session.instruction();
        let answered = input.tokens();
        session.turn(input, &instruction, sink, given_up).await;
        // An answer that was not taken counts when it comes again, whatever the others beside it have changed.
        sink.answers_nothing |= answered.iter().any(|token_hash| session.asks(token_hash));
        if is_new && sink.has_nobodys_token {
            // Whoever shows a token of nobody's is not whom the conversation's session is for.
            if let Some(session) = place.take() {
                session.suspend().await;
            }
            if let Some(before) = before {
                conversation.put_back_ended(before);
            }
            return None;
        }
        conversation.touch();
        Some((session.user_id().clone(), session.ended()))
    }

    /// A session for a conversation that has none, which takes up what the one before left.
    async fn go_on(
        &self,
        conversation: &Conversation,
        maker: SessionMaker,
    ) -> Result<HeldSession, ChatRefusal> {
        let toolbox = self.toolbox.load_full();
        let history = conversation.said();
        let id = conversation.id.clone();
        let Some((user_id, ended)) = conversation.take_ended() else {
            let past = match conversation.take_newness() {
                true => Past::None,
                false => Past::Unknown,
            };
            return self
                .session(maker, id, toolbox, history, past)
                .map_err(|error| broken(&error));
        };
        let archive = self.conversations.archive();
        let past = match archive.inherited(&id, &user_id, ended.clone()).await {
            Ok(past) => past,
            Err(error) => {
                conversation.put_back_ended((user_id, ended));
                return Err(unavailable(error));
            }
        };
        // Effects and questions are a user's: the session is for the one whom the conversation has had.
        let maker = SessionMaker {
            world: self.world.of_known_user(&maker.client_id, &user_id),
            client_id: maker.client_id,
            user_id,
        };
        self.session(maker, id, toolbox, history, past)
            .map_err(|error| broken(&error))
    }

    /// Lets go of every conversation, and waits for completions and for the changes that are under way.
    pub(crate) async fn shut_down(&self) {
        let mut leaving = tokio::task::JoinSet::new();
        for conversation in self.conversations.take_all() {
            leaving.spawn(conversation.leave());
        }
        while leaving.join_next().await.is_some() {}
        self.completing.drained().await;
    }
}

/// Ends a stream of which nothing came.
fn refuse(sink: &mut ChatSink, message: &str) {
    sink.failed(windlass_session::client::ErrorCode::Overloaded, message);
    sink.finished(&TurnEnd {
        reason: FinishReason::Failed,
        usage: Usage::default(),
        turn: 0,
        voice_session_start: None,
    });
    sink.flush();
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

fn unavailable(error: StoreUnavailable) -> ChatRefusal {
    tracing::error!(%error, "a conversation could not be looked for");
    ChatRefusal::Internal
}

fn broken(error: &NoRandomness) -> ChatRefusal {
    tracing::error!(%error, "a chat could not begin");
    ChatRefusal::Internal
}
