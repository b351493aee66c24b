//! The ledger's part of a call: reservations, outcomes that are stored before anybody hears of them, and results that come
//! late. Knows no store.

use super::Session;
use super::call_input::failure;
use super::unsettled::Unsettled;
use crate::calls::{Call, Concluded, Phase};
use crate::deadlines::Deadline;
use crate::event::Resolution;
use crate::io::{
    Begun, LedgerEntry, OutcomeRecord, OutcomeState, Output, Reservation, ReservationRefusal,
};
use crate::policy::{DeliveryState, Effect, confirm, outcome_unknown};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::sensitive::Sensitive;

impl Session {
    pub(super) fn on_reserved(&mut self, reservation: Reservation, out: &mut Vec<Output>) {
        let number = reservation.call;
        if self.unsettled.take_overdue(number) {
            return self.on_reserved_late(reservation, out);
        }
        let Some(mut call) = self.calls.take_in(number, Phase::Reserving) else {
            return self.on_reserved_late(reservation, out);
        };
        self.deadlines.clear(Deadline::Store(number));
        match reservation.outcome {
            Ok(Begun {
                effect_id,
                may_be_done,
            }) => {
                if let Some(effect) = call
                    .fingerprint
                    .and_then(|print| self.deliveries.effect(&print))
                {
                    if let Some(done) = effect.state.done()
                        && effect.effect_id.as_ref() == Some(&effect_id)
                    {
                        return self.adopt_done(call, effect_id, done, out);
                    }
                    effect.effect_id = Some(effect_id.clone());
                }
                // An attempt that was given up may still do it, so that a failure of either says nothing alone.
                for started in &mut self.unsettled.late {
                    started.is_one_of_several |= started.effect_id == effect_id;
                }
                self.unsettled.take_left(&effect_id);
                self.forget_undone(&effect_id, out);
                // What was told of an earlier run is not what comes of this one.
                self.connection.outdate(&effect_id);
                self.notices.outdate(&effect_id);
                call.effect_id = Some(effect_id);
                call.may_be_done = may_be_done;
                if !call.is_taken_back {
                    self.start(call, out);
                } else {
                    self.cancel_unstarted(call, out);
                }
            }
            Err(refusal) => self.on_reservation_refused(call, refusal, out),
        }
    }

    /// The store's answer came too late for its call, which has been answered: nothing will run under it.
    fn on_reserved_late(&mut self, reservation: Reservation, out: &mut Vec<Output>) {
        let number = reservation.call;
        let Ok(begun) = reservation.outcome else {
            return;
        };
        // What nobody knows of an effect that is begun once more, that run will tell, if it begins.
        if begun.may_be_done && self.calls.at(&begun.effect_id).is_some() {
            self.unsettled.leave(begun.effect_id);
        } else {
            let record = OutcomeRecord {
                effect_id: begun.effect_id,
                state: match begun.may_be_done {
                    true => OutcomeState::Unknown,
                    false => OutcomeState::Failed,
                },
                response: None,
            };
            self.store_outcome(record, out);
        }
        // It has used up the approval, which was said to count once more.
        let error = CallError::new(
            ErrorType::ConfirmationExpired,
            "the store took this approval when it was too late to begin; ask for it again",
        );
        self.close_question(number, error, Resolution::Withdrawn, out);
    }

    pub(super) fn on_reservation_refused(
        &mut self,
        mut call: Box<Call>,
        refusal: ReservationRefusal,
        out: &mut Vec<Output>,
    ) {
        let id = &call.tool().id;
        let invalid = |error_type| CallError::new(error_type, "this approval does not count");
        let (error, problem) = match refusal {
            ReservationRefusal::Unavailable(error) => {
                let message = format!("{id} was not started: the store does not answer");
                let problem = Some(error.to_string());
                (CallError::new(ErrorType::Transient, message), problem)
            }
            ReservationRefusal::GrantUnknown | ReservationRefusal::GrantExpired => {
                (invalid(ErrorType::ConfirmationExpired), None)
            }
            ReservationRefusal::GrantDeclined => (invalid(ErrorType::ConfirmationDeclined), None),
            ReservationRefusal::GrantConsumed(Some(response))
            | ReservationRefusal::Done(Some(response)) => {
                return self.adopt(call, response, out);
            }
            ReservationRefusal::GrantConsumed(None) => {
                (invalid(ErrorType::ConfirmationExpired), None)
            }
            ReservationRefusal::Done(None) => {
                let message = format!("{id} was done before, and its answer is not kept");
                (CallError::new(ErrorType::Conflict, message), None)
            }
            ReservationRefusal::Open(effect_id) => return self.refuse_begun(call, effect_id, out),
            // The gates had let it pass: what was read was read elsewhere.
            ReservationRefusal::Read => {
                self.external_in_context = true;
                call.is_charged = true;
                return self.ask(call, out);
            }
            ReservationRefusal::Full => {
                let message =
                    format!("{id} was not started: this conversation has changed too much today");
                (CallError::new(ErrorType::BudgetExceeded, message), None)
            }
            ReservationRefusal::QuestionTooLong => {
                let message = format!(
                    "the arguments of {id} are too long to ask the user about: use shorter ones"
                );
                (CallError::new(ErrorType::Validation, message), None)
            }
            ReservationRefusal::TooManyQuestions => (confirm::too_many(call.tool()), None),
        };
        self.settle(call, failure(error, problem), out);
    }

    /// Another session has begun the same since the ledger was read. Nobody knows how that ended, so that it is looked up when
    /// it is wished again.
    fn refuse_begun(&mut self, call: Box<Call>, effect_id: EffectId, out: &mut Vec<Output>) {
        let error = outcome_unknown(call.tool());
        let (number, tool, fingerprint) = (call.number(), call.tool().clone(), call.fingerprint);
        self.settle(call, failure(error, None), out);
        self.leave_question_elsewhere(number, &effect_id, &tool.id);
        if self.unsettled.take_left(&effect_id) && self.calls.at(&effect_id).is_none() {
            let record = OutcomeRecord {
                effect_id: effect_id.clone(),
                state: OutcomeState::Unknown,
                response: None,
            };
            self.store_outcome(record, out);
        }
        // Where a call of this session is at it, that one knows better.
        let Some(fingerprint) = fingerprint.filter(|_| self.calls.at(&effect_id).is_none()) else {
            return;
        };
        let entry = LedgerEntry {
            fingerprint,
            effect_id: effect_id.clone(),
            tool: tool.id.clone(),
            state: OutcomeState::Unknown,
            response: None,
            is_answered: true,
            is_under_way: true,
            reserved_at_unix_ms: self.unix_ms(),
            wish: self.turns.wish(),
        };
        let effect = Effect {
            state: self.state_in_ledger(&entry),
            effect_id: Some(effect_id),
            wish: entry.wish,
        };
        self.deliveries.remember_effect(fingerprint, effect);
    }

    pub(super) fn adopt(
        &mut self,
        call: Box<Call>,
        response: Arc<ToolResponse>,
        out: &mut Vec<Output>,
    ) {
        self.conclude(call, adopted(&response), out);
    }

    /// A run has failed of an effect that an earlier one proved to have done meanwhile.
    pub(super) fn settle_as_done(
        &mut self,
        call: Box<Call>,
        done: &ToolResponse,
        out: &mut Vec<Output>,
    ) {
        self.record_outcome(call, adopted(done), out);
    }

    /// An earlier run of the effect has proved to have done it while the store was asked for another: there is nothing left to do,
    /// and the reservation is not to say that nobody knows.
    fn adopt_done(
        &mut self,
        mut call: Box<Call>,
        effect_id: EffectId,
        done: Arc<ToolResponse>,
        out: &mut Vec<Output>,
    ) {
        let record = OutcomeRecord {
            effect_id: effect_id.clone(),
            state: OutcomeState::Succeeded,
            response: Some(Sensitive(done.clone())),
        };
        self.store_outcome(record, out);
        call.effect_id = Some(effect_id);
        self.adopt(call, done, out);
    }

    /// No change starts without a store.
    pub(crate) fn refuse_without_store(&mut self, call: Box<Call>, out: &mut Vec<Output>) {
        let message = format!(
            "{} was not started: the store does not answer",
            call.tool().id
        );
        let error = CallError::new(ErrorType::Transient, message);
        self.settle(call, failure(error, None), out);
    }

    /// Keeps a change back until it is known what was done before.
    pub(crate) fn await_ledger(&mut self, mut call: Box<Call>) {
        call.phase = Phase::Remembering;
        let number = call.number();
        self.deliveries
            .remember(call.slot(), DeliveryState::Open(number));
        let patience = Duration::from_millis(self.config.limits.reserve_timeout_ms);
        self.deadlines
            .set(Deadline::Store(number), self.now + patience);
        self.calls.open(call);
    }

    /// Has an outcome stored. The answer waits for it, but not for long.
    pub(super) fn record_outcome(
        &mut self,
        mut call: Box<Call>,
        concluded: Concluded,
        out: &mut Vec<Output>,
    ) {
        let effect_id = call.effect_id.clone();
        let Some(effect_id) = effect_id.filter(|_| !has_bug!(self, ForgetsOutcomes)) else {
            return self.conclude(call, concluded, out);
        };
        let mut record = outcome_of(&call, effect_id, &concluded);
        if has_bug!(self, RecordsUnknownAsFailed) && record.state == OutcomeState::Unknown {
            record.state = OutcomeState::Failed;
        }
        out.push(Output::RecordOutcome(record));
        call.phase = Phase::Recording;
        call.concluded = Some(Box::new(concluded));
        let patience = Duration::from_millis(self.config.limits.record_timeout_ms);
        self.deadlines
            .set(Deadline::Store(call.number()), self.now + patience);
        self.calls.open(call);
    }

    pub(super) fn on_recorded(
        &mut self,
        effect_id: &EffectId,
        state: OutcomeState,
        stored: bool,
        out: &mut Vec<Output>,
    ) {
        if let Some(call) = self.calls.take_recording(effect_id, state) {
            self.deadlines.clear(Deadline::Store(call.number()));
            return self.recorded(call, stored, out);
        }
        if let Some(record) = self.unsettled.take_storing(effect_id, state) {
            if !stored {
                self.try_again(record);
            }
            return;
        }
        let Unsettled {
            unrecorded,
            recording_again,
            ..
        } = &mut self.unsettled;
        let is_meant =
            |known: &OutcomeRecord| known.effect_id == *effect_id && known.state == state;
        if !unrecorded.iter().any(is_meant) {
            return;
        }
        *recording_again = recording_again.saturating_sub(1);
        if !stored {
            // Those that wait have waited for this try.
            if *recording_again == 0 {
                self.end_await_of_outcomes(false, out);
            }
            return;
        }
        unrecorded.retain(|record| !is_meant(record));
        self.go_on_if_recorded(out);
    }

    fn recorded(&mut self, mut call: Box<Call>, stored: bool, out: &mut Vec<Output>) {
        let Some(mut concluded) = call.concluded.take() else {
            return;
        };
        if !stored {
            Arc::make_mut(&mut concluded.response).meta.recorded = Some(false);
            self.keep_unrecorded(&call, &concluded, out);
        }
        self.conclude(call, *concluded, out);
    }

    /// The store has not answered in time. What it still says is heard, and starts nothing.
    pub(super) fn on_store_timeout(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        if let Some(call) = self.calls.take_in(number, Phase::Recording) {
            return self.recorded(call, false, out);
        }
        let waits = [
            Phase::Remembering,
            Phase::Proposing,
            Phase::AwaitingOutcomes,
            Phase::Reserving,
        ];
        for phase in waits {
            if let Some(call) = self.calls.take_in(number, phase) {
                match phase {
                    Phase::Proposing => self.close_replaced(&call, out),
                    Phase::Remembering => self.give_up_reading(),
                    Phase::Reserving => self.unsettled.give_up_reservation(number),
                    _ => {}
                }
                self.refuse_without_store(call, out);
            }
        }
    }
}

/// The answer that the effect had before is the answer of another call, too. What it asked of the session was done then.
fn adopted(response: &ToolResponse) -> Concluded {
    let mut response = response.clone();
    response.meta.idempotent_cache_hit = true;
    response.intents.clear();
    Concluded {
        response: Arc::new(response),
        scheduling: None,
        problem: None,
    }
}

/// What the ledger is told of a call's end. A run that has certainly failed does not say that the one before it did.
pub(super) fn outcome_of(call: &Call, effect_id: EffectId, concluded: &Concluded) -> OutcomeRecord {
    let leaves_doubt = call.leaves_doubt(&concluded.response);
    let response = (!leaves_doubt).then(|| Sensitive(concluded.response.clone()));
    OutcomeRecord {
        effect_id,
        state: call.outcome_state(&concluded.response),
        response,
    }
}
