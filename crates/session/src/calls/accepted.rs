//! Effects that are at work elsewhere, at a service that has accepted them or in another session. This session's model and client hear
//! of their ends by the ledger's log, as soon as they are there. Decides nothing.

use super::Calls;
use super::decisions::undelivered_outcome;
use crate::dialogue::Dialogue;
use crate::event::{CallRecord, SessionEvent};
use crate::facts::CallRequest;
use std::collections::VecDeque;
use std::sync::Arc;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::id::EffectId;
use windlass_store::{Effect, EffectState};

/// The number of awaited effects. The end of the oldest is told in the conversation's next session.
const ACCEPTED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Accepted(VecDeque<(EffectId, CallRequest)>);

impl Calls {
    /// The model is told that an effect is at work, if it is: its end will be told, too.
    pub(super) fn note_accepted(
        &mut self,
        effect_id: &EffectId,
        call_request: CallRequest,
        response: &ToolResponse,
    ) {
        if response.meta.accepted_until.is_some() {
            self.await_end(effect_id.clone(), call_request);
        }
    }

    /// Awaits effects that are at work, and whose ends no other session tells: this one's model and client hear of them.
    pub(crate) fn await_ends(&mut self, effects: Vec<Effect>, dialogue: &mut Dialogue) {
        for effect in effects {
            let call_request =
                undelivered_outcome(&effect, dialogue.turns.last_number(), dialogue).call_request;
            self.await_end(effect.effect_id, call_request);
        }
    }

    /// The end of an effect is told in another way.
    pub(super) fn forget_accepted(&mut self, effect_id: &EffectId) {
        self.accepted.0.retain(|(known, _)| known != effect_id);
    }

    fn await_end(&mut self, effect_id: EffectId, call_request: CallRequest) {
        let known = &mut self.accepted.0;
        if known.iter().any(|(known, _)| *known == effect_id) {
            return;
        }
        if known.len() >= ACCEPTED_MAX {
            known.pop_front();
        }
        known.push_back((effect_id, call_request));
    }

    /// The ledger knows how an effect ended. Returns whether its end was awaited.
    pub(super) fn on_accepted_end(&mut self, effect: &Effect, dialogue: &mut Dialogue) -> bool {
        let mut known = self.accepted.0.iter();
        let Some(index) = known.position(|(known, _)| *known == effect.effect_id) else {
            return false;
        };
        // A task with an unknown end may still have one.
        let may_go_on = effect.task.is_some() && effect.state == EffectState::Unknown;
        let call_request = match may_go_on {
            true => self
                .accepted
                .0
                .get(index)
                .map(|(_, call_request)| call_request.clone()),
            false => self
                .accepted
                .0
                .remove(index)
                .map(|(_, call_request)| call_request),
        };
        if let Some(call_request) = call_request {
            self.tell_known_end(effect, call_request, dialogue);
        }
        true
    }

    /// Tells this session's client and model how an effect ended.
    pub(super) fn tell_known_end(
        &mut self,
        effect: &Effect,
        call_request: CallRequest,
        dialogue: &mut Dialogue,
    ) {
        let answer = undelivered_outcome(effect, call_request.turn, dialogue);
        let response: &Arc<ToolResponse> = &answer.settled.response;
        let record = CallRecord::new(call_request, response, Some(effect.effect_id.clone()));
        dialogue.step.event(SessionEvent::CallSettled(record));
        // No model is told how a nested call ended.
        if effect.parent.is_none() {
            dialogue.keep_late(answer);
        }
    }
}
