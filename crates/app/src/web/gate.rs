//! The gate that every request passes before a route sees it: the host that it names, the origin of the page that sends it, and the
//! headers that every answer carries. Knows no route.

use super::chat::error;
use super::peer::Peer;
use super::rare_line::RareLine;
use super::{ServerState, cors};
use axum::body::Body;
use axum::extract::{Request, State as Extract};
use axum::middleware::Next;
use http::header::{
    CONTENT_SECURITY_POLICY, Entry, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use std::sync::Arc;
use windlass_runtime::shares::{Party, Used};

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// An answer that is no page loads nothing and is shown in no frame.
const NO_PAGE: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Characters of a stranger's header that a line of the log shows.
const SHOWN_CHARACTERS_MAX: usize = 100;

static MISDIRECTED: RareLine = RareLine::new();
static FOREIGN: RareLine = RareLine::new();
static CROWDED: RareLine = RareLine::new();

/// The name under which the request reached this server, in the extensions of each.
#[derive(Clone)]
pub(super) struct ServedHost(pub(super) Authority);

/// Lets a request in, or refuses it with a text that its page can read.
pub(super) async fn pass(
    Extract(state): Extract<Arc<ServerState>>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let origin = request.headers().get(ORIGIN).cloned();
    let mut response = match judge(&state, &request) {
        // Every preflight is answered: a refused page can read the refusal of its request, but none of a preflight.
        _ if cors::is_preflight(&request) => cors::preflight(request.headers()),
        Ok(host) => {
            request.extensions_mut().insert(ServedHost(host));
            next.run(request).await
        }
        Err(refused) => *refused,
    };
    if let Some(origin) = origin {
        cors::share(origin, response.headers_mut());
    }
    let is_shared = !state.origin_rule.allowed.is_empty();
    secure(response.headers_mut(), is_shared);
    response
}

fn judge(state: &ServerState, request: &Request) -> Result<Authority, Box<Response<Body>>> {
    let headers = request.headers();
    let host = state
        .host_rule
        .check(headers, request.uri())
        .map_err(|refused| {
            if let Some(left_out) = MISDIRECTED.due() {
                let host = shown(headers, &HOST);
                tracing::warn!(host, left_out, "a request was refused: {refused}");
            }
            let status = StatusCode::MISDIRECTED_REQUEST;
            Box::new(error(status, "foreign_host", &refused.to_string()))
        })?;
    if let Some(Peer(address)) = request.extensions().get() {
        let party = [Party::address(*address)];
        let charged = state.shares.take(&party, Used::Requests, 1);
        charged.map_err(|exceeded| {
            if let Some(left_out) = CROWDED.due() {
                tracing::warn!(%address, left_out, "requests are refused: {exceeded}");
            }
            Box::new(super::exceeded(exceeded))
        })?;
    }
    if !headers.contains_key(ORIGIN) {
        // No browser lets a page of another server send such a request with more than it could do by a link.
        return Ok(host);
    }
    if let Err(refused) = state.origin_rule.check(headers) {
        if let Some(left_out) = FOREIGN.due() {
            let origin = shown(headers, &ORIGIN);
            tracing::warn!(origin, left_out, "a request was refused: {refused}");
        }
        let problem = refused.to_string();
        let refusal = error(StatusCode::FORBIDDEN, "foreign_origin", &problem);
        return Err(Box::new(refusal));
    }
    Ok(host)
}

/// `is_shared` says that pages of other origins may show this server's pictures.
fn secure(headers: &mut HeaderMap, is_shared: bool) {
    let shared = if is_shared {
        "cross-origin"
    } else {
        "same-origin"
    };
    for (name, value) in [
        // No browser is to guess at a type.
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, shared),
        (
            PERMISSIONS_POLICY,
            "camera=(), geolocation=(), microphone=(self)",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Entry::Vacant(policy) = headers.entry(CONTENT_SECURITY_POLICY) {
        policy.insert(HeaderValue::from_static(NO_PAGE));
    }
}

/// A stranger's header, escaped and cut for a line of the log.
fn shown(headers: &HeaderMap, name: &HeaderName) -> String {
    let value = headers.get(name).map_or(&b""[..], HeaderValue::as_bytes);
    let text = String::from_utf8_lossy(value);
    let start: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    start.escape_debug().to_string()
}
