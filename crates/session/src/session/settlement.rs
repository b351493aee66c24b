//! Step 13: the outcome is recorded, then intents are carried out, then the provider is answered. Refusals and repeats
//! end here too, so that every call ends in exactly one recorded response.

use super::Session;
use crate::calls::{Call, Concluded, Earlier};
use crate::client::{Citation, Image};
use crate::event::{CallRecord, LatencyLimit, SessionEvent};
use crate::facts::Slot;
use crate::io::Output;
use crate::model::CallSupport;
use crate::policy::{BLOCKING_TOOL, Effect, EffectState, Judged, Settled};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::{self, Meta, Outcome, ToolResponse};
use windlass_tool::error::ErrorType;
use windlass_tool::handler::ContentPart;
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::intent::Intent;
use windlass_tool::kind::{Category, Scheduling};
use windlass_tool::registry::Tool;
use windlass_tool::sensitive::Sensitive;

/// What an object that cites has at least one of.
const CITING_MEMBERS: [&str; 4] = ["id", "record", "results", "items"];

impl Session {
    /// Ends a call that was admitted. Where something was reserved for it, its outcome is stored before anybody hears of it.
    pub(super) fn settle(&mut self, call: Box<Call>, judged: Judged, out: &mut Vec<Output>) {
        let concluded = self.concluded(&call, judged);
        if call.effect_id.is_some() {
            self.record_outcome(call, concluded, out);
        } else {
            self.conclude(call, concluded, out);
        }
    }

    pub(super) fn concluded(&self, call: &Call, judged: Judged) -> Concluded {
        let Judged {
            outcome,
            intents,
            scheduling,
            cut,
            problem,
        } = judged;
        let completed = &call.facts.completed;
        let mut meta = self.meta_with_defaults(call.tool(), completed.defaults_applied.clone());
        meta.duration_ms = call
            .started
            .map_or(0, |started| millis(self.now.since(started)));
        meta.cut = cut;
        meta.retry_count = call.attempt.saturating_sub(1);
        if let Some(clamp) = &completed.clamped {
            meta.clamped
                .insert(clamp.argument.clone(), [clamp.from, clamp.to]);
        }
        let response = ToolResponse {
            outcome,
            intents,
            meta,
        };
        Concluded {
            response: Arc::new(response),
            scheduling,
            problem,
        }
    }

    /// Step 13, once the outcome is stored.
    pub(super) fn conclude(
        &mut self,
        call: Box<Call>,
        concluded: Concluded,
        out: &mut Vec<Output>,
    ) {
        let Concluded {
            response,
            scheduling,
            problem,
        } = concluded;
        let number = call.number();
        let is_speakable = call.grant.is_none() && call.spoken && self.is_here(call.delivered());
        let effect_id = call.effect_id.clone();
        let settled = Settled {
            is_outcome: call.started.is_some() && is_outcome(&response),
            answered_on: is_speakable.then_some(call.delivered().generation),
            ..Settled::outcome(response, call.turn(), call.tool().reach, effect_id)
        };
        self.record(&call, &settled, is_speakable);
        self.note_loops(&call, &settled.response);
        let may_have_worked = settled
            .response
            .error_type()
            .is_none_or(|error| error == ErrorType::OutcomeUnknown);
        if call.tool().id.as_str() == BLOCKING_TOOL && !may_have_worked {
            self.blocks_made = self.blocks_made.saturating_sub(1);
        }
        if let Some(problem) = problem {
            let tool = call.tool().id.clone();
            out.push(Output::Event(SessionEvent::HandlerProblem {
                call: number,
                tool,
                problem,
            }));
        }
        self.report(&call, &settled.response, out);
        self.apply_intents(number, &settled.response.intents, out);
        self.collect_citations(call.tool(), &settled.response);
        self.collect_images(&settled.response);
        let batch = call.delivered().batch;
        self.answer_all(call, settled, scheduling, out);
        self.hold_microphone(out);
        self.reserve_next(batch, out);
        self.end_if_due(out);
    }

    /// Answers every delivery of a call, and the user who approved it.
    fn answer_all(
        &mut self,
        call: Box<Call>,
        settled: Settled,
        scheduling: Option<Scheduling>,
        out: &mut Vec<Output>,
    ) {
        // Most calls have nobody beside them, and need no copy.
        let for_others = (!call.attached.is_empty()).then(|| settled.clone());
        let (scheduling, blocks) = match call.grant {
            // Whoever joined an approved call waits for it as for any other.
            Some(_) => (None, true),
            None => (
                self.scheduling_of(
                    call.tool(),
                    call.blocks,
                    scheduling,
                    settled.response.is_ok(),
                ),
                call.blocks,
            ),
        };
        let spoken = call.spoken;
        if call.grant.is_some() {
            self.resolve_approved(&call, &settled, out);
        } else {
            self.answer(
                Slot::Valid(call.facts),
                settled,
                scheduling,
                spoken,
                blocks,
                out,
            );
        }
        for ((slot, rule), settled) in call.attached.into_iter().zip(for_others.iter().cycle()) {
            self.deduplicated(&slot, rule, out);
            self.answer(slot, settled.clone(), scheduling, true, blocks, out);
        }
    }

    /// Tells whoever watches how the call ended.
    fn report(&mut self, call: &Call, response: &Arc<ToolResponse>, out: &mut Vec<Output>) {
        let mut record = call_record(call.slot(), response);
        record.effect_id.clone_from(&call.effect_id);
        record.is_in_vain_again = call.started.is_none()
            && response
                .error_type()
                .is_some_and(|cause| call.approved_in_vain.contains(&cause));
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

    /// The next `writes` call of a message that waited for its turn, unless one before it is not done.
    pub(super) fn reserve_next(&mut self, batch: u64, out: &mut Vec<Output>) {
        let next = self.calls.next_waiting(batch);
        let Some(next) = next.filter(|_| !has_bug!(self, ForgetsWaitingWrites)) else {
            return;
        };
        if let Some(call) = self.calls.take(next) {
            if self.calls.write_before(call.delivered()) {
                self.calls.open(call);
            } else {
                self.reserve(call, out);
            }
        }
    }

    fn record(&mut self, call: &Call, settled: &Settled, answer_reaches_model: bool) {
        self.deliveries.settle(call, settled.clone());
        let Some(fingerprint) = &call.fingerprint else {
            return;
        };
        if call.leaves_doubt(&settled.response) {
            return self.remember_doubt(call, *fingerprint);
        }
        if call.started.is_none() {
            // It never began, so what was known of an earlier wish holds.
            return match &call.effect_id {
                Some(effect_id) if call.earlier.is_none() => {
                    self.fail_effect(*fingerprint, effect_id.clone());
                }
                Some(_) | None => self.restore_effect(call),
            };
        }
        if !settled.is_outcome {
            return match &call.effect_id {
                Some(effect_id) => self.fail_effect(*fingerprint, effect_id.clone()),
                None => self.deliveries.forget_effect(fingerprint),
            };
        }
        if let Some(effect) = self.deliveries.effect(fingerprint) {
            effect.effect_id.clone_from(&call.effect_id);
            let answer_reached_model = answer_reaches_model || !call.attached.is_empty();
            effect.state = EffectState::Settled {
                settled: settled.clone(),
                answer_reached_model,
            };
        }
    }

    /// Nothing came of this try, and nobody knows what had come of an earlier one.
    fn remember_doubt(&mut self, call: &Call, fingerprint: [u8; 32]) {
        if call.earlier.as_deref().is_some_and(Earlier::is_unknown) {
            return self.restore_effect(call);
        }
        let settled = Settled::outcome(
            self.lost_answer(&call.tool().id),
            call.turn(),
            call.tool().reach,
            call.effect_id.clone(),
        );
        let effect = Effect {
            effect_id: call.effect_id.clone(),
            wish: self.turns.wish(),
            state: EffectState::Settled {
                settled,
                answer_reached_model: true,
            },
        };
        self.deliveries.remember_effect(fingerprint, effect);
    }

    /// The same wish may try again under the same id.
    fn fail_effect(&mut self, fingerprint: [u8; 32], effect_id: EffectId) {
        let effect = Effect {
            effect_id: Some(effect_id),
            wish: self.turns.wish(),
            state: EffectState::Failed,
        };
        self.deliveries.remember_effect(fingerprint, effect);
    }

    fn note_loops(&mut self, call: &Call, response: &ToolResponse) {
        if let Outcome::Success { data, content } = &response.outcome
            && content.is_empty()
            && envelope::is_empty_result(data.as_ref())
            && let Some(turn) = self.turns.get_mut(call.turn())
        {
            turn.history.returned_nothing(&call.tool().id);
        }
    }

    fn note_latency(&mut self, call: &Call, actual_ms: u64, out: &mut Vec<Output>) {
        let limits = &self.config.limits.turn;
        let (turn_ms, retrieval_ms) = (limits.latency_ms, limits.retrieval_latency_ms);
        let mut exceeded = |limit, limit_ms, actual_ms| {
            let call = call.number();
            let event = SessionEvent::LatencyExceeded {
                call,
                limit,
                limit_ms,
                actual_ms,
            };
            out.push(Output::Event(event));
        };
        if actual_ms > call.tool().latency_budget_ms {
            exceeded(LatencyLimit::Tool, call.tool().latency_budget_ms, actual_ms);
        }
        if call.tool().category == Category::Retrieval && actual_ms > retrieval_ms {
            exceeded(LatencyLimit::Retrieval, retrieval_ms, actual_ms);
        }
        if let Some(turn) = self.turns.get_mut(call.turn()) {
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
        let twice = match has_bug!(self, AppliesIntentsTwice) {
            true => [intents, intents].concat(),
            false => Vec::new(),
        };
        let intents = if twice.is_empty() { intents } else { &twice };
        let changes = self.state.apply(self.now, call, intents);
        for (intent, change) in intents.iter().zip(changes) {
            let intent = Box::new(intent.clone());
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
            data: Some(data), ..
        } = &response.outcome
        else {
            return;
        };
        // A look at the names spares most results of other kinds the making of a tree.
        if !data.has_any(&CITING_MEMBERS) {
            return;
        }
        let Some(data) = data.as_object() else {
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

    /// The parts for the eye of a result. What the client was shown meanwhile is among them, and has its caption.
    fn collect_images(&mut self, response: &ToolResponse) {
        let Outcome::Success { content, .. } = &response.outcome else {
            return;
        };
        for ContentPart::Image { url, .. } in content {
            let (url, caption) = (url.clone(), None);
            let images_max = self.config.limits.citations_max;
            self.transcript.show(Image { url, caption }, images_max);
        }
    }

    /// A picture that the client is shown, as the answer is to name it.
    pub(super) fn note_shown(&mut self, kind: &str, message: &Value) {
        let text = |name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
        if kind == "image"
            && let Some(url) = text("url")
        {
            let caption = text("caption");
            let images_max = self.config.limits.citations_max;
            self.transcript.show(Image { url, caption }, images_max);
        }
    }

    /// When the model is to speak of an answer: where nothing says so, as its tool has it, but of failures as soon as it may,
    /// since silence about them would leave the user waiting. `None` where the model is not told.
    pub(super) fn scheduling_of(
        &self,
        tool: &Tool,
        blocks: bool,
        by_result: Option<Scheduling>,
        is_ok: bool,
    ) -> Option<Scheduling> {
        let profile = &self.config.profile;
        if blocks || !profile.scheduling || profile.calls == CallSupport::BlockingOnly {
            return None;
        }
        let is_silent_tool = tool.scheduling == Scheduling::Silent;
        Some(match by_result {
            _ if has_bug!(self, InterruptsForResults) => Scheduling::Interrupt,
            Some(scheduling) => scheduling,
            None if !is_ok && !is_silent_tool => Scheduling::WhenIdle,
            None => tool.scheduling,
        })
    }

    pub(super) fn meta_of(&self, tool: &Tool) -> Meta {
        self.meta_with_defaults(tool, Arc::default())
    }

    fn meta_with_defaults(&self, tool: &Tool, defaults_applied: Arc<[Arc<str>]>) -> Meta {
        let version = self.config.registry.version().clone();
        Meta::of_tool(tool, version, self.unix_ms(), defaults_applied)
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

pub(super) fn call_record(slot: Slot, response: &Arc<ToolResponse>) -> CallRecord {
    CallRecord {
        slot,
        effect_id: None,
        response: Sensitive(response.clone()),
        is_in_vain_again: false,
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
