//! The end of a session: whether it runs, drains or is over, and how long a farewell may take. The application state has the request for
//! an end.

use crate::client::ClientUpdate;
use crate::deadlines::Deadline;
use crate::event::{EndReason, SessionEvent};
use crate::io::Output;
use crate::state::ApplicationState;
use crate::step::SessionStep;
use crate::time::Timestamp;
use std::time::Duration;
use windlass_contract::intent::EndAfter;

#[derive(Debug, PartialEq, Eq)]
enum Lifecycle {
    Running,
    /// Over except for started `writes` calls, which run to their end, and answers that the ledger has not taken yet.
    Draining(EndReason),
    /// Over except for tasks, which may run for hours: client and provider are gone.
    Parted(EndReason),
    Over,
}

#[derive(Debug)]
pub(crate) struct Ending {
    lifecycle: Lifecycle,
    /// The time when the user will have heard the model's last answer.
    audio_ends: Timestamp,
}

impl Default for Ending {
    fn default() -> Self {
        Self {
            lifecycle: Lifecycle::Running,
            audio_ends: Timestamp::default(),
        }
    }
}

impl Ending {
    pub(crate) fn is_running(&self) -> bool {
        self.lifecycle == Lifecycle::Running
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lifecycle == Lifecycle::Over
    }

    /// The model's words so far will have been played at this time.
    pub(crate) fn audio_ends(&mut self, at: Timestamp) {
        self.audio_ends = at;
    }

    /// The turn that asked for the end is over. Its words are still to be heard.
    pub(crate) fn await_farewell(
        &self,
        state: &ApplicationState,
        unplayed: Duration,
        step: &mut SessionStep,
    ) {
        if state.pending_end.is_some() {
            let grace = Duration::from_millis(step.limits().farewell_grace_ms);
            step.set_deadline(Deadline::Farewell, unplayed + grace);
        }
    }

    /// No more words of the farewell will come. Earlier ones are still to be heard.
    pub(crate) fn hear_farewell_out(&self, state: &ApplicationState, step: &mut SessionStep) {
        self.await_farewell(state, self.audio_ends.since(step.now), step);
    }

    /// A user who speaks into the farewell has more to say: the session waits for that, and for the model's answer.
    pub(crate) fn postpone_farewell(&self, step: &mut SessionStep) {
        if step.deadlines.is_set(Deadline::Farewell) {
            wait_for_farewell(step);
        }
    }

    /// Whether the session ends now because a tool asked for it. A requested end is never forgotten: it comes at latest when the model
    /// stays silent.
    pub(crate) fn is_due(&self, state: &ApplicationState, step: &mut SessionStep) -> bool {
        let Some(end) = state.pending_end.as_ref().filter(|_| self.is_running()) else {
            return false;
        };
        if end.after == EndAfter::Immediate {
            return true;
        }
        if !step.deadlines.is_set(Deadline::Farewell) {
            wait_for_farewell(step);
        }
        false
    }

    /// Nothing begins any more. The session waits only for started work.
    pub(crate) fn begin(&mut self, reason: EndReason, step: &mut SessionStep) {
        for deadline in [
            Deadline::ProviderSilence,
            Deadline::ResultSilence,
            Deadline::Farewell,
            Deadline::Rotation,
            Deadline::Reconnect,
            Deadline::ClientGrace,
        ] {
            step.clear(deadline);
        }
        self.lifecycle = Lifecycle::Draining(reason);
    }

    /// Only tasks are left of the started work.
    pub(crate) fn parted(&mut self, step: &mut SessionStep) {
        let Lifecycle::Draining(reason) = &self.lifecycle else {
            return;
        };
        let reason = reason.clone();
        if reason == EndReason::Stopped {
            step.tell_client(ClientUpdate::Stopped);
        }
        step.push(Output::Part(reason.clone()));
        self.lifecycle = Lifecycle::Parted(reason);
    }

    /// The started work has ended.
    pub(crate) fn drained(&mut self, step: &mut SessionStep) {
        let (reason, has_parted) = match &self.lifecycle {
            Lifecycle::Running | Lifecycle::Over => return,
            Lifecycle::Draining(reason) => (reason.clone(), false),
            Lifecycle::Parted(reason) => (reason.clone(), true),
        };
        if reason == EndReason::Stopped && !has_parted {
            step.tell_client(ClientUpdate::Stopped);
        }
        step.event(SessionEvent::SessionEnded {
            reason: reason.clone(),
        });
        step.push(Output::Close(reason));
        self.lifecycle = Lifecycle::Over;
    }
}

fn wait_for_farewell(step: &mut SessionStep) {
    let patience = Duration::from_secs(step.limits().provider_silence_seconds);
    step.set_deadline(Deadline::Farewell, patience);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::PendingEnd;
    use crate::state::StateController;

    fn asked_for(after: EndAfter, step: &SessionStep) -> StateController {
        let mut state = StateController::for_tests(step.config.mode, 10);
        let end = PendingEnd {
            after,
            reason: "done".to_owned(),
            closing_message: None,
            text_response: None,
        };
        state.restore(Some(end), None);
        state
    }

    #[test]
    fn an_end_that_waits_for_its_farewell_comes_at_latest_when_the_model_stays_silent() {
        let mut step = SessionStep::for_tests();
        let ending = Ending::default();
        let now = asked_for(EndAfter::Immediate, &step);
        assert!(ending.is_due(now.get(), &mut step));
        assert!(!step.deadlines.is_set(Deadline::Farewell));
        let later = asked_for(EndAfter::FarewellSpoken, &step);
        assert!(!ending.is_due(later.get(), &mut step));
        let patience = Duration::from_secs(step.limits().provider_silence_seconds);
        assert_eq!(step.deadlines.next(), Some(step.now + patience));
        // The rest of the farewell is shorter than that, and is waited for in its place.
        ending.await_farewell(later.get(), Duration::ZERO, &mut step);
        assert!(step.deadlines.next() < Some(step.now + patience));
        ending.postpone_farewell(&mut step);
        assert_eq!(step.deadlines.next(), Some(step.now + patience));
    }

    #[test]
    fn a_session_is_over_once_what_had_begun_has_ended() {
        let mut step = SessionStep::for_tests();
        let mut ending = Ending::default();
        ending.drained(&mut step);
        assert!(ending.is_running() && step.take_names().is_empty());
        ending.begin(EndReason::Stopped, &mut step);
        assert!(!ending.is_running() && !ending.is_over());
        ending.drained(&mut step);
        assert!(ending.is_over());
        assert_eq!(step.take_names(), ["Stopped", "SessionEnded", "Close"]);
    }

    #[test]
    fn a_client_is_told_once_that_its_session_has_stopped() {
        let mut step = SessionStep::for_tests();
        let mut ending = Ending::default();
        ending.parted(&mut step);
        assert!(ending.is_running() && step.take_names().is_empty());
        ending.begin(EndReason::Stopped, &mut step);
        ending.parted(&mut step);
        ending.parted(&mut step);
        assert!(!ending.is_running() && !ending.is_over());
        assert_eq!(step.take_names(), ["Stopped", "Part"]);
        ending.drained(&mut step);
        assert!(ending.is_over());
        assert_eq!(step.take_names(), ["SessionEnded", "Close"]);
    }
}
