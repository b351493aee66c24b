//! Deliveries that need no run of their own: refusals, conflicts, repeats and replays; and the way of every answer back
//! to the provider message that asked for it.

use super::{Charge, Session};
use crate::calls::Call;
use crate::client::{ClientUpdate, ErrorCode};
use crate::connection::Late;
use crate::deadlines::Deadline;
use crate::event::{DuplicateRule, SessionEvent};
use crate::facts::Slot;
use crate::io::Output;
use crate::model::{AnswerBatching, ModelCommand, ModelToolResponse};
use crate::policy::{DESCRIBE_TOOL, DeliveryState, EffectState, Settled};
use crate::session::settlement::call_record;
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::{self, Outcome, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::kind::{Category, Mode, Scheduling};

impl Session {
    /// Ends a delivery that no gate let through.
    pub(crate) fn refuse(
        &mut self,
        slot: Slot,
        error: CallError,
        charge: Charge,
        out: &mut Vec<Output>,
    ) {
        self.refuse_delivery(slot, error, charge, out);
    }

    /// The same, and what was answered.
    fn refuse_delivery(
        &mut self,
        slot: Slot,
        error: CallError,
        charge: Charge,
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
            let is_charged = charge == Charge::Now
                && &*slot.name != DESCRIBE_TOOL
                && !has_bug!(self, ForgetsRefusedCalls);
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
        self.deliveries.remember(slot.clone(), state);
        let scheduling = self.scheduling_of_answer(&slot, false);
        let record = call_record(slot.clone(), &settled.response);
        if has_bug!(self, EndsRefusedCallsTwice) {
            out.push(Output::Event(SessionEvent::CallRejected(record.clone())));
        }
        out.push(Output::Event(SessionEvent::CallRejected(record)));
        let is_spoken = !has_bug!(self, LeavesRefusalsOpen);
        let turn = slot.turn;
        self.answer(slot, settled.clone(), scheduling, is_spoken, true, out);
        self.wind_up(turn, out);
        settled
    }

    /// Ends a call whose tool and arguments were good, and that does not run; and what had joined it.
    pub(crate) fn refuse_call(
        &mut self,
        call: Box<Call>,
        error: CallError,
        charge: Charge,
        out: &mut Vec<Output>,
    ) {
        self.restore_effect(&call);
        let batch = call.delivered().batch;
        self.refuse_all(*call, error, charge, out);
        self.reserve_next(batch, out);
    }

    /// The answer of a call that does not run, for all its deliveries.
    pub(super) fn refuse_all(
        &mut self,
        call: Call,
        error: CallError,
        charge: Charge,
        out: &mut Vec<Output>,
    ) -> Settled {
        let scheduling = self.scheduling_of_answer(&call.slot(), false);
        let settled = self.refuse_delivery(call.slot(), error, charge, out);
        for (slot, rule) in call.attached {
            self.deduplicated(&slot, rule, out);
            self.answer(slot, settled.clone(), scheduling, true, true, out);
        }
        settled
    }

    /// Rule D2: the id has its place on this connection already, so the conflict is recorded and nothing is sent.
    pub(crate) fn record_conflict(&mut self, slot: Slot, out: &mut Vec<Output>) {
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
    pub(crate) fn attach(
        &mut self,
        number: CallNumber,
        slot: Slot,
        rule: DuplicateRule,
        out: &mut Vec<Output>,
    ) {
        self.count_repeat(slot.turn);
        let turn = slot.turn;
        let joined = self.calls.get_mut(number).map(|call| call.attached.len());
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
        let blocks = self
            .calls
            .get_mut(number)
            .map(|call| call.tool().clone())
            .is_some_and(|tool| self.blocks(&tool));
        match self.calls.get_mut(number) {
            Some(call) => {
                call.attached.push((slot, rule));
                // The model may wait again for what blocked it on an earlier connection.
                call.blocks = blocks;
            }
            // Open calls and their records change together; without the call there is nothing to wait for.
            None => self.release(&slot, None, true, out),
        }
        self.wind_up(turn, out);
    }

    /// A delivery that had joined a call which turned out to be a repeat itself.
    pub(crate) fn join_again(
        &mut self,
        number: CallNumber,
        fingerprint: Option<[u8; 32]>,
        slot: Slot,
        rule: DuplicateRule,
        out: &mut Vec<Output>,
    ) {
        let effect = fingerprint.and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        let open = match effect.map(|effect| &effect.state) {
            Some(EffectState::Open(open)) => *open,
            Some(_) | None => number,
        };
        if let Some(call) = self.calls.get_mut(open) {
            return call.attached.push((slot, rule));
        }
        self.deduplicated(&slot, rule, out);
        let record = self.deliveries.find(&slot.key);
        match record.map(|delivery| delivery.state.clone()) {
            Some(DeliveryState::Settled(settled)) => {
                let scheduling = self.scheduling_of_answer(&slot, settled.response.is_ok());
                self.answer(slot, settled, scheduling, true, true, out);
            }
            Some(DeliveryState::Open(_)) | None => self.release(&slot, None, true, out),
        }
    }

    /// A delivery that is answered from the record; only where this connection has had no answer under its id.
    pub(crate) fn replay(
        &mut self,
        slot: &Slot,
        settled: &Settled,
        is_owed: bool,
        rule: DuplicateRule,
        out: &mut Vec<Output>,
    ) {
        self.count_repeat(slot.turn);
        self.deduplicated(slot, rule, out);
        // What was unknown when it was recorded may be known since.
        let effect_id = settled.effect_id.as_ref();
        let known = effect_id.and_then(|effect_id| self.end_of(effect_id));
        let settled = &Settled {
            response: known.unwrap_or_else(|| settled.response.clone()),
            ..settled.clone()
        };
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
        self.deliveries.remember(slot.clone(), state);
        let scheduling = self.scheduling_of_answer(slot, settled.response.is_ok());
        self.answer(slot.clone(), replayed, scheduling, is_owed, true, out);
        self.wind_up(slot.turn, out);
    }

    /// What came of an effect, where that is known: as the newest wish of its kind, or by a call that asks for another.
    fn end_of(&self, effect_id: &EffectId) -> Option<Arc<ToolResponse>> {
        let asked = self.confirmations.iter_open().map(|(_, call)| call);
        let mut calls = self.calls.iter().chain(asked);
        let by_call = |call: &Call| call.earlier.as_deref()?.end_of(effect_id);
        let known = self.deliveries.end_of(effect_id);
        known.or_else(|| calls.find_map(by_call))
    }

    /// When the model is to speak of an answer that no run of the call brought.
    fn scheduling_of_answer(&self, slot: &Slot, is_ok: bool) -> Option<Scheduling> {
        // One that was refused before it was looked up has a tool all the same.
        let named = || self.config.registry.get(&slot.name);
        let tool = slot.tool().or_else(named)?;
        self.scheduling_of(tool, self.blocks(tool), None, is_ok)
    }

    pub(crate) fn deduplicated(&mut self, slot: &Slot, rule: DuplicateRule, out: &mut Vec<Output>) {
        let (call, tool) = (slot.number, slot.name.clone());
        out.push(Output::Event(SessionEvent::CallDeduplicated {
            call,
            rule,
            tool,
        }));
    }

    /// Gives one delivery its answer, or nothing where nobody is to hear of it.
    pub(super) fn answer(
        &mut self,
        slot: Slot,
        settled: Settled,
        scheduling: Option<Scheduling>,
        is_spoken: bool,
        blocks: bool,
        out: &mut Vec<Output>,
    ) {
        let is_here = self.is_here(&slot);
        if is_spoken && !is_here && !self.was_told(&settled) {
            self.keep_late(&slot, &settled, scheduling, out);
        }
        let answers_twice = has_bug!(self, AnswersTwice);
        let is_heard = is_spoken
            && is_here
            && slot.provider_id().is_none_or(|id| {
                let closed_ids = &mut self.connection.closed_ids;
                closed_ids.close(id, &slot.key, slot.number) || answers_twice
            });
        if is_heard {
            self.note_reading(&settled, out);
        }
        let answer = is_heard.then(|| ModelToolResponse {
            id: slot.provider_id().cloned(),
            name: slot.name.clone(),
            projection: envelope::project(
                &settled.response,
                settled.quoted,
                self.config.limits.projection_characters_max,
            ),
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
    pub(crate) fn release(
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
            self.connection.nudges_left = if asks_for_words {
                self.config.limits.result_nudges_max
            } else {
                0
            };
            out.push(Output::SendModel(ModelCommand::ToolResponses(
                released.answers,
            )));
            self.connection.plan.said();
            if asks_for_words {
                self.owe_words(slot, waited);
                self.expect_answer();
            } else {
                self.turns.expect_continuation(slot.turn);
            }
            self.await_reactions(slot);
            let seconds = self.config.limits.result_silence_seconds;
            self.deadlines.set(
                Deadline::ResultSilence,
                self.now + Duration::from_secs(seconds),
            );
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
        let from = self.connection.messages.next(waited);
        let current = self.turns.current_mut();
        if let Some(turn) = current.filter(|turn| turn.number == slot.turn) {
            turn.owes_words = Some(from);
        }
        if slot.turn > 0 && !has_bug!(self, BeginsATurnPerResult) {
            self.turns.answered(slot.turn, waited);
        }
    }

    fn count_repeat(&mut self, turn: u64) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.summary.repeats += 1;
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
        if self
            .turns
            .current()
            .is_some_and(|turn| turn.number == number)
        {
            self.end_turn(false, out);
        }
    }
}
