//! `/mcp`: the Model Context Protocol over streamable HTTP, in the revision without sessions and in those that begin with a handshake.
//! Knows headers, statuses and streams; the host answers.

mod answering;
mod approval;
mod headers;
mod metadata;

pub(super) use approval::{answer as answer_approval, show as show_approval};
pub(super) use metadata::resource as resource_metadata;

use super::bodies::{self, Unread};
use super::chat::error;
use super::client::{NoCaller, peer as socket_peer, standing};
use super::gate::ServedHost;
use super::patience::WhileAnswering;
use super::peer::Peer as Address;
use super::voice::later;
use super::{ServerState, exceeded};
use crate::access::{Identified, Means, Purpose, Refused, Showing};
use crate::mcp::message::{
    ClientCapabilities, Elicitation, Message, Notification, Request as McpRequest,
};
use crate::mcp::reply::{Failure, INTERNAL_ERROR, INVALID_REQUEST, Revision, result};
use crate::mcp::{Exchange, Leaving, McpHost, McpSession, Peer, agreed, initialized, message};
use answering::{Running, streamed, whole};
use axum::body::Body;
use axum::extract::{Request, State as Extract};
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;
use windlass_contract::id::ClientId;
use windlass_runtime::caller::Caller;
use windlass_runtime::shares::{Held, Holding, Used};
use windlass_session::client::ErrorCode;

/// The session of a client that began with a handshake.
const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// Messages of one stream that wait for its reader.
const OUTLET_MAX: usize = 64;
/// The caller's id where no one has to sign in: a user of this machine.
const LOCAL: &str = "mcp-local";

/// The common part of all messages.
struct Entrance {
    host: Arc<McpHost>,
    peer: Peer,
    head: Parts,
    body: Bytes,
    connection: Option<Holding>,
    _body_bytes: Option<Holding>,
}

/// `POST /mcp`.
pub(super) async fn post(
    Extract(state): Extract<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let entrance = match enter(&state, request).await {
        Ok(entrance) => entrance,
        Err(refused) => return *refused,
    };
    let Entrance {
        host,
        peer,
        head,
        body,
        connection,
        _body_bytes,
    } = entrance;
    let message = message::read(&body);
    drop(body);
    let mut response = match message {
        Err(failure) => failed(StatusCode::BAD_REQUEST, &failure, None),
        Ok(Message::Request(request)) => take_request(&host, peer, &head, request).await,
        Ok(Message::Notification(said)) => take_notification(&host, &peer, &head, &said),
        Ok(Message::Answer(answer)) => match session_of(&host, &peer, &head.headers) {
            Ok(session) if session.answered(answer) => empty(StatusCode::ACCEPTED),
            Ok(_) => failed(
                StatusCode::BAD_REQUEST,
                &Failure::new(INVALID_REQUEST, "nothing was asked under this id"),
                None,
            ),
            Err(refused) => *refused,
        },
    };
    if let Some(connection) = connection {
        response
            .extensions_mut()
            .insert(WhileAnswering::hold(connection));
    }
    response
}

/// `DELETE /mcp`: the client ends its session.
pub(super) async fn delete(
    Extract(state): Extract<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let (head, _) = request.into_parts();
    if !state.serves_mcp {
        return not_served();
    }
    let host = &state.mcp;
    let caller = match caller(&state, &head).await {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let id = headers::only(&head.headers, &SESSION_HEADER).ok().flatten();
    match id.is_some_and(|id| host.sessions.end(id, &caller)) {
        true => empty(StatusCode::NO_CONTENT),
        false => *no_session(),
    }
}

fn not_served() -> Response<Body> {
    error(
        StatusCode::NOT_FOUND,
        "not_found",
        "MCP is switched off here: set mcp_server.enabled",
    )
}

async fn enter(
    state: &Arc<ServerState>,
    request: Request,
) -> Result<Entrance, Box<Response<Body>>> {
    let (head, body) = request.into_parts();
    if !state.serves_mcp {
        return Err(not_served().into());
    }
    let host = state.mcp.clone();
    if state.is_draining() {
        let code = ErrorCode::ShuttingDown.as_str();
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(later(error(status, code, "the server is shutting down")).into());
    }
    let caller = caller(state, &head).await?;
    if !headers::is_json(&head.headers) {
        let code = ErrorCode::BadMessage.as_str();
        let problem = "send the message as application/json";
        return Err(error(StatusCode::UNSUPPORTED_MEDIA_TYPE, code, problem).into());
    }
    let address: Option<&Address> = head.extensions.get();
    let standing = standing(state, address, &caller);
    let served = standing.with_the_address_charged();
    served.take(Used::Requests, 1).map_err(exceeded)?;
    let connection = served.hold(Held::Connections, 1).map_err(exceeded)?;
    let mut body_bytes = standing.hold(Held::BodyBytes, 0).map_err(exceeded)?;
    let body = bodies::read(body, host.message_bytes_max, &mut body_bytes).await;
    let body = body.map_err(|unread| {
        let status = match unread {
            Unread::TooLongOrCut(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Unread::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Unread::Exceeded(share) => return exceeded(share),
        };
        failed(
            status,
            &Failure::new(INVALID_REQUEST, unread.to_string()),
            None,
        )
    })?;
    Ok(Entrance {
        peer: Peer {
            caller,
            beginner: standing.beginner(),
            page: Some(page_origin(&host, &head)),
        },
        host,
        head,
        body,
        connection,
        _body_bytes: body_bytes,
    })
}

/// The sender of a message. The page's cookie does not count here: a page that a browser has open is no client of this protocol.
async fn caller(state: &ServerState, head: &Parts) -> Result<Caller, Box<Response<Body>>> {
    let showing = Showing {
        headers: &head.headers,
        query: None,
        peer: socket_peer(&head.extensions),
        purpose: Purpose::Mcp,
    };
    match state.access.identify(showing).await {
        Ok(Some(Identified { proven, means, .. })) if means != Means::Page => {
            Ok(Caller::proven(proven))
        }
        Ok(None) if state.is_local_alone => Ok(Caller::known(ClientId::new(LOCAL))),
        Ok(_) => Err(unauthorized(state, head, &Refused::Missing).into()),
        Err(refused) => Err(unauthorized(state, head, &refused).into()),
    }
}

/// A refusal that says where a client can have a token made, where that is known.
fn unauthorized(state: &ServerState, head: &Parts, refused: &Refused) -> Response<Body> {
    let mut response = super::access::refused(&NoCaller::Refused(refused.clone()));
    if response.status() == StatusCode::UNAUTHORIZED && state.access.oidc.is_some() {
        let origin = page_origin(&state.mcp, head);
        let mut scheme = format!(
            "Bearer realm=\"windlass\", resource_metadata=\"{origin}{}\"",
            metadata::PATH
        );
        if head.headers.contains_key(AUTHORIZATION) {
            scheme.push_str(", error=\"invalid_token\"");
        }
        if let Ok(scheme) = HeaderValue::from_str(&scheme) {
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
    }
    response
}

/// The origin under which people and clients reach this server: the configured one, or the name in the request, which is one of this
/// server's own.
fn page_origin(host: &McpHost, head: &Parts) -> String {
    if let Some(resource) = &host.resource {
        let rest = resource.find("://").map_or(0, |index| index + 3);
        let end = resource[rest..]
            .find('/')
            .map_or(resource.len(), |index| rest + index);
        return resource[..end].to_owned();
    }
    let named: Option<&ServedHost> = head.extensions.get();
    match named {
        Some(ServedHost(host)) => format!("http://{host}"),
        None => String::new(),
    }
}

fn session_of(
    host: &McpHost,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<Arc<McpSession>, Box<Response<Body>>> {
    let id = headers::only(headers, &SESSION_HEADER).map_err(bad_header)?;
    let Some(id) = id else {
        let failure = Failure::new(
            INVALID_REQUEST,
            "begin with initialize and send its Mcp-Session-Id, or name the version of the protocol in _meta",
        );
        return Err(failed(StatusCode::BAD_REQUEST, &failure, None).into());
    };
    if let Some(version) = headers::version(headers).map_err(bad_header)?
        && !message::HANDSHAKES.contains(&version)
    {
        let failure = crate::mcp::unsupported(version);
        return Err(failed(StatusCode::BAD_REQUEST, &failure, None).into());
    }
    host.sessions.find(id, &peer.caller).ok_or_else(no_session)
}

fn bad_header(problem: &'static str) -> Box<Response<Body>> {
    failed(
        StatusCode::BAD_REQUEST,
        &Failure::new(INVALID_REQUEST, problem),
        None,
    )
    .into()
}

/// The client is to begin anew.
fn no_session() -> Box<Response<Body>> {
    let failure = Failure::new(
        INVALID_REQUEST,
        "there is no such session; initialize another one",
    );
    failed(StatusCode::NOT_FOUND, &failure, None).into()
}

fn take_notification(
    host: &McpHost,
    peer: &Peer,
    head: &Parts,
    said: &Notification,
) -> Response<Body> {
    if headers::version(&head.headers) == Ok(Some(message::STATELESS)) {
        return empty(StatusCode::ACCEPTED);
    }
    match session_of(host, peer, &head.headers) {
        Ok(session) => {
            if said.method == "notifications/cancelled" {
                session.open.cancel(&said.params);
            }
            empty(StatusCode::ACCEPTED)
        }
        Err(refused) => *refused,
    }
}

async fn take_request(
    host: &Arc<McpHost>,
    peer: Peer,
    head: &Parts,
    request: McpRequest,
) -> Response<Body> {
    let header = match headers::version(&head.headers) {
        Ok(header) => header,
        Err(problem) => return *bad_header(problem),
    };
    let is_stateless = request.meta.version.is_some() || header == Some(message::STATELESS);
    if is_stateless {
        let client = match headers::check(&head.headers, header, &request) {
            Ok(client) => client,
            Err(failure) => return failed(StatusCode::BAD_REQUEST, &failure, Some(&request)),
        };
        let wanted = Wanted {
            revision: Revision::Stateless,
            client,
            session: None,
            request,
        };
        return answer(host, peer, head, wanted).await;
    }
    if request.method == "initialize" {
        return begin_session(host, &peer, &request);
    }
    let session = match session_of(host, &peer, &head.headers) {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    let wanted = Wanted {
        revision: Revision::Handshake,
        // Requests of this server to the client go out on the stream.
        client: match headers::takes_events(&head.headers) {
            true => session.elicitation.into(),
            false => ClientCapabilities::default(),
        },
        session: Some(session),
        request,
    };
    answer(host, peer, head, wanted).await
}

fn begin_session(host: &McpHost, peer: &Peer, request: &McpRequest) -> Response<Body> {
    let version = agreed(&request.params);
    let capabilities = request.params.get("capabilities");
    let elicitation = capabilities.map(Elicitation::of).unwrap_or_default();
    let session = McpSession::new(&peer.caller, elicitation);
    match host.sessions.begin(session) {
        Ok(id) => {
            let mut response = json(StatusCode::OK, &result(&request.id, initialized(version)));
            if let Ok(id) = HeaderValue::from_str(&id) {
                response.headers_mut().insert(SESSION_HEADER, id);
            }
            response
        }
        Err(problem) => {
            tracing::error!(%problem, "a session of MCP could not begin");
            failed(
                StatusCode::INTERNAL_SERVER_ERROR,
                &Failure::internal(),
                Some(request),
            )
        }
    }
}

/// A request that is to be answered.
struct Wanted {
    revision: Revision,
    client: ClientCapabilities,
    session: Option<Arc<McpSession>>,
    request: McpRequest,
}

async fn answer(host: &Arc<McpHost>, peer: Peer, head: &Parts, wanted: Wanted) -> Response<Body> {
    let is_call = wanted.request.method == "tools/call";
    let is_streamed = is_call && headers::takes_events(&head.headers);
    let permit = match is_call {
        false => None,
        true => match host.admit() {
            Some(permit) => Some(permit),
            None => {
                let failure = Failure::new(
                    INTERNAL_ERROR,
                    "as many calls are open as this server takes; send it again",
                );
                let status = StatusCode::SERVICE_UNAVAILABLE;
                return later(failed(status, &failure, Some(&wanted.request)));
            }
        },
    };
    let (leaving, left) = Leaving::new();
    let opened = wanted
        .session
        .as_ref()
        .map(|session| session.open.open(&wanted.request.id, &leaving));
    if opened == Some(None) {
        let failure = Failure::new(
            INVALID_REQUEST,
            "a request of this id is open, or too many are",
        );
        return failed(StatusCode::BAD_REQUEST, &failure, Some(&wanted.request));
    }
    let (outlet, messages) = mpsc::channel(OUTLET_MAX);
    let running = Running {
        host: host.clone(),
        peer,
        exchange: Exchange {
            revision: wanted.revision,
            client: wanted.client,
            outlet,
            session: wanted.session,
            left,
        },
        request: wanted.request,
        permit,
    };
    match is_streamed {
        true => streamed(running, leaving, messages),
        false => whole(running, leaving, messages).await,
    }
}

fn json(status: StatusCode, message: &Value) -> Response<Body> {
    let mut response = super::typed("application/json", message.to_string());
    *response.status_mut() = status;
    response
}

fn failed(status: StatusCode, failure: &Failure, request: Option<&McpRequest>) -> Response<Body> {
    json(
        status,
        &failure.to_message(request.map(|request| &request.id)),
    )
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
