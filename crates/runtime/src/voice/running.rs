//! A voice session between its start and its end: feeds the core, obeys it, and passes audio by it. Knows no policy; what
//! happens is the core's decision.

mod answers;
mod provider_input;

use super::client_side::ClientSide;
use super::confirm::Waiting;
use super::door::{Door, Owner, Visit};
use super::link::{Link, Progress, Wanted};
use super::missed::{Missed, started_message};
use super::place::Living;
use super::restart::{self, Before};
use super::saving::Saving;
use super::tokens::Tokens;
use super::{Admission, VoiceService};
use crate::call_driver::CallDriver;
use crate::caller::Caller;
use crate::client_protocol::{ServerMessage, of_event, of_question, of_update};
use crate::codec::LiveProvider;
use crate::journal::RecordedSession;
use crate::pump::{Microphone, Pump};
use crate::subscriber::SessionIdentity;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use windlass_session::client::{ClientEvent, ClientUpdate};
use windlass_session::event::{EndReason, SessionEvent};
use windlass_session::io::{Input, Output};
use windlass_session::model::ModelEvent;
use windlass_session::snapshot::{brings_words, is_worth_saving};
use windlass_session::time::Timestamp;
use windlass_tool::id::ClientId;

/// How long a connection that has been used long enough may wait for a quiet moment.
const RENEWAL_PATIENCE: Duration = Duration::from_secs(3 * 60);

pub(super) struct Running {
    service: Arc<VoiceService>,
    calls: CallDriver,
    core: RecordedSession,
    provider: Box<dyn LiveProvider>,
    link: Link,
    pump: Pump,
    started: Instant,
    is_client_lost: bool,
    /// The core knows that the user can speak.
    is_microphone_open: bool,
    door: Arc<Door>,
    /// What opens it, now and later.
    tokens: Tokens,
    missed: Missed,
    saving: Saving,
    /// The client that came with a token last, as far as it shows itself.
    bearer: Option<ClientId>,
    /// Who gave an answer another way than over the socket.
    waiting: Waiting,
    shutdown_deadline: Option<Instant>,
    ended: Option<EndReason>,
    _living: Living,
}

impl Running {
    /// Begins a session, or goes on with one whose process has ended: the client is told, and the provider is called.
    pub(super) fn begin(
        service: Arc<VoiceService>,
        caller: Caller,
        admission: Admission,
        before: Before,
        client: &mut ClientSide,
        now: Instant,
    ) -> Box<Self> {
        let session = admission.session;
        let identity = SessionIdentity::of(caller.client_id.clone(), &session);
        let owner = Owner {
            caller,
            user_id: session.user_id.clone(),
            conversation_id: session.conversation_id.clone(),
        };
        let door = Door::new(owner, admission.lease);
        let Before {
            restored,
            tokens,
            living,
            bearer,
        } = before;
        service.doors.open(*tokens.current(), door.clone());
        client.say(&started_message(&session, &admission.resume_token));
        tracing::info!(session = %session.session_id, "a voice session begins");
        let deadline = now + service.settings.setup_timeout;
        let first = Wanted {
            generation: 1,
            handle: None,
            history_follows: !session.history.is_empty(),
        };
        let link = Link::open(admission.provider.as_ref(), &session, &first, deadline);
        let version = session.registry.version().clone();
        let mut outputs = Vec::new();
        let mut running = Box::new(Self {
            calls: CallDriver::new(identity, version, admission.world, service.shared.clone()),
            core: RecordedSession::begin(session, service.shared.journal.as_deref(), &mut outputs),
            provider: admission.provider,
            link,
            pump: Pump::new(service.settings.audio),
            started: now,
            is_client_lost: false,
            is_microphone_open: false,
            door,
            tokens,
            missed: Missed::default(),
            saving: Saving::default(),
            bearer,
            waiting: Waiting::default(),
            shutdown_deadline: None,
            ended: None,
            _living: living,
            service,
        });
        // The store has the snapshot of a session that was restored.
        if restored.is_none() {
            running.saving.want();
        }
        let mut inputs: VecDeque<Input> = restored.map(Input::Restored).into_iter().collect();
        inputs.push_back(Input::Client(ClientEvent::Connected));
        running.obey(outputs, &mut inputs, client, now);
        running.feed(inputs, client, now);
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

    /// Feeds the core, and whatever obeying it causes, until nothing more follows.
    fn feed(&mut self, mut inputs: VecDeque<Input>, client: &mut ClientSide, now: Instant) {
        let at = self.timestamp(now);
        while let Some(input) = inputs.pop_front() {
            let input = self.calls.news_before(input, &mut inputs);
            let mut outputs = Vec::new();
            let is_typed = brings_words(&input);
            self.core.handle(at, input, &mut outputs);
            if is_typed || outputs.iter().any(is_worth_saving) {
                self.saving.want();
            }
            self.obey(outputs, &mut inputs, client, now);
        }
    }

    fn obey(
        &mut self,
        outputs: Vec<Output>,
        inputs: &mut VecDeque<Input>,
        client: &mut ClientSide,
        now: Instant,
    ) {
        for output in outputs {
            if let Output::RequestConfirmation(request) = &output {
                let (host, identity) = (&self.service.host, self.calls.identity.clone());
                let beside = |token_hash| host.asks(&identity, token_hash);
                self.calls.propose(request, beside, inputs);
                continue;
            }
            match self.calls.obey(output, inputs) {
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
                Some(Output::SendClient(update)) => self.tell_client(&update, client),
                Some(Output::Event(event)) => {
                    if let Some(message) = of_event(&event) {
                        self.say(&message, client);
                    }
                }
                Some(Output::DiscardAudio) => inputs.extend(self.discard_audio(client, now)),
                Some(Output::AcceptAudio) => self.pump.accept(),
                Some(Output::SuppressAudio(is_on)) => self.pump.suppress_speech(is_on),
                Some(Output::HoldMicrophone(is_held)) => self.pump.hold_microphone(is_held),
                Some(Output::Close(reason)) => self.ended = Some(reason),
                Some(
                    Output::ReadLedger
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
                    | Output::StartCall(_)
                    | Output::AbortCall { .. },
                ) => unreachable!("the call driver obeys these itself"),
            }
        }
    }

    /// Throws away what was not played, and tells the provider where it can use that; what follows if it is gone.
    fn discard_audio(&mut self, client: &mut ClientSide, now: Instant) -> Option<Input> {
        let at = self.timestamp(now);
        let unplayed = self.pump.unplayed(at);
        self.pump.discard(at);
        client.socket().discard_audio();
        let discarded = self.link.discard(unplayed);
        discarded.err().map(|reason| self.lose_link(reason))
    }

    fn tell_client(&mut self, update: &ClientUpdate, client: &mut ClientSide) {
        let is_open = matches!(update, ClientUpdate::ConfirmationResult { call: Some(call), .. } if self.core.is_asked(*call));
        if !self.waiting.hear(update, is_open) {
            return;
        }
        if let ClientUpdate::ConfirmationRequest(question) = update
            && let Some(token) = self.calls.take_token(&question.token_hash)
        {
            self.say(&of_question(question, &token), client);
        } else if let Some(message) = of_update(update) {
            self.say(&message, client);
        }
    }

    /// Tells the core what the client did.
    pub(super) fn client_event(
        &mut self,
        event: ClientEvent,
        client: &mut ClientSide,
        now: Instant,
    ) {
        if let ClientEvent::Confirm {
            token_hash,
            approved,
        } = event
        {
            return self.confirm(token_hash, approved, client, now);
        }
        if event == ClientEvent::PlaybackDone {
            self.pump.playback_done(self.timestamp(now));
        }
        self.input(Input::Client(event), client, now);
    }

    /// Passes a piece of the microphone on, and says what became of it.
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

    /// Tells the client, or keeps it for the client that comes back.
    fn say(&mut self, message: &ServerMessage<'_>, client: &mut ClientSide) {
        if self.is_client_lost {
            self.missed.keep(message);
        } else {
            client.say(message);
        }
    }

    /// What happened at the session's door, if anything did.
    pub(super) fn visit(&mut self, context: &mut Context<'_>) -> Option<Visit> {
        self.door.visit(context)
    }

    /// A client has come back, with the token that is used up by it. `false` where no other can be minted.
    pub(super) fn client_back(&mut self, client: &mut ClientSide, now: Instant) -> bool {
        let before = *self.tokens.current();
        let Ok(token) = self.tokens.give_next() else {
            return false;
        };
        self.client_lost(client, now);
        self.service.doors.shut(&before);
        let door = self.door.clone();
        self.service.doors.open(*self.tokens.current(), door);
        self.saving.want();
        client.say(&started_message(self.core.config(), &token));
        for message in self.missed.take() {
            client.repeat(&message);
        }
        self.is_client_lost = false;
        self.door.set_waiting(false);
        self.input(Input::Client(ClientEvent::Connected), client, now);
        true
    }

    /// A client has shown the token. What it shows itself by from now on is not to speak against it.
    pub(super) fn bears_token(&mut self, id: Option<ClientId>) {
        self.bearer = id.or(self.bearer.take());
    }

    /// Another session has taken the conversation over.
    pub(super) fn close(&mut self, client: &mut ClientSide, now: Instant) {
        self.input(Input::Client(ClientEvent::Stop), client, now);
    }

    /// The client is gone; the core hears of it once.
    pub(super) fn client_lost(&mut self, client: &mut ClientSide, now: Instant) {
        if !std::mem::replace(&mut self.is_client_lost, true) {
            self.door.set_waiting(true);
            self.input(Input::Client(ClientEvent::Lost), client, now);
        }
    }

    pub(super) fn shut_down(&mut self, client: &mut ClientSide, now: Instant) {
        self.shutdown_deadline = Some(now + self.service.settings.shutdown_timeout);
        self.input(Input::Shutdown, client, now);
    }

    /// Looks at the provider and at running calls, once each; whether anything happened.
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
        let has_heard = self.poll_elsewhere(context, client, now);
        if self.pump.has_dropped() {
            self.calls.publish_audio(&self.pump.take_counts());
        }
        self.save(context);
        link_progressed || calls_progressed || has_heard
    }

    /// Has the store keep what a session needs that takes this one's place, if anything is new.
    fn save(&mut self, context: &mut Context<'_>) {
        if self.ended.is_none() {
            let (identity, core, tokens) = (&self.calls.identity, &self.core, &self.tokens);
            let bearer = &self.bearer;
            self.saving.poll(context, &*self.service.shared.store, || {
                restart::saved(identity, core, tokens.stored(), bearer.as_ref())
            });
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

    /// The earliest moment at which something is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let core = self.core.next_deadline();
        [
            core.map(|at| self.started + Duration::from_micros(at.0)),
            self.link.deadline(),
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
        let is_overdue = self.shutdown_deadline.is_some_and(|due| due <= now);
        if is_overdue && self.ended.is_none() {
            let reason = EndReason::Shutdown;
            self.calls.publish(&SessionEvent::SessionEnded {
                reason: reason.clone(),
            });
            self.ended = Some(reason);
        }
    }

    /// Nobody comes back to a session that has ended, and its conversation is free where none of its changes still runs.
    pub(super) fn leave(&mut self) {
        self.service.doors.shut(self.tokens.current());
        // A session that ends with its server may go on with the next one.
        if self.ended != Some(EndReason::Shutdown) {
            let session = self.calls.identity.session_id.clone();
            // It is carried out though nobody waits, and what stays by mistake runs out.
            drop(self.service.shared.store.forget_snapshot(session));
        }
        if self.calls.executor.is_idle() {
            self.door.release();
        }
    }

    pub(super) fn say_goodbye(&mut self, context: &mut Context<'_>) {
        self.link.say_goodbye(context);
    }

    /// Ends what is left of the session. Waits for changes that have begun and have time left.
    pub(super) async fn finish(mut self) {
        let session = &self.calls.identity.session_id;
        let reason = self.ended.as_ref().map_or("unknown", reason_name);
        tracing::info!(%session, reason, "a voice session has ended");
        self.calls.publish_audio(&self.pump.take_counts());
        self.calls.executor.drain(self.shutdown_deadline).await;
        self.door.release();
    }
}

/// For the log: without the reason that a tool gave, which may be the user's words.
fn reason_name(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Stopped => "stopped",
        EndReason::Intent(_) => "intent",
        EndReason::ClientLost => "client_lost",
        EndReason::ProviderLost => "provider_lost",
        EndReason::Shutdown => "shutdown",
    }
}
