//! Rule D6: what becomes of a wish of which nobody knows whether it was carried out. Knows no handler and no other session;
//! the driver asks the one and sees the other.

use super::Session;
use super::unsettled::Started;
use crate::calls::{Call, Phase};
use crate::deadlines::Deadline;
use crate::event::{DuplicateRule, SessionEvent};
use crate::io::{LOOKUP_ATTEMPT, OutcomeRecord, OutcomeState, Output, Spared};
use crate::policy::{Effect, EffectState, Settled, judge};
use std::sync::Arc;
use windlass_tool::envelope::{Outcome, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::handler::{Finding, Success};
use windlass_tool::id::{CallNumber, CallRef};

impl Session {
    /// Rule D6: what the handler found out.
    pub(super) fn on_looked_up(
        &mut self,
        number: CallNumber,
        finding: Finding,
        out: &mut Vec<Output>,
    ) {
        let Some(mut call) = self.calls.take_in(number, Phase::LookingUp) else {
            return;
        };
        self.deadlines.clear(Deadline::Lookup(number));
        if let Some(other) = self.run_beside(&call) {
            if let Finding::Happened(success) = finding {
                self.settle_as_found(&call, *success, out);
            }
            return self.join_run(*call, other, out);
        }
        let ran_meanwhile = call
            .earlier
            .as_ref()
            .is_some_and(|earlier| earlier.ran_at_lookup);
        let effect_id = call.kept_effect.as_ref();
        let runs_still = effect_id.is_some_and(|effect_id| self.runs_still(effect_id));
        match finding {
            // It has not happened yet, which says nothing while an attempt may still do it.
            Finding::NotHappened if runs_still || ran_meanwhile => self.stay_unknown(call, out),
            Finding::Happened(success) => {
                self.settle_as_found(&call, *success, out);
                self.answer_repeat(call, out);
            }
            Finding::NotHappened => {
                if let Some(effect_id) = call.kept_effect.clone() {
                    let record = OutcomeRecord {
                        effect_id: effect_id.clone(),
                        state: OutcomeState::Failed,
                        response: None,
                    };
                    self.store_outcome(record, out);
                    out.push(Output::Event(SessionEvent::EffectSettled {
                        call: number,
                        tool: call.tool().id.clone(),
                        effect_id,
                        succeeded: false,
                    }));
                }
                call.earlier = None;
                self.charge(call, out);
            }
            Finding::Unknown => self.stay_unknown(call, out),
        }
    }

    /// The handler knows that the effect has happened.
    fn settle_as_found(&mut self, call: &Call, success: Success, out: &mut Vec<Output>) {
        let characters_max = self.config.limits.result_characters_max;
        let judged = judge(call.tool(), Ok(success), characters_max);
        let response = self.concluded(call, judged).response;
        if let Some(effect_id) = call.kept_effect.clone() {
            let known = Started {
                attempt: call.call_ref(),
                tool: call.tool().clone(),
                turn: call.turn(),
                fingerprint: call.fingerprint,
                effect_id,
                is_one_of_several: false,
            };
            self.settle_effect(known, response, out);
        }
    }

    /// The call that was begun while this one asked what had become of the same effect, as where the user approved it: whatever
    /// was found, it was found before that.
    fn run_beside(&mut self, call: &Call) -> Option<CallNumber> {
        let effect = self.deliveries.effect(&call.fingerprint?)?;
        if let EffectState::Open(other) = effect.state
            && other != call.number()
            && self.calls.get_mut(other).is_some()
        {
            return Some(other);
        }
        self.calls.at(call.kept_effect.as_ref()?)
    }

    fn join_run(&mut self, call: Call, other: CallNumber, out: &mut Vec<Output>) {
        let (key, number) = (call.delivered().key.clone(), call.number());
        let batch = call.delivered().batch;
        self.deliveries.forget_open(&key, number);
        self.attach(other, call.slot(), DuplicateRule::SameEffectRunning, out);
        for (slot, rule) in call.attached {
            self.attach(other, slot, rule, out);
        }
        self.reserve_next(batch, out);
    }

    /// Another session of the conversation is at the effect, or has settled it.
    pub(super) fn on_lookup_spared(
        &mut self,
        number: CallNumber,
        reason: Spared,
        out: &mut Vec<Output>,
    ) {
        let Some(mut call) = self.calls.take_in(number, Phase::LookingUp) else {
            return;
        };
        self.deadlines.clear(Deadline::Lookup(number));
        if let Some(other) = self.run_beside(&call) {
            return self.join_run(*call, other, out);
        }
        let entry = match reason {
            Spared::UnderWay => return self.stay_under_way(call, out),
            Spared::Settled(entry) => entry,
        };
        let Some(fingerprint) = call.fingerprint else {
            return self.refuse_without_store(call, out);
        };
        let effect = Effect {
            effect_id: call.kept_effect.clone(),
            wish: self.turns.wish(),
            state: self.state_in_ledger(&entry),
        };
        match entry.state {
            OutcomeState::Succeeded => {
                self.deliveries.remember_effect(fingerprint, effect);
                self.answer_repeat(call, out);
            }
            // The same wish may try again under the same id.
            OutcomeState::Failed => {
                call.earlier = None;
                self.charge(call, out);
            }
            OutcomeState::Unknown => self.stay_unknown(call, out),
        }
    }

    /// The change is still being made: it is neither to be made once more, nor is it a question for the user yet.
    fn stay_under_way(&mut self, call: Box<Call>, out: &mut Vec<Output>) {
        self.restore_effect(&call);
        let Some(earlier) = &call.earlier else {
            return self.refuse_without_store(call, out);
        };
        let error = CallError::new(
            ErrorType::OutcomeUnknown,
            format!(
                "{} was started by another session of this conversation and is still under way; ask again in a moment",
                call.tool().id
            ),
        );
        let settled = Settled {
            response: Arc::new(ToolResponse {
                outcome: Outcome::Failure(error.into()),
                intents: Vec::new(),
                meta: self.meta_of(call.tool()),
            }),
            ..earlier.settled.clone()
        };
        self.answer_with(&call, &settled, out);
    }

    /// The lookup has settled nothing: a second wish may run with the user's consent, a repeat is answered as before.
    fn stay_unknown(&mut self, call: Box<Call>, out: &mut Vec<Output>) {
        let earlier = call.earlier.as_ref();
        if earlier.is_some_and(|earlier| earlier.is_second_wish) {
            self.charge(call, out);
        } else {
            self.restore_effect(&call);
            self.answer_repeat(call, out);
        }
    }

    pub(super) fn on_lookup_timeout(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let call = CallRef {
            call: number,
            attempt: LOOKUP_ATTEMPT,
        };
        out.push(Output::AbortCall { call, drop: true });
        self.on_looked_up(number, Finding::Unknown, out);
    }

    /// Answers a call, and what joined it, from what is known of its effect.
    fn answer_repeat(&mut self, call: Box<Call>, out: &mut Vec<Output>) {
        let known = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        let Some(EffectState::Settled {
            settled,
            answer_reached_model,
        }) = known.map(|effect| &effect.state)
        else {
            return self.refuse_without_store(call, out);
        };
        let (settled, was_answered) = (settled.clone(), *answer_reached_model);
        if let Some(effect_id) = settled.effect_id.clone().filter(|_| !was_answered) {
            self.tell_in_this_turn(effect_id);
        }
        self.answer_with(&call, &settled, out);
    }

    fn answer_with(&mut self, call: &Call, settled: &Settled, out: &mut Vec<Output>) {
        let rule = DuplicateRule::SameEffectFinished;
        self.replay(&call.slot(), settled, true, rule, out);
        for (slot, rule) in &call.attached {
            self.replay(slot, settled, true, *rule, out);
        }
        self.reserve_next(call.delivered().batch, out);
    }
}
