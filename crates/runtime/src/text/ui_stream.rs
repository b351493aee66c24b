//! A turn as the UI message stream of Vercel's AI SDK: server-sent events that `useChat` reads. Knows that format and the
//! core's updates; knows no connection.
//!
//! The format is that of the npm package `ai`, version 7, `src/ui-message-stream/ui-message-chunks.ts`.

mod chunk;
mod condensed;

pub use condensed::condensed;

use super::{Confirmed, FinishReason, TurnEnd, TurnSink};
use crate::client_protocol::{offer_json, standing_json};
use crate::redaction::without_sensitive;
use chunk::{Chunk, write_event};
use condensed::{AFTER_WORDS, BEFORE_ID, BEFORE_WORDS};
use serde_json::{Value, json};
use std::borrow::Cow;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::{Outcome, ToolResponse, rfc3339};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::handler;
use windlass_contract::id::CallNumber;
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::{
    Citation, ClientUpdate, ConfirmationQuestion, ErrorCode, Image, is_replaced,
};
use windlass_session::event::{CallRecord, CallStarted, SessionEvent};
use windlass_session::model::Role;

/// The headers of an answer, beside the type `text/event-stream`.
pub const HEADERS: [(&str, &str); 3] = [
    ("x-vercel-ai-ui-message-stream", "v1"),
    UNBUFFERED[0],
    UNBUFFERED[1],
];

/// Headers that keep a proxy from holding the pieces of a stream back.
pub const UNBUFFERED: [(&str, &str); 2] =
    [("cache-control", "no-cache"), ("x-accel-buffering", "no")];

/// Text after a repeated answer of the user, so that a turn never ends without words.
const ANSWERED_BEFORE: &str = "This was answered before. Nothing more was done.";

/// Text after an answer of the user that leads to a new approval request.
const ASKED_ANEW: &str = "Something has changed since you were asked, so that nothing was done. Please answer the new question.";

/// Takes the ready bytes and leaves the buffer empty.
pub trait Outlet: Send {
    fn send(&mut self, bytes: &mut Vec<u8>);
}

/// Writes one turn down.
pub struct UiStream<O> {
    outlet: O,
    bytes: Vec<u8>,
    message_id: String,
    /// Whether the client's own message goes on, and is not begun anew.
    continues: bool,
    is_begun: bool,
    texts: u32,
    /// The id of the open text.
    text_id: String,
    is_text_open: bool,
    is_step_open: bool,
    /// Whether the user is asked about a call; a new step would hide that from the SDK.
    awaits_approval: bool,
    shown: Vec<CallNumber>,
    /// Calls whose approval request is still to come, each with its error text.
    unasked: Vec<(CallNumber, String)>,
    /// Approved calls that did not run, until it is known whether the user may approve them again.
    undecided: Vec<(CallNumber, String)>,
    /// Calls whose end is written.
    ended: Vec<CallNumber>,
    /// Whether the stream repeats the outcome of an earlier answer of the user.
    is_repeated: bool,
    /// Whether an answer of the user led to a new approval request.
    is_asked_anew: bool,
}

impl<O: Outlet> UiStream<O> {
    /// `continues` if the client adds the stream to the message that it has, as after an approval.
    pub fn new(outlet: O, message_id: String, continues: bool) -> Self {
        Self {
            outlet,
            bytes: Vec::with_capacity(1_024),
            message_id,
            continues,
            is_begun: false,
            texts: 0,
            text_id: String::new(),
            is_text_open: false,
            is_step_open: false,
            awaits_approval: false,
            shown: Vec::new(),
            unasked: Vec::new(),
            undecided: Vec::new(),
            ended: Vec::new(),
            is_repeated: false,
            is_asked_anew: false,
        }
    }

    /// Writes a chunk, after the one that begins the message.
    fn chunk(&mut self, chunk: &Chunk<'_>) {
        self.begin();
        write_event(&mut self.bytes, chunk);
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.is_begun, true) {
            let message_id = (!self.continues).then_some(self.message_id.as_str());
            write_event(&mut self.bytes, &Chunk::Start { message_id });
        }
    }

    fn data(&mut self, kind: &str, data: &Value, is_transient: bool) {
        self.begin();
        let mut chunk = json!({"type": format!("data-{}", kind.replace('_', "-")), "data": data});
        if is_transient {
            chunk["transient"] = true.into();
        }
        write_event(&mut self.bytes, &chunk);
    }

    fn words(&mut self, text: &str) {
        if !std::mem::replace(&mut self.is_text_open, true) {
            self.texts += 1;
            self.text_id = format!("text-{}", self.texts);
            let id = self.text_id.clone();
            self.chunk(&Chunk::TextStart { id: &id });
        }
        // Nearly all chunks are of this kind, so this one takes a short way.
        for part in [BEFORE_ID, &self.text_id, BEFORE_WORDS] {
            self.bytes.extend_from_slice(part.as_bytes());
        }
        serde_json::to_writer(&mut self.bytes, text).expect("memory takes every text");
        self.bytes.extend_from_slice(AFTER_WORDS.as_bytes());
    }

    fn end_text(&mut self) {
        if std::mem::take(&mut self.is_text_open) {
            let id = std::mem::take(&mut self.text_id);
            self.chunk(&Chunk::TextEnd { id: &id });
        }
    }

    fn end_step(&mut self) {
        self.end_text();
        if std::mem::take(&mut self.is_step_open) {
            self.chunk(&Chunk::FinishStep);
        }
    }

    fn call_id(call: CallNumber) -> String {
        // The id is the same in every turn of a session, because an approval concerns the call of an earlier one.
        call.to_string()
    }

    fn call_started(&mut self, started: &CallStarted) {
        let arguments = without_sensitive(started.arguments().expose(), &started.tool().sensitive);
        let status = started.status.as_deref();
        self.show_call(
            started.call(),
            started.tool().id.as_str(),
            arguments,
            status,
        );
    }

    /// Shows a call once, however many attempts it has.
    fn show_call(
        &mut self,
        call: CallNumber,
        tool: &str,
        input: Cow<'_, Arguments>,
        title: Option<&str>,
    ) {
        if self.shown.contains(&call) {
            return;
        }
        self.shown.push(call);
        self.end_text();
        let tool_call_id = Self::call_id(call);
        self.chunk(&Chunk::ToolInputAvailable {
            tool_call_id: &tool_call_id,
            tool_name: tool,
            input,
            dynamic: true,
            title,
        });
    }

    fn call_ended(&mut self, record: &CallRecord) {
        let arguments = shown_arguments(record);
        // A continued message has the call already; a message of its own has to show the denied call.
        let is_shown =
            self.continues && record.error_type() == Some(ErrorType::ConfirmationDeclined);
        if !is_shown {
            self.show_call(record.call(), record.shown_name(), arguments, None);
        }
        let response = record.response.expose();
        match response.error().filter(|error| error.retryable) {
            Some(error) if self.continues => {
                self.undecided.push((record.call(), error_text(error)));
            }
            Some(_) | None => self.outcome(record.call(), response),
        }
    }

    /// Writes the end of a call, once.
    fn outcome(&mut self, call: CallNumber, response: &ToolResponse) {
        let tool_call_id = Self::call_id(call);
        match &response.outcome {
            Outcome::Success { data, .. } => {
                let output: &Value = data.as_deref().unwrap_or(&Value::Null);
                self.chunk(&Chunk::ToolOutputAvailable {
                    tool_call_id: &tool_call_id,
                    output,
                    dynamic: true,
                    preliminary: false,
                });
            }
            Outcome::Failure(error) if error.error_type == ErrorType::ConfirmationDeclined => {
                self.chunk(&Chunk::ToolOutputDenied {
                    tool_call_id: &tool_call_id,
                });
            }
            Outcome::Failure(error) => {
                let error_text = error_text(error);
                if error.error_type == ErrorType::ConfirmationRequired {
                    // The approval request follows, and the client shows that.
                    return self.unasked.push((call, error_text));
                }
                self.invite(&tool_call_id, error);
                self.chunk(&Chunk::ToolOutputError {
                    tool_call_id: &tool_call_id,
                    error_text,
                    dynamic: true,
                });
            }
        }
        self.ended.push(call);
    }

    /// Shows the link by which the user connects an account for a call. The link is valid for minutes, so it is not kept.
    fn invite(&mut self, tool_call_id: &str, error: &CallError) {
        let Some(connect) = handler::invitation(error.details.as_ref()) else {
            return;
        };
        let mut invitation = connect.clone();
        invitation.insert("toolCallId".to_owned(), tool_call_id.into());
        self.data("connect", &Value::Object(invitation), true);
    }

    /// A piece of a call's result, if the client sees the call and its end is not written.
    fn piece(&mut self, call: CallNumber, output: &Value) {
        if !self.shown.contains(&call) || self.ended.contains(&call) {
            return;
        }
        let tool_call_id = Self::call_id(call);
        self.chunk(&Chunk::ToolOutputAvailable {
            tool_call_id: &tool_call_id,
            output,
            dynamic: true,
            preliminary: true,
        });
    }

    /// The late end of a call that was reported as running. A call of an earlier message is no part of this one.
    fn call_settled(&mut self, record: &CallRecord) {
        let response = record.response.expose();
        if self.ended.contains(&record.call()) {
            return self.outcome(record.call(), response);
        }
        let mut settled = json!({
            "effectId": record.effect_id,
            "tool": record.shown_name(),
            "ok": response.is_ok(),
        });
        match &response.outcome {
            Outcome::Success { data, .. } => {
                settled["output"] = data.as_deref().cloned().unwrap_or_default();
            }
            Outcome::Failure(error) => settled["errorText"] = error_text(error).into(),
        }
        self.data("call-settled", &settled, false);
    }

    /// Reports that the user's answer was not taken, and may be given again: the approval request is open.
    fn not_taken(&mut self, call: CallNumber, response: &ToolResponse) {
        let Some(error) = response.error() else {
            return;
        };
        let again = json!({
            "toolCallId": Self::call_id(call), "code": error.error_type.code(), "message": error.message
        });
        self.data("answer-again", &again, true);
        self.chunk(&Chunk::Error {
            error_text: &error.message,
        });
    }

    /// The end of an approval request, if the call's own end does not report it here.
    fn question_ended(&mut self, call: Option<CallNumber>, response: &ToolResponse) {
        if let Some(call) = call.filter(|_| is_replaced(response)) {
            let replaced = json!({ "toolCallId": Self::call_id(call) });
            self.data("confirmation-replaced", &replaced, true);
        }
        match call {
            None => {
                let error = response.error();
                let message = error.map_or("this approval is not valid", |error| &error.message);
                self.chunk(&Chunk::Error {
                    error_text: message,
                });
            }
            // In a message of its own this would end a call that the client does not have there.
            Some(call) if self.continues && !self.ended.contains(&call) => {
                let asks = response.error_type() == Some(ErrorType::ConfirmationRequired);
                self.is_asked_anew |= asks && self.awaits_approval;
                self.outcome(call, response);
                self.is_repeated = true;
            }
            Some(_) => {}
        }
    }

    fn sources(&mut self, citations: &[Citation]) {
        for citation in citations {
            let (source_id, title) = (citation.id.as_str(), citation.title.as_str());
            let chunk = match &citation.url {
                Some(url) => Chunk::SourceUrl {
                    source_id,
                    url,
                    title,
                },
                None => Chunk::SourceDocument {
                    source_id,
                    media_type: "text/markdown",
                    title,
                },
            };
            write_event(&mut self.bytes, &chunk);
        }
    }

    fn images(&mut self, images: &[Image]) {
        for image in images {
            let media_type = "image/*";
            let url = &image.url;
            write_event(&mut self.bytes, &Chunk::File { url, media_type });
        }
    }
}

/// A call's arguments for its user. Invalid arguments may hold sensitive values under other names, so a tool with sensitive
/// arguments shows none of them.
fn shown_arguments(record: &CallRecord) -> Cow<'_, Arguments> {
    let nothing = || Cow::Owned(Arguments::none());
    match (record.arguments(), record.asked_arguments(), record.tool()) {
        (Some(arguments), _, Some(tool)) => without_sensitive(arguments.expose(), &tool.sensitive),
        (None, Some(_), Some(tool)) if !tool.sensitive.is_empty() => nothing(),
        (_, asked, _) => asked.map_or_else(nothing, Cow::Borrowed),
    }
}

fn error_text(error: &CallError) -> String {
    format!("{}: {}", error.error_type.code(), error.message)
}

/// A whole stream with one notice of the server, as data for programs and in words for people.
pub fn notice(kind: &str, data: &Value, words: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in [
        json!({"type": "start"}),
        json!({"type": format!("data-{kind}"), "data": data}),
        json!({"type": "text-start", "id": "notice"}),
        json!({"type": "text-delta", "id": "notice", "delta": words}),
        json!({"type": "text-end", "id": "notice"}),
        json!({"type": "finish", "finishReason": "other"}),
    ] {
        write_event(&mut bytes, &chunk);
    }
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    bytes
}

/// A stream in the form for a log: without approval requests and links to connect, because the tokens in both belong to the
/// client alone.
pub fn to_keep(stream: &str) -> String {
    const LEFT_OUT: [&str; 3] = [
        "\"type\":\"data-connect\"",
        "\"type\":\"tool-approval-request\"",
        "\"type\":\"data-confirmation-request\"",
    ];
    let is_left_out = |text: &str| LEFT_OUT.iter().any(|left_out| text.contains(left_out));
    if !is_left_out(stream) {
        return stream.to_owned();
    }
    let events = stream.split_inclusive("\n\n");
    events.filter(|event| !is_left_out(event)).collect()
}

impl<O: Outlet> TurnSink for UiStream<O> {
    fn step(&mut self) {
        self.begin();
        if self.awaits_approval && self.is_step_open {
            return;
        }
        self.end_step();
        self.is_step_open = true;
        self.chunk(&Chunk::StartStep);
    }

    fn client(&mut self, update: &ClientUpdate) {
        match update {
            ClientUpdate::Transcript {
                role: Role::Assistant,
                text,
                is_final,
                citations,
                images,
            } => {
                self.begin();
                if *is_final {
                    self.sources(citations);
                    self.images(images);
                } else {
                    self.words(text.expose());
                }
            }
            ClientUpdate::Error { message, .. } => self.chunk(&Chunk::Error {
                error_text: message,
            }),
            ClientUpdate::Message(message) => {
                let kind = message.get("type").and_then(Value::as_str);
                self.data(kind.unwrap_or("message"), message, false);
            }
            ClientUpdate::Custom(message) => {
                let kind = message.get("type").and_then(Value::as_str);
                let kind = format!("custom-{}", kind.unwrap_or_default());
                self.data(&kind, message, false);
            }
            ClientUpdate::ToolOutput { call, data, .. } => self.piece(*call, data.expose()),
            ClientUpdate::StandingApprovals(standing) => {
                let approvals: Vec<Value> = standing.iter().map(standing_json).collect();
                self.data("standing-approvals", &json!({"approvals": approvals}), true);
            }
            // The result of an approval request that ends by itself: no answer is being given to it.
            ClientUpdate::ConfirmationResult { call, response } => {
                self.question_ended(*call, response.expose());
            }
            // The client knows the user's message, and the stream's own form has the other facts.
            ClientUpdate::Transcript { .. }
            | ClientUpdate::ModelGenerating
            | ClientUpdate::Interrupted
            | ClientUpdate::TurnComplete { .. }
            | ClientUpdate::ToolsComplete { .. }
            | ClientUpdate::CancelResult { .. }
            | ClientUpdate::ConfirmationRequest(_)
            | ClientUpdate::EndVoiceSession { .. }
            | ClientUpdate::SessionComplete { .. }
            | ClientUpdate::Reconnecting { .. }
            | ClientUpdate::Reconnected
            | ClientUpdate::Stopped => {}
        }
    }

    fn confirmed(&mut self, confirmed: &Confirmed<'_>) {
        let Confirmed {
            call,
            response,
            is_open,
            ..
        } = *confirmed;
        let undecided = self.undecided.len();
        self.undecided.retain(|(known, _)| Some(*known) != call);
        if let Some(call) = call.filter(|_| is_open) {
            return self.not_taken(call, response);
        }
        if let Some(call) = call.filter(|_| self.undecided.len() < undecided) {
            return self.outcome(call, response);
        }
        // An expired approval request may have ended in this very message, just before its answer was taken.
        let has_ended = call.is_some_and(|call| self.ended.contains(&call));
        let is_expired = response.error_type() == Some(ErrorType::ConfirmationExpired);
        self.is_repeated |= self.continues && has_ended && is_expired;
        self.question_ended(call, response);
    }

    fn event(&mut self, event: &SessionEvent) {
        match event {
            // The client sees the model's calls as parts; a handler's calls are none.
            SessionEvent::CallStarted(started) if started.parent().is_none() => {
                self.call_started(started);
            }
            SessionEvent::CallFinished(record)
            | SessionEvent::CallRejected(record)
            | SessionEvent::CallCancelled(record)
                if record.parent().is_none() =>
            {
                self.call_ended(record);
            }
            SessionEvent::CallSettled(record) if record.parent().is_none() => {
                self.call_settled(record);
            }
            SessionEvent::CallProgressed {
                call,
                message,
                fraction,
            } if self.shown.contains(call) => {
                let tool_call_id = Self::call_id(*call);
                let progress = json!({
                    "toolCallId": tool_call_id, "message": message, "fraction": fraction
                });
                self.data("tool-progress", &progress, true);
            }
            _ => {}
        }
    }

    fn asks(&mut self, question: &ConfirmationQuestion, token: &Sensitive<String>) {
        self.unasked.retain(|(call, _)| *call != question.call);
        self.awaits_approval = true;
        // An approval request of an earlier message is shown in this one, too.
        let arguments = question.arguments.expose();
        self.show_call(
            question.call,
            question.tool.as_str(),
            Cow::Borrowed(arguments.as_ref()),
            None,
        );
        let tool_call_id = Self::call_id(question.call);
        self.chunk(&Chunk::ToolApprovalRequest {
            approval_id: token.expose(),
            tool_call_id: &tool_call_id,
        });
        let request = json!({
            "toolCallId": tool_call_id,
            "token": token.expose(),
            "tool": question.tool.as_str(),
            "args": question.arguments.expose().as_ref(),
            "preview": question.preview.as_ref().map(Sensitive::expose),
            "warning": question.warning,
            "because": question.because,
            "remember": question.remember.as_ref().map(offer_json),
            "input": question.input.as_ref().map(Sensitive::expose),
            "expiresAt": rfc3339(question.expires_at_unix_ms),
        });
        self.data("confirmation-request", &request, true);
    }

    fn failed(&mut self, code: ErrorCode, message: &str) {
        self.begin();
        self.data("error", &json!({"code": code.as_str()}), true);
        self.chunk(&Chunk::Error {
            error_text: message,
        });
    }

    fn finished(&mut self, end: &TurnEnd) {
        self.begin();
        let unasked = std::mem::take(&mut self.unasked).into_iter();
        for (call, error_text) in unasked.chain(std::mem::take(&mut self.undecided)) {
            let tool_call_id = Self::call_id(call);
            self.chunk(&Chunk::ToolOutputError {
                tool_call_id: &tool_call_id,
                error_text,
                dynamic: true,
            });
        }
        if self.is_repeated && self.texts == 0 {
            let words = match self.is_asked_anew {
                true => ASKED_ANEW,
                false => ANSWERED_BEFORE,
            };
            self.words(words);
        }
        self.end_step();
        if let Some(message) = &end.voice_session_start {
            self.data("voice-session-start", message, false);
        }
        if end.reason == FinishReason::Cancelled {
            self.chunk(&Chunk::Abort);
        }
        let finish_reason = match end.reason {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Blocked => "content-filter",
            FinishReason::Cancelled => "other",
            FinishReason::Failed => "error",
        };
        let usage = &end.usage;
        self.chunk(&Chunk::Finish {
            finish_reason,
            message_metadata: json!({
                "turn": end.turn,
                "usage": {
                    "inputTokens": usage.input_tokens(),
                    "cachedInputTokens": usage.cached_tokens,
                    "outputTokens": usage.response_tokens,
                    "reasoningTokens": usage.thoughts_tokens,
                    "totalTokens": usage.total_tokens,
                },
            }),
        });
        self.bytes.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn flush(&mut self) {
        if !self.bytes.is_empty() {
            self.outlet.send(&mut self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Outlet for Written {
        fn send(&mut self, bytes: &mut Vec<u8>) {
            self.0.lock().unwrap().append(bytes);
        }
    }

    #[test]
    fn a_message_of_a_handler_is_a_part_of_its_own() {
        for (kind, part) in [
            ("weather", "data-custom-weather"),
            ("confirmation-request", "data-custom-confirmation-request"),
            ("confirmation_request", "data-custom-confirmation-request"),
            ("voice-session-start", "data-custom-voice-session-start"),
            ("answer-again", "data-custom-answer-again"),
            ("", "data-custom-"),
        ] {
            let written = Written::default();
            let mut stream = UiStream::new(written.clone(), "m1".to_owned(), false);
            stream.client(&ClientUpdate::Custom(json!({"type": kind})));
            stream.flush();
            let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
            let mut events = text.lines().filter_map(|line| line.strip_prefix("data: "));
            let last: Value = serde_json::from_str(events.next_back().unwrap()).unwrap();
            assert_eq!(last["type"], part);
        }
    }
}
