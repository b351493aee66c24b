//! `GET /api/conversations/{id}` and `GET /api/effects/{id}`: what the ledger has, for the clients whose it is. Knows statuses and
//! query parameters; what is shown is the chat's.

use super::chat::{Entrance, error, refused};
use super::{ServerState, typed};
use crate::chat::{ChatRefusal, request};
use axum::body::Body;
use axum::extract::{Path, Query, Request, State as Extract};
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use windlass_store::EntryNumber;
use windlass_tool::id::{ConversationId, EffectId};

#[derive(Deserialize)]
pub(super) struct Behind {
    #[serde(default)]
    after: u64,
    /// The user for whom a program speaks that vouches for users.
    #[serde(default, rename = "userId")]
    user_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Within {
    #[serde(default)]
    conversation_id: Option<String>,
    #[serde(default)]
    user_id: Option<String>,
}

/// What was said and done in a conversation.
pub(super) async fn conversation(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    behind: Result<Query<Behind>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Response<Body> {
    let entrance = match Entrance::of(&state, request).await {
        Ok(entrance) => entrance,
        Err(refused) => return refused,
    };
    let shown = match (behind, request::check_id(&id)) {
        (Ok(Query(behind)), Ok(())) => {
            let id = ConversationId::new(id);
            let after = EntryNumber(behind.after);
            let caller = entrance.caller.speaking_for(behind.user_id.as_deref());
            state.chat.conversation(&caller, &id, after).await
        }
        (Err(_), _) => {
            let problem = "after must be the number of an entry";
            let refusal = error(StatusCode::BAD_REQUEST, "bad_message", problem);
            return entrance.finish(refusal);
        }
        (_, Err(_)) => Err(ChatRefusal::Unknown),
    };
    let response = answered(
        shown,
        "unknown_conversation",
        "there is no such conversation",
    );
    entrance.finish(response)
}

/// What became of an effect.
pub(super) async fn effect(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    within: Result<Query<Within>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Response<Body> {
    let entrance = match Entrance::of(&state, request).await {
        Ok(entrance) => entrance,
        Err(refused) => return refused,
    };
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

fn answered(
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
