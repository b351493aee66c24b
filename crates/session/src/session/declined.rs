//! A user's no: it is told once the store has it, and a model that asks again is answered with it, until the user has spoken.
//! Knows no token, only its hash.

use super::restored::tell_client;
use super::settlement::call_record;
use super::{Charge, Session};
use crate::calls::{Call, Phase};
use crate::confirmations::{Confirmation, ConfirmationState, Declined, Question, Untold};
use crate::deadlines::Deadline;
use crate::event::{Resolution, SessionEvent};
use crate::io::{LOOKUP_ATTEMPT, OpenQuestion, Output, TokenHash};
use crate::policy::{Effect, EffectState, Settled, confirm};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::{CallNumber, CallRef, EffectId};

impl Session {
    /// The user said no. From now on nothing comes of the question; that this outlives the process is told when it does.
    pub(super) fn decline(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        if has_bug!(self, RunsWhatWasDeclined) {
            return;
        }
        self.deadlines.clear(Deadline::Confirmation(number));
        let Some((mut call, question)) = self.confirmations.take_open(number) else {
            return;
        };
        let response = self.refusal_of(&call, confirm::declined());
        let is_undone = self.is_undone(&call, &question.effect_id);
        call.kept_effect = None;
        let token_hash = question.token_hash;
        out.push(Output::DeclineConfirmation { token_hash });
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(number),
            resolution: Resolution::Declined,
        }));
        let mut put_again_by = None;
        if has_bug!(self, ForgetsANo) {
            self.restore_asked_effect(&call);
        } else if is_undone {
            self.remember_no(&call, &response);
            put_again_by = self.stop_like(&call, out);
        } else {
            self.ask_for_no_other(&call);
        }
        let declined = Declined {
            response,
            token_hash,
            put_again_by,
            untold: Some(Untold {
                call: Some(*call),
                is_undone,
                askers: 1,
            }),
        };
        self.tell_once_stored(question, declined, out);
    }

    /// The same for a question of another session's about what runs here by another right.
    pub(super) fn decline_found(&mut self, question: OpenQuestion, out: &mut Vec<Output>) {
        let left_ms = self.left_ms(question.expires_at_unix_ms);
        let token_hash = question.token_hash;
        out.push(Output::DeclineConfirmation { token_hash });
        if left_ms == 0 {
            return;
        }
        let call = self.calls.next_number();
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(call),
            resolution: Resolution::Declined,
        }));
        let declined = Declined {
            response: self.declined(question.tool.as_str()),
            token_hash,
            put_again_by: None,
            untold: Some(Untold {
                call: None,
                is_undone: false,
                askers: 0,
            }),
        };
        let question = Question {
            call,
            token_hash,
            effect_id: question.effect_id,
            expires_at: self.now + Duration::from_millis(left_ms),
        };
        self.tell_once_stored(question, declined, out);
    }

    fn tell_once_stored(&mut self, question: Question, declined: Declined, out: &mut Vec<Output>) {
        let number = question.call;
        let state = ConfirmationState::Declined(Box::new(declined));
        self.confirmations.open(Confirmation { question, state });
        if has_bug!(self, TellsANoUnstored) {
            return self.tell_declined(number, true, out);
        }
        self.await_stored(number);
    }

    /// The store has heard of a no, or could not.
    pub(super) fn on_declined(
        &mut self,
        token_hash: &TokenHash,
        stored: bool,
        out: &mut Vec<Output>,
    ) {
        if let Some(number) = self.confirmations.declined_by(token_hash) {
            self.tell_declined(number, stored, out);
        }
    }

    /// Whoever waits is told that the no counts, and where that is so, that it is not stored: a later process may ask again. Who
    /// asks once more hears how it is then.
    pub(super) fn tell_declined(
        &mut self,
        number: CallNumber,
        stored: bool,
        out: &mut Vec<Output>,
    ) {
        let Some(declined) = self.confirmations.declined(number) else {
            return;
        };
        let recorded = (!stored).then_some(false);
        if declined.response.meta.recorded != recorded {
            Arc::make_mut(&mut declined.response).meta.recorded = recorded;
        }
        let response = declined.response.clone();
        let Some(untold) = declined.untold.take() else {
            return;
        };
        self.deadlines.clear(Deadline::Declined(number));
        if let Some(call) = &untold.call {
            let record = call_record(call.slot(), &response);
            out.push(Output::Event(SessionEvent::CallRejected(record)));
        }
        for _ in 0..untold.askers {
            tell_client(number, response.clone(), out);
        }
        if let Some(call) = &untold.call {
            self.notify_declined(call, untold.is_undone, out);
        }
    }

    /// Somebody answers what was declined. Where it was not stored, it may be by now.
    pub(super) fn tell_declined_again(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let Some(declined) = self.confirmations.declined(number) else {
            return;
        };
        if declined.response.meta.recorded.is_none() {
            return tell_client(number, declined.response.clone(), out);
        }
        declined.untold = Some(Untold {
            call: None,
            is_undone: false,
            askers: 1,
        });
        let token_hash = declined.token_hash;
        out.push(Output::DeclineConfirmation { token_hash });
        self.await_stored(number);
    }

    fn await_stored(&mut self, number: CallNumber) {
        let patience = Duration::from_millis(self.config.limits.record_timeout_ms);
        self.deadlines
            .set(Deadline::Declined(number), self.now + patience);
    }

    /// The question is open in the store under a new token, of which nobody knows. Where the user has said no to the old one,
    /// that was said to this one, too.
    pub(super) fn close_renewed(
        &mut self,
        number: CallNumber,
        token_hash: TokenHash,
        out: &mut Vec<Output>,
    ) {
        match self.confirmations.declined_under(number) {
            Some(declined) => {
                declined.token_hash = token_hash;
                out.push(Output::DeclineConfirmation { token_hash });
            }
            None => out.push(Output::WithdrawConfirmation { token_hash }),
        }
    }

    /// Whether what the user was asked about has neither been done by now nor is being done.
    fn is_undone(&mut self, call: &Call, effect_id: &EffectId) -> bool {
        let known = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        known.is_none_or(|effect| match &effect.state {
            EffectState::Open(other) => {
                let other = self.calls.get_mut(*other);
                other.is_none_or(|other| other.is_stoppable())
            }
            EffectState::Settled { .. } => {
                effect.state.done().is_none() || effect.effect_id.as_ref() != Some(effect_id)
            }
            EffectState::Asked(_) | EffectState::Failed | EffectState::Declined { .. } => true,
        })
    }

    /// The user does not want again what has been done by now, or is being done, whatever they had said until then.
    fn ask_for_no_other(&mut self, call: &Call) {
        let wish = self.turns.wish();
        let known = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        if let Some(effect) = known {
            effect.wish = wish;
        }
    }

    /// Calls for the same wish that wait, or were to be put to the user: that is what they have just declined. Which of them the
    /// store is being asked for.
    fn stop_like(&mut self, call: &Call, out: &mut Vec<Output>) -> Option<CallNumber> {
        let mut put_again_by = None;
        for number in self.calls.stoppable_like(call) {
            let Some(stopped) = self.calls.take(number) else {
                continue;
            };
            self.deadlines.clear(Deadline::Store(number));
            self.deadlines.clear(Deadline::Lookup(number));
            if stopped.phase == Phase::LookingUp {
                let attempt = LOOKUP_ATTEMPT;
                let call = CallRef {
                    call: number,
                    attempt,
                };
                out.push(Output::AbortCall { call, drop: true });
            }
            if stopped.phase == Phase::Proposing {
                put_again_by = Some(number);
            }
            let error = confirm::declined();
            self.refuse_call(stopped, error, Charge::Already, out);
        }
        put_again_by
    }

    /// A model that asks again although the user has just said no gets the same answer, and the user no question.
    fn remember_no(&mut self, call: &Call, response: &Arc<ToolResponse>) {
        let Some(fingerprint) = call.fingerprint else {
            return;
        };
        let settled = Settled::refusal(response.clone(), call.turn());
        // What nobody knows may be found out all the same.
        let earlier = call.earlier.as_deref();
        let doubtful = earlier.filter(|earlier| earlier.is_unknown());
        let effect = Effect {
            effect_id: doubtful.and_then(|earlier| earlier.effect_id.clone()),
            wish: self.turns.wish(),
            state: EffectState::Declined {
                settled,
                earlier: call.earlier.clone(),
            },
        };
        self.deliveries.remember_effect(fingerprint, effect);
    }
}
