//! Signing in over HTTP: `POST /api/tickets`, `/api/session` for the page, and the way to the OpenID provider and back. Knows
//! bodies, statuses and cookies; who may come in is decided elsewhere.

use super::chat::error;
use super::client::{self, NoCaller, showing};
use super::voice::later;
use super::{ServerState, line, origin, typed};
use crate::access::oidc::{Returned, SIGN_IN_COOKIE, no_way_cookie};
use crate::access::{
    Grant, GrantedName, Identified, Means, PAGE_COOKIE, Purpose, Refused, Showing, TicketTerms,
    cookies, is_user_name, no_page_cookie,
};
use crate::clock::{self, UserZone};
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State as Extract};
use http::header::{AUTHORIZATION, HOST, LOCATION, ORIGIN, SET_COOKIE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_contract::envelope::rfc3339;
use windlass_contract::kind::Mode;
use windlass_contract::rights::Role;
use windlass_session::client::ErrorCode;

/// Bytes of a body here.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Why a caller does not come in, as a status, a code and words.
pub(super) fn refusal(no_caller: &NoCaller) -> (StatusCode, &'static str, String) {
    match no_caller {
        NoCaller::Refused(refused @ (Refused::Missing | Refused::Invalid(_))) => (
            StatusCode::UNAUTHORIZED,
            ErrorCode::Unauthorized.as_str(),
            refused.to_string(),
        ),
        NoCaller::Refused(refused @ Refused::Unavailable(_)) => (
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::Overloaded.as_str(),
            refused.to_string(),
        ),
        NoCaller::Broken(problem) => {
            tracing::error!(%problem, "no client id could be minted");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                ErrorCode::Internal.as_str(),
                "the server cannot tell clients apart now".to_owned(),
            )
        }
    }
}

/// The same as a whole answer.
pub(super) fn refused(no_caller: &NoCaller) -> Response<Body> {
    let (status, code, message) = refusal(no_caller);
    hinted(error(status, code, &message))
}

/// Adds the headers that a refusal needs.
pub(super) fn hinted(mut response: Response<Body>) -> Response<Body> {
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            let scheme = HeaderValue::from_static("Bearer realm=\"windlass\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            response
        }
        StatusCode::SERVICE_UNAVAILABLE => later(response),
        _ => response,
    }
}

/// The request for a ticket.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TicketRequest {
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    roles: Option<BTreeSet<Role>>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    origin: Option<String>,
    #[serde(default, rename = "timeZone")]
    time_zone: Option<String>,
}

/// Whether a body asks for a ticket.
pub(crate) fn understands_wish(body: &[u8]) -> bool {
    crate::body::object::<TicketRequest>(body).is_ok()
}

/// `POST /api/tickets`: a ticket for a browser.
pub(super) async fn ticket(
    Extract(state): Extract<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    match give_ticket(&state, request).await {
        Ok(response) | Err(response) => response,
    }
}

async fn give_ticket(
    state: &ServerState,
    request: Request,
) -> Result<Response<Body>, Response<Body>> {
    let (head, body) = request.into_parts();
    check_origin(state, &head.headers).map_err(foreign)?;
    let identified = identified(state, showing(&head, Purpose::Other)).await?;
    let refuse = |problem: &str| error(StatusCode::FORBIDDEN, "forbidden", problem);
    let Some(Identified { proven, means, key }) = identified else {
        return Err(refused(&NoCaller::Refused(Refused::Missing)));
    };
    if matches!(means, Means::Ticket | Means::Page) {
        return Err(refuse(
            "a ticket is given for an API key, for a token, or through a proxy",
        ));
    }
    let body = to_bytes(body, BODY_BYTES_MAX).await.unwrap_or_default();
    let wanted = match body.is_empty() {
        true => Ok(TicketRequest::default()),
        false => crate::body::object::<TicketRequest>(&body),
    };
    let wanted = wanted.map_err(|problem| {
        let problem = format!("the body asks for no ticket: {problem}");
        error(StatusCode::BAD_REQUEST, "bad_message", &problem)
    })?;
    let mut grant = Grant::of(&proven, key);
    if let Some(user) = wanted.user {
        if !is_user_name(&user) {
            let problem = "user must be a name of 1 to 128 printable characters";
            return Err(error(StatusCode::BAD_REQUEST, "bad_message", problem));
        }
        match &grant.name {
            GrantedName::User(own) if *own != user => {
                return Err(refuse("this key or token speaks for another user alone"));
            }
            GrantedName::User(_) | GrantedName::Program(_) => grant.name = GrantedName::User(user),
        }
    }
    if let Some(roles) = wanted.roles {
        if !roles.is_subset(&proven.roles) {
            return Err(refuse("a ticket has no role that its key or token has not"));
        }
        grant.roles = roles.into_iter().collect();
    }
    if let Some(name) = wanted.time_zone {
        let zone = UserZone::parse(&name).map_err(|problem| {
            let problem = format!("timeZone: {problem}");
            error(StatusCode::BAD_REQUEST, "bad_message", &problem)
        })?;
        grant.zone = zone.map(|zone| zone.name().into());
    }
    let terms = TicketTerms {
        mode: wanted.mode,
        origin: wanted.origin.map(|origin| origin.to_ascii_lowercase()),
    };
    let now_unix_ms = clock::now_unix_ms();
    let issued = state.access.tickets.issue(grant, terms, now_unix_ms);
    let (ticket, expires_unix_ms) =
        issued.map_err(|problem| refused(&NoCaller::Broken(problem)))?;
    let answer = json!({
        "ticket": ticket,
        "expiresAt": rfc3339(expires_unix_ms),
        "expiresInSeconds": expires_unix_ms.saturating_sub(now_unix_ms) / 1_000,
    });
    Ok(typed("application/json", answer.to_string()))
}

/// `GET /api/session`: whether the page has to sign in, and how it can.
pub(super) async fn session(
    Extract(state): Extract<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let (head, _) = request.into_parts();
    let identified = state.access.identify(showing(&head, Purpose::Page)).await;
    let oidc = state.access.oidc.as_ref();
    let identified = identified.ok().flatten();
    let answer = json!({
        "required": state.access.is_required,
        "signedIn": identified.is_some(),
        "canSignOut": identified.is_some_and(|known| known.means == Means::Page),
        "signInAt": oidc.filter(|oidc| oidc.offers_sign_in()).map(|_| "auth/login"),
    });
    typed("application/json", answer.to_string())
}

/// `POST /api/session`: signs the page's browser in, for a ticket, a key or a token in `Authorization`.
pub(super) async fn begin_session(
    Extract(state): Extract<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let (head, _) = request.into_parts();
    match signed_in(&state, showing(&head, Purpose::Page)).await {
        Ok(response) | Err(response) => response,
    }
}

async fn signed_in(
    state: &ServerState,
    showing: Showing<'_>,
) -> Result<Response<Body>, Response<Body>> {
    let is_secure = check_origin(state, showing.headers).map_err(foreign)?;
    let shows = showing.headers.contains_key(AUTHORIZATION);
    let identified = identified(state, showing).await?.filter(|_| shows);
    let Some(Identified { proven, key, .. }) = identified else {
        return Err(refused(&NoCaller::Refused(Refused::Missing)));
    };
    let grant = Grant::of(&proven, key);
    let cookie = state
        .access
        .pages
        .cookie(grant, is_secure, clock::now_unix_ms());
    let mut response = line(StatusCode::OK, "signed in");
    set_cookie(&mut response, &cookie);
    Ok(response)
}

/// `DELETE /api/session`: signs it out, and ends the id that the server gave to an anonymous client.
pub(super) async fn end_session(
    Extract(state): Extract<Arc<ServerState>>,
    headers: HeaderMap,
) -> Response<Body> {
    if let Err(refused) = check_origin(&state, &headers) {
        return foreign(refused);
    }
    let now_unix_ms = clock::now_unix_ms();
    for shown in cookies(&headers, PAGE_COOKIE) {
        if let Err(problem) = state.access.pages.end(shown, now_unix_ms) {
            tracing::error!(%problem, "a browser could not be signed out");
            let problem = "the server cannot sign out now; try again later";
            return later(error(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::Overloaded.as_str(),
                problem,
            ));
        }
    }
    let no_client = client::end(&state, &headers);
    let mut response = match &no_client {
        Ok(_) => line(StatusCode::OK, "signed out"),
        Err(problem) => {
            tracing::error!(%problem, "a client could not be ended");
            let problem = "the server cannot end this client now";
            let code = ErrorCode::Internal.as_str();
            error(StatusCode::INTERNAL_SERVER_ERROR, code, problem)
        }
    };
    set_cookie(&mut response, &no_page_cookie());
    if let Ok(no_cookie) = no_client {
        response.headers_mut().append(SET_COOKIE, no_cookie);
    }
    response
}

/// `GET /auth/login`: sends the browser to the provider.
pub(super) async fn login(
    Extract(state): Extract<Arc<ServerState>>,
    headers: HeaderMap,
) -> Response<Body> {
    let Some(oidc) = &state.access.oidc else {
        return line(StatusCode::NOT_FOUND, "there is no such page here");
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let begun = oidc.begin_sign_in(&state.client_key, host, clock::now_unix_ms());
    match begun.await {
        Ok((address, cookie)) => to(&address, &cookie),
        Err(problem) => {
            tracing::error!(%problem, "nobody can sign in at the provider");
            to("/#sign-in-failed", &no_way_cookie())
        }
    }
}

/// `GET /auth/callback`: the browser comes back.
pub(super) async fn callback(
    Extract(state): Extract<Arc<ServerState>>,
    returned: Result<Query<Returned>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Response<Body> {
    let Some(oidc) = &state.access.oidc else {
        return line(StatusCode::NOT_FOUND, "there is no such page here");
    };
    let returned = returned.map(|Query(returned)| returned).unwrap_or_default();
    let shown = cookies(&headers, SIGN_IN_COOKIE);
    let now_unix_ms = clock::now_unix_ms();
    let ended = oidc.end_sign_in(&state.client_key, shown, &returned, now_unix_ms);
    match ended.await {
        Ok((proven, is_secure)) => {
            let grant = Grant::of(&proven, None);
            let mut response = to("/", &no_way_cookie());
            let cookie = state.access.pages.cookie(grant, is_secure, now_unix_ms);
            set_cookie(&mut response, &cookie);
            response
        }
        Err(problem) => {
            tracing::warn!(%problem, "a browser could not be signed in");
            to("/#sign-in-failed", &no_way_cookie())
        }
    }
}

fn to(address: &str, cookie: &str) -> Response<Body> {
    let Ok(address) = HeaderValue::from_str(address) else {
        return line(
            StatusCode::BAD_GATEWAY,
            "the provider's address cannot be gone to",
        );
    };
    let mut response = line(StatusCode::SEE_OTHER, "go on at another address");
    response.headers_mut().insert(LOCATION, address);
    set_cookie(&mut response, cookie);
    response
}

fn set_cookie(response: &mut Response<Body>, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// Whether the page, if it is one, may ask here; and whether it came over HTTPS.
fn check_origin(state: &ServerState, headers: &HeaderMap) -> Result<bool, origin::Refused> {
    match headers.contains_key(ORIGIN) {
        true => state.origin_rule.check(headers),
        false => Ok(false),
    }
}

fn foreign(refused: origin::Refused) -> Response<Body> {
    let problem = refused.to_string();
    error(StatusCode::FORBIDDEN, "foreign_origin", &problem)
}

async fn identified(
    state: &ServerState,
    showing: Showing<'_>,
) -> Result<Option<Identified>, Response<Body>> {
    let identified = state.access.identify(showing).await;
    identified.map_err(|problem| refused(&NoCaller::Refused(problem)))
}
