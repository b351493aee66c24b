//! Calls that the user wants stopped: what changes nothing stops, what has begun to change something goes on. Knows no socket, and
//! nothing of who may ask. Remembers nothing: a call that has ended is said to have ended, whoever ended it.

use super::Calls;
use super::open::Phase;
use crate::client::{CancelOutcome, CancelWay, ClientUpdate};
use crate::event::SessionEvent;
use crate::talk::Talk;
use windlass_tool::id::CallNumber;

impl Calls {
    /// The user wants no more of one call. Answered in every case.
    pub(crate) fn on_user_cancelled(&mut self, call: CallNumber, way: CancelWay, talk: &mut Talk) {
        let outcome = self.stopping_brings(call, talk);
        if matches!(outcome, CancelOutcome::Stopped | CancelOutcome::RunsOn) {
            self.stop(call, (way, outcome), talk);
        }
        talk.step
            .tell_client(ClientUpdate::CancelResult { call, outcome });
    }

    fn stopping_brings(&self, number: CallNumber, talk: &Talk) -> CancelOutcome {
        let Some(call) = self.open.get(number) else {
            return match number > CallNumber(0) && number <= talk.step.last_call() {
                true => CancelOutcome::Ended,
                false => CancelOutcome::Unknown,
            };
        };
        // What a handler asked for is its parent's, and stops with that.
        if call.nesting().is_some() {
            return CancelOutcome::Unknown;
        }
        if call.is_stopped_by_user {
            return CancelOutcome::AlreadyCancelled;
        }
        match &call.phase {
            Phase::Running(_) if call.tool().writes() => CancelOutcome::RunsOn,
            // The attempt that it waits for is another call's; none of its own follows if that fails.
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
        talk: &mut Talk,
    ) {
        let Some(call) = self.open.get_mut(number) else {
            return;
        };
        call.is_stopped_by_user = true;
        talk.step.event(SessionEvent::CancelRequested {
            call: number,
            tool: call.tool().id.clone(),
            version: call.tool().version.clone(),
            way,
            outcome,
        });
        if outcome == CancelOutcome::Stopped {
            self.take_back(number, true, talk);
        }
    }
}
