//! Step 13: the outcome is recorded, then intents are carried out, then the provider is answered. Refusals and repeats
//! end here too, so that every call ends in exactly one recorded response.

use super::{Charge, Refusal, Session};
use crate::calls::{Call, Slot};
use crate::client::{Citation, ClientUpdate, ErrorCode};
use crate::deadlines::Deadline;
use crate::event::{CallRecord, DuplicateRule, LatencyLimit, SessionEvent};
use crate::io::Output;
use crate::model::{AnswerBatching, CallSupport, ModelCommand, ModelToolResponse};
use crate::policy::{Delivery, DeliveryState, EffectState, Judged, Settled};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::{self, Meta, Outcome, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::intent::Intent;
use windlass_tool::kind::{Category, Reach, Scheduling};
use windlass_tool::registry::Tool;
use windlass_tool::sensitive::Sensitive;

impl Session {
    /// Ends a call that was admitted.
    pub(super) fn settle(&mut self, call: Call, judged: Judged, out: &mut Vec<Output>) {
        let Judged {
            outcome,
            intents,
            scheduling,
            problem,
        } = judged;
        let number = call.slot.number;
        let took = call.started.map(|started| self.now.since(started));
        let duration_ms = took.map_or(0, |took| {
            u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
        });
        let mut meta = self.meta_of(&call.tool);
        meta.duration_ms = duration_ms;
        meta.defaults_applied.clone_from(&call.defaults_applied);
        if let Some(clamp) = &call.clamped {
            meta.clamped
                .insert(clamp.argument.clone(), [clamp.from, clamp.to]);
        }
        let response = Arc::new(ToolResponse {
            outcome,
            intents,
            meta,
        });
        let is_speakable = call.spoken && call.slot.generation == self.connection.generation;
        let settled = Settled {
            is_outcome: call.started.is_some() && is_outcome(&response),
            response,
            turn: call.slot.turn,
            quoted: call.tool.reach == Reach::External,
            answered_on: is_speakable.then_some(call.slot.generation),
        };
        self.record(&call, &settled, is_speakable);
        self.note_loops(&call, &settled.response);
        if let Some(problem) = problem {
            let tool = call.tool.id.clone();
            out.push(Output::Event(SessionEvent::HandlerProblem {
                call: number,
                tool,
                problem,
            }));
        }
        let record = call_record(
            &call.slot,
            Some(call.tool.clone()),
            call.effect_id.clone(),
            Some(call.arguments.clone()),
            &settled.response,
        );
        out.push(Output::Event(
            if settled.response.error_type() == Some(ErrorType::Cancelled) {
                SessionEvent::CallCancelled(record)
            } else {
                SessionEvent::CallFinished(record)
            },
        ));
        if call.started.is_some() {
            self.note_latency(&call, duration_ms, out);
        }
        self.apply_intents(number, &settled.response.intents, out);
        self.collect_citations(&call.tool, &settled.response);
        let scheduling = self.scheduling_of(&call, scheduling, &settled.response);
        self.answer(
            &call.slot,
            &settled,
            scheduling,
            call.spoken,
            call.blocks,
            out,
        );
        for (slot, rule) in &call.attached {
            self.deduplicated(slot, *rule, out);
            self.answer(slot, &settled, scheduling, true, call.blocks, out);
        }
        self.hold_microphone(out);
        if call.tool.writes()
            && let Some(waiting) = self.calls.next_waiting(call.slot.batch)
            && let Some(next) = self.calls.take(waiting)
        {
            self.reserve(next, out);
        }
        self.end_if_due(out);
    }

    /// Ends a delivery that no gate let through.
    pub(crate) fn refuse(
        &mut self,
        slot: Slot,
        refusal: Refusal,
        charge: Charge,
        out: &mut Vec<Output>,
    ) {
        let Refusal {
            error,
            tool,
            arguments,
        } = refusal;
        let meta = match &tool {
            Some(tool) => self.meta_of(tool),
            None => {
                let version = self.config.registry.version().clone();
                envelope::meta_without_tool(&slot.name, version, self.unix_ms())
            }
        };
        let response = Arc::new(ToolResponse {
            outcome: Outcome::Failure(error),
            intents: Vec::new(),
            meta,
        });
        if let Some(turn) = self.turns.get_mut(slot.turn) {
            turn.summary.refusals += 1;
            turn.summary.calls += u32::from(charge == Charge::Now);
            let is_retrieval = tool
                .as_ref()
                .is_some_and(|tool| tool.category == Category::Retrieval);
            if charge == Charge::Already && is_retrieval {
                turn.summary.retrieval_calls = turn.summary.retrieval_calls.saturating_sub(1);
            }
        }
        let settled = Settled {
            response,
            turn: slot.turn,
            quoted: false,
            is_outcome: false,
            answered_on: Some(slot.generation),
        };
        let delivery = Delivery {
            arguments: slot.arguments_hash,
            generation: slot.generation,
            state: DeliveryState::Settled(settled.clone()),
        };
        self.deliveries.remember(slot.key.clone(), delivery);
        let record = call_record(&slot, tool, None, arguments, &settled.response);
        out.push(Output::Event(SessionEvent::CallRejected(record)));
        let is_spoken = !self.is_past_answering(slot.turn);
        self.answer(&slot, &settled, None, is_spoken, true, out);
        self.wind_up(slot.turn, out);
    }

    /// Ends a call that passed the budgets and failed at a later gate.
    pub(crate) fn refuse_call(&mut self, call: Call, error: CallError, out: &mut Vec<Output>) {
        if let Some(fingerprint) = &call.fingerprint {
            self.deliveries.forget_effect(fingerprint);
        }
        let refusal = Refusal {
            error,
            tool: Some(call.tool),
            arguments: Some(call.arguments),
        };
        self.refuse(call.slot, refusal, Charge::Already, out);
    }

    /// Rule D2: the id has its place on this connection already, so the conflict is recorded and nothing is sent.
    pub(crate) fn record_conflict(&mut self, slot: Slot, out: &mut Vec<Output>) {
        let error = CallError::new(
            ErrorType::Conflict,
            "one call id came with two sets of arguments",
        );
        let version = self.config.registry.version().clone();
        let meta = envelope::meta_without_tool(&slot.name, version, self.unix_ms());
        let response = Arc::new(ToolResponse {
            outcome: Outcome::Failure(error),
            intents: Vec::new(),
            meta,
        });
        let record = call_record(&slot, None, None, None, &response);
        out.push(Output::Event(SessionEvent::CallRejected(record)));
        if let Some(turn) = self.turns.get_mut(slot.turn) {
            turn.summary.refusals += 1;
        }
        let turn = slot.turn;
        self.release(&slot, None, true, out);
        self.wind_up(turn, out);
    }

    /// A delivery that shares the answer of an open call.
    pub(crate) fn attach(
        &mut self,
        number: CallNumber,
        slot: Slot,
        rule: DuplicateRule,
        out: &mut Vec<Output>,
    ) {
        self.count_repeat(slot.turn);
        let turn = slot.turn;
        match self.calls.get_mut(number) {
            Some(call) => call.attached.push((slot, rule)),
            // Open calls and their records change together; without the call there is nothing to wait for.
            None => self.release(&slot, None, true, out),
        }
        self.wind_up(turn, out);
    }

    /// A delivery that is answered from the record; only where this connection has had no answer under its id.
    pub(crate) fn replay(
        &mut self,
        slot: &Slot,
        settled: &Settled,
        is_owed: bool,
        rule: DuplicateRule,
        out: &mut Vec<Output>,
    ) {
        self.count_repeat(slot.turn);
        self.deduplicated(slot, rule, out);
        let mut response = (*settled.response).clone();
        response.meta.idempotent_cache_hit = true;
        response.meta.original_turn = Some(settled.turn);
        let replayed = Settled {
            response: Arc::new(response),
            answered_on: Some(slot.generation),
            ..settled.clone()
        };
        let delivery = Delivery {
            arguments: slot.arguments_hash,
            generation: slot.generation,
            state: DeliveryState::Settled(Settled {
                answered_on: Some(slot.generation),
                ..settled.clone()
            }),
        };
        self.deliveries.remember(slot.key.clone(), delivery);
        self.answer(slot, &replayed, None, is_owed, true, out);
        self.wind_up(slot.turn, out);
    }

    pub(crate) fn deduplicated(&mut self, slot: &Slot, rule: DuplicateRule, out: &mut Vec<Output>) {
        let (call, tool) = (slot.number, slot.name.clone());
        out.push(Output::Event(SessionEvent::CallDeduplicated {
            call,
            rule,
            tool,
        }));
    }

    /// Gives one delivery its answer, or nothing where nobody is to hear of it.
    fn answer(
        &mut self,
        slot: &Slot,
        settled: &Settled,
        scheduling: Option<Scheduling>,
        is_spoken: bool,
        blocks: bool,
        out: &mut Vec<Output>,
    ) {
        let is_heard = is_spoken
            && slot.generation == self.connection.generation
            && slot
                .provider_id
                .as_ref()
                .is_none_or(|id| self.connection.closed_ids.close(id));
        let answer = is_heard.then(|| ModelToolResponse {
            id: slot.provider_id.clone(),
            name: slot.name.clone(),
            projection: envelope::project(
                &settled.response,
                settled.quoted,
                self.config.limits.projection_characters_max,
            ),
            scheduling,
        });
        self.release(slot, answer, blocks, out);
    }

    /// Settles one delivery of its message and sends what that releases.
    pub(crate) fn release(
        &mut self,
        slot: &Slot,
        answer: Option<ModelToolResponse>,
        blocks: bool,
        out: &mut Vec<Output>,
    ) {
        let together = blocks && self.config.profile.answers == AnswerBatching::Together;
        let released = self.calls.settle(slot.batch, slot.number, answer, together);
        if !released.answers.is_empty() {
            out.push(Output::SendModel(ModelCommand::ToolResponses(
                released.answers,
            )));
            self.turns.expect_continuation(slot.turn);
            self.expect_answer();
            let seconds = self.config.limits.result_silence_seconds;
            self.deadlines.set(
                Deadline::ResultSilence,
                self.now + Duration::from_secs(seconds),
            );
        }
        if let Some(tool_count) = released.complete {
            out.push(Output::SendClient(ClientUpdate::ToolsComplete {
                tool_count,
            }));
        }
    }

    fn record(&mut self, call: &Call, settled: &Settled, answer_reaches_model: bool) {
        let delivery = Delivery {
            arguments: call.slot.arguments_hash,
            generation: call.slot.generation,
            state: DeliveryState::Settled(settled.clone()),
        };
        self.deliveries.remember(call.slot.key.clone(), delivery);
        let Some(fingerprint) = &call.fingerprint else {
            return;
        };
        if !settled.is_outcome {
            return self.deliveries.forget_effect(fingerprint);
        }
        if let Some(effect) = self.deliveries.effect(fingerprint) {
            let answer_reached_model = answer_reaches_model || !call.attached.is_empty();
            effect.state = EffectState::Settled {
                settled: settled.clone(),
                answer_reached_model,
            };
        }
    }

    fn note_loops(&mut self, call: &Call, response: &ToolResponse) {
        if let Outcome::Success { data, content } = &response.outcome
            && content.is_empty()
            && envelope::is_empty_result(data.as_ref())
            && let Some(turn) = self.turns.get_mut(call.slot.turn)
        {
            turn.history.returned_nothing(&call.tool.id);
        }
    }

    fn note_latency(&mut self, call: &Call, actual_ms: u64, out: &mut Vec<Output>) {
        let limits = &self.config.limits.turn;
        let (turn_ms, retrieval_ms) = (limits.latency_ms, limits.retrieval_latency_ms);
        let mut exceeded = |limit, limit_ms, actual_ms| {
            let call = call.slot.number;
            let event = SessionEvent::LatencyExceeded {
                call,
                limit,
                limit_ms,
                actual_ms,
            };
            out.push(Output::Event(event));
        };
        if actual_ms > call.tool.latency_budget_ms {
            exceeded(LatencyLimit::Tool, call.tool.latency_budget_ms, actual_ms);
        }
        if call.tool.category == Category::Retrieval && actual_ms > retrieval_ms {
            exceeded(LatencyLimit::Retrieval, retrieval_ms, actual_ms);
        }
        if let Some(turn) = self.turns.get_mut(call.slot.turn) {
            let before = turn.summary.latency_ms;
            turn.summary.latency_ms += actual_ms;
            if before <= turn_ms && turn.summary.latency_ms > turn_ms {
                exceeded(LatencyLimit::Turn, turn_ms, turn.summary.latency_ms);
            }
        }
    }

    fn apply_intents(&mut self, call: CallNumber, intents: &[Intent], out: &mut Vec<Output>) {
        if intents.is_empty() {
            return;
        }
        let changes = self.state.apply(self.now, call, intents);
        for (intent, change) in intents.iter().cloned().zip(changes) {
            out.push(Output::Event(match change {
                Ok(change) => SessionEvent::IntentApplied {
                    call,
                    intent,
                    change,
                },
                Err(problem) => SessionEvent::IntentRejected {
                    call,
                    intent,
                    problem,
                },
            }));
        }
        self.suppress_audio(out);
    }

    fn collect_citations(&mut self, tool: &Tool, response: &ToolResponse) {
        if tool.category != Category::Retrieval {
            return;
        }
        let Outcome::Success {
            data: Some(Value::Object(data)),
            ..
        } = &response.outcome
        else {
            return;
        };
        let citations_max = self.config.limits.citations_max;
        let single = data
            .get("record")
            .and_then(Value::as_object)
            .unwrap_or(data);
        if let Some(citation) = citation_of(single) {
            return self.transcript.cite_source(citation, citations_max);
        }
        let lists = ["results", "items"]
            .iter()
            .filter_map(|key| data.get(*key)?.as_array());
        for record in lists.flatten().filter_map(Value::as_object) {
            if let Some(citation) = citation_of(record) {
                self.transcript.cite_candidate(citation, citations_max);
            }
        }
    }

    fn scheduling_of(
        &self,
        call: &Call,
        by_result: Option<Scheduling>,
        response: &ToolResponse,
    ) -> Option<Scheduling> {
        let profile = &self.config.profile;
        if call.blocks || !profile.scheduling || profile.calls == CallSupport::BlockingOnly {
            return None;
        }
        let is_silent_tool = call.tool.scheduling == Scheduling::Silent;
        Some(match by_result {
            Some(scheduling) => scheduling,
            // Silence about a failure would leave the user waiting.
            None if !response.is_ok() && !is_silent_tool => Scheduling::WhenIdle,
            None => call.tool.scheduling,
        })
    }

    fn count_repeat(&mut self, turn: u64) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.summary.repeats += 1;
        }
    }

    /// A turn in which the model was refused, or repeated itself, too often is ended, so that the user is not left with
    /// a model that talks to its tools.
    fn wind_up(&mut self, number: u64, out: &mut Vec<Output>) {
        let limits = &self.config.limits.turn;
        let (refusals_max, repeats_max) = (limits.refusals_max, limits.repeats_max);
        let Some(turn) = self.turns.get_mut(number) else {
            return;
        };
        let is_due = turn.summary.refusals >= refusals_max || turn.summary.repeats >= repeats_max;
        if !is_due || std::mem::replace(&mut turn.summary.wound_up, true) {
            return;
        }
        self.error(
            ErrorCode::ToolLoop,
            "the model called tools over and over",
            out,
        );
        if self
            .turns
            .current()
            .is_some_and(|turn| turn.number == number)
        {
            self.end_turn(false, out);
        }
    }

    /// A wound-up turn goes on being refused, but not for ever being answered.
    fn is_past_answering(&mut self, number: u64) -> bool {
        let limits = &self.config.limits.turn;
        let answers_max = limits.refusals_max.saturating_add(limits.repeats_max);
        self.turns
            .get_mut(number)
            .is_some_and(|turn| turn.summary.wound_up && turn.summary.refusals > answers_max)
    }

    fn meta_of(&self, tool: &Tool) -> Meta {
        let version = self.config.registry.version().clone();
        Meta::of_tool(&tool.id, tool.version.clone(), version, self.unix_ms())
    }
}

fn is_outcome(response: &ToolResponse) -> bool {
    response
        .error()
        .is_none_or(|error| !error.retryable && error.error_type != ErrorType::Cancelled)
}

fn call_record(
    slot: &Slot,
    tool: Option<Arc<Tool>>,
    effect_id: Option<EffectId>,
    arguments: Option<Arc<Map<String, Value>>>,
    response: &Arc<ToolResponse>,
) -> CallRecord {
    CallRecord {
        call: slot.number,
        tool_name: slot.name.clone(),
        tool,
        turn: slot.turn,
        idempotency_key: slot.key.clone(),
        effect_id,
        arguments: arguments.map(Sensitive),
        response: Sensitive(response.clone()),
    }
}

fn citation_of(record: &Map<String, Value>) -> Option<Citation> {
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    Some(Citation {
        id: text("id")?.to_owned(),
        title: text("title")?.to_owned(),
        url: text("url").map(str::to_owned),
    })
}
