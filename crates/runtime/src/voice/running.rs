//! A voice session between its start and its end: feeds the core, performs its outputs, and passes audio beside it. Knows no
//! policy; the core decides.

mod provider_input;
mod rest;

use super::VoiceService;
use super::beginning::Prepared;
use super::client_side::ClientSide;
use super::link::{Link, Progress, Wanted};
use super::missed::{Missed, started_message};
use super::resume_registry::{LiveLeg, Registration, Visit};
use super::saving::Saving;
use crate::call_driver::{BeginRequest, CallDriver};
use crate::client_protocol::{ConfirmAnswer, ServerMessage, of_event, of_question, of_update};
use crate::codec::LiveProvider;
use crate::journal::RecordedSession;
use crate::pump::{Microphone, Pump};
use crate::subscriber::SessionIdentity;
use rest::Rest;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use windlass_contract::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::sensitive::Sensitive;
use windlass_driver::SaidAnswer;
use windlass_session::client::{ClientEvent, ClientUpdate, ConfirmationQuestion};
use windlass_session::event::{EndReason, SessionEvent};
use windlass_session::io::{Input, Output};
use windlass_session::model::ModelEvent;
use windlass_session::time::Timestamp;
use windlass_store::{EntryNumber, Token};

/// Time for which a connection that has been used long enough may wait for a quiet moment.
const RENEWAL_PATIENCE: Duration = Duration::from_secs(3 * 60);

/// Time for a user's answer to an open approval request when the server shuts down. Requests that are still open then are asked
/// again by the next server.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Running {
    service: Arc<VoiceService>,
    calls: CallDriver,
    core: RecordedSession,
    provider: Box<dyn LiveProvider>,
    link: Link,
    pump: Pump,
    started: Instant,
    is_client_lost: bool,
    /// Whether the core knows that the user can speak.
    is_microphone_open: bool,
    live: Arc<LiveLeg>,
    /// The place where its client finds the session, until it has ended.
    registration: Option<Registration>,
    /// The token with which its client resumes.
    resume_token: Sensitive<String>,
    missed: Missed,
    /// Approval requests at the client that may still be open.
    asked: Vec<ConfirmationQuestion>,
    saving: Saving,
    /// The time at which the core gets the shutdown.
    shutdown_begins: Option<Instant>,
    shutdown_deadline: Option<Instant>,
    ended: Option<EndReason>,
    /// Whether the session has ended except for tasks, which go on without a client.
    has_tasks: bool,
}

impl Running {
    /// Begins a session, or resumes one whose process has ended: the client gets its start message, and the provider is
    /// connected.
    pub(super) fn begin(
        service: Arc<VoiceService>,
        prepared: Prepared,
        client: &mut ClientSide,
        now: Instant,
    ) -> Box<Self> {
        let Prepared {
            party,
            admission,
            live,
            registration,
            leg_start,
            found,
            account,
        } = prepared;
        let session = admission.session;
        let resume_token = admission.resume_token;
        client.say(&started_message(&session, &resume_token));
        tracing::info!(session = %session.session_id, "a voice session begins");
        let deadline = now + service.settings.setup_timeout;
        let first = Wanted {
            generation: 1,
            handle: None,
            history_follows: !session.history.is_empty(),
        };
        let link = Link::open(admission.provider.as_ref(), &session, &first, deadline);
        let (questions, after, began) = match found {
            Some(found) => (found.asked, Some(found.after), Some(found.began)),
            None => (Vec::new(), Some(EntryNumber(0)), None),
        };
        let mut calls = CallDriver::begin(BeginRequest {
            identity: SessionIdentity::of(party.caller.client_id, &session),
            conversation: party.conversation,
            leg: session.leg(),
            registry: session.registry.clone(),
            limits: session.limits.clone(),
            capabilities: admission.capabilities,
            shared: service.shared.clone(),
            start: leg_start,
            questions,
            after,
        });
        for entry in account {
            calls.append(vec![entry]);
        }
        let mut outputs = Vec::new();
        let mut running = Box::new(Self {
            calls,
            core: RecordedSession::begin(session, service.shared.journal.as_deref(), &mut outputs),
            provider: admission.provider,
            link,
            pump: Pump::new(service.settings.audio),
            // Taken later than the wall clock's time that stands for it. A session ahead of the ledger would take an approval
            // request for expired that can still be answered.
            started: Instant::now(),
            is_client_lost: false,
            is_microphone_open: false,
            live,
            registration: Some(registration),
            resume_token,
            missed: Missed::default(),
            asked: Vec::new(),
            saving: Saving::default(),
            shutdown_begins: None,
            shutdown_deadline: None,
            ended: None,
            has_tasks: false,
            service,
        });
        // A next process resumes from the state at the beginning.
        running.saving.want();
        let began = began.map(|began| Input::Began(Box::new(began)));
        let mut inputs: VecDeque<Input> = began.into_iter().collect();
        inputs.push_back(Input::Client(ClientEvent::Connected));
        running.perform(outputs, &mut inputs, client, now);
        running.feed(inputs, client, now);
        running.save();
        running
    }

    pub(super) fn ended(&self) -> Option<&EndReason> {
        self.ended.as_ref()
    }

    fn timestamp(&self, now: Instant) -> Timestamp {
        Timestamp::default() + now.saturating_duration_since(self.started)
    }

    fn input(&mut self, input: Input, client: &mut ClientSide, now: Instant) {
        self.feed(VecDeque::from([input]), client, now);
    }

    /// Feeds the core, and every input that follows from its outputs, until nothing more follows.
    fn feed(&mut self, mut inputs: VecDeque<Input>, client: &mut ClientSide, now: Instant) {
        let at = self.timestamp(now);
        while let Some(input) = inputs.pop_front() {
            let mut outputs = Vec::new();
            let is_typed = input.brings_words();
            self.core.handle(at, input, &mut outputs);
            if is_typed || outputs.iter().any(Output::is_worth_saving) {
                self.saving.want();
            }
            self.perform(outputs, &mut inputs, client, now);
        }
        if self.core.is_ending() {
            self.calls.retire();
        }
    }

    fn perform(
        &mut self,
        outputs: Vec<Output>,
        inputs: &mut VecDeque<Input>,
        client: &mut ClientSide,
        now: Instant,
    ) {
        for output in outputs {
            match self.calls.perform(output, inputs) {
                None => {}
                Some(Output::Connect {
                    generation,
                    handle,
                    history_follows,
                }) => {
                    let wanted = Wanted {
                        generation,
                        handle,
                        history_follows,
                    };
                    self.connect(&wanted, now);
                }
                Some(Output::SendModel(command)) => {
                    if let Err(reason) = self.link.command(command) {
                        inputs.push_back(self.lose_link(reason));
                    }
                }
                Some(Output::SendClient(update)) => {
                    if matches!(update, ClientUpdate::ToolsComplete { .. }) {
                        self.link.calls_settled();
                    }
                    self.tell_client(&update, client);
                }
                Some(Output::Event(event)) => {
                    if let Some(message) = of_event(&event) {
                        self.say(&message, client);
                    }
                }
                Some(Output::DiscardAudio) => inputs.extend(self.discard_audio(client, now)),
                Some(Output::AcceptAudio) => self.pump.accept(),
                Some(Output::SuppressAudio(is_on)) => self.pump.suppress_speech(is_on),
                Some(Output::HoldMicrophone(is_held)) => self.pump.hold_microphone(is_held),
                Some(Output::Part(reason)) => {
                    self.has_tasks = true;
                    self.ended = Some(reason);
                }
                Some(Output::Close(reason)) => {
                    self.has_tasks = false;
                    self.ended = Some(reason);
                }
                Some(
                    Output::Append(_)
                    | Output::Taint
                    | Output::Request { .. }
                    | Output::Answer { .. }
                    | Output::Abandon { .. }
                    | Output::Record { .. }
                    | Output::Withdraw(_)
                    | Output::Revoke(_)
                    | Output::Heard { .. }
                    | Output::CheckRate { .. }
                    | Output::Progress(_)
                    | Output::CancelTask(_)
                    | Output::StartCall(_)
                    | Output::AbortCall { .. }
                    | Output::AnswerHandler { .. },
                ) => unreachable!("the call driver performs these itself"),
            }
        }
    }

    /// Drops unplayed audio, and tells the provider if it can use that. Returns the input that follows if the provider is gone.
    fn discard_audio(&mut self, client: &mut ClientSide, now: Instant) -> Option<Input> {
        let at = self.timestamp(now);
        let unplayed = self.pump.unplayed(at);
        self.pump.discard(at);
        client.socket().discard_audio();
        let discarded = self.link.discard(unplayed);
        discarded.err().map(|reason| self.lose_link(reason))
    }

    fn tell_client(&mut self, update: &ClientUpdate, client: &mut ClientSide) {
        if let ClientUpdate::ConfirmationRequest(question) = update {
            self.asked.retain(|asked| asked.call != question.call);
            self.asked.push((**question).clone());
            return self.ask_client(question, client);
        }
        if let Some(message) = of_update(update) {
            self.say(&message, client);
        }
        // A client that gets the result of an approval request takes the request as settled.
        if let ClientUpdate::ConfirmationResult {
            call: Some(call), ..
        } = update
        {
            for question in self.still_asked() {
                if question.call == *call {
                    self.ask_client(&question, client);
                }
            }
        }
    }

    fn ask_client(&mut self, question: &ConfirmationQuestion, client: &mut ClientSide) {
        match self.calls.token(question.question) {
            Some(token) => self.say(&of_question(question, &token), client),
            None => tracing::error!(
                session = %self.calls.identity.session_id,
                "a question without a token cannot be asked"
            ),
        }
    }

    /// The approval requests that wait for the client's answer.
    fn still_asked(&mut self) -> Vec<ConfirmationQuestion> {
        let core = &self.core;
        self.asked.retain(|asked| core.is_asked(asked.call));
        self.asked.clone()
    }

    /// Passes a client's event to the core.
    pub(super) fn client_event(
        &mut self,
        event: ClientEvent,
        client: &mut ClientSide,
        now: Instant,
    ) {
        if event == ClientEvent::PlaybackDone {
            self.pump.playback_done(self.timestamp(now));
        }
        self.input(Input::Client(event), client, now);
    }

    /// Takes the user's answer to an approval request of this session or another of the conversation.
    pub(super) fn confirm(
        &mut self,
        answer: &ConfirmAnswer,
        client: &mut ClientSide,
        now: Instant,
    ) {
        let token = answer.token.expose();
        let reason = answer
            .reason
            .as_ref()
            .map(|reason| reason.expose().as_str());
        let mut inputs = VecDeque::new();
        if let Err(error) = self.calls.answer(
            token,
            SaidAnswer {
                approved: answer.approved,
                reason,
                remember: answer.remember,
                input: answer.input.as_ref(),
            },
            &mut inputs,
        ) {
            tracing::error!(%error, session = %self.calls.identity.session_id, "an answer to a question could not be taken");
            return self.answer_not_taken(token, client);
        }
        self.feed(inputs, client, now);
    }

    /// Reports that the store could not be read: the approval request is open as before.
    fn answer_not_taken(&mut self, token: &str, client: &mut ClientSide) {
        let question = Token::parse(token).map(|token| token.question);
        let mut asked = self.asked.iter();
        let asked = asked.find(|asked| Some(asked.question) == question);
        let (call, tool) = asked.map_or((None, "confirm"), |asked| {
            (Some(asked.call), asked.tool.as_str())
        });
        let message = "your answer could not be taken; send it again";
        let error = CallError::new(ErrorType::Transient, message);
        let version = self.core.config().registry.version().clone();
        let now_unix_ms = self.calls.now_unix_ms();
        let response = ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta: meta_without_tool(tool, version, now_unix_ms),
        };
        let response = Sensitive(Arc::new(response));
        self.tell_client(&ClientUpdate::ConfirmationResult { call, response }, client);
    }

    /// Passes a piece of microphone audio on. Returns the verdict on it.
    pub(super) fn microphone(
        &mut self,
        pcm: &[u8],
        client: &mut ClientSide,
        now: Instant,
    ) -> Microphone {
        let verdict = self.pump.microphone(self.timestamp(now), pcm.len());
        if verdict == Microphone::Pass && !pcm.is_empty() {
            if !std::mem::replace(&mut self.is_microphone_open, true) {
                self.client_event(ClientEvent::MicrophoneOpened, client, now);
            }
            self.link.send_audio(pcm, &mut self.pump);
        }
        verdict
    }

    /// Sends a message to the client, or keeps it for the client's return.
    fn say(&mut self, message: &ServerMessage<'_>, client: &mut ClientSide) {
        if self.is_client_lost {
            self.missed.keep(message);
        } else {
            client.say(message);
        }
    }

    /// The visit to the session, if there is one.
    pub(super) fn visit(&mut self, context: &mut Context<'_>) -> Option<Visit> {
        self.live.visit(context)
    }

    /// The client has come back.
    pub(super) fn client_back(&mut self, client: &mut ClientSide, now: Instant) {
        self.client_lost(client, now);
        client.say(&started_message(self.core.config(), &self.resume_token));
        for message in self.missed.take() {
            client.repeat(&message);
        }
        self.is_client_lost = false;
        for question in self.still_asked() {
            self.ask_client(&question, client);
        }
        self.live.set_waiting(false);
        self.input(Input::Client(ClientEvent::Connected), client, now);
    }

    /// Ends the session: another session has taken the conversation over.
    pub(super) fn close(&mut self, client: &mut ClientSide, now: Instant) {
        self.input(Input::Client(ClientEvent::Stop), client, now);
    }

    /// Ends a session from which the ledger takes nothing more. It ends as on a shutdown, so that its client comes back and goes
    /// on from the log.
    fn give_way(&mut self, client: &mut ClientSide, now: Instant) {
        let session = &self.calls.identity.session_id;
        tracing::warn!(%session, "a voice session ends that another process speaks for");
        self.shutdown_deadline = Some(now + self.service.settings.shutdown_timeout);
        self.input(Input::Shutdown, client, now);
    }

    /// The client is gone. The core gets that once.
    pub(super) fn client_lost(&mut self, client: &mut ClientSide, now: Instant) {
        if !std::mem::replace(&mut self.is_client_lost, true) {
            self.live.set_waiting(true);
            self.input(Input::Client(ClientEvent::Lost), client, now);
        }
    }

    pub(super) fn shut_down(&mut self, client: &mut ClientSide, now: Instant) {
        let timeout = self.service.settings.shutdown_timeout;
        self.shutdown_deadline = Some(now + timeout);
        self.shutdown_begins = Some(match self.is_client_lost || self.still_asked().is_empty() {
            true => now,
            false => now + ANSWER_PATIENCE.min(timeout),
        });
        self.begin_shutdown(client, now);
    }

    /// Signals the shutdown to the core, once no answer is awaited any more.
    fn begin_shutdown(&mut self, client: &mut ClientSide, now: Instant) {
        let Some(due) = self.shutdown_begins else {
            return;
        };
        if due <= now || self.is_client_lost || self.still_asked().is_empty() {
            self.shutdown_begins = None;
            self.input(Input::Shutdown, client, now);
        }
    }

    /// Polls the provider and the running calls, once each. Returns whether anything happened.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        client: &mut ClientSide,
        now: Instant,
    ) -> bool {
        let link_progressed = match self.link.poll(context) {
            Poll::Pending => false,
            Poll::Ready(Progress::Connected) => true,
            Poll::Ready(Progress::Read(reading)) => {
                self.read(reading, client, now);
                true
            }
            Poll::Ready(Progress::Worked) => {
                self.worked(client, now);
                true
            }
            Poll::Ready(Progress::Lost(reason)) => {
                self.link_lost(reason, client, now);
                true
            }
        };
        let calls_progressed = match self.calls.poll_input(context) {
            Poll::Pending => false,
            Poll::Ready(input) => {
                self.input(input, client, now);
                true
            }
        };
        if self.pump.has_dropped() {
            self.calls.publish_audio(&self.pump.take_counts());
        }
        if self.calls.is_superseded() && self.shutdown_deadline.is_none() {
            self.give_way(client, now);
        }
        self.save();
        link_progressed || calls_progressed
    }

    /// Has the store keep the state from which another process can resume the session, if it has changed.
    fn save(&mut self) {
        if self.ended.is_none() && self.saving.is_due(&self.calls) {
            self.saving.save(&mut self.calls, &self.core);
        }
    }

    pub(super) fn poll_flush(
        &mut self,
        context: &mut Context<'_>,
        client: &mut ClientSide,
        now: Instant,
    ) -> bool {
        match self.link.poll_flush(context) {
            None => false,
            Some(reason) => {
                self.link_lost(reason, client, now);
                true
            }
        }
    }

    /// The earliest time at which something is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let core = self.core.next_deadline();
        [
            core.map(|at| self.started + Duration::from_micros(at.0)),
            self.link.deadline(),
            self.shutdown_begins,
            self.shutdown_deadline,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(super) fn look_after(&mut self, client: &mut ClientSide, now: Instant) {
        let at = self.timestamp(now);
        if self.core.next_deadline().is_some_and(|due| due <= at) {
            self.input(Input::Tick, client, now);
        }
        if let Some(reason) = self.link.look_after(now) {
            self.link_lost(reason, client, now);
        }
        if self.link.is_used_up(now) {
            let time_left = Some(RENEWAL_PATIENCE);
            self.input(Input::Model(ModelEvent::GoAway { time_left }), client, now);
        }
        self.begin_shutdown(client, now);
        let is_overdue = self.shutdown_deadline.is_some_and(|due| due <= now);
        if is_overdue && self.ended.is_none() {
            let reason = EndReason::Shutdown;
            self.calls.publish(&SessionEvent::SessionEnded {
                reason: reason.clone(),
            });
            self.ended = Some(reason);
        }
    }

    /// Leaves an ended session, which is not resumed. Its conversation is free if none of its changes still runs.
    pub(super) fn leave(&mut self) {
        self.registration = None;
        if self.has_tasks {
            // Calls of a task are made in the leg's name, so the leg is left when the tasks have ended.
            return drop(self.live.release());
        }
        // A session that ends with its server may be resumed by the next one.
        if self.ended != Some(EndReason::Shutdown) {
            self.calls.leave();
        }
        if !self.calls.runs_calls() {
            drop(self.live.release());
        }
    }

    pub(super) fn say_goodbye(&mut self, context: &mut Context<'_>) {
        self.link.say_goodbye(context);
    }

    /// Ends the rest of the session. Waits for tasks, and for started changes that have time left.
    pub(super) async fn finish(mut self: Box<Self>) {
        let session = &self.calls.identity.session_id;
        let reason = self.ended.as_ref().map_or("unknown", reason_name);
        tracing::info!(%session, reason, "a voice session has ended");
        self.calls.publish_audio(&self.pump.take_counts());
        if self.has_tasks {
            return self.rest().run().await;
        }
        self.calls.finish(self.shutdown_deadline).await;
        drop(self.live.release());
    }

    /// The part that goes on without a client: the tasks, and the part of the session that waits for them.
    fn rest(self: Box<Self>) -> Rest {
        let is_shut_down = self.ended == Some(EndReason::Shutdown);
        Rest {
            calls: self.calls,
            core: self.core,
            started: self.started,
            shutdown: self.service.shutdown.subscribe(),
            shutdown_timeout: self.service.settings.shutdown_timeout,
            deadline: self.shutdown_deadline.filter(|_| is_shut_down),
        }
    }
}

/// The name for the log: without the reason that a tool gave, which may be the user's words.
fn reason_name(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Stopped => "stopped",
        EndReason::Intent(_) => "intent",
        EndReason::ClientLost => "client_lost",
        EndReason::ProviderLost => "provider_lost",
        EndReason::Shutdown => "shutdown",
    }
}
