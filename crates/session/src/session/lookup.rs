//! Rule D6: what becomes of a wish of which nobody knows whether it was carried out. Knows no handler and no store; both are
//! asked by the driver.

use super::Session;
use super::ledger::Started;
use crate::calls::{Call, Phase};
use crate::deadlines::Deadline;
use crate::event::{DuplicateRule, SessionEvent};
use crate::io::{LOOKUP_ATTEMPT, OutcomeRecord, OutcomeState, Output};
use crate::policy::{EffectState, judge};
use windlass_tool::handler::Finding;
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
        let runs_still = call
            .kept_effect
            .as_ref()
            .is_some_and(|effect_id| self.runs_still(effect_id));
        match finding {
            // It has not happened yet, which says nothing while an attempt may still do it.
            Finding::NotHappened if runs_still => self.stay_unknown(call, out),
            Finding::Happened(success) => {
                let judged = judge(&call.tool, Ok(*success));
                let response = self.concluded(&call, judged).response;
                if let Some(effect_id) = call.kept_effect.clone() {
                    let known = Started {
                        attempt: call.call_ref(),
                        tool: call.tool.clone(),
                        turn: call.slot.turn,
                        fingerprint: call.fingerprint,
                        effect_id,
                        is_one_of_several: false,
                    };
                    self.settle_effect(known, response, out);
                }
                self.answer_repeat(call, out);
            }
            Finding::NotHappened => {
                if let Some(effect_id) = call.kept_effect.clone() {
                    out.push(Output::RecordOutcome(OutcomeRecord {
                        effect_id: effect_id.clone(),
                        state: OutcomeState::Failed,
                        response: None,
                    }));
                    out.push(Output::Event(SessionEvent::EffectSettled {
                        call: number,
                        tool: call.tool.id.clone(),
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

    /// The lookup has settled nothing: a second wish may run with the user's consent, a repeat is answered as before.
    fn stay_unknown(&mut self, call: Call, out: &mut Vec<Output>) {
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
    fn answer_repeat(&mut self, call: Call, out: &mut Vec<Output>) {
        let known = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        let Some(EffectState::Settled {
            settled,
            answer_reached_model,
        }) = known.map(|effect| &mut effect.state)
        else {
            return self.refuse_without_store(call, out);
        };
        *answer_reached_model = true;
        let settled = settled.clone();
        let rule = DuplicateRule::SameEffectFinished;
        self.replay(&call.slot, &settled, true, rule, out);
        for (slot, rule) in &call.attached {
            self.replay(slot, &settled, true, *rule, out);
        }
        self.reserve_next(call.slot.batch, out);
    }
}
