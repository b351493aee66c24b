//! A user's no: what a model that asks again is answered, until the user has spoken. Knows no token.

use super::{Charge, Session};
use crate::calls::{Call, Phase};
use crate::deadlines::Deadline;
use crate::io::{LOOKUP_ATTEMPT, Output};
use crate::policy::{Effect, EffectState, Settled, confirm};
use std::sync::Arc;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::{CallRef, EffectId};

impl Session {
    /// Whether what the user was asked about has neither been done by now nor is being done.
    pub(super) fn is_undone(&mut self, call: &Call, effect_id: &EffectId) -> bool {
        let known = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        known.is_none_or(|effect| match &effect.state {
            EffectState::Open(other) => {
                let other = self.calls.get_mut(*other);
                other.is_none_or(|other| other.phase.may_ask())
            }
            EffectState::Settled { .. } => {
                effect.state.done().is_none() || effect.effect_id.as_ref() != Some(effect_id)
            }
            EffectState::Asked(_) | EffectState::Failed | EffectState::Declined { .. } => true,
        })
    }

    /// What was to be put to the user once more, or might have been, is what they have just declined.
    pub(super) fn decline_proposed(&mut self, call: &Call, out: &mut Vec<Output>) {
        for number in self.calls.asking_like(call) {
            let Some(proposed) = self.calls.take(number) else {
                continue;
            };
            self.deadlines.clear(Deadline::Store(number));
            self.deadlines.clear(Deadline::Lookup(number));
            if proposed.phase == Phase::LookingUp {
                let attempt = LOOKUP_ATTEMPT;
                let call = CallRef {
                    call: number,
                    attempt,
                };
                out.push(Output::AbortCall { call, drop: true });
            }
            let error = confirm::declined();
            self.refuse_call(proposed, error, Charge::Already, out);
        }
    }

    /// A model that asks again although the user has just said no gets the same answer, and the user no question.
    pub(super) fn remember_no(&mut self, call: &Call, response: &Arc<ToolResponse>) {
        let Some(fingerprint) = call.fingerprint else {
            return;
        };
        let settled = Settled {
            response: response.clone(),
            turn: call.turn(),
            quoted: false,
            is_outcome: false,
            answered_on: None,
            effect_id: None,
            repeats: None,
        };
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
