//! What becomes of calls, from a provider message or a user's approval to the one answer of each: gates, the ledger's decision,
//! attempts, outcomes that are stored before anybody hears of them, and what the log says of effects and questions.

use super::conversation::{Produced, append};
use super::{Lifecycle, Session};
use crate::approvals::{AskedQuestion, PendingAnswer};
use crate::calls::{Call, Concluded, LateAttempt, Origin, Phase, Retrying};
use crate::client::{Citation, ClientUpdate, ConfirmationQuestion, ErrorCode, Image, warning};
use crate::deadlines::Deadline;
use crate::event::{
    CallRecord, CallStarted, DuplicateRule, LatencyLimit, Resolution, SessionEvent,
};
use crate::facts::{CallFacts, Delivered, DeliveryKey, Slot};
use crate::io::{AnswerRequest, News, Output, RateCharge, RateDecision, StoreProblem};
use crate::link::{Late, Notice};
use crate::model::{
    AnswerBatching, CallSupport, IncomingCall, ModelCommand, ModelToolResponse, UNNAMED,
};
use crate::policy::{
    BLOCKING_TOOL, Completed, DESCRIBE_TOOL, Delivery, DeliveryState, EffectRun, Failed, Gates,
    Judged, Proposal, Seen, Settled, admitted, budget, confirm, delivery_key, examine, judge,
    outcome_of, outcome_unknown, retry_delay, timed_out,
};
use crate::said::{SaidCall, SaidResult};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_store::command::{
    AnswerVerdict, Approval, Asked, Record, Refusal, Reply, Request, RequestOrigin, Run, ToolFacts,
};
use windlass_store::log::LegRequest;
use windlass_store::{
    AttemptOutcome, Effect, EffectState, Question, QuestionNumber, QuestionState,
};
use windlass_tool::arguments::Arguments;
use windlass_tool::envelope::{self, Meta, Outcome, ProjectionBody, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::handler::{ContentPart, HandlerMessage, HandlerResult, SessionFacts};
use windlass_tool::id::{CallNumber, CallRef, EffectId};
use windlass_tool::intent::Intent;
use windlass_tool::json;
use windlass_tool::kind::{Category, Mode, OnInterrupt, Reach, Scheduling};
use windlass_tool::registry::{STEERING_TOOLS, Tool};
use windlass_tool::sensitive::Sensitive;
use windlass_tool::template;

/// How much longer than its tool's timeout an attempt holds its lease: what it takes to record how it ended.
const LEASE_MARGIN_MS: u64 = 5_000;

/// What an object that cites has at least one of.
const CITING_MEMBERS: [&str; 4] = ["id", "record", "results", "items"];

/// Types of client messages that only the server itself sends (`docs/voice-protocol.md`); a handler may send any other.
const SERVER_TYPES: [&str; 23] = [
    "connected",
    "started",
    "audio",
    "transcript",
    "model_generating",
    "tool_call_started",
    "tool_progress",
    "tool_call_finished",
    "tools_complete",
    "confirmation_request",
    "confirmation_result",
    "interrupted",
    "turn_complete",
    "image",
    "timeout",
    "end_voice_session",
    "session_complete",
    "stopped",
    "reconnecting",
    "reconnected",
    "error",
    "pong",
    "voice_session_start",
];

/// Built-in tools that may send a type of the server's own.
const PRIVILEGED: [(&str, &str); 5] = [
    ("ignore_user", "timeout"),
    ("start_voice_session", "voice_session_start"),
    ("send_image", "image"),
    ("kb_search", "image"),
    ("kb_get", "image"),
];

/// What a refused call costs its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    /// It could not even be read: nothing of the budgets, but it counts as a refusal.
    Nothing,
    /// One call of the total.
    Now,
    /// It was charged when it passed the budgets; a retrieval that does not run is given back.
    Already,
}

// From a provider message to the ledger or the handler.
impl Session {
    pub(super) fn on_calls(&mut self, calls: Vec<IncomingCall>, out: &mut Vec<Output>) {
        if calls.is_empty() {
            return;
        }
        let is_void = self.link.discarding;
        if !is_void {
            self.model_output(Produced::Calls, out);
        }
        let turn = self.turns.current().map(|turn| turn.number);
        let Some(turn) = turn.filter(|_| !is_void) else {
            return self.refuse_void_calls(calls, out);
        };
        let batch = self.calls.open_batch(calls.len());
        let calls_max = self.config.limits.calls_per_message_max;
        for (index, call) in calls.into_iter().enumerate() {
            self.on_call(call, batch, turn, index < calls_max, out);
        }
    }

    /// Step 1: what cannot be read is refused; nothing is guessed, repaired or dropped.
    fn on_call(
        &mut self,
        call: IncomingCall,
        batch: u64,
        turn: u64,
        is_within_limit: bool,
        out: &mut Vec<Output>,
    ) {
        let IncomingCall {
            id,
            name,
            arguments,
        } = call;
        let (name, error) = match (name, arguments) {
            (Some(name), Ok(arguments)) if is_within_limit => {
                let proposal = Proposal {
                    batch,
                    provider_id: id,
                    name,
                    arguments,
                    turn,
                };
                return self.admit(proposal, out);
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
        let slot = self.slot(batch, id, name, turn);
        self.refuse(slot, error, Charge::Nothing, out);
    }

    /// Calls of an answer that the user interrupted are not run.
    fn refuse_void_calls(&mut self, calls: Vec<IncomingCall>, out: &mut Vec<Output>) {
        let batch = self.calls.open_batch(calls.len());
        for call in calls {
            let name = call.name.unwrap_or_else(|| UNNAMED.into());
            let slot = self.slot(batch, call.id, name, 0);
            let error = CallError::new(
                ErrorType::Cancelled,
                "the user interrupted before the call began",
            );
            self.refuse(slot, error, Charge::Nothing, out);
        }
    }

    fn slot(&mut self, batch: u64, id: Option<Arc<str>>, name: Arc<str>, turn: u64) -> Slot {
        let (key, unstable_id) = delivery_key(id, &name, None, turn);
        Slot::unreadable(Delivered {
            number: self.calls.next_number(),
            batch,
            key,
            unstable_id,
            name,
            turn,
            generation: self.link.generation,
        })
    }

    /// Steps 2 to 9, in their order.
    fn admit(&mut self, proposal: Proposal, out: &mut Vec<Output>) {
        let Proposal {
            batch,
            provider_id,
            name,
            arguments,
            turn,
        } = proposal;
        let (key, unstable_id) = delivery_key(provider_id, &name, Some(&arguments), turn);
        let delivered = Delivered {
            number: self.calls.next_number(),
            batch,
            key,
            unstable_id,
            name,
            turn,
            generation: self.link.generation,
        };
        // Step 2: the same delivery.
        let Some(delivered) = self.recognise_delivery(delivered, &arguments, out) else {
            return;
        };
        out.push(Output::Event(SessionEvent::CallRequested {
            call: delivered.number,
            tool: delivered.name.clone(),
            turn,
        }));
        // Steps 3 to 6: the tool, the mode, the arguments.
        let gates = Gates {
            registry: &self.config.registry,
            mode: self.config.mode,
            top_k_max: self.config.limits.turn.top_k_max,
            open: self.calls.len(),
            open_max: self.config.limits.open_calls_max,
        };
        let facts = match examine(&gates, delivered, arguments) {
            Ok(facts) => facts,
            Err(refused) => {
                let (slot, error) = *refused;
                return self.refuse(slot, error, Charge::Now, out);
            }
        };
        let blocks = self.blocks(&facts.tool);
        let mut call = Box::new(Call::new(facts, Origin::Model, blocks));
        call.onset = self.user_turn.onset();
        // Step 7: budgets, which the ledger's answers from the record do not need.
        if let Err(error) = self.spend(&mut call) {
            if !in_ledger(call.tool()) {
                return self.refuse_call(call, error, Charge::Now, out);
            }
            call.refusal = Some(error);
        }
        let open = DeliveryState::Open(call.number());
        self.calls.deliveries.remember(call.slot(), open);
        // Step 8: loops.
        if call.refusal.is_none() {
            let seen = Seen::of(&call.facts);
            let history = self.turns.get_mut(call.turn()).map(|turn| &turn.history);
            let looped = history.map_or(Ok(()), |history| history.check(&seen));
            if let Err(error) = looped {
                if !in_ledger(call.tool()) {
                    return self.refuse_call(call, error, Charge::Already, out);
                }
                call.refusal = Some(error);
            }
        }
        self.check_rate(call, out);
    }

    fn spend(&mut self, call: &mut Call) -> Result<(), CallError> {
        let (mode, limits) = (self.config.mode, &self.config.limits.turn);
        let blocks_made = self.blocks_made;
        if let Some(turn) = self.turns.get_mut(call.turn()) {
            turn.spend(call.tool(), mode, limits, blocks_made)?;
            call.is_charged = call.tool().id.as_str() != DESCRIBE_TOOL;
        }
        Ok(())
    }

    fn check_cap(&mut self, call: &Call) -> Result<(), CallError> {
        let blocks_made = self.blocks_made;
        match self.turns.get_mut(call.turn()) {
            Some(turn) => budget::check_cap(call.tool(), blocks_made, &turn.history),
            None => Ok(()),
        }
    }

    /// Asks the limits that sessions share, where the tool has one.
    fn check_rate(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        let limit = call.tool().rate_limit.filter(|_| call.refusal.is_none());
        let Some(limit) = limit else {
            return self.pass_rate(call, out);
        };
        call.phase = Phase::CheckingRate;
        let (number, tool) = (call.number(), call.tool().id.clone());
        // What the ledger may answer from the record is charged once it runs.
        let charge = match in_ledger(call.tool()) {
            true => RateCharge::Peek,
            false => RateCharge::Charge,
        };
        self.calls.open(call);
        out.push(Output::CheckRate {
            call: number,
            tool,
            limit,
            charge,
        });
    }

    pub(super) fn on_rate_checked(
        &mut self,
        number: CallNumber,
        decision: RateDecision,
        out: &mut Vec<Output>,
    ) {
        let waits = |phase: &Phase| matches!(phase, Phase::CheckingRate);
        let Some(mut call) = self.calls.take_in(number, waits) else {
            return;
        };
        if let RateDecision::Refused { retry_after } = decision {
            let mut error = CallError::new(
                ErrorType::RateLimit,
                format!("{} was called too often by this user", call.tool().id),
            );
            error.retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
            if !in_ledger(call.tool()) {
                return self.refuse_call(call, error, Charge::Already, out);
            }
            call.refusal = Some(error);
        }
        self.pass_rate(call, out);
    }

    /// Step 9: what changes something or needs consent is the ledger's to decide; the rest runs.
    fn pass_rate(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        call.phase = Phase::Admission;
        if call.is_approved() {
            return self.send_answer(call, out);
        }
        if call.tool().writes() && self.calls.write_before(call.delivered()) {
            call.phase = Phase::Waiting;
            return self.calls.open(call);
        }
        self.decide(call, out);
    }

    fn decide(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        if in_ledger(call.tool()) {
            // What was before it in its message has run meanwhile.
            if call.refusal.is_none() {
                call.refusal = self.check_cap(&call).err();
            }
            self.request(call, out);
        } else {
            self.note_run(&call);
            self.start(call, None, out);
        }
    }

    /// The call will run: loop guard and caps count it.
    fn note_run(&mut self, call: &Call) {
        let limits = &self.config.limits.turn;
        if let Some(turn) = self.turns.get_mut(call.turn()) {
            turn.history.called(Seen::of(&call.facts), limits);
        }
        self.blocks_made += u32::from(call.tool().id.as_str() == BLOCKING_TOOL);
    }

    /// The attempt begins.
    fn start(&mut self, mut call: Box<Call>, run: Option<EffectRun>, out: &mut Vec<Output>) {
        let timeout = Duration::from_millis(call.tool().timeout_ms);
        call.phase = Phase::Running(run.clone());
        call.started.get_or_insert(self.now);
        self.set_deadline(Deadline::Attempt(call.call_ref()), timeout);
        self.deadlines.clear(Deadline::ProviderSilence);
        self.deadlines.clear(Deadline::ResultSilence);
        if call.attempt == 1 {
            tell_changes(&call, out);
        }
        let status = call.tool().status.as_ref();
        out.push(Output::Event(SessionEvent::CallStarted(CallStarted {
            facts: call.facts.clone(),
            attempt: call.attempt,
            status: status.map(|status| template::render(status, call.arguments())),
        })));
        let facts = self.session_facts();
        let admitted = admitted(&call.facts, call.attempt, run, facts);
        out.push(Output::StartCall(admitted));
        self.calls.open(call);
        self.hold_microphone(out);
    }

    fn session_facts(&self) -> SessionFacts {
        let state = self.state.get();
        SessionFacts {
            is_active: state.is_active,
            is_model_generating: state.is_model_generating,
            pending_end_voice_session: state.pending_end.is_some(),
        }
    }

    /// Whether the model waits for a tool's result: what the tool says, as far as the model can.
    pub(super) fn blocks(&self, tool: &Tool) -> bool {
        self.config.profile.calls.blocks(tool.behavior)
    }
}

// The same message again, which charges nothing.
impl Session {
    /// Gives the delivery back where it is not dealt with.
    fn recognise_delivery(
        &mut self,
        delivered: Delivered,
        arguments: &Arguments,
        out: &mut Vec<Output>,
    ) -> Option<Delivered> {
        if let Some(id) = delivered.provider_id() {
            self.link.closed_ids.reopen(id, &delivered.key);
        }
        let Some(delivery) = self.calls.deliveries.find(&delivered.key) else {
            return Some(delivered);
        };
        // By text each turn is an exchange of its own, and some servers begin their ids anew in each.
        if self.config.mode == Mode::Text && delivery.slot.turn != delivered.turn {
            return Some(delivered);
        }
        let same_connection = delivery.slot.generation == delivered.generation;
        let tool = self.config.registry.get(&delivered.name).map(Arc::as_ref);
        let top_k_max = self.config.limits.turn.top_k_max;
        if !delivery.is_repeated_by(&delivered.name, tool, arguments, top_k_max) {
            if !same_connection {
                return Some(delivered);
            }
            self.record_conflict(Slot::unreadable(delivered), out);
            return None;
        }
        // The provider gave this id its place on this connection already: a second answer under it would be one too many.
        // An id that names no delivery of its own may be new although the call is not.
        let is_stable = delivered.key.is_stable();
        let has_place = same_connection && is_stable;
        let in_ledger = tool.is_some_and(in_ledger);
        let Delivery { slot, state } = delivery.clone();
        match state {
            DeliveryState::Open(number) => {
                let slot = slot.again(delivered);
                if has_place {
                    self.deduplicated(&slot, DuplicateRule::SameDelivery, out);
                    self.release(&slot, None, true, out);
                } else {
                    self.join(number, slot, DuplicateRule::SameDelivery, out);
                }
                None
            }
            // What became of an effect meanwhile, the ledger knows.
            DeliveryState::Settled(_) if in_ledger && !has_place => Some(delivered),
            DeliveryState::Settled(settled) if settled.is_outcome || has_place => {
                let slot = slot.again(delivered);
                let owed = !is_stable || settled.answered_on != Some(slot.generation);
                self.replay(&slot, &settled, owed, DuplicateRule::SameDelivery, out);
                None
            }
            DeliveryState::Settled(_) => Some(delivered),
        }
    }

    /// The id has its place on this connection already, so the conflict is recorded and nothing is sent.
    fn record_conflict(&mut self, slot: Slot, out: &mut Vec<Output>) {
        let error = CallError::new(
            ErrorType::Conflict,
            "one call id came with two sets of arguments",
        );
        let response = self.response_without_tool(&slot.name, error);
        let record = call_record(slot.clone(), &response);
        out.push(Output::Event(SessionEvent::CallRejected(record)));
        if let Some(turn) = self.turns.get_mut(slot.turn) {
            turn.summary.refusals += 1;
        }
        let turn = slot.turn;
        self.release(&slot, None, true, out);
        self.wind_up(turn, out);
    }

    /// A delivery that shares the answer of an open call.
    fn join(&mut self, number: CallNumber, slot: Slot, rule: DuplicateRule, out: &mut Vec<Output>) {
        self.count_repeat(slot.turn);
        let turn = slot.turn;
        let joined = self.calls.get(number).map(|call| call.attached.len());
        if joined.is_some_and(|joined| joined >= self.config.limits.open_calls_max) {
            let error = CallError::new(
                ErrorType::BudgetExceeded,
                format!(
                    "{} is running, and was asked for too often since",
                    slot.name
                ),
            );
            return self.refuse(slot, error, Charge::Nothing, out);
        }
        let blocks = self.calls.get(number).map(|call| self.blocks(call.tool()));
        match self.calls.get_mut(number) {
            Some(call) => {
                call.attached.push((slot, rule));
                // The model may wait again for what blocked it on an earlier connection.
                call.blocks = blocks.unwrap_or(call.blocks);
            }
            // Open calls and their records change together; without the call there is nothing to wait for.
            None => self.release(&slot, None, true, out),
        }
        self.wind_up(turn, out);
    }

    /// A delivery that is answered from the record; only where this connection has had no answer under its id.
    fn replay(
        &mut self,
        slot: &Slot,
        settled: &Settled,
        is_owed: bool,
        rule: DuplicateRule,
        out: &mut Vec<Output>,
    ) {
        self.count_repeat(slot.turn);
        self.deduplicated(slot, rule, out);
        self.answer_again(slot, settled, is_owed, out);
    }

    fn answer_again(
        &mut self,
        slot: &Slot,
        settled: &Settled,
        is_owed: bool,
        out: &mut Vec<Output>,
    ) {
        let mut response = (*settled.response).clone();
        response.meta.idempotent_cache_hit = true;
        response.meta.original_turn = Some(settled.turn);
        let replayed = Settled {
            response: Arc::new(response),
            answered_on: Some(slot.generation),
            repeats: Some(settled.response.clone()),
            ..settled.clone()
        };
        let recorded = Settled {
            answered_on: Some(slot.generation),
            ..settled.clone()
        };
        let state = DeliveryState::Settled(recorded);
        self.calls.deliveries.remember(slot.clone(), state);
        let scheduling = self.scheduling_of_answer(slot, settled.response.is_ok());
        self.answer(slot.clone(), replayed, scheduling, is_owed, true, out);
        self.wind_up(slot.turn, out);
    }

    fn deduplicated(&mut self, slot: &Slot, rule: DuplicateRule, out: &mut Vec<Output>) {
        let (call, tool) = (slot.number, slot.name.clone());
        out.push(Output::Event(SessionEvent::CallDeduplicated {
            call,
            rule,
            tool,
        }));
    }

    fn count_repeat(&mut self, turn: u64) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.summary.repeats += 1;
        }
    }
}

// The ledger is asked, and answers.
impl Session {
    fn request(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        let (nonce, effect_id) = self.mint();
        let request = Request {
            nonce,
            effect_id: effect_id.clone(),
            leg: self.config.leg(),
            call: call.number().0,
            tool: tool_facts(call.tool()),
            arguments: Sensitive(canonical(call.arguments())),
            effect_arguments: Sensitive(self.effect_arguments(&call)),
            origin: RequestOrigin::Model {
                delivery: self.delivery_id(call.delivered()),
                generation: self.ledger_generation(call.delivered()),
            },
            onset: call.onset,
            may_run: call.refusal.is_none(),
            needs_consent: call.tool().requires_confirmation,
            ignores_external_content: call.tool().is_exempt_from_external_content_rule(),
            can_ask: self.can_ask(),
            mode: self.config.mode,
            preview: Sensitive(preview(call.tool(), call.arguments()).unwrap_or_default()),
            lease_ms: lease_ms(call.tool()),
            question_ms: self.question_ms(),
            intent: self.intent(call.number(), call.turn(), false),
        };
        let number = call.number();
        self.await_decision(&mut call, nonce, effect_id);
        self.calls.open(call);
        out.push(Output::Request {
            call: number,
            request: Box::new(request),
        });
    }

    /// Waits for the ledger, and for the handler that it may have asked first.
    fn await_decision(
        &mut self,
        call: &mut Call,
        nonce: windlass_store::Nonce,
        effect_id: EffectId,
    ) {
        let lookup_ms = match call.tool().handler.outcome_lookup().is_some() {
            true => call.tool().timeout_ms,
            false => 0,
        };
        let patience = self
            .config
            .limits
            .reserve_timeout_ms
            .saturating_add(lookup_ms);
        self.set_deadline(
            Deadline::Store(call.number()),
            Duration::from_millis(patience),
        );
        call.phase = Phase::Deciding { nonce, effect_id };
    }

    /// The arguments that say which effect is meant. A block is of one session.
    fn effect_arguments(&self, call: &Call) -> String {
        let meant = call.tool().effect_arguments(call.arguments());
        match call.tool().id.as_str() == BLOCKING_TOOL {
            true => format!("{} {meant}", self.config.session_id),
            false => meant,
        }
    }

    /// By text each turn is an exchange of its own, and some servers begin their ids anew in each.
    fn delivery_id(&self, delivered: &Delivered) -> String {
        match self.config.mode {
            Mode::Voice => delivered.key.to_string(),
            Mode::Text => format!("{}/{}", delivered.turn, *delivered.key),
        }
    }

    /// Connections of a process that goes on with the session are later than those before, whose numbers it does not know.
    fn ledger_generation(&self, delivered: &Delivered) -> u64 {
        self.numbers_of_epochs_before() + delivered.generation
    }

    /// Whether there is somebody to ask, and no more wait for an answer than may.
    fn can_ask(&self) -> bool {
        let open = self.approvals.open().count();
        self.config.can_ask && open < self.config.limits.open_confirmations_max
    }

    fn question_ms(&self) -> u64 {
        self.config
            .limits
            .confirmation_seconds
            .saturating_mul(1_000)
    }

    /// What the audit is to know of an intention.
    fn intent(&self, call: CallNumber, turn: u64, confirmed: bool) -> Sensitive<String> {
        let intent = json!({
            "sessionId": self.config.session_id,
            "callId": call.to_string(),
            "turn": turn,
            "mode": self.config.mode.as_str(),
            "confirmed": confirmed,
        });
        Sensitive(intent.to_string())
    }

    pub(super) fn on_decided(
        &mut self,
        number: CallNumber,
        reply: Result<Box<Reply>, StoreProblem>,
        out: &mut Vec<Output>,
    ) {
        if let Some(pending) = self.approvals.take_pending(number) {
            self.deadlines.clear(Deadline::Store(number));
            return self.on_answer_taken(pending, reply, out);
        }
        let waits = |phase: &Phase| matches!(phase, Phase::Deciding { .. } | Phase::Retrying(_));
        let Some(mut call) = self.calls.take_in(number, waits) else {
            return;
        };
        self.deadlines.clear(Deadline::Store(number));
        let reply = match reply {
            Ok(reply) => *reply,
            Err(problem) => return self.store_failed(call, &problem, out),
        };
        if let Phase::Retrying(_) = call.phase {
            return self.on_retry_decided(call, reply, out);
        }
        call.phase = Phase::Admission;
        match reply {
            Reply::Run(run) => self.on_run(call, *run, out),
            Reply::Attach(effect) => self.attach(call, &effect, out),
            reply if call.is_approved() => self.end_approved(call, reply, out),
            Reply::Ask(asked) => self.ask(call, *asked, out),
            Reply::Replay(effect) => {
                let settled = self.told_again(&effect);
                self.answer_known(call, settled, DuplicateRule::SameEffectFinished, out);
                self.link.notices.forget(Some(&effect.effect_id), None);
            }
            Reply::Unknown(effect) => {
                let error = confirm::unknown(call.tool(), &effect);
                let settled = self.known_error(&call, error, Some(effect.effect_id.clone()));
                self.answer_known(call, settled, DuplicateRule::SameEffectFinished, out);
            }
            Reply::Denied(question) => {
                let error = confirm::denied(call.tool().id.as_str(), &question);
                let settled = self.known_error(&call, error, None);
                self.answer_known(call, settled, DuplicateRule::SameEffectDenied, out);
                self.link.notices.forget(None, Some(question.number));
            }
            Reply::Conflict => {
                let slot = call.slot();
                self.give_back(&mut call);
                self.record_conflict(slot, out);
                self.decide_next(call.delivered().batch, out);
            }
            Reply::Refused(refusal) => self.on_refused(call, refusal, out),
            reply => {
                let problem = StoreProblem {
                    problem: format!("the ledger did not decide: {}", name_of(&reply)),
                };
                self.store_failed(call, &problem, out);
            }
        }
    }

    fn on_refused(&mut self, mut call: Box<Call>, refusal: Refusal, out: &mut Vec<Output>) {
        let id = call.tool().id.clone();
        let error = match refusal {
            Refusal::NotAllowed => call.refusal.take().unwrap_or_else(|| {
                CallError::new(ErrorType::BudgetExceeded, format!("{id} may not run now"))
            }),
            Refusal::NobodyToAsk if self.approvals.open().next().is_some() => {
                confirm::too_many(call.tool())
            }
            Refusal::NobodyToAsk | Refusal::NestedConsent => confirm::nobody(call.tool()),
            Refusal::Full => CallError::new(
                ErrorType::BudgetExceeded,
                format!("{id} was not started: this conversation has changed too much today"),
            ),
            Refusal::TooManyQuestions => confirm::too_many(call.tool()),
            Refusal::TooLong => CallError::new(
                ErrorType::Validation,
                format!(
                    "the arguments of {id} are too long to ask the user about: use shorter ones"
                ),
            ),
            Refusal::Abandoned => CallError::new(
                ErrorType::Transient,
                format!("{id} was not started: the store answered too late"),
            ),
        };
        self.refuse_call(call, error, Charge::Already, out);
    }

    /// No change starts without the ledger.
    fn store_failed(&mut self, mut call: Box<Call>, problem: &StoreProblem, out: &mut Vec<Output>) {
        // The attempt before the one that was asked for has failed for certain.
        let failed = take_run(&mut call);
        let id = &call.tool().id;
        let message = match &failed {
            Some(_) => format!("{id} failed, and was not tried again: the store does not answer"),
            None => format!("{id} was not started: the store does not answer"),
        };
        out.push(Output::Event(SessionEvent::HandlerProblem {
            call: call.number(),
            tool: call.tool().id.clone(),
            problem: problem.to_string(),
        }));
        let error = CallError::new(ErrorType::Transient, message);
        if failed.is_none() {
            self.give_back(&mut call);
        }
        self.settle(call, failure(error, None), failed, out);
    }

    /// The store has not answered in time.
    pub(super) fn on_store_timeout(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let problem = StoreProblem {
            problem: "it has not answered in time".to_owned(),
        };
        if let Some(pending) = self.approvals.take_pending(number) {
            out.push(Output::Abandon {
                nonce: pending.nonce,
                effect_id: pending.effect_id.clone(),
            });
            return self.on_answer_taken(pending, Err(problem), out);
        }
        let waits = |phase: &Phase| {
            matches!(
                phase,
                Phase::Deciding { .. } | Phase::Retrying(_) | Phase::Recording(_)
            )
        };
        let Some(mut call) = self.calls.take_in(number, waits) else {
            return;
        };
        match std::mem::replace(&mut call.phase, Phase::Admission) {
            Phase::Recording(concluded) => self.unacknowledged(call, *concluded, out),
            Phase::Retrying(retrying) => {
                out.push(Output::Abandon {
                    nonce: retrying.nonce,
                    effect_id: retrying.run.effect_id.clone(),
                });
                call.phase = Phase::Retrying(retrying);
                self.store_failed(call, &problem, out);
            }
            Phase::Deciding { nonce, effect_id } => {
                out.push(Output::Abandon { nonce, effect_id });
                self.store_failed(call, &problem, out);
            }
            _ => {}
        }
    }

    /// The attempt is this call's.
    fn on_run(&mut self, call: Box<Call>, run: Run, out: &mut Vec<Output>) {
        let question = call.question().map(|question| question.number);
        let effect_run = run.effect_id.map(|effect_id| EffectRun {
            effect_id,
            attempt: run.attempt,
            lease_end_unix_ms: run.lease_end_unix_ms,
            question,
        });
        if let (Some(number), Some(run)) = (question, &effect_run) {
            self.approvals.approved(number, Some(run.effect_id.clone()));
            // What was told of an earlier run is not what comes of this one.
            self.link.notices.forget(Some(&run.effect_id), None);
        }
        if call.is_taken_back {
            return self.cancel(call, effect_run, out);
        }
        if let Some(limit) = call.tool().rate_limit {
            out.push(Output::CheckRate {
                call: call.number(),
                tool: call.tool().id.clone(),
                limit,
                charge: RateCharge::Note,
            });
        }
        self.note_run(&call);
        if call.is_approved() {
            out.push(Output::Event(SessionEvent::ConfirmationResolved {
                call: Some(call.number()),
                resolution: Resolution::Approved,
            }));
        }
        self.start(call, effect_run, out);
    }

    /// Another attempt at the same effect is running: the call waits for its end.
    fn attach(&mut self, mut call: Box<Call>, effect: &Effect, out: &mut Vec<Output>) {
        if call.is_taken_back {
            return self.cancel(call, None, out);
        }
        self.give_back(&mut call);
        if !call.is_approved() && !std::mem::replace(&mut call.has_waited, true) {
            self.count_repeat(call.turn());
            self.deduplicated(&call.slot(), DuplicateRule::SameEffectRunning, out);
        }
        self.await_lease(call.number(), effect);
        call.phase = Phase::Attached(effect.effect_id.clone());
        let (batch, turn) = (call.delivered().batch, call.turn());
        self.calls.open(call);
        self.decide_next(batch, out);
        self.wind_up(turn, out);
    }

    fn await_lease(&mut self, number: CallNumber, effect: &Effect) {
        let left_ms = effect
            .newest_attempt()
            .lease_end_unix_ms
            .saturating_sub(self.unix_ms());
        // A moment more, so that the lease is over by the store's clock, too.
        let left = Duration::from_millis(left_ms.saturating_add(100));
        self.set_deadline(Deadline::Lease(number), left);
    }

    /// The effect that a call waits for has come to an end, or its lease has.
    pub(super) fn ask_again(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let waits = |phase: &Phase| matches!(phase, Phase::Attached(_));
        let Some(mut call) = self.calls.take_in(number, waits) else {
            return;
        };
        self.deadlines.clear(Deadline::Lease(number));
        call.phase = Phase::Admission;
        if call.is_approved() {
            return self.send_answer(call, out);
        }
        // It was given its charge back while it waited.
        if call.refusal.is_none() {
            call.refusal = self.spend(&mut call).err();
        }
        self.request(call, out);
    }

    /// The user is asked; the model is answered at once.
    fn ask(&mut self, mut call: Box<Call>, asked: Asked, out: &mut Vec<Output>) {
        let Asked {
            question,
            is_repeated,
            ..
        } = asked;
        if call.is_taken_back {
            out.push(Output::Withdraw(vec![question.number]));
            return self.cancel(call, None, out);
        }
        let error = confirm::required(call.tool(), &question.hazards);
        // One that another session of the conversation put is new to this one's client.
        if is_repeated && self.approvals.get(question.number).is_some() {
            let settled = self.known_error(&call, error, None);
            return self.answer_known(call, settled, DuplicateRule::SameEffectAsked, out);
        }
        // The client knows the question by the number of this call.
        call.refusal = None;
        let (number, turn) = (call.number(), call.turn());
        let slot = call.slot();
        self.refuse_call(call, error, Charge::Already, out);
        self.approvals.ask(AskedQuestion {
            number: question.number,
            call: number,
            tool: question.tool.clone(),
            turn,
            effect_id: None,
            slot,
            refused: None,
        });
        self.show_question(&question, out);
    }

    /// What the record of a question says of its call: its arguments where its tool would still take them.
    pub(super) fn slot_of(&self, question: &Question, call: CallNumber) -> Slot {
        let delivered = Delivered {
            number: call,
            batch: 0,
            key: DeliveryKey::Question(CallNumber(question.call)).into(),
            unstable_id: None,
            name: question.tool.as_str().into(),
            turn: self.turns.last_number(),
            generation: 0,
        };
        let Some(tool) = self.config.registry.get(question.tool.as_str()) else {
            return Slot::unreadable(delivered);
        };
        let arguments = arguments_of(question.arguments.expose());
        if !tool.parameters.argument_violations(&arguments).is_empty() {
            return Slot::refused(delivered, Some(tool.clone()), Some(arguments));
        }
        Slot::Valid(Arc::new(CallFacts {
            delivered,
            tool: tool.clone(),
            completed: Completed {
                arguments: Sensitive(Arc::new(arguments)),
                defaults_applied: Arc::default(),
                clamped: None,
            },
        }))
    }

    /// Puts a question before the client.
    pub(super) fn show_question(&mut self, question: &Question, out: &mut Vec<Output>) {
        let left_ms = question.expires_at_unix_ms.saturating_sub(self.unix_ms());
        let left_ms = left_ms.min(self.question_ms());
        self.set_deadline(
            Deadline::Question(question.number),
            Duration::from_millis(left_ms),
        );
        let call = self.call_of(question);
        out.push(Output::Event(SessionEvent::ConfirmationRequested {
            call,
            tool: question.tool.clone(),
            expires_at_unix_ms: question.expires_at_unix_ms,
        }));
        let preview = question.preview.expose();
        let asked = ConfirmationQuestion {
            call,
            question: question.number,
            tool: question.tool.clone(),
            arguments: Sensitive(Arc::new(arguments_of(question.arguments.expose()))),
            preview: (!preview.is_empty()).then(|| question.preview.clone()),
            warning: warning(question),
            expires_at_unix_ms: question.expires_at_unix_ms,
        };
        let update = ClientUpdate::ConfirmationRequest(Box::new(asked));
        out.push(Output::SendClient(update));
    }

    /// The number of an approval request's call, as this session's client knows it.
    fn call_of(&self, question: &Question) -> CallNumber {
        let asked = self.approvals.get(question.number);
        asked.map_or(CallNumber(question.call), |asked| asked.call)
    }

    /// Answers a call, and what joined it, from what the ledger knows. It costs nothing but a repeat.
    fn answer_known(
        &mut self,
        mut call: Box<Call>,
        settled: Settled,
        rule: DuplicateRule,
        out: &mut Vec<Output>,
    ) {
        self.give_back(&mut call);
        let batch = call.delivered().batch;
        let is_spoken = call.spoken;
        match call.has_waited {
            true => self.answer_again(&call.slot(), &settled, is_spoken, out),
            false => self.replay(&call.slot(), &settled, is_spoken, rule, out),
        }
        for (slot, rule) in &call.attached {
            self.replay(slot, &settled, true, *rule, out);
        }
        self.hold_microphone(out);
        self.decide_next(batch, out);
        self.end_if_due(out);
    }

    /// What was done, as the model reads it once more.
    fn told_again(&self, effect: &Effect) -> Settled {
        let mut settled = self.settled_of(effect);
        if effect.state == EffectState::Done {
            settled.note = Some(confirm::told_again(effect).into());
        }
        settled
    }

    /// How an effect ended.
    pub(super) fn settled_of(&self, effect: &Effect) -> Settled {
        let tool = self.config.registry.get(effect.tool.as_str());
        let reach = tool.map_or(Reach::External, |tool| tool.reach);
        let response = self.response_of(effect);
        let turn = self.turns.last_number();
        Settled::outcome(response, turn, reach, Some(effect.effect_id.clone()))
    }

    /// The recorded answer, or what is known where it was not kept.
    fn response_of(&self, effect: &Effect) -> Arc<ToolResponse> {
        let id = &effect.tool;
        if effect.state != EffectState::Unknown
            && let Some(receipt) = &effect.receipt
            && let Ok(mut response) = serde_json::from_str::<ToolResponse>(receipt.expose())
        {
            // What it asked of a session was done then.
            response.intents.clear();
            return Arc::new(response);
        }
        let outcome = match effect.state {
            EffectState::Done => Outcome::Success {
                data: Some(json!({ "note": "It was done. Its details are not kept." }).into()),
                content: Vec::new(),
            },
            EffectState::NotDone => {
                let error = CallError::new(ErrorType::Cancelled, format!("{id} was not done"));
                Outcome::Failure(error.into())
            }
            EffectState::Running | EffectState::Unknown => {
                let message = format!("{id} was started, and how it ended is not known");
                let error = CallError::new(ErrorType::OutcomeUnknown, message);
                Outcome::Failure(error.into())
            }
        };
        let mut response = (*self.response_without_tool(
            id.as_str(),
            CallError::new(ErrorType::OutcomeUnknown, String::new()),
        ))
        .clone();
        response.outcome = outcome;
        Arc::new(response)
    }

    /// An answer that the ledger has for a call, in the form of an error.
    fn known_error(&self, call: &Call, error: CallError, effect_id: Option<EffectId>) -> Settled {
        let response = Arc::new(ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta: self.meta_of(call.tool()),
        });
        Settled {
            effect_id,
            ..Settled::refusal(response, call.turn())
        }
    }

    /// What neither runs nor asks has cost nothing.
    fn give_back(&mut self, call: &mut Call) {
        if std::mem::take(&mut call.is_charged)
            && let Some(turn) = self.turns.get_mut(call.turn())
        {
            turn.give_back(call.tool());
        }
    }

    /// The next `writes` call of a message that waited for its turn, unless one before it is not done.
    fn decide_next(&mut self, batch: u64, out: &mut Vec<Output>) {
        let next = self.calls.next_waiting(batch);
        if let Some(call) = next.and_then(|next| self.calls.take(next)) {
            if self.calls.write_before(call.delivered()) {
                self.calls.open(call);
            } else {
                self.decide(call, out);
            }
        }
    }
}

// The user answers questions.
impl Session {
    pub(super) fn on_answered(
        &mut self,
        question: Option<Box<Question>>,
        approved: bool,
        out: &mut Vec<Output>,
    ) {
        let Some(question) = question else {
            return self.refuse_token(None, out);
        };
        // Nothing begins in a session that is over.
        if self.lifecycle != Lifecycle::Running {
            let message = "this session has ended; send the answer again";
            let error = CallError::new(ErrorType::Transient, message);
            return self.tell_result(&question, error, Resolution::Refused, out);
        }
        // Clicks on one button have one answer.
        if approved && self.calls.answers(question.number) {
            return self.approvals.click(question.number);
        }
        let open = self.calls.approved() + self.approvals.pending();
        if open >= self.config.limits.open_confirmations_max {
            let message = format!("{open} answers are being carried out; send this one again");
            let error = CallError::new(ErrorType::Transient, message);
            return self.tell_result(&question, error, Resolution::Refused, out);
        }
        if !approved {
            return self.send_plain_answer(question, false, out);
        }
        // Everything that may have changed is checked again.
        match self.facts_of(&question) {
            Some(facts) => {
                let origin = Origin::Approval(question);
                let call = Box::new(Call::new(facts, origin, false));
                self.check_rate(call, out);
            }
            // The ledger says that the tool is not the one that was approved.
            None => self.send_plain_answer(question, true, out),
        }
    }

    /// What runs if the approval counts: the arguments that were shown. `None` where the tool is gone, is not for this mode, or
    /// would not take them any more.
    fn facts_of(&mut self, question: &Question) -> Option<Arc<CallFacts>> {
        let tool = self.config.registry.get(question.tool.as_str())?;
        if *tool.version != *question.tool_version || !tool.allows(question.mode) {
            return None;
        }
        let known = self.approvals.get(question.number).map(|asked| asked.call);
        let number = known.filter(|call| self.calls.get(*call).is_none());
        let number = number.unwrap_or_else(|| self.calls.next_number());
        match self.slot_of(question, number) {
            Slot::Valid(facts) => Some(facts),
            Slot::Invalid(_) | Slot::Unexamined(_) => None,
        }
    }

    /// Tells the ledger that the user has approved, and whether the call may run.
    fn send_answer(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        let (nonce, effect_id) = self.mint();
        let Some(question) = call.question().map(|question| question.number) else {
            return;
        };
        let approval = Approval {
            tool: Some(tool_facts(call.tool())),
            may_run: call.refusal.is_none(),
            lease_ms: lease_ms(call.tool()),
            question_ms: self.question_ms(),
            intent: self.intent(call.number(), call.turn(), true),
        };
        let number = call.number();
        self.await_decision(&mut call, nonce, effect_id.clone());
        self.calls.open(call);
        out.push(Output::Answer {
            call: number,
            question,
            answer: Box::new(AnswerRequest {
                nonce,
                effect_id,
                verdict: AnswerVerdict::Approved(Box::new(approval)),
            }),
        });
    }

    /// Tells the ledger an answer for which nothing can run: a denial, or an approval of a tool that is gone.
    fn send_plain_answer(
        &mut self,
        question: Box<Question>,
        approved: bool,
        out: &mut Vec<Output>,
    ) {
        let (nonce, effect_id) = self.mint();
        let number = self.calls.next_number();
        let verdict = match approved {
            false => AnswerVerdict::Denied,
            true => AnswerVerdict::Approved(Box::new(Approval {
                tool: None,
                may_run: false,
                lease_ms: 0,
                question_ms: self.question_ms(),
                intent: self.intent(number, self.turns.last_number(), true),
            })),
        };
        let patience = Duration::from_millis(self.config.limits.reserve_timeout_ms);
        self.set_deadline(Deadline::Store(number), patience);
        out.push(Output::Answer {
            call: number,
            question: question.number,
            answer: Box::new(AnswerRequest {
                nonce,
                effect_id: effect_id.clone(),
                verdict,
            }),
        });
        self.approvals.wait(PendingAnswer {
            number,
            question,
            nonce,
            effect_id,
            approved,
        });
    }

    /// The ledger has taken an answer for which nothing runs, or has not.
    fn on_answer_taken(
        &mut self,
        pending: PendingAnswer,
        reply: Result<Box<Reply>, StoreProblem>,
        out: &mut Vec<Output>,
    ) {
        let question = pending.question;
        let reply = match reply {
            Ok(reply) => *reply,
            Err(_) => {
                let what = match pending.approved {
                    true => "your approval",
                    false => "your denial",
                };
                let message = format!("{what} could not be stored; send it again");
                let error = CallError::new(ErrorType::Transient, message);
                return self.tell_result(&question, error, Resolution::Refused, out);
            }
        };
        if let Reply::Denied(denied) = &reply
            && !pending.approved
        {
            self.end_question(&question, Resolution::Declined, out);
            let error = confirm::denied(question.tool.as_str(), denied);
            let response = self.response_without_tool(question.tool.as_str(), error);
            self.record_denial(&question, pending.number, &response, out);
            self.tell_client(&question, response, out);
            self.tell_of_denial(denied, out);
            return;
        }
        self.tell_reply(&question, reply, out);
    }

    /// An approval came to something else than a run of its own.
    fn end_approved(&mut self, call: Box<Call>, reply: Reply, out: &mut Vec<Output>) {
        let question = match call.origin {
            Origin::Approval(question) => question,
            Origin::Model => return,
        };
        if let Reply::Refused(Refusal::NotAllowed) = reply
            && let Some(error) = call.refusal
        {
            // However often it comes too soon, it is told of once.
            let error_type = error.error_type;
            if self.approvals.is_refused_anew(question.number, error_type) {
                let response = self.response_without_tool(question.tool.as_str(), error.clone());
                let record = call_record(Slot::Valid(call.facts), &response);
                out.push(Output::Event(SessionEvent::CallRejected(record)));
            }
            return self.tell_result(&question, error, Resolution::Refused, out);
        }
        self.tell_reply(&question, reply, out);
    }

    /// Tells the client what the ledger says to an answer.
    fn tell_reply(&mut self, question: &Question, reply: Reply, out: &mut Vec<Output>) {
        let tool = question.tool.as_str();
        let error = match reply {
            Reply::Replay(effect) | Reply::Unknown(effect) => {
                let settled = self.settled_of(&effect);
                self.tell_client(question, settled.response.clone(), out);
                return self.tell_of_end(question, &settled, out);
            }
            Reply::Denied(denied) => confirm::denied(tool, &denied),
            Reply::Ask(asked) => {
                self.forget_question(question.number);
                let asked = asked.question;
                // Another session's number may be that of a call of this one.
                let call = match asked.leg == self.config.session_id {
                    true => CallNumber(asked.call),
                    false => self.calls.next_number(),
                };
                self.approvals.ask(AskedQuestion {
                    number: asked.number,
                    call,
                    tool: asked.tool.clone(),
                    turn: self.turns.last_number(),
                    effect_id: None,
                    slot: self.slot_of(&asked, call),
                    refused: None,
                });
                self.show_question(&asked, out);
                CallError::new(
                    ErrorType::ConfirmationRequired,
                    format!(
                        "something has changed since you were asked about {tool}: see the new question"
                    ),
                )
            }
            Reply::Changed(_) => {
                self.forget_question(question.number);
                CallError::new(
                    ErrorType::ConfirmationExpired,
                    format!(
                        "{tool} has changed since you were asked, so that this approval does not count; ask for it again"
                    ),
                )
            }
            Reply::Attach(_) => CallError::new(
                ErrorType::Conflict,
                format!("{tool} was approved before, and is running"),
            ),
            Reply::Answered => CallError::new(
                ErrorType::ConfirmationExpired,
                format!("this approval of {tool} was used before"),
            ),
            Reply::Refused(Refusal::Full) => CallError::new(
                ErrorType::BudgetExceeded,
                format!("{tool} was not started: this conversation has changed too much today"),
            ),
            Reply::Refused(Refusal::TooManyQuestions) => CallError::new(
                ErrorType::ConfirmationRequired,
                "too many questions wait for you already; answer those first",
            ),
            Reply::Refused(_) => CallError::new(
                ErrorType::Transient,
                "the store answered too late; send the answer again",
            ),
            _ => return self.refuse_token(Some(question), out),
        };
        self.tell_result(question, error, Resolution::Refused, out);
    }

    /// A token that does not count: nothing runs, and a stranger learns nothing.
    fn refuse_token(&mut self, question: Option<&Question>, out: &mut Vec<Output>) {
        let error = CallError::new(
            ErrorType::ConfirmationExpired,
            "this approval is not valid, or not valid any more",
        );
        if let Some(question) = question {
            return self.tell_result(question, error, Resolution::Refused, out);
        }
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: None,
            resolution: Resolution::Refused,
        }));
        let response = self.response_without_tool("confirm", error);
        out.push(Output::SendClient(ClientUpdate::ConfirmationResult {
            call: None,
            response: Sensitive(response),
        }));
    }

    fn tell_result(
        &mut self,
        question: &Question,
        error: CallError,
        resolution: Resolution,
        out: &mut Vec<Output>,
    ) {
        let call = Some(self.call_of(question));
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call,
            resolution,
        }));
        let response = self.response_without_tool(question.tool.as_str(), error);
        self.tell_client(question, response, out);
    }

    /// The call about which the user was asked has ended with a no; one that was said before has its record.
    fn record_denial(
        &self,
        question: &Question,
        number: CallNumber,
        response: &Arc<ToolResponse>,
        out: &mut Vec<Output>,
    ) {
        let slot = match self.approvals.get(question.number) {
            Some(asked) => asked.slot.clone(),
            None if question.leg != self.config.session_id
                && question.state == QuestionState::Open =>
            {
                self.slot_of(question, number)
            }
            None => return,
        };
        let record = call_record(slot, response);
        out.push(Output::Event(SessionEvent::CallRejected(record)));
    }

    fn tell_client(
        &mut self,
        question: &Question,
        response: Arc<ToolResponse>,
        out: &mut Vec<Output>,
    ) {
        let call = Some(self.call_of(question));
        // Those who approved it wait for what comes of its call.
        let clicks = match self.calls.answers(question.number) {
            true => 0,
            false => self.approvals.take_clicks(question.number),
        };
        for _ in 0..=clicks {
            out.push(Output::SendClient(ClientUpdate::ConfirmationResult {
                call,
                response: Sensitive(response.clone()),
            }));
        }
    }

    /// The question is answered, as far as this session's client is concerned.
    fn end_question(&mut self, question: &Question, resolution: Resolution, out: &mut Vec<Output>) {
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(self.call_of(question)),
            resolution,
        }));
    }

    fn forget_question(&mut self, number: QuestionNumber) -> Option<AskedQuestion> {
        self.deadlines.clear(Deadline::Question(number));
        self.approvals.take(number)
    }

    /// The model of the session that asked is told that the user said no.
    fn tell_of_denial(&mut self, question: &Question, out: &mut Vec<Output>) {
        let asked = self.forget_question(question.number);
        if !self.is_mine(question) {
            return;
        }
        let turn = asked.map_or_else(|| self.turns.last_number(), |asked| asked.turn);
        let text = format!(
            "The user was asked whether {} may run with {} and said no. It has not run. Do not call it again unless the user asks for it.",
            question.tool,
            confirm::shown(&question.arguments)
        );
        let notice = Notice {
            turn,
            effect_id: None,
            question: Some(question.number),
            text,
        };
        self.notify(notice, out);
    }

    pub(super) fn on_question_expired(&mut self, number: QuestionNumber, out: &mut Vec<Output>) {
        let Some(asked) = self.approvals.take(number) else {
            return;
        };
        if asked.effect_id.is_some() {
            // It was approved: its end is still to be told.
            return self.approvals.ask(asked);
        }
        let error = CallError::new(
            ErrorType::ConfirmationExpired,
            "the user did not answer in time",
        );
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(asked.call),
            resolution: Resolution::Expired,
        }));
        let response = self.response_without_tool(asked.tool.as_str(), error);
        let record = call_record(asked.slot, &response);
        out.push(Output::Event(SessionEvent::CallRejected(record)));
        out.push(Output::SendClient(ClientUpdate::ConfirmationResult {
            call: Some(asked.call),
            response: Sensitive(response),
        }));
    }

    /// The session ends for good: nobody asks its questions any more.
    pub(super) fn withdraw_all(&mut self, out: &mut Vec<Output>) {
        // What was approved and changes nothing runs to its end.
        let is_open = |number: &QuestionNumber| !self.calls.answers(*number);
        let asked = self.approvals.open().map(|asked| asked.number);
        let open: Vec<QuestionNumber> = asked.filter(is_open).collect();
        if open.is_empty() {
            return;
        }
        for number in &open {
            let Some(asked) = self.forget_question(*number) else {
                continue;
            };
            out.push(Output::Event(SessionEvent::ConfirmationResolved {
                call: Some(asked.call),
                resolution: Resolution::Withdrawn,
            }));
            let message = "the session ended before the user answered";
            let error = CallError::new(ErrorType::Cancelled, message);
            let response = self.response_without_tool(asked.tool.as_str(), error);
            let record = call_record(asked.slot, &response);
            out.push(Output::Event(SessionEvent::CallCancelled(record)));
        }
        out.push(Output::Withdraw(open));
    }
}

// What the log says.
impl Session {
    pub(super) fn on_news(&mut self, news: News, out: &mut Vec<Output>) {
        match news {
            News::Effect(effect) => self.on_effect_news(&effect, out),
            News::Question(question) => self.on_question_news(&question, out),
            News::Asked(request) => {
                let asked = self.approvals.get(request.question);
                let call = asked.map_or(CallNumber(0), |asked| asked.call);
                self.apply_intents(call, &request.intents, out);
                self.end_if_due(out);
            }
        }
    }

    fn on_effect_news(&mut self, effect: &Effect, out: &mut Vec<Output>) {
        let waiting = self.calls.attached_to(&effect.effect_id);
        if effect.state == EffectState::Running {
            for number in waiting {
                self.await_lease(number, effect);
            }
            return;
        }
        for number in waiting {
            self.ask_again(number, out);
        }
        self.correct_untold(effect);
        // A run of this session's own is told when its outcome is stored.
        if !self.calls.runs(&effect.effect_id) {
            self.tell_of_approved(effect, out);
        }
    }

    /// A question of this session was approved another way, and this is what came of it.
    fn tell_of_approved(&mut self, effect: &Effect, out: &mut Vec<Output>) {
        let by_attempt = effect.newest_attempt().question;
        let asked = self
            .approvals
            .of_effect(&effect.effect_id)
            .map(|asked| asked.number);
        let Some(number) = asked.or(by_attempt) else {
            return;
        };
        let Some(asked) = self.forget_question(number) else {
            return;
        };
        let settled = self.settled_of(effect);
        out.push(Output::SendClient(ClientUpdate::ConfirmationResult {
            call: Some(asked.call),
            response: Sensitive(settled.response.clone()),
        }));
        let approved = Approved {
            turn: asked.turn,
            question: number,
            tool: asked.tool.as_str(),
        };
        self.notify_approved(&approved, &settled, out);
    }

    fn on_question_news(&mut self, question: &Question, out: &mut Vec<Output>) {
        if self.approvals.get(question.number).is_none() {
            return;
        }
        match question.state {
            QuestionState::Open => {}
            QuestionState::Approved => {
                self.deadlines.clear(Deadline::Question(question.number));
                self.approvals
                    .approved(question.number, question.effect_id.clone());
                if question.effect_id.is_none() && !self.calls.answers(question.number) {
                    self.tell_of_approved_read(question, out);
                }
            }
            QuestionState::Denied => {
                self.end_question(question, Resolution::Declined, out);
                self.tell_of_answer(question, out);
            }
            QuestionState::Closed => {
                let resolution = Resolution::Withdrawn;
                let (error_type, message) = match question.effect_id {
                    Some(_) => (
                        ErrorType::Conflict,
                        "this was done meanwhile, and nothing more is asked",
                    ),
                    None => (
                        ErrorType::ConfirmationExpired,
                        "the question is not open any more",
                    ),
                };
                let error = CallError::new(error_type, message);
                self.tell_result(question, error, resolution, out);
                self.forget_question(question.number);
            }
        }
    }

    /// A question about a tool that changes nothing was approved elsewhere: what it found was told there, and is kept nowhere.
    fn tell_of_approved_read(&mut self, question: &Question, out: &mut Vec<Output>) {
        let Some(asked) = self.forget_question(question.number) else {
            return;
        };
        let version = self.config.registry.version().clone();
        let tool = asked.tool.as_str();
        out.push(Output::SendClient(ClientUpdate::ConfirmationResult {
            call: Some(asked.call),
            response: Sensitive(Arc::new(ToolResponse {
                outcome: Outcome::Success {
                    data: None,
                    content: Vec::new(),
                },
                intents: Vec::new(),
                meta: envelope::meta_without_tool(tool, version, self.unix_ms()),
            })),
        }));
        let text = format!(
            "The user approved the call of {tool} elsewhere, and its result was shown there. Nobody has it any more."
        );
        let notice = Notice {
            turn: asked.turn,
            effect_id: None,
            question: Some(question.number),
            text,
        };
        self.notify(notice, out);
    }

    /// A question of this session was approved, and nobody here has heard what came of it.
    pub(super) fn tell_of_earlier_approval(
        &mut self,
        question: &Question,
        effect: &Effect,
        out: &mut Vec<Output>,
    ) {
        let settled = self.settled_of(effect);
        self.tell_client(question, settled.response.clone(), out);
        let approved = Approved {
            turn: self.turns.last_number(),
            question: question.number,
            tool: question.tool.as_str(),
        };
        self.notify_approved(&approved, &settled, out);
    }

    /// The user denied a question of this session, wherever that was.
    pub(super) fn tell_of_answer(&mut self, question: &Question, out: &mut Vec<Output>) {
        if question.state != QuestionState::Denied {
            return;
        }
        let error = confirm::denied(question.tool.as_str(), question);
        let response = self.response_without_tool(question.tool.as_str(), error);
        self.tell_client(question, response, out);
        self.tell_of_denial(question, out);
    }

    fn notify_approved(
        &mut self,
        approved: &Approved<'_>,
        settled: &Settled,
        out: &mut Vec<Output>,
    ) {
        let tool = approved.tool;
        let result = self.result_text(settled);
        let text = match settled.response.error_type() {
            None => format!(
                "The user approved the call of {tool}, and it has run. Its result: {result}"
            ),
            Some(ErrorType::OutcomeUnknown) => format!(
                "The user approved the call of {tool}, and nobody knows whether it has happened: {result}"
            ),
            Some(_) => format!("The user approved the call of {tool}. It did not work: {result}"),
        };
        self.note_external(settled, out);
        let notice = Notice {
            turn: approved.turn,
            effect_id: settled.effect_id.clone(),
            question: Some(approved.question),
            text,
        };
        self.notify(notice, out);
    }
}

// Attempts end.
impl Session {
    pub(super) fn on_call_finished(
        &mut self,
        attempt: CallRef,
        result: HandlerResult,
        out: &mut Vec<Output>,
    ) {
        let is_awaited = self.calls.get(attempt.call).is_some_and(|open| {
            open.call_ref() == attempt && matches!(open.phase, Phase::Running(_))
        });
        let Some(mut call) = is_awaited.then(|| self.calls.take(attempt.call)).flatten() else {
            return self.on_late_result(attempt, result, out);
        };
        self.deadlines.clear(Deadline::Attempt(attempt));
        let characters_max = self.config.limits.result_characters_max;
        let judged = judge(call.tool(), result, characters_max);
        let run = take_run(&mut call);
        self.settle_or_retry(call, judged, run, out);
    }

    pub(super) fn on_timeout(&mut self, attempt: CallRef, out: &mut Vec<Output>) {
        let runs = |phase: &Phase| matches!(phase, Phase::Running(_));
        let Some(mut call) = self.calls.take_in(attempt.call, runs) else {
            return;
        };
        // A started change runs on: what it returns later settles how it ended.
        out.push(Output::AbortCall {
            call: attempt,
            drop: !call.tool().writes(),
        });
        let error = timed_out(call.tool());
        let run = take_run(&mut call);
        if let Some(run) = run.clone() {
            self.calls.expect_late(LateAttempt {
                attempt,
                facts: call.facts.clone(),
                run,
            });
        }
        self.settle_or_retry(call, failure(error, None), run, out);
    }

    /// A result that came after its call had ended. It settles its effect, and is not spoken of.
    fn on_late_result(&mut self, attempt: CallRef, result: HandlerResult, out: &mut Vec<Output>) {
        out.push(Output::Event(SessionEvent::CallReturnedLate {
            call: attempt.call,
        }));
        let Some(late) = self.calls.take_late(attempt) else {
            return;
        };
        let tool = late.facts.tool.clone();
        let judged = judge(&tool, result, self.config.limits.result_characters_max);
        let mut meta = self.meta_of(&tool);
        meta.cut = judged.cut;
        let response = ToolResponse {
            outcome: judged.outcome,
            intents: Vec::new(),
            meta,
        };
        let outcome = outcome_of(&response);
        if outcome == AttemptOutcome::Unknown {
            return;
        }
        out.push(Output::Event(SessionEvent::EffectSettled {
            call: attempt.call,
            tool: tool.id.clone(),
            effect_id: late.run.effect_id.clone(),
            succeeded: outcome == AttemptOutcome::Succeeded,
        }));
        out.push(Output::Record {
            call: attempt.call,
            record: Box::new(Record {
                effect_id: late.run.effect_id,
                attempt: late.run.attempt,
                outcome,
                receipt: Some(receipt(&response)),
                asks: None,
            }),
        });
    }

    /// A failed attempt is repeated where that is safe and worth while.
    fn settle_or_retry(
        &mut self,
        mut call: Box<Call>,
        judged: Judged,
        run: Option<EffectRun>,
        out: &mut Vec<Output>,
    ) {
        let Some(delay) = self.delay_before_retry(&call, &judged) else {
            return self.settle(call, judged, run, out);
        };
        call.attempt += 1;
        call.phase = Phase::BackingOff(run);
        out.push(Output::Event(SessionEvent::CallRetried {
            call: call.number(),
            tool: call.tool().id.clone(),
            attempt: call.attempt,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        }));
        self.set_deadline(Deadline::Retry(call.number()), delay);
        self.calls.open(call);
    }

    fn delay_before_retry(&mut self, call: &Call, judged: &Judged) -> Option<Duration> {
        let Outcome::Failure(error) = &judged.outcome else {
            return None;
        };
        if !call.spoken {
            return None;
        }
        let turn = self.turns.get_mut(call.turn()).map(|turn| turn.started);
        let began = match call.is_approved() {
            true => call.started,
            false => turn.or(call.started),
        };
        let limits = &self.config.limits.turn;
        let last = began.unwrap_or(self.now) + Duration::from_millis(limits.retry_within_ms);
        retry_delay(&Failed {
            attempt: call.call_ref(),
            tool: call.tool(),
            error,
            mode: self.config.mode,
            limits,
            time_left: last.since(self.now),
            seed: self.seed,
        })
    }

    pub(super) fn on_retry_due(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let waits = |phase: &Phase| matches!(phase, Phase::BackingOff(_));
        let Some(mut call) = self.calls.take_in(number, waits) else {
            return;
        };
        let Some(run) = take_run(&mut call) else {
            return self.start(call, None, out);
        };
        let (nonce, _) = self.mint();
        out.push(Output::Retry {
            call: number,
            effect_id: run.effect_id.clone(),
            attempt: run.attempt,
            nonce,
            lease: Duration::from_millis(lease_ms(call.tool())),
        });
        let patience = Duration::from_millis(self.config.limits.reserve_timeout_ms);
        self.set_deadline(Deadline::Store(number), patience);
        call.phase = Phase::Retrying(Box::new(Retrying { run, nonce }));
        self.calls.open(call);
    }

    fn on_retry_decided(&mut self, mut call: Box<Call>, reply: Reply, out: &mut Vec<Output>) {
        let phase = std::mem::replace(&mut call.phase, Phase::Admission);
        let (Phase::Retrying(retrying), Reply::Run(run)) = (phase, &reply) else {
            // The attempt had lapsed meanwhile, or something else is known of the effect.
            let error = outcome_unknown(call.tool());
            return self.settle(call, failure(error, None), None, out);
        };
        let run = EffectRun {
            effect_id: retrying.run.effect_id,
            attempt: run.attempt,
            lease_end_unix_ms: run.lease_end_unix_ms,
            question: retrying.run.question,
        };
        match call.is_taken_back {
            true => self.cancel(call, Some(run), out),
            false => self.start(call, Some(run), out),
        }
    }

    pub(super) fn on_calls_cancelled(&mut self, ids: &[Arc<str>], out: &mut Vec<Output>) {
        let generation = self.link.generation;
        for id in ids {
            let keys = self.calls.keys_of(id, generation);
            self.link.closed_ids.close_all(id, &keys);
            let withdrawn = self.calls.withdraw_answer(id);
            self.link.closed_ids.withdraw(&withdrawn);
            self.link.forget_withdrawn(&withdrawn);
            for number in self.calls.by_provider_id(id, generation) {
                self.take_back(number, false, out);
            }
        }
    }

    /// Interruption takes back what has not begun of a change, and what says that it may be taken back. In text it means that
    /// nobody waits for the turn any more, so that everything is taken back that changes nothing.
    pub(super) fn cancel_on_interrupt(&mut self, out: &mut Vec<Output>) {
        let is_text = self.config.mode == Mode::Text;
        let is_cancelled = |call: &&Call| {
            if call.is_approved() {
                return false;
            }
            match call.tool().writes() {
                true => !call.has_begun(),
                false => is_text || call.tool().on_interrupt == OnInterrupt::Cancel,
            }
        };
        let cancelled: Vec<CallNumber> = self
            .calls
            .iter()
            .filter(is_cancelled)
            .map(Call::number)
            .collect();
        for number in cancelled {
            self.take_back(number, true, out);
        }
    }

    /// Takes one call back. A `writes` call that has started runs to its end and is recorded, but not spoken of.
    pub(super) fn take_back(
        &mut self,
        number: CallNumber,
        is_answer_owed: bool,
        out: &mut Vec<Output>,
    ) {
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        call.is_taken_back = true;
        call.spoken &= is_answer_owed;
        let runs_on = match call.phase {
            Phase::Running(_) => call.tool().writes(),
            // The ledger's answer comes, and with it what is to be done about it.
            Phase::Deciding { .. } | Phase::Retrying(_) | Phase::Recording(_) => true,
            Phase::Admission
            | Phase::CheckingRate
            | Phase::Waiting
            | Phase::Attached(_)
            | Phase::BackingOff(_) => false,
        };
        if runs_on {
            call.spoken &= !matches!(call.phase, Phase::Running(_));
            self.hold_microphone(out);
            return;
        }
        let Some(mut call) = self.calls.take(number) else {
            return;
        };
        if let Phase::Running(_) = call.phase {
            let attempt = call.call_ref();
            out.push(Output::AbortCall {
                call: attempt,
                drop: true,
            });
        }
        self.deadlines.clear(Deadline::Attempt(call.call_ref()));
        self.deadlines.clear(Deadline::Lease(number));
        self.deadlines.clear(Deadline::Store(number));
        self.deadlines.clear(Deadline::Retry(number));
        let run = take_run(&mut call);
        self.cancel(call, run, out);
    }

    /// Ends a call that changed nothing.
    fn cancel(&mut self, call: Box<Call>, run: Option<EffectRun>, out: &mut Vec<Output>) {
        let error = CallError::new(
            ErrorType::Cancelled,
            format!("{} was taken back", call.tool().id),
        );
        self.settle(call, failure(error, None), run, out);
    }

    pub(super) fn on_handler_message(
        &mut self,
        attempt: CallRef,
        message: HandlerMessage,
        out: &mut Vec<Output>,
    ) {
        let number = attempt.call;
        let open = self.calls.get(number);
        let Some(open) = open.filter(|open| open.attempt == attempt.attempt) else {
            return;
        };
        let tool = open.tool().clone();
        let arguments = Sensitive(open.arguments().clone());
        let note = |event: String, data: Value| {
            Output::Event(SessionEvent::AuditNote {
                call: number,
                tool: tool.clone(),
                arguments: arguments.clone(),
                event,
                data: Sensitive(data),
            })
        };
        match message {
            HandlerMessage::Client(message) => {
                let kind = message.get("type").and_then(Value::as_str).unwrap_or("");
                let is_privileged = PRIVILEGED.contains(&(tool.id.as_str(), kind));
                if kind.is_empty() || (SERVER_TYPES.contains(&kind) && !is_privileged) {
                    let data = json!({ "type": kind });
                    out.push(note("client_message_refused".to_owned(), data));
                } else {
                    self.note_shown(kind, &message);
                    out.push(Output::SendClient(ClientUpdate::Message(message)));
                }
            }
            HandlerMessage::Audit { event, data } => out.push(note(event, data)),
            HandlerMessage::Emit { name, payload } => {
                let payload = Sensitive(payload);
                out.push(Output::Event(SessionEvent::Custom {
                    call: number,
                    name,
                    payload,
                }));
            }
            HandlerMessage::Progress { message, fraction } => {
                let fraction = fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
                let event = SessionEvent::CallProgressed {
                    call: number,
                    message,
                    fraction,
                };
                out.push(Output::Event(event));
            }
        }
    }
}

// The outcome is recorded, then intents are carried out, then the provider is answered.
impl Session {
    /// Ends a call that was admitted. Where an attempt was its, the outcome is stored before anybody hears of it.
    fn settle(
        &mut self,
        mut call: Box<Call>,
        judged: Judged,
        run: Option<EffectRun>,
        out: &mut Vec<Output>,
    ) {
        let concluded = self.concluded(&call, judged, run);
        let Some(run) = &concluded.run else {
            return self.conclude(call, concluded, out);
        };
        let asks = self.intents_for_asker(&call, &concluded);
        let record = Record {
            effect_id: run.effect_id.clone(),
            attempt: run.attempt,
            outcome: outcome_of(&concluded.response),
            receipt: Some(receipt(&concluded.response)),
            asks,
        };
        let number = call.number();
        let patience = Duration::from_millis(self.config.limits.record_timeout_ms);
        self.set_deadline(Deadline::Store(number), patience);
        call.phase = Phase::Recording(Box::new(concluded));
        self.calls.open(call);
        out.push(Output::Record {
            call: number,
            record: Box::new(record),
        });
    }

    /// What an approved run wants of the session that asked, where that is another one.
    fn intents_for_asker(&self, call: &Call, concluded: &Concluded) -> Option<LegRequest> {
        let question = call.question()?;
        let intents = &concluded.response.intents;
        (!self.is_mine(question) && !intents.is_empty()).then(|| LegRequest {
            leg: question.leg.clone(),
            question: question.number,
            intents: intents.clone(),
        })
    }

    fn concluded(&self, call: &Call, judged: Judged, run: Option<EffectRun>) -> Concluded {
        let Judged {
            outcome,
            intents,
            scheduling,
            cut,
            problem,
        } = judged;
        let completed = &call.facts.completed;
        let mut meta = self.meta_with_defaults(call.tool(), completed.defaults_applied.clone());
        meta.duration_ms = call
            .started
            .map_or(0, |started| millis(self.now.since(started)));
        meta.cut = cut;
        meta.retry_count = call.attempt.saturating_sub(1);
        if let Some(clamp) = &completed.clamped {
            meta.clamped
                .insert(clamp.argument.clone(), [clamp.from, clamp.to]);
        }
        let response = ToolResponse {
            outcome,
            intents,
            meta,
        };
        Concluded {
            response: Arc::new(response),
            run,
            scheduling,
            problem,
        }
    }

    pub(super) fn on_recorded(
        &mut self,
        number: CallNumber,
        reply: Result<Box<Reply>, StoreProblem>,
        out: &mut Vec<Output>,
    ) {
        let waits = |phase: &Phase| matches!(phase, Phase::Recording(_));
        let Some(mut call) = self.calls.take_in(number, waits) else {
            // A result that came late: what the model was not told of yet, it is told as it is.
            if let Ok(Reply::Recorded(effect)) = reply.map(|reply| *reply) {
                self.correct_untold(&effect);
            }
            return;
        };
        self.deadlines.clear(Deadline::Store(number));
        let Phase::Recording(concluded) = std::mem::replace(&mut call.phase, Phase::Admission)
        else {
            return;
        };
        let mut concluded = *concluded;
        match reply.map(|reply| *reply) {
            Ok(Reply::Recorded(effect)) => {
                self.heed_ledger(&call, &mut concluded, &effect);
                self.conclude(call, concluded, out);
                for waiting in self.calls.attached_to(&effect.effect_id) {
                    self.ask_again(waiting, out);
                }
            }
            // An effect that the ledger does not know has nothing left to be stored.
            Ok(_) => self.conclude(call, concluded, out),
            Err(_) => self.unacknowledged(call, concluded, out),
        }
    }

    fn correct_untold(&mut self, effect: &Effect) {
        if effect.state != EffectState::Running {
            let settled = self.settled_of(effect);
            self.link.correct(&settled);
        }
    }

    /// What the ledger makes of an effect may be more than one attempt says.
    fn heed_ledger(&self, call: &Call, concluded: &mut Concluded, effect: &Effect) {
        let own = outcome_of(&concluded.response);
        match effect.state {
            // This attempt failed for certain, and nobody knows of an earlier one.
            EffectState::Unknown if own == AttemptOutcome::Failed && call.has_begun() => {
                let response = Arc::make_mut(&mut concluded.response);
                response.outcome = Outcome::Failure(outcome_unknown(call.tool()).into());
            }
            // An earlier attempt proved to have done it.
            EffectState::Done if own != AttemptOutcome::Succeeded => {
                concluded.response = self.response_of(effect);
            }
            EffectState::Unknown
            | EffectState::Done
            | EffectState::Running
            | EffectState::NotDone => {}
        }
    }

    /// The outcome could not be stored in time: the call is answered, and the driver goes on trying.
    fn unacknowledged(&mut self, call: Box<Call>, mut concluded: Concluded, out: &mut Vec<Output>) {
        // An attempt before this session's may be in doubt, and only the ledger knows.
        let is_others = |run: &EffectRun| run.attempt.0 > call.attempt;
        let has_failed = outcome_of(&concluded.response) == AttemptOutcome::Failed;
        let is_in_doubt = has_failed && concluded.run.as_ref().is_some_and(is_others);
        let response = Arc::make_mut(&mut concluded.response);
        response.meta.recorded = Some(false);
        if is_in_doubt {
            response.outcome = Outcome::Failure(outcome_unknown(call.tool()).into());
        }
        if let Some(run) = &concluded.run {
            out.push(Output::Event(SessionEvent::OutcomeUnrecorded {
                call: call.number(),
                effect_id: run.effect_id.clone(),
            }));
        }
        self.conclude(call, concluded, out);
    }

    /// Once the outcome is stored.
    fn conclude(&mut self, call: Box<Call>, concluded: Concluded, out: &mut Vec<Output>) {
        let Concluded {
            response,
            run,
            scheduling,
            problem,
        } = concluded;
        let number = call.number();
        let effect_id = run.map(|run| run.effect_id);
        let is_speakable = !call.is_approved() && call.spoken && self.is_here(call.delivered());
        let settled = Settled {
            is_outcome: call.has_begun() && is_outcome(&response),
            answered_on: is_speakable.then_some(call.delivered().generation),
            ..Settled::outcome(response, call.turn(), call.tool().reach, effect_id.clone())
        };
        self.calls.deliveries.settle(&call, settled.clone());
        self.note_loops(&call, &settled.response);
        let may_have_worked = settled
            .response
            .error_type()
            .is_none_or(|error| error == ErrorType::OutcomeUnknown);
        let is_block = call.tool().id.as_str() == BLOCKING_TOOL;
        if is_block && call.has_begun() && !may_have_worked {
            self.blocks_made = self.blocks_made.saturating_sub(1);
        }
        if let Some(problem) = problem {
            let tool = call.tool().id.clone();
            out.push(Output::Event(SessionEvent::HandlerProblem {
                call: number,
                tool,
                problem,
            }));
        }
        self.report(&call, &settled.response, effect_id, out);
        self.log_call(&call.slot(), &settled, out);
        let question = call.question();
        let is_askers = question.is_none_or(|question| self.is_mine(question));
        if is_askers {
            self.apply_intents(number, &settled.response.intents, out);
        }
        self.collect_citations(call.tool(), &settled.response);
        self.collect_images(&settled.response);
        let batch = call.delivered().batch;
        self.answer_all(call, settled, scheduling, out);
        self.hold_microphone(out);
        self.decide_next(batch, out);
        self.end_if_due(out);
    }

    /// Answers every delivery of a call, or the user who approved it.
    fn answer_all(
        &mut self,
        call: Box<Call>,
        settled: Settled,
        scheduling: Option<Scheduling>,
        out: &mut Vec<Output>,
    ) {
        // Most calls have nobody beside them, and need no copy.
        let for_others = (!call.attached.is_empty()).then(|| settled.clone());
        let blocks = call.blocks;
        let scheduling = match call.is_approved() {
            true => None,
            false => self.scheduling_of(call.tool(), blocks, scheduling, settled.response.is_ok()),
        };
        match call.origin {
            Origin::Approval(question) => {
                self.resolve_approved(&question, &settled, call.started.is_some(), out);
            }
            Origin::Model => {
                let slot = Slot::Valid(call.facts);
                self.answer(slot, settled, scheduling, call.spoken, blocks, out);
            }
        }
        for ((slot, rule), settled) in call.attached.into_iter().zip(for_others.iter().cycle()) {
            self.deduplicated(&slot, rule, out);
            self.answer(slot, settled.clone(), scheduling, true, blocks, out);
        }
    }

    /// The user hears what came of an approval, and so does the model of this session if it asked.
    fn resolve_approved(
        &mut self,
        question: &Question,
        settled: &Settled,
        has_begun: bool,
        out: &mut Vec<Output>,
    ) {
        self.tell_client(question, settled.response.clone(), out);
        // An approval that the ledger did not take may be sent again.
        let is_over = has_begun || settled.is_outcome || settled.effect_id.is_some();
        if !is_over {
            return;
        }
        self.tell_of_end(question, settled, out);
    }

    /// Whether this session's model is the one that asks. A chat has one session at a time, which goes on where the last one ended.
    fn is_mine(&self, question: &Question) -> bool {
        let is_of_chat = self.config.mode == Mode::Text && question.mode == Mode::Text;
        question.leg == self.config.session_id || is_of_chat
    }

    /// The model of this session hears what came of a question of its own, unless it has.
    fn tell_of_end(&mut self, question: &Question, settled: &Settled, out: &mut Vec<Output>) {
        let asked = self.forget_question(question.number);
        let is_told = asked.is_none() && question.leg == self.config.session_id;
        if is_told || !self.is_mine(question) || self.lifecycle != Lifecycle::Running {
            return;
        }
        let turn = asked.map_or_else(|| self.turns.last_number(), |asked| asked.turn);
        let approved = Approved {
            turn,
            question: question.number,
            tool: question.tool.as_str(),
        };
        self.notify_approved(&approved, settled, out);
    }

    /// Tells everything that watches how the call ended.
    fn report(
        &mut self,
        call: &Call,
        response: &Arc<ToolResponse>,
        effect_id: Option<EffectId>,
        out: &mut Vec<Output>,
    ) {
        let mut record = call_record(call.slot(), response);
        record.effect_id = effect_id;
        out.push(Output::Event(
            if response.error_type() == Some(ErrorType::Cancelled) {
                SessionEvent::CallCancelled(record)
            } else {
                SessionEvent::CallFinished(record)
            },
        ));
        if call.has_begun() {
            self.note_latency(call, response.meta.duration_ms, out);
        }
    }

    /// Writes a call and its result into the log of the conversation.
    fn log_call(&mut self, slot: &Slot, settled: &Settled, out: &mut Vec<Output>) {
        let tool = slot.tool();
        let is_plain = tool.is_some_and(|tool| tool.sensitive.is_empty());
        let arguments = slot.completed().filter(|_| is_plain);
        let projection = self.project(settled);
        let said = SaidCall {
            call: slot.number,
            tool: crate::facts::shorten(&slot.name),
            turn: slot.turn,
            arguments: arguments.map(|completed| completed.arguments.expose().as_ref()),
            result: match &projection.body {
                ProjectionBody::Success { data, .. } => SaidResult::Data(data.as_ref()),
                ProjectionBody::Failure { message, .. } => SaidResult::Message(message),
            },
            error: settled.response.error_type(),
            duration_ms: settled.response.meta.duration_ms,
            is_external: settled.quoted,
        };
        append(self.user_turn.next_entry(), said.event(), out);
    }

    /// Ends a delivery that no gate let through.
    fn refuse(&mut self, slot: Slot, error: CallError, charge: Charge, out: &mut Vec<Output>) {
        self.refuse_delivery(slot, error, charge, true, out);
    }

    /// The same, and what was answered.
    fn refuse_delivery(
        &mut self,
        slot: Slot,
        error: CallError,
        charge: Charge,
        is_spoken: bool,
        out: &mut Vec<Output>,
    ) -> Settled {
        let meta = match slot.tool() {
            Some(tool) => self.meta_of(tool),
            None => {
                let version = self.config.registry.version().clone();
                envelope::meta_without_tool(slot.name.clone(), version, self.unix_ms())
            }
        };
        let response = Arc::new(ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta,
        });
        if let Some(turn) = self.turns.get_mut(slot.turn) {
            turn.summary.refusals += 1;
            let is_charged = charge == Charge::Now && &*slot.name != DESCRIBE_TOOL;
            turn.summary.calls += u32::from(is_charged);
            let is_retrieval = slot
                .tool()
                .is_some_and(|tool| tool.category == Category::Retrieval);
            if charge == Charge::Already && is_retrieval {
                turn.summary.retrieval_calls = turn.summary.retrieval_calls.saturating_sub(1);
            }
        }
        let settled = Settled {
            answered_on: Some(slot.generation),
            ..Settled::refusal(response, slot.turn)
        };
        let state = DeliveryState::Settled(settled.clone());
        self.calls.deliveries.remember(slot.clone(), state);
        let scheduling = self.scheduling_of_answer(&slot, false);
        let record = call_record(slot.clone(), &settled.response);
        out.push(Output::Event(SessionEvent::CallRejected(record)));
        self.log_call(&slot, &settled, out);
        let turn = slot.turn;
        self.answer(slot, settled.clone(), scheduling, is_spoken, true, out);
        self.wind_up(turn, out);
        settled
    }

    /// Ends a call whose tool and arguments were good, and that does not run; and what had joined it.
    fn refuse_call(
        &mut self,
        call: Box<Call>,
        error: CallError,
        charge: Charge,
        out: &mut Vec<Output>,
    ) {
        let batch = call.delivered().batch;
        let scheduling = self.scheduling_of_answer(&call.slot(), false);
        let spoken = call.spoken;
        let settled = self.refuse_delivery(call.slot(), error, charge, spoken, out);
        for (slot, rule) in call.attached {
            self.deduplicated(&slot, rule, out);
            self.answer(slot, settled.clone(), scheduling, true, true, out);
        }
        self.hold_microphone(out);
        self.decide_next(batch, out);
    }

    /// Gives one delivery its answer, or nothing where nobody is to hear of it.
    fn answer(
        &mut self,
        slot: Slot,
        settled: Settled,
        scheduling: Option<Scheduling>,
        is_spoken: bool,
        blocks: bool,
        out: &mut Vec<Output>,
    ) {
        let is_here = self.is_here(&slot);
        if is_spoken && !is_here {
            let late = Late {
                slot: slot.clone(),
                settled: settled.clone(),
                scheduling,
            };
            self.keep_late(late, out);
        }
        let is_heard = is_spoken
            && is_here
            && slot.provider_id().is_none_or(|id| {
                let closed_ids = &mut self.link.closed_ids;
                closed_ids.close(id, &slot.key, slot.number)
            });
        if is_heard {
            self.note_external(&settled, out);
        }
        let answer = is_heard.then(|| ModelToolResponse {
            id: slot.provider_id().cloned(),
            name: slot.name.clone(),
            projection: self.project(&settled),
            scheduling,
        });
        self.release(&slot, answer, blocks, out);
        if is_heard {
            self.await_reaction(Late {
                slot,
                settled,
                scheduling,
            });
        }
    }

    /// Settles one delivery of its message and sends what that releases.
    fn release(
        &mut self,
        slot: &Slot,
        answer: Option<ModelToolResponse>,
        blocks: bool,
        out: &mut Vec<Output>,
    ) {
        let together = blocks && self.config.profile.answers == AnswerBatching::Together;
        let released = self.calls.settle(slot.batch, slot.number, answer, together);
        if !released.answers.is_empty() {
            let is_silent =
                |answer: &ModelToolResponse| answer.scheduling == Some(Scheduling::Silent);
            let asks_for_words = !released.answers.iter().all(is_silent);
            let mut spoken_of = released.answers.iter().filter(|answer| !is_silent(answer));
            let waited = spoken_of.any(|answer| self.waits_for(&answer.name));
            self.link.nudges_left = if asks_for_words {
                self.config.limits.result_nudges_max
            } else {
                0
            };
            out.push(Output::SendModel(ModelCommand::ToolResponses(
                released.answers,
            )));
            self.link.plan.said();
            if asks_for_words {
                self.owe_words(slot, waited);
                self.expect_answer();
            } else {
                self.turns.expect_continuation(slot.turn);
            }
            self.await_reactions(slot);
            let seconds = self.config.limits.result_silence_seconds;
            self.set_deadline(Deadline::ResultSilence, Duration::from_secs(seconds));
        }
        if let Some(tool_count) = released.complete {
            out.push(Output::SendClient(ClientUpdate::ToolsComplete {
                tool_count,
            }));
        }
    }

    /// What the model has said in this turn is not its answer to the user: it has an answer to speak of, and what it makes of that
    /// continues the turn of the call. Calls that are void are of no turn.
    fn owe_words(&mut self, slot: &Slot, waited: bool) {
        let from = self.link.messages.next(waited);
        let current = self.turns.current_mut();
        if let Some(turn) = current.filter(|turn| turn.number == slot.turn) {
            turn.owes_words = Some(from);
        }
        if slot.turn > 0 {
            self.turns.answered(slot.turn, waited);
        }
    }

    /// A turn in which the model was refused, or repeated itself, too often is ended, so that the user is not left with
    /// a model that talks to its tools. In text it ends with one more answer, which is asked for without tools.
    fn wind_up(&mut self, number: u64, out: &mut Vec<Output>) {
        let limits = &self.config.limits.turn;
        let (refusals_max, repeats_max) = (limits.refusals_max, limits.repeats_max);
        let Some(turn) = self.turns.get_mut(number) else {
            return;
        };
        let is_due = turn.summary.refusals >= refusals_max || turn.summary.repeats >= repeats_max;
        if !is_due || std::mem::replace(&mut turn.summary.wound_up, true) {
            return;
        }
        if self.config.mode == Mode::Text {
            return;
        }
        self.error(
            ErrorCode::ToolLoop,
            "the model called tools over and over",
            out,
        );
        let current = self.turns.current();
        if current.is_some_and(|turn| turn.number == number) {
            self.end_turn(false, out);
        }
    }

    fn note_loops(&mut self, call: &Call, response: &ToolResponse) {
        if let Outcome::Success { data, content } = &response.outcome
            && content.is_empty()
            && envelope::is_empty_result(data.as_ref())
            && let Some(turn) = self.turns.get_mut(call.turn())
        {
            turn.history.returned_nothing(&call.tool().id);
        }
    }

    fn note_latency(&mut self, call: &Call, actual_ms: u64, out: &mut Vec<Output>) {
        let limits = &self.config.limits.turn;
        let (turn_ms, retrieval_ms) = (limits.latency_ms, limits.retrieval_latency_ms);
        let mut exceeded = |limit, limit_ms, actual_ms| {
            let call = call.number();
            let event = SessionEvent::LatencyExceeded {
                call,
                limit,
                limit_ms,
                actual_ms,
            };
            out.push(Output::Event(event));
        };
        if actual_ms > call.tool().latency_budget_ms {
            exceeded(LatencyLimit::Tool, call.tool().latency_budget_ms, actual_ms);
        }
        if call.tool().category == Category::Retrieval && actual_ms > retrieval_ms {
            exceeded(LatencyLimit::Retrieval, retrieval_ms, actual_ms);
        }
        if let Some(turn) = self.turns.get_mut(call.turn()) {
            let before = turn.summary.latency_ms;
            turn.summary.latency_ms += actual_ms;
            if before <= turn_ms && turn.summary.latency_ms > turn_ms {
                exceeded(LatencyLimit::Turn, turn_ms, turn.summary.latency_ms);
            }
        }
    }

    fn apply_intents(&mut self, call: CallNumber, intents: &[Intent], out: &mut Vec<Output>) {
        if intents.is_empty() {
            return;
        }
        let changes = self.state.apply(self.now, call, intents);
        for (intent, change) in intents.iter().zip(changes) {
            let intent = Box::new(intent.clone());
            out.push(Output::Event(match change {
                Ok(change) => SessionEvent::IntentApplied {
                    call,
                    intent,
                    change,
                },
                Err(problem) => SessionEvent::IntentRejected {
                    call,
                    intent,
                    problem,
                },
            }));
        }
        self.suppress_audio(out);
    }

    /// Tells the driver whether the microphone is to be held back.
    pub(super) fn hold_microphone(&mut self, out: &mut Vec<Output>) {
        let hold = self.config.profile.hold_microphone && self.calls.any_blocks();
        if std::mem::replace(&mut self.told.microphone_held, hold) != hold {
            out.push(Output::HoldMicrophone(hold));
        }
    }

    /// Tells the driver whether the model may be heard.
    pub(super) fn suppress_audio(&mut self, out: &mut Vec<Output>) {
        let suppress = self.state.get().suppress_audio;
        if std::mem::replace(&mut self.told.audio_suppressed, suppress) != suppress {
            out.push(Output::SuppressAudio(suppress));
        }
    }

    fn collect_citations(&mut self, tool: &Tool, response: &ToolResponse) {
        if tool.category != Category::Retrieval {
            return;
        }
        let Outcome::Success {
            data: Some(data), ..
        } = &response.outcome
        else {
            return;
        };
        // A look at the names spares most results of other kinds the making of a tree.
        if !data.has_any(&CITING_MEMBERS) {
            return;
        }
        let Some(data) = data.as_object() else {
            return;
        };
        let citations_max = self.config.limits.citations_max;
        let single = data
            .get("record")
            .and_then(Value::as_object)
            .unwrap_or(data);
        if let Some(citation) = citation_of(single) {
            return self.transcript.cite_source(citation, citations_max);
        }
        let lists = ["results", "items"]
            .iter()
            .filter_map(|key| data.get(*key)?.as_array());
        for record in lists.flatten().filter_map(Value::as_object) {
            if let Some(citation) = citation_of(record) {
                self.transcript.cite_candidate(citation, citations_max);
            }
        }
    }

    /// The parts for the eye of a result. What the client was shown meanwhile is among them, and has its caption.
    fn collect_images(&mut self, response: &ToolResponse) {
        let Outcome::Success { content, .. } = &response.outcome else {
            return;
        };
        for ContentPart::Image { url, .. } in content {
            let (url, caption) = (url.clone(), None);
            let images_max = self.config.limits.citations_max;
            self.transcript.show(Image { url, caption }, images_max);
        }
    }

    /// A picture that the client is shown, as the answer is to name it.
    fn note_shown(&mut self, kind: &str, message: &Value) {
        let text = |name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
        if kind == "image"
            && let Some(url) = text("url")
        {
            let caption = text("caption");
            let images_max = self.config.limits.citations_max;
            self.transcript.show(Image { url, caption }, images_max);
        }
    }

    /// When the model is to speak of an answer: where nothing says so, as its tool has it, but of failures as soon as it may,
    /// since silence about them would leave the user waiting. `None` where the model is not told.
    pub(super) fn scheduling_of(
        &self,
        tool: &Tool,
        blocks: bool,
        by_result: Option<Scheduling>,
        is_ok: bool,
    ) -> Option<Scheduling> {
        let profile = &self.config.profile;
        if blocks || !profile.scheduling || profile.calls == CallSupport::BlockingOnly {
            return None;
        }
        let is_silent_tool = tool.scheduling == Scheduling::Silent;
        Some(match by_result {
            Some(scheduling) => scheduling,
            None if !is_ok && !is_silent_tool => Scheduling::WhenIdle,
            None => tool.scheduling,
        })
    }

    /// When the model is to speak of an answer that no run of the call brought.
    fn scheduling_of_answer(&self, slot: &Slot, is_ok: bool) -> Option<Scheduling> {
        // One that was refused before it was looked up has a tool all the same.
        let named = || self.config.registry.get(&slot.name);
        let tool = slot.tool().or_else(named)?;
        self.scheduling_of(tool, self.blocks(tool), None, is_ok)
    }

    fn meta_of(&self, tool: &Tool) -> Meta {
        self.meta_with_defaults(tool, Arc::default())
    }

    fn meta_with_defaults(&self, tool: &Tool, defaults_applied: Arc<[Arc<str>]>) -> Meta {
        let version = self.config.registry.version().clone();
        Meta::of_tool(tool, version, self.unix_ms(), defaults_applied)
    }

    fn response_without_tool(&self, name: &str, error: CallError) -> Arc<ToolResponse> {
        let version = self.config.registry.version().clone();
        Arc::new(ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta: envelope::meta_without_tool(name, version, self.unix_ms()),
        })
    }
}

/// An approval, for the notice of what came of it.
struct Approved<'a> {
    turn: u64,
    question: QuestionNumber,
    tool: &'a str,
}

/// Whether the ledger decides about a tool's calls: whatever changes something outside, and whatever needs consent.
fn in_ledger(tool: &Tool) -> bool {
    let is_steering = STEERING_TOOLS.contains(&tool.id.as_str());
    (tool.writes() && !is_steering) || tool.requires_confirmation
}

fn tool_facts(tool: &Tool) -> ToolFacts {
    ToolFacts {
        id: tool.id.clone(),
        version: tool.version.to_string(),
        handler_hash: None,
        writes: tool.writes() && !STEERING_TOOLS.contains(&tool.id.as_str()),
        idempotent: tool.idempotent,
        repeatable: tool.repeatable,
        has_lookup: tool.handler.outcome_lookup().is_some(),
    }
}

fn lease_ms(tool: &Tool) -> u64 {
    tool.timeout_ms.saturating_add(LEASE_MARGIN_MS)
}

fn canonical(arguments: &Arguments) -> String {
    String::from_utf8(json::canonical(&arguments.to_value())).expect("canonical JSON is text")
}

/// Arguments that the ledger kept. They were made from arguments, so that they are an object.
fn arguments_of(text: &str) -> Arguments {
    let object = serde_json::from_str::<Map<String, Value>>(text);
    object.unwrap_or_default().into()
}

/// What the user is shown of a call, made safe to show; `None` where the tool has no template.
fn preview(tool: &Tool, arguments: &Arguments) -> Option<String> {
    let template = tool.confirmation_preview.as_ref()?;
    Some(template::render(template, arguments))
}

/// The attempt that a call held.
fn take_run(call: &mut Call) -> Option<EffectRun> {
    match std::mem::replace(&mut call.phase, Phase::Admission) {
        Phase::Running(run) | Phase::BackingOff(run) => run,
        Phase::Retrying(retrying) => Some(retrying.run),
        Phase::Admission
        | Phase::CheckingRate
        | Phase::Waiting
        | Phase::Deciding { .. }
        | Phase::Attached(_)
        | Phase::Recording(_) => None,
    }
}

/// What of its arguments the model did not give itself.
fn tell_changes(call: &Call, out: &mut Vec<Output>) {
    let Completed {
        arguments: _,
        defaults_applied,
        clamped,
    } = &call.facts.completed;
    if !defaults_applied.is_empty() {
        let facts = call.facts.clone();
        out.push(Output::Event(SessionEvent::DefaultsApplied { facts }));
    }
    if let Some(clamp) = clamped {
        out.push(Output::Event(SessionEvent::ArgumentClamped {
            call: call.number(),
            tool: call.tool().id.clone(),
            argument: clamp.argument.clone(),
            from: clamp.from,
            to: clamp.to,
        }));
    }
}

fn failure(error: CallError, problem: Option<String>) -> Judged {
    Judged {
        outcome: Outcome::Failure(error.into()),
        intents: Vec::new(),
        scheduling: None,
        cut: None,
        problem,
    }
}

/// A response as the ledger keeps it.
fn receipt(response: &ToolResponse) -> Sensitive<String> {
    let text = serde_json::to_string(response);
    Sensitive(text.expect("a response has text keys and finite numbers"))
}

/// Milliseconds of a duration.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn is_outcome(response: &ToolResponse) -> bool {
    response
        .error()
        .is_none_or(|error| !error.retryable && error.error_type != ErrorType::Cancelled)
}

fn call_record(slot: Slot, response: &Arc<ToolResponse>) -> CallRecord {
    CallRecord {
        slot,
        effect_id: None,
        response: Sensitive(response.clone()),
    }
}

fn citation_of(record: &Map<String, Value>) -> Option<Citation> {
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    Some(Citation {
        id: text("id")?.to_owned(),
        title: text("title")?.to_owned(),
        url: text("url").map(str::to_owned),
    })
}

/// The kind of a reply that decides nothing, for the log.
fn name_of(reply: &Reply) -> &'static str {
    match reply {
        Reply::Gone => "another process speaks for this session",
        Reply::Foreign => "the conversation is another user's",
        Reply::Missing => "it has no such effect",
        _ => "an unexpected reply",
    }
}
