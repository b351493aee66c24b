//! Calls that the user wants stopped: a call that changes nothing stops, a change that has begun goes on. Knows no socket, and not who
//! may ask. Remembers nothing: a call that has ended is said to have ended, by whatever cause.

use super::Calls;
use super::open::{Call, Phase};
use crate::client::{CancelOutcome, CancelWay, ClientUpdate};
use crate::dialogue::Dialogue;
use crate::event::SessionEvent;
use crate::io::Output;
use windlass_contract::id::{CallNumber, EffectId};

impl Calls {
    /// The user wants no more of one call. Answered in every case.
    pub(crate) fn on_user_cancelled(
        &mut self,
        call: CallNumber,
        way: CancelWay,
        dialogue: &mut Dialogue,
    ) {
        let outcome = self.stopping_brings(call, dialogue);
        if matches!(outcome, CancelOutcome::Stopped | CancelOutcome::RunsOn) {
            self.stop(call, (way, outcome), dialogue);
        }
        dialogue
            .step
            .tell_client(ClientUpdate::CancelResult { call, outcome });
    }

    /// The same for a task, by the ledger's word: the stop was requested outside this session.
    pub(super) fn on_cancel_requested(&mut self, effect_id: &EffectId, dialogue: &mut Dialogue) {
        let is_it = |call: &Call| {
            !call.is_stopped_by_user
                && !matches!(call.phase, Phase::Attached(_))
                && call.effect_id() == Some(effect_id)
        };
        let Some(call) = self.open.numbers_of(is_it).pop() else {
            return;
        };
        let outcome = self.stopping_brings(call, dialogue);
        if matches!(outcome, CancelOutcome::Stopped | CancelOutcome::RunsOn) {
            self.stop(call, (CancelWay::Task, outcome), dialogue);
        }
    }

    fn stopping_brings(&self, number: CallNumber, dialogue: &Dialogue) -> CancelOutcome {
        let Some(call) = self.open.get(number) else {
            return match number > CallNumber(0) && number <= dialogue.step.last_call() {
                true => CancelOutcome::Ended,
                false => CancelOutcome::Unknown,
            };
        };
        // A nested call is its parent's, and stops with it.
        if call.nesting().is_some() {
            return CancelOutcome::Unknown;
        }
        if call.is_stopped_by_user {
            return CancelOutcome::AlreadyCancelled;
        }
        match &call.phase {
            Phase::Running(_) if call.tool().writes() => CancelOutcome::RunsOn,
            // The attempt that it waits for is another call's. No attempt of its own follows if that fails.
            Phase::Attached(_) => CancelOutcome::RunsOn,
            Phase::Recording(_) => CancelOutcome::Ended,
            Phase::Running(_)
            | Phase::Admission
            | Phase::CheckingRate
            | Phase::Waiting
            | Phase::Deciding { .. }
            | Phase::BackingOff => CancelOutcome::Stopped,
        }
    }

    fn stop(
        &mut self,
        number: CallNumber,
        (way, outcome): (CancelWay, CancelOutcome),
        dialogue: &mut Dialogue,
    ) {
        let Some(call) = self.open.get_mut(number) else {
            return;
        };
        call.is_stopped_by_user = true;
        if let Phase::Running(Some(run)) = &call.phase
            && call.is_task()
        {
            if way != CancelWay::Task {
                dialogue
                    .step
                    .push(Output::CancelTask(run.effect_id.clone()));
            }
            // A call that changes something goes on. Its handler may look at the signal and stop while that does no harm.
            if outcome == CancelOutcome::RunsOn {
                dialogue.step.push(Output::AbortCall {
                    call: call.call_ref(),
                    drop: false,
                });
            }
        }
        dialogue.step.event(SessionEvent::CancelRequested {
            call: number,
            tool: call.tool().id.clone(),
            version: call.tool().version.clone(),
            way,
            outcome,
        });
        if outcome == CancelOutcome::Stopped {
            self.take_back(number, true, dialogue);
        }
    }
}
