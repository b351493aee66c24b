//! `POST /api/effects/{id}/result`: the service that has accepted a change tells how it ended. It shows no key: its message is signed
//! with the secret of the tool's webhook. Knows no rule about effects.

use super::bodies::{self, Unread};
use super::chat::error;
use super::peer::Peer;
use super::{ServerState, exceeded, typed};
use crate::chat::request;
use crate::world::SharedWorld;
use axum::body::Body;
use axum::extract::{Path, Request, State as Extract};
use http::{HeaderMap, Response, StatusCode};
use serde_json::json;
use std::fmt::Display;
use std::sync::Arc;
use tokio::task::JoinError;
use windlass_runtime::result_pictures::keep_pictures;
use windlass_runtime::shares::{Held, Party};
use windlass_session::called_back;
use windlass_store::command::{Command, Reply};
use windlass_store::{Batch, ConversationRef, Effect, EffectState};
use windlass_tool::handler::{Callback, CallbackRefused, HandlerResult, may_hold_pictures};
use windlass_tool::id::EffectId;
use windlass_tool::kind::Mode;
use windlass_tool::registry::{Registry, Tool};

/// As Standard Webhooks names them.
const SIGNATURE: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

pub(super) async fn take(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let parties = head
        .extensions
        .get()
        .map(|Peer(address)| Party::address(*address));
    let mut holding = match parties {
        Some(party) => match state.shares.hold(&[party], Held::BodyBytes, 0) {
            Ok(holding) => Some(holding),
            Err(share) => return exceeded(share),
        },
        None => None,
    };
    let body = match bodies::read(body, state.request_bytes_max, &mut holding).await {
        Ok(body) => body,
        Err(Unread::Exceeded(share)) => return exceeded(share),
        Err(unread) => {
            return error(StatusCode::BAD_REQUEST, "bad_message", &unread.to_string());
        }
    };
    let found = match request::check_id(&id) {
        Ok(()) => state
            .chat
            .ledger()
            .store()
            .effect_of_any(&EffectId::new(id)),
        Err(_) => Ok(None),
    };
    let (conversation, effect) = match found {
        Ok(Some(found)) => found,
        Ok(None) => return unknown(),
        Err(problem) => return unavailable(&problem),
    };
    let registry = state
        .chat
        .toolbox
        .load()
        .of(Mode::Text)
        .all()
        .registry
        .clone();
    // The service of the version that ran is the one that calls back.
    let tool = registry.of_record(effect.tool.as_str(), &effect.tool_version);
    let Some(tool) = tool else {
        return unknown();
    };
    match read(tool, &effect, &head.headers, &body) {
        Ok(result) => match with_kept_pictures(result, &state.chat.world).await {
            Ok(result) => record(&state, &registry, tool, (conversation, effect), result).await,
            Err(problem) => unavailable(&problem),
        },
        Err(CallbackRefused::Unsigned(problem)) => {
            tracing::warn!(tool = %tool.id, %problem, "a callback was not believed");
            error(StatusCode::UNAUTHORIZED, "unauthorized", &problem)
        }
        Err(CallbackRefused::Unfit(problem)) => {
            error(StatusCode::BAD_REQUEST, "bad_message", &problem)
        }
    }
}

/// The same result, whose pictures are files from here on.
async fn with_kept_pictures(
    result: HandlerResult,
    world: &SharedWorld,
) -> Result<HandlerResult, JoinError> {
    let mut success = match result {
        Ok(success) if may_hold_pictures(&success) => success,
        other => return Ok(other),
    };
    let world = world.clone();
    let keeping = tokio::task::spawn_blocking(move || {
        keep_pictures(&mut success, &world);
        success
    });
    keeping.await.map(Ok)
}

/// The message, if it is of the tool's service and about this effect.
fn read(
    tool: &Tool,
    effect: &Effect,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<HandlerResult, CallbackRefused> {
    let Some(callbacks) = tool.handler.callbacks() else {
        let problem = format!("{} takes no callbacks", tool.id);
        return Err(CallbackRefused::Unfit(problem));
    };
    let signature = SIGNATURE.map(|name| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    });
    callbacks.read(
        &effect.effect_id,
        &Callback {
            signature,
            body,
            now_unix_ms: crate::clock::now_unix_ms(),
        },
    )
}

async fn record(
    state: &ServerState,
    registry: &Registry,
    tool: &Arc<Tool>,
    (conversation, effect): (ConversationRef, Effect),
    result: HandlerResult,
) -> Response<Body> {
    let told = (result, crate::clock::now_unix_ms());
    let version = registry.version().clone();
    let (called_back, problem) = called_back(&effect, tool, version, told);
    if let Some(problem) = problem {
        tracing::warn!(tool = %tool.id, %problem, "what a service called back with is not as declared");
    }
    let replies = state.chat.ledger().apply(Batch {
        conversation,
        commands: vec![Command::CalledBack(Box::new(called_back))],
    });
    match replies.await.map(|mut replies| replies.pop()) {
        Ok(Some(Reply::Recorded(effect))) => told_to(&effect, true),
        Ok(Some(Reply::TooLate(effect))) if effect.state == EffectState::Unknown => error(
            StatusCode::GONE,
            "too_late",
            "the time that the service took is over; the change counts as unknown, and this message changes nothing",
        ),
        // It was told before, and need not be sent again.
        Ok(Some(Reply::TooLate(effect))) => told_to(&effect, false),
        Ok(_) => unknown(),
        Err(problem) => unavailable(&problem),
    }
}

fn told_to(effect: &Effect, is_recorded: bool) -> Response<Body> {
    let told = json!({
        "effectId": effect.effect_id,
        "state": effect.state,
        "recorded": is_recorded,
    });
    typed("application/json", told.to_string())
}

fn unknown() -> Response<Body> {
    error(
        StatusCode::NOT_FOUND,
        "unknown_effect",
        "there is no such effect",
    )
}

fn unavailable(problem: &dyn Display) -> Response<Body> {
    tracing::error!(%problem, "a callback cannot be recorded");
    error(
        StatusCode::SERVICE_UNAVAILABLE,
        "unavailable",
        "the result cannot be stored now; send it again",
    )
}
