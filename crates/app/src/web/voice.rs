//! `GET /voice`: who may connect, the client's signed id, and the hand-over of the raw connection to the voice service. Knows
//! nothing of what is said on it.

use super::client::{client, standing};
use super::listener::Place;
use super::{State, exceeded, line, upgrade};
use axum::body::Body;
use axum::extract::Request;
use axum::extract::State as Extract;
use http::header::{RETRY_AFTER, SET_COOKIE};
use http::{HeaderValue, Response, StatusCode};
use std::sync::Arc;
use windlass_runtime::shares::Held;
use windlass_runtime::voice::Connection;

/// Upgrades the connection and serves a voice session on it.
pub(super) async fn connect(
    Extract(state): Extract<Arc<State>>,
    mut request: Request,
) -> Response<Body> {
    let accept = match upgrade::accept(request.headers()) {
        Ok(accept) => accept,
        Err(problem) => return line(StatusCode::BAD_REQUEST, problem),
    };
    let is_secure = match state.origin_rule.check(request.headers()) {
        Ok(is_secure) => is_secure,
        Err(refused) => return line(StatusCode::FORBIDDEN, &refused.to_string()),
    };
    if state.is_draining() {
        let problem = "the server is shutting down";
        return later(line(StatusCode::SERVICE_UNAVAILABLE, problem));
    }
    let (caller, cookie) = match client(&state, request.headers(), is_secure) {
        Ok(client) => client,
        Err(problem) => {
            tracing::error!(%problem, "no client id could be minted");
            return line(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server cannot tell clients apart now",
            );
        }
    };
    let standing = standing(&state, request.extensions().get(), &caller);
    // The address was charged with the connection when that was accepted.
    let served = standing.with_the_address_charged();
    let connection = match served.hold(Held::Connections, 1) {
        Ok(connection) => connection,
        Err(share) => return exceeded(share),
    };
    let upgrading = hyper::upgrade::on(&mut request);
    let place: Option<Place> = request.extensions_mut().remove();
    let voice = state.voice.clone();
    tokio::spawn(async move {
        // Where the connection ended before the answer was out, nobody is there any more.
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
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
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
