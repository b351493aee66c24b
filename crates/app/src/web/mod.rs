//! The server's answers over HTTP: the page, facts about the server, its health, its metrics, and the way to a voice session. Knows no
//! session from the inside.

pub(crate) mod access;
mod assets;
mod bodies;
mod callback;
pub(crate) mod cancel;
pub(crate) mod chat;
mod client;
pub(crate) mod completions;
mod connections;
pub(crate) mod conversations;
mod cors;
mod gate;
mod handovers;
pub(crate) mod hosts;
mod ledger;
pub(crate) mod listener;
mod mcp;
pub(crate) mod once;
mod openapi;
pub(crate) mod origin;
mod owner;
mod part;
pub(crate) mod patience;
pub(crate) mod peer;
mod pictures;
pub(crate) mod rare_line;
pub(crate) mod revoke;
mod tasks;
mod ui;
pub(crate) mod upgrade;
mod voice;

use crate::access::{Access, EndedClients, Means, Purpose};
use crate::chat::ChatHost;
use crate::chat::picture::PictureLimits;
use crate::connections::ConnectionDesk;
use crate::handovers::HandoverDesk;
use crate::knowledge::LiveKnowledge;
use crate::mcp::McpHost;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Extract};
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, patch, post};
use hosts::HostRule;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use origin::OriginRule;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_runtime::client_key::ClientKey;
use windlass_runtime::metrics::Metrics;
use windlass_runtime::shares::{Exceeded, Shares};
use windlass_runtime::voice::VoiceService;
use windlass_session::client::ErrorCode;

/// The state that all request handlers share.
pub(crate) struct ServerState {
    pub(crate) info: Info,
    pub(crate) host_rule: HostRule,
    pub(crate) origin_rule: OriginRule,
    pub(crate) access: Access,
    pub(crate) client_key: Arc<ClientKey>,
    pub(crate) ended_clients: EndedClients,
    pub(crate) knowledge: Arc<LiveKnowledge>,
    pub(crate) knowledge_folder: Arc<Path>,
    pub(crate) voice: Arc<VoiceService>,
    pub(crate) chat: Arc<ChatHost>,
    pub(crate) handovers: Arc<HandoverDesk>,
    /// The accounts that users have connected, where something can be connected.
    pub(crate) connections: Option<Arc<ConnectionDesk>>,
    pub(crate) mcp: Arc<McpHost>,
    /// Whether there is `/mcp`.
    pub(crate) serves_mcp: bool,
    /// Only programs of this machine can ask, and none has to sign in.
    pub(crate) is_local_alone: bool,
    /// Bytes of one request to a text endpoint.
    pub(crate) request_bytes_max: usize,
    pub(crate) picture_limits: PictureLimits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shares: Arc<Shares>,
    /// Answers to completions that may be asked for again.
    pub(crate) completions: once::Answers,
    pub(crate) draining: AtomicBool,
}

impl ServerState {
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// The chat, where there is a model for text.
    pub(crate) fn speaking_chat(&self) -> Option<&Arc<ChatHost>> {
        Some(&self.chat).filter(|chat| chat.has_model())
    }
}

/// The page's facts about the server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) model: String,
    /// Whether the model is rules without AI.
    pub(crate) demo: bool,
    pub(crate) suggestions: Vec<String>,
    pub(crate) text: TextInfo,
}

/// The model behind the chat.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TextInfo {
    pub(crate) provider: &'static str,
    pub(crate) model: String,
    /// Whether there is one.
    pub(crate) available: bool,
    /// Whether typed text is answered while no voice session runs. The demo model answers it where the project has tools for text
    /// alone; otherwise typed text begins a voice session, which shows more.
    pub(crate) typed: bool,
}

/// All routes. Other paths are looked up among the page's files.
pub(crate) fn router(state: Arc<ServerState>) -> Router {
    Router::new()
        .route("/voice", get(voice::connect))
        .route("/api/chat", post(chat::chat))
        .route("/api/confirm", post(chat::confirm))
        .route("/api/cancel", post(cancel::cancel))
        .route("/api/revoke", post(revoke::revoke))
        .route(
            "/api/chat/{id}/stream",
            get(conversations::stream).merge(delete(conversations::stop)),
        )
        .route("/api/conversations", get(conversations::list))
        .route(
            "/api/conversations/{id}",
            get(conversations::read)
                .merge(patch(conversations::rename))
                .merge(delete(conversations::delete)),
        )
        .route("/api/conversations/{id}/export", get(conversations::export))
        .route("/api/effects/{id}", get(ledger::effect))
        .route("/api/effects/{id}/result", post(callback::take))
        .route("/api/tasks", get(tasks::list))
        .route("/api/tasks/{id}", get(tasks::one))
        .route("/api/tasks/{id}/cancel", post(tasks::cancel))
        .route("/v1/chat/completions", post(completions::complete))
        .route("/v1/models", get(completions::models))
        .route(
            // A model's id may hold slashes.
            "/v1/models/{*id}",
            get(completions::model),
        )
        .route("/mcp", post(mcp::post).merge(delete(mcp::delete)))
        .route(
            "/mcp/approvals/{id}",
            get(mcp::show_approval).merge(post(mcp::answer_approval)),
        )
        .route(
            "/.well-known/oauth-protected-resource",
            get(mcp::resource_metadata),
        )
        .route(
            "/.well-known/oauth-protected-resource/mcp",
            get(mcp::resource_metadata),
        )
        .route(
            "/api/tickets",
            post(access::ticket).merge(get(handovers::list)),
        )
        .route("/api/tickets/{id}/reply", post(handovers::reply))
        .route(
            "/api/session",
            get(access::session)
                .post(access::begin_session)
                .merge(delete(access::end_session)),
        )
        .route("/auth/login", get(access::login))
        .route("/auth/callback", get(access::callback))
        .route("/api/connections", get(connections::list))
        .route("/api/connections/{id}", delete(connections::end))
        .route("/connections/start", get(connections::start))
        .route("/connections/callback/{id}", get(connections::callback))
        .route("/api/info", get(info))
        .route("/api/openapi.json", get(openapi::serve))
        .route("/health", get(health))
        .route("/healthz", get(health))
        .route("/ready", get(ready))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/tools/stats", get(tool_stats))
        .route("/assets/{id}", get(assets::serve))
        .route("/pictures/{digest}", get(pictures::serve))
        .fallback(ui::serve)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(state.clone(), gate::pass))
        .with_state(state)
}

/// A short answer in words.
fn line(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = typed("text/plain; charset=utf-8", format!("{text}\n"));
    *response.status_mut() = status;
    response
}

/// The answer to a client that has used up a share: by how much, and when to come back.
fn exceeded(exceeded: Exceeded) -> Response<Body> {
    let text = exceeded.to_string();
    let status = match exceeded.is_of_server() {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::TOO_MANY_REQUESTS,
    };
    let mut response = chat::error(status, "overloaded", &text);
    let seconds = exceeded.retry_after.as_secs_f64().ceil().max(1.0);
    let seconds = HeaderValue::from_str(&seconds.to_string());
    if let Ok(seconds) = seconds {
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

/// An answer that holds only for this moment.
fn typed(content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn info(Extract(state): Extract<Arc<ServerState>>, request: Request) -> Response<Body> {
    let (head, _) = request.into_parts();
    if let Err(no_caller) = client::known(&state, client::showing(&head, Purpose::Other)).await {
        return access::refused(&no_caller);
    }
    let body = serde_json::to_string(&state.info).expect("facts are plain JSON");
    typed("application/json", body)
}

async fn other_method() -> Response<Body> {
    chat::error(
        StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::BadMessage.as_str(),
        "this address does not know this method",
    )
}

async fn health() -> Response<Body> {
    line(StatusCode::OK, "up")
}

async fn ready(Extract(state): Extract<Arc<ServerState>>) -> Response<Body> {
    if state.is_draining() {
        line(StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else {
        line(StatusCode::OK, "ready")
    }
}

async fn metrics(Extract(state): Extract<Arc<ServerState>>, request: Request) -> Response<Body> {
    let (head, _) = request.into_parts();
    if let Some(refused) = refuses_counts(&state, &head).await {
        return refused;
    }
    if wants_prometheus(&head.headers) {
        typed(
            "text/plain; version=0.0.4; charset=utf-8",
            state.metrics.prometheus(),
        )
    } else {
        typed("application/json", state.metrics.json().to_string())
    }
}

async fn tool_stats(Extract(state): Extract<Arc<ServerState>>, request: Request) -> Response<Body> {
    let (head, _) = request.into_parts();
    if let Some(refused) = refuses_counts(&state, &head).await {
        return refused;
    }
    let mut query = head.uri.query().unwrap_or_default().split('&');
    let figures = match query.find_map(|pair| pair.strip_prefix("by=")) {
        None => state.metrics.tools_json(),
        Some("version") => state.metrics.versions_json(),
        Some(_) => {
            return chat::error(
                StatusCode::BAD_REQUEST,
                ErrorCode::BadMessage.as_str(),
                "the figures are told for each tool, or with by=version for each of its versions",
            );
        }
    };
    typed("application/json", figures.to_string())
}

/// Where callers sign in, the counts are for programs with a key: they cover every user's sessions.
async fn refuses_counts(state: &Arc<ServerState>, head: &Parts) -> Option<Response<Body>> {
    if !state.access.is_required {
        return None;
    }
    let identified = state.access.identify(client::showing(head, Purpose::Other));
    match identified.await {
        Ok(Some(known)) if known.means == Means::Key => None,
        Ok(_) => Some(chat::error(
            StatusCode::FORBIDDEN,
            "forbidden",
            "metrics are for API keys",
        )),
        Err(problem) => Some(access::refused(&client::NoCaller::Refused(problem))),
    }
}

/// JSON is for requests that name no type, or any.
fn wants_prometheus(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|media_type| media_type.split(';').next().unwrap_or_default().trim())
        .any(|media_type| matches!(media_type, "text/plain" | "application/openmetrics-text"))
}
