//! Messages of a running attempt: for the client, notes for the audit, events of its own, and progress. Knows which messages are the
//! server's alone.

use super::open::{Call, Phase};
use super::outputs::Outputs;
use crate::client::{ClientUpdate, Image};
use crate::dialogue::Dialogue;
use crate::event::SessionEvent;
use crate::io::Output;
use crate::time::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use windlass_contract::handler::HandlerMessage;
use windlass_contract::sensitive::Sensitive;
use windlass_store::Progress;
use windlass_store::command::TaskProgress;

/// Types of client messages that only the server itself sends (`docs/voice-protocol.md`). A handler may send any other, which reaches
/// the client in a space of its own.
const SERVER_TYPES: [&str; 30] = [
    "connected",
    "started",
    "audio",
    "transcript",
    "model_generating",
    "tool_call_started",
    "tool_progress",
    "tool_output",
    "cancel_result",
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
    "answer_again",
    "ticket",
    "ticket_reply",
    "context_nearly_full",
    "custom",
];

/// Built-in tools that may send a type of the server's own.
const PRIVILEGED: [(&str, &str); 6] = [
    ("ignore_user", "timeout"),
    ("escalate", "ticket"),
    ("start_voice_session", "voice_session_start"),
    ("send_image", "image"),
    ("kb_search", "image"),
    ("kb_get", "image"),
];

/// The shortest time between two reports of a task's progress to the ledger.
const PROGRESS_PAUSE: Duration = Duration::from_secs(1);

/// The number of messages of a call's handlers.
#[derive(Debug, Default)]
pub(crate) struct Sayings {
    messages: u32,
    notes: u32,
    pub(super) outputs: Outputs,
    /// When the ledger was last told the progress.
    progress_kept: Option<Timestamp>,
}

/// Counts one more. Returns whether it is within its limit, and whether it is the first beyond it.
fn count(said: &mut u32, max: u32) -> (bool, bool) {
    *said = said.saturating_add(1);
    (*said <= max, *said == max.saturating_add(1))
}

pub(super) fn note(call: &Call, event: String, data: Value) -> SessionEvent {
    SessionEvent::AuditNote {
        call: call.number(),
        tool: call.tool().clone(),
        arguments: Sensitive(call.arguments().clone()),
        event,
        data: Sensitive(data),
    }
}

pub(super) fn pass_on(call: &mut Call, message: HandlerMessage, dialogue: &mut Dialogue) {
    let limits = dialogue.step.limits();
    let is_note = matches!(message, HandlerMessage::Audit { .. });
    let audit_notes_max = limits.audit_notes_per_call_max;
    let (max, left_out) = match is_note {
        true => (audit_notes_max, "audit_notes_left_out"),
        false => (limits.messages_per_call_max, "messages_left_out"),
    };
    let said = match is_note {
        true => &mut call.said.notes,
        false => &mut call.said.messages,
    };
    let (is_within, is_first_beyond) = count(said, max);
    let number = call.number();
    if !is_within {
        if is_first_beyond {
            let data = json!({ "max": max });
            dialogue.step.event(note(call, left_out.to_owned(), data));
        }
        return;
    }
    match message {
        HandlerMessage::Client(message) => {
            let kind = message.get("type").and_then(Value::as_str).unwrap_or("");
            let is_privileged = PRIVILEGED.contains(&(call.tool().id.as_str(), kind));
            // Some protocols write `_`, and others `-`.
            let name = kind.to_ascii_lowercase().replace('-', "_");
            if kind.is_empty() || (SERVER_TYPES.contains(&name.as_str()) && !is_privileged) {
                let data = json!({ "type": kind });
                let (is_within, _) = count(&mut call.said.notes, audit_notes_max);
                if is_within {
                    let event = "client_message_refused".to_owned();
                    dialogue.step.event(note(call, event, data));
                }
                return;
            }
            if !is_privileged {
                return dialogue.step.tell_client(ClientUpdate::Custom(message));
            }
            let text = |name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
            if let Some(url) = text("url").filter(|_| kind == "image") {
                let caption = text("caption");
                dialogue
                    .speech
                    .show_image(Image { url, caption }, &dialogue.step);
            }
            dialogue.step.tell_client(ClientUpdate::Message(message));
        }
        HandlerMessage::Audit { event, data } => dialogue.step.event(note(call, event, data)),
        HandlerMessage::Emit { name, payload } => dialogue.step.event(SessionEvent::Custom {
            call: number,
            name,
            payload: Sensitive(payload),
        }),
        HandlerMessage::Progress { message, fraction } => {
            let fraction = fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
            keep_progress(call, &message, fraction, dialogue);
            dialogue.step.event(SessionEvent::CallProgressed {
                call: number,
                message,
                fraction,
            });
        }
        // A call, a mark of one, and a piece of its result are dealt with before.
        HandlerMessage::CallTool { .. } | HandlerMessage::External | HandlerMessage::Output(_) => {}
    }
}

/// Keeps a task's progress for anybody who asks, also in another session.
fn keep_progress(call: &mut Call, message: &str, fraction: Option<f64>, dialogue: &mut Dialogue) {
    let Phase::Running(Some(run)) = &call.phase else {
        return;
    };
    let now = dialogue.step.now;
    let is_soon = |kept: Timestamp| now.since(kept) < PROGRESS_PAUSE;
    if !call.is_task() || call.said.progress_kept.is_some_and(is_soon) {
        return;
    }
    dialogue.step.push(Output::Progress(Box::new(TaskProgress {
        effect_id: run.effect_id.clone(),
        attempt: run.attempt,
        progress: Progress {
            message: Sensitive(message.to_owned()),
            fraction,
            at_unix_ms: dialogue.step.unix_ms(),
        },
    })));
    call.said.progress_kept = Some(now);
}
