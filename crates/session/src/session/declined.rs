//! A user's no: what a model that asks again is answered, until the user has spoken. Knows no token.

use super::Session;
use crate::calls::Call;
use crate::policy::{Effect, EffectState, Settled};
use std::sync::Arc;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::EffectId;

impl Session {
    /// Whether what the user was asked about has neither been done by now nor is being done.
    pub(super) fn is_undone(&mut self, call: &Call, effect_id: &EffectId) -> bool {
        let known = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        known.is_none_or(|effect| match &effect.state {
            EffectState::Open(other) => *other == call.number(),
            EffectState::Settled { .. } => {
                effect.state.done().is_none() || effect.effect_id.as_ref() != Some(effect_id)
            }
            EffectState::Asked(_) | EffectState::Failed | EffectState::Declined { .. } => true,
        })
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
