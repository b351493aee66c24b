//! Calls that take longer than anybody waits: they are said to be at work, run on, and their end is told separately. Knows neither the
//! gates nor the ledger.

use super::Calls;
use super::attempts::report;
use super::open::{Call, Origin, Phase};
use crate::answers::CallAnswer;
use crate::deadlines::Deadline;
use crate::dialogue::Dialogue;
use crate::event::{CallRecord, DuplicateRule, SessionEvent};
use crate::policy::Settled;
use crate::turn::Charge;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::envelope::{Outcome, ToolResponse};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::id::{CallNumber, EffectId};
use windlass_contract::kind::{Reach, Scheduling};

/// The note to the model beside such an answer.
const AT_WORK: &str = "It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.";

impl Calls {
    /// The time is over that anybody waits for a call.
    pub(crate) fn on_waited(&mut self, number: CallNumber, dialogue: &mut Dialogue) {
        let waits = |call: &&Call| !call.is_detached && !call.is_taken_back;
        match self.open.get(number).filter(waits).map(|call| &call.phase) {
            Some(Phase::Running(_) | Phase::BackingOff) => self.detach(number, dialogue),
            Some(Phase::Attached(_)) => self.detach_attached(number, dialogue),
            // The call is about to begin or has ended, and is waited for in another way.
            Some(
                Phase::Admission
                | Phase::CheckingRate
                | Phase::Waiting
                | Phase::Deciding { .. }
                | Phase::Recording(_),
            )
            | None => {}
        }
    }

    /// Answers a call as one that is at work. It runs on.
    fn detach(&mut self, number: CallNumber, dialogue: &mut Dialogue) {
        let Some(mut call) = self.open.take(number) else {
            return;
        };
        let effect_id = call.effect_id().cloned();
        let response = at_work(&call, effect_id.as_ref(), dialogue);
        let is_of_message = call.is_of_message();
        let is_speakable = is_of_message && call.spoken && dialogue.link.carries(call.delivered());
        let settled = Settled {
            answered_on: is_speakable.then_some(call.delivered().generation),
            ..Settled::outcome(response, call.turn(), Reach::Internal, None)
        };
        self.deliveries.settle(call.call_request(), settled.clone());
        report(&call, &settled.response, effect_id, dialogue);
        dialogue.log_call(&call.call_request(), &settled);
        let batch = call.delivered().batch;
        self.answer_all(&mut call, settled, None, dialogue);
        call.blocks = false;
        call.is_detached = true;
        self.open.open(call);
        // A call that waited for its turn behind this one would wait as long.
        while let Some(next) = self.open.next_waiting(batch) {
            let Some(next) = self.open.take(next) else {
                break;
            };
            match self.refused_behind(&next) {
                Some(error) => self.refuse_call(next, error, Charge::Already, dialogue),
                None => {
                    self.open.open(next);
                    break;
                }
            }
        }
        self.call_ended(batch, dialogue);
    }

    /// Answers a call that waits for another call's attempt as at work. It has nothing that runs, and ends.
    fn detach_attached(&mut self, number: CallNumber, dialogue: &mut Dialogue) {
        let Some(call) = self.open.take(number) else {
            return;
        };
        let Phase::Attached(effect_id) = &call.phase else {
            return self.open.open(call);
        };
        dialogue.step.clear(Deadline::Lease(number));
        let effect_id = effect_id.clone();
        let response = at_work(&call, Some(&effect_id), dialogue);
        if !self.open.runs(&effect_id) {
            self.note_accepted(&effect_id, call.call_request(), &response);
        }
        match &call.origin {
            Origin::Approval {
                question, clicks, ..
            } => {
                self.approvals
                    .tell_clicks(question, *clicks, &response, dialogue);
            }
            Origin::Model | Origin::Handler(_) => {
                let settled = Settled::outcome(response, call.turn(), Reach::Internal, None);
                self.answer_known(call, settled, DuplicateRule::SameEffectRunning, dialogue);
            }
        }
    }

    /// The answer to a call that asks for something already at work, and changes nothing.
    pub(super) fn at_work_already(&self, call: &Call, dialogue: &Dialogue) -> Option<Settled> {
        let call_request = call.call_request();
        let is_meant = call.is_of_message();
        let running = self.open.at_work_like(&call_request).filter(|_| is_meant)?;
        let response = at_work(running, None, dialogue);
        Some(Settled::outcome(
            response,
            running.turn(),
            Reach::Internal,
            None,
        ))
    }

    /// Why an effect does not wait for the effect before it in its message, if that one is at work for longer.
    pub(super) fn refused_behind(&self, call: &Call) -> Option<CallError> {
        let before = self.open.detached_before(call.delivered())?;
        let (id, before) = (&call.tool().id, &before.tool().id);
        let message = format!(
            "{id} was not started: {before}, which came before it in the same message, is still running; call {id} again where it need not wait for that"
        );
        Some(CallError::new(ErrorType::Transient, message))
    }

    /// Tells client, model and subscribers the end of a call that was said to be at work.
    pub(super) fn tell_end(
        &mut self,
        call: &Call,
        (settled, effect_id): (Settled, Option<EffectId>),
        scheduling: Option<Scheduling>,
        dialogue: &mut Dialogue,
    ) {
        // The service has accepted the effect, and reports its end.
        if settled.response.meta.accepted_until.is_some() {
            return;
        }
        let is_effect = effect_id.is_some();
        let record = CallRecord::new(call.call_request(), &settled.response, effect_id);
        dialogue.step.event(SessionEvent::CallSettled(record));
        // The ledger tells later sessions of effects. Only the log tells them of the rest.
        if !is_effect {
            dialogue.log_end(&call.call_request(), &settled);
        }
        if !call.spoken {
            return;
        }
        let is_ok = settled.response.is_ok();
        let scheduling = dialogue
            .step
            .config
            .scheduling(call.tool(), false, scheduling, is_ok);
        dialogue.keep_late(CallAnswer {
            call_request: call.call_request(),
            settled,
            scheduling,
        });
    }
}

/// The answer of a call that is at work, for a caller that does not wait for its end.
fn at_work(call: &Call, effect_id: Option<&EffectId>, dialogue: &Dialogue) -> Arc<ToolResponse> {
    let step = &dialogue.step;
    let mut meta = step.meta(call.tool(), call.facts.completed.defaults_applied.clone());
    let waited_ms = call
        .started
        .map_or(0, |started| step.now.since(started).as_millis());
    meta.duration_ms = u64::try_from(waited_ms).unwrap_or(u64::MAX);
    meta.accepted_until = Some(step.unix_ms().saturating_add(call.tool().timeout_ms));
    let mut data = json!({ "status": "accepted", "state": "running", "note": AT_WORK });
    meta.preliminary = true;
    if let Some(effect_id) = effect_id {
        meta.background_task_id = Some(effect_id.as_str().into());
        data["backgroundTaskId"] = effect_id.as_str().into();
    }
    Arc::new(ToolResponse {
        outcome: Outcome::Success {
            data: Some(data.into()),
            content: Vec::new(),
        },
        intents: Vec::new(),
        meta,
    })
}
