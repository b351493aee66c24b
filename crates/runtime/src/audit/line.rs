//! The contents of one record of the audit (`docs/operations.md`, "The audit"). Knows events; no file and no chain.

use super::AuditedArguments;
use crate::redaction::{Secrets, without_sensitive};
use crate::subscriber::SessionIdentity;
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::rfc3339;
use windlass_contract::error::ErrorType;
use windlass_contract::id::{CallNumber, EffectId, TenantId, ToolId, UserId};
use windlass_contract::intent::Intent;
use windlass_contract::json::{hash, hex};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::{CancelOutcome, CancelWay, RevokeWay};
use windlass_session::event::{CallRecord, SessionEvent, StandingNote};
use windlass_session::facts::DeliveryKey;
use windlass_store::{
    ConversationRef, Effect, EffectState, QuestionNumber, StandingApproval, StandingEnd,
    standing_id,
};

/// The event of a line with the end of a change that was unknown before, or was not written down.
const SETTLED: &str = "tool_outcome_settled";
/// The prefix of the names of all lines that the server itself writes.
const OWN_PREFIX: &str = "tool_";
/// The events of lines about a call's end.
const EXECUTION: &str = "tool_execution";
const CANCELLATION: &str = "tool_cancellation";
/// The event of a line about a request to stop a call.
const STOPPING: &str = "tool_cancel_requested";
/// The event of a line about a value that a handler has set for the conversation, and of a line about a rejected intent.
const STATE_CHANGE: &str = "tool_state_changed";
const REJECTED_INTENT: &str = "tool_intent_rejected";

/// The event of a line about a standing approval: an approval covers more than one call, or no longer does.
const STANDING: &str = "tool_standing_approval";

/// The event of a line about a user's connection: a user has connected an account, or a connection has ended.
const CONNECTION: &str = "tool_connection";

/// Characters of the JSON that a handler gives to a line of its own.
const DATA_CHARACTERS_MAX: usize = 65_536;
/// Characters of a handler's own name for an event.
const WORD_CHARACTERS_MAX: usize = 256;

/// Something that happened in a session.
pub(super) struct Entry {
    pub(super) session: SessionIdentity,
    pub(super) now_unix_ms: u64,
    /// Whether it happened in no session. Then `session` is the session that made the call, and the line has no number in it.
    pub(super) is_apart: bool,
    pub(super) what: What,
}

pub(super) enum What {
    Call {
        event: &'static str,
        record: CallRecord,
    },
    Note {
        call: CallNumber,
        tool: Arc<Tool>,
        arguments: Sensitive<Arc<Arguments>>,
        event: String,
        data: Sensitive<Value>,
    },
    /// A change has happened. An earlier line called its outcome unknown.
    Settled {
        call: CallNumber,
        tool: ToolId,
        version: Arc<str>,
        effect_id: EffectId,
    },
    /// The session's user wants a call stopped.
    Cancel {
        call: CallNumber,
        tool: ToolId,
        version: Arc<str>,
        way: CancelWay,
        outcome: CancelOutcome,
    },
    /// A value of the conversation was set, or taken away.
    StateChange {
        call: CallNumber,
        tool: Option<ToolId>,
        key: String,
        /// Bytes of the value as JSON; `None` if the value was removed.
        bytes: Option<usize>,
    },
    RejectedIntent {
        call: CallNumber,
        tool: Option<ToolId>,
        name: String,
        key: Option<String>,
        problem: String,
    },
    Standing {
        approval: QuestionNumber,
        tool: ToolId,
        note: StandingNote,
    },
    /// Leaves no line: the session's last event.
    Ended,
}

/// The ledger's state of an effect that no session has reported.
pub(super) struct Found {
    pub(super) conversation: ConversationRef,
    /// The user on whose behalf the effect was made.
    pub(super) user_id: UserId,
    pub(super) effect: Effect,
    pub(super) now_unix_ms: u64,
}

/// A standing approval that a user has revoked over HTTP.
pub(super) struct Revoked {
    pub(super) conversation: ConversationRef,
    pub(super) user_id: UserId,
    pub(super) standing: StandingApproval,
    pub(super) now_unix_ms: u64,
}

/// A change of a user's connection to a service. It holds no token.
#[derive(Clone, Debug)]
pub struct ConnectionChange {
    pub tenant: TenantId,
    pub user_id: UserId,
    /// The connection's name in the configuration.
    pub connection: String,
    /// `connected` or `ended`.
    pub change: &'static str,
    /// The requester of an end; `None` for other changes.
    pub reason: Option<&'static str>,
    pub now_unix_ms: u64,
}

impl Entry {
    /// The effect whose end the line reports.
    pub(super) fn effect(&self) -> Option<(&ConversationRef, &EffectId)> {
        let effect_id = match &self.what {
            What::Call {
                event: EXECUTION | CANCELLATION,
                record,
            } => record.effect_id.as_ref()?,
            What::Settled { effect_id, .. } => effect_id,
            What::Call { .. }
            | What::Note { .. }
            | What::Cancel { .. }
            | What::StateChange { .. }
            | What::RejectedIntent { .. }
            | What::Standing { .. }
            | What::Ended => return None,
        };
        Some((self.session.ledger.as_ref()?, effect_id))
    }
}

impl What {
    /// `None` for an event that the audit does not record.
    pub(super) fn of(event: &SessionEvent) -> Option<Self> {
        let call = |event, record: &CallRecord| Self::Call {
            event,
            record: record.clone(),
        };
        match event {
            SessionEvent::CallFinished(record) => Some(call(EXECUTION, record)),
            SessionEvent::CallRejected(record) => Some(call("tool_rejection", record)),
            SessionEvent::CallCancelled(record) => Some(call(CANCELLATION, record)),
            SessionEvent::AuditNote {
                call,
                tool,
                arguments,
                event,
                data,
            } => Some(Self::Note {
                call: *call,
                tool: tool.clone(),
                arguments: arguments.clone(),
                event: event.clone(),
                data: data.clone(),
            }),
            SessionEvent::CallSettled(record) if record.response.expose().is_ok() => {
                let effect_id = record.effect_id.clone()?;
                let tool = record.tool()?;
                Some(Self::Settled {
                    call: record.call(),
                    tool: tool.id.clone(),
                    version: tool.version.clone(),
                    effect_id,
                })
            }
            // A change that has not happened may be tried again under the same id, and then has another end. Otherwise the sweep
            // finds the effect without a line.
            SessionEvent::EffectSettled {
                call,
                tool,
                version,
                effect_id,
                succeeded: true,
            } => Some(Self::Settled {
                call: *call,
                tool: tool.clone(),
                version: version.clone(),
                effect_id: effect_id.clone(),
            }),
            SessionEvent::CancelRequested {
                call,
                tool,
                version,
                way,
                outcome,
            } => Some(Self::Cancel {
                call: *call,
                tool: tool.clone(),
                version: version.clone(),
                way: *way,
                outcome: *outcome,
            }),
            SessionEvent::IntentApplied {
                call, tool, intent, ..
            } => match &**intent {
                Intent::SetState { key, value } => {
                    let value = Some(value.expose()).filter(|value| !value.is_null());
                    Some(Self::StateChange {
                        call: *call,
                        tool: tool.clone(),
                        key: key.clone(),
                        bytes: value.map(|value| value.to_string().len()),
                    })
                }
                _ => None,
            },
            SessionEvent::IntentRejected {
                call,
                tool,
                intent,
                problem,
            } => Some(Self::RejectedIntent {
                call: *call,
                tool: tool.clone(),
                name: intent.shown_name().to_owned(),
                key: intent.shown_key().map(str::to_owned),
                problem: problem.clone(),
            }),
            SessionEvent::StandingApproval {
                approval,
                tool,
                note,
            } => Some(Self::Standing {
                approval: *approval,
                tool: tool.clone(),
                note: *note,
            }),
            SessionEvent::SessionEnded { .. } => Some(Self::Ended),
            _ => None,
        }
    }
}

/// One line, with the fields that `docs/operations.md` names; a handler's own line has `data` in place of the call's outcome.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    event: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    timestamp: String,
    session_id: &'a str,
    user_id: &'a str,
    conversation_id: &'a str,
    mode: Mode,
    #[serde(flatten)]
    rest: Rest<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Rest<'a> {
    Call(Box<CallLine<'a>>),
    Note(NoteLine<'a>),
    Settled(SettledLine<'a>),
    Cancel(CancelLine<'a>),
    StateChange(StateChangeLine<'a>),
    RejectedIntent(RejectedIntentLine<'a>),
    Standing(StandingLine<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallLine<'a> {
    turn: u64,
    tool_id: &'a str,
    tool_version: Option<&'a str>,
    registry_version: &'a str,
    category: Option<&'static str>,
    call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_call_id: Option<String>,
    idempotency_key: &'a DeliveryKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consent: Option<String>,
    duration_ms: u64,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<ErrorType>,
    retry_count: u32,
    args_hash: Option<String>,
    intents: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Cow<'a, Arguments>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NoteLine<'a> {
    tool_id: &'a str,
    tool_version: &'a str,
    call_id: String,
    data: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SettledLine<'a> {
    tool_id: &'a str,
    tool_version: &'a str,
    call_id: String,
    effect_id: &'a str,
    state: &'static str,
    changed_at: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CancelLine<'a> {
    tool_id: &'a str,
    tool_version: &'a str,
    call_id: String,
    way: &'static str,
    outcome: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StandingLine<'a> {
    tool_id: &'a str,
    approval_id: String,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<&'static str>,
}

impl<'a> StandingLine<'a> {
    fn of(approval: QuestionNumber, tool: &'a ToolId, note: StandingNote) -> Self {
        let line = Self {
            tool_id: tool.as_str(),
            approval_id: standing_id(approval),
            change: "given",
            call_id: None,
            expires_at: None,
            reason: None,
            way: None,
        };
        match note {
            StandingNote::Given {
                call,
                expires_at_unix_ms,
            } => Self {
                call_id: Some(call.to_string()),
                expires_at: Some(rfc3339(expires_at_unix_ms)),
                ..line
            },
            StandingNote::Ended { why, way } => Self {
                change: "ended",
                reason: Some(why.as_str()),
                way: way.map(RevokeWay::as_str),
                ..line
            },
        }
    }
}

/// The line of a standing approval that its user revoked without a report from a session of theirs.
pub(super) fn of_revoked(revoked: &Revoked) -> Value {
    let standing = &revoked.standing;
    let note = StandingNote::Ended {
        why: StandingEnd::Revoked,
        way: Some(RevokeWay::Http),
    };
    let line = StandingLine::of(standing.question, &standing.tool, note);
    let mut line = serde_json::to_value(line).expect("a line has text keys");
    for (name, value) in [
        ("event", STANDING.to_owned()),
        ("timestamp", rfc3339(revoked.now_unix_ms)),
        ("userId", revoked.user_id.to_string()),
        (
            "conversationId",
            revoked.conversation.conversation_id.to_string(),
        ),
    ] {
        line[name] = value.into();
    }
    line
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConnectionLine<'a> {
    event: &'static str,
    timestamp: String,
    tenant_id: &'a str,
    user_id: &'a str,
    connection: &'a str,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

pub(super) fn of_connection(change: &ConnectionChange) -> Value {
    let line = ConnectionLine {
        event: CONNECTION,
        timestamp: rfc3339(change.now_unix_ms),
        tenant_id: change.tenant.as_str(),
        user_id: change.user_id.as_str(),
        connection: &change.connection,
        change: change.change,
        reason: change.reason,
    };
    serde_json::to_value(line).expect("a line has text keys")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StateChangeLine<'a> {
    tool_id: Option<&'a str>,
    call_id: String,
    key: &'a str,
    bytes: Option<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RejectedIntentLine<'a> {
    tool_id: Option<&'a str>,
    call_id: String,
    intent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    problem: &'a str,
}

/// The record of an entry, numbered within the session that reported it; `None` for an entry without a line.
pub(super) fn of_entry(
    entry: &Entry,
    sequence: Option<u64>,
    arguments: AuditedArguments,
) -> Option<Value> {
    let session = &entry.session;
    let (event, rest) = match &entry.what {
        What::Ended => return None,
        What::Call { event, record } => {
            let rest = Rest::Call(Box::new(call_line(record, arguments)));
            ((*event).into(), rest)
        }
        What::Note {
            call,
            tool,
            arguments,
            event,
            data,
        } => {
            let mut secrets = Secrets::default();
            secrets.add(arguments.expose(), &tool.sensitive);
            let rest = Rest::Note(NoteLine {
                tool_id: tool.id.as_str(),
                tool_version: &tool.version,
                call_id: call.to_string(),
                data: said(data.expose(), &secrets),
            });
            (named(event, &secrets).into(), rest)
        }
        What::Settled {
            call,
            tool,
            version,
            effect_id,
        } => (
            SETTLED.into(),
            Rest::Settled(SettledLine {
                tool_id: tool.as_str(),
                tool_version: version,
                call_id: call.to_string(),
                effect_id: effect_id.as_str(),
                state: state_name(EffectState::Done),
                changed_at: rfc3339(entry.now_unix_ms),
            }),
        ),
        What::Cancel {
            call,
            tool,
            version,
            way,
            outcome,
        } => (
            STOPPING.into(),
            Rest::Cancel(CancelLine {
                tool_id: tool.as_str(),
                tool_version: version,
                call_id: call.to_string(),
                way: way.as_str(),
                outcome: outcome.as_str(),
            }),
        ),
        What::StateChange {
            call,
            tool,
            key,
            bytes,
        } => (
            STATE_CHANGE.into(),
            Rest::StateChange(StateChangeLine {
                tool_id: tool.as_ref().map(|tool| tool.as_str()),
                call_id: call.to_string(),
                key,
                bytes: *bytes,
            }),
        ),
        What::RejectedIntent {
            call,
            tool,
            name,
            key,
            problem,
        } => (
            REJECTED_INTENT.into(),
            Rest::RejectedIntent(RejectedIntentLine {
                tool_id: tool.as_ref().map(|tool| tool.as_str()),
                call_id: call.to_string(),
                intent: name,
                key: key.as_deref(),
                problem,
            }),
        ),
        What::Standing {
            approval,
            tool,
            note,
        } => (
            STANDING.into(),
            Rest::Standing(StandingLine::of(*approval, tool, *note)),
        ),
    };
    let line = Line {
        event,
        sequence,
        timestamp: rfc3339(entry.now_unix_ms),
        session_id: session.session_id.as_str(),
        user_id: session.user_id.as_str(),
        conversation_id: session.conversation_id.as_str(),
        mode: session.mode,
        rest,
    };
    Some(serde_json::to_value(line).expect("a line has text keys and finite numbers"))
}

/// A handler's name for an event, without the sensitive arguments of its call. A name with the prefix of the server's own lines
/// gets another prefix.
fn named(event: &str, secrets: &Secrets) -> String {
    let is_as_ours = event
        .to_ascii_lowercase()
        .replace('-', "_")
        .starts_with(OWN_PREFIX);
    let event = match is_as_ours {
        true => format!("custom_{event}"),
        false => event.to_owned(),
    };
    let mut word = Value::from(event.chars().take(WORD_CHARACTERS_MAX).collect::<String>());
    secrets.hide(&mut word);
    word.as_str().unwrap_or_default().to_owned()
}

/// A handler's data for the audit, without the sensitive arguments of its call. Data too long to be read back are cut to their
/// beginning.
fn said(data: &Value, secrets: &Secrets) -> Value {
    let mut data = data.clone();
    secrets.hide(&mut data);
    let text = data.to_string();
    match text.char_indices().nth(DATA_CHARACTERS_MAX) {
        Some((end, _)) => json!({ "cut": true, "beginning": text[..end] }),
        None => data,
    }
}

/// The line for lines that were lost from memory while the disk refused writes.
pub(super) fn of_loss(lines: u64) -> Value {
    json!({ "event": "audit_lost", "lines": lines })
}

/// The line of an effect's end that no session has reported: its process was killed, or its outcome is still unknown.
pub(super) fn of_found(found: &Found) -> Value {
    let effect = &found.effect;
    let intent: Option<Value> = serde_json::from_str(effect.intent.expose()).ok();
    let is_known = match effect.state {
        EffectState::Done | EffectState::NotDone => true,
        EffectState::Running | EffectState::Unknown => false,
    };
    let mut line = json!({
        "event": if is_known { SETTLED } else { "tool_outcome_unknown" },
        "timestamp": rfc3339(found.now_unix_ms),
        "userId": found.user_id,
        "conversationId": found.conversation.conversation_id,
        "toolId": effect.tool,
        "toolVersion": effect.tool_version,
        "effectId": effect.effect_id,
        "reservedAt": rfc3339(effect.begun_at_unix_ms),
        "changedAt": rfc3339(effect.changed_at_unix_ms),
        "state": state_name(effect.state),
        "writtenAfterwards": true,
        "intent": intent,
    });
    if let Some(standing) = effect.newest_attempt().standing {
        line["standingApproval"] = standing_id(standing).into();
    }
    line
}

/// The state's name in the audit.
fn state_name(state: EffectState) -> &'static str {
    match state {
        EffectState::Running => "running",
        EffectState::Done => "succeeded",
        EffectState::NotDone => "failed",
        EffectState::Unknown => "unknown",
    }
}

fn call_line(record: &CallRecord, audited: AuditedArguments) -> CallLine<'_> {
    let response = record.response.expose();
    let arguments = record.arguments().map(|arguments| &**arguments.expose());
    // The completed arguments, or the arguments as they came if the call was refused before that.
    let asked = record.asked_arguments();
    let sensitive = record.tool().map_or(&[][..], |tool| &tool.sensitive);
    CallLine {
        turn: record.turn(),
        tool_id: record.shown_name(),
        tool_version: response.meta.tool_version.as_deref(),
        registry_version: &response.meta.registry_version,
        category: record.category().map(|category| category.as_str()),
        call_id: record.call().to_string(),
        parent_call_id: record.parent().map(|parent| parent.to_string()),
        idempotency_key: record.idempotency_key(),
        effect_id: record.effect_id.as_ref().map(|id| id.as_str()),
        consent: record.consent.as_ref().map(ToString::to_string),
        duration_ms: response.meta.duration_ms,
        ok: response.is_ok(),
        error_type: record.error_type(),
        retry_count: response.meta.retry_count,
        args_hash: asked.map(|asked| hex(&hash(&asked.to_value()))),
        intents: intents(&response.intents, arguments, sensitive),
        arguments: match audited {
            AuditedArguments::Hash => None,
            AuditedArguments::Visible => {
                arguments.map(|arguments| without_sensitive(arguments, sensitive))
            }
        },
    }
}

/// The tool's intents, without texts that hold a sensitive argument.
fn intents(intents: &[Intent], arguments: Option<&Arguments>, sensitive: &[String]) -> Value {
    let mut shown = serde_json::to_value(intents).expect("an intent has text keys");
    for (shown, intent) in shown.as_array_mut().into_iter().flatten().zip(intents) {
        // A value for a conversation may be anything, and only the conversation's log holds it.
        if let (Intent::SetState { .. }, Some(members)) = (intent, shown.as_object_mut()) {
            members.remove("value");
        }
    }
    if let Some(arguments) = arguments.filter(|_| !intents.is_empty() && !sensitive.is_empty()) {
        let mut secrets = Secrets::default();
        secrets.add(arguments, sensitive);
        secrets.hide(&mut shown);
    }
    shown
}
