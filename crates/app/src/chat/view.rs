//! The states of effects, and waiting approval requests, for their client. Knows the JSON of these answers, and no session.

use super::owner::ConversationOwner;
use super::standing::ToldWithRequest;
use super::{ChatHost, ChatRefusal, unavailable};
use serde_json::{Value, json};
use windlass_contract::envelope::rfc3339;
use windlass_contract::id::{CallNumber, EffectId};
use windlass_runtime::caller::Caller;
use windlass_runtime::client_protocol::offer_json;
use windlass_session::client::{input, warning};
use windlass_store::command::OpenQuestion;
use windlass_store::{ConversationRef, Effect, EffectState};

impl ChatHost {
    /// The state of an effect of one of the caller's conversations. For all other callers the effect does not exist.
    pub(crate) fn effect(
        &self,
        caller: &Caller,
        effect_id: &EffectId,
        conversation: Option<&str>,
    ) -> Result<Value, ChatRefusal> {
        let store = self.conversations.store();
        let found = store
            .effect(&caller.tenant, effect_id)
            .map_err(unavailable)?;
        let (reference, effect) = found.ok_or(ChatRefusal::Unknown)?;
        let whose = ConversationOwner::of(&reference.user_id);
        let admitted = whose.admits(caller, None);
        if admitted.is_err() || !knows(&whose, &reference, conversation) {
            return Err(ChatRefusal::Unknown);
        }
        Ok(effect_json(&effect))
    }
}

/// Whether the caller shows that it knows the conversation, where that knowledge makes the conversation its own.
pub(super) fn knows(
    whose: &ConversationOwner,
    reference: &ConversationRef,
    named: Option<&str>,
) -> bool {
    let id = reference.conversation_id.as_str();
    match named {
        Some(named) => named == id,
        None => whose.owner.is_some(),
    }
}

/// An approval request that waits, for its client.
pub(super) fn question_json(
    asked: &OpenQuestion,
    shows_token: bool,
    told: ToldWithRequest,
) -> Value {
    let question = &asked.question;
    let arguments = serde_json::from_str::<Value>(question.arguments.expose());
    let preview = question.preview.expose();
    let mut fields = json!({
        "callId": CallNumber(question.call).to_string(),
        "tool": question.tool.as_str(),
        "args": arguments.unwrap_or_default(),
        "preview": (!preview.is_empty()).then_some(preview),
        "expiresAt": rfc3339(question.expires_at_unix_ms),
        "mode": question.mode.as_str(),
    });
    if shows_token {
        fields["token"] = asked.token.text().expose().as_str().into();
    }
    if let Some(warning) = warning(question) {
        fields["warning"] = warning.into();
    }
    if let Some(because) = told.because {
        fields["because"] = because.into();
    }
    if let Some(offer) = &told.remember {
        fields["remember"] = offer_json(offer);
    }
    if let Some(input) = input(question) {
        fields["input"] = input.into_inner();
    }
    fields
}

fn effect_json(effect: &Effect) -> Value {
    let state = match effect.state {
        EffectState::Running => "running",
        EffectState::Done => "done",
        EffectState::NotDone => "not_done",
        EffectState::Unknown => "unknown",
    };
    let mut fields = json!({
        "effectId": effect.effect_id.as_str(),
        "tool": effect.tool.as_str(),
        "state": state,
        "beganAt": rfc3339(effect.begun_at_unix_ms),
        "changedAt": rfc3339(effect.changed_at_unix_ms),
        "attempts": effect.attempts.len(),
    });
    let receipt = effect.receipt.as_ref();
    if let Some(receipt) = receipt.and_then(|text| serde_json::from_str(text.expose()).ok()) {
        let receipt: Value = receipt;
        fields["receipt"] = receipt;
    }
    fields
}
