//! The server's messages to a voice client, and their making from the core's updates and events: pure functions, so that the page
//! and every other client read the same.

use crate::redaction::without_sensitive;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::{Outcome, ToolResponse, rfc3339};
use windlass_contract::error::ErrorType;
use windlass_contract::handler;
use windlass_contract::id::{CallNumber, ToolId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_session::RememberOffer;
use windlass_session::client::{
    CancelOutcome, Citation, ClientUpdate, ConfirmationQuestion, ErrorCode, Image,
};
use windlass_session::event::{CallRecord, CallStarted, SessionEvent};
use windlass_session::model::{Role, TranscriptEntry};
use windlass_store::{StandingApproval, StandingScope};

/// Characters of a result that a client is shown. Calendars and lists have to come whole, or a client can only show JSON.
const RESULT_CHARACTERS_MAX: usize = 16_000;

/// Bytes of a call's arguments that a client is shown. Longer ones are left out as a whole: a client that cannot take them would
/// lose its session.
const ARGUMENTS_BYTES_MAX: usize = 16 * 1024;

/// One message to the client. Times are RFC 3339, durations are milliseconds unless the name says otherwise.
#[derive(Clone, Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum ServerMessage<'a> {
    Connected {
        client_id: &'a str,
        timestamp: String,
    },
    Started {
        session_id: &'a str,
        conversation_id: &'a str,
        resume_token: &'a str,
        mode: Mode,
        registry_version: &'a str,
        tools: Vec<&'a ToolId>,
    },
    Transcript {
        role: Role,
        text: &'a str,
        #[serde(rename = "final")]
        is_final: bool,
        #[serde(skip_serializing_if = "<[Citation]>::is_empty")]
        citations: &'a [Citation],
        #[serde(skip_serializing_if = "<[Image]>::is_empty")]
        images: &'a [Image],
    },
    ModelGenerating,
    ToolCallStarted {
        #[serde(serialize_with = "call_name")]
        call_id: CallNumber,
        tool: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        args: Option<Cow<'a, Arguments>>,
        /// Whether the arguments are too long to be shown.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        args_omitted: bool,
        status: Cow<'a, str>,
        #[serde(
            serialize_with = "optional_call_name",
            skip_serializing_if = "Option::is_none"
        )]
        parent_call_id: Option<CallNumber>,
    },
    ToolProgress {
        #[serde(serialize_with = "call_name")]
        call_id: CallNumber,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        fraction: Option<f64>,
    },
    /// A piece of a running call's result.
    ToolOutput {
        #[serde(serialize_with = "call_name")]
        call_id: CallNumber,
        /// The piece's number, from 1.
        sequence: u32,
        data: &'a Value,
    },
    /// The outcome of `cancel`.
    CancelResult {
        #[serde(serialize_with = "call_name")]
        call_id: CallNumber,
        outcome: CancelOutcome,
        message: &'static str,
    },
    ToolCallFinished {
        #[serde(serialize_with = "call_name")]
        call_id: CallNumber,
        tool: &'a str,
        ok: bool,
        duration_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_type: Option<ErrorType>,
        /// The error message of a failed call, in the words that the model reads.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
        /// Whether the call's service has accepted it. The call finishes a second time, once the service has reported the end.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        accepted: bool,
        /// The arguments of a refused or cancelled call, whose start may not have been reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        args: Option<Cow<'a, Arguments>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        args_omitted: bool,
        /// The beginning of the result's JSON, for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Cow<'a, str>>,
        /// The way to connect the account that the call needs.
        #[serde(skip_serializing_if = "Option::is_none")]
        connect: Option<&'a Map<String, Value>>,
        #[serde(
            serialize_with = "optional_call_name",
            skip_serializing_if = "Option::is_none"
        )]
        parent_call_id: Option<CallNumber>,
    },
    ToolsComplete {
        tool_count: usize,
    },
    ConfirmationRequest {
        #[serde(serialize_with = "call_name")]
        call_id: CallNumber,
        token: &'a str,
        tool: &'a ToolId,
        args: &'a Arguments,
        /// The preview of the template. Without a template the user decides by the arguments.
        #[serde(skip_serializing_if = "Option::is_none")]
        preview: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        warning: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        because: Option<&'a str>,
        /// The offer to remember the approval.
        #[serde(skip_serializing_if = "Option::is_none")]
        remember: Option<Value>,
        /// The questions of the tool's service, if this is no request for consent.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<&'a Value>,
        expires_at: String,
    },
    ConfirmationResult {
        #[serde(serialize_with = "optional_call_name")]
        call_id: Option<CallNumber>,
        ok: bool,
        response: &'a ToolResponse,
    },
    /// All approvals that stand for calls of the session.
    StandingApprovals {
        approvals: Vec<Value>,
    },
    Interrupted,
    TurnComplete {
        turn: u64,
    },
    Timeout {
        duration_seconds: u64,
        /// Milliseconds since the Unix epoch.
        timeout_until: u64,
        farewell_message: &'a str,
    },
    EndVoiceSession {
        reason: &'a str,
        closing_message: Option<&'a str>,
        text_response: Option<&'a str>,
    },
    SessionComplete {
        #[serde(serialize_with = "transcript_lines")]
        transcripts: &'a [TranscriptEntry],
    },
    Stopped,
    /// The provider's connection is lost. The next attempt at one has this number, from 1.
    Reconnecting {
        attempt: u32,
    },
    Reconnected,
    Error {
        code: ErrorCode,
        message: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<&'a Value>,
    },
    Pong {
        timestamp: String,
    },
    /// A handler's message: an object with a `type` of its own.
    Custom {
        message: &'a Value,
    },
    /// A message of the server itself, made by a built-in tool: an object with a `type`.
    #[serde(untagged)]
    Own(&'a Value),
}

impl<'a> ServerMessage<'a> {
    pub fn error(code: ErrorCode, message: impl Into<Cow<'a, str>>) -> Self {
        Self::Error {
            code,
            message: message.into(),
            details: None,
        }
    }

    /// Appends the message as JSON.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        serde_json::to_writer(bytes, self)
            .expect("messages hold no map with keys other than strings, and memory takes them");
    }
}

fn call_name<S: Serializer>(call: &CallNumber, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(call)
}

fn optional_call_name<S: Serializer>(
    call: &Option<CallNumber>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match call {
        Some(call) => call_name(call, serializer),
        None => serializer.serialize_none(),
    }
}

fn transcript_lines<S: Serializer>(
    entries: &&[TranscriptEntry],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Line<'a> {
        role: Role,
        text: &'a str,
        turn: u64,
        /// Milliseconds since the session's start.
        at_ms: u64,
    }
    serializer.collect_seq(entries.iter().map(|entry| Line {
        role: entry.role,
        text: entry.text.expose(),
        turn: entry.turn,
        at_ms: entry.at.as_millis(),
    }))
}

/// The message that asks the user for an approval, with the token for the answer.
pub fn of_question<'a>(
    question: &'a ConfirmationQuestion,
    token: &'a Sensitive<String>,
) -> ServerMessage<'a> {
    ServerMessage::ConfirmationRequest {
        call_id: question.call,
        token: token.expose(),
        tool: &question.tool,
        args: question.arguments.expose(),
        preview: question
            .preview
            .as_ref()
            .map(|preview| preview.expose().as_str()),
        warning: question.warning.as_deref(),
        because: question.because.as_deref(),
        remember: question.remember.as_ref().map(offer_json),
        input: question.input.as_ref().map(Sensitive::expose),
        expires_at: rfc3339(question.expires_at_unix_ms),
    }
}

/// The offer to remember an approval, for every client.
pub fn offer_json(offer: &RememberOffer) -> Value {
    json!({
        "scope": "session",
        "arguments": offer.arguments.expose(),
        "minutes": offer.minutes,
    })
}

/// A standing approval, for every client.
pub fn standing_json(standing: &StandingApproval) -> Value {
    let arguments: Option<Value> = serde_json::from_str(standing.values.expose()).ok();
    json!({
        "approvalId": standing.id(),
        "tool": standing.tool,
        "arguments": arguments,
        "mode": match standing.scope {
            StandingScope::Session(_) => Mode::Voice,
            StandingScope::Client(_) => Mode::Text,
        },
        "givenAt": rfc3339(standing.given_at_unix_ms),
        "expiresAt": rfc3339(standing.expires_at_unix_ms),
    })
}

/// The message for an update of the core; `None` for an approval request, which needs its token.
pub fn of_update(update: &ClientUpdate) -> Option<ServerMessage<'_>> {
    Some(match update {
        ClientUpdate::ConfirmationRequest(_) => return None,
        ClientUpdate::ConfirmationResult { call, response } => ServerMessage::ConfirmationResult {
            call_id: *call,
            ok: response.expose().is_ok(),
            response: response.expose(),
        },
        ClientUpdate::Transcript {
            role,
            text,
            is_final,
            citations,
            images,
        } => ServerMessage::Transcript {
            role: *role,
            text: text.expose(),
            is_final: *is_final,
            citations,
            images,
        },
        ClientUpdate::ModelGenerating => ServerMessage::ModelGenerating,
        ClientUpdate::StandingApprovals(standing) => ServerMessage::StandingApprovals {
            approvals: standing.iter().map(standing_json).collect(),
        },
        ClientUpdate::Interrupted => ServerMessage::Interrupted,
        ClientUpdate::TurnComplete { turn } => ServerMessage::TurnComplete { turn: *turn },
        ClientUpdate::ToolsComplete { tool_count } => ServerMessage::ToolsComplete {
            tool_count: *tool_count,
        },
        ClientUpdate::CancelResult { call, outcome } => ServerMessage::CancelResult {
            call_id: *call,
            outcome: *outcome,
            message: outcome.words(),
        },
        ClientUpdate::ToolOutput {
            call,
            sequence,
            data,
        } => ServerMessage::ToolOutput {
            call_id: *call,
            sequence: *sequence,
            data: data.expose(),
        },
        ClientUpdate::EndVoiceSession {
            reason,
            closing_message,
            text_response,
        } => ServerMessage::EndVoiceSession {
            reason,
            closing_message: closing_message.as_deref(),
            text_response: text_response.as_deref(),
        },
        ClientUpdate::SessionComplete { transcripts } => {
            ServerMessage::SessionComplete { transcripts }
        }
        ClientUpdate::Stopped => ServerMessage::Stopped,
        ClientUpdate::Reconnecting { attempt } => ServerMessage::Reconnecting { attempt: *attempt },
        ClientUpdate::Reconnected => ServerMessage::Reconnected,
        ClientUpdate::Error {
            code,
            message,
            details,
        } => ServerMessage::Error {
            code: *code,
            message: Cow::Borrowed(message),
            details: details.as_ref(),
        },
        ClientUpdate::Message(value) => ServerMessage::Own(value),
        ClientUpdate::Custom(message) => ServerMessage::Custom { message },
    })
}

/// The message for an event of the session, if clients are told of it.
pub fn of_event(event: &SessionEvent) -> Option<ServerMessage<'_>> {
    match event {
        SessionEvent::CallStarted(started) => Some(call_started(started)),
        SessionEvent::CallProgressed {
            call,
            message,
            fraction,
        } => Some(ServerMessage::ToolProgress {
            call_id: *call,
            message,
            fraction: *fraction,
        }),
        SessionEvent::CallFinished(record) | SessionEvent::CallSettled(record) => {
            Some(call_finished(record, None))
        }
        SessionEvent::CallRejected(record) | SessionEvent::CallCancelled(record) => {
            Some(call_finished(record, shown_arguments(record)))
        }
        _ => None,
    }
}

/// The arguments if they are short enough, and whether they are too long.
fn of_bearable_length(args: Cow<'_, Arguments>) -> (Option<Cow<'_, Arguments>>, bool) {
    let is_bearable = args.written_bytes() <= ARGUMENTS_BYTES_MAX;
    (is_bearable.then_some(args), !is_bearable)
}

fn call_started(started: &CallStarted) -> ServerMessage<'_> {
    let sensitive = &started.tool().sensitive;
    let (args, args_omitted) =
        of_bearable_length(without_sensitive(started.arguments().expose(), sensitive));
    ServerMessage::ToolCallStarted {
        call_id: started.call(),
        tool: started.tool().id.as_str(),
        args,
        args_omitted,
        status: match &started.status {
            Some(status) => Cow::Borrowed(status),
            None => Cow::Owned(format!("Running {}", started.tool().id)),
        },
        parent_call_id: started.parent(),
    }
}

/// The requested arguments, without the tool's sensitive ones. Invalid arguments may hold sensitive values in other places than
/// the tool's marks, so that nothing of them is shown if the tool has marks.
fn shown_arguments(record: &CallRecord) -> Option<Cow<'_, Arguments>> {
    let sensitive = record.tool().map_or(&[][..], |tool| &tool.sensitive);
    match record.arguments() {
        Some(valid) => Some(without_sensitive(valid.expose(), sensitive)),
        None if sensitive.is_empty() => record.asked_arguments().map(Cow::Borrowed),
        None => None,
    }
}

/// The beginning of a call's result. Results repeat arguments, so that nothing is shown for a tool with sensitive ones. Results
/// of a handler's own calls are left to that handler.
fn shown_result(record: &CallRecord) -> Option<Cow<'_, str>> {
    if record.parent().is_some() {
        return None;
    }
    let Outcome::Success {
        data: Some(data), ..
    } = &record.response.expose().outcome
    else {
        return None;
    };
    let is_shown = record.tool().is_some_and(|tool| tool.sensitive.is_empty());
    let text = is_shown.then(|| match data.text() {
        Some(text) => Some(Cow::Borrowed(text.get())),
        None => serde_json::to_string(data).ok().map(Cow::Owned),
    })??;
    let Some((end, _)) = text.char_indices().nth(RESULT_CHARACTERS_MAX) else {
        return Some(text);
    };
    Some(Cow::Owned(format!("{}…", &text[..end])))
}

/// The error message of a failed call. It may quote arguments, so that nothing is shown for a tool with sensitive ones.
fn shown_message(record: &CallRecord) -> Option<&str> {
    let may_quote = record.tool().is_some_and(|tool| !tool.sensitive.is_empty());
    let error = record.response.expose().error()?;
    (record.parent().is_none() && !may_quote).then_some(&*error.message)
}

/// The way to connect the account that a call needs.
fn invitation(record: &CallRecord) -> Option<&Map<String, Value>> {
    let error = record.response.expose().error()?;
    handler::invitation(error.details.as_ref())
}

fn call_finished<'r>(
    record: &'r CallRecord,
    args: Option<Cow<'r, Arguments>>,
) -> ServerMessage<'r> {
    let response = record.response.expose();
    let (args, args_omitted) = args.map_or((None, false), of_bearable_length);
    ServerMessage::ToolCallFinished {
        call_id: record.call(),
        tool: record.shown_name(),
        ok: response.is_ok(),
        duration_ms: response.meta.duration_ms,
        error_type: record.error_type(),
        message: shown_message(record),
        accepted: response.meta.accepted_until.is_some(),
        args,
        args_omitted,
        result: shown_result(record),
        connect: invitation(record),
        parent_call_id: record.parent(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;
    use windlass_contract::envelope::Meta;
    use windlass_contract::error::CallError;
    use windlass_contract::id::SessionId;
    use windlass_session::time::Timestamp;
    use windlass_store::QuestionNumber;

    fn written(message: &ServerMessage<'_>) -> Value {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn every_update_of_the_core_has_its_message() {
        let citation = Citation {
            id: "fram".into(),
            title: "Fram".into(),
            url: None,
        };
        let entry = TranscriptEntry {
            role: Role::User,
            text: Sensitive("Hi".into()),
            at: Timestamp::from_millis(1_500),
            turn: 1,
        };
        for (update, expected) in [
            (
                ClientUpdate::Transcript {
                    role: Role::Assistant,
                    text: Sensitive("Colin Archer.".into()),
                    is_final: true,
                    citations: vec![citation],
                    images: vec![],
                },
                json!({"type": "transcript", "role": "assistant", "text": "Colin Archer.", "final": true,
                       "citations": [{"id": "fram", "title": "Fram"}]}),
            ),
            (
                ClientUpdate::ModelGenerating,
                json!({"type": "model_generating"}),
            ),
            (ClientUpdate::Interrupted, json!({"type": "interrupted"})),
            (
                ClientUpdate::TurnComplete { turn: 3 },
                json!({"type": "turn_complete", "turn": 3}),
            ),
            (
                ClientUpdate::ToolsComplete { tool_count: 2 },
                json!({"type": "tools_complete", "toolCount": 2}),
            ),
            (
                ClientUpdate::EndVoiceSession {
                    reason: "user_request".into(),
                    closing_message: Some("Bye".into()),
                    text_response: None,
                },
                json!({"type": "end_voice_session", "reason": "user_request", "closingMessage": "Bye",
                       "textResponse": null}),
            ),
            (
                ClientUpdate::SessionComplete {
                    transcripts: vec![entry],
                },
                json!({"type": "session_complete",
                       "transcripts": [{"role": "user", "text": "Hi", "turn": 1, "atMs": 1500}]}),
            ),
            (
                ClientUpdate::CancelResult {
                    call: CallNumber(3),
                    outcome: CancelOutcome::RunsOn,
                },
                json!({"type": "cancel_result", "callId": "call-3", "outcome": "runs_on",
                       "message": "what the call changes has begun and goes on; how it ends is told"}),
            ),
            (
                ClientUpdate::ToolOutput {
                    call: CallNumber(3),
                    sequence: 2,
                    data: Sensitive(json!({"line": "<b>"})),
                },
                json!({"type": "tool_output", "callId": "call-3", "sequence": 2, "data": {"line": "<b>"}}),
            ),
            (
                ClientUpdate::StandingApprovals(vec![StandingApproval {
                    question: QuestionNumber(3),
                    tool: ToolId::parse("save_file").unwrap(),
                    tool_version: "1.0.0".into(),
                    handler_hash: None,
                    values: Sensitive(r#"{"/folder":"<b>"}"#.into()),
                    scope: StandingScope::Session(SessionId::new("s-1")),
                    given_at_unix_ms: 1_700_000_000_000,
                    expires_at_unix_ms: 1_700_000_060_000,
                }]),
                json!({"type": "standing_approvals", "approvals": [{
                    "approvalId": "approval-3", "tool": "save_file", "arguments": {"/folder": "<b>"},
                    "mode": "voice", "givenAt": "2023-11-14T22:13:20.000Z",
                    "expiresAt": "2023-11-14T22:14:20.000Z"}]}),
            ),
            (ClientUpdate::Stopped, json!({"type": "stopped"})),
            (
                ClientUpdate::Error {
                    code: ErrorCode::ToolLoop,
                    message: "again".into(),
                    details: Some(json!({"calls": 5})),
                },
                json!({"type": "error", "code": "tool_loop", "message": "again", "details": {"calls": 5}}),
            ),
            (
                ClientUpdate::Message(json!({"type": "timeout", "durationSeconds": 60})),
                json!({"type": "timeout", "durationSeconds": 60}),
            ),
        ] {
            assert_eq!(written(&of_update(&update).unwrap()), expected);
        }
    }

    #[test]
    fn a_question_has_its_arguments_always_and_words_where_its_tool_has_some() {
        for (preview, warning, because) in [
            (None, None, None),
            (
                Some("Order Fram."),
                Some("It was done at 12:03."),
                Some("Ships are dear."),
            ),
        ] {
            let question = ConfirmationQuestion {
                call: CallNumber(3),
                question: QuestionNumber(2),
                tool: ToolId::parse("order").unwrap(),
                arguments: Sensitive(Arc::new(Arguments::from(
                    json!({"what": "fram"}).as_object().unwrap().clone(),
                ))),
                preview: preview.map(|text| Sensitive(text.to_owned())),
                warning: warning.map(str::to_owned),
                because: because.map(str::to_owned),
                remember: preview.map(|_| RememberOffer {
                    arguments: Sensitive(json!({"/what": "fram"})),
                    minutes: 15,
                }),
                input: None,
                expires_at_unix_ms: 1_700_000_000_000,
            };
            let token = Sensitive("2.00".to_owned());
            let mut expected = json!({"type": "confirmation_request", "callId": "call-3", "token": "2.00",
                "tool": "order", "args": {"what": "fram"}, "expiresAt": "2023-11-14T22:13:20.000Z"});
            if let (Some(preview), Some(warning)) = (preview, warning) {
                expected["preview"] = json!(preview);
                expected["warning"] = json!(warning);
                expected["because"] = json!(because);
                expected["remember"] =
                    json!({"scope": "session", "arguments": {"/what": "fram"}, "minutes": 15});
            }
            assert_eq!(written(&of_question(&question, &token)), expected);
        }
    }

    #[test]
    fn a_refused_call_is_told_with_its_error_type_and_without_its_text() {
        let response = ToolResponse {
            outcome: Outcome::Failure(CallError::new(ErrorType::NotFound, "no such tool").into()),
            intents: vec![],
            meta: Meta {
                tool_id: "fly".into(),
                tool_version: None,
                registry_version: "1.0.00000000".into(),
                response_schema_version: "1.1.0",
                duration_ms: 2,
                timestamp: 0,
                retry_count: 0,
                clamped: Default::default(),
                defaults_applied: Default::default(),
                nulls_left_out: Default::default(),
                idempotent_cache_hit: false,
                original_turn: None,
                parent_call_id: None,
                cut: None,
                accepted_until: None,
                background_task_id: None,
                preliminary: false,
                recorded: None,
            },
        };
        let record = CallRecord::of_unknown_tool(CallNumber(7), "fly", Arc::new(response));
        assert_eq!(
            written(&of_event(&SessionEvent::CallRejected(record)).unwrap()),
            json!({"type": "tool_call_finished", "callId": "call-7", "tool": "fly", "ok": false,
                   "durationMs": 2, "errorType": "NOT_FOUND", "message": "no such tool"})
        );
        assert!(of_event(&SessionEvent::SessionStarted).is_none());
    }
}
