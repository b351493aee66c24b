//! Calls that handlers make: from a handler's message through the gates of every call to the answer that it waits for, and their end
//! with their parent. The ledger's part and the run are those of any call.

use super::decisions::{await_lease, consent_of, known_error};
use super::open::{Call, Origin, Phase};
use super::superseded_calls::Nesting;
use super::{Calls, deduplicated, give_back};
use crate::dialogue::Dialogue;
use crate::event::{CallRecord, DuplicateRule, SessionEvent};
use crate::facts::{CallFacts, CallRequest, Delivered, DeliveryKey, shorten};
use crate::io::Output;
use crate::ledger;
use crate::policy::nested::{Called, Caller, check};
use crate::policy::{Gates, Settled, confirm, consent, examine, outcome_of};
use crate::turn::Charge;
use serde_json::Value;
use std::sync::Arc;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::handler::ReplyNumber;
use windlass_contract::id::{CallNumber, CallRef};
use windlass_contract::kind::Reach;
use windlass_contract::sensitive::Sensitive;
use windlass_store::AttemptOutcome;
use windlass_store::command::Reply;

/// A handler's request to call a tool.
pub(super) struct HandlerCall {
    pub(super) parent: CallRef,
    pub(super) reply: ReplyNumber,
    pub(super) tool: Arc<str>,
    pub(super) arguments: Value,
}

// From a handler's message to the gates of every call.
impl Calls {
    pub(super) fn on_handler_call(&mut self, asked: HandlerCall, dialogue: &mut Dialogue) {
        let runs = |call: &&Call| {
            let is_running = matches!(call.phase, Phase::Running(_));
            call.call_ref() == asked.parent && is_running && !call.is_taken_back
        };
        let name = shorten(&asked.tool);
        let Some(caller) = self.open.get(asked.parent.call).filter(runs) else {
            let message =
                format!("{name} was not run: nobody waits any more for the call that asks");
            let error = CallError::new(ErrorType::Cancelled, message);
            return answer_unadmitted(&asked, error, dialogue);
        };
        let tool = dialogue.step.config.registry.get(&asked.tool);
        let is_change = tool.is_some_and(|tool| ledger::decides_about_nested(tool));
        let ordinals = self.families.count(asked.parent, is_change);
        let calls_max = dialogue.step.limits().calls_per_attempt_max;
        if ordinals.call > calls_max {
            let message = format!("{} calls no more than {calls_max} tools", caller.tool().id);
            let error = CallError::new(ErrorType::BudgetExceeded, message);
            return answer_unadmitted(&asked, error, dialogue);
        }
        let above = caller.nesting().map(|own| own.above.clone());
        let mut above = above.unwrap_or_default();
        above.push(caller.tool().id.clone());
        let effect_id = caller.effect_id().filter(|_| is_change).cloned();
        let nesting = Nesting {
            reply: asked.reply,
            parent: asked.parent,
            change: effect_id.clone().map(|id| (id, ordinals.change)),
            above,
            is_outside_turn: caller.is_outside_turn() || caller.is_detached,
        };
        let delivered = Delivered {
            number: dialogue.step.next_call(),
            batch: 0,
            key: DeliveryKey::Handler {
                parent: asked.parent.call,
                effect: effect_id,
                ordinal: match is_change {
                    true => ordinals.change,
                    false => ordinals.call,
                },
            }
            .into(),
            unstable_id: None,
            name: asked.tool,
            turn: caller.turn(),
            generation: caller.delivered().generation,
        };
        let (of_caller, onset) = (caller.facts.clone(), caller.onset);
        dialogue.step.event(SessionEvent::CallRequested {
            call: delivered.number,
            tool: delivered.name.clone(),
            turn: delivered.turn,
            parent: Some(asked.parent.call),
        });
        match self.examine_nested(delivered, asked.arguments, (&of_caller, &nesting), dialogue) {
            Ok(facts) => {
                let origin = Origin::Handler(Box::new(nesting));
                let mut call = Box::new(Call::new(facts, origin, false));
                call.onset = onset;
                self.pass_budgets(call, dialogue);
            }
            Err(refused) => {
                let (call_request, error) = *refused;
                refuse(call_request, &nesting, (error, Charge::Now), dialogue);
            }
        }
    }

    /// Steps 3 to 6, and the rules for calls of handlers alone.
    fn examine_nested(
        &self,
        delivered: Delivered,
        arguments: Value,
        (caller, nesting): (&CallFacts, &Nesting),
        dialogue: &Dialogue,
    ) -> Result<Arc<CallFacts>, Box<(CallRequest, CallError)>> {
        let Value::Object(arguments) = arguments else {
            let error = CallError::new(ErrorType::Validation, "the arguments are no JSON object");
            return Err(Box::new((CallRequest::unreadable(delivered), error)));
        };
        let gates = Gates {
            registry: &dialogue.step.config.registry,
            facts: dialogue.step.facts(),
            top_k_max: dialogue.step.limits().turn.top_k_max,
            open: self.open.awaited(),
            open_max: dialogue.step.limits().open_calls_max,
        };
        let facts = examine(&gates, delivered, arguments.into())?;
        let caller = Caller {
            tool: &caller.tool,
            above: &nesting.above,
            has_effect: nesting.change.is_some(),
        };
        let tool = facts.tool();
        let consent = consent_of(&facts, dialogue);
        let called = Called {
            tool,
            is_change: ledger::decides_about_nested(tool),
            // Only a model calls a tool that asks and changes nothing.
            asks: match tool.writes() {
                true => consent::is_needed(consent.as_deref()),
                false => tool.requires_confirmation,
            },
        };
        match check(&caller, &called) {
            Ok(()) => Ok(facts),
            Err(error) => Err(Box::new((CallRequest::Valid(facts), error))),
        }
    }
}

// The ledger answers, and the call ends.
impl Calls {
    /// Handles the ledger's replies to a handler's request, except the permission to run.
    pub(super) fn on_nested_decided(
        &mut self,
        mut call: Box<Call>,
        nesting: &Nesting,
        reply: Reply,
        dialogue: &mut Dialogue,
    ) {
        let is_known = matches!(
            reply,
            Reply::Attach(_) | Reply::Replay(_) | Reply::Unknown(_) | Reply::Conflict
        );
        if is_known {
            give_back(&mut call, dialogue);
        }
        match reply {
            Reply::Attach(_) if call.is_taken_back => self.cancel(call, None, dialogue),
            Reply::Attach(effect) => {
                if !std::mem::replace(&mut call.has_waited, true) {
                    deduplicated(
                        &call.call_request(),
                        DuplicateRule::SameEffectRunning,
                        dialogue,
                    );
                }
                await_lease(call.number(), &effect, dialogue);
                call.phase = Phase::Attached(effect.effect_id);
                self.open.open(call);
            }
            Reply::Replay(effect) => {
                let settled = ledger::settled_of(&effect, call.turn(), &dialogue.step);
                self.end_known(&call, nesting, settled, dialogue);
            }
            Reply::Unknown(effect) => {
                let error = confirm::unknown(call.tool(), &effect);
                let settled = known_error(&call, error, Some(effect.effect_id), dialogue);
                self.end_known(&call, nesting, settled, dialogue);
            }
            Reply::Conflict => {
                let message = format!(
                    "{} was called with other arguments by an earlier attempt of the same call",
                    call.tool().id
                );
                let error = CallError::new(ErrorType::Conflict, message);
                refuse(
                    call.call_request(),
                    nesting,
                    (error, Charge::Nothing),
                    dialogue,
                );
            }
            Reply::Refused(refusal) => self.on_refused(call, refusal, dialogue),
            other => self.undecided(call, &other, dialogue),
        }
    }

    /// Ends a call whose outcome the ledger knows.
    fn end_known(
        &mut self,
        call: &Call,
        nesting: &Nesting,
        mut settled: Settled,
        dialogue: &mut Dialogue,
    ) {
        if !call.has_waited {
            deduplicated(
                &call.call_request(),
                DuplicateRule::SameEffectFinished,
                dialogue,
            );
        }
        let response = Arc::make_mut(&mut settled.response);
        response.meta.idempotent_cache_hit = true;
        response.meta.parent_call_id = Some(nesting.parent.call.to_string());
        self.answer_handler(nesting, &settled, dialogue);
    }

    /// Gives the handler that asked its answer.
    pub(super) fn answer_handler(
        &mut self,
        nesting: &Nesting,
        settled: &Settled,
        dialogue: &mut Dialogue,
    ) {
        let response = settled.response.clone();
        let is_in_doubt = response.error_type() == Some(ErrorType::OutcomeUnknown);
        // The words of a failure may be external content as well.
        self.families
            .note_end(nesting.parent, is_in_doubt, settled.quoted);
        answer(nesting.reply, response, dialogue);
    }
}

// A parent ends.
impl Calls {
    /// An attempt is over, and so are its calls, except effects that have begun. Returns whether one of its effects has an unknown end.
    pub(super) fn end_children(&mut self, parent: CallRef, dialogue: &mut Dialogue) -> bool {
        let is_open_change = |call: &Call| match &call.phase {
            Phase::Running(run) => run.is_some(),
            Phase::Attached(_) => true,
            Phase::Recording(concluded) => {
                outcome_of(&concluded.response) == AttemptOutcome::Unknown
            }
            Phase::Admission
            | Phase::CheckingRate
            | Phase::Waiting
            | Phase::Deciding { .. }
            | Phase::BackingOff => false,
        };
        let is_in_doubt = self.open.iter().any(|call| {
            let nesting = call.nesting();
            nesting.is_some_and(|nesting| nesting.parent == parent) && is_open_change(call)
        });
        self.take_back_children(parent.call, dialogue);
        is_in_doubt || self.families.is_in_doubt(parent)
    }

    /// A call is not waited for any more: of its handler's calls, only effects that have begun go on.
    pub(super) fn take_back_children(&mut self, parent: CallNumber, dialogue: &mut Dialogue) {
        for child in self.open.children_of(parent) {
            self.take_back(child, false, dialogue);
        }
    }

    /// External content that a handler was given stays external in its own answer.
    pub(super) fn reach_of(&self, call: &Call) -> Reach {
        match self.families.is_external(call.number()) {
            true => Reach::External,
            false => call.tool().reach,
        }
    }

    /// Forgets attempts that are not waited for any more, with their calls.
    pub(super) fn forget_families(&mut self) {
        let open = &self.open;
        self.families
            .retain(|attempt| open.get(attempt.call).is_some() || open.is_late(attempt));
    }
}

/// Ends a call that no gate let through.
pub(super) fn refuse(
    call_request: CallRequest,
    nesting: &Nesting,
    (error, charge): (CallError, Charge),
    dialogue: &mut Dialogue,
) {
    if !nesting.is_outside_turn {
        dialogue.turns.refused(&call_request, charge);
    }
    let mut response = match call_request.tool() {
        Some(tool) => dialogue.step.failed(tool, error),
        None => dialogue.step.failed_by_name(&call_request.name, error),
    };
    let meta = &mut Arc::make_mut(&mut response).meta;
    meta.parent_call_id = Some(nesting.parent.call.to_string());
    let record = CallRecord::new(call_request, &response, None);
    dialogue.step.event(SessionEvent::CallRejected(record));
    answer(nesting.reply, response, dialogue);
}

/// Answers a handler whose call was not admitted: it has no number and no place in any account.
fn answer_unadmitted(asked: &HandlerCall, error: CallError, dialogue: &mut Dialogue) {
    let mut response = dialogue.step.failed_by_name(&asked.tool, error);
    let meta = &mut Arc::make_mut(&mut response).meta;
    meta.parent_call_id = Some(asked.parent.call.to_string());
    answer(asked.reply, response, dialogue);
}

fn answer(reply: ReplyNumber, response: Arc<ToolResponse>, dialogue: &mut Dialogue) {
    let response = Sensitive(response);
    dialogue
        .step
        .push(Output::AnswerHandler { reply, response });
}
