//! The order of the gates, readable top to bottom: every call of every mode and provider passes them here, and there is
//! no other way to a handler (contract section 9).

use super::admitted::AdmittedCall;
use super::arguments::{self, Checked};
use super::idempotency::{
    Delivery, DeliveryState, Effect, EffectState, arguments_hash, delivery_key, fingerprint,
};
use super::{BLOCKING_TOOL, DESCRIBE_TOOL, budget, confirm};
use crate::calls::{Call, Phase, Slot};
use crate::deadlines::Deadline;
use crate::event::{CallStarted, DuplicateRule, SessionEvent};
use crate::io::Output;
use crate::model::CallSupport;
use crate::session::{Charge, Refusal, Session};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::handler::SessionFacts;
use windlass_tool::kind::{Behavior, Category};
use windlass_tool::registry::Tool;
use windlass_tool::sensitive::Sensitive;
use windlass_tool::template;

/// A call that could be parsed, before any gate.
pub(crate) struct Proposal {
    pub(crate) batch: u64,
    pub(crate) provider_id: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) turn: u64,
}

impl Session {
    /// Steps 2 to 8, then on through [`Session::pass_gates`].
    pub(crate) fn admit(&mut self, proposal: Proposal, out: &mut Vec<Output>) {
        let Proposal {
            batch,
            provider_id,
            name,
            arguments,
            turn,
        } = proposal;
        let slot = Slot {
            number: self.calls.next_number(),
            batch,
            key: delivery_key(provider_id.as_deref(), &name, Some(&arguments), turn),
            provider_id,
            name,
            arguments_hash: arguments_hash(&arguments),
            turn,
            generation: self.connection.generation,
        };
        // Step 2: the same delivery.
        if self.recognise_delivery(&slot, out) {
            return;
        }
        out.push(Output::Event(SessionEvent::CallRequested {
            call: slot.number,
            tool: slot.name.clone(),
            turn,
        }));
        // Steps 3 to 6: the tool, the mode, the arguments.
        let (tool, checked) = match self.examine(&slot, arguments) {
            Ok(examined) => examined,
            Err(refusal) => return self.refuse(slot, *refusal, Charge::Now, out),
        };
        let Checked {
            arguments,
            defaults_applied,
            clamped,
        } = checked;
        // Step 7: the same effect.
        let fingerprint = tool
            .writes()
            .then(|| fingerprint(&tool, &self.config.user_id, &arguments));
        if fingerprint.is_some_and(|fingerprint| self.recognise_effect(&slot, &fingerprint, out)) {
            return;
        }
        // Step 8: budgets, then the limits that sessions share.
        let arguments = Arc::new(arguments);
        if let Err(error) = self.charge(turn, &tool) {
            let refusal = Refusal::of(error, tool, arguments);
            return self.refuse(slot, refusal, Charge::Now, out);
        }
        let blocks = self.blocks(&tool);
        let call = Call {
            slot,
            attempt: 1,
            tool,
            arguments,
            defaults_applied,
            clamped,
            fingerprint,
            effect_id: None,
            started: None,
            phase: Phase::CheckingRate,
            blocks,
            spoken: true,
            attached: Vec::new(),
        };
        self.remember_open(&call);
        self.check_rate(call, out);
    }

    fn check_rate(&mut self, call: Call, out: &mut Vec<Output>) {
        let Some(limit) = call.tool.rate_limit else {
            return self.pass_gates(call, out);
        };
        let (number, tool) = (call.slot.number, call.tool.id.clone());
        self.calls.open(call);
        out.push(Output::CheckRate {
            call: number,
            tool,
            limit,
        });
    }

    /// Steps 9 to 11: loops, consent, and the reservation of an effect.
    pub(crate) fn pass_gates(&mut self, mut call: Call, out: &mut Vec<Output>) {
        let history = self.turns.get_mut(call.slot.turn).map(|turn| &turn.history);
        let looped = history.map_or(Ok(()), |history| {
            history.check(&call.tool.id, &call.arguments)
        });
        if let Err(error) =
            looped.and_then(|()| confirm::check(&call.tool, self.external_in_context))
        {
            return self.refuse_call(call, error, out);
        }
        if let Some(turn) = self.turns.get_mut(call.slot.turn) {
            turn.history.called(&call.tool.id, &call.arguments);
        }
        self.blocks_made += u32::from(call.tool.id.as_str() == BLOCKING_TOOL);
        if !call.tool.writes() {
            return self.start(call, out);
        }
        if self.calls.write_before(&call.slot) {
            call.phase = Phase::Waiting;
            self.calls.open(call);
        } else {
            self.reserve(call, out);
        }
    }

    pub(crate) fn reserve(&mut self, mut call: Call, out: &mut Vec<Output>) {
        call.phase = Phase::Reserving;
        let output = Output::Reserve {
            call: call.slot.number,
            tool: call.tool.id.clone(),
            fingerprint: call.fingerprint.unwrap_or_default(),
        };
        self.calls.open(call);
        out.push(output);
    }

    /// Step 11: the attempt begins.
    pub(crate) fn start(&mut self, mut call: Call, out: &mut Vec<Output>) {
        let timeout = Duration::from_millis(call.tool.timeout_ms);
        call.phase = Phase::Running;
        call.started = Some(self.now);
        self.deadlines
            .set(Deadline::Attempt(call.call_ref()), self.now + timeout);
        self.deadlines.clear(Deadline::ProviderSilence);
        self.deadlines.clear(Deadline::ResultSilence);
        let number = call.slot.number;
        if !call.defaults_applied.is_empty() {
            out.push(Output::Event(SessionEvent::DefaultsApplied {
                call: number,
                tool: call.tool.id.clone(),
                pointers: call.defaults_applied.clone(),
            }));
        }
        if let Some(clamp) = &call.clamped {
            out.push(Output::Event(SessionEvent::ArgumentClamped {
                call: number,
                tool: call.tool.id.clone(),
                argument: clamp.argument.clone(),
                from: clamp.from,
                to: clamp.to,
            }));
        }
        let status = call.tool.status.as_ref();
        out.push(Output::Event(SessionEvent::CallStarted(CallStarted {
            call: number,
            attempt: call.attempt,
            tool: call.tool.clone(),
            turn: call.slot.turn,
            arguments: Sensitive(call.arguments.clone()),
            status: status.map(|status| template::render(status, &call.arguments)),
        })));
        let state = self.state.get();
        out.push(Output::StartCall(AdmittedCall {
            call: call.call_ref(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            turn: call.slot.turn,
            effect_id: call.effect_id.clone(),
            timeout,
            session: SessionFacts {
                is_active: state.is_active,
                registry_version: self.config.registry.version().clone(),
                is_model_generating: state.is_model_generating,
                pending_end_voice_session: state.pending_end.is_some(),
            },
        }));
        self.calls.open(call);
        self.hold_microphone(out);
    }

    fn examine(
        &self,
        slot: &Slot,
        arguments: Map<String, Value>,
    ) -> Result<(Arc<Tool>, Checked), Box<Refusal>> {
        let Some(tool) = self.config.registry.get(&slot.name) else {
            let error = CallError::new(
                ErrorType::NotFound,
                format!("there is no tool {:?}", shorten(&slot.name)),
            );
            let error = match self.config.registry.nearest(&slot.name) {
                Some(id) => error.with_suggestion(format!("The nearest tool is {id}.")),
                None => error,
            };
            return Err(Box::new(Refusal {
                error,
                tool: None,
                arguments: None,
            }));
        };
        let refusal = |error| {
            Box::new(Refusal {
                error,
                tool: Some(tool.clone()),
                arguments: None,
            })
        };
        if !tool.allows(self.config.mode) {
            return Err(refusal(CallError::new(
                ErrorType::ModeRestricted,
                format!(
                    "{} is not for {} sessions",
                    tool.id,
                    self.config.mode.as_str()
                ),
            )));
        }
        if self.calls.len() >= self.config.limits.open_calls_max {
            return Err(refusal(CallError::new(
                ErrorType::BudgetExceeded,
                format!("{} calls are open already", self.calls.len()),
            )));
        }
        let checked = arguments::check(tool, arguments, self.config.limits.turn.top_k_max)
            .map_err(refusal)?;
        Ok((tool.clone(), checked))
    }

    fn charge(&mut self, turn: u64, tool: &Tool) -> Result<(), CallError> {
        let (mode, limits) = (self.config.mode, self.config.limits.clone());
        let Some(turn) = self.turns.get_mut(turn) else {
            return Ok(());
        };
        if tool.id.as_str() == DESCRIBE_TOOL {
            return Ok(());
        }
        budget::check(&turn.summary, &limits.turn, mode, tool.category)?;
        budget::check_cap(tool, self.blocks_made, turn.history.count(&tool.id))?;
        turn.summary.calls += 1;
        turn.summary.retrieval_calls += u32::from(tool.category == Category::Retrieval);
        Ok(())
    }

    /// Whether the model waits for a tool's result: what the tool says, as far as the model can.
    fn blocks(&self, tool: &Tool) -> bool {
        match self.config.profile.calls {
            CallSupport::BlockingOnly => true,
            CallSupport::NonBlockingOnly => false,
            CallSupport::Both => tool.behavior == Behavior::Blocking,
        }
    }

    fn remember_open(&mut self, call: &Call) {
        let state = DeliveryState::Open(call.slot.number);
        let delivery = Delivery {
            arguments: call.slot.arguments_hash,
            generation: call.slot.generation,
            state,
        };
        self.deliveries.remember(call.slot.key.clone(), delivery);
        if let Some(fingerprint) = call.fingerprint {
            let effect = Effect {
                effect_id: None,
                asked_at_input: self.turns.inputs(),
                state: EffectState::Open(call.slot.number),
            };
            self.deliveries.remember_effect(fingerprint, effect);
        }
    }

    /// Rules D1 and D2. True where the delivery is dealt with.
    fn recognise_delivery(&mut self, slot: &Slot, out: &mut Vec<Output>) -> bool {
        let Some(delivery) = self.deliveries.find(&slot.key) else {
            return false;
        };
        let same_connection = delivery.generation == slot.generation;
        if delivery.arguments != slot.arguments_hash {
            if same_connection {
                self.record_conflict(slot.clone(), out);
            }
            return same_connection;
        }
        let delivery = delivery.clone();
        // The provider gave this id its place on this connection already: a second answer under it would be one too many.
        let has_place = same_connection && slot.provider_id.is_some();
        match delivery.state {
            DeliveryState::Open(number) => {
                if has_place {
                    self.deduplicated(slot, DuplicateRule::SameDelivery, out);
                    self.release(slot, None, true, out);
                } else {
                    self.attach(number, slot.clone(), DuplicateRule::SameDelivery, out);
                }
                true
            }
            DeliveryState::Settled(settled) if settled.is_outcome || has_place => {
                let owed =
                    slot.provider_id.is_none() || settled.answered_on != Some(slot.generation);
                self.replay(slot, &settled, owed, DuplicateRule::SameDelivery, out);
                true
            }
            DeliveryState::Settled(_) => false,
        }
    }

    /// Rules D3, D4 and D6. True where the wish is dealt with.
    fn recognise_effect(
        &mut self,
        slot: &Slot,
        fingerprint: &[u8; 32],
        out: &mut Vec<Output>,
    ) -> bool {
        let inputs = self.turns.inputs();
        let Some(effect) = self.deliveries.effect(fingerprint) else {
            return false;
        };
        let is_second_wish = inputs > effect.asked_at_input;
        match &mut effect.state {
            EffectState::Open(number) => {
                let number = *number;
                self.attach(number, slot.clone(), DuplicateRule::SameEffectRunning, out);
                true
            }
            EffectState::Settled {
                settled,
                answer_reached_model,
            } => {
                // What may have happened is not done again, whoever asks.
                let unknown = settled.response.error_type() == Some(ErrorType::OutcomeUnknown);
                if is_second_wish && *answer_reached_model && !unknown {
                    return false;
                }
                *answer_reached_model = true;
                let settled = settled.clone();
                self.replay(slot, &settled, true, DuplicateRule::SameEffectFinished, out);
                true
            }
        }
    }
}

/// Names come from the model; what is said back of them is bounded.
fn shorten(name: &str) -> &str {
    let end = (0..=name.len().min(80))
        .rev()
        .find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or(0)]
}
