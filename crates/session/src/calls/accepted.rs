//! Effects that are at work elsewhere, at a service that has accepted them or in another session. This session's model and client hear
//! of their ends by the ledger's log, as soon as they are there. Decides nothing.

use super::Calls;
use super::decisions::undelivered_outcome;
use crate::event::{CallRecord, SessionEvent};
use crate::facts::Slot;
use crate::talk::Talk;
use std::collections::VecDeque;
use std::sync::Arc;
use windlass_store::{Effect, EffectState};
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::EffectId;

/// The number of awaited effects. The end of the oldest is told in the conversation's next session.
const ACCEPTED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Accepted(VecDeque<(EffectId, Slot)>);

impl Calls {
    /// The model is told that an effect is at work, if it is: its end will be told, too.
    pub(super) fn note_accepted(
        &mut self,
        effect_id: &EffectId,
        slot: Slot,
        response: &ToolResponse,
    ) {
        if response.meta.accepted_until.is_some() {
            self.await_end(effect_id.clone(), slot);
        }
    }

    /// Awaits effects that are at work, and whose ends no other session tells: this one's model and client hear of them.
    pub(crate) fn await_ends(&mut self, effects: Vec<Effect>, talk: &mut Talk) {
        for effect in effects {
            let slot = undelivered_outcome(&effect, talk.turns.last_number(), talk).slot;
            self.await_end(effect.effect_id, slot);
        }
    }

    /// The end of an effect is told in another way.
    pub(super) fn forget_accepted(&mut self, effect_id: &EffectId) {
        self.accepted.0.retain(|(known, _)| known != effect_id);
    }

    fn await_end(&mut self, effect_id: EffectId, slot: Slot) {
        let known = &mut self.accepted.0;
        if known.iter().any(|(known, _)| *known == effect_id) {
            return;
        }
        if known.len() >= ACCEPTED_MAX {
            known.pop_front();
        }
        known.push_back((effect_id, slot));
    }

    /// The ledger knows how an effect ended. Returns whether its end was awaited.
    pub(super) fn on_accepted_end(&mut self, effect: &Effect, talk: &mut Talk) -> bool {
        let mut known = self.accepted.0.iter();
        let Some(index) = known.position(|(known, _)| *known == effect.effect_id) else {
            return false;
        };
        // A task with an unknown end may still have one.
        let may_go_on = effect.task.is_some() && effect.state == EffectState::Unknown;
        let slot = match may_go_on {
            true => self.accepted.0.get(index).map(|(_, slot)| slot.clone()),
            false => self.accepted.0.remove(index).map(|(_, slot)| slot),
        };
        if let Some(slot) = slot {
            self.tell_known_end(effect, slot, talk);
        }
        true
    }

    /// Tells this session's client and model how an effect ended.
    pub(super) fn tell_known_end(&mut self, effect: &Effect, slot: Slot, talk: &mut Talk) {
        let answer = undelivered_outcome(effect, slot.turn, talk);
        let response: &Arc<ToolResponse> = &answer.settled.response;
        let record = CallRecord::new(slot, response, Some(effect.effect_id.clone()));
        talk.step.event(SessionEvent::CallSettled(record));
        // No model is told how a nested call ended.
        if effect.parent.is_none() {
            talk.keep_late(answer);
        }
    }
}
