//! The handlers of this world: each attempt works, is refused, breaks, hangs or comes late, and its request takes effect outside at any
//! time. None lies: a report that is certain is true.

use crate::agenda::{Due, Of};
use crate::clock::BEGINNING_UNIX_MS;
use crate::count::{Fault, State};
use crate::executor::{Attempt, Work};
use crate::judge::Rule;
use crate::outside::{RequestFate, Service};
use crate::slot::{Live, PlannedFate};
use crate::tools;
use crate::world::World;
use serde_json::json;
use serde_json::value::RawValue;
use windlass_contract::data::Data;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::error::{ErrorType, FailureKind};
use windlass_contract::handler::{
    Cause, Failure, Finding, HandlerMessage, HandlerResult, ReplyNumber, Report as FailureReport,
    Success,
};
use windlass_contract::id::{CallRef, EffectId};
use windlass_contract::intent::{EndAfter, Intent};
use windlass_contract::sensitive::Sensitive;
use windlass_driver::{Ledger, Report};

/// The course of an attempt, chosen when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    Works,
    /// The outside takes the request, and the handler is not told.
    AnswerLost,
    /// The request is still on its way when the handler gives up.
    LandsLate,
    /// The request never arrives, and no one knows.
    RequestLost,
    /// The outside refuses.
    Refused,
    /// The outside refuses for now, and says until when.
    RefusedForNow,
    /// Nothing is sent.
    Breaks,
    Hangs,
    /// A service accepts it, and tells its end later.
    Accepted,
    /// It works, long after the wait for its result has ended.
    ComesLate,
    /// The service asks the user, and waits with the change for the answer.
    Asks,
    /// The service makes the change, and asks the user something further.
    ActsAndAsks,
}

impl World {
    /// Takes the work that a driver asks for.
    pub(crate) fn take_work(&mut self, id: usize, live: &mut Live) {
        for work in std::mem::take(&mut live.driver.executor.work) {
            match work {
                Work::Start(attempt) => {
                    self.judge_start(id, live, &attempt);
                    self.start(id, live, *attempt);
                }
                Work::LookUp(lookup) => {
                    let at = (lookup.effect_id.clone(), Service::of(&lookup.tool));
                    let (after_us, finding) = self.look_up(&at);
                    let what = Of::LookedUp(lookup.effect_id, finding);
                    self.within_live(id, live.process, after_us, what);
                }
                Work::Abort { call, drop } => {
                    if drop {
                        live.running.remove(&call);
                    }
                }
                Work::Answer(reply, response) => self.stage_ended(id, live, reply, &response),
            }
        }
        self.plan_commit(live.process);
    }

    fn start(&mut self, id: usize, live: &mut Live, attempt: Attempt) {
        let call = attempt.call;
        let is_trip = attempt.tool.id.as_str() == tools::TRIP;
        let changes = attempt.may_change();
        if let Some(run) = &attempt.run {
            live.runs.insert(call.call, run.clone());
        }
        live.running.insert(call, attempt);
        if !is_trip {
            return self.go_about(id, live, call, changes);
        }
        // Some handlers wait for one part before they ask for the next.
        let mut at_once = 1;
        if self.random.one_in(2) {
            live.all_at_once.insert(call);
            at_once = tools::STAGES;
        }
        for stage in 1..=at_once {
            self.ask_stage(id, live, call, stage);
        }
    }

    /// The handler of a trip calls another tool.
    fn ask_stage(&mut self, id: usize, live: &mut Live, call: CallRef, stage: u32) {
        let Some(attempt) = live.running.get(&call) else {
            return;
        };
        live.last_reply += 1;
        let reply = ReplyNumber(live.last_reply);
        let text = format!("{}/{stage}", attempt.text("text"));
        live.asked.insert(reply, (call, stage));
        let message = HandlerMessage::CallTool {
            reply,
            tool: tools::STAGE.into(),
            arguments: Sensitive(json!({ "text": text })),
        };
        let reports = &mut live.driver.executor.reports;
        reports.push_back(Report::Message(call, message));
        self.dirty.insert(id);
    }

    /// The handler of a trip is given the answer of a part. Most give up if it failed.
    fn stage_ended(
        &mut self,
        id: usize,
        live: &mut Live,
        reply: ReplyNumber,
        response: &ToolResponse,
    ) {
        self.report.counts.state(match response.error_type() {
            None if response.meta.idempotent_cache_hit => State::NestedFoundAgain,
            None if response.meta.accepted_until.is_some() => State::NestedAccepted,
            None => State::NestedWorked,
            Some(ErrorType::OutcomeUnknown) => State::NestedInDoubt,
            Some(ErrorType::Cancelled) => State::NestedCancelled,
            Some(_) => State::NestedFailed,
        });
        let Some((call, stage)) = live.asked.remove(&reply) else {
            return;
        };
        let has_run = live.running.get(&call).map(Attempt::may_change);
        let Some(changes) = has_run else {
            return;
        };
        if !response.is_ok() && !self.random.one_in(4) {
            live.asked.retain(|_, (of, _)| *of != call);
            let result = self.certain_failure();
            return self.within_live(id, live.process, 1_000, Of::Return(call, result));
        }
        // Answers come in any order.
        let is_waiting = live.asked.values().any(|(of, _)| *of == call);
        let is_last = stage == tools::STAGES || live.all_at_once.contains(&call);
        match (is_waiting, is_last) {
            (true, _) => {}
            (false, true) => self.go_about(id, live, call, changes),
            (false, false) => self.ask_stage(id, live, call, stage + 1),
        }
    }

    /// An attempt does its own work.
    fn go_about(&mut self, id: usize, live: &mut Live, call: CallRef, changes: bool) {
        let Some(attempt) = live.running.get(&call).cloned() else {
            return;
        };
        let send_us = self.random.below(1_500) * 1_000;
        let acted = attempt.may_change()
            && attempt.run.as_ref().is_some_and(|run| {
                let at = (run.effect_id.clone(), Service::of(&attempt.tool));
                self.outside.has_happened_at(&at)
            });
        if let Some(result) = self.end_by_answer(&attempt, acted) {
            return self.within_live(id, live.process, send_us, Of::Return(call, result));
        }
        let conduct = self.conduct(changes, attempt.can_ask);
        let sends = changes && !matches!(conduct, Conduct::Breaks | Conduct::Asks);
        if sends {
            self.within_live(id, live.process, send_us, Of::Send(call));
        }
        let return_us = send_us + self.random.below(1_500) * 1_000;
        let (after_us, result) = match conduct {
            Conduct::Works => (return_us, None),
            Conduct::ComesLate => {
                self.fault(Fault::HandlerLate);
                (5_100_000 + self.random.below(30_000_000), None)
            }
            Conduct::AnswerLost => {
                self.fault(Fault::AnswerLost);
                (return_us, Some(self.doubt()))
            }
            Conduct::LandsLate | Conduct::RequestLost => (return_us, Some(self.doubt())),
            Conduct::Accepted => {
                let until_us = self.now_us + (5_000 + self.random.below(1_000_000)) * 1_000;
                let fate = PlannedFate::Accepted { until_us };
                live.fates.insert(call, fate);
                let result = Ok(Success {
                    accepted_until_unix_ms: Some(BEGINNING_UNIX_MS + until_us / 1_000),
                    ..Success::new(json!({ "status": "accepted" }))
                });
                return self.within_live(id, live.process, return_us, Of::Return(call, result));
            }
            Conduct::Refused => (return_us, Some(self.certain_failure())),
            Conduct::RefusedForNow => (return_us, Some(self.refusal_for_now())),
            Conduct::Breaks => {
                self.fault(Fault::HandlerBroke);
                (return_us, Some(self.doubt()))
            }
            Conduct::Hangs => {
                self.fault(Fault::HandlerHung);
                return self.plan_fate(live, call, conduct);
            }
            Conduct::Asks | Conduct::ActsAndAsks => {
                let acts = sends && conduct == Conduct::ActsAndAsks;
                self.fault_if(acts, Fault::ServiceActedAndAsked);
                let result = self.question_of_service(live, call);
                (return_us, Some(result))
            }
        };
        self.plan_fate(live, call, conduct);
        if self.random.one_in(12) {
            let when_us = self.random.below(4_000_000);
            if when_us > after_us {
                self.fault(Fault::HandlerTalksLate);
            }
            let message = self.message();
            self.within_live(id, live.process, when_us, Of::Say(call, message));
        }
        let result = match result {
            Some(result) => result,
            None => self.success(),
        };
        self.within_live(id, live.process, after_us, Of::Return(call, result));
    }

    fn conduct(&mut self, changes: bool, can_ask: bool) -> Conduct {
        if self.is_calm {
            return Conduct::Works;
        }
        if self.random.one_in(if can_ask { 8 } else { 60 }) {
            return match self.random.one_in(3) {
                true => Conduct::ActsAndAsks,
                false => Conduct::Asks,
            };
        }
        match self.random.below(20) {
            0..=8 => Conduct::Works,
            9 => Conduct::Refused,
            10 => Conduct::RefusedForNow,
            11 if !changes => Conduct::Breaks,
            11 | 12 => Conduct::AnswerLost,
            13 | 14 => Conduct::LandsLate,
            15 => Conduct::RequestLost,
            16 => Conduct::Breaks,
            17 => Conduct::Hangs,
            18 if changes => Conduct::Accepted,
            _ => Conduct::ComesLate,
        }
    }

    /// Plans the fate of the request, once it has left.
    fn plan_fate(&mut self, live: &mut Live, call: CallRef, conduct: Conduct) {
        let us = match conduct {
            Conduct::Works | Conduct::ComesLate | Conduct::AnswerLost | Conduct::ActsAndAsks => {
                Some(0)
            }
            Conduct::LandsLate => {
                self.fault(Fault::RequestLandsLate);
                Some(self.random.below(160_000) * 1_000)
            }
            Conduct::Hangs if self.random.one_in(2) => Some(self.random.below(20_000) * 1_000),
            Conduct::RequestLost
            | Conduct::Refused
            | Conduct::RefusedForNow
            | Conduct::Breaks
            | Conduct::Hangs
            | Conduct::Asks
            | Conduct::Accepted => None,
        };
        let fate = us.map_or(PlannedFate::Lost, |us| PlannedFate::LandsAfter { us });
        live.fates.insert(call, fate);
    }

    /// The attempt asks the outside for its change. That is after its lease only if the process stood still in between.
    pub(crate) fn send(&mut self, id: usize, call: CallRef) {
        let Some(live) = self.lives[id].as_deref() else {
            return;
        };
        let (slot, process) = (live.slot, (live.process, live.process_life));
        let fate = live.fates.get(&call).copied();
        let Some(attempt) = live.running.get(&call).cloned() else {
            return;
        };
        let Some(run) = &attempt.run else {
            return;
        };
        let parent = attempt.parent.and_then(|parent| live.runs.get(&parent));
        let parent = parent.cloned();
        if self.time_of(process.0) >= run.lease_end_unix_ms {
            if !self.random.one_in(3) {
                return;
            }
            self.fault(Fault::RequestSentAfterLease);
        }
        let conversation = self.slots[slot].conversation;
        self.trace(|| format!("life {id} SENDS {call:?} {attempt:?}"));
        let arguments = attempt.arguments.to_value().to_string();
        let meaning = self
            .intents
            .meaning_of(attempt.tool.id.as_str(), &arguments);
        let Some(meaning) = meaning else {
            let what = format!("nobody has written {arguments}: {attempt:?}");
            return self.broken(Rule::WhatRunsIsWhatWasAsked, what);
        };
        let begun = (run.effect_id.clone(), run.attempt);
        let began_us = self.judge.started.get(&begun).copied();
        let began_us = began_us.unwrap_or(self.now_us);
        let of = (meaning, began_us);
        let sent = self
            .outside
            .send(conversation, process, &attempt, parent, of);
        let Some(request) = sent else {
            return;
        };
        match fate {
            Some(PlannedFate::Lost) | None => {
                self.fault(Fault::RequestLost);
                self.outside.requests[request].fate = RequestFate::Lost;
            }
            Some(PlannedFate::LandsAfter { us: 0 }) => self.land(request),
            Some(PlannedFate::LandsAfter { us }) => {
                self.agenda.enter(self.now_us + us, Due::Land { request });
            }
            Some(PlannedFate::Accepted { until_us }) => self.accept(request, until_us),
        }
    }

    /// The time by the clock of a process.
    pub(crate) fn time_of(&self, process: usize) -> u64 {
        self.processes[process].ledger.store().now_unix_ms()
    }

    /// A request takes effect, even if its sender is gone.
    pub(crate) fn land(&mut self, request: usize) {
        if !self.outside.land(request, self.now_us) {
            let is_absorbed = self.outside.requests[request].fate == RequestFate::Absorbed;
            if is_absorbed {
                self.report.counts.state(State::Absorbed);
            }
            return;
        }
        let landed = self.outside.requests[request].clone();
        self.trace(|| format!("LANDS {landed:?}"));
        let (place, life) = landed.process;
        let process = &self.processes[place];
        if process.life != life || !process.is_up {
            self.fault(Fault::RequestLandsAfterCrash);
        } else if self.time_of(place) > landed.lease_end_unix_ms {
            self.fault(Fault::RequestLandsAfterLease);
        }
        self.judge_landing(request);
    }

    /// A handler answers. Its report of a change that worked is true.
    pub(crate) fn hand_over(&mut self, id: usize, call: CallRef, result: HandlerResult) {
        let Some(live) = self.lives[id].as_deref_mut() else {
            return;
        };
        let process = live.process;
        let Some(attempt) = live.running.remove(&call) else {
            return;
        };
        let run = attempt.run.as_ref();
        let service = Service::of(&attempt.tool);
        let has_happened = !attempt.may_change()
            || run.is_none_or(|run| {
                let at = (run.effect_id.clone(), service);
                self.outside.has_happened_at(&at)
            });
        let is_accepted = run.is_some_and(|run| {
            let number = Some(run.attempt);
            self.outside.is_accepted(&run.effect_id, number)
        });
        let result = match result {
            // The handler refuses a time that is over.
            Ok(Success {
                accepted_until_unix_ms: Some(until_unix_ms),
                ..
            }) => match is_accepted && until_unix_ms > self.processes[process].clock.unix_ms() {
                true => result,
                false => self.doubt(),
            },
            // Its request never left, because its lease was over.
            Ok(_) if !has_happened => self.doubt(),
            // A service that knows the key has carried out the request before.
            Err(_) if has_happened && attempt.tool.writes() && attempt.tool.idempotent => {
                self.success()
            }
            result => result,
        };
        if let (Some(run), Ok(success)) = (&attempt.run, &result)
            && let Some(until_unix_ms) = success.accepted_until_unix_ms
        {
            let attempt = (run.effect_id.clone(), run.attempt);
            self.judge.promised.insert(attempt, until_unix_ms);
        }
        if let Some(run) = &attempt.run
            && let Some(is_done) = certainty_of(&result)
        {
            let (tool, run) = (attempt.tool.id.as_str(), run.clone());
            self.note_end(tool, (run.effect_id, run.attempt), (id, is_done));
        }
        if let Some(live) = self.lives[id].as_deref_mut() {
            let reports = &mut live.driver.executor.reports;
            reports.push_back(Report::Finished(call, result));
            self.dirty.insert(id);
        }
    }

    pub(crate) fn say(&mut self, id: usize, call: CallRef, message: HandlerMessage) {
        if let Some(live) = self.lives[id].as_deref_mut()
            && live.running.contains_key(&call)
        {
            let reports = &mut live.driver.executor.reports;
            reports.push_back(Report::Message(call, message));
            self.dirty.insert(id);
        }
    }

    pub(crate) fn looked_up(&mut self, id: usize, effect_id: EffectId, finding: Finding) {
        if let Some(live) = self.lives[id].as_deref_mut() {
            let reports = &mut live.driver.executor.reports;
            reports.push_back(Report::LookedUp(effect_id, finding));
            self.dirty.insert(id);
        }
    }

    /// The service has done nothing, and says when to ask again: within the lease, or long after it.
    fn refusal_for_now(&mut self) -> HandlerResult {
        let seconds = match self.random.below(3) {
            0 => {
                self.fault(Fault::RefusedBeyondLease);
                12 + self.random.below(45)
            }
            1 => {
                self.fault(Fault::RefusedBeyondLease);
                60 + self.random.below(600)
            }
            _ => 1 + self.random.below(8),
        };
        // A 429, or a 503 that the author of the tool lists as "not done".
        let is_busy = self.random.one_in(3);
        self.fault(match is_busy {
            true => Fault::Unavailable,
            false => Fault::RefusedForNow,
        });
        let kind = match is_busy {
            true => FailureKind::Transient,
            false => FailureKind::RateLimit,
        };
        Err(Failure::from(FailureReport {
            partial_side_effects: is_busy.then_some(false),
            retry_after_ms: Some(seconds * 1_000),
            ..FailureReport::new(kind, "not now")
        }))
    }

    fn message(&mut self) -> HandlerMessage {
        match self.random.below(4) {
            0 => HandlerMessage::Client(json!({ "type": "own" })),
            1 => HandlerMessage::Client(json!({ "type": "confirmation_request" })),
            2 => HandlerMessage::Emit {
                name: "named".to_owned(),
                payload: json!(1),
            },
            _ => HandlerMessage::Progress {
                message: "half".to_owned(),
                fraction: Some(0.5),
            },
        }
    }

    pub(crate) fn success(&mut self) -> HandlerResult {
        self.last_id += 1;
        let mut success = Success::new(json!({ tools::TAG: self.last_id }));
        if !self.is_calm && self.random.one_in(40) {
            success.data = Some(self.odd_data());
        }
        if !self.is_calm && self.random.one_in(10) {
            let intent = match self.random.below(20) {
                12.. => self.kept_value(),
                0..=4 => Intent::SetPendingMessage {
                    message: self.mint("pending"),
                },
                5 | 6 => Intent::SuppressAudio { value: true },
                7..=9 => Intent::Unknown(json!({ "type": "REBOOT" })),
                _ => Intent::EndVoiceSession {
                    after: *self.random.pick(&[
                        EndAfter::CurrentTurn,
                        EndAfter::FarewellSpoken,
                        EndAfter::Immediate,
                    ]),
                    reason: None,
                    closing_message: None,
                    text_response: None,
                },
            };
            success.intents.push(intent);
        }
        Ok(success)
    }

    /// A value for the conversation by a handler: one that no other is equal to, a removal, or one that no schema allows.
    pub(crate) fn kept_value(&mut self) -> Intent {
        self.last_id += 1;
        Intent::SetState {
            key: (*self.random.pick(&tools::KEPT)).to_owned(),
            value: Sensitive(match self.random.below(6) {
                0 => json!(null),
                1 => json!("no number"),
                _ => json!(self.last_id),
            }),
        }
    }

    /// Data in a change's result that cannot be kept as it is.
    fn odd_data(&mut self) -> Data {
        let number = self.last_id;
        let text = match self.random.below(4) {
            0 => {
                self.fault(Fault::ResultWithHalfCharacter);
                format!("{{\"{}\":{number},\"half\":\"\\ud83d\"}}", tools::TAG)
            }
            1 => {
                self.fault(Fault::ResultWithNul);
                format!("{{\"{}\":{number},\"a\\u0000b\":\"\\u0000\"}}", tools::TAG)
            }
            2 => {
                self.fault(Fault::ResultTooLarge);
                let long = "x".repeat(300_000);
                format!("{{\"{}\":{number},\"long\":\"{long}\"}}", tools::TAG)
            }
            _ => {
                self.fault(Fault::ResultTooDeep);
                let (open, close) = ("[".repeat(100), "]".repeat(100));
                let deep = format!("{{\"{}\":{number},\"deep\":{open}{close}}}", tools::TAG);
                let deep: serde_json::Value = serde_json::from_str(&deep).unwrap_or_default();
                return deep.into();
            }
        };
        let raw = RawValue::from_string(text).expect("the texts above are JSON");
        Data::of(&raw).expect("a raw value is written as it is")
    }

    /// The handler does not know the outcome.
    pub(crate) fn doubt(&mut self) -> HandlerResult {
        match self.random.below(2) {
            0 => Err(Failure::new(FailureKind::Transient, "the network failed")),
            _ => Err(Failure {
                cause: Cause::Broken("it panicked".to_owned()),
                intents: Vec::new(),
            }),
        }
    }

    pub(crate) fn certain_failure(&mut self) -> HandlerResult {
        let kind = *self.random.pick(&[
            FailureKind::Permanent,
            FailureKind::Transient,
            FailureKind::Transient,
            FailureKind::Conflict,
        ]);
        self.last_id += 1;
        let message = format!("it was refused #{}", self.last_id);
        Err(Failure::from(FailureReport {
            partial_side_effects: Some(false),
            ..FailureReport::new(kind, message)
        }))
    }
}

/// Whether a result says for certain that the change was made, or that it was not.
fn certainty_of(result: &HandlerResult) -> Option<bool> {
    match result {
        Ok(success) => success.accepted_until_unix_ms.is_none().then_some(true),
        Err(Failure {
            cause: Cause::Reported(report),
            ..
        }) => {
            let is_clean = report.partial_side_effects == Some(false);
            (is_clean || report.kind == FailureKind::RateLimit).then_some(false)
        }
        Err(_) => None,
    }
}
