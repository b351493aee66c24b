//! Calls outside any socket: one session whose model is the caller. The same core, the same executor and the same pipeline
//! as a voice session; knows no provider and no client.

use crate::call_driver::{CallDriver, Shared};
use crate::ids::token_hash;
use crate::journal::RecordedSession;
use crate::subscriber::SessionIdentity;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_session::client::{ClientEvent, ClientUpdate, ConfirmationQuestion};
use windlass_session::event::SessionEvent;
use windlass_session::io::{Input, Output, TokenHash};
use windlass_session::model::{ConnectionEvent, IncomingCall, ModelEvent};
use windlass_session::session::SessionConfig;
use windlass_session::time::Timestamp;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::handler::World;
use windlass_tool::id::ClientId;
use windlass_tool::sensitive::Sensitive;

/// What a direct session is made of.
pub struct DirectRequest {
    pub session: SessionConfig,
    pub client_id: ClientId,
    pub world: Arc<dyn World>,
    pub shared: Shared,
}

/// A session without sockets.
pub struct DirectSession {
    core: RecordedSession,
    calls: CallDriver,
    started: Instant,
    /// Kept only where somebody wants to see them.
    events: Option<Vec<SessionEvent>>,
    answer: Option<Arc<ToolResponse>>,
    /// What the user is being asked, by the hash of its token.
    question: Option<(ConfirmationQuestion, TokenHash)>,
    /// What came of the user's answer.
    confirmed: Option<Arc<ToolResponse>>,
}

/// Runs one call in a session of its own and ends it. The response, and everything that happened.
pub async fn call_once(
    request: DirectRequest,
    call: IncomingCall,
) -> (Arc<ToolResponse>, Vec<SessionEvent>) {
    let mut session = DirectSession::open(request, Some(Vec::new()));
    let response = session.call(call).await;
    let events = session.finish().await;
    (response, events.unwrap_or_default())
}

/// The same for a call that may need the user's consent: asks for it, and gives what came of the answer.
pub async fn call_asking(
    request: DirectRequest,
    call: IncomingCall,
    ask: &(dyn Fn(&ConfirmationQuestion) -> bool + Sync),
) -> Arc<ToolResponse> {
    let mut session = DirectSession::open(request, None);
    let mut response = session.call(call).await;
    if let Some((question, token_hash)) = session.question.take() {
        let approved = ask(&question);
        response = session.confirm(token_hash, approved).await;
    }
    session.finish().await;
    response
}

impl DirectSession {
    pub fn begin(request: DirectRequest) -> Self {
        Self::open(request, None)
    }

    fn open(request: DirectRequest, events: Option<Vec<SessionEvent>>) -> Self {
        let session = request.session;
        let identity = SessionIdentity::of(request.client_id, &session);
        let version = session.registry.version().clone();
        let mut outputs = Vec::new();
        let mut direct = Self {
            core: RecordedSession::begin(session, request.shared.journal.as_deref(), &mut outputs),
            calls: CallDriver::new(identity, version, request.world, request.shared),
            started: Instant::now(),
            events,
            answer: None,
            question: None,
            confirmed: None,
        };
        let connected = ConnectionEvent::Connected {
            generation: 1,
            resumed: false,
        };
        let ready = ModelEvent::Ready {
            provider_session_id: None,
        };
        let mut inputs = VecDeque::from([Input::Connection(connected), Input::Model(ready)]);
        direct.obey(outputs, &mut inputs);
        direct.feed(inputs);
        direct
    }

    /// What a user says begins a turn, with budgets of its own.
    pub fn user_says(&mut self, text: impl Into<String>) {
        let text = Sensitive(text.into());
        self.input(Input::Client(ClientEvent::Text {
            text,
            message: None,
        }));
    }

    /// The answer that the model gives without a call ends the turn.
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
        self.input(Input::Model(ModelEvent::Calls(vec![call])));
        loop {
            if let Some(answer) = self.answer.take() {
                return answer;
            }
            self.wait().await;
        }
    }

    async fn confirm(&mut self, token_hash: TokenHash, approved: bool) -> Arc<ToolResponse> {
        self.input(Input::Client(ClientEvent::Confirm {
            token_hash,
            approved,
        }));
        loop {
            if let Some(response) = self.confirmed.take() {
                return response;
            }
            self.wait().await;
        }
    }

    /// Waits for the next thing that happens and gives it to the core.
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
        self.calls.executor.drain(None).await;
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
            self.obey(outputs, &mut inputs);
        }
    }

    fn tell_client(&mut self, update: ClientUpdate) {
        match update {
            ClientUpdate::ConfirmationRequest(question) => {
                if let Some(token) = self.calls.take_token(&question.token_hash) {
                    self.question = Some((*question, token_hash(token.expose())));
                }
            }
            ClientUpdate::ConfirmationResult { response, .. } => {
                self.confirmed = Some(response.into_inner());
            }
            _ => {}
        }
    }

    fn obey(&mut self, outputs: Vec<Output>, inputs: &mut VecDeque<Input>) {
        for output in outputs {
            let event = match self.calls.obey(output, inputs) {
                Some(Output::Event(event)) => event,
                Some(Output::SendClient(update)) => {
                    self.tell_client(update);
                    continue;
                }
                Some(_) | None => continue,
            };
            if let SessionEvent::CallFinished(record)
            | SessionEvent::CallRejected(record)
            | SessionEvent::CallCancelled(record) = &event
            {
                self.answer = Some(record.response.expose().clone());
            }
            if let Some(events) = &mut self.events {
                events.push(event);
            }
        }
    }
}
