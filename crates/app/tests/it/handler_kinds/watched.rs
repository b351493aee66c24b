//! A session without sockets whose model and client are the test: it sees what a client is told while a call runs, and does what a
//! client may. Knows no handler.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use windlass_contract::envelope::ToolResponse;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::call_driver::{BeginRequest, CallDriver, LegStart};
use windlass_runtime::direct::DirectRequest;
use windlass_runtime::journal::RecordedSession;
use windlass_runtime::subscriber::SessionIdentity;
use windlass_session::client::{ClientEvent, ClientUpdate};
use windlass_session::event::SessionEvent;
use windlass_session::io::{Input, Output};
use windlass_session::model::{IncomingCall, ModelEvent, RequestEvent};
use windlass_session::time::Timestamp;
use windlass_store::{Beginner, ConversationRef, EntryNumber};

pub(super) struct Watched {
    core: RecordedSession,
    calls: CallDriver,
    started: Instant,
    told: VecDeque<ClientUpdate>,
    answer: Option<Arc<ToolResponse>>,
}

impl Watched {
    /// A session in which the user has said something.
    pub(super) fn begin(request: DirectRequest) -> Self {
        let DirectRequest {
            session,
            client_id,
            capabilities,
            shared,
        } = request;
        let identity = SessionIdentity {
            client_id,
            session_id: session.session_id.clone(),
            tenant: session.tenant.clone(),
            user_id: session.user_id.clone(),
            rights: session.rights.clone(),
            conversation_id: session.conversation_id.clone(),
            mode: session.mode,
            ledger: None,
        };
        let calls = CallDriver::begin(BeginRequest {
            identity,
            conversation: ConversationRef {
                tenant: session.tenant.clone(),
                conversation_id: session.conversation_id.clone(),
                user_id: session.user_id.clone(),
            },
            leg: session.leg(),
            registry: session.registry.clone(),
            limits: session.limits.clone(),
            capabilities,
            shared,
            start: LegStart::NonResumable(Beginner::default()),
            questions: Vec::new(),
            after: Some(EntryNumber(0)),
        });
        let mut outputs = Vec::new();
        let mut watched = Self {
            core: RecordedSession::begin(session, None, &mut outputs),
            calls,
            started: Instant::now(),
            told: VecDeque::new(),
            answer: None,
        };
        let mut inputs = VecDeque::from([Input::Request(RequestEvent::Sent { number: 1 })]);
        watched.perform(outputs, &mut inputs);
        watched.feed(inputs);
        watched.client(ClientEvent::Text {
            text: Sensitive("say it".to_owned()),
            message: None,
        });
        watched
    }

    /// Runs one call; what `watch` brings back is the client's.
    pub(super) async fn call(
        &mut self,
        call: IncomingCall,
        mut watch: impl FnMut(&ClientUpdate) -> Option<ClientEvent>,
    ) -> Arc<ToolResponse> {
        self.told.clear();
        self.feed([Input::Model(ModelEvent::Calls(vec![call]))].into());
        loop {
            while let Some(update) = self.told.pop_front() {
                if let Some(event) = watch(&update) {
                    self.client(event);
                }
            }
            match self.answer.take() {
                Some(answer) => return answer,
                None => self.wait().await,
            }
        }
    }

    /// Ends it once the changes that it has begun have ended.
    pub(super) async fn end(mut self) {
        self.client(ClientEvent::Stop);
        while !self.core.is_over() {
            self.wait().await;
        }
        self.calls.leave();
        self.calls.finish(None).await;
    }

    fn client(&mut self, event: ClientEvent) {
        self.feed([Input::Client(event)].into());
    }

    async fn wait(&mut self) {
        let due = self.core.next_deadline();
        let due = due.map(|at| self.started + Duration::from_micros(at.0));
        let next = poll_fn(|context| self.calls.poll_input(context));
        let input = match due {
            Some(due) => timeout_at(due, next).await.unwrap_or(Input::Tick),
            None => next.await,
        };
        self.feed([input].into());
    }

    fn feed(&mut self, mut inputs: VecDeque<Input>) {
        while let Some(input) = inputs.pop_front() {
            let at = Timestamp::default() + self.started.elapsed();
            let mut outputs = Vec::new();
            self.core.handle(at, input, &mut outputs);
            self.perform(outputs, &mut inputs);
        }
    }

    fn perform(&mut self, outputs: Vec<Output>, inputs: &mut VecDeque<Input>) {
        for output in outputs {
            match self.calls.perform(output, inputs) {
                Some(Output::SendClient(update)) => self.told.push_back(update),
                Some(Output::Event(
                    SessionEvent::CallFinished(record)
                    | SessionEvent::CallRejected(record)
                    | SessionEvent::CallCancelled(record),
                )) => self.answer = Some(record.response.expose().clone()),
                Some(_) | None => {}
            }
        }
    }
}
