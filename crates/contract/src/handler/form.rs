//! A context as JSON, for handlers outside Rust: scripts, workers and web services read the same form. Knows no way to send it.

use super::{Caller, Context, LocalTime, SessionFacts};
use crate::id::EffectId;
use crate::json;
use crate::kind::Mode;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The key by which an outside API recognises an effect, in every attempt.
pub fn downstream_key(effect_id: &EffectId) -> String {
    let mut hasher = Sha256::new();
    hasher.update("windlass downstream key\n");
    hasher.update(effect_id.as_str());
    json::hex(&hasher.finalize()[..16])
}

/// The key of one of several requests of an attempt.
pub(super) fn request_key(effect_id: &EffectId, request: &[u8; 32], number: u32) -> String {
    let mut hasher = Sha256::new();
    hasher.update("windlass downstream key of a request\n");
    hasher.update(request);
    hasher.update(number.to_be_bytes());
    hasher.update(effect_id.as_str());
    json::hex(&hasher.finalize()[..16])
}

/// The JSON form of a context.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextForm<'a> {
    client_id: &'a str,
    session_id: &'a str,
    user_id: &'a str,
    conversation_id: &'a str,
    mode: Mode,
    turn: u64,
    tool: ToolForm<'a>,
    session: SessionForm<'a>,
    capabilities: Capabilities,
    voice: Voice,
    effect_id: Option<&'a str>,
    /// The call has an effect, and still changes nothing: it may be stopped at any time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    idempotency_key: Option<String>,
    deadline: u64,
    time: LocalTime,
}

#[derive(Debug, Serialize)]
struct ToolForm<'a> {
    id: &'a str,
    version: &'a str,
    idempotent: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionForm<'a> {
    is_active: bool,
    tools_version: &'a str,
    state: StateForm<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StateForm<'a> {
    is_active: bool,
    mode: Mode,
    is_model_generating: bool,
    pending_end_voice_session: bool,
    #[serde(skip_serializing_if = "is_empty")]
    values: &'a BTreeMap<Arc<str>, Value>,
}

fn is_empty(values: &&BTreeMap<Arc<str>, Value>) -> bool {
    values.is_empty()
}

#[derive(Debug, Serialize)]
struct Capabilities {
    voice: bool,
    messaging: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Voice {
    is_active: bool,
}

impl<'a> ContextForm<'a> {
    pub fn of(context: &'a Context) -> Self {
        let Caller {
            client_id,
            session_id,
            user_id,
            conversation_id,
            rights: _,
        } = &context.caller;
        let SessionFacts {
            is_active,
            is_model_generating,
            pending_end_voice_session,
            values,
            input: _,
        } = &context.session;
        let mode = context.mode;
        let is_in_voice = mode == Mode::Voice || context.capabilities.is_in_voice(conversation_id);
        let effect_id = context.effect_id.as_ref();
        Self {
            client_id: client_id.as_str(),
            session_id: session_id.as_str(),
            user_id: user_id.as_str(),
            conversation_id: conversation_id.as_str(),
            mode,
            turn: context.turn,
            tool: ToolForm {
                id: context.tool.id.as_str(),
                version: &context.tool.version,
                idempotent: context.tool.idempotent,
            },
            session: SessionForm {
                is_active: *is_active,
                tools_version: &context.registry_version,
                state: StateForm {
                    is_active: *is_active,
                    mode,
                    is_model_generating: *is_model_generating,
                    pending_end_voice_session: *pending_end_voice_session,
                    values: values.all(),
                },
            },
            capabilities: Capabilities {
                voice: mode == Mode::Voice,
                messaging: context.can_send(),
            },
            voice: Voice {
                is_active: is_in_voice,
            },
            effect_id: effect_id.map(EffectId::as_str),
            read_only: effect_id.is_some() && !context.tool.writes,
            idempotency_key: effect_id.map(downstream_key),
            deadline: context.deadline_unix_ms,
            time: context.capabilities.local_time(),
        }
    }
}
