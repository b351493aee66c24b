//! The open calls of a session, and attempts that run on without theirs. Knows where each call stands, and nothing of why it was
//! admitted.

use super::messages::Sayings;
use super::superseded_calls::Nesting;
use crate::config::SessionConfig;
use crate::event::DuplicateRule;
use crate::facts::{CallFacts, CallRequest, Delivered, HashedKey};
use crate::ledger;
use crate::limits::LIMIT_MAX;
use crate::policy::{ConsentReason, EffectRun};
use crate::time::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::error::CallError;
use windlass_contract::id::{CallNumber, CallRef, EffectId};
use windlass_contract::input::GivenInput;
use windlass_contract::kind::{Behavior, Mode, Scheduling};
use windlass_contract::registry::Tool;
use windlass_store::command::OpenQuestion;
use windlass_store::{LegNumber, Nonce, Question, QuestionNumber};

/// A call that waits or runs.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) facts: Arc<CallFacts>,
    pub(crate) origin: Origin,
    pub(crate) phase: Phase,
    /// The failure of its last attempt, until the next one begins. The ledger knows it already, and the call ends with it if there is no
    /// next attempt.
    pub(crate) failed: Option<Box<Concluded>>,
    /// The number of the session's attempts, from 1.
    pub(crate) attempt: u32,
    /// Counts of the messages of these attempts' handlers.
    pub(super) said: Sayings,
    /// Why budgets or loop guard do not let it run. The ledger may still answer it from its record.
    pub(crate) refusal: Option<CallError>,
    /// Why the user is asked about it, or is not, for the audit.
    pub(crate) consent: Option<Arc<ConsentReason>>,
    /// Its turn has been charged for it.
    pub(crate) is_charged: bool,
    /// It has waited for another attempt at its effect, and counts as a repeat already.
    pub(crate) has_waited: bool,
    /// The onset of the user turn that it belongs to.
    pub(crate) onset: Option<LegNumber>,
    /// When its first attempt began.
    pub(crate) started: Option<Timestamp>,
    /// Whether the model waits for it.
    pub(crate) blocks: bool,
    /// The call was said to be at work, and is not waited for any more: its end is told separately.
    pub(crate) is_detached: bool,
    /// False once the call was taken back: its result is recorded, and not spoken of.
    pub(crate) spoken: bool,
    /// The call does not start any more, whatever the ledger says.
    pub(crate) is_taken_back: bool,
    /// The user wants the call stopped: a running attempt goes on, and no attempt follows.
    pub(crate) is_stopped_by_user: bool,
    /// The attempt that it waits to be granted has ended in the ledger already: its lease was over on another server's clock.
    pub(crate) is_over: bool,
    /// It has run until its service asked the user something, and the ledger is asked to put that.
    pub(crate) asking: Option<Box<Asking>>,
    /// Deliveries that share its answer.
    pub(crate) attached: Vec<(CallRequest, DuplicateRule)>,
}

/// The origin of a call.
#[derive(Debug)]
pub(crate) enum Origin {
    Model,
    /// The user approved a request. No provider message waits for it.
    Approval {
        question: Box<Question>,
        /// Further approvals of the same request. Each is told the outcome.
        clicks: u32,
        /// The user wants the approval to stand for calls with the same values.
        remember: bool,
        /// The answer to what the tool's service asked, where the request was for that.
        given: Option<Arc<GivenInput>>,
    },
    /// The handler of another call asks for it, and waits for its answer.
    Handler(Box<Nesting>),
}

/// A run that has come to a question of its service's.
#[derive(Debug)]
pub(crate) struct Asking {
    /// The service.
    pub(crate) from: String,
    pub(crate) run: Option<EffectRun>,
}

/// The state of a call.
#[derive(Debug)]
pub(crate) enum Phase {
    /// No gate has made it wait yet.
    Admission,
    /// The shared limits are asked.
    CheckingRate,
    /// An earlier `writes` call of the same message is not done.
    Waiting,
    /// The ledger is asked.
    Deciding {
        nonce: Nonce,
        effect_id: EffectId,
    },
    /// Another attempt at its effect is running.
    Attached(EffectId),
    Running(Option<EffectRun>),
    /// An attempt has failed, and the next one is due later. Nothing runs.
    BackingOff,
    /// The ledger is told the call's outcome.
    Recording(Box<Concluded>),
}

/// The outcome of a call, before anybody is told.
#[derive(Debug)]
pub(crate) struct Concluded {
    pub(crate) response: Arc<ToolResponse>,
    pub(crate) run: Option<EffectRun>,
    pub(crate) scheduling: Option<Scheduling>,
    /// Text for the log, which a client or a model must not read.
    pub(crate) problem: Option<String>,
    /// The values that it keeps for the conversation are set, and go into the log with the outcome.
    pub(crate) are_values_set: bool,
    /// The question to the user before the call goes on. It is shown before the outcome for now is told.
    pub(crate) asks: Option<Box<OpenQuestion>>,
}

/// An attempt that outlives its call. Its result is recorded when it comes.
#[derive(Debug)]
pub(crate) struct LateAttempt {
    pub(crate) attempt: CallRef,
    pub(crate) facts: Arc<CallFacts>,
    pub(crate) run: EffectRun,
}

/// The number of attempts whose results may come late. The oldest is forgotten, and its lease settles it.
pub(crate) const LATE_MAX: usize = 64;

impl Call {
    /// A call that has passed only the gates that need nothing but the call.
    pub(crate) fn new(facts: Arc<CallFacts>, origin: Origin, blocks: bool) -> Self {
        Self {
            facts,
            origin,
            phase: Phase::Admission,
            failed: None,
            attempt: 1,
            said: Sayings::default(),
            refusal: None,
            consent: None,
            is_charged: false,
            has_waited: false,
            onset: None,
            started: None,
            blocks,
            is_detached: false,
            spoken: true,
            is_taken_back: false,
            is_stopped_by_user: false,
            is_over: false,
            asking: None,
            attached: Vec::new(),
        }
    }

    pub(crate) fn question(&self) -> Option<&Question> {
        match &self.origin {
            Origin::Approval { question, .. } => Some(question),
            Origin::Model | Origin::Handler(_) => None,
        }
    }

    /// The place of a nested call below its parent.
    pub(crate) fn nesting(&self) -> Option<&Nesting> {
        match &self.origin {
            Origin::Handler(nesting) => Some(nesting),
            Origin::Model | Origin::Approval { .. } => None,
        }
    }

    /// Whether a message of the model's asked for it.
    pub(crate) fn is_of_message(&self) -> bool {
        match &self.origin {
            Origin::Model => true,
            Origin::Approval { .. } | Origin::Handler(_) => false,
        }
    }

    /// A call that the user approved runs outside the budgets of a turn, and so do the calls of its handler.
    pub(crate) fn is_outside_turn(&self) -> bool {
        match &self.origin {
            Origin::Approval { .. } => true,
            Origin::Handler(nesting) => nesting.is_outside_turn,
            Origin::Model => false,
        }
    }

    /// Whether the ledger decides about it.
    pub(crate) fn is_decided_by_ledger(&self) -> bool {
        match &self.origin {
            Origin::Handler(_) => ledger::decides_about_nested(self.tool()),
            // The ledger has what is answered.
            Origin::Approval { given: Some(_), .. } => true,
            Origin::Model | Origin::Approval { .. } => ledger::decides_about(self.tool()),
        }
    }

    /// The user's answer to the service of the call's tool.
    pub(crate) fn given(&self) -> Option<&Arc<GivenInput>> {
        match &self.origin {
            Origin::Approval { given, .. } => given.as_ref(),
            Origin::Model | Origin::Handler(_) => None,
        }
    }

    /// Whether the call is answered as soon as it has begun. A handler waits for the tools that it calls.
    pub(crate) fn is_task(&self) -> bool {
        self.tool().runs_in_background() && self.nesting().is_none()
    }

    /// Whether a begun attempt goes on even if it is not waited for: it may change something, or has a row that says how it ends.
    pub(crate) fn runs_on(&self) -> bool {
        self.tool().writes() || self.is_task()
    }

    pub(crate) fn is_approved(&self) -> bool {
        self.question().is_some()
    }

    /// Whether a further attempt may start, and the user be asked for one.
    pub(crate) fn may_begin(&self) -> bool {
        !self.is_taken_back && !self.is_stopped_by_user
    }

    pub(crate) fn delivered(&self) -> &Delivered {
        &self.facts.delivered
    }

    pub(crate) fn number(&self) -> CallNumber {
        self.facts.delivered.number
    }

    pub(crate) fn turn(&self) -> u64 {
        self.facts.delivered.turn
    }

    pub(crate) fn tool(&self) -> &Arc<Tool> {
        &self.facts.tool
    }

    pub(crate) fn arguments(&self) -> &Arc<Arguments> {
        self.facts.completed.arguments.expose()
    }

    /// The call_request for the call's answer.
    pub(crate) fn call_request(&self) -> CallRequest {
        CallRequest::Valid(self.facts.clone())
    }

    pub(crate) fn call_ref(&self) -> CallRef {
        CallRef {
            call: self.number(),
            attempt: self.attempt,
        }
    }

    /// The effect that the call waits for, runs or has run.
    pub(crate) fn effect_id(&self) -> Option<&EffectId> {
        match &self.phase {
            Phase::Running(Some(run)) => Some(&run.effect_id),
            Phase::Recording(concluded) => concluded.run.as_ref().map(|run| &run.effect_id),
            Phase::Attached(effect_id) => Some(effect_id),
            Phase::BackingOff | Phase::Deciding { .. } => {
                self.failed_run().map(|run| &run.effect_id)
            }
            Phase::Admission | Phase::CheckingRate | Phase::Waiting | Phase::Running(None) => None,
        }
    }

    /// The attempt that failed last, while the next has not begun.
    pub(crate) fn failed_run(&self) -> Option<&EffectRun> {
        self.failed.as_ref().and_then(|failed| failed.run.as_ref())
    }

    /// Takes the attempt that the call held.
    pub(crate) fn take_run(&mut self) -> Option<EffectRun> {
        match std::mem::replace(&mut self.phase, Phase::Admission) {
            Phase::Running(run) => run,
            Phase::Admission
            | Phase::CheckingRate
            | Phase::Waiting
            | Phase::Deciding { .. }
            | Phase::Attached(_)
            | Phase::BackingOff
            | Phase::Recording(_) => None,
        }
    }

    /// Takes the outcome that the ledger is being told, if there is one.
    pub(crate) fn take_concluded(&mut self) -> Option<Concluded> {
        match std::mem::replace(&mut self.phase, Phase::Admission) {
            Phase::Recording(concluded) => Some(*concluded),
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// Whether an attempt of it has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.started.is_some()
    }

    /// Milliseconds that the call is waited for before it is said to be at work; `None` if it is waited for to its end. A handler waits
    /// for the tools that it calls.
    pub(crate) fn wait_ms(&self, config: &SessionConfig) -> Option<u64> {
        let (tool, wait_ms) = (self.tool(), config.limits.result_wait_ms);
        // Some callers cannot be told an end later.
        let waits_to_the_end = wait_ms >= LIMIT_MAX;
        if self.is_task() && !waits_to_the_end {
            return Some(0);
        }
        let may_take_long = tool.writes() || tool.behavior != Behavior::Blocking;
        // In text mode every call is waited for.
        let by_model = self.is_of_message() && (self.blocks || config.mode == Mode::Text);
        let is_waited_for = by_model || self.is_approved();
        (may_take_long && is_waited_for && tool.timeout_ms > wait_ms).then_some(wait_ms)
    }
}

#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    #[expect(
        clippy::vec_box,
        reason = "a call is handed from gate to gate, and what is handed on is a pointer"
    )]
    open: Vec<Box<Call>>,
    late: VecDeque<LateAttempt>,
}

impl OpenCalls {
    pub(crate) fn open(&mut self, call: Box<Call>) {
        self.open.push(call);
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// The number of calls that somebody waits for. The ledger counts tasks.
    pub(crate) fn awaited(&self) -> usize {
        let is_awaited = |call: &&Call| !(call.is_task() && call.is_detached);
        self.iter().filter(is_awaited).count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.open.iter().map(Box::as_ref)
    }

    pub(crate) fn get(&self, number: CallNumber) -> Option<&Call> {
        self.iter().find(|call| call.number() == number)
    }

    pub(crate) fn get_mut(&mut self, number: CallNumber) -> Option<&mut Call> {
        let mut open = self.open.iter_mut().map(Box::as_mut);
        open.find(|call| call.number() == number)
    }

    pub(crate) fn take(&mut self, number: CallNumber) -> Option<Box<Call>> {
        let index = self.open.iter().position(|call| call.number() == number)?;
        Some(self.open.remove(index))
    }

    /// Takes a call out if its phase is one of these.
    pub(crate) fn take_in(
        &mut self,
        number: CallNumber,
        is_meant: impl Fn(&Phase) -> bool,
    ) -> Option<Box<Call>> {
        let is_in_phase = self.get(number).is_some_and(|call| is_meant(&call.phase));
        is_in_phase.then(|| self.take(number)).flatten()
    }

    pub(crate) fn numbers_of(&self, is_meant: impl Fn(&Call) -> bool) -> Vec<CallNumber> {
        let meant = self.iter().filter(|call| is_meant(call));
        meant.map(Call::number).collect()
    }

    /// The calls that wait for another attempt at this effect.
    pub(crate) fn attached_to(&self, effect_id: &EffectId) -> Vec<CallNumber> {
        self.numbers_of(|call| matches!(&call.phase, Phase::Attached(of) if of == effect_id))
    }

    /// Whether a call of this session runs for an effect, or has it recorded.
    pub(crate) fn runs(&self, effect_id: &EffectId) -> bool {
        self.iter().any(|call| {
            !matches!(call.phase, Phase::Attached(_)) && call.effect_id() == Some(effect_id)
        })
    }

    /// Calls that the handler of this one asked for, in any of its attempts.
    pub(crate) fn children_of(&self, parent: CallNumber) -> Vec<CallNumber> {
        self.numbers_of(|call| call.delivered().parent() == Some(parent))
    }

    /// Open calls that the user approved.
    pub(crate) fn approved(&self) -> usize {
        self.iter().filter(|call| call.is_approved()).count()
    }

    /// Whether a call of this session runs because this request was approved.
    pub(crate) fn answers(&self, number: QuestionNumber) -> bool {
        self.iter().any(|call| {
            let question = call.question();
            question.is_some_and(|question| question.number == number)
        })
    }

    /// The user approves a request once more. Returns false if no call runs by its approval and is waited for.
    pub(crate) fn click(&mut self, number: QuestionNumber) -> bool {
        for call in self.open.iter_mut().filter(|call| !call.is_detached) {
            if let Origin::Approval {
                question, clicks, ..
            } = &mut call.origin
                && question.number == number
            {
                *clicks = clicks.saturating_add(1);
                return true;
            }
        }
        false
    }

    /// The open calls that a provider's id may mean on this connection: several if the id names no delivery of its own.
    pub(crate) fn by_provider_id(&self, id: &str, generation: u64) -> Vec<CallNumber> {
        self.numbers_of(|call| call.delivered().is_under(id, generation))
    }

    /// The deliveries that came under a provider's id and have no answer yet.
    pub(crate) fn keys_of(&self, id: &str, generation: u64) -> Vec<HashedKey> {
        let attached = self.open.iter().flat_map(|call| &call.attached);
        let joined = attached.map(|(call_request, _)| &**call_request);
        self.open
            .iter()
            .map(|call| call.delivered())
            .chain(joined)
            .filter(|delivered| delivered.is_under(id, generation))
            .map(|delivered| delivered.key.clone())
            .collect()
    }

    pub(crate) fn any_blocks(&self) -> bool {
        self.open.iter().any(|call| call.blocks && call.spoken)
    }

    /// The connection is gone: no call blocks the next one.
    pub(crate) fn leave_connection(&mut self) {
        for call in &mut self.open {
            call.blocks = false;
        }
    }

    /// Calls of earlier connections that ask for the same thing, and change nothing, are not spoken of any more.
    pub(crate) fn silence_like(&mut self, call_request: &CallRequest) {
        for call in &mut self.open {
            let is_like = call.delivered().generation != call_request.generation
                && call_request.is_like(&call.call_request());
            call.spoken &= !is_like || call.runs_on();
        }
    }

    /// Whether a `writes` call of this message has still to be done before the given one may start.
    pub(crate) fn write_before(&self, delivered: &Delivered) -> bool {
        self.open.iter().any(|call| {
            call.tool().writes()
                && !call.is_task()
                && !call.is_approved()
                && call.delivered().batch == delivered.batch
                && call.number() < delivered.number
        })
    }

    /// An attempt has ended that a call still waits to be granted.
    pub(crate) fn note_over(&mut self, attempt: Nonce) {
        let awaits =
            |phase: &Phase| matches!(phase, Phase::Deciding { nonce, .. } if *nonce == attempt);
        for call in self.open.iter_mut().filter(|call| awaits(&call.phase)) {
            call.is_over = true;
        }
    }

    /// The `writes` call of this message that has still to be done before the given one may start, and that is not waited for.
    pub(crate) fn detached_before(&self, delivered: &Delivered) -> Option<&Call> {
        self.iter().find(|call| {
            call.is_detached
                && call.tool().writes()
                && !call.is_task()
                && call.is_of_message()
                && call.delivered().batch == delivered.batch
                && call.number() < delivered.number
        })
    }

    /// A call that asks for the same, changes nothing and was said to be at work.
    pub(crate) fn at_work_like(&self, call_request: &CallRequest) -> Option<&Call> {
        self.iter().find(|call| {
            call.is_detached
                && call.is_of_message()
                && !call.is_taken_back
                && !call.is_decided_by_ledger()
                && call.call_request().is_like(call_request)
        })
    }

    /// The next `writes` call of a message that waited for its turn.
    pub(crate) fn next_waiting(&self, batch: u64) -> Option<CallNumber> {
        self.open
            .iter()
            .filter(|call| matches!(call.phase, Phase::Waiting) && call.delivered().batch == batch)
            .map(|call| call.number())
            .min()
    }

    /// An attempt runs on without its call.
    pub(crate) fn expect_late(&mut self, late: LateAttempt) {
        if self.late.len() >= LATE_MAX {
            self.late.pop_front();
        }
        self.late.push_back(late);
    }

    /// Whether this attempt runs on without its call.
    pub(crate) fn is_late(&self, attempt: CallRef) -> bool {
        self.late.iter().any(|late| late.attempt == attempt)
    }

    pub(crate) fn take_late(&mut self, attempt: CallRef) -> Option<LateAttempt> {
        let index = self.late.iter().position(|late| late.attempt == attempt)?;
        self.late.remove(index)
    }

    /// Frees the room for calls to come.
    pub(crate) fn give_room_back(&mut self) {
        self.open.shrink_to_fit();
    }
}
