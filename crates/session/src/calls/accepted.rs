//! Changes that services have accepted and whose ends this session's model and client are to hear: by the ledger's log, as soon as a
//! service has called back. Decides nothing.

use super::Calls;
use super::decisions::untold;
use crate::event::{CallRecord, SessionEvent};
use crate::facts::Slot;
use crate::talk::Talk;
use std::collections::VecDeque;
use std::sync::Arc;
use windlass_store::Effect;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::EffectId;

/// Changes that are waited for; of more, the oldest is told with the conversation's next session.
const ACCEPTED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Accepted(VecDeque<(EffectId, Slot)>);

impl Calls {
    /// The model is told that a service has accepted a change, if it is that: its end will be told, too.
    pub(super) fn note_accepted(
        &mut self,
        effect_id: &EffectId,
        slot: Slot,
        response: &ToolResponse,
    ) {
        let known = &mut self.accepted.0;
        let is_known = known.iter().any(|(known, _)| known == effect_id);
        if response.meta.accepted_until.is_none() || is_known {
            return;
        }
        if known.len() >= ACCEPTED_MAX {
            known.pop_front();
        }
        known.push_back((effect_id.clone(), slot));
    }

    /// The ledger knows how an effect ended.
    pub(super) fn on_accepted_end(&mut self, effect: &Effect, talk: &mut Talk) {
        let mut known = self.accepted.0.iter();
        let Some(index) = known.position(|(known, _)| *known == effect.effect_id) else {
            return;
        };
        let Some((effect_id, slot)) = self.accepted.0.remove(index) else {
            return;
        };
        let answer = untold(effect, slot.turn, talk);
        let response: &Arc<ToolResponse> = &answer.settled.response;
        let record = CallRecord::new(slot, response, Some(effect_id));
        talk.step.event(SessionEvent::CallSettled(record));
        // No model is told how a nested call ended.
        if effect.parent.is_none() {
            talk.keep_late(answer);
        }
    }
}
