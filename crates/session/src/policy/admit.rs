//! The order of the gates, readable top to bottom: every call of every mode and provider passes them here, and there is
//! no other way to a handler (`docs/policies.md`, "The pipeline").

use super::admitted::{AdmittedCall, EffectLookup};
use super::arguments::{self, Completed};
use super::idempotency::{delivery_key, fingerprint};
use super::loop_guard::Seen;
use super::{BLOCKING_TOOL, DESCRIBE_TOOL, budget, confirm};
use crate::calls::{Call, Phase};
use crate::deadlines::Deadline;
use crate::event::{CallStarted, SessionEvent};
use crate::facts::{CallFacts, Delivered, Slot, shorten};
use crate::io::{Output, RateCharge, ReserveRequest, Wish};
use crate::session::{Charge, Session};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::arguments::Arguments;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::handler::SessionFacts;
use windlass_tool::id::EffectId;
use windlass_tool::kind::Category;
use windlass_tool::registry::Tool;
use windlass_tool::template;

/// A call that could be parsed, before any gate.
pub(crate) struct Proposal {
    pub(crate) batch: u64,
    pub(crate) provider_id: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arguments,
    pub(crate) turn: u64,
}

/// The tool and what it is to be run with; or why nothing runs.
type Examined = Result<Arc<CallFacts>, Box<(Slot, CallError)>>;

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
        let (key, unstable_id) = delivery_key(provider_id, &name, Some(&arguments), turn);
        let delivered = Delivered {
            number: self.calls.next_number(),
            batch,
            key,
            unstable_id,
            name,
            turn,
            generation: self.connection.generation,
        };
        // Step 2: the same delivery.
        let Some(delivered) = self.recognise_delivery(delivered, &arguments, out) else {
            return;
        };
        out.push(Output::Event(SessionEvent::CallRequested {
            call: delivered.number,
            tool: delivered.name.clone(),
            turn,
        }));
        // Steps 3 to 6: the tool, the mode, the arguments.
        let facts = match self.examine(delivered, arguments) {
            Ok(facts) => facts,
            Err(refused) => {
                let (slot, error) = *refused;
                return self.refuse(slot, error, Charge::Now, out);
            }
        };
        let mut call = Box::new(Call::new(facts, false));
        call.blocks = self.blocks(call.tool());
        if call.tool().writes() || call.tool().requires_confirmation {
            let user = &self.config.user_id;
            call.fingerprint = Some(fingerprint(call.tool(), user, call.arguments()));
        }
        // Step 7: the same effect. Before the ledger is read nobody knows whether there was one.
        if call.tool().writes() && !self.is_ledger_read() {
            return self.await_ledger(call);
        }
        self.recall(call, out);
    }

    /// Step 7 on: whether the same was wished before, and what follows.
    pub(crate) fn recall(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        // What had joined it while it waited for the ledger shares its fate.
        let attached = std::mem::take(&mut call.attached);
        let (number, fingerprint) = (call.number(), call.fingerprint);
        let kept_back = (call.phase == Phase::Remembering).then(|| call.delivered().key.clone());
        match self.recognise_effect(call, out) {
            Some(mut call) => {
                call.attached = attached;
                self.charge(call, out);
            }
            None => {
                // One that is looked up goes on under its own number.
                if let Some(key) = kept_back.filter(|_| self.calls.get_mut(number).is_none()) {
                    self.deliveries.forget_open(&key, number);
                }
                for (slot, rule) in attached {
                    self.join_again(number, fingerprint, slot, rule, out);
                }
            }
        }
    }

    /// Step 8: budgets, then the limits that sessions share.
    pub(crate) fn charge(&mut self, call: Box<Call>, out: &mut Vec<Output>) {
        if let Err(error) = self.spend(call.turn(), call.tool()) {
            return self.refuse_call(call, error, Charge::Now, out);
        }
        self.remember_open(&call);
        let asks_first = confirm::demand(
            call.tool(),
            self.external_in_context,
            call.earlier.as_deref(),
        );
        let charge = match asks_first {
            Some(_) => RateCharge::Peek,
            None => RateCharge::Charge,
        };
        self.check_rate(call, charge, out);
    }

    /// Asks the limits that sessions share, where the tool has one.
    pub(crate) fn check_rate(
        &mut self,
        mut call: Box<Call>,
        charge: RateCharge,
        out: &mut Vec<Output>,
    ) {
        let limit = call.tool().rate_limit.filter(|_| !call.has_paid_rate());
        let Some(limit) = limit else {
            return self.pass_rate(call, out);
        };
        call.phase = Phase::CheckingRate;
        let (number, tool) = (call.number(), call.tool().id.clone());
        self.calls.open(call);
        out.push(Output::CheckRate {
            call: number,
            tool,
            limit,
            charge,
        });
    }

    /// The shared limits allow the call. One that the user has approved passed the other gates before.
    pub(crate) fn pass_rate(&mut self, call: Box<Call>, out: &mut Vec<Output>) {
        if call.grant.is_some() {
            self.reserve(call, out);
        } else {
            self.pass_gates(call, out);
        }
    }

    /// Steps 9 to 11: loops, consent, and the reservation of an effect.
    fn pass_gates(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        let seen = Seen::of(&call.facts);
        let history = self.turns.get_mut(call.turn()).map(|turn| &turn.history);
        let looped = history.map_or(Ok(()), |history| history.check(&seen));
        if let Err(error) = looped {
            return self.refuse_call(call, error, Charge::Already, out);
        }
        let demand = confirm::demand(
            call.tool(),
            self.external_in_context,
            call.earlier.as_deref(),
        );
        if demand.is_some() && !has_bug!(self, SkipsConsent) {
            return self.ask(call, out);
        }
        if let Some(turn) = self.turns.get_mut(call.turn()) {
            turn.history.called(seen, &self.config.limits.turn);
        }
        self.blocks_made += u32::from(call.tool().id.as_str() == BLOCKING_TOOL);
        if !call.tool().writes() {
            return self.start(call, out);
        }
        if self.calls.write_before(call.delivered()) {
            call.phase = Phase::Waiting;
            self.calls.open(call);
        } else {
            self.reserve(call, out);
        }
    }

    pub(crate) fn reserve(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        if self.has_unrecorded_outcomes() && !has_bug!(self, IgnoresUnrecordedOutcomes) {
            return self.await_outcomes(call, out);
        }
        if has_bug!(self, StartsUnreserved) {
            return self.start(call, out);
        }
        call.phase = Phase::Reserving;
        let number = call.number();
        let effect = call
            .fingerprint
            .and_then(|print| self.deliveries.effect(&print));
        let wish = effect.map(|effect| effect.wish);
        let wish = wish.unwrap_or_else(|| self.turns.wish());
        let request = ReserveRequest {
            call: number,
            effect_id: call.kept_effect.clone(),
            tool: call.tool().id.clone(),
            tool_version: call.tool().version.clone(),
            fingerprint: call.fingerprint.unwrap_or_default(),
            turn: call.turn(),
            wish: Wish {
                line: Some(self.began_unix_ms),
                ..wish
            },
            grant: call.grant.filter(|_| !has_bug!(self, KeepsTheGrant)),
            // What was read here was known when it was asked for.
            minds_reading: call.grant.is_none() && confirm::minds_reading(call.tool()),
        };
        self.calls.open(call);
        let patience = Duration::from_millis(self.config.limits.reserve_timeout_ms);
        self.deadlines
            .set(Deadline::Store(number), self.now + patience);
        out.push(Output::Reserve(Box::new(request)));
    }

    /// Step 11: the attempt begins.
    pub(crate) fn start(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        let timeout = Duration::from_millis(call.tool().timeout_ms);
        call.phase = Phase::Running;
        call.started.get_or_insert(self.now);
        if !has_bug!(self, ForgetsTimeouts) {
            self.deadlines
                .set(Deadline::Attempt(call.call_ref()), self.now + timeout);
        }
        self.deadlines.clear(Deadline::ProviderSilence);
        self.deadlines.clear(Deadline::ResultSilence);
        if call.attempt == 1 {
            tell_changes(&call, out);
        }
        let status = call.tool().status.as_ref();
        out.push(Output::Event(SessionEvent::CallStarted(CallStarted {
            facts: call.facts.clone(),
            attempt: call.attempt,
            status: status.map(|status| template::render(status, call.arguments())),
        })));
        out.push(Output::StartCall(AdmittedCall {
            facts: call.facts.clone(),
            attempt: call.attempt,
            effect_id: call.effect_id.clone(),
            timeout,
            session: self.session_facts(),
        }));
        self.calls.open(call);
        self.hold_microphone(out);
    }

    /// Rule D6: what nobody knows is looked up before anything is said or done about it.
    pub(crate) fn look_up_effect(
        &mut self,
        mut call: Box<Call>,
        effect_id: EffectId,
        out: &mut Vec<Output>,
    ) {
        call.phase = Phase::LookingUp;
        if let Some(earlier) = &mut call.earlier {
            earlier.ran_at_lookup = self.runs_still(&effect_id);
        }
        let number = call.number();
        let timeout = Duration::from_millis(call.tool().timeout_ms);
        out.push(Output::Lookup(EffectLookup {
            facts: call.facts.clone(),
            effect_id,
            timeout,
            session: self.session_facts(),
        }));
        self.deadlines
            .set(Deadline::Lookup(number), self.now + timeout);
        self.remember_open(&call);
        self.calls.open(call);
    }

    fn session_facts(&self) -> SessionFacts {
        let state = self.state.get();
        SessionFacts {
            is_active: state.is_active,
            is_model_generating: state.is_model_generating,
            pending_end_voice_session: state.pending_end.is_some(),
        }
    }

    /// What the call asks for, and whether the tool is there for it.
    fn examine(&self, delivered: Delivered, arguments: Arguments) -> Examined {
        let tool = match self.look_up(&delivered.name) {
            Ok(tool) => tool,
            Err((error, tool)) => {
                let slot = Slot::refused(delivered, tool, Some(arguments));
                return Err(Box::new((slot, error)));
            }
        };
        let top_k_max = self.config.limits.turn.top_k_max;
        let (completed, verdict) = arguments::complete(&tool, arguments, top_k_max);
        let facts = Arc::new(CallFacts {
            delivered,
            tool,
            completed,
        });
        match verdict {
            Ok(()) => Ok(facts),
            Err(error) => Err(Box::new((Slot::Invalid(facts), error))),
        }
    }

    /// The tool; or why it is not to be called, and which it is.
    fn look_up(&self, name: &str) -> Result<Arc<Tool>, (CallError, Option<Arc<Tool>>)> {
        let Some(tool) = self.config.registry.get(name) else {
            let error = CallError::new(
                ErrorType::NotFound,
                format!("there is no tool {:?}", shorten(name)),
            );
            let error = match self.config.registry.nearest(name) {
                Some(id) => error.with_suggestion(format!("The nearest tool is {id}.")),
                None => error,
            };
            return Err((error, None));
        };
        let refusal = |error| (error, Some(tool.clone()));
        if !tool.allows(self.config.mode) && !has_bug!(self, IgnoresTheMode) {
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
        Ok(tool.clone())
    }

    fn spend(&mut self, turn: u64, tool: &Tool) -> Result<(), CallError> {
        let (mode, limits) = (self.config.mode, &self.config.limits.turn);
        let is_counted = !has_bug!(self, ForgetsTheBudget);
        let Some(turn) = self.turns.get_mut(turn) else {
            return Ok(());
        };
        if tool.id.as_str() == DESCRIBE_TOOL {
            return Ok(());
        }
        budget::check(&turn.summary, limits, mode, tool.category)?;
        budget::check_cap(tool, self.blocks_made, &turn.history)?;
        turn.summary.calls += u32::from(is_counted);
        turn.summary.retrieval_calls += u32::from(tool.category == Category::Retrieval);
        Ok(())
    }

    /// Whether the model waits for a tool's result: what the tool says, as far as the model can.
    pub(crate) fn blocks(&self, tool: &Tool) -> bool {
        self.config.profile.calls.blocks(tool.behavior)
    }
}

/// What of its arguments the model did not give itself.
fn tell_changes(call: &Call, out: &mut Vec<Output>) {
    let Completed {
        arguments: _,
        defaults_applied,
        clamped,
    } = &call.facts.completed;
    if !defaults_applied.is_empty() {
        let facts = call.facts.clone();
        out.push(Output::Event(SessionEvent::DefaultsApplied { facts }));
    }
    if let Some(clamp) = clamped {
        out.push(Output::Event(SessionEvent::ArgumentClamped {
            call: call.number(),
            tool: call.tool().id.clone(),
            argument: clamp.argument.clone(),
            from: clamp.from,
            to: clamp.to,
        }));
    }
}
