//! Calls outside any socket: one session whose model is the caller. The same core, the same executor and the same pipeline
//! as a voice session; knows no provider and no client.

mod remote;

pub use remote::{RemoteAnswer, RemoteEnd, RemoteRequest, RunningTask, call_remote};

use crate::call_driver::{BeginRequest, CallDriver, LegStart, Shared};
use crate::journal::RecordedSession;
use crate::subscriber::SessionIdentity;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_contract::envelope::{
    Outcome, Projection, ProjectionBody, ToolResponse, meta_without_tool,
};
use windlass_contract::error::CallError;
use windlass_contract::handler::Capabilities;
use windlass_contract::id::ClientId;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::SaidAnswer;
use windlass_session::client::{ClientEvent, ClientUpdate, ConfirmationQuestion};
use windlass_session::event::SessionEvent;
use windlass_session::io::{Input, Output};
use windlass_session::limits::LIMIT_MAX;
use windlass_session::model::{
    IncomingCall, ModelCommand, ModelEvent, ModelToolResponse, RequestEvent,
};
use windlass_session::session::SessionConfig;
use windlass_session::time::Timestamp;
use windlass_store::{Beginner, ConversationRef, EntryNumber};

/// The parts of a direct session.
pub struct DirectRequest {
    pub session: SessionConfig,
    pub client_id: ClientId,
    pub capabilities: Arc<dyn Capabilities>,
    pub shared: Shared,
}

/// A session without sockets.
pub struct DirectSession {
    core: RecordedSession,
    calls: CallDriver,
    started: Instant,
    /// Events of the session; `None` if the caller does not need them.
    events: Option<Vec<SessionEvent>>,
    answer: Option<Arc<ToolResponse>>,
    /// Whether the call was recognised as a repeat of an earlier one.
    is_repeat: bool,
    /// The whole answer of the earlier call.
    repeated: Option<Arc<ToolResponse>>,
    /// The open approval request, with its token.
    question: Option<(ConfirmationQuestion, Sensitive<String>)>,
    /// The outcome of the user's answer.
    confirmed: Option<Arc<ToolResponse>>,
    /// The model's view of the response.
    told: Option<Projection>,
    /// The caller's receiver of progress, if it has one.
    progress: Option<TellProgress>,
}

/// Receives a call's progress: a text, and a fraction if the tool gives one.
pub type TellProgress = Box<dyn FnMut(&str, Option<f64>) + Send>;

/// The conversation of a session, and the facts about its beginner.
struct Place {
    conversation: ConversationRef,
    beginner: Beginner,
    /// The last known entry of the conversation's log.
    after: EntryNumber,
    /// Whether the end of a task is its answer.
    waits_for_tasks: bool,
}

/// Runs one call in a session of its own and ends the session. Returns the response and all events.
pub async fn call_once(
    request: DirectRequest,
    call: IncomingCall,
) -> (Arc<ToolResponse>, Vec<SessionEvent>) {
    let mut session = DirectSession::open(request, Some(Vec::new()));
    let response = session.call(call).await;
    let events = session.finish().await;
    (response, events.unwrap_or_default())
}

/// The same for a call that may need the user's consent: asks for it, and returns the outcome of the answer.
pub async fn call_asking(
    request: DirectRequest,
    call: IncomingCall,
    ask: &(dyn Fn(&ConfirmationQuestion) -> bool + Sync),
) -> Arc<ToolResponse> {
    let mut session = DirectSession::open(request, None);
    let mut response = session.call(call).await;
    if let Some((question, token)) = session.question.take() {
        let approved = ask(&question);
        // If the store cannot be read, the answer has no outcome.
        response = session.confirm(&token, approved).await.unwrap_or(response);
    }
    session.finish().await;
    response
}

impl DirectSession {
    pub fn begin(request: DirectRequest) -> Self {
        Self::open(request, None)
    }

    fn open(request: DirectRequest, events: Option<Vec<SessionEvent>>) -> Self {
        let session = &request.session;
        let place = Place {
            conversation: ConversationRef {
                tenant: session.tenant.clone(),
                conversation_id: session.conversation_id.clone(),
                user_id: session.user_id.clone(),
            },
            beginner: Beginner::default(),
            after: EntryNumber(0),
            waits_for_tasks: true,
        };
        Self::open_in(request, place, events)
    }

    fn open_in(request: DirectRequest, place: Place, events: Option<Vec<SessionEvent>>) -> Self {
        let mut session = request.session;
        if place.waits_for_tasks {
            // However long that takes.
            Arc::make_mut(&mut session.limits).result_wait_ms = LIMIT_MAX;
        }
        let calls = CallDriver::begin(BeginRequest {
            identity: SessionIdentity::of(request.client_id, &session),
            conversation: place.conversation,
            leg: session.leg(),
            registry: session.registry.clone(),
            limits: session.limits.clone(),
            capabilities: request.capabilities,
            shared: request.shared.clone(),
            start: LegStart::NonResumable(place.beginner),
            questions: Vec::new(),
            after: Some(place.after),
        });
        let mut outputs = Vec::new();
        let mut direct = Self {
            core: RecordedSession::begin(session, request.shared.journal.as_deref(), &mut outputs),
            calls,
            started: Instant::now(),
            events,
            answer: None,
            is_repeat: false,
            repeated: None,
            question: None,
            confirmed: None,
            told: None,
            progress: None,
        };
        let mut inputs = VecDeque::from([Input::Request(RequestEvent::Sent { number: 1 })]);
        direct.perform(outputs, &mut inputs);
        direct.feed(inputs);
        direct
    }

    /// A message of the user. It begins a turn with budgets of its own.
    pub fn user_says(&mut self, text: impl Into<String>) {
        let text = Sensitive(text.into());
        self.input(Input::Client(ClientEvent::Text {
            text,
            message: None,
        }));
    }

    /// The end of the turn: the model answers without a call.
    pub fn turn_ends(&mut self) {
        self.input(Input::Model(ModelEvent::TurnComplete {
            idle: true,
            reason: None,
            unplayed: Duration::ZERO,
        }));
    }

    /// Runs one call through the whole pipeline.
    pub async fn call(&mut self, call: IncomingCall) -> Arc<ToolResponse> {
        self.answer = None;
        self.is_repeat = false;
        self.repeated = None;
        self.input(Input::Model(ModelEvent::Calls(vec![call])));
        loop {
            if let Some(answer) = self.answer.take() {
                return answer;
            }
            self.wait().await;
        }
    }

    /// `None` if the answer could not be taken.
    async fn confirm(
        &mut self,
        token: &Sensitive<String>,
        approved: bool,
    ) -> Option<Arc<ToolResponse>> {
        let mut inputs = VecDeque::new();
        let taken = self.calls.answer(
            token.expose(),
            SaidAnswer {
                approved,
                ..SaidAnswer::default()
            },
            &mut inputs,
        );
        if let Err(error) = taken {
            tracing::error!(%error, "an answer to a question is not taken");
            return None;
        }
        self.feed(inputs);
        loop {
            if let Some(response) = self.confirmed.take() {
                return Some(response);
            }
            self.wait().await;
        }
    }

    /// Waits for the next event and passes it to the core.
    async fn wait(&mut self) {
        let due = self.core.next_deadline();
        let deadline = due.map(|at| self.started + Duration::from_micros(at.0));
        let next = poll_fn(|context| self.calls.poll_input(context));
        let input = match deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, next)
                .await
                .unwrap_or(Input::Tick),
            None => next.await,
        };
        self.input(input);
    }

    /// Ends the session and waits for the changes it has begun.
    pub async fn end(self) {
        self.finish().await;
    }

    async fn finish(mut self) -> Option<Vec<SessionEvent>> {
        self.input(Input::Client(ClientEvent::Stop));
        while !self.core.is_over() {
            self.wait().await;
        }
        self.calls.leave();
        self.calls.finish(None).await;
        self.events
    }

    fn input(&mut self, input: Input) {
        self.feed(VecDeque::from([input]));
    }

    fn feed(&mut self, mut inputs: VecDeque<Input>) {
        while let Some(input) = inputs.pop_front() {
            let at = Timestamp::default() + self.started.elapsed();
            let mut outputs = Vec::new();
            self.core.handle(at, input, &mut outputs);
            self.perform(outputs, &mut inputs);
        }
    }

    fn tell_client(&mut self, update: ClientUpdate) {
        match update {
            ClientUpdate::ConfirmationRequest(question) => {
                if let Some(token) = self.calls.token(question.question) {
                    self.question = Some((*question, token));
                }
            }
            ClientUpdate::ConfirmationResult { response, .. } => {
                self.confirmed = Some(response.into_inner());
            }
            _ => {}
        }
    }

    fn perform(&mut self, outputs: Vec<Output>, inputs: &mut VecDeque<Input>) {
        for output in outputs {
            let event = match self.calls.perform(output, inputs) {
                Some(Output::Event(event)) => event,
                Some(Output::SendClient(update)) => {
                    self.tell_client(update);
                    continue;
                }
                Some(Output::SendModel(ModelCommand::ToolResponses(responses))) => {
                    if let Some(told) = responses.into_iter().next() {
                        self.told = Some(told.projection.clone());
                        if self.is_repeat {
                            let whole = self.repeated.take();
                            self.answer = Some(whole.unwrap_or_else(|| self.as_told(told)));
                        }
                    }
                    continue;
                }
                Some(_) | None => continue,
            };
            if let (
                SessionEvent::CallProgressed {
                    message, fraction, ..
                },
                Some(progress),
            ) = (&event, &mut self.progress)
            {
                progress(message, *fraction);
            }
            if let SessionEvent::CallFinished(record)
            | SessionEvent::CallRejected(record)
            | SessionEvent::CallCancelled(record) = &event
                && record.parent().is_none()
            {
                self.answer = Some(record.response.expose().clone());
            }
            match &event {
                SessionEvent::CallDeduplicated { parent: None, .. } => self.is_repeat = true,
                SessionEvent::CallAnsweredAgain {
                    parent: None,
                    response,
                    ..
                } => self.repeated = Some(response.expose().clone()),
                _ => {}
            }
            if let Some(events) = &mut self.events {
                events.push(event);
            }
        }
    }

    /// The model's reading of a call that was refused together with an earlier one, as a response.
    fn as_told(&self, told: ModelToolResponse) -> Arc<ToolResponse> {
        let version = self.core.config().registry.version().clone();
        let outcome = match told.projection.body {
            ProjectionBody::Success { data, content, .. } => Outcome::Success { data, content },
            ProjectionBody::Failure {
                error_type,
                message,
                ..
            } => Outcome::Failure(CallError::new(error_type, message).into()),
        };
        let mut meta = meta_without_tool(told.name, version, self.calls.now_unix_ms());
        meta.idempotent_cache_hit = true;
        Arc::new(ToolResponse {
            outcome,
            intents: Vec::new(),
            meta,
        })
    }
}
