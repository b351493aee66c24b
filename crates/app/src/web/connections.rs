//! Users' connections over HTTP: `GET /connections/start` and `GET /connections/callback/NAME` for browsers, `/api/connections` for
//! their owner.
//! Knows statuses, cookies and words; whose a connection is, and whether a browser may make it, is decided elsewhere.

use super::chat::error;
use super::client::{self, showing};
use super::owner::{OwnersQuery, OwnersRequest};
use super::voice::later;
use super::{ServerState, line, typed};
use crate::access::{Purpose, cookies};
use crate::connections::{ConnectProblem, ConnectionDesk, ConnectionId, Departure, Returned};
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State as Extract};
use http::header::{HOST, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use windlass_runtime::caller::Caller;
use windlass_services::oauth::OauthError;
use windlass_session::client::ErrorCode;

#[derive(Default, Deserialize)]
pub(super) struct Started {
    #[serde(default)]
    link: String,
}

/// `GET /connections/start`: sends the browser of a link's user to the authorization server.
pub(super) async fn start(
    Extract(state): Extract<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let Some(desk) = &state.connections else {
        return nothing_to_connect();
    };
    let started = Query::<Started>::try_from_uri(request.uri());
    let started = started.map(|Query(started)| started).unwrap_or_default();
    let (head, _) = request.into_parts();
    let caller = client::known(&state, showing(&head, Purpose::Other)).await;
    // A caller that cannot be identified counts as none.
    let caller: Option<Caller> = caller.ok().flatten();
    let user = caller
        .as_ref()
        .map(|caller| (&caller.tenant, &caller.client_id));
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    match desk.depart(&started.link, user, host).await {
        Ok(Departure { address, cookie }) => {
            let Ok(address) = HeaderValue::from_str(&address) else {
                return line(
                    StatusCode::BAD_GATEWAY,
                    "the service's address cannot be gone to",
                );
            };
            let mut response = line(StatusCode::SEE_OTHER, "go on at another address");
            response.headers_mut().insert(LOCATION, address);
            give(&mut response, &cookie);
            response
        }
        Err(problem) => told(&problem),
    }
}

/// `GET /connections/callback/{name}`: the browser comes back.
pub(super) async fn callback(
    Extract(state): Extract<Arc<ServerState>>,
    Path(name): Path<String>,
    returned: Result<Query<Returned>, QueryRejection>,
    headers: HeaderMap,
) -> Response<Body> {
    let Some(desk) = &state.connections else {
        return nothing_to_connect();
    };
    let returned = returned.map(|Query(returned)| returned).unwrap_or_default();
    let cookie_of = |name: &str| cookies(&headers, name).map(str::to_owned).collect();
    match desk.arrive(&name, returned, cookie_of).await {
        Ok((title, cookie)) => {
            let text = format!(
                "{title} is connected. You can close this window, and go on where you were."
            );
            let mut response = line(StatusCode::OK, &text);
            give(&mut response, &cookie);
            response
        }
        Err(problem) => told(&problem),
    }
}

/// The address of the answer holds secrets that no other reader may see.
fn give(response: &mut Response<Body>, cookie: &str) {
    let headers = response.headers_mut();
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        headers.append(SET_COOKIE, cookie);
    }
}

fn nothing_to_connect() -> Response<Body> {
    line(StatusCode::NOT_FOUND, "there is no such page here")
}

/// The page for a person who is not connected.
fn told(problem: &ConnectProblem) -> Response<Body> {
    let (status, text) = match problem {
        ConnectProblem::BadLink => (
            StatusCode::GONE,
            "This link is over. Ask the agent again, and you get a new one.",
        ),
        ConnectProblem::OtherUser => (
            StatusCode::FORBIDDEN,
            "This link is for another user. Open it in the browser in which you talk to the agent, signed in as you are there.",
        ),
        ConnectProblem::UnknownAuthorization => (
            StatusCode::BAD_REQUEST,
            "Nothing was connected: it took too long, was done before, or began in another browser. Ask the agent for a new link.",
        ),
        ConnectProblem::Declined(_) => (
            StatusCode::OK,
            "Nothing was connected, because you or the service declined.",
        ),
        ConnectProblem::Server(OauthError::OtherIssuer | OauthError::Ended) => (
            StatusCode::BAD_REQUEST,
            "Nothing was connected: the answer is not the service's. Ask the agent for a new link.",
        ),
        ConnectProblem::Server(OauthError::Refused(_) | OauthError::Unavailable(_)) => (
            StatusCode::BAD_GATEWAY,
            "Nothing was connected: the service does not answer as it should. Try again later.",
        ),
        ConnectProblem::TooMany
        | ConnectProblem::Vault(_)
        | ConnectProblem::NoRandomness(_)
        | ConnectProblem::Ending => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Nothing was connected: this server cannot do it now. Try again later.",
        ),
    };
    tracing::warn!(%problem, "nothing was connected for a browser");
    line(status, text)
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    /// The user for whom a program speaks that vouches for users.
    user_id: Option<String>,
}

impl OwnersQuery for Asked {
    const PROBLEM: &str = "userId must be a text";

    fn user_id(&self) -> Option<&str> {
        self.user_id.as_deref()
    }
}

/// `GET /api/connections`.
pub(super) async fn list(
    Extract(state): Extract<Arc<ServerState>>,
    request: OwnersRequest<Asked>,
) -> Response<Body> {
    let OwnersRequest {
        entrance, caller, ..
    } = request;
    let response = match &state.connections {
        None => typed("application/json", json!({ "connections": [] }).to_string()),
        Some(desk) => shown(desk, &caller).await,
    };
    entrance.finish(response)
}

async fn shown(desk: &Arc<ConnectionDesk>, caller: &Caller) -> Response<Body> {
    match desk.shown(&caller.tenant, &caller.client_id).await {
        Ok(shown) => typed(
            "application/json",
            json!({ "connections": shown }).to_string(),
        ),
        Err(problem) => unavailable(&problem),
    }
}

fn unavailable(problem: &ConnectProblem) -> Response<Body> {
    tracing::error!(%problem, "the connections of a user are not to be had");
    let code = ErrorCode::Overloaded.as_str();
    later(error(
        StatusCode::SERVICE_UNAVAILABLE,
        code,
        "the connections are not to be had now; try again later",
    ))
}

/// `DELETE /api/connections/{name}`.
pub(super) async fn end(
    Extract(state): Extract<Arc<ServerState>>,
    Path(name): Path<String>,
    request: OwnersRequest<Asked>,
) -> Response<Body> {
    let OwnersRequest {
        entrance, caller, ..
    } = request;
    let id = ConnectionId {
        tenant: caller.tenant.clone(),
        owner: caller.client_id.clone(),
        connection: name,
    };
    let ended = match &state.connections {
        None => Ok(false),
        Some(desk) => desk.end(id, "user").await,
    };
    let response = match ended {
        Ok(true) => typed("application/json", json!({ "ok": true }).to_string()),
        Ok(false) => error(
            StatusCode::NOT_FOUND,
            "unknown_connection",
            "there is no such connection",
        ),
        Err(problem) => unavailable(&problem),
    };
    entrance.finish(response)
}
