//! What becomes of admitted calls: store and limiter answer, attempts end, time runs out, calls are taken back.

use super::{Charge, Session};
use crate::calls::{Call, Phase};
use crate::client::ClientUpdate;
use crate::deadlines::Deadline;
use crate::event::SessionEvent;
use crate::io::{LOOKUP_ATTEMPT, Output, RateDecision};
use crate::policy::{Failed, Judged, judge, retry_delay, timed_out};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::Outcome;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::handler::{HandlerMessage, HandlerResult};
use windlass_tool::id::{CallNumber, CallRef};
use windlass_tool::kind::{Mode, OnInterrupt};
use windlass_tool::sensitive::Sensitive;

/// Types of client messages that only the server itself sends (`docs/voice-protocol.md`); a handler may send any other.
const SERVER_TYPES: [&str; 23] = [
    "connected",
    "started",
    "audio",
    "transcript",
    "model_generating",
    "tool_call_started",
    "tool_progress",
    "tool_call_finished",
    "tools_complete",
    "confirmation_request",
    "confirmation_result",
    "interrupted",
    "turn_complete",
    "image",
    "timeout",
    "end_voice_session",
    "session_complete",
    "stopped",
    "reconnecting",
    "reconnected",
    "error",
    "pong",
    "voice_session_start",
];

/// Built-in tools that may send a type of the server's own.
const PRIVILEGED: [(&str, &str); 5] = [
    ("ignore_user", "timeout"),
    ("start_voice_session", "voice_session_start"),
    ("send_image", "image"),
    ("kb_search", "image"),
    ("kb_get", "image"),
];

impl Session {
    pub(super) fn on_rate_checked(
        &mut self,
        number: CallNumber,
        decision: RateDecision,
        out: &mut Vec<Output>,
    ) {
        let Some(call) = self.calls.take_in(number, Phase::CheckingRate) else {
            return;
        };
        match decision {
            RateDecision::Allowed => self.pass_rate(call, out),
            RateDecision::Refused { retry_after } => {
                let mut error = CallError::new(
                    ErrorType::RateLimit,
                    format!("{} was called too often by this user", call.tool().id),
                );
                error.retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
                if call.grant.is_some() {
                    self.settle(call, failure(error, None), out);
                } else {
                    self.refuse_call(call, error, Charge::Already, out);
                }
            }
        }
    }

    pub(super) fn on_call_finished(
        &mut self,
        call: CallRef,
        result: HandlerResult,
        out: &mut Vec<Output>,
    ) {
        let is_awaited = self
            .calls
            .get_mut(call.call)
            .is_some_and(|open| open.call_ref() == call && open.phase == Phase::Running);
        let Some(open) = is_awaited.then(|| self.calls.take(call.call)).flatten() else {
            return self.on_late_result(call, result, out);
        };
        self.deadlines.clear(Deadline::Attempt(call));
        let characters_max = match has_bug!(self, KeepsLongResults) {
            true => usize::MAX,
            false => self.config.limits.result_characters_max,
        };
        let judged = judge(open.tool(), result, characters_max);
        self.settle_or_retry(open, judged, out);
    }

    pub(super) fn on_timeout(&mut self, call: CallRef, out: &mut Vec<Output>) {
        let Some(open) = self.calls.take_in(call.call, Phase::Running) else {
            return;
        };
        // A started change runs on: what it returns later settles how it ended.
        out.push(Output::AbortCall {
            call,
            drop: !open.tool().writes(),
        });
        let error = timed_out(open.tool());
        if open.done_meanwhile().is_none() {
            self.expect_late_result(&open);
        }
        self.settle_or_retry(open, failure(error, None), out);
    }

    /// A failed attempt is repeated where that is safe and worth while.
    fn settle_or_retry(&mut self, mut call: Box<Call>, judged: Judged, out: &mut Vec<Output>) {
        if let (Outcome::Failure(_), Some(done)) = (&judged.outcome, call.done_meanwhile()) {
            return self.settle_as_done(call, &done, out);
        }
        let Some(delay) = self.delay_before_retry(&call, &judged) else {
            return self.settle(call, judged, out);
        };
        call.attempt += 1;
        call.phase = Phase::BackingOff;
        out.push(Output::Event(SessionEvent::CallRetried {
            call: call.number(),
            tool: call.tool().id.clone(),
            attempt: call.attempt,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        }));
        self.deadlines
            .set(Deadline::Retry(call.number()), self.now + delay);
        self.calls.open(call);
    }

    fn delay_before_retry(&mut self, call: &Call, judged: &Judged) -> Option<Duration> {
        let Outcome::Failure(error) = &judged.outcome else {
            return None;
        };
        if !call.spoken {
            return None;
        }
        let turn = self.turns.get_mut(call.turn()).map(|turn| turn.started);
        let began = match call.grant {
            Some(_) => call.started,
            None => turn.or(call.started),
        };
        let limits = &self.config.limits.turn;
        let last = began.unwrap_or(self.now) + Duration::from_millis(limits.retry_within_ms);
        retry_delay(&Failed {
            attempt: call.call_ref(),
            tool: call.tool(),
            error,
            mode: self.config.mode,
            limits,
            time_left: last.since(self.now),
            seed: self.seed,
        })
    }

    pub(super) fn on_retry_due(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let Some(call) = self.calls.take_in(number, Phase::BackingOff) else {
            return;
        };
        match call.done_meanwhile() {
            Some(done) => self.settle_as_done(call, &done, out),
            None => self.start(call, out),
        }
    }

    pub(super) fn on_calls_cancelled(&mut self, ids: &[Arc<str>], out: &mut Vec<Output>) {
        let generation = self.connection.generation;
        for id in ids {
            if !has_bug!(self, AnswersWhatWasTakenBack) {
                let keys = self.calls.keys_of(id, generation);
                self.connection.closed_ids.close_all(id, &keys);
                let withdrawn = self.calls.withdraw_answer(id);
                self.connection.closed_ids.withdraw(&withdrawn);
                self.forget_withdrawn(&withdrawn);
            }
            self.withdraw_of(id, generation, out);
            for number in self.calls.by_provider_id(id, generation) {
                self.take_back(number, false, out);
            }
        }
    }

    /// Interruption takes back what says that it may be taken back. In text it means that nobody waits for the turn any
    /// more, so that everything is taken back that changes nothing.
    pub(super) fn cancel_on_interrupt(&mut self, out: &mut Vec<Output>) {
        let is_text = self.config.mode == Mode::Text;
        let cancelled: Vec<CallNumber> = self
            .calls
            .iter()
            .filter(|call| is_text || call.tool().on_interrupt == OnInterrupt::Cancel)
            .filter(|call| !call.tool().writes())
            .map(|call| call.number())
            .collect();
        for number in cancelled {
            self.take_back(number, true, out);
        }
    }

    /// Takes one call back. A `writes` call that has started runs to its end and is recorded, but not spoken of.
    pub(super) fn take_back(
        &mut self,
        number: CallNumber,
        is_answer_owed: bool,
        out: &mut Vec<Output>,
    ) {
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        call.is_taken_back = true;
        call.spoken &= is_answer_owed;
        let runs_on = match call.phase {
            Phase::Running => call.tool().writes(),
            // The store's answer comes, and with it what is to be done about it.
            Phase::Proposing | Phase::Reserving | Phase::Recording => true,
            Phase::Remembering
            | Phase::LookingUp
            | Phase::CheckingRate
            | Phase::Waiting
            | Phase::AwaitingOutcomes
            | Phase::BackingOff => false,
        };
        if runs_on {
            call.spoken &= call.phase != Phase::Running;
            self.hold_microphone(out);
            return;
        }
        let Some(call) = self.calls.take(number) else {
            return;
        };
        let attempt = match call.phase {
            Phase::Running => Some(call.call_ref()),
            Phase::LookingUp => Some(CallRef {
                call: number,
                attempt: LOOKUP_ATTEMPT,
            }),
            Phase::Remembering
            | Phase::CheckingRate
            | Phase::Proposing
            | Phase::Waiting
            | Phase::AwaitingOutcomes
            | Phase::Reserving
            | Phase::BackingOff
            | Phase::Recording => None,
        };
        self.deadlines.clear(Deadline::Attempt(call.call_ref()));
        self.deadlines.clear(Deadline::Lookup(number));
        self.deadlines.clear(Deadline::Store(number));
        self.deadlines.clear(Deadline::Retry(number));
        if let Some(call) = attempt {
            out.push(Output::AbortCall { call, drop: true });
        }
        self.cancel_unstarted(call, out);
    }

    /// Ends a call that changed nothing.
    pub(super) fn cancel_unstarted(&mut self, call: Box<Call>, out: &mut Vec<Output>) {
        let error = CallError::new(
            ErrorType::Cancelled,
            format!("{} was taken back", call.tool().id),
        );
        self.settle(call, failure(error, None), out);
    }

    pub(super) fn on_handler_message(
        &mut self,
        call: CallRef,
        message: HandlerMessage,
        out: &mut Vec<Output>,
    ) {
        let number = call.call;
        let Some(open) = self
            .calls
            .get_mut(number)
            .filter(|open| open.attempt == call.attempt)
        else {
            return;
        };
        let tool = open.tool().clone();
        let arguments = Sensitive(open.arguments().clone());
        match message {
            HandlerMessage::Client(message) => {
                let kind = message
                    .get("type")
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or("");
                let is_privileged = PRIVILEGED.contains(&(tool.id.as_str(), kind));
                if kind.is_empty() || (SERVER_TYPES.contains(&kind) && !is_privileged) {
                    let data = Sensitive(json!({ "type": kind }));
                    let event = "client_message_refused".to_owned();
                    out.push(Output::Event(SessionEvent::AuditNote {
                        call: number,
                        tool,
                        arguments,
                        event,
                        data,
                    }));
                } else {
                    self.note_shown(kind, &message);
                    out.push(Output::SendClient(ClientUpdate::Message(message)));
                }
            }
            HandlerMessage::Audit { event, data } => {
                let data = Sensitive(data);
                out.push(Output::Event(SessionEvent::AuditNote {
                    call: number,
                    tool,
                    arguments,
                    event,
                    data,
                }));
            }
            HandlerMessage::Emit { name, payload } => {
                let payload = Sensitive(payload);
                out.push(Output::Event(SessionEvent::Custom {
                    call: number,
                    name,
                    payload,
                }));
            }
            HandlerMessage::Progress { message, fraction } => {
                let fraction = fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
                let event = SessionEvent::CallProgressed {
                    call: number,
                    message,
                    fraction,
                };
                out.push(Output::Event(event));
            }
        }
    }
}

pub(super) fn failure(error: CallError, problem: Option<String>) -> Judged {
    Judged {
        outcome: Outcome::Failure(error.into()),
        intents: Vec::new(),
        scheduling: None,
        cut: None,
        problem,
    }
}
