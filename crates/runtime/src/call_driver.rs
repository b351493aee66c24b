//! Everything of a session except its client and its provider: its driver on the runtime's executor, the limits of its user, and
//! its subscribers. The same for sessions with and without sockets.

use crate::executor::{Executor, HandlerThreads};
use crate::intent_log::{log_rejection, tell_apart};
use crate::journal::Journal;
use crate::pump::AudioCounts;
use crate::rate::RateLimiter;
use crate::subscriber::{SessionIdentity, Subscriber};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;
use windlass_contract::handler::Capabilities;
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::{Driver, DriverConfig, Executor as _, Ledger, SaidAnswer};
use windlass_session::event::SessionEvent;
use windlass_session::io::{Input, Output, RateCharge};
use windlass_session::limits::Limits;
use windlass_store::command::{NewLeg, OpenQuestion};
use windlass_store::{
    Beginner, ConversationRef, Entry, EntryNumber, Hash, LegRef, NewEntry, QuestionNumber,
    StoreUnavailable,
};

/// The parts that all sessions of one process share.
#[derive(Clone)]
pub struct Shared {
    pub ledger: Arc<dyn Ledger>,
    pub rate_limiter: Arc<dyn RateLimiter>,
    pub subscribers: Arc<[Arc<dyn Subscriber>]>,
    /// The threads for handlers that do not promise to return at once.
    pub threads: HandlerThreads,
    /// The journal of sessions, if they are recorded.
    pub journal: Option<Arc<Journal>>,
}

/// Milliseconds for which a leg that no client resumes counts as live without a sign of life.
const PASSING_LEG_MS: u64 = 60 * 60 * 1_000;
/// The hash of a token that does not exist: no text is known to have it. All sessions that cannot be resumed share it, so that
/// they lie together in the store's index.
const NO_TOKEN: Hash = [0; 32];

/// How a session's leg begins.
pub enum LegStart {
    New(NewLeg, Beginner),
    /// A new leg that no client can resume.
    NonResumable(Beginner),
    /// A leg that the ledger has already.
    Resumed,
}

/// The parameters of a driver.
pub struct BeginRequest {
    pub identity: SessionIdentity,
    /// The conversation as the ledger has it. Its user may be spelt otherwise than the session's.
    pub conversation: ConversationRef,
    pub leg: LegRef,
    pub registry: Arc<Registry>,
    pub limits: Arc<Limits>,
    pub capabilities: Arc<dyn Capabilities>,
    pub shared: Shared,
    pub start: LegStart,
    /// Open approval requests that the session's client may be shown.
    pub questions: Vec<OpenQuestion>,
    /// The last entry of the log that the session knows; `None` for a conversation whose id was just made, so that no other
    /// session can have written into it.
    pub after: Option<EntryNumber>,
}

/// Performs the outputs of the core that concern calls, the ledger and events.
pub struct CallDriver {
    pub(crate) identity: SessionIdentity,
    driver: Driver<Executor>,
    capabilities: Arc<dyn Capabilities>,
    shared: Shared,
}

impl CallDriver {
    /// Begins the leg before every other request to the ledger.
    pub fn begin(request: BeginRequest) -> Self {
        let BeginRequest {
            mut identity,
            conversation,
            leg,
            registry,
            limits,
            capabilities,
            shared,
            start,
            questions,
            after,
        } = request;
        identity.ledger = Some(conversation.clone());
        let version = registry.version().clone();
        let executor = Executor::new(
            identity.clone(),
            version,
            capabilities.clone(),
            shared.threads.clone(),
        );
        let session = leg.leg.clone();
        let config = DriverConfig {
            conversation,
            leg,
            registry,
            limits,
            after,
        };
        let mut driver = Driver::new(config, shared.ledger.clone(), executor);
        driver.know(&questions);
        if identity.mode == Mode::Voice {
            // A model that speaks gets the conversation at its beginning.
            driver.forget_heard();
        }
        match start {
            LegStart::New(leg, beginner) => driver.attach(leg, beginner),
            LegStart::NonResumable(beginner) => {
                let leg = NewLeg {
                    leg: session,
                    mode: identity.mode,
                    client_id: identity.client_id.clone(),
                    resume_token: NO_TOKEN,
                    expires_in_ms: PASSING_LEG_MS,
                };
                driver.attach(leg, beginner);
            }
            LegStart::Resumed => {}
        }
        Self {
            identity,
            driver,
            capabilities,
            shared,
        }
    }

    pub(crate) fn now_unix_ms(&self) -> u64 {
        self.capabilities.now_unix_ms()
    }

    /// Reports the audio counts to the subscribers.
    pub(crate) fn publish_audio(&self, counts: &AudioCounts) {
        for subscriber in self.shared.subscribers.iter() {
            subscriber.audio(&self.identity, counts);
        }
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
        log_rejection(&self.identity.session_id, event);
        let now_unix_ms = self.now_unix_ms();
        for subscriber in self.shared.subscribers.iter() {
            subscriber.event(&self.identity, now_unix_ms, event);
        }
    }

    /// Performs an output about calls, the ledger or events, and queues the inputs that follow at once. Returns the output if it
    /// concerns a client or a provider too.
    pub fn perform(&mut self, output: Output, inputs: &mut VecDeque<Input>) -> Option<Output> {
        match self.driver.perform(output, inputs)? {
            Output::CheckRate {
                call,
                tool,
                limit,
                charge,
            } => {
                let (user, now) = (&self.identity.user_id, self.now_unix_ms());
                let limiter = &self.shared.rate_limiter;
                let decision = limiter.charge(user, &tool, limit, charge, now);
                if charge != RateCharge::Note {
                    inputs.push_back(Input::RateChecked { call, decision });
                }
                None
            }
            Output::Event(event) => {
                self.publish(&event);
                Some(Output::Event(event))
            }
            other => Some(other),
        }
    }

    /// Passes the user's answer to an approval request on, by its token. If the store cannot be read, the core gets nothing, and
    /// the client has to be told that its answer was not taken.
    pub fn answer(
        &mut self,
        token: &str,
        said: SaidAnswer<'_>,
        inputs: &mut VecDeque<Input>,
    ) -> Result<(), StoreUnavailable> {
        self.driver.answer(token, said, inputs)
    }

    /// The token with which the client answers an approval request.
    pub fn token(&self, question: QuestionNumber) -> Option<Sensitive<String>> {
        self.driver.token(question)
    }

    /// Writes entries that are no output of the core into the conversation's log.
    pub fn append(&mut self, entries: Vec<NewEntry>) {
        if !entries.is_empty() {
            self.driver.append(entries);
        }
    }

    /// Has the ledger keep the state from which another process can resume the session.
    pub fn save(&mut self, body: Sensitive<Vec<u8>>, expires_in_ms: u64) {
        self.driver.save(body, expires_in_ms);
    }

    /// Whether an earlier save is on its way.
    pub fn is_saving(&self) -> bool {
        self.driver.is_saving()
    }

    /// Ends the session while its running changes go on: other sessions of the conversation report their outcomes.
    pub fn retire(&self) {
        self.driver.retire();
    }

    /// Ends the leg for good: it is not resumed.
    pub fn leave(&mut self) {
        self.driver.leave();
    }

    /// Ends the leg and its conversation for good: neither is resumed.
    pub fn leave_for_good(&mut self) {
        self.driver.leave();
        self.driver.discard();
    }

    /// Reads the log's new entries for a session that was not polled. Appends the inputs for the core that follow from them.
    pub fn read_tail(&mut self, inputs: &mut VecDeque<Input>) {
        inputs.extend(self.driver.catch_up());
        self.report();
    }

    /// Whether the ledger takes nothing more of the session's leg.
    pub(crate) fn is_superseded(&self) -> bool {
        self.driver.is_superseded()
    }

    /// The last entry of the log that was read.
    pub fn last_read(&self) -> EntryNumber {
        self.driver.last_read()
    }

    /// Entries of other legs since the last call of this function.
    pub fn take_heard(&mut self) -> Vec<Entry> {
        self.driver.take_heard()
    }

    pub fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        let polled = self.driver.poll_input(context);
        self.report();
        polled
    }

    /// Whether no call runs and no reply of the ledger is due.
    pub fn is_idle(&self) -> bool {
        self.driver.is_idle()
    }

    /// Whether a call runs.
    pub(crate) fn runs_calls(&self) -> bool {
        !self.driver.executor.is_idle()
    }

    /// Waits until every started change has ended or run out of time, at most until `latest`, and drops the rest.
    pub async fn finish(self, latest: Option<Instant>) {
        self.driver.executor.drain(latest).await;
    }

    fn report(&mut self) {
        for problem in self.driver.take_problems() {
            tracing::warn!(session = %self.identity.session_id, problem, "something of a session is not kept");
        }
        let events = self.driver.take_events();
        if !events.is_empty() {
            let subscribers = &self.shared.subscribers;
            tell_apart(subscribers, &self.identity, self.now_unix_ms(), &events);
        }
    }
}
