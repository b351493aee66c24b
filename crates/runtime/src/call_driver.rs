//! The outputs of the core that concern calls and events, obeyed the same way for every session, with or without sockets.
//! Owns the executor; knows no client and no provider.

use crate::executor::{Executor, Report};
use crate::rate::RateLimiter;
use crate::reservations::{ReservationRequest, Reservations};
use crate::subscriber::{SessionIdentity, Subscriber};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use windlass_session::event::SessionEvent;
use windlass_session::io::{Input, Output, Reservation};
use windlass_tool::handler::World;

/// What all sessions of one process share.
#[derive(Clone)]
pub struct Shared {
    pub reservations: Arc<dyn Reservations>,
    pub rate_limiter: Arc<dyn RateLimiter>,
    pub subscribers: Arc<[Arc<dyn Subscriber>]>,
}

pub(crate) struct CallDriver {
    pub(crate) identity: SessionIdentity,
    pub(crate) executor: Executor,
    world: Arc<dyn World>,
    shared: Shared,
}

impl CallDriver {
    pub(crate) fn new(identity: SessionIdentity, world: Arc<dyn World>, shared: Shared) -> Self {
        Self {
            executor: Executor::new(identity.clone(), world.clone()),
            identity,
            world,
            shared,
        }
    }

    pub(crate) fn now_unix_ms(&self) -> u64 {
        self.world.now_unix_ms()
    }

    pub(crate) fn subscribers(&self) -> &[Arc<dyn Subscriber>] {
        &self.shared.subscribers
    }

    /// Obeys an output if it is about calls or events, and queues the inputs that this causes at once. Gives the output
    /// back where it, or what it says, concerns a client or a provider too.
    pub(crate) fn obey(&mut self, output: Output, inputs: &mut VecDeque<Input>) -> Option<Output> {
        match output {
            Output::Reserve {
                call,
                tool,
                fingerprint,
            } => {
                let outcome = self.shared.reservations.reserve(ReservationRequest {
                    conversation_id: &self.identity.conversation_id,
                    tool: &tool,
                    fingerprint: &fingerprint,
                    now_unix_ms: self.now_unix_ms(),
                });
                inputs.push_back(Input::Reserved(Reservation { call, outcome }));
            }
            Output::CheckRate { call, tool, limit } => {
                let (user, now) = (&self.identity.user_id, self.now_unix_ms());
                let decision = self.shared.rate_limiter.charge(user, &tool, limit, now);
                inputs.push_back(Input::RateChecked { call, decision });
            }
            Output::StartCall(call) => {
                if let Some((call, result)) = self.executor.start(&call) {
                    while let Some((call, message)) = self.executor.take_message() {
                        inputs.push_back(Input::HandlerMessage { call, message });
                    }
                    inputs.push_back(Input::CallFinished { call, result });
                }
            }
            Output::AbortCall { call, drop } => self.executor.abort(call, drop),
            Output::Event(event) => {
                self.publish(&event);
                return Some(Output::Event(event));
            }
            other => return Some(other),
        }
        None
    }

    pub(crate) fn publish(&self, event: &SessionEvent) {
        if let SessionEvent::HandlerProblem {
            call,
            tool,
            problem,
        } = event
        {
            let session = &self.identity.session_id;
            tracing::error!(%session, %call, %tool, problem, "a tool broke");
        }
        let now_unix_ms = self.now_unix_ms();
        for subscriber in self.shared.subscribers.iter() {
            subscriber.event(&self.identity, now_unix_ms, event);
        }
    }

    /// The next input that a running call causes.
    pub(crate) fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        self.executor
            .poll_report(context)
            .map(|report| match report {
                Report::Message(call, message) => Input::HandlerMessage { call, message },
                Report::Finished(call, result) => Input::CallFinished { call, result },
            })
    }
}
