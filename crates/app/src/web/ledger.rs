//! `GET /api/effects/{id}`: the state of an effect, for the client that owns it. Knows statuses and query parameters; the chat has the
//! content.

use super::chat::{Entrance, error, refused};
use super::{ServerState, typed};
use crate::chat::{ChatRefusal, request};
use axum::body::Body;
use axum::extract::{Path, Query, State as Extract};
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use windlass_contract::id::EffectId;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Within {
    #[serde(default)]
    conversation_id: Option<String>,
    #[serde(default)]
    user_id: Option<String>,
}

/// `GET` of an effect: its state.
pub(super) async fn effect(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    within: Result<Query<Within>, axum::extract::rejection::QueryRejection>,
    entrance: Entrance,
) -> Response<Body> {
    let within = within.map(|Query(within)| within).unwrap_or_default();
    let conversation = within.conversation_id;
    let caller = entrance.caller.speaking_for(within.user_id.as_deref());
    let shown = match request::check_id(&id) {
        Ok(()) => {
            let id = EffectId::new(id);
            state.chat.effect(&caller, &id, conversation.as_deref())
        }
        Err(_) => Err(ChatRefusal::Unknown),
    };
    let response = answered(shown, "unknown_effect", "there is no such effect");
    entrance.finish(response)
}

/// The answer with the shown value, or with the refusal.
pub(super) fn answered(
    shown: Result<Value, ChatRefusal>,
    unknown: &'static str,
    problem: &str,
) -> Response<Body> {
    match shown {
        Ok(shown) => typed("application/json", shown.to_string()),
        Err(ChatRefusal::Unknown) => error(StatusCode::NOT_FOUND, unknown, problem),
        Err(refusal) => refused(&refusal),
    }
}
