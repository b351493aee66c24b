//! A text session between its turns: the core, the calls and the log, and how inputs and outputs pass between them. Knows
//! no model's protocol and no client's.

use super::found_pictures::Due;
use super::model::TextTools;
use super::past::Past;
use super::patience::Patience;
use super::rest::Nobody;
use super::summary::Summaries;
use super::{TextSettings, TurnSink};
use crate::call_driver::{CallDriver, Shared};
use crate::effects::Ended;
use crate::journal::RecordedSession;
use crate::subscriber::SessionIdentity;
use crate::transport::http::AnswerBody;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use windlass_provider::log::{AppendError, ConversationLog, Entry, Image};
use windlass_session::client::{ClientUpdate, MessageKey};
use windlass_session::event::SessionEvent;
use windlass_session::io::{ConfirmationRequest, Input, Output, Remembered, TokenHash};
use windlass_session::model::{ConnectionEvent, ModelCommand, ModelEvent, Usage};
use windlass_session::session::SessionConfig;
use windlass_session::time::Timestamp;
use windlass_tool::handler::World;
use windlass_tool::id::{CallNumber, ClientId, EffectId, SessionId, UserId};
use windlass_tool::sensitive::Sensitive;

/// What a text session is made of.
pub struct TextRequest {
    pub session: SessionConfig,
    pub client_id: ClientId,
    pub world: Arc<dyn World>,
    pub shared: Shared,
    pub settings: Arc<TextSettings>,
    pub tools: Arc<TextTools>,
    pub past: Past,
}

/// One text session. Everything of it lives in the futures of its methods; between them nothing moves but calls that have
/// begun.
pub struct TextSession {
    pub(super) core: RecordedSession,
    pub(super) calls: CallDriver,
    pub(super) log: ConversationLog,
    pub(super) summaries: Summaries,
    pub(super) settings: Arc<TextSettings>,
    pub(super) tools: Arc<TextTools>,
    pub(super) flow: Flow,
    pub(super) world: Arc<dyn World>,
    pub(super) pictures_due: Vec<Due>,
    /// Changes whose answers the model has read, until the turn that spoke of them is over.
    pub(super) answered: Vec<EffectId>,
    /// What the conversation has changed is being read.
    pub(super) awaits_past: bool,
    /// A body whose last bytes may still come; then its connection serves the next request.
    pub(super) unfinished: Option<AnswerBody>,
    /// The last message of the user, where its answer was broken off.
    pub(super) broken_off: Option<MessageKey>,
    pub(super) started: Instant,
    generation: u64,
    /// Kept between inputs for their room.
    pub(super) outputs: Vec<Output>,
    pub(super) inputs: VecDeque<Input>,
}

/// What the core has said since the turn began, as far as the driver acts on it.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Words have gone to the user since the last calls; what stands before those is no answer, but a preface.
    pub(super) has_words: bool,
    /// All calls of the last message are settled.
    pub(super) tools_complete: bool,
    /// The token of the question to which an answer is being given, until it is known what came of that.
    pub(super) answers: Option<TokenHash>,
    /// The model was told something that it is to answer.
    pub(super) is_told: bool,
    /// What comes next of text is the user's own.
    pub(super) hears_user: bool,
    /// It stands in the log already, and what was done for it.
    pub(super) is_taken_up: bool,
    pub(super) voice_session_start: Option<serde_json::Value>,
    /// Bytes of pictures that calls of the turn brought back.
    pub(super) picture_bytes: usize,
    pub(super) usage: Usage,
}

/// What ends a wait.
pub(super) enum Wake<T> {
    Model(T),
    /// A call or a deadline of the core; it has been dealt with.
    Core,
    Cancelled,
    /// The turn's time is up.
    Late,
}

/// What a look at everything that is waited for found.
enum Sight<T> {
    Cancelled,
    Input(Input),
    Model(T),
}

/// Said to a model in the place of a message that it has read and whose answer was broken off.
const TAKEN_UP: &str = "Your answer to the user's last message was broken off before its end, and the user has sent the same message once more. It stands above and is not repeated here: answer it now, as a whole. What tools have done for it stays done. Where you do not see what became of a call, make the same call with the same arguments: it is not done twice.";

/// The type of the client message that moves a conversation to voice.
const VOICE_SESSION_START: &str = "voice_session_start";

impl TextSession {
    pub fn begin(request: TextRequest) -> Self {
        let session = request.session;
        let identity = SessionIdentity::of(request.client_id, &session);
        let version = session.registry.version().clone();
        let mut outputs = Vec::new();
        let journal = request.shared.journal.as_deref();
        let core = RecordedSession::begin(session, journal, &mut outputs);
        let calls = CallDriver::new(identity, version, request.world.clone(), request.shared);
        let awaits_past = matches!(request.past, Past::Unknown);
        let none = || Some(vec![Input::Ledger(Ok(Remembered::default()))]);
        let (calls, known) = match request.past {
            Past::None => (calls, none()),
            Past::Alone => (calls.alone(), none()),
            Past::Unknown => (calls, None),
            Past::Inherited { inputs, membership } => (calls.member(membership), Some(inputs)),
        };
        let mut text = Self {
            core,
            calls,
            log: ConversationLog::new(request.settings.limits.log),
            summaries: Summaries::default(),
            settings: request.settings,
            tools: request.tools,
            flow: Flow::default(),
            world: request.world,
            pictures_due: Vec::new(),
            answered: Vec::new(),
            awaits_past,
            unfinished: None,
            broken_off: None,
            started: Instant::now(),
            generation: 0,
            outputs: Vec::new(),
            inputs: VecDeque::new(),
        };
        let mut asked = VecDeque::new();
        for output in outputs {
            if known.is_some() && matches!(output, Output::ReadLedger) {
                continue;
            }
            if let Some(output) = text.calls.obey(output, &mut asked) {
                text.obey(output, &mut Nobody);
            }
        }
        for input in known.into_iter().flatten().chain(asked) {
            text.feed(input, &mut Nobody);
        }
        text.connects(&mut Nobody);
        let ready = ModelEvent::Ready {
            provider_session_id: None,
        };
        text.feed(Input::Model(ready), &mut Nobody);
        text
    }

    pub fn id(&self) -> &SessionId {
        &self.core.config().session_id
    }

    pub fn user_id(&self) -> &UserId {
        &self.core.config().user_id
    }

    /// Whether the core has closed the session, so that the conversation goes on in another one.
    pub fn is_over(&self) -> bool {
        self.core.is_over()
    }

    /// Where it has got to, for a session that is to go on with the conversation.
    pub fn ended(&self) -> Ended {
        Ended {
            last_call: self.core.last_call(),
            questions: self
                .core
                .questions()
                .map(|(call, token_hash)| (token_hash, call))
                .collect(),
        }
    }

    /// Whether the user is asked the question of this token and has not answered.
    pub fn asks(&self, token_hash: &TokenHash) -> bool {
        self.core.asks(token_hash)
    }

    pub fn log(&self) -> &ConversationLog {
        &self.log
    }

    /// What was said in another session of the conversation.
    pub fn heard_elsewhere(&mut self, entry: Entry) {
        self.note(entry);
    }

    /// Each request to a model is a connection of its own to the core: servers use their ids again.
    pub(super) fn connects(&mut self, sink: &mut dyn TurnSink) {
        self.generation += 1;
        let connected = ConnectionEvent::Connected {
            generation: self.generation,
            resumed: self.generation > 1,
        };
        self.feed(Input::Connection(connected), sink);
    }

    /// Gives the core an input, and every input that follows from it at once.
    pub(super) fn feed(&mut self, input: Input, sink: &mut dyn TurnSink) {
        let mut inputs = std::mem::take(&mut self.inputs);
        let mut outputs = std::mem::take(&mut self.outputs);
        inputs.push_back(input);
        while let Some(input) = inputs.pop_front() {
            let input = self.calls.news_before(input, &mut inputs);
            self.awaits_past &= !matches!(input, Input::Ledger(_));
            let at = Timestamp::default() + self.started.elapsed();
            self.core.handle(at, input, &mut outputs);
            for output in outputs.drain(..) {
                if let Output::RequestConfirmation(request) = &output {
                    self.ask_user(request, &mut inputs, sink);
                } else if let Output::MarkAnswered { effect_id } = output {
                    self.answered.push(effect_id);
                } else if let Some(output) = self.calls.obey(output, &mut inputs) {
                    self.obey(output, sink);
                }
            }
        }
        self.inputs = inputs;
        self.outputs = outputs;
    }

    /// Has a question to the user stored, and beside it where the session has got to with it.
    fn ask_user(
        &mut self,
        request: &ConfirmationRequest,
        inputs: &mut VecDeque<Input>,
        sink: &mut dyn TurnSink,
    ) {
        let (mut ended, user_id) = (self.ended(), self.user_id().clone());
        let beside = |token_hash| {
            ended.questions.push((token_hash, request.call));
            sink.beside_question(&user_id, ended)
        };
        self.calls.propose(request, beside, inputs);
    }

    fn obey(&mut self, output: Output, sink: &mut dyn TurnSink) {
        match output {
            Output::SendModel(command) => self.tell_model(command),
            Output::SendClient(update) => self.tell_client(update, sink),
            Output::Event(event) => {
                if let SessionEvent::Usage(usage) = &event {
                    add(&mut self.flow.usage, usage);
                }
                sink.event(&event);
            }
            // There is no sound and no lasting connection in a text session, and calls are obeyed elsewhere.
            Output::DiscardAudio
            | Output::AcceptAudio
            | Output::SuppressAudio(_)
            | Output::HoldMicrophone(_)
            | Output::ReadLedger
            | Output::NoteReading
            | Output::RequestConfirmation(_)
            | Output::DeclineConfirmation { .. }
            | Output::WithdrawConfirmation { .. }
            | Output::Reserve(_)
            | Output::RecordOutcome(_)
            | Output::MarkAnswered { .. }
            | Output::Lookup(_)
            | Output::AwaitEffect { .. }
            | Output::FindApproval { .. }
            | Output::CheckRate { .. }
            | Output::Connect { .. }
            | Output::StartCall(_)
            | Output::AbortCall { .. }
            | Output::Close(_) => {}
        }
    }

    fn tell_model(&mut self, command: ModelCommand) {
        match command {
            ModelCommand::ToolResponses(responses) => {
                for response in responses {
                    self.expect_pictures(&response);
                    self.note(Entry::Result(response));
                }
            }
            ModelCommand::LateResults(responses) => {
                for response in responses {
                    self.expect_pictures(&response);
                    // Calls of an earlier session are not in this one's log.
                    let told = Entry::told(&response);
                    if let Err(AppendError::NoOpenCall) = self.log.append(Entry::Result(response)) {
                        self.note(told);
                    }
                }
            }
            ModelCommand::UserText(text) if std::mem::take(&mut self.flow.hears_user) => {
                // One that came to nothing and is sent again has been said once.
                if self.log.ends_with(text.expose()) {
                    return;
                }
                self.note(match self.flow.is_taken_up {
                    true => Entry::Notice(Sensitive(TAKEN_UP.to_owned())),
                    false => Entry::UserText(text),
                });
            }
            ModelCommand::UserText(text) | ModelCommand::Notice(text) => {
                self.flow.is_told = true;
                self.note(Entry::Notice(text));
            }
            ModelCommand::History { entries, .. } => {
                for entry in entries {
                    self.note(Entry::earlier(entry));
                }
            }
            ModelCommand::Image { mime_type, data } => {
                self.note(Entry::UserImage(Image { mime_type, data }));
            }
            ModelCommand::AudioEnded => {}
        }
    }

    fn tell_client(&mut self, update: ClientUpdate, sink: &mut dyn TurnSink) {
        match update {
            ClientUpdate::ToolsComplete { .. } => self.flow.tools_complete = true,
            ClientUpdate::ConfirmationResult { call, ref response } if self.is_answered(call) => {
                self.flow.answers = None;
                sink.client(&update);
                return sink.confirmed(call, response.expose());
            }
            ClientUpdate::ConfirmationRequest(question) => {
                if let Some(token) = self.calls.take_token(&question.token_hash) {
                    sink.asks(&question, &token);
                }
                return;
            }
            ClientUpdate::Transcript {
                is_final: false,
                ref text,
                ..
            } => self.flow.has_words |= !text.expose().trim().is_empty(),
            ClientUpdate::Message(message)
                if message.get("type").and_then(serde_json::Value::as_str)
                    == Some(VOICE_SESSION_START) =>
            {
                // It ends the turn, so it is the last that the client hears of it.
                self.flow.voice_session_start = Some(message);
                return;
            }
            _ => {}
        }
        sink.client(&update);
    }

    /// Whether this end of a question is that of the answer being given. Others end meanwhile, too: their time is up, or they are
    /// taken back. One of no known question is always the answer's.
    fn is_answered(&self, call: Option<CallNumber>) -> bool {
        self.flow.answers.is_some_and(|token_hash| {
            call.is_none() || self.core.call_of_question(&token_hash) == call
        })
    }

    /// Puts an entry into the log. What does not fit is left out, which the log's limits have made rare.
    pub(super) fn note(&mut self, entry: Entry) {
        if let Err(error) = self.log.append(entry) {
            let session = self.id();
            tracing::warn!(%session, %error, "something said is not remembered");
        }
    }

    /// Waits for what the model brings, and deals with calls and deadlines meanwhile. The future of the model must bear
    /// being dropped, or be lent.
    pub(super) async fn wait<T>(
        &mut self,
        model: impl Future<Output = T>,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> Wake<T> {
        let mut model = std::pin::pin!(model);
        let until = patience.until;
        let calls = &mut self.calls;
        let mut look = |context: &mut Context<'_>| {
            if patience.poll_cancelled(context) {
                return Poll::Ready(Sight::Cancelled);
            }
            if let Poll::Ready(input) = calls.poll_input(context) {
                return Poll::Ready(Sight::Input(input));
            }
            model.as_mut().poll(context).map(Sight::Model)
        };
        // What is there already is taken without a timer, and before anything is written: what comes together leaves
        // together.
        let at_hand = poll_fn(|context| Poll::Ready(look(context))).await;
        let sight = match at_hand {
            Poll::Ready(sight) => sight,
            Poll::Pending => {
                sink.flush();
                let due = self
                    .core
                    .next_deadline()
                    .map(|at| self.started + Duration::from_micros(at.0));
                let earliest = due.map_or(until, |due| due.min(until));
                tokio::select! {
                    biased;
                    sight = poll_fn(look) => sight,
                    () = tokio::time::sleep_until(earliest) => {
                        if earliest == until {
                            return Wake::Late;
                        }
                        Sight::Input(Input::Tick)
                    }
                }
            }
        };
        match sight {
            Sight::Cancelled => Wake::Cancelled,
            Sight::Model(brought) => Wake::Model(brought),
            Sight::Input(input) => {
                self.feed(input, sink);
                Wake::Core
            }
        }
    }
}

fn add(sum: &mut Usage, usage: &Usage) {
    sum.prompt_tokens += usage.prompt_tokens;
    sum.response_tokens += usage.response_tokens;
    sum.thoughts_tokens += usage.thoughts_tokens;
    sum.tool_use_tokens += usage.tool_use_tokens;
    sum.cached_tokens += usage.cached_tokens;
    sum.total_tokens += usage.total_tokens;
}
