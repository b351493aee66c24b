//! `GET /voice`: who may connect, the client's signed id, and the hand-over of the raw connection to the voice service. Knows nothing
//! of the connection's content.

use super::access as signing_in;
use super::client::{client, showing, standing};
use super::listener::ConnectionSlot;
use super::origin::Refused as OriginRefused;
use super::{ServerState, exceeded, line, upgrade};
use crate::access::Purpose;
use axum::body::Body;
use axum::extract::Request;
use axum::extract::State as Extract;
use http::header::{RETRY_AFTER, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderValue, Response, StatusCode};
use std::sync::Arc;
use windlass_runtime::shares::Held;
use windlass_runtime::voice::Connection;

/// Upgrades the connection and serves a voice session on it.
pub(super) async fn connect(
    Extract(state): Extract<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let (mut head, _) = request.into_parts();
    let accept = match upgrade::accept(&head.headers) {
        Ok(accept) => accept,
        Err(problem) => return line(StatusCode::BAD_REQUEST, problem),
    };
    let is_secure = match state.origin_rule.check(&head.headers) {
        Ok(is_secure) => is_secure,
        // A program has no origin, and where sign-in is required, its key is enough. A browser always sends one.
        Err(OriginRefused::Missing) if state.access.is_required => false,
        Err(refused) => return line(StatusCode::FORBIDDEN, &refused.to_string()),
    };
    if state.is_draining() {
        let problem = "the server is shutting down";
        return later(line(StatusCode::SERVICE_UNAVAILABLE, problem));
    }
    let (caller, minted) = match client(&state, showing(&head, Purpose::Voice), is_secure).await {
        Ok(client) => client,
        Err(no_caller) => {
            let (status, _, message) = signing_in::refusal(&no_caller);
            return signing_in::hinted(line(status, &message));
        }
    };
    let standing = standing(&state, head.extensions.get(), &caller);
    // The address was charged with the connection when that was accepted.
    let served = standing.with_the_address_charged();
    let connection = match served.hold(Held::Connections, 1) {
        Ok(connection) => connection,
        Err(share) => return exceeded(share),
    };
    let protocol = upgrade::protocol(&head.headers);
    let place: Option<ConnectionSlot> = head.extensions.remove();
    let upgrading = hyper::upgrade::on(Request::from_parts(head, Body::empty()));
    let voice = state.voice.clone();
    tokio::spawn(async move {
        // If the connection ended before the answer was out, the client is gone.
        if let Some((stream, already_read)) = upgrade::socket(upgrading).await {
            let connection = Connection {
                stream: Box::new(stream),
                already_read,
                caller,
                standing,
                lease: Box::new((place, connection)),
            };
            voice.serve(connection).await;
        }
    });
    let mut response = upgrade::switching(accept);
    if let Some(protocol) = protocol {
        response
            .headers_mut()
            .insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    if let Some(minted) = minted {
        minted.give(response.headers_mut());
    }
    response
}

/// A refusal that says when to try again.
pub(super) fn later(mut response: Response<Body>) -> Response<Body> {
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}
