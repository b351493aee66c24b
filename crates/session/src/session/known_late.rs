//! Effects whose end becomes known once their call has been answered: by an attempt that was given up, or by a lookup. Knows no
//! handler and no store.

use super::Session;
use super::unsettled::Started;
use crate::calls::Call;
use crate::event::SessionEvent;
use crate::io::{OutcomeRecord, OutcomeState, Output};
use crate::policy::{EffectState, Settled, judge, state_of};
use std::sync::Arc;
use windlass_tool::envelope::{Meta, ToolResponse};
use windlass_tool::handler::HandlerResult;
use windlass_tool::id::{CallNumber, CallRef, EffectId};
use windlass_tool::sensitive::Sensitive;

impl Session {
    /// An attempt at this effect was given up and has not ended.
    pub(crate) fn runs_still(&self, effect_id: &EffectId) -> bool {
        let late = &self.unsettled.late;
        late.iter().any(|started| started.effect_id == *effect_id)
    }

    /// From now on the attempt's result settles the ledger, and nothing else.
    pub(super) fn expect_late_result(&mut self, call: &Call) {
        let Some(effect_id) = call.effect_id.clone().filter(|_| call.tool().writes()) else {
            return;
        };
        self.unsettled.expect_late(Started {
            attempt: call.call_ref(),
            tool: call.tool().clone(),
            turn: call.turn(),
            fingerprint: call.fingerprint,
            effect_id,
            is_one_of_several: call.may_be_done,
        });
    }

    pub(super) fn on_late_result(
        &mut self,
        attempt: CallRef,
        result: HandlerResult,
        out: &mut Vec<Output>,
    ) {
        let call = attempt.call;
        out.push(Output::Event(SessionEvent::CallReturnedLate { call }));
        let late = &mut self.unsettled.late;
        let Some(index) = late.iter().position(|late| late.attempt == attempt) else {
            return;
        };
        let Some(late) = late.remove(index) else {
            return;
        };
        let judged = judge(&late.tool, result, self.config.limits.result_characters_max);
        let response = Arc::new(ToolResponse {
            outcome: judged.outcome,
            intents: Vec::new(),
            meta: Meta {
                cut: judged.cut,
                ..self.meta_of(&late.tool)
            },
        });
        let is_certain = match state_of(&response) {
            OutcomeState::Succeeded => true,
            OutcomeState::Failed => {
                !late.is_one_of_several && self.calls.at(&late.effect_id).is_none()
            }
            OutcomeState::Unknown => false,
        };
        if is_certain {
            self.settle_effect(late, response, out);
        }
    }

    /// Another run of the same effect that is under way: whoever asks for the same joins it.
    fn run_of(&mut self, started: &Started) -> Option<CallNumber> {
        let effect = self.deliveries.effect(&started.fingerprint?)?;
        let EffectState::Open(number) = effect.state else {
            return None;
        };
        let is_its = effect.effect_id.as_ref() == Some(&started.effect_id);
        let call = self.calls.get_mut(number).filter(|_| is_its)?;
        call.started.map(|_| number)
    }

    /// Has an outcome stored, in place of what the store has not taken of the same effect.
    pub(super) fn store_outcome(&mut self, record: OutcomeRecord, out: &mut Vec<Output>) {
        let mut unrecorded = self.unsettled.unrecorded.iter_mut();
        if let Some(older) = unrecorded.find(|older| older.effect_id == record.effect_id) {
            // What is known is not taken back, and is tried again by itself.
            if older.state != OutcomeState::Unknown && record.state == OutcomeState::Unknown {
                return;
            }
            *older = record.clone();
        } else {
            self.unsettled.await_storing(record.clone());
        }
        out.push(Output::RecordOutcome(record));
    }

    /// What had been unknown is known: the ledger is told, and the model when it asks again.
    pub(super) fn settle_effect(
        &mut self,
        known: Started,
        response: Arc<ToolResponse>,
        out: &mut Vec<Output>,
    ) {
        let run = self.run_of(&known);
        self.connection.outdate(&known.effect_id);
        self.notices.outdate(&known.effect_id);
        let state = state_of(&response);
        if state == OutcomeState::Succeeded {
            // Another run of the same effect has nothing to add.
            let late = &mut self.unsettled.late;
            late.retain(|started| started.effect_id != known.effect_id);
        }
        self.store_outcome(
            OutcomeRecord {
                effect_id: known.effect_id.clone(),
                state,
                response: Some(Sensitive(response.clone())),
            },
            out,
        );
        out.push(Output::Event(SessionEvent::EffectSettled {
            call: known.attempt.call,
            tool: known.tool.id.clone(),
            effect_id: known.effect_id.clone(),
            succeeded: state == OutcomeState::Succeeded,
        }));
        let Some(effect) = known
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint))
        else {
            return;
        };
        // The user has said no to another try, which holds if there was none yet.
        if let (EffectState::Declined { earlier, .. }, OutcomeState::Failed) =
            (&mut effect.state, state)
        {
            if effect.effect_id.as_ref() == Some(&known.effect_id) {
                (effect.effect_id, *earlier) = (None, None);
            }
            return;
        }
        // A later wish of the same kind may have taken its place.
        if effect.effect_id.as_ref() == Some(&known.effect_id) {
            effect.state = EffectState::Settled {
                settled: Settled::outcome(
                    response,
                    known.turn,
                    known.tool.reach,
                    Some(known.effect_id),
                ),
                answer_reached_model: false,
            };
        }
        if let Some(number) = run {
            let state = std::mem::replace(&mut effect.state, EffectState::Open(number));
            self.calls.note_known(number, state);
        }
    }
}
