//! Step 13: the outcome is recorded, then intents are carried out, then the provider is answered. Refusals and repeats
//! end here too, so that every call ends in exactly one recorded response.

use super::Session;
use crate::calls::{Call, Slot};
use crate::client::Citation;
use crate::event::{CallRecord, LatencyLimit, SessionEvent};
use crate::io::Output;
use crate::model::CallSupport;
use crate::policy::{BLOCKING_TOOL, Delivery, DeliveryState, EffectState, Judged, Settled};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::{self, Meta, Outcome, ToolResponse};
use windlass_tool::error::ErrorType;
use windlass_tool::id::CallNumber;
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
        let mut meta = self.meta_of(&call.tool);
        meta.duration_ms = call
            .started
            .map_or(0, |started| millis(self.now.since(started)));
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
        let may_have_worked = settled
            .response
            .error_type()
            .is_none_or(|error| error == ErrorType::OutcomeUnknown);
        if call.tool.id.as_str() == BLOCKING_TOOL && !may_have_worked {
            self.blocks_made = self.blocks_made.saturating_sub(1);
        }
        if let Some(problem) = problem {
            let tool = call.tool.id.clone();
            out.push(Output::Event(SessionEvent::HandlerProblem {
                call: number,
                tool,
                problem,
            }));
        }
        self.report(&call, &settled.response, out);
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
        self.reserve_next(&call, out);
        self.end_if_due(out);
    }

    /// Tells whoever watches how the call ended.
    fn report(&mut self, call: &Call, response: &Arc<ToolResponse>, out: &mut Vec<Output>) {
        let mut record = call_record(
            &call.slot,
            Some(call.tool.clone()),
            Some(call.arguments.clone()),
            response,
        );
        record.effect_id.clone_from(&call.effect_id);
        out.push(Output::Event(
            if response.error_type() == Some(ErrorType::Cancelled) {
                SessionEvent::CallCancelled(record)
            } else {
                SessionEvent::CallFinished(record)
            },
        ));
        if call.started.is_some() {
            self.note_latency(call, response.meta.duration_ms, out);
        }
    }

    /// The next `writes` call of the same message may begin now.
    fn reserve_next(&mut self, done: &Call, out: &mut Vec<Output>) {
        if !done.tool.writes() {
            return;
        }
        let waiting = self.calls.next_waiting(done.slot.batch);
        if let Some(next) = waiting.and_then(|number| self.calls.take(number)) {
            self.reserve(next, out);
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

    pub(super) fn meta_of(&self, tool: &Tool) -> Meta {
        let version = self.config.registry.version().clone();
        Meta::of_tool(&tool.id, tool.version.clone(), version, self.unix_ms())
    }
}

/// Milliseconds of a duration.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn is_outcome(response: &ToolResponse) -> bool {
    response
        .error()
        .is_none_or(|error| !error.retryable && error.error_type != ErrorType::Cancelled)
}

pub(super) fn call_record(
    slot: &Slot,
    tool: Option<Arc<Tool>>,
    arguments: Option<Arc<Map<String, Value>>>,
    response: &Arc<ToolResponse>,
) -> CallRecord {
    CallRecord {
        call: slot.number,
        tool_name: slot.name.clone(),
        tool,
        turn: slot.turn,
        idempotency_key: slot.key.clone(),
        effect_id: None,
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
