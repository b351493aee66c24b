//! `POST /api/effects/{id}/result`: the service that has accepted a change tells how it ended. It shows no key: its message is signed
//! with the secret of the tool's webhook. Knows no rule about effects.

use super::bodies::{self, Unread};
use super::chat::error;
use super::peer::Peer;
use super::{ServerState, exceeded, typed};
use crate::capabilities::SharedCapabilities;
use crate::chat::owner::ConversationOwner;
use crate::chat::request;
use axum::body::Body;
use axum::extract::{Path, Request, State as Extract};
use http::{HeaderMap, Response, StatusCode};
use serde_json::json;
use std::fmt::Display;
use std::sync::Arc;
use tokio::task::JoinError;
use windlass_contract::handler::{Callback, CallbackRefused, HandlerResult, may_hold_pictures};
use windlass_contract::id::{ClientId, EffectId};
use windlass_contract::intent::Intent;
use windlass_contract::kind::Mode;
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::rights::Rights;
use windlass_runtime::intent_log::tell_apart;
use windlass_runtime::result_pictures::keep_pictures;
use windlass_runtime::shares::{Held, Party};
use windlass_runtime::subscriber::SessionIdentity;
use windlass_runtime::text::Past;
use windlass_session::{CallbackFacts, called_back, keeps_values};
use windlass_store::command::{Command, Reply};
use windlass_store::{Batch, ConversationRef, Effect, EffectState};

/// The names of Standard Webhooks.
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
    // The service must belong to the version of the tool that ran.
    let tool = registry.of_record(effect.tool.as_str(), &effect.tool_version);
    let Some(tool) = tool else {
        return unknown();
    };
    match read(tool, &effect, &head.headers, &body) {
        Ok(result) => match with_kept_pictures(result, &state.chat.capabilities).await {
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

/// The same result, with its pictures kept as files.
async fn with_kept_pictures(
    result: HandlerResult,
    capabilities: &SharedCapabilities,
) -> Result<HandlerResult, JoinError> {
    let mut success = match result {
        Ok(success) if may_hold_pictures(&success) => success,
        other => return Ok(other),
    };
    let capabilities = capabilities.clone();
    let keeping = tokio::task::spawn_blocking(move || {
        keep_pictures(&mut success, &capabilities);
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
    registry: &Arc<Registry>,
    tool: &Arc<Tool>,
    (conversation, effect): (ConversationRef, Effect),
    result: HandlerResult,
) -> Response<Body> {
    let log = match keeps_values(intents_of(&result)) {
        true => Past::log_of(state.chat.ledger(), &conversation),
        false => Ok(Vec::new()),
    };
    let log = match log {
        Ok(log) => log,
        Err(problem) => return unavailable(&problem),
    };
    let now_unix_ms = crate::clock::now_unix_ms();
    let facts = CallbackFacts {
        effect: &effect,
        tool,
        registry,
        limits: &state.chat.limits,
        log: &log,
        now_unix_ms,
    };
    let (called_back, problem, events) = called_back(&facts, result);
    if let Some(problem) = problem {
        tracing::warn!(tool = %tool.id, %problem, "what a service called back with is not as declared");
    }
    let leg = asker_of(&effect, &conversation);
    let replies = state.chat.ledger().apply(Batch {
        conversation,
        commands: vec![Command::CalledBack(Box::new(called_back))],
    });
    match replies.await.map(|mut replies| replies.pop()) {
        Ok(Some(Reply::Recorded(effect))) => {
            tell_apart(&state.chat.shared.subscribers, &leg, now_unix_ms, &events);
            told_to(&effect, true)
        }
        Ok(Some(Reply::TooLate(effect))) if effect.state == EffectState::Unknown => error(
            StatusCode::GONE,
            "too_late",
            "the time that the service took is over; the change counts as unknown, and this message changes nothing",
        ),
        // The result was given before, and need not be sent again.
        Ok(Some(Reply::TooLate(effect))) => told_to(&effect, false),
        Ok(_) => unknown(),
        Err(problem) => unavailable(&problem),
    }
}

/// The session that made the call, which may be over.
fn asker_of(effect: &Effect, conversation: &ConversationRef) -> SessionIdentity {
    SessionIdentity {
        client_id: ClientId::new("callback"),
        session_id: effect.leg.clone(),
        tenant: conversation.tenant.clone(),
        user_id: ConversationOwner::of(&conversation.user_id).user_id,
        rights: Rights::Anonymous,
        conversation_id: conversation.conversation_id.clone(),
        mode: Mode::Text,
        ledger: Some(conversation.clone()),
    }
}

fn intents_of(result: &HandlerResult) -> &[Intent] {
    match result {
        Ok(success) => &success.intents,
        Err(failure) => &failure.intents,
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
