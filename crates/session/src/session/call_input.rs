//! What becomes of admitted calls: store and limiter answer, attempts end, time runs out, calls are taken back.

use super::Session;
use crate::calls::{Call, Phase};
use crate::client::ClientUpdate;
use crate::deadlines::Deadline;
use crate::event::SessionEvent;
use crate::io::{Output, RateDecision, Reservation};
use crate::policy::{Judged, judge, timed_out};
use serde_json::json;
use std::sync::Arc;
use windlass_tool::envelope::Outcome;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::handler::{HandlerMessage, HandlerResult};
use windlass_tool::id::{CallNumber, CallRef};
use windlass_tool::kind::OnInterrupt;
use windlass_tool::sensitive::Sensitive;

/// Types of client messages that only the server itself sends (contract section 18); a handler may send any other.
const SERVER_TYPES: [&str; 20] = [
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
    "end_voice_session",
    "session_complete",
    "stopped",
    "error",
    "pong",
    "voice_session_start",
];

/// Built-in tools that may send a type of the server's own.
const PRIVILEGED: [(&str, &str); 2] = [
    ("start_voice_session", "voice_session_start"),
    ("send_image", "image"),
];

impl Session {
    pub(super) fn on_rate_checked(
        &mut self,
        number: CallNumber,
        decision: RateDecision,
        out: &mut Vec<Output>,
    ) {
        let is_asked = self
            .calls
            .get_mut(number)
            .is_some_and(|call| call.phase == Phase::CheckingRate);
        let Some(call) = is_asked.then(|| self.calls.take(number)).flatten() else {
            return;
        };
        match decision {
            RateDecision::Allowed => self.pass_gates(call, out),
            RateDecision::Refused { retry_after } => {
                let mut error = CallError::new(
                    ErrorType::RateLimit,
                    format!("{} was called too often by this user", call.tool.id),
                );
                error.retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
                self.refuse_call(call, error, out);
            }
        }
    }

    pub(super) fn on_reserved(&mut self, reservation: Reservation, out: &mut Vec<Output>) {
        let number = reservation.call;
        let is_asked = self
            .calls
            .get_mut(number)
            .is_some_and(|call| call.phase == Phase::Reserving);
        let Some(mut call) = is_asked.then(|| self.calls.take(number)).flatten() else {
            return;
        };
        match reservation.outcome {
            Ok(effect_id) => {
                if let Some(effect) = call
                    .fingerprint
                    .and_then(|print| self.deliveries.effect(&print))
                {
                    effect.effect_id = Some(effect_id.clone());
                }
                call.effect_id = Some(effect_id);
                if call.spoken {
                    self.start(call, out);
                } else {
                    self.cancel_unstarted(call, out);
                }
            }
            Err(error) => {
                let problem = Some(error.to_string());
                let message = format!(
                    "{} was not started: the store does not answer",
                    call.tool.id
                );
                let error = CallError::new(ErrorType::Transient, message);
                self.settle(call, failure(error, problem), out);
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
            out.push(Output::Event(SessionEvent::CallReturnedLate {
                call: call.call,
            }));
            return;
        };
        self.deadlines.clear(Deadline::Attempt(call));
        let judged = judge(&open.tool, result);
        self.settle(open, judged, out);
    }

    pub(super) fn on_timeout(&mut self, call: CallRef, out: &mut Vec<Output>) {
        let Some(open) = self.calls.take(call.call) else {
            return;
        };
        // A started change runs on: what it returns later settles how it ended.
        out.push(Output::AbortCall {
            call,
            drop: !open.tool.writes(),
        });
        let error = timed_out(&open.tool);
        self.settle(open, failure(error, None), out);
    }

    pub(super) fn on_calls_cancelled(&mut self, ids: &[Arc<str>], out: &mut Vec<Output>) {
        let generation = self.connection.generation;
        for id in ids {
            self.connection.closed_ids.close(id);
            let Some(call) = self.calls.by_provider_id(id, generation) else {
                continue;
            };
            let number = call.slot.number;
            self.take_back(number, false, out);
        }
    }

    /// Interruption takes back what says that it may be taken back.
    pub(super) fn cancel_on_interrupt(&mut self, out: &mut Vec<Output>) {
        let cancelled: Vec<CallNumber> = self
            .calls
            .iter()
            .filter(|call| call.tool.on_interrupt == OnInterrupt::Cancel && !call.tool.writes())
            .map(|call| call.slot.number)
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
        call.spoken &= is_answer_owed;
        let is_started_write = call.tool.writes() && call.phase == Phase::Running;
        let is_being_reserved = call.phase == Phase::Reserving;
        if is_started_write || is_being_reserved {
            call.spoken = false;
            self.hold_microphone(out);
            return;
        }
        let Some(call) = self.calls.take(number) else {
            return;
        };
        if call.phase == Phase::Running {
            self.deadlines.clear(Deadline::Attempt(call.call_ref()));
            out.push(Output::AbortCall {
                call: call.call_ref(),
                drop: true,
            });
        }
        self.cancel_unstarted(call, out);
    }

    /// Ends a call that changed nothing.
    fn cancel_unstarted(&mut self, call: Call, out: &mut Vec<Output>) {
        let error = CallError::new(
            ErrorType::Cancelled,
            format!("{} was taken back", call.tool.id),
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
        let tool = open.tool.id.clone();
        match message {
            HandlerMessage::Client(message) => {
                let kind = message
                    .get("type")
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or("");
                let is_privileged = PRIVILEGED.contains(&(tool.as_str(), kind));
                if kind.is_empty() || (SERVER_TYPES.contains(&kind) && !is_privileged) {
                    let data = Sensitive(json!({ "type": kind }));
                    let event = "client_message_refused".to_owned();
                    out.push(Output::Event(SessionEvent::AuditNote {
                        call: number,
                        tool,
                        event,
                        data,
                    }));
                } else {
                    out.push(Output::SendClient(ClientUpdate::Message(message)));
                }
            }
            HandlerMessage::Audit { event, data } => {
                let data = Sensitive(data);
                out.push(Output::Event(SessionEvent::AuditNote {
                    call: number,
                    tool,
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

fn failure(error: CallError, problem: Option<String>) -> Judged {
    Judged {
        outcome: Outcome::Failure(error),
        intents: Vec::new(),
        scheduling: None,
        problem,
    }
}
