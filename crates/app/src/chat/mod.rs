//! Text conversations as the server holds them: who may talk, which turn runs, which answer a repeat gets. Owns the tasks of turns;
//! knows neither HTTP nor a model's protocol.

mod answers;
mod approved;
pub(crate) mod asker;
mod cancel;
mod confirm;
pub(crate) mod conversation;
pub(crate) mod conversations;
mod delivery;
mod messages;
pub(crate) mod owner;
pub(crate) mod picture;
pub(crate) mod picture_files;
pub(crate) mod reading;
pub(crate) mod record;
pub(crate) mod remote;
pub(crate) mod remote_keys;
pub(crate) mod request;
pub(crate) mod session_cache;
pub(crate) mod single;
mod sink;
mod standing;
pub(crate) mod tasks;
mod ticket_reply;
pub(crate) mod view;

use crate::capabilities::SharedCapabilities;
use crate::clock::{self, UserZone};
use crate::crowding;
use crate::sessions::TextSessions;
use crate::toolbox::Toolbox;
use crate::users;
use answers::{KnownKey, answer_entries, approval_of, key_entry, recall, recall_key};
use arc_swap::ArcSwap;
use asker::Asker;
pub(crate) use cancel::WantedCancel;
pub(crate) use confirm::GivenAnswer;
use conversation::{Claim, Confirmation, Conversation, Delivery, Message, RecordedEnd};
use conversations::{Conversations, Entered, NoEntry};
use delivery::{question_of, wanted};
use owner::{ConversationOwner, Foreign};
use picture::PictureLimits;
use picture_files::PictureFiles;
use record::{TurnReader, TurnRecord};
use remote_keys::RunningKeys;
use request::{ChatRequest, RequestKind};
use session_cache::{HeldSession, SessionMaker, SessionRequest};
use single::{Completing, Counted};
use sink::ChatSink;
pub(crate) use standing::WantedRevocation;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use windlass_contract::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::handler::{Block, Capabilities};
use windlass_contract::id::{ClientId, ConversationId, UserId};
use windlass_contract::kind::Mode;
use windlass_driver::Ledger;
use windlass_provider::log::Image;
use windlass_runtime::audit::Audit;
use windlass_runtime::call_driver::Shared;
use windlass_runtime::caller::Caller;
use windlass_runtime::ids::{self, NoRandomness};
use windlass_runtime::metrics::Metrics;
use windlass_runtime::text::ui_stream::UiStream;
use windlass_runtime::text::{
    Confirmed, FinishReason, Past, TextSettings, TurnEnd, TurnInput, TurnMemory, TurnSink,
};
use windlass_session::client::MessageKey;
use windlass_session::limits::Limits;
use windlass_session::model::Usage;
use windlass_store::command::Command;
use windlass_store::{Beginner, ConversationRef, Entry, NewEntry, StoreUnavailable};

/// How long a message waits for a turn that is being given up.
const TURN_PATIENCE: Duration = Duration::from_secs(10);
/// How long the end of a turn that concerns a change waits until the log has it.
const KEEPING_PATIENCE: Duration = Duration::from_millis(500);

/// Everything that a text session is made of.
pub(crate) struct ChatHost {
    pub(crate) toolbox: Arc<ArcSwap<Toolbox>>,
    pub(crate) settings: Arc<TextSettings>,
    pub(crate) limits: Arc<Limits>,
    /// The limits of voice sessions, for answers to approval requests that a voice session has made.
    pub(crate) voice_limits: Arc<Limits>,
    /// Bytes of an entry of the log.
    pub(crate) entry_bytes_max: usize,
    /// How long a resumable answer goes on without a reader.
    pub(crate) resume_patience: Duration,
    pub(crate) capabilities: SharedCapabilities,
    pub(crate) shared: Shared,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) sessions: Arc<TextSessions>,
    pub(crate) completing: Completing,
    /// Keys of calls of other programs that run now.
    pub(crate) remote_keys: RunningKeys,
    pub(crate) metrics: Arc<Metrics>,
    /// Pictures that users have shown.
    pub(crate) pictures: Arc<PictureFiles>,
    /// The limits on the pictures of one message.
    pub(crate) picture_limits: PictureLimits,
    /// The audit of users' actions outside of sessions.
    pub(crate) audit: Option<Arc<Audit>>,
}

/// Why there is no turn.
#[derive(Debug)]
pub(crate) enum ChatRefusal {
    /// The user is not served until a time.
    Blocked(Block),
    /// The conversation is another client's, or another user's.
    Foreign,
    /// The client's idempotency key was used for something else.
    KeyReused,
    /// Another message of the conversation is being answered.
    Busy,
    /// There is no such conversation.
    Unknown,
    /// A party has as many conversations as its share; the text names it.
    Crowded(String),
    Internal,
}

/// A turn to read, and the conversation that it is of.
pub(crate) struct Answering {
    pub(crate) reader: TurnReader,
    pub(crate) conversation: ConversationId,
}

impl ChatHost {
    pub(crate) fn ledger(&self) -> &dyn Ledger {
        &*self.shared.ledger
    }

    /// Whether a model speaks by text. Without one, approval requests are still answered here.
    pub(crate) fn has_model(&self) -> bool {
        !self.settings.models.is_empty()
    }

    /// Begins the turn that a request asks for, or finds its earlier turn.
    pub(crate) async fn chat(
        self: &Arc<Self>,
        asker: Asker,
        request: ChatRequest,
        key: Option<Message>,
    ) -> Result<Answering, ChatRefusal> {
        let Asker {
            caller,
            beginner,
            memory,
        } = asker;
        let caller = &caller.speaking_for(request.user.as_deref());
        let (own, capabilities) = self.capabilities.of_user(caller, request.user.as_deref());
        refuse_blocked(&own, capabilities.as_ref())?;
        // A user whom the proxy has named cannot be renamed.
        let named = (own != users::of_client(&caller.client_id)).then(|| own.clone());
        let (named, told) = (named.as_ref(), &request.earlier);
        let (id, opened) = match request.conversation {
            Some(id) => {
                let id = ConversationId::new(id);
                // An answer begins nothing.
                if matches!(request.kind, RequestKind::Answer)
                    && self.is_unknown(caller, &id).map_err(unavailable)?
                {
                    return self.nothing_answered(id);
                }
                let opening = self.conversations.open(&id, caller, named, told, &beginner);
                (id.clone(), opening.await)
            }
            None => {
                let id = ids::conversation_id().map_err(|error| broken(&error))?;
                self.refuse_crowded(&caller.tenant, &beginner)?;
                let made = self.conversations.make(&id, caller, named, told);
                (id, made)
            }
        };
        let Entered { conversation, past } = match opened {
            Ok(entered) => entered,
            // A caller that names another user gets the answer for an unknown token.
            Err(NoEntry::Foreign(Foreign::User)) if matches!(request.kind, RequestKind::Answer) => {
                return self.nothing_answered(id);
            }
            Err(NoEntry::Foreign(_)) => return Err(ChatRefusal::Foreign),
            Err(NoEntry::Crowded(kind)) => {
                return Err(ChatRefusal::Crowded(crowding::note(kind, &self.metrics)));
            }
            Err(NoEntry::Unavailable(error)) => return Err(unavailable(error)),
        };
        let client_id = caller.client_id.clone();
        let mut maker = self.maker(caller, &own, client_id, &conversation.whose)?;
        maker.zone = request.zone.or(maker.zone);
        maker.page = request.page;
        maker.shown = request.pictures;
        maker.beginner = beginner;
        maker.past = past;
        maker.memory = memory;
        let store = self.conversations.store();
        let mut answers = Vec::new();
        for answer in request.answers {
            let asked = question_of(
                &conversation.reference,
                &conversation.whose,
                store,
                caller,
                named,
                &answer.token,
            );
            let asked = asked.map_err(unavailable)?;
            answers.extend(asked.map(|question| (question, answer)));
        }
        if answers.is_empty() && matches!(request.kind, RequestKind::Answer) {
            return self.nothing_answered(id);
        }
        let is_resumable = request.is_resumable;
        let (delivery, input) = wanted(request.kind, answers, key);
        let delivery = Delivery {
            is_resumable,
            ..delivery
        };
        if let Some(key) = &delivery.key {
            let known = recall_key(&conversation, store, key).map_err(unavailable)?;
            if known == KnownKey::Conflict || !conversation.note_key(key) {
                return Err(ChatRefusal::KeyReused);
            }
        }
        if let Some(message) = &delivery.message {
            recall(&conversation, store, message).map_err(unavailable)?;
        }
        self.begin_turn(conversation, maker, delivery, input, None)
    }

    /// Whether there is no conversation of this id.
    fn is_unknown(&self, caller: &Caller, id: &ConversationId) -> Result<bool, StoreUnavailable> {
        let is_held = self.conversations.get(&caller.tenant, id).is_some();
        Ok(!is_held && self.conversations.known(&caller.tenant, id)?.is_none())
    }

    /// The answer that is being written in a conversation, from its beginning; `None` where none is that the caller may read.
    pub(crate) fn running(&self, caller: &Caller, id: &ConversationId) -> Option<Answering> {
        let held = self.conversations.get(&caller.tenant, id)?;
        held.whose.admits(caller, None).ok()?;
        Some(Answering {
            reader: held.listen()?,
            conversation: id.clone(),
        })
    }

    /// Gives up the answer that is being written.
    pub(crate) fn stop(&self, caller: &Caller, id: &ConversationId) {
        let held = self.conversations.get(&caller.tenant, id);
        if let Some(held) = held.filter(|held| held.whose.admits(caller, None).is_ok()) {
            held.stop();
        }
    }

    /// The answer to a message whose tokens are all invalid.
    fn nothing_answered(&self, conversation: ConversationId) -> Result<Answering, ChatRefusal> {
        let message_id = ids::message_id().map_err(|error| broken(&error))?;
        let (record, writer) = TurnRecord::new();
        let reader = record.reader();
        let mut stream = UiStream::new(writer, message_id, true);
        stream.confirmed(&Confirmed {
            answer: None,
            call: None,
            response: &self.not_valid(),
            is_open: false,
        });
        end_without_turn(&mut stream, FinishReason::Stop);
        Ok(Answering {
            reader,
            conversation,
        })
    }

    /// The response to a token that is not valid.
    fn not_valid(&self) -> Arc<ToolResponse> {
        not_valid(&self.toolbox.load().version)
    }

    /// The user and the rights for a session of a conversation. Fails where the user is blocked; a `served` user is known not to be.
    fn maker(
        &self,
        caller: &Caller,
        served: &UserId,
        client_id: ClientId,
        whose: &ConversationOwner,
    ) -> Result<SessionMaker, ChatRefusal> {
        let capabilities =
            self.capabilities
                .of_known_user(&caller.tenant, &client_id, &whose.user_id);
        if whose.user_id != *served {
            refuse_blocked(&whose.user_id, capabilities.as_ref())?;
        }
        Ok(SessionMaker {
            user_id: whose.user_id.clone(),
            client_id,
            zone: UserZone::of_name(caller.zone.as_deref()),
            page: None,
            rights: caller.rights.clone(),
            validity: caller.validity.clone(),
            capabilities,
            beginner: Beginner::default(),
            past: None,
            memory: TurnMemory::default(),
            shown: Vec::new(),
        })
    }

    fn begin_turn(
        self: &Arc<Self>,
        conversation: Arc<Conversation>,
        maker: SessionMaker,
        delivery: Delivery,
        input: TurnInput,
        waiting: Option<oneshot::Sender<Confirmation>>,
    ) -> Result<Answering, ChatRefusal> {
        let message_id = ids::message_id().map_err(|error| broken(&error))?;
        let id = conversation.reference.conversation_id.clone();
        let answering = |reader| Answering {
            reader,
            conversation: id,
        };
        let key = delivery.key.clone();
        let patience = match delivery.is_resumable {
            true => self.resume_patience,
            false => Duration::ZERO,
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
        let waits_for_reader = waiting.is_none();
        let is_nobodys = conversation.whose.owner.is_none();
        let mut sink = ChatSink {
            conversation: conversation.clone(),
            asks_client: is_nobodys.then(|| maker.client_id.clone()),
            stream: UiStream::new(writer, message_id, continues),
            waiting,
            entry_bytes_max: self.entry_bytes_max,
            asked_anew: None,
            is_message: !continues,
            is_broken_off: false,
            answers_nothing: false,
            has_changed: false,
            has_effect: false,
            entries: Vec::new(),
        };
        let host = self.clone();
        let validity = maker.validity.clone();
        // In a box, because a turn is tens of thousands of bytes long, and a task is moved several times.
        tokio::spawn(Box::pin(async move {
            let mut given_up = std::pin::pin!(async {
                tokio::select! {
                    () = record.abandoned(patience), if waits_for_reader => {}
                    () = validity.over() => {}
                }
            });
            let turn = Turn {
                maker,
                input,
                key,
                record: &record,
            };
            host.run_turn(&conversation, turn, &mut sink, given_up.as_mut())
                .await;
            drop(sink);
        }));
        Ok(answering(reader))
    }

    /// Runs a turn once it is the only one, and notes how it ended before the next one begins, and before the client hears that nothing
    /// follows: a client that sends the message again finds the record.
    async fn run_turn(
        &self,
        conversation: &Arc<Conversation>,
        turn: Turn<'_>,
        sink: &mut ChatSink,
        given_up: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) {
        let counted = self.completing.begin();
        let record = turn.record;
        let Ok(only) = tokio::time::timeout(TURN_PATIENCE, conversation.turn()).await else {
            refuse(
                sink,
                "another message of this conversation is being answered; send this one again later",
            );
            return conversation.note_end(record, RecordedEnd::Unanswered);
        };
        let was_run = self
            .run_alone(conversation, turn, sink, given_up, counted)
            .await;
        let end = match (was_run && !sink.answers_nothing, sink.is_broken_off) {
            (false, _) => RecordedEnd::Unanswered,
            (true, true) => RecordedEnd::BrokenOff,
            (true, false) => RecordedEnd::Answered,
        };
        conversation.note_end(record, end);
        drop(only);
    }

    /// Whether there was a turn.
    async fn run_alone(
        &self,
        conversation: &Arc<Conversation>,
        turn: Turn<'_>,
        sink: &mut ChatSink,
        mut given_up: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
        counted: Counted,
    ) -> bool {
        let Turn {
            maker,
            input,
            key,
            record,
        } = turn;
        if conversation.takes_up(record) {
            // The model has to read the outcomes of the changes that were begun for the message.
            sink.step();
            sink.flush();
            tokio::select! {
                () = given_up.as_mut() => {
                    end_without_turn(sink, FinishReason::Cancelled);
                    return true;
                }
                () = conversation.settled() => {}
                () = tokio::time::sleep(self.patience_with_changes()) => {}
            }
        }
        let zone = maker.zone.clone();
        let Ok(mut session) = self.go_on(conversation, maker).await else {
            refuse(sink, "the server cannot begin a session now");
            return false;
        };
        conversation.note_session(session.call_stopper());
        session.append(key.iter().map(key_entry).collect());
        let shown = self.keep_pictures(&input).await;
        let instruction = session.instruction(zone.as_ref());
        let end = session.turn(input, &instruction, sink, given_up).await;
        conversation.touch();
        let mut entries = std::mem::take(&mut sink.entries);
        let concerns_change = end.has_heard || !entries.is_empty();
        if !sink.answers_nothing && !sink.is_broken_off {
            entries.extend(self.kept_answer(conversation, record));
        }
        // A refused picture would be refused in every later request, too.
        if !session.has_refused_pictures() {
            entries.extend(shown);
        }
        session.append(entries);
        if concerns_change {
            self.keep(conversation).await;
        }
        conversation.note_last_call(session.last_call());
        // The session's running calls end without this turn: the next turn opens a session of its own.
        let program_ends = self.completing.closed();
        let ending = conversation.ending();
        let (conversations, conversation) = (self.conversations.clone(), conversation.clone());
        tokio::spawn(async move {
            session.suspend(program_ends).await;
            drop((ending, counted));
            conversations.comes_to_rest(&conversation);
        });
        true
    }

    /// How long a repeated message waits for the changes that were begun for it: as long as its first answer did. A change that still
    /// runs then is reported as running.
    fn patience_with_changes(&self) -> Duration {
        let wait = Duration::from_millis(self.limits.result_wait_ms);
        wait.min(self.settings.limits.turn_timeout)
    }

    /// The entries that keep the answer of a turn in the log.
    fn kept_answer(&self, conversation: &Conversation, record: &Arc<TurnRecord>) -> Vec<NewEntry> {
        let Some(names) = conversation.names_of(record) else {
            return Vec::new();
        };
        let entries = answer_entries(names, record, self.entry_bytes_max);
        if !entries.is_empty() {
            conversation.note_kept(record);
        }
        entries
    }

    /// Waits a short time until the log has all of a turn that asks the user, or reports a change: a client may act on it at once, and
    /// after a crash it does not get it again.
    async fn keep(&self, conversation: &Conversation) {
        let reference = conversation.reference.clone();
        let kept = self.conversations.commit(reference, vec![Command::Settle]);
        match tokio::time::timeout(KEEPING_PATIENCE, kept).await {
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a turn is not stored yet"),
        }
    }

    /// The session of a turn, which knows the log of its conversation.
    async fn go_on(
        &self,
        conversation: &Conversation,
        mut maker: SessionMaker,
    ) -> Result<Box<HeldSession>, ChatRefusal> {
        let toolbox = self.toolbox.load_full();
        // A turn that overtook this one has written into a conversation that began with this one.
        let is_first = conversation.begins_first();
        let mut past = match maker.past.take().filter(|_| is_first) {
            Some(past) => past,
            None => self.past_of(&conversation.reference).await?,
        };
        conversation.writes_behind(past.read_to());
        past.number_after(conversation.last_call());
        let shown = std::mem::take(&mut maker.shown);
        let named = past.take_shown();
        past.show(self.with_kept_pictures(named, shown).await);
        let history = conversation.take_told();
        let request = SessionRequest {
            maker,
            reference: conversation.reference.clone(),
            mode: Mode::Text,
            limits: self.limits.clone(),
            settings: self.settings.clone(),
            history,
            past,
            can_ask: true,
            can_ask_input: true,
        };
        let kit = toolbox.of(Mode::Text);
        let session = self.held_session(request, &toolbox, kit);
        // In a box, because the future of a turn holds it, and is large as it is.
        session.map(Box::new).map_err(|error| broken(&error))
    }

    /// Keeps the pictures of a message as files. Returns their log entries.
    async fn keep_pictures(&self, input: &TurnInput) -> Vec<NewEntry> {
        let Some(said) = input.said().filter(|said| !said.images.is_empty()) else {
            return Vec::new();
        };
        let Some(message) = said.message else {
            return Vec::new();
        };
        let (files, images) = (self.pictures.clone(), said.images.clone());
        let kept = tokio::task::spawn_blocking(move || {
            let kept = images.iter().filter_map(|image| files.keep(image));
            kept.collect::<Vec<_>>()
        });
        match kept.await {
            Ok(kept) if !kept.is_empty() => vec![picture_files::shown_entry(message, &kept)],
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    /// Pictures of earlier messages: from the client if it sends them again, otherwise from the kept files.
    async fn with_kept_pictures(
        &self,
        entries: Vec<Entry>,
        mut shown: Vec<(MessageKey, Vec<Image>)>,
    ) -> Vec<(MessageKey, Vec<Image>)> {
        if entries.is_empty() || !self.settings.models.iter().any(|model| model.sees()) {
            return shown;
        }
        let is_sent = |message: &MessageKey| shown.iter().any(|(sent, _)| sent == message);
        let named = picture_files::shown(&entries, is_sent);
        let sent = shown.iter().flat_map(|(_, images)| images);
        let bytes: usize = sent.clone().map(|image| image.data.expose().len()).sum();
        let images_max = self.picture_limits.images_max.saturating_sub(sent.count());
        let bytes_max = self.picture_limits.bytes_max.saturating_sub(bytes);
        let files = self.pictures.clone();
        let read = tokio::task::spawn_blocking(move || {
            picture_files::read_shown(&files, named, images_max, bytes_max)
        });
        shown.extend(read.await.unwrap_or_default());
        shown
    }

    async fn past_of(&self, reference: &ConversationRef) -> Result<Past, ChatRefusal> {
        // The calls of a dead process are settled before the model reads the log.
        self.conversations.settle(reference).await;
        let (ledger, reference) = (self.shared.ledger.clone(), reference.clone());
        let read = tokio::task::spawn_blocking(move || Past::read(&*ledger, &reference)).await;
        read.map_err(|_| ChatRefusal::Internal)?
            .map_err(unavailable)
    }

    /// Waits for the turns that run, and for the changes that they have begun.
    pub(crate) async fn shut_down(&self) {
        self.completing.close();
        self.completing.drained().await;
    }
}

/// A turn that is to be run.
struct Turn<'a> {
    maker: SessionMaker,
    input: TurnInput,
    /// The client's idempotency key of it.
    key: Option<Message>,
    record: &'a Arc<TurnRecord>,
}

/// Ends a stream without an answer.
fn refuse(sink: &mut ChatSink, message: &str) {
    sink.failed(windlass_session::client::ErrorCode::Overloaded, message);
    end_without_turn(sink, FinishReason::Failed);
}

fn end_without_turn(sink: &mut dyn TurnSink, reason: FinishReason) {
    sink.finished(&TurnEnd {
        reason,
        usage: Usage::default(),
        turn: 0,
        voice_session_start: None,
        has_heard: false,
    });
    sink.flush();
}

/// The response to a token that is not valid.
fn not_valid(registry_version: &Arc<str>) -> Arc<ToolResponse> {
    let error = CallError::new(
        ErrorType::ConfirmationExpired,
        "this approval is not valid, or not valid any more",
    );
    Arc::new(ToolResponse {
        outcome: Outcome::Failure(error.into()),
        intents: Vec::new(),
        meta: meta_without_tool("confirm", registry_version.clone(), clock::now_unix_ms()),
    })
}

fn refuse_blocked(user_id: &UserId, capabilities: &dyn Capabilities) -> Result<(), ChatRefusal> {
    match capabilities.blocks().blocked(user_id, clock::now_unix_ms()) {
        Ok(None) => Ok(()),
        Ok(Some(block)) => Err(ChatRefusal::Blocked(block)),
        // A broken store lets no blocked user in.
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
