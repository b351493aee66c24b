//! `start_voice_session`: asks the client of a text conversation to continue in voice. The client opens the voice session, and the user
//! the microphone.

use crate::arguments::{read, require_active, said};
use crate::outcome::{Outcome, ready, report, without_effect};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};
use windlass_contract::id::EffectId;
use windlass_contract::kind::Mode;

pub(crate) struct Starter;

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    pending_request: Cow<'a, str>,
}

impl Handler for Starter {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        ready(start(&invocation))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["pending_request"],
            "properties": {"pending_request": {"type": "string"}},
        }))
    }
}

fn start(invocation: &Invocation) -> Outcome {
    let context = &invocation.context;
    require_active(context, "start a voice session")?;
    let conversation = &context.caller.conversation_id;
    if context.mode == Mode::Voice || context.capabilities.is_in_voice(conversation) {
        return Err(report(
            FailureKind::SessionActive,
            "the conversation is in voice already",
        ));
    }
    let arguments: Arguments<'_> = read(&invocation.arguments)?;
    let pending_request = said(&arguments.pending_request);
    // Only the client knows whether it has had this message before.
    let sent = context.send_message(json!({
        "type": "voice_session_start",
        "conversationId": context.caller.conversation_id.as_str(),
        "pendingRequest": pending_request,
        "effectId": context.effect_id.as_ref().map(EffectId::as_str),
    }));
    if sent.is_err() {
        return Err(without_effect(
            "the client is not ready for a voice session; try again in a moment",
        ));
    }
    // The request itself is the user's own words and stays out of the audit. The session starts without the line too.
    let _ = context.audit(
        "voice_session_start",
        json!({"hasPendingRequest": pending_request.is_some()}),
    );
    Ok(Success::new(json!({
        "conversation_id": context.caller.conversation_id.as_str(),
        "pending_request": pending_request,
    })))
}
