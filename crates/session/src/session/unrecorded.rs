//! Outcomes that the store did not take: they are told again, and no change begins before it has them. Knows no store.

use super::Session;
use super::ledger::outcome_of;
use crate::calls::{Call, Concluded, Phase};
use crate::deadlines::Deadline;
use crate::event::SessionEvent;
use crate::io::{OutcomeRecord, Output};
use std::time::Duration;
use windlass_tool::id::EffectId;

/// How often outcomes that could not be stored are tried again.
const RECORD_AGAIN: Duration = Duration::from_secs(1);

impl Session {
    pub(super) fn keep_unrecorded(
        &mut self,
        call: &Call,
        concluded: &Concluded,
        out: &mut Vec<Output>,
    ) {
        let Some(effect_id) = call.effect_id.clone() else {
            return;
        };
        out.push(Output::Event(SessionEvent::OutcomeUnrecorded {
            call: call.number(),
            effect_id: effect_id.clone(),
        }));
        // No more than the open calls: while there is one, no other change starts.
        self.try_again(outcome_of(call, effect_id, concluded));
    }

    /// The store is told this outcome until it takes it.
    pub(super) fn try_again(&mut self, record: OutcomeRecord) {
        self.unsettled.unrecorded.push(record);
        self.deadlines
            .set(Deadline::RecordAgain, self.now + RECORD_AGAIN);
    }

    pub(super) fn record_again(&mut self, out: &mut Vec<Output>) {
        out.extend(self.unsettled.records());
        self.unsettled.recording_again += self.unsettled.unrecorded.len();
        self.deadlines
            .set(Deadline::RecordAgain, self.now + RECORD_AGAIN);
    }

    /// Keeps a change back while outcomes that could not be stored are tried once more: the store may be back.
    pub(crate) fn await_outcomes(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        call.phase = Phase::AwaitingOutcomes;
        let patience = Duration::from_millis(self.config.limits.reserve_timeout_ms);
        self.deadlines
            .set(Deadline::Store(call.number()), self.now + patience);
        self.calls.open(call);
        self.record_again(out);
    }

    /// Changes may begin once every outcome is stored.
    pub(super) fn go_on_if_recorded(&mut self, out: &mut Vec<Output>) {
        if self.unsettled.unrecorded.is_empty() {
            self.unsettled.recording_again = 0;
            self.deadlines.clear(Deadline::RecordAgain);
            out.push(Output::Event(SessionEvent::OutcomesRecorded));
            self.end_await_of_outcomes(true, out);
        }
    }

    /// The store has let the effect begin, and so has what was to be told of an earlier run that did not do it. Told once more,
    /// that would say of this run that it has ended.
    pub(super) fn forget_undone(&mut self, effect_id: &EffectId, out: &mut Vec<Output>) {
        let forgotten = self.unsettled.forget_undone(effect_id);
        if forgotten > 0 {
            let again = &mut self.unsettled.recording_again;
            *again = again.saturating_sub(forgotten);
            self.go_on_if_recorded(out);
        }
    }

    /// The outcomes that changes waited for are stored, or could not be: these go on, or do not begin.
    pub(super) fn end_await_of_outcomes(&mut self, stored: bool, out: &mut Vec<Output>) {
        for number in self.calls.awaiting_outcomes() {
            let Some(call) = self.calls.take_in(number, Phase::AwaitingOutcomes) else {
                continue;
            };
            self.deadlines.clear(Deadline::Store(number));
            match stored {
                true => self.reserve(call, out),
                false => self.refuse_without_store(call, out),
            }
        }
    }

    pub(crate) fn has_unrecorded_outcomes(&self) -> bool {
        !self.unsettled.unrecorded.is_empty()
    }
}
