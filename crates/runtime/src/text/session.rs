//! A text session between its turns: the core, the driver of its calls and the log that the model reads, and the passing of
//! inputs and outputs between them. Knows no model's protocol and no client's.

use super::memory::TurnMemory;
use super::model::TextTools;
use super::past::{Past, PastEntry};
use super::patience::Patience;
use super::stopping::{CallStop, CallStopper, CallStops};
use super::summary::{EntryPlace, Summaries};
use super::{Confirmed, Nobody, TextSettings, TurnSink};
use crate::call_driver::{BeginRequest, CallDriver, LegStart, Shared};
use crate::journal::RecordedSession;
use crate::subscriber::SessionIdentity;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use windlass_contract::handler::{Capabilities, KnowledgeReader};
use windlass_contract::id::{CallNumber, ClientId, EffectId, SessionId};
use windlass_contract::sensitive::Sensitive;
use windlass_driver::Ledger;
use windlass_provider::log::{AppendError, ConversationLog, Entry, Image};
use windlass_session::client::{CancelOutcome, CancelWay, ClientEvent, ClientUpdate, MessageKey};
use windlass_session::event::SessionEvent;
use windlass_session::io::{Input, Output};
use windlass_session::log_text::Said;
use windlass_session::model::{HistoryEntry, ModelCommand, RequestEvent, Usage};
use windlass_session::saved::{Began, SpentTurn};
use windlass_session::session::SessionConfig;
use windlass_session::time::Timestamp;
use windlass_store::{
    Beginner, ConversationRef, EntryNumber, LegNumber, NewEntry, QuestionNumber, StandingScope,
};

/// The parts of a text session.
pub struct TextRequest {
    /// The session's configuration. Its history comes from `past` if that has one, and from the client's own account otherwise.
    pub session: SessionConfig,
    pub client_id: ClientId,
    pub conversation: ConversationRef,
    /// The conversation's beginner, if it is new.
    pub beginner: Beginner,
    pub capabilities: Arc<dyn Capabilities>,
    pub shared: Shared,
    pub settings: Arc<TextSettings>,
    pub tools: Arc<TextTools>,
    pub past: Past,
    pub memory: TurnMemory,
}

/// One text session. Everything of it lives in the futures of its methods; between them only running calls go on.
pub struct TextSession {
    pub(super) core: RecordedSession,
    pub(super) calls: CallDriver,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) conversation: ConversationRef,
    pub(super) log: ConversationLog,
    pub(super) summaries: Summaries,
    pub(super) settings: Arc<TextSettings>,
    pub(super) tools: Arc<TextTools>,
    pub(super) flow: Flow,
    pub(super) capabilities: Arc<dyn Capabilities>,
    pub(super) pictures_due: Vec<DuePicture>,
    /// Effects and approval requests whose ends the model has acknowledged, until the turn that spoke of them is over.
    pub(super) heard: (Vec<EffectId>, Vec<QuestionNumber>),
    /// Effects of other sessions whose ends the model gets.
    pub(super) told: VecDeque<EffectId>,
    /// The last entry of the conversation's log that was read before the session began.
    pub(super) read_to: EntryNumber,
    /// The last entry read when the ledger was last asked for unacknowledged outcomes and had none.
    pub(super) all_heard_to: Option<EntryNumber>,
    /// The session's newest entry in the log.
    pub(super) last_entry: Option<LegNumber>,
    /// The last message of the user, if its answer was broken off.
    pub(super) broken_off: Option<MessageKey>,
    /// The calls that were made for it in an earlier session.
    pub(super) spent: Option<SpentTurn>,
    /// The memory that the session's turns hold until it is over.
    pub(super) memory: TurnMemory,
    pub(super) started: Instant,
    /// Calls that the user wants stopped.
    pub(super) stopping: CallStops,
    /// Requests to models so far.
    requests: u64,
    /// Kept between inputs for their memory.
    pub(super) outputs: Vec<Output>,
    pub(super) inputs: VecDeque<Input>,
}

/// A picture of an answer to a call, not read yet.
#[derive(Debug)]
pub(super) struct DuePicture {
    pub(super) id: Option<Arc<str>>,
    pub(super) name: Arc<str>,
    pub(super) mime_type: String,
    pub(super) address: String,
}

/// The core's reports since the turn began, as far as the driver acts on them.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Whether words have gone to the user since the last calls. Words before those are a preface and no answer.
    pub(super) has_words: bool,
    /// Whether all calls of the last message are settled.
    pub(super) tools_complete: bool,
    /// The answer that is being given to an approval request, until its outcome is known.
    pub(super) answers: Option<GivenAnswer>,
    /// Whether the model was given a text that it is to answer.
    pub(super) is_told: bool,
    /// Whether the log has the user's message already, and the calls for it.
    pub(super) is_taken_up: bool,
    pub(super) voice_session_start: Option<serde_json::Value>,
    /// The outcome of a request to stop a call, until it is reported.
    stopped: Option<CancelOutcome>,
    /// Whether the model's provider refused the turn's pictures.
    pub(super) has_refused_pictures: bool,
    /// Bytes of pictures that calls of the turn brought back.
    pub(super) picture_bytes: usize,
    pub(super) usage: Usage,
}

/// An answer of the user that is being taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum GivenAnswer {
    /// The approval request of the token is being looked for.
    Sought,
    /// `None` if no approval request has the token.
    Of(Option<Answered>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    question: QuestionNumber,
    /// The call of the approval request, by its number for the client of the session that asked.
    call: CallNumber,
    approved: bool,
}

/// The event that ends a wait.
pub(super) enum Wake<T> {
    Model(T),
    /// A call or a deadline of the core. It has been handled.
    Core,
    Cancelled,
    /// The turn's time is up.
    Late,
}

/// The first ready event of everything that is waited for.
enum Sight<T> {
    Cancelled,
    Stop(CallStop),
    Input(Input),
    Model(T),
}

/// Replaces a message that the model has read and whose answer was broken off.
const TAKEN_UP: &str = "Your answer to the user's last message was broken off before its end, and the user has sent the same message once more. It stands above and is not repeated here: answer it now, as a whole. What tools have done for it stays done. Where you do not see what became of a call, make the same call with the same arguments: it is not done twice.";

/// Effects of other sessions whose delivery is remembered.
const TOLD_MAX: usize = 100;
/// The type of the client message that moves a conversation to voice.
const VOICE_SESSION_START: &str = "voice_session_start";

impl TextSession {
    pub fn begin(request: TextRequest) -> Self {
        let TextRequest {
            mut session,
            client_id,
            conversation,
            beginner,
            capabilities,
            shared,
            settings,
            tools,
            past,
            memory,
        } = request;
        // The log is more reliable than the client.
        if !past.said.is_empty() {
            session.history = Vec::new();
        }
        let seed = session.history.clone();
        session.last_call = past.last_call;
        let identity = SessionIdentity::of(client_id, &session);
        let (leg, registry) = (session.leg(), session.registry.clone());
        let limits = session.limits.clone();
        let mut outputs = Vec::new();
        let (journal, ledger) = (shared.journal.as_deref(), shared.ledger.clone());
        let core = RecordedSession::begin(session, journal, &mut outputs);
        let calls = CallDriver::begin(BeginRequest {
            identity,
            conversation: conversation.clone(),
            leg,
            registry,
            limits,
            capabilities: capabilities.clone(),
            shared,
            start: LegStart::NonResumable(beginner),
            questions: past.questions,
            after: past.read_to,
        });
        let mut text = Self {
            core,
            calls,
            ledger,
            conversation,
            log: ConversationLog::new(settings.limits.log),
            summaries: Summaries::of_past(past.summary),
            settings,
            tools,
            flow: Flow::default(),
            capabilities,
            pictures_due: Vec::new(),
            heard: Default::default(),
            told: VecDeque::new(),
            read_to: past.read_to.unwrap_or_default(),
            // The entries that were read include every unacknowledged outcome.
            all_heard_to: Some(past.read_to.unwrap_or_default()),
            last_entry: None,
            memory,
            broken_off: past.open_turn.as_ref().map(|turn| turn.message),
            spent: past.open_turn.map(|turn| turn.spent),
            started: Instant::now(),
            stopping: CallStops::default(),
            requests: 0,
            outputs: Vec::new(),
            inputs: VecDeque::new(),
        };
        for PastEntry { number, entry, .. } in past.said {
            text.note_earlier(entry, number);
        }
        for entry in &seed {
            text.note(Entry::earlier(entry.clone()));
            text.summaries.begun(&text.log, None);
        }
        text.calls.append(seed_entries(seed));
        let mut inputs = VecDeque::new();
        for output in outputs {
            text.perform(output, &mut inputs, &mut Nobody);
        }
        if let Some(began) = past.began {
            // The log reports the ends of running effects.
            let unheard = began.unheard.iter().chain(&began.at_work);
            text.told
                .extend(unheard.map(|effect| effect.effect_id.clone()));
            inputs.push_front(Input::Began(Box::new(began)));
        }
        for input in inputs {
            text.feed(input, &mut Nobody);
        }
        text
    }

    pub fn id(&self) -> &SessionId {
        &self.core.config().session_id
    }

    /// The highest number that a call of the conversation has had.
    pub fn last_call(&self) -> CallNumber {
        self.core.last_call()
    }

    /// The session's user in the form of the knowledge base.
    pub(super) fn reader(&self) -> KnowledgeReader {
        let config = self.core.config();
        KnowledgeReader {
            user_id: config.user_id.clone(),
            rights: config.rights.clone(),
        }
    }

    /// Whether the model's provider refused the pictures of the last turn.
    pub fn has_refused_pictures(&self) -> bool {
        self.flow.has_refused_pictures
    }

    /// Whether the core has closed the session, so that the conversation goes on in another one.
    pub fn is_over(&self) -> bool {
        self.core.is_over()
    }

    pub fn log(&self) -> &ConversationLog {
        &self.log
    }

    /// Writes into the log of the conversation, in the order of the session's other entries. Does not wait for the store.
    pub fn append(&mut self, entries: Vec<NewEntry>) {
        self.calls.append(entries);
    }

    pub(super) fn sends_request(&mut self, sink: &mut dyn TurnSink) {
        self.requests += 1;
        let number = self.requests;
        self.feed(Input::Request(RequestEvent::Sent { number }), sink);
    }

    /// Gives the core an input, and every input that follows from it at once.
    pub(super) fn feed(&mut self, input: Input, sink: &mut dyn TurnSink) {
        let mut inputs = std::mem::take(&mut self.inputs);
        let mut outputs = std::mem::take(&mut self.outputs);
        inputs.push_back(input);
        while let Some(input) = inputs.pop_front() {
            if let (
                Input::Answered {
                    question, approved, ..
                },
                Some(given),
            ) = (&input, &mut self.flow.answers)
            {
                *given = GivenAnswer::Of(question.as_deref().map(|question| Answered {
                    question: question.number,
                    call: CallNumber(question.call),
                    approved: *approved,
                }));
            }
            let at = Timestamp::default() + self.started.elapsed();
            self.core.handle(at, input, &mut outputs);
            for output in outputs.drain(..) {
                self.perform(output, &mut inputs, sink);
            }
        }
        self.inputs = inputs;
        self.outputs = outputs;
    }

    fn perform(&mut self, output: Output, inputs: &mut VecDeque<Input>, sink: &mut dyn TurnSink) {
        match &output {
            Output::Append(entries) => {
                let newest = entries.iter().filter_map(|entry| entry.leg_number).max();
                self.last_entry = self.last_entry.max(newest);
            }
            // The ledger is notified once the turn has ended in words: a model that is asked again after a broken answer has not
            // acknowledged it.
            Output::Heard { effects, questions } => {
                self.heard.0.extend_from_slice(effects);
                self.heard.1.extend_from_slice(questions);
                return;
            }
            _ => {}
        }
        match self.calls.perform(output, inputs) {
            Some(Output::SendModel(command)) => self.tell_model(command),
            Some(Output::SendClient(update)) => self.tell_client(update, sink),
            Some(Output::Event(event)) => {
                if let SessionEvent::Usage(usage) = &event {
                    add(&mut self.flow.usage, usage);
                }
                sink.event(&event);
            }
            // A text session has no sound and no lasting connection, and the driver has performed the other outputs.
            Some(_) | None => {}
        }
    }

    /// Notifies the ledger of the outcomes that the model has acknowledged, so that no other session delivers them. Returns
    /// whether there were any.
    pub(super) fn hand_over_heard(&mut self) -> bool {
        let (effects, questions) = std::mem::take(&mut self.heard);
        if effects.is_empty() && questions.is_empty() {
            return false;
        }
        let mut inputs = VecDeque::new();
        self.calls
            .perform(Output::Heard { effects, questions }, &mut inputs);
        for input in inputs {
            self.feed(input, &mut Nobody);
        }
        true
    }

    /// A handle that can stop a call of the session, also once its turn is over.
    pub fn call_stopper(&self) -> CallStopper {
        self.stopping.stopper()
    }

    fn stop_call(&mut self, stop: CallStop, sink: &mut dyn TurnSink) {
        let event = ClientEvent::Cancel {
            call: stop.call(),
            way: CancelWay::Http,
        };
        self.feed(Input::Client(event), sink);
        match self.flow.stopped.take() {
            // Another session of the conversation may have the call.
            Some(CancelOutcome::Unknown) if stop.call() > self.core.last_call() => {}
            Some(outcome) => stop.came_to(outcome),
            None => {}
        }
    }

    /// Reads the entries of the conversation's other sessions since the last time.
    pub(super) fn read_tail(&mut self, sink: &mut dyn TurnSink) {
        let mut inputs = VecDeque::new();
        self.calls.read_tail(&mut inputs);
        for input in inputs {
            self.feed(input, sink);
        }
        self.tell_unheard(sink);
        for entry in self.calls.take_heard() {
            if let Some(Said::Words { role, text, .. }) = Said::of(&entry) {
                let said = Entry::earlier(HistoryEntry { role, text });
                self.note_earlier(said, entry.number);
            }
        }
    }

    /// Delivers the outcomes of effects whose own session is gone and that no model has acknowledged.
    fn tell_unheard(&mut self, sink: &mut dyn TurnSink) {
        // The log has every outcome of an effect, so an unchanged log has no new one.
        let last_read = self.calls.last_read();
        if self.all_heard_to == Some(last_read) {
            return;
        }
        let mut unheard = match self.ledger.store().unheard(&self.conversation) {
            Ok(unheard) => unheard,
            // A later turn delivers them.
            Err(_) => return,
        };
        self.all_heard_to = unheard.is_empty().then_some(last_read);
        unheard.retain(|effect| {
            !self.ledger.is_live(&self.conversation, &effect.leg)
                && !self.told.contains(&effect.effect_id)
        });
        if unheard.is_empty() {
            return;
        }
        for effect in &unheard {
            if self.told.len() >= TOLD_MAX {
                self.told.pop_front();
            }
            self.told.push_back(effect.effect_id.clone());
        }
        let began = Began {
            unheard,
            ..Began::default()
        };
        self.feed(Input::Began(Box::new(began)), sink);
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
                self.flow.is_told = true;
                for response in responses {
                    self.expect_pictures(&response);
                    // Calls of an earlier session are not in this one's log.
                    let told = Entry::told(&response);
                    if let Err(AppendError::NoOpenCall) = self.log.append(Entry::Result(response)) {
                        self.note(told);
                    }
                }
            }
            ModelCommand::UserText(text) | ModelCommand::Notice(text) => {
                self.flow.is_told = true;
                self.note(Entry::Notice(text));
            }
            ModelCommand::Image { mime_type, data } => {
                self.note(Entry::UserImage(Image { mime_type, data }));
            }
            // Only live models get these.
            ModelCommand::History { .. }
            | ModelCommand::AudioEnded
            | ModelCommand::Resynchronize => {}
        }
    }

    /// Writes the user's message into the log that the next request is made of.
    pub(super) fn note_user(&mut self, text: Sensitive<String>) {
        // A message that is sent again after a failed turn was said once.
        if text.expose().trim().is_empty() || self.log.ends_with(text.expose()) {
            return;
        }
        self.note(match self.flow.is_taken_up {
            true => Entry::Notice(Sensitive(TAKEN_UP.to_owned())),
            false => Entry::UserText(text),
        });
        self.summaries
            .begun(&self.log, self.last_entry.map(EntryPlace::Own));
    }

    fn tell_client(&mut self, update: ClientUpdate, sink: &mut dyn TurnSink) {
        match update {
            ClientUpdate::ToolsComplete { .. } => self.flow.tools_complete = true,
            ClientUpdate::ConfirmationResult { call, ref response } if self.is_answered(call) => {
                let is_open = response
                    .expose()
                    .error()
                    .is_some_and(|error| error.retryable)
                    && self.is_answered_question_open();
                let answered = match self.flow.answers.take() {
                    Some(GivenAnswer::Of(answered)) => answered,
                    Some(GivenAnswer::Sought) | None => None,
                };
                return sink.confirmed(&Confirmed {
                    answer: answered.map(|answered| (answered.question, answered.approved)),
                    call,
                    response: response.expose(),
                    is_open,
                });
            }
            ClientUpdate::CancelResult { outcome, .. } => {
                self.flow.stopped = Some(outcome);
                return;
            }
            // In a conversation without an owner, a client sees its own standing approvals alone.
            ClientUpdate::StandingApprovals(mut standing) => {
                let client_id = &self.calls.identity.client_id;
                standing.retain(
                    |known| matches!(&known.scope, StandingScope::Client(own) if own == client_id),
                );
                return sink.client(&ClientUpdate::StandingApprovals(standing));
            }
            ClientUpdate::ConfirmationRequest(question) => {
                if let Some(token) = self.calls.token(question.question) {
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
                // The message ends the turn, so it is the client's last one.
                self.flow.voice_session_start = Some(message);
                return;
            }
            _ => {}
        }
        sink.client(&update);
    }

    /// Whether this end of an approval request is that of the answer being given. Other requests end meanwhile, too: their time
    /// is up, or they are cancelled. The end of an unknown request always belongs to the answer.
    fn is_answered(&self, call: Option<CallNumber>) -> bool {
        match self.flow.answers {
            None => false,
            Some(GivenAnswer::Sought) => call.is_none(),
            Some(GivenAnswer::Of(asked)) => {
                call.is_none() || call == asked.map(|answered| answered.call)
            }
        }
    }

    /// Whether the ledger has taken no answer to the approval request that is being answered.
    fn is_answered_question_open(&self) -> bool {
        let Some(GivenAnswer::Of(Some(answered))) = self.flow.answers else {
            return false;
        };
        let store = self.ledger.store();
        let question = store.question_of_number(&self.conversation, answered.question);
        match question {
            Ok(question) => question.is_some_and(|question| question.is_open(store.now_unix_ms())),
            // If the store cannot be asked, nothing counts as taken.
            Err(_) => true,
        }
    }

    /// Puts an entry of an earlier time or another session into the log.
    fn note_earlier(&mut self, entry: Entry, number: EntryNumber) {
        self.note(entry);
        self.summaries
            .begun(&self.log, Some(EntryPlace::Log(number)));
    }

    /// Puts an entry into the log. An entry that does not fit is left out, which the log's limits have made rare.
    pub(super) fn note(&mut self, entry: Entry) {
        if let Err(error) = self.log.append(entry) {
            let session = self.id();
            tracing::warn!(%session, %error, "something said is not remembered");
        }
    }

    /// Waits for the model's result, and handles calls and deadlines meanwhile. The model's future must tolerate being dropped,
    /// or be lent.
    pub(super) async fn wait<T>(
        &mut self,
        model: impl Future<Output = T>,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> Wake<T> {
        let mut model = std::pin::pin!(model);
        let until = patience.until;
        let (calls, stopping) = (&mut self.calls, &mut self.stopping);
        let mut look = |context: &mut Context<'_>| {
            if patience.poll_cancelled(context) {
                return Poll::Ready(Sight::Cancelled);
            }
            if let Poll::Ready(stop) = stopping.poll_next(context) {
                return Poll::Ready(Sight::Stop(stop));
            }
            if let Poll::Ready(input) = calls.poll_input(context) {
                return Poll::Ready(Sight::Input(input));
            }
            model.as_mut().poll(context).map(Sight::Model)
        };
        // Ready results are taken without a timer, and before anything is written: pieces that come together are sent together.
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
            Sight::Stop(stop) => {
                self.stop_call(stop, sink);
                Wake::Core
            }
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
    sum.seconds += usage.seconds;
}

/// The client's own account of the conversation, for a log without one.
fn seed_entries(seed: Vec<HistoryEntry>) -> Vec<NewEntry> {
    let entry = |(number, entry): (usize, HistoryEntry)| {
        let said = Said::Words {
            role: entry.role,
            text: entry.text,
            turn: 0,
            message: None,
            citations: Vec::new(),
            images: Vec::new(),
        };
        NewEntry {
            leg_number: None,
            key: Some(format!("told:{number}")),
            event: said.event(),
        }
    };
    seed.into_iter().enumerate().map(entry).collect()
}
