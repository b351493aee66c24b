//! Calls, from a provider message or a user's approval to the one answer of each. This file has the way in: repeated deliveries, the
//! gates, and the answers to deliveries without a run. `calls/decisions.rs` has the ledger's part, `calls/attempts.rs` the runs,
//! `calls/detached.rs` the calls that nobody waits for any more, `calls/nested.rs` the calls that handlers make, `calls/stopping.rs` the
//! calls that the user wants stopped.

mod accepted;
mod asking;
mod attempts;
mod decisions;
mod detached;
mod messages;
mod nested;
mod open;
mod outputs;
mod stopping;
mod superseded_calls;

use crate::answers::{CallAnswer, Produced};
use crate::approvals::Approvals;
use crate::deadlines::Deadline;
use crate::dialogue::Dialogue;
use crate::event::{CallRecord, DuplicateRule, SessionEvent};
use crate::facts::{CallRequest, Delivered, HashedKey};
use crate::io::{Output, RateCharge, RateDecision};
use crate::ledger;
use crate::limits::Limits;
use crate::model::{IncomingCall, UNNAMED};
use crate::policy::{
    ConsentReason, Deliveries, Delivery, DeliveryState, Gates, Settled, delivery_key, examine,
};
use crate::standing::Standing;
use crate::turn::Charge;
use accepted::Accepted;
pub(crate) use open::LATE_MAX;
use open::{Call, OpenCalls, Origin, Phase};
use std::sync::Arc;
use superseded_calls::Families;
use windlass_contract::arguments::Arguments;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::id::CallNumber;
use windlass_contract::kind::{Mode, OnInterrupt, Scheduling};
use windlass_contract::sensitive::Sensitive;
use windlass_store::QuestionNumber;

pub(crate) struct Calls {
    open: OpenCalls,
    families: Families,
    deliveries: Deliveries,
    approvals: Approvals,
    standing: Standing,
    accepted: Accepted,
    /// The driver was told to hold the microphone back.
    is_microphone_held: bool,
}

// From a provider message to the ledger or the handler.
impl Calls {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            open: OpenCalls::default(),
            families: Families::default(),
            deliveries: Deliveries::new(limits),
            approvals: Approvals::default(),
            standing: Standing::default(),
            accepted: Accepted::default(),
            is_microphone_held: false,
        }
    }

    pub(crate) fn on_calls(&mut self, calls: Vec<IncomingCall>, dialogue: &mut Dialogue) {
        if calls.is_empty() {
            return;
        }
        let is_void = dialogue.speech.is_discarding();
        if !is_void {
            dialogue.model_output(Produced::Calls);
        }
        let turn = dialogue.turns.current_number().filter(|_| !is_void);
        let batch = dialogue.answers.open_batch(calls.len());
        let calls_max = dialogue.step.limits().calls_per_message_max;
        for (index, call) in calls.into_iter().enumerate() {
            match turn {
                Some(turn) => {
                    self.on_call(call, (batch, turn), index < calls_max, dialogue);
                }
                None => self.refuse_void(call, batch, dialogue),
            }
        }
    }

    /// Step 1: a call that cannot be read is refused; nothing is guessed, repaired or dropped.
    fn on_call(
        &mut self,
        call: IncomingCall,
        (batch, turn): (u64, u64),
        is_within_limit: bool,
        dialogue: &mut Dialogue,
    ) {
        let IncomingCall {
            id,
            name,
            arguments,
        } = call;
        let (name, error) = match (name, arguments) {
            (Some(name), Ok(arguments)) if is_within_limit => {
                let key = delivery_key(id, &name, Some(&arguments), turn);
                let delivered = delivered(key, name, (batch, turn), dialogue);
                return self.admit(delivered, arguments, dialogue);
            }
            (Some(name), Ok(_)) => {
                let error =
                    CallError::new(ErrorType::BudgetExceeded, "too many calls in one message");
                (name, error)
            }
            (Some(name), Err(problem)) => {
                let message = format!("the arguments are no JSON object: {problem}");
                (name, CallError::new(ErrorType::Validation, message))
            }
            (None, _) => {
                let error = CallError::new(ErrorType::Validation, "the call names no tool");
                (UNNAMED.into(), error)
            }
        };
        let key = delivery_key(id, &name, None, turn);
        let call_request = CallRequest::unreadable(delivered(key, name, (batch, turn), dialogue));
        self.refuse(call_request, error, Charge::Nothing, dialogue);
    }

    /// Calls of an answer that the user interrupted are not run.
    fn refuse_void(&mut self, call: IncomingCall, batch: u64, dialogue: &mut Dialogue) {
        let name = call.name.unwrap_or_else(|| UNNAMED.into());
        let key = delivery_key(call.id, &name, None, 0);
        let call_request = CallRequest::unreadable(delivered(key, name, (batch, 0), dialogue));
        let message = "the user interrupted before the call began";
        let error = CallError::new(ErrorType::Cancelled, message);
        self.refuse(call_request, error, Charge::Nothing, dialogue);
    }

    /// Steps 2 to 9, in their order.
    fn admit(&mut self, delivered: Delivered, arguments: Arguments, dialogue: &mut Dialogue) {
        // Step 2: the same delivery.
        let Some(delivered) = self.recognise(delivered, &arguments, dialogue) else {
            return;
        };
        dialogue.step.event(SessionEvent::CallRequested {
            call: delivered.number,
            tool: delivered.name.clone(),
            turn: delivered.turn,
            parent: None,
        });
        // Steps 3 to 6: the tool, the mode, the arguments.
        let gates = Gates {
            registry: &dialogue.step.config.registry,
            facts: dialogue.step.facts(),
            top_k_max: dialogue.step.limits().turn.top_k_max,
            open: self.open.awaited(),
            open_max: dialogue.step.limits().open_calls_max,
        };
        let facts = match examine(&gates, delivered, arguments) {
            Ok(facts) => facts,
            Err(refused) => {
                let (call_request, error) = *refused;
                return self.refuse(call_request, error, Charge::Now, dialogue);
            }
        };
        let blocks = dialogue.step.config.blocks(&facts.tool);
        let mut call = Box::new(Call::new(facts, Origin::Model, blocks));
        call.onset = dialogue.speech.onset();
        self.pass_budgets(call, dialogue);
    }

    /// Steps 7 and 8.
    fn pass_budgets(&mut self, mut call: Box<Call>, dialogue: &mut Dialogue) {
        // Step 7: budgets, which answers from the ledger's record do not need.
        if let Err(error) = spend(&mut call, dialogue) {
            if !call.is_decided_by_ledger() {
                return self.refuse_call(call, error, Charge::Now, dialogue);
            }
            call.refusal = Some(error);
        }
        if call.is_of_message() {
            let open = DeliveryState::Open(call.number());
            self.deliveries.remember(call.call_request(), open);
        }
        // Step 8: loops.
        if call.refusal.is_none()
            && !call.is_outside_turn()
            && let Err(error) = dialogue.turns.check_loops(&call.facts)
        {
            if !call.is_decided_by_ledger() {
                return self.refuse_call(call, error, Charge::Already, dialogue);
            }
            call.refusal = Some(error);
        }
        self.check_rate(call, dialogue);
    }

    /// Asks the limits that sessions share, if the tool has one.
    fn check_rate(&mut self, mut call: Box<Call>, dialogue: &mut Dialogue) {
        let limit = call.tool().rate_limit.filter(|_| call.refusal.is_none());
        let Some(limit) = limit else {
            return self.pass_rate(call, dialogue);
        };
        call.phase = Phase::CheckingRate;
        // A call that the ledger may answer from its record is charged once it runs.
        let charge = match call.is_decided_by_ledger() {
            true => RateCharge::Peek,
            false => RateCharge::Charge,
        };
        dialogue.step.push(Output::CheckRate {
            call: call.number(),
            tool: call.tool().id.clone(),
            limit,
            charge,
        });
        self.open.open(call);
    }

    pub(crate) fn on_rate_checked(
        &mut self,
        number: CallNumber,
        decision: RateDecision,
        dialogue: &mut Dialogue,
    ) {
        let waits = |phase: &Phase| matches!(phase, Phase::CheckingRate);
        let Some(mut call) = self.open.take_in(number, waits) else {
            return;
        };
        if let RateDecision::Refused { retry_after } = decision {
            let mut error = CallError::new(
                ErrorType::RateLimit,
                format!("{} was called too often by this user", call.tool().id),
            );
            error.retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
            if !call.is_decided_by_ledger() {
                return self.refuse_call(call, error, Charge::Already, dialogue);
            }
            call.refusal = Some(error);
        }
        self.pass_rate(call, dialogue);
    }

    /// Step 9: the ledger decides about calls that change something or need consent; the rest runs.
    fn pass_rate(&mut self, mut call: Box<Call>, dialogue: &mut Dialogue) {
        call.phase = Phase::Admission;
        if call.is_approved() {
            return self.send_approval(call, dialogue);
        }
        let is_second = call.is_of_message() && self.open.write_before(call.delivered());
        if !(call.tool().writes() && is_second) {
            return self.decide(call, dialogue);
        }
        if let Some(error) = self.refused_behind(&call) {
            return self.refuse_call(call, error, Charge::Already, dialogue);
        }
        call.phase = Phase::Waiting;
        self.open.open(call);
    }

    fn decide(&mut self, mut call: Box<Call>, dialogue: &mut Dialogue) {
        if call.is_decided_by_ledger() {
            // The calls before it in its message have run since.
            if call.refusal.is_none() {
                let capped = dialogue.turns.check_cap(call.turn(), call.tool());
                call.refusal = capped.err();
            }
            self.request(call, dialogue);
        } else if let Some(settled) = self.at_work_already(&call, dialogue) {
            self.answer_known(call, settled, DuplicateRule::SameEffectRunning, dialogue);
        } else {
            dialogue
                .turns
                .runs(&call.facts, &dialogue.step.limits().turn);
            self.start(call, None, dialogue);
        }
    }

    /// The next `writes` call of a message that waited for its turn, unless an earlier one is not done.
    fn decide_next(&mut self, batch: u64, dialogue: &mut Dialogue) {
        let next = self.open.next_waiting(batch);
        if let Some(call) = next.and_then(|next| self.open.take(next)) {
            if self.open.write_before(call.delivered()) {
                self.open.open(call);
            } else {
                self.decide(call, dialogue);
            }
        }
    }
}

// Repeated messages, which charge nothing, and answers without a run.
impl Calls {
    /// Returns the delivery if it was not dealt with.
    fn recognise(
        &mut self,
        delivered: Delivered,
        arguments: &Arguments,
        dialogue: &mut Dialogue,
    ) -> Option<Delivered> {
        dialogue.answers.open(&delivered);
        let Some(delivery) = self.deliveries.find(&delivered.key) else {
            return Some(delivered);
        };
        // In text mode each turn is an exchange of its own, and some servers restart their ids in each.
        if dialogue.step.config.mode == Mode::Text && delivery.call_request.turn != delivered.turn {
            return Some(delivered);
        }
        let same_connection = delivery.call_request.generation == delivered.generation;
        let tool = dialogue
            .step
            .config
            .registry
            .get(&delivered.name)
            .map(Arc::as_ref);
        let top_k_max = dialogue.step.limits().turn.top_k_max;
        if !delivery.is_repeated_by(&delivered.name, tool, arguments, top_k_max) {
            if !same_connection {
                return Some(delivered);
            }
            self.record_conflict(CallRequest::unreadable(delivered), dialogue);
            return None;
        }
        // The id has its place on this connection already: a second answer under it would be one too many. An id that names no delivery
        // of its own may be new although the call is not.
        let is_stable = delivered.key.is_stable();
        let has_place = same_connection && is_stable;
        let in_ledger = tool.is_some_and(ledger::decides_about);
        let Delivery {
            call_request,
            state,
        } = delivery.clone();
        match state {
            DeliveryState::Open(number) => {
                let call_request = call_request.again(delivered);
                let rule = DuplicateRule::SameDelivery;
                if has_place {
                    deduplicated(&call_request, rule, dialogue);
                    self.leave_unanswered(&call_request, true, dialogue);
                } else {
                    self.join(number, call_request, rule, dialogue);
                }
                None
            }
            // The ledger knows the effect's newest state.
            DeliveryState::Settled(_) if in_ledger && !has_place => Some(delivered),
            DeliveryState::Settled(settled) if settled.is_outcome || has_place => {
                let call_request = call_request.again(delivered);
                let owed = !is_stable || settled.answered_on != Some(call_request.generation);
                let rule = DuplicateRule::SameDelivery;
                self.replay(&call_request, &settled, owed, rule, dialogue);
                None
            }
            DeliveryState::Settled(_) => Some(delivered),
        }
    }

    /// The id has its place on this connection already, so the conflict is recorded and nothing is sent.
    fn record_conflict(&mut self, call_request: CallRequest, dialogue: &mut Dialogue) {
        let message = "one call id came with two sets of arguments";
        let error = CallError::new(ErrorType::Conflict, message);
        let response = dialogue.step.failed_by_name(&call_request.name, error);
        let record = CallRecord::new(call_request.clone(), &response, None);
        dialogue.step.event(SessionEvent::CallRejected(record));
        dialogue.turns.refused(&call_request, Charge::Nothing);
        self.leave_unanswered(&call_request, true, dialogue);
        dialogue.wind_up(call_request.turn);
    }

    /// A delivery joins an open call, and shares its answer.
    fn join(
        &mut self,
        number: CallNumber,
        call_request: CallRequest,
        rule: DuplicateRule,
        dialogue: &mut Dialogue,
    ) {
        let turn = call_request.turn;
        dialogue.turns.repeated(turn);
        match self.open.get_mut(number) {
            Some(call) if call.attached.len() >= dialogue.step.limits().open_calls_max => {
                let name = &call_request.name;
                let message = format!("{name} is running, and was asked for too often since");
                let error = CallError::new(ErrorType::BudgetExceeded, message);
                return self.refuse(call_request, error, Charge::Nothing, dialogue);
            }
            Some(call) => {
                call.attached.push((call_request, rule));
                // The model may wait again for a call that blocked it on an earlier connection.
                call.blocks = dialogue.step.config.blocks(call.tool());
            }
            // Open calls and their records change together. Without the call there is nothing to wait for.
            None => self.leave_unanswered(&call_request, true, dialogue),
        }
        dialogue.wind_up(turn);
    }

    /// Answers a delivery from the record, if this connection has had no answer under its id.
    fn replay(
        &mut self,
        call_request: &CallRequest,
        settled: &Settled,
        is_owed: bool,
        rule: DuplicateRule,
        dialogue: &mut Dialogue,
    ) {
        dialogue.turns.repeated(call_request.turn);
        deduplicated(call_request, rule, dialogue);
        self.answer_again(call_request, settled, is_owed, dialogue);
    }

    fn answer_again(
        &mut self,
        call_request: &CallRequest,
        settled: &Settled,
        is_owed: bool,
        dialogue: &mut Dialogue,
    ) {
        let mut response = (*settled.response).clone();
        response.meta.idempotent_cache_hit = true;
        response.meta.original_turn = Some(settled.turn);
        let response = Arc::new(response);
        dialogue.step.event(SessionEvent::CallAnsweredAgain {
            call: call_request.number,
            parent: call_request.parent(),
            response: Sensitive(response.clone()),
        });
        let recorded = Settled {
            answered_on: Some(call_request.generation),
            ..settled.clone()
        };
        let replayed = Settled {
            response,
            repeats: Some(settled.response.clone()),
            ..recorded.clone()
        };
        self.deliveries
            .remember(call_request.clone(), DeliveryState::Settled(recorded));
        let answer = CallAnswer {
            call_request: call_request.clone(),
            scheduling: scheduling_of_answer(call_request, settled.response.is_ok(), dialogue),
            settled: replayed,
        };
        self.answer(answer, is_owed, true, dialogue);
        dialogue.wind_up(call_request.turn);
    }

    /// Ends a delivery that no gate let through.
    fn refuse(
        &mut self,
        call_request: CallRequest,
        error: CallError,
        charge: Charge,
        dialogue: &mut Dialogue,
    ) {
        self.refuse_delivery(call_request, (error, charge), Hearing::default(), dialogue);
    }

    /// The same, with the recipients of the refusal. Returns the refusal as it is recorded.
    fn refuse_delivery(
        &mut self,
        call_request: CallRequest,
        (error, charge): (CallError, Charge),
        Hearing { is_spoken, consent }: Hearing,
        dialogue: &mut Dialogue,
    ) -> Settled {
        let response = match call_request.tool() {
            Some(tool) => dialogue.step.failed(tool, error),
            None => dialogue.step.failed_by_name(&call_request.name, error),
        };
        dialogue.turns.refused(&call_request, charge);
        let settled = Settled {
            answered_on: Some(call_request.generation),
            ..Settled::refusal(response, call_request.turn)
        };
        let state = DeliveryState::Settled(settled.clone());
        self.deliveries.remember(call_request.clone(), state);
        let record = CallRecord::new(call_request.clone(), &settled.response, None);
        let record = record.because(consent);
        dialogue.step.event(SessionEvent::CallRejected(record));
        dialogue.log_call(&call_request, &settled);
        let turn = call_request.turn;
        let answer = CallAnswer {
            scheduling: scheduling_of_answer(&call_request, false, dialogue),
            call_request,
            settled: settled.clone(),
        };
        self.answer(answer, is_spoken, true, dialogue);
        dialogue.wind_up(turn);
        settled
    }

    /// Ends a call that had a good tool and arguments, and that does not run, with the deliveries that joined it.
    fn refuse_call(
        &mut self,
        call: Box<Call>,
        error: CallError,
        charge: Charge,
        dialogue: &mut Dialogue,
    ) {
        if let Some(nesting) = call.nesting() {
            return nested::refuse(call.call_request(), nesting, (error, charge), dialogue);
        }
        let batch = call.delivered().batch;
        let scheduling = scheduling_of_answer(&call.call_request(), false, dialogue);
        let refused = (error, charge);
        let hearing = Hearing {
            is_spoken: call.spoken,
            consent: call.consent.clone(),
        };
        let settled = self.refuse_delivery(call.call_request(), refused, hearing, dialogue);
        for (call_request, rule) in call.attached {
            deduplicated(&call_request, rule, dialogue);
            let answer = CallAnswer {
                call_request,
                settled: settled.clone(),
                scheduling,
            };
            self.answer(answer, true, true, dialogue);
        }
        self.call_ended(batch, dialogue);
    }

    /// Gives one delivery its answer, or no answer if it is not to be spoken of.
    fn answer(
        &mut self,
        answer: CallAnswer,
        is_spoken: bool,
        blocks: bool,
        dialogue: &mut Dialogue,
    ) {
        if !is_spoken {
            return self.leave_unanswered(&answer.call_request, blocks, dialogue);
        }
        for call_request in dialogue.answer(answer, blocks) {
            self.open.silence_like(&call_request);
        }
    }

    /// One delivery of a message gets no answer, which may release the answers to others.
    fn leave_unanswered(
        &mut self,
        call_request: &CallRequest,
        blocks: bool,
        dialogue: &mut Dialogue,
    ) {
        for call_request in dialogue.release(call_request, None, blocks) {
            self.open.silence_like(&call_request);
        }
    }

    /// A call of this message has had its answer.
    fn call_ended(&mut self, batch: u64, dialogue: &mut Dialogue) {
        self.hold_microphone(dialogue);
        self.decide_next(batch, dialogue);
    }

    /// Tells the driver whether the microphone is to be held back.
    fn hold_microphone(&mut self, dialogue: &mut Dialogue) {
        let hold = dialogue.step.config.profile.hold_microphone && self.open.any_blocks();
        if std::mem::replace(&mut self.is_microphone_held, hold) != hold {
            dialogue.step.push(Output::HoldMicrophone(hold));
        }
    }
}

// Calls that are taken back, connections that are left, and the end of the session.
impl Calls {
    /// Whether the model waits for a call.
    pub(crate) fn any_blocks(&self) -> bool {
        self.open.any_blocks()
    }

    /// Whether the model waits for a call that it made on this connection.
    pub(crate) fn is_any_open(&self, generation: u64) -> bool {
        self.open.iter().any(|call| {
            call.spoken
                && !call.is_detached
                && !call.is_outside_turn()
                && call.delivered().generation == generation
        })
    }

    /// Whether a call is open, or the ledger has not replied to an answer of the user's.
    pub(crate) fn is_working(&self) -> bool {
        self.open.len() > 0 || self.approvals.pending() > 0
    }

    /// Whether nothing is open but tasks that have begun.
    pub(crate) fn has_only_tasks(&self) -> bool {
        let is_begun_task = |call: &Call| call.is_task() && call.is_detached && call.has_begun();
        self.approvals.pending() == 0 && self.open.iter().all(is_begun_task)
    }

    /// Whether the user is asked about this call and has not answered, as far as this session knows.
    pub(crate) fn is_asked(&self, call: CallNumber) -> bool {
        self.approvals.open().any(|asked| asked == call)
    }

    /// The numbers of held calls, attempts that called others, approval requests and recorded deliveries.
    pub(crate) fn held(&self) -> [usize; 4] {
        [
            self.open.awaited(),
            self.families.len(),
            self.approvals.len(),
            self.deliveries.recorded(),
        ]
    }

    pub(crate) fn give_room_back(&mut self) {
        self.open.give_room_back();
    }

    pub(crate) fn on_question_expired(&mut self, number: QuestionNumber, dialogue: &mut Dialogue) {
        self.approvals.expired(number, dialogue);
    }

    pub(crate) fn leave_connection(&mut self, dialogue: &mut Dialogue) {
        self.open.leave_connection();
        self.hold_microphone(dialogue);
    }

    /// The connection is gone: calls that have not passed the gates do not run. If the question is not put to the next model, that model
    /// is told so. The last call comes first, since each lets the next of its message through.
    pub(crate) fn drop_unadmitted(&mut self, dialogue: &mut Dialogue) {
        let is_unadmitted =
            |call: &Call| matches!(call.phase, Phase::CheckingRate | Phase::Waiting);
        let dropped = self
            .open
            .numbers_of(|call| is_unadmitted(call) && call.is_of_message());
        for number in dropped.into_iter().rev() {
            self.take_back(number, dialogue.turns.is_idle(), dialogue);
        }
    }

    /// The provider takes these ids back.
    pub(crate) fn on_cancelled(&mut self, ids: &[Arc<str>], dialogue: &mut Dialogue) {
        let generation = dialogue.link.generation();
        for id in ids {
            let keys: Vec<HashedKey> = self.open.keys_of(id, generation);
            dialogue.answers.take_back(id, &keys);
            for number in self.open.by_provider_id(id, generation) {
                self.take_back(number, false, dialogue);
            }
        }
    }

    /// Interruption takes back effects that have not begun, and calls whose tools say that they may be taken back. In text the turn is
    /// not waited for any more, so every call that changes nothing is taken back.
    pub(crate) fn on_interrupted(&mut self, dialogue: &mut Dialogue) {
        let is_text = dialogue.step.config.mode == Mode::Text;
        // A handler's call goes with its parent.
        let cancelled = self.open.numbers_of(|call| {
            call.is_of_message()
                && !call.is_detached
                && match call.runs_on() {
                    true => !call.has_begun(),
                    false => is_text || call.tool().on_interrupt == OnInterrupt::Cancel,
                }
        });
        for number in cancelled {
            self.take_back(number, true, dialogue);
        }
    }

    /// The session ends. Effects that have begun run to their end, and so do approved calls. Open approval requests can be answered
    /// until their time, in any later session. With `goes_on`, every call that was said to be at work goes on as it was.
    pub(crate) fn end(&mut self, goes_on: bool, dialogue: &mut Dialogue) {
        let ends = |call: &Call| call.is_of_message() && !(goes_on && call.is_detached);
        for number in self.open.numbers_of(ends) {
            self.take_back(number, false, dialogue);
        }
    }

    /// Takes one call back. A `writes` call that has started runs to its end and is recorded, but not spoken of.
    fn take_back(&mut self, number: CallNumber, is_answer_owed: bool, dialogue: &mut Dialogue) {
        self.take_back_children(number, dialogue);
        let Some(call) = self.open.get_mut(number) else {
            return;
        };
        call.is_taken_back = true;
        call.spoken &= is_answer_owed;
        let is_running = matches!(call.phase, Phase::Running(_));
        let runs_on = match call.phase {
            // Only its user stops a task that changes nothing.
            Phase::Running(_) => {
                call.tool().writes() || (call.is_task() && !call.is_stopped_by_user)
            }
            // The ledger's reply comes, and decides about the call.
            Phase::Deciding { .. } | Phase::Recording(_) => true,
            Phase::Admission
            | Phase::CheckingRate
            | Phase::Waiting
            | Phase::Attached(_)
            | Phase::BackingOff => false,
        };
        if runs_on {
            call.spoken &= !is_running;
            self.hold_microphone(dialogue);
            return;
        }
        let Some(mut call) = self.open.take(number) else {
            return;
        };
        let attempt = call.call_ref();
        if is_running {
            dialogue.step.push(Output::AbortCall {
                call: attempt,
                drop: true,
            });
        }
        for deadline in [
            Deadline::Attempt(attempt),
            Deadline::Wait(number),
            Deadline::Lease(number),
            Deadline::Store(number),
            Deadline::Retry(number),
        ] {
            dialogue.step.clear(deadline);
        }
        let run = call.take_run();
        self.cancel(call, run, dialogue);
    }
}

/// The recipients of a refusal, and further facts for the audit.
struct Hearing {
    /// Whether the model is answered.
    is_spoken: bool,
    /// Why the user was asked, or was not.
    consent: Option<Arc<ConsentReason>>,
}

impl Default for Hearing {
    fn default() -> Self {
        Self {
            is_spoken: true,
            consent: None,
        }
    }
}

fn delivered(
    (key, unstable_id): (HashedKey, Option<Arc<str>>),
    name: Arc<str>,
    (batch, turn): (u64, u64),
    dialogue: &mut Dialogue,
) -> Delivered {
    Delivered {
        number: dialogue.step.next_call(),
        batch,
        key,
        unstable_id,
        name,
        turn,
        generation: dialogue.link.generation(),
    }
}

fn spend(call: &mut Call, dialogue: &mut Dialogue) -> Result<(), CallError> {
    if call.is_outside_turn() {
        return Ok(());
    }
    let turn = call.turn();
    call.is_charged |= dialogue
        .turns
        .spend(turn, call.tool(), &dialogue.step.config)?;
    Ok(())
}

/// A call that neither runs nor asks has cost nothing.
fn give_back(call: &mut Call, dialogue: &mut Dialogue) {
    if !call.has_begun() && std::mem::take(&mut call.is_charged) {
        dialogue.turns.give_back(call.turn(), call.tool());
    }
}

fn deduplicated(call_request: &CallRequest, rule: DuplicateRule, dialogue: &mut Dialogue) {
    dialogue.step.event(SessionEvent::CallDeduplicated {
        call: call_request.number,
        rule,
        tool: call_request.name.clone(),
        version: call_request.tool().map(|tool| tool.version.clone()),
        parent: call_request.parent(),
    });
}

/// When the model is to speak of an answer that no run of the call brought.
fn scheduling_of_answer(
    call_request: &CallRequest,
    is_ok: bool,
    dialogue: &Dialogue,
) -> Option<Scheduling> {
    let config = &dialogue.step.config;
    // A call that was refused before the look-up has a tool all the same.
    let named = || config.registry.get(&call_request.name);
    let tool = call_request.tool().or_else(named)?;
    config.scheduling(tool, config.blocks(tool), None, is_ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::SessionStep;

    fn ready() -> (Calls, Dialogue) {
        let mut dialogue = Dialogue::new(SessionStep::for_tests());
        let calls = Calls::new(dialogue.step.limits());
        dialogue.on_connected(1, false);
        dialogue.on_ready();
        dialogue.step.take_names();
        (calls, dialogue)
    }

    fn call(id: &str, name: Option<&str>) -> IncomingCall {
        IncomingCall {
            id: Some(id.into()),
            name: name.map(Arc::from),
            arguments: Ok(Arguments::default()),
        }
    }

    #[test]
    fn what_cannot_run_is_answered_at_once_and_in_the_order_of_its_message() {
        let (mut calls, mut dialogue) = ready();
        let message = vec![
            call("function-call-1", None),
            call("function-call-2", Some("nope")),
        ];
        calls.on_calls(message, &mut dialogue);
        let began = ["TurnStarted", "ModelGenerating"];
        let refused = [
            "CallRejected",
            "Append",
            "CallRequested",
            "CallRejected",
            "Append",
        ];
        let answered = ["ToolResponses", "ToolsComplete"];
        let expected: Vec<&str> = began.into_iter().chain(refused).chain(answered).collect();
        assert_eq!(dialogue.step.take_names(), expected);
        assert!(!calls.is_working());
    }

    #[test]
    fn an_id_has_one_answer_on_a_connection() {
        let (mut calls, mut dialogue) = ready();
        for (turn_begins, is_answered) in [(true, true), (false, false)] {
            calls.on_calls(vec![call("function-call-1", Some("nope"))], &mut dialogue);
            let names = dialogue.step.take_names();
            assert_eq!(names.contains(&"TurnStarted".to_owned()), turn_begins);
            assert_eq!(names.contains(&"ToolResponses".to_owned()), is_answered);
        }
    }
}
