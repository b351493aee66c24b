//! What the tests of effects and grants begin with.

use windlass_store::{
    Hash, Outcome, OutcomeState, Proposal, Reserve, Store, StoreUnavailable, Transaction,
};
use windlass_tool::id::{ConversationId, EffectId, ToolId, UserId};
use windlass_tool::sensitive::Sensitive;

pub(crate) const HOUR_MS: u64 = 60 * 60 * 1_000;

/// One request in a transaction of its own.
pub(crate) fn ask<T>(
    store: &dyn Store,
    request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable>,
) -> T {
    store.ask(request).unwrap()
}

/// Stands for the SHA-256 of a text: different for different texts.
pub(crate) fn hash(text: &str) -> Hash {
    let mut hash = [0; 32];
    for (byte, place) in text.bytes().zip(&mut hash) {
        *place = byte;
    }
    hash
}

pub(crate) fn tool(id: &str) -> ToolId {
    ToolId::parse(id).unwrap()
}

/// A wish of alice's; `wish` tells it from her other ones.
pub(crate) fn reserve(effect: &str, wish: &str, now_unix_ms: u64) -> Reserve {
    Reserve {
        effect_id: EffectId::new(effect),
        conversation_id: ConversationId::new("conversation"),
        user_id: UserId::new("alice"),
        tool: tool("calendar_create_event"),
        tool_version: "1.0.0".to_owned(),
        fingerprint: hash(wish),
        grant: None,
        read_by_none_but: None,
        intent: Sensitive(format!("{{\"effectId\":\"{effect}\"}}")),
        now_unix_ms,
    }
}

/// The question whether a reservation may be made; it runs out 300 seconds later.
pub(crate) fn proposal(token: &str, request: &Reserve) -> Proposal {
    Proposal {
        token_hash: hash(token),
        effect_id: request.effect_id.clone(),
        conversation_id: request.conversation_id.clone(),
        user_id: request.user_id.clone(),
        tool: request.tool.clone(),
        tool_version: request.tool_version.clone(),
        fingerprint: request.fingerprint,
        arguments: Sensitive("{\"title\":\"Lunch\"}".to_owned()),
        preview: Sensitive("Create Lunch".to_owned()),
        says_unknown: false,
        expires_at_unix_ms: request.now_unix_ms + 300_000,
        now_unix_ms: request.now_unix_ms,
    }
}

/// The same for an effect that may have happened, as the user is told.
pub(crate) fn warned(token: &str, request: &Reserve) -> Proposal {
    Proposal {
        says_unknown: true,
        ..proposal(token, request)
    }
}

pub(crate) fn outcome(effect: &str, state: OutcomeState) -> Outcome {
    Outcome {
        effect_id: EffectId::new(effect),
        state,
        response: Some(Sensitive("{\"ok\":true}".to_owned())),
        now_unix_ms: 3_000,
    }
}
