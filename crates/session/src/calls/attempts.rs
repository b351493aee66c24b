//! The runs of a call: attempts that begin, end, fail and are repeated; outcomes that are stored before anybody hears of them; and
//! the answers that follow.

use super::decisions::correct_untold;
use super::nested::HandlerCall;
use super::open::{Call, Concluded, LateAttempt, Origin, Phase};
use super::{Calls, deduplicated, messages, outputs};
use crate::answers::CallAnswer;
use crate::deadlines::Deadline;
use crate::dialogue::{Asker, Dialogue};
use crate::event::{CallRecord, CallStarted, SessionEvent};
use crate::facts::Completed;
use crate::io::{Output, StoreProblem};
use crate::ledger;
use crate::policy::{
    EffectRun, Failed, Judged, Settled, admitted, confirm, consent, judge, outcome_of,
    outcome_unknown, retry_delay, timed_out,
};
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::envelope::{Outcome, ToolResponse};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::handler::{HandlerMessage, HandlerResult, SessionFacts};
use windlass_contract::id::{CallNumber, CallRef, EffectId};
use windlass_contract::input::InputFacts;
use windlass_contract::intent::Intent;
use windlass_contract::kind::Scheduling;
use windlass_contract::template;
use windlass_store::command::{Record, Reply, ValuesEntry};
use windlass_store::log::LegRequest;
use windlass_store::{AttemptOutcome, Effect, EffectState};

/// Milliseconds that the ledger may take to grant another attempt, before a task that waits for it has ended.
const DECISION_MS: u64 = 30_000;

/// The reason why a late result does not change the session.
const TOO_LATE: &str = "its call had ended when the result came";

// Attempts begin and end.
impl Calls {
    /// The attempt begins.
    pub(super) fn start(
        &mut self,
        mut call: Box<Call>,
        run: Option<EffectRun>,
        dialogue: &mut Dialogue,
    ) {
        let timeout = Duration::from_millis(call.tool().timeout_ms);
        call.failed = None;
        call.phase = Phase::Running(run.clone());
        call.started.get_or_insert(dialogue.step.now);
        dialogue
            .step
            .set_deadline(Deadline::Attempt(call.call_ref()), timeout);
        // An attempt that the ledger granted too late does not run, and is not said to be at work.
        let now_unix_ms = dialogue.step.unix_ms();
        let is_over = |run: &EffectRun| run.lease_end_unix_ms <= now_unix_ms;
        let is_over = run.as_ref().is_some_and(is_over);
        let is_task = call.is_task() && !call.is_detached;
        let is_answered_now = is_task && !is_over && call.wait_ms(&dialogue.step.config) == Some(0);
        if !is_answered_now && !is_over {
            await_patience(&call, dialogue);
        }
        dialogue.step.heard_provider();
        if call.attempt == 1 {
            tell_changes(&call, dialogue);
        }
        let status = call.tool().status.as_ref();
        dialogue.step.event(SessionEvent::CallStarted(CallStarted {
            facts: call.facts.clone(),
            attempt: call.attempt,
            status: status.map(|status| template::render(status, call.arguments())),
        }));
        let facts = SessionFacts {
            input: InputFacts {
                can_ask: self.can_ask_input(&call, dialogue),
                given: call.given().cloned(),
            },
            ..dialogue.facts()
        };
        let admitted = admitted(&call.facts, call.attempt, run, facts);
        dialogue.step.push(Output::StartCall(admitted));
        let number = call.number();
        self.open.open(call);
        match is_answered_now {
            true => self.on_waited(number, dialogue),
            false => self.hold_microphone(dialogue),
        }
    }

    pub(crate) fn on_finished(
        &mut self,
        attempt: CallRef,
        result: HandlerResult,
        dialogue: &mut Dialogue,
    ) {
        let is_awaited = self.open.get(attempt.call).is_some_and(|open| {
            open.call_ref() == attempt && matches!(open.phase, Phase::Running(_))
        });
        if !is_awaited {
            return self.on_late_result(attempt, result, dialogue);
        }
        let is_in_doubt = self.end_children(attempt, dialogue);
        let Some(mut call) = self.open.take(attempt.call) else {
            return;
        };
        dialogue.step.clear(Deadline::Attempt(attempt));
        let mut judged = judge(
            call.tool(),
            result,
            dialogue.step.limits().result_characters_max,
        );
        let run = call.take_run();
        // An effect is in doubt if one of its nested effects is.
        if is_in_doubt && run.is_some() {
            judged.outcome = Outcome::Failure(outcome_unknown(call.tool()).into());
        }
        if let Some(input) = judged.input.take()
            && !is_in_doubt
            && call.may_begin()
            && dialogue.ending.is_running()
            && self.can_ask_input(&call, dialogue)
        {
            return self.ask_input(call, input.into_inner(), run, dialogue);
        }
        self.settle_or_retry(call, judged, run, dialogue);
    }

    pub(crate) fn on_timeout(&mut self, attempt: CallRef, dialogue: &mut Dialogue) {
        self.end_children(attempt, dialogue);
        let runs = |phase: &Phase| matches!(phase, Phase::Running(_));
        let Some(mut call) = self.open.take_in(attempt.call, runs) else {
            return;
        };
        // A started change runs on: its later result settles how it ended.
        dialogue.step.push(Output::AbortCall {
            call: attempt,
            drop: !call.tool().writes(),
        });
        let error = timed_out(call.tool());
        let run = call.take_run();
        if let Some(run) = run.clone() {
            self.open.expect_late(LateAttempt {
                attempt,
                facts: call.facts.clone(),
                run,
            });
        }
        self.settle_or_retry(call, Judged::failure(error), run, dialogue);
    }

    /// A result came after its call had ended. It settles its effect, and is not spoken of.
    fn on_late_result(&mut self, attempt: CallRef, result: HandlerResult, dialogue: &mut Dialogue) {
        let call = attempt.call;
        dialogue.step.event(SessionEvent::CallReturnedLate { call });
        let is_in_doubt = self.end_children(attempt, dialogue);
        let Some(late) = self.open.take_late(attempt) else {
            let asker = Asker {
                call,
                tool: self.open.get(call).map(|call| call.tool().id.clone()),
            };
            return dialogue.reject_intents(&asker, intents_of(&result), TOO_LATE);
        };
        self.forget_families();
        let tool = &late.facts.tool;
        let judged = judge(tool, result, dialogue.step.limits().result_characters_max);
        let asker = Asker {
            call,
            tool: Some(tool.id.clone()),
        };
        let (of_conversation, of_session): (Vec<Intent>, Vec<Intent>) = judged
            .intents
            .into_iter()
            .partition(Intent::is_of_conversation);
        dialogue.reject_intents(&asker, &of_session, TOO_LATE);
        if is_in_doubt {
            return dialogue.apply_intents(&asker, &of_conversation);
        }
        let mut meta = dialogue.step.meta(tool, Arc::default());
        meta.cut = judged.cut;
        meta.accepted_until = judged.accepted_until_unix_ms;
        let response = ToolResponse {
            outcome: judged.outcome,
            intents: Vec::new(),
            meta,
        };
        let outcome = outcome_of(&response);
        // A service's acceptance says nothing new about an effect in doubt; its callback will.
        if matches!(
            outcome,
            AttemptOutcome::Unknown | AttemptOutcome::Accepted { .. }
        ) {
            return dialogue.apply_intents(&asker, &of_conversation);
        }
        dialogue.step.event(SessionEvent::EffectSettled {
            call,
            tool: tool.id.clone(),
            version: tool.version.clone(),
            effect_id: late.run.effect_id.clone(),
            succeeded: outcome == AttemptOutcome::Succeeded,
        });
        let values = dialogue.set_values(&asker, &of_conversation);
        record(call, &late.run, &response, (None, values), dialogue);
    }

    /// Repeats a failed attempt if that is safe and worth while. The failure is stored at once: until the next attempt nothing runs, and
    /// the ledger knows it.
    fn settle_or_retry(
        &mut self,
        mut call: Box<Call>,
        judged: Judged,
        run: Option<EffectRun>,
        dialogue: &mut Dialogue,
    ) {
        let Some(delay) = delay_before_retry(&call, &judged, dialogue) else {
            return self.settle(call, judged, run, dialogue);
        };
        let number = call.number();
        let mut failed = concluded(&call, judged, run, dialogue);
        let values = set_values(&call, &mut failed, dialogue);
        match &failed.run {
            Some(run) => {
                let pause_ms = millis(delay).saturating_add(DECISION_MS);
                let record = Box::new(Record {
                    next_attempt_ms: call.is_task().then_some(pause_ms),
                    values,
                    ..recorded(run, &failed.response)
                });
                dialogue.step.push(Output::Record {
                    call: number,
                    record,
                });
            }
            None => dialogue.log_entry(values),
        }
        call.failed = Some(Box::new(failed));
        call.attempt += 1;
        call.phase = Phase::BackingOff;
        dialogue.step.event(SessionEvent::CallRetried {
            call: number,
            tool: call.tool().id.clone(),
            attempt: call.attempt,
            delay_ms: millis(delay),
        });
        dialogue.step.set_deadline(Deadline::Retry(number), delay);
        self.open.open(call);
    }

    /// The wait is over. The present state of the effect is judged anew.
    pub(crate) fn on_retry_due(&mut self, number: CallNumber, dialogue: &mut Dialogue) {
        let waits = |phase: &Phase| matches!(phase, Phase::BackingOff);
        let Some(call) = self.open.take_in(number, waits) else {
            return;
        };
        match call.failed_run() {
            None => self.start(call, None, dialogue),
            Some(_) if call.is_approved() => self.send_approval(call, dialogue),
            Some(_) => self.request(call, dialogue),
        }
    }

    /// The ledger decides about a call whose attempt has failed.
    pub(super) fn on_retry_decided(
        &mut self,
        mut call: Box<Call>,
        reply: Reply,
        dialogue: &mut Dialogue,
    ) {
        let error = match reply {
            Reply::Run(run) => return self.on_run(call, *run, dialogue),
            Reply::Attach(effect) => return self.attach(call, &effect, dialogue),
            // Another call has tried again.
            Reply::Replay(effect) => {
                let response = ledger::response_of(&effect, &dialogue.step);
                return self.end_as_known(call, response, &effect, dialogue);
            }
            Reply::Unknown(effect) => {
                let error = confirm::unknown(call.tool(), &effect);
                let response = dialogue.step.failed(call.tool(), error);
                return self.end_as_known(call, response, &effect, dialogue);
            }
            // The next attempt is not wanted any more.
            Reply::Ask(asked) if !call.may_begin() => {
                self.withdraw(*asked, dialogue);
                return self.cancel(call, None, dialogue);
            }
            Reply::Ask(asked) => {
                let hazards = &asked.question.hazards;
                call.consent = consent::asked_because(call.consent.as_ref(), hazards);
                let error = confirm::required(call.tool(), hazards, call.consent.as_deref());
                self.show_question(&call, *asked, dialogue);
                error
            }
            Reply::Denied(question) => confirm::denied(call.tool().id.as_str(), &question),
            _ => return self.end_as_failed(call, dialogue),
        };
        if call.is_approved() {
            return self.end_as_failed(call, dialogue);
        }
        let response = dialogue.step.failed(call.tool(), error);
        if let Some(failed) = &mut call.failed {
            failed.response = response;
        }
        self.end_as_failed(call, dialogue);
    }

    /// Ends a call as its last attempt did, if the ledger was not asked for another attempt.
    pub(super) fn leave_as_failed(&mut self, call: Box<Call>, dialogue: &mut Dialogue) {
        if let Some(failed) = &call.failed {
            leave(&call, failed, dialogue);
        }
        self.end_as_failed(call, dialogue);
    }

    /// No attempt follows: the call ends as its last attempt did, which is stored.
    pub(super) fn end_as_failed(&mut self, mut call: Box<Call>, dialogue: &mut Dialogue) {
        if let Some(failed) = call.failed.take() {
            self.conclude(call, *failed, dialogue);
        }
    }

    /// Another session has tried an effect again that a call of this one waits to try again. The call does not say "not done" then, even
    /// if the ledger does not answer it.
    pub(super) fn correct_failed(&mut self, effect: &Effect, dialogue: &Dialogue) {
        let newest = effect.newest_attempt().number;
        let is_tried_since = |call: &Call| {
            let failed = call.failed_run();
            failed.is_some_and(|run| run.effect_id == effect.effect_id && run.attempt < newest)
        };
        for number in self.open.numbers_of(is_tried_since) {
            let Some(call) = self.open.get_mut(number) else {
                continue;
            };
            let response = match effect.state {
                EffectState::NotDone => continue,
                EffectState::Done => ledger::response_of(effect, &dialogue.step),
                EffectState::Running | EffectState::Unknown => {
                    let error = confirm::unknown(call.tool(), effect);
                    dialogue.step.failed(call.tool(), error)
                }
            };
            if let Some(failed) = &mut call.failed {
                failed.response = response;
            }
        }
    }

    fn end_as_known(
        &mut self,
        mut call: Box<Call>,
        response: Arc<ToolResponse>,
        effect: &Effect,
        dialogue: &mut Dialogue,
    ) {
        if let Some(failed) = &mut call.failed {
            failed.response = response;
            if let Some(run) = &mut failed.run {
                run.effect_id = effect.effect_id.clone();
            }
        }
        self.end_as_failed(call, dialogue);
    }

    /// The ledger has recorded the failure of an attempt whose call waits for the next. If the effect is not simply failed, no attempt
    /// follows.
    fn on_failure_recorded(&mut self, mut call: Box<Call>, reply: Reply, dialogue: &mut Dialogue) {
        let effect = match (reply, &mut call.failed) {
            (Reply::Recorded(effect), Some(_)) => effect,
            _ => return self.open.open(call),
        };
        match (effect.state, call.failed.take()) {
            (EffectState::Unknown | EffectState::Done, Some(mut failed)) => {
                dialogue.step.clear(Deadline::Retry(call.number()));
                apply_ledger_state(&call, &mut failed, &effect, dialogue);
                self.conclude(call, *failed, dialogue);
            }
            (_, failed) => {
                call.failed = failed;
                self.open.open(call);
            }
        }
    }

    /// Ends a call that changed nothing.
    pub(super) fn cancel(
        &mut self,
        mut call: Box<Call>,
        run: Option<EffectRun>,
        dialogue: &mut Dialogue,
    ) {
        let id = &call.tool().id;
        let error = match call.is_stopped_by_user {
            true => CallError::new(
                ErrorType::Cancelled,
                format!("the user stopped {id} before it had ended"),
            )
            .with_suggestion("Do not call it again unless the user asks for it."),
            false => CallError::new(ErrorType::Cancelled, format!("{id} was taken back")),
        };
        match call.failed.take() {
            // The ledger has stored already that nothing has happened.
            Some(mut failed) if run.is_none() => {
                leave(&call, &failed, dialogue);
                failed.response = dialogue.step.failed(call.tool(), error);
                self.conclude(call, *failed, dialogue);
            }
            _ => self.settle(call, Judged::failure(error), run, dialogue),
        }
    }

    pub(crate) fn on_handler_message(
        &mut self,
        attempt: CallRef,
        message: HandlerMessage,
        dialogue: &mut Dialogue,
    ) {
        // A handler waits for a tool's answer even if its own call is over.
        if let HandlerMessage::CallTool {
            reply,
            tool,
            arguments,
        } = message
        {
            let asked = HandlerCall {
                parent: attempt,
                reply,
                tool,
                arguments: arguments.into_inner(),
            };
            return self.on_handler_call(asked, dialogue);
        }
        let open = self.open.get_mut(attempt.call);
        if let Some(call) = open.filter(|open| open.attempt == attempt.attempt) {
            match message {
                HandlerMessage::External => self.families.note_external(attempt),
                HandlerMessage::Output(piece) => outputs::pass_on(call, piece, dialogue),
                message => messages::pass_on(call, message, dialogue),
            }
        }
    }
}

// The outcome is recorded, then intents are carried out, then the provider is answered.
impl Calls {
    /// Ends a call that was admitted. If it had an attempt, the outcome is stored before anybody hears of it.
    pub(super) fn settle(
        &mut self,
        mut call: Box<Call>,
        judged: Judged,
        run: Option<EffectRun>,
        dialogue: &mut Dialogue,
    ) {
        let mut concluded = concluded(&call, judged, run, dialogue);
        if concluded.run.is_none() {
            return self.conclude(call, concluded, dialogue);
        }
        let number = call.number();
        let patience = Duration::from_millis(dialogue.step.limits().record_timeout_ms);
        dialogue
            .step
            .set_deadline(Deadline::Store(number), patience);
        let values = set_values(&call, &mut concluded, dialogue);
        let asks = self.intents_for_asker(&call, &concluded, dialogue);
        if let Some(run) = &concluded.run {
            record(number, run, &concluded.response, (asks, values), dialogue);
        }
        call.phase = Phase::Recording(Box::new(concluded));
        self.open.open(call);
    }

    /// The intents of an approved run for the session that asked, if that is another one. Values for the conversation need no session.
    fn intents_for_asker(
        &self,
        call: &Call,
        concluded: &Concluded,
        dialogue: &Dialogue,
    ) -> Option<LegRequest> {
        let question = call.question()?;
        let intents = concluded.response.intents.iter();
        let intents: Vec<Intent> = intents
            .filter(|intent| !intent.is_of_conversation())
            .cloned()
            .collect();
        (!self.approvals.asks(question, dialogue) && !intents.is_empty()).then(|| LegRequest {
            leg: question.leg.clone(),
            question: question.number,
            intents,
            is_rejected: false,
        })
    }

    pub(crate) fn on_recorded(
        &mut self,
        number: CallNumber,
        reply: Result<Box<Reply>, StoreProblem>,
        dialogue: &mut Dialogue,
    ) {
        let backs_off = |phase: &Phase| matches!(phase, Phase::BackingOff);
        if let Some(call) = self.open.take_in(number, backs_off) {
            return match reply {
                Ok(reply) => self.on_failure_recorded(call, *reply, dialogue),
                // The record is tried until the store takes it, before anything else is asked.
                Err(_) => self.open.open(call),
            };
        }
        let waits = |phase: &Phase| matches!(phase, Phase::Recording(_));
        let Some(mut call) = self.open.take_in(number, waits) else {
            // This result came late.
            if let Ok(Reply::Recorded(effect)) = reply.map(|reply| *reply) {
                correct_untold(&effect, dialogue);
            }
            return;
        };
        dialogue.step.clear(Deadline::Store(number));
        let Ok(reply) = reply else {
            return self.unacknowledged(call, dialogue);
        };
        let Some(mut concluded) = call.take_concluded() else {
            return;
        };
        // An effect that the ledger does not know needs no further record.
        let Reply::Recorded(effect) = *reply else {
            return self.conclude(call, concluded, dialogue);
        };
        apply_ledger_state(&call, &mut concluded, &effect, dialogue);
        self.conclude(call, concluded, dialogue);
    }

    /// Calls that wait for the end of an effect ask for its state.
    fn wake_attached(&mut self, effect_id: &EffectId, dialogue: &mut Dialogue) {
        for waiting in self.open.attached_to(effect_id) {
            self.ask_again(waiting, dialogue);
        }
    }

    /// The outcome could not be stored in time. The call is answered, and the driver goes on trying.
    pub(super) fn unacknowledged(&mut self, mut call: Box<Call>, dialogue: &mut Dialogue) {
        let Some(mut concluded) = call.take_concluded() else {
            return;
        };
        // An attempt before this session's may be in doubt. Only the ledger knows.
        let is_others = |run: &EffectRun| run.attempt.0 > call.attempt;
        let has_failed = outcome_of(&concluded.response) == AttemptOutcome::Failed;
        let is_in_doubt = has_failed && concluded.run.as_ref().is_some_and(is_others);
        let response = Arc::make_mut(&mut concluded.response);
        response.meta.recorded = Some(false);
        if is_in_doubt {
            response.outcome = Outcome::Failure(outcome_unknown(call.tool()).into());
        }
        if let Some(run) = &concluded.run {
            dialogue.step.event(SessionEvent::OutcomeUnrecorded {
                call: call.number(),
                effect_id: run.effect_id.clone(),
            });
        }
        self.conclude(call, concluded, dialogue);
    }

    /// Concludes a call once its outcome is stored.
    pub(super) fn conclude(
        &mut self,
        mut call: Box<Call>,
        concluded: Concluded,
        dialogue: &mut Dialogue,
    ) {
        let Concluded {
            response,
            run,
            scheduling,
            problem,
            are_values_set,
            asks,
        } = concluded;
        dialogue.step.clear(Deadline::Wait(call.number()));
        let effect_id = run.map(|run| run.effect_id);
        let is_of_message = call.is_of_message();
        let is_speakable = is_of_message && call.spoken && dialogue.link.carries(call.delivered());
        let reach = self.reach_of(&call);
        self.forget_families();
        if let Some(effect_id) = &effect_id {
            self.forget_accepted(effect_id);
            self.note_accepted(effect_id, call.call_request(), &response);
        }
        // The model has heard of an effect for good only once the effect has its end.
        let told_effect = effect_id
            .clone()
            .filter(|_| response.meta.accepted_until.is_none());
        let settled = Settled {
            is_outcome: call.has_begun() && is_outcome(&response),
            answered_on: is_speakable.then_some(call.delivered().generation),
            ..Settled::outcome(response, call.turn(), reach, told_effect)
        };
        if call.nesting().is_none() {
            self.deliveries.settle(call.call_request(), settled.clone());
        }
        // A call that asks the user something goes on, and has not failed.
        let has_failed = |error| {
            !matches!(
                error,
                ErrorType::OutcomeUnknown | ErrorType::ConfirmationRequired
            )
        };
        let has_failed = settled.response.error_type().is_some_and(has_failed);
        let is_failed_run = call.has_begun() && has_failed;
        dialogue
            .turns
            .ran(&call.facts, &settled.response, is_failed_run);
        if let Some(problem) = problem {
            dialogue.step.event(SessionEvent::HandlerProblem {
                call: call.number(),
                tool: call.tool().id.clone(),
                problem,
            });
        }
        if !call.is_detached {
            report(&call, &settled.response, effect_id.clone(), dialogue);
        }
        if call.nesting().is_none() && !call.is_detached {
            dialogue.log_call(&call.call_request(), &settled);
        }
        let question = call.question();
        let is_askers = question.is_none_or(|question| self.approvals.asks(question, dialogue));
        let (asker, intents) = (asker_of(&call), &settled.response.intents);
        match (is_askers, are_values_set) {
            (true, false) => dialogue.apply_intents(&asker, intents),
            (true, true) => dialogue.apply_session_intents(&asker, intents),
            (false, false) => {
                let values = dialogue.set_values(&asker, intents);
                dialogue.log_entry(values);
            }
            (false, true) => {}
        }
        if let Some(asked) = asks {
            let call_request = call.call_request();
            self.put_in_place(*asked, call_request, dialogue);
        }
        dialogue
            .speech
            .collect(call.tool(), &settled.response, &dialogue.step);
        let batch = call.delivered().batch;
        let is_stored = settled.response.meta.recorded != Some(false);
        match call.is_detached {
            true => self.tell_end(&call, (settled, effect_id.clone()), scheduling, dialogue),
            false => self.answer_all(&mut call, settled, scheduling, dialogue),
        }
        self.call_ended(batch, dialogue);
        if let Some(effect_id) = effect_id.filter(|_| is_stored) {
            self.wake_attached(&effect_id, dialogue);
        }
    }

    /// Answers every delivery of a call that has no answer yet, or the user who approved it.
    pub(super) fn answer_all(
        &mut self,
        call: &mut Call,
        settled: Settled,
        scheduling: Option<Scheduling>,
        dialogue: &mut Dialogue,
    ) {
        let blocks = call.blocks;
        let is_ok = settled.response.is_ok();
        let scheduling = dialogue
            .step
            .config
            .scheduling(call.tool(), blocks, scheduling, is_ok)
            .filter(|_| !call.is_approved());
        // Most calls have no attached deliveries, and need no copy.
        let for_others = (!call.attached.is_empty()).then(|| settled.clone());
        match &call.origin {
            Origin::Approval {
                question, clicks, ..
            } => {
                let response = &settled.response;
                self.approvals
                    .tell_clicks(question, *clicks, response, dialogue);
                // An approval that the ledger did not take may be sent again.
                if call.started.is_some() || settled.is_outcome || settled.effect_id.is_some() {
                    self.approvals.end(question, &settled, dialogue);
                }
            }
            Origin::Handler(nesting) => self.answer_handler(nesting, &settled, dialogue),
            Origin::Model => {
                let answer = CallAnswer {
                    call_request: call.call_request(),
                    settled,
                    scheduling,
                };
                self.answer(answer, call.spoken, blocks, dialogue);
            }
        }
        let attached = std::mem::take(&mut call.attached);
        for ((call_request, rule), settled) in attached.into_iter().zip(for_others.iter().cycle()) {
            deduplicated(&call_request, rule, dialogue);
            let answer = CallAnswer {
                call_request,
                settled: settled.clone(),
                scheduling,
            };
            self.answer(answer, true, blocks, dialogue);
        }
    }
}

fn delay_before_retry(call: &Call, judged: &Judged, dialogue: &mut Dialogue) -> Option<Duration> {
    let Outcome::Failure(error) = &judged.outcome else {
        return None;
    };
    if !call.spoken || call.is_stopped_by_user {
        return None;
    }
    let turn = dialogue.turns.started(call.turn());
    let turn = turn.filter(|_| !call.is_outside_turn());
    let limits = &dialogue.step.limits().turn;
    let within = Duration::from_millis(limits.retry_within_ms);
    let last = turn.or(call.started).unwrap_or(dialogue.step.now) + within;
    retry_delay(&Failed {
        attempt: call.call_ref(),
        tool: call.tool(),
        error,
        mode: dialogue.step.config.mode,
        limits,
        time_left: last.since(dialogue.step.now),
        session: &dialogue.step.config.session_id,
    })
}

/// Has the ledger record the end of an attempt.
fn record(
    call: CallNumber,
    run: &EffectRun,
    response: &ToolResponse,
    (asks, values): (Option<LegRequest>, Option<ValuesEntry>),
    dialogue: &mut Dialogue,
) {
    let record = Box::new(Record {
        asks,
        values,
        ..recorded(run, response)
    });
    dialogue.step.push(Output::Record { call, record });
}

/// Records the last failure of a task that waited to be tried again, and is not.
fn leave(call: &Call, failed: &Concluded, dialogue: &mut Dialogue) {
    let run = failed.run.as_ref().filter(|_| call.is_task());
    if let Some(run) = run {
        let record = Box::new(recorded(run, &failed.response));
        dialogue.step.push(Output::Record {
            call: call.number(),
            record,
        });
    }
}

fn recorded(run: &EffectRun, response: &ToolResponse) -> Record {
    Record {
        effect_id: run.effect_id.clone(),
        attempt: run.attempt,
        outcome: outcome_of(response),
        next_attempt_ms: None,
        receipt: Some(ledger::receipt(response)),
        asks: None,
        values: None,
    }
}

fn concluded(
    call: &Call,
    judged: Judged,
    run: Option<EffectRun>,
    dialogue: &Dialogue,
) -> Concluded {
    let Judged {
        outcome,
        intents,
        scheduling,
        accepted_until_unix_ms,
        cut,
        problem,
        input: _,
    } = judged;
    let completed = &call.facts.completed;
    let mut meta = dialogue
        .step
        .meta(call.tool(), completed.defaults_applied.clone());
    meta.duration_ms = call
        .started
        .map_or(0, |started| millis(dialogue.step.now.since(started)));
    meta.cut = cut;
    // Without an effect, the ledger has no end to be told of.
    meta.accepted_until = accepted_until_unix_ms.filter(|_| run.is_some());
    if meta.accepted_until.is_some() {
        meta.preliminary = true;
        let effect_id = run.as_ref().map(|run| run.effect_id.as_str());
        meta.background_task_id = effect_id.map(Into::into);
    }
    meta.retry_count = call.attempt.saturating_sub(1);
    meta.parent_call_id = call.delivered().parent().map(|parent| parent.to_string());
    meta.nulls_left_out = completed.nulls_left_out.clone();
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
        are_values_set: false,
        asks: None,
    }
}

fn asker_of(call: &Call) -> Asker {
    Asker {
        call: call.number(),
        tool: Some(call.tool().id.clone()),
    }
}

/// Sets the values that a result keeps for the conversation. Returns their log entry, for the ledger to write with the outcome.
fn set_values(
    call: &Call,
    concluded: &mut Concluded,
    dialogue: &mut Dialogue,
) -> Option<ValuesEntry> {
    concluded.are_values_set = true;
    dialogue.set_values(&asker_of(call), &concluded.response.intents)
}

fn intents_of(result: &HandlerResult) -> &[Intent] {
    match result {
        Ok(success) => &success.intents,
        Err(failure) => &failure.intents,
    }
}

/// The ledger may know more of an effect than one attempt says.
fn apply_ledger_state(
    call: &Call,
    concluded: &mut Concluded,
    effect: &Effect,
    dialogue: &Dialogue,
) {
    let own = outcome_of(&concluded.response);
    let is_accepted = matches!(own, AttemptOutcome::Accepted { .. });
    match effect.state {
        // This attempt failed for certain, but an earlier one is in doubt; or its lease was over before its service accepted it.
        EffectState::Unknown
            if (own == AttemptOutcome::Failed || is_accepted) && call.has_begun() =>
        {
            let response = Arc::make_mut(&mut concluded.response);
            response.outcome = Outcome::Failure(outcome_unknown(call.tool()).into());
        }
        // An earlier attempt proved to have succeeded, or the service called back before it had answered.
        EffectState::Done if own != AttemptOutcome::Succeeded => {
            concluded.response = ledger::response_of(effect, &dialogue.step);
        }
        EffectState::NotDone if is_accepted => {
            concluded.response = ledger::response_of(effect, &dialogue.step);
        }
        EffectState::Unknown | EffectState::Done | EffectState::Running | EffectState::NotDone => {}
    }
}

/// The patience for a call counts from its first attempt.
fn await_patience(call: &Call, dialogue: &mut Dialogue) {
    let wait_ms = call.wait_ms(&dialogue.step.config);
    let Some(wait_ms) = wait_ms.filter(|_| !call.is_detached) else {
        return;
    };
    let started = call.started.unwrap_or(dialogue.step.now);
    let waited = dialogue.step.now.since(started);
    let left = Duration::from_millis(wait_ms).saturating_sub(waited);
    dialogue
        .step
        .set_deadline(Deadline::Wait(call.number()), left);
}

/// Reports to all subscribers how the call ended.
pub(super) fn report(
    call: &Call,
    response: &Arc<ToolResponse>,
    effect_id: Option<EffectId>,
    dialogue: &mut Dialogue,
) {
    let record = CallRecord::new(call.call_request(), response, effect_id);
    let record = record.because(call.consent.clone());
    dialogue.step.event(match response.error_type() {
        Some(ErrorType::Cancelled) => SessionEvent::CallCancelled(record),
        _ => SessionEvent::CallFinished(record),
    });
    if call.has_begun() {
        let duration_ms = response.meta.duration_ms;
        dialogue
            .turns
            .took(&call.facts, duration_ms, &mut dialogue.step);
    }
}

/// Reports the arguments that the model did not give itself.
fn tell_changes(call: &Call, dialogue: &mut Dialogue) {
    let Completed {
        arguments: _,
        defaults_applied,
        nulls_left_out: _,
        clamped,
    } = &call.facts.completed;
    if !defaults_applied.is_empty() {
        let facts = call.facts.clone();
        dialogue.step.event(SessionEvent::DefaultsApplied { facts });
    }
    if let Some(clamp) = clamped {
        dialogue.step.event(SessionEvent::ArgumentClamped {
            call: call.number(),
            tool: call.tool().id.clone(),
            argument: clamp.argument.clone(),
            from: clamp.from,
            to: clamp.to,
        });
    }
}

/// Milliseconds of a duration.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn is_outcome(response: &ToolResponse) -> bool {
    response.error().is_none_or(|error| {
        let is_end = |error| {
            !matches!(
                error,
                ErrorType::Cancelled | ErrorType::ConfirmationRequired
            )
        };
        !error.retryable && is_end(error.error_type)
    })
}
