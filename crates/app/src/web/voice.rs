//! `GET /voice`: who may connect, the client's signed id, and the hand-over of the raw connection to the voice service. Knows
//! nothing of what is said on it.

use super::{State, line, upgrade};
use axum::body::Body;
use axum::extract::Request;
use axum::extract::State as Extract;
use http::header::{COOKIE, RETRY_AFTER, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use std::sync::Arc;
use windlass_runtime::voice::Connection;
use windlass_tool::id::ClientId;

const COOKIE_NAME: &str = "windlass_client";
/// 400 days, the longest that browsers keep a cookie.
const COOKIE_SECONDS: u32 = 34_560_000;

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
        return busy("the server is shutting down");
    }
    let Ok(place) = state.places.clone().try_acquire_owned() else {
        return busy("the server has as many sessions as it can hold; try again later");
    };
    let (client_id, cookie) = match client(&state, request.headers(), is_secure) {
        Ok(client) => client,
        Err(problem) => {
            tracing::error!(%problem, "no client id could be minted");
            return line(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server cannot tell clients apart now",
            );
        }
    };
    let upgraded = hyper::upgrade::on(&mut request);
    let voice = state.voice.clone();
    tokio::spawn(async move {
        let _place = place;
        // The connection ended before the answer was out: nobody is there any more.
        let Ok(upgraded) = upgraded.await else {
            return;
        };
        let Some((stream, already_read)) = upgrade::into_stream(upgraded) else {
            tracing::error!("an upgraded connection is no plain socket");
            return;
        };
        voice
            .serve(Connection {
                stream: Box::new(stream),
                already_read,
                client_id,
            })
            .await;
    });
    let mut response = upgrade::switching(accept);
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn busy(problem: &str) -> Response<Body> {
    let mut response = line(StatusCode::SERVICE_UNAVAILABLE, problem);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

/// The id that this server signed for the client, or a new one with the cookie that carries it.
fn client(
    state: &State,
    headers: &HeaderMap,
    is_secure: bool,
) -> Result<(ClientId, Option<HeaderValue>), String> {
    let known = cookies(headers).find_map(|text| state.client_key.verify(text));
    if let Some(client_id) = known {
        return Ok((client_id, None));
    }
    let minted = state.client_key.mint().map_err(|error| error.to_string())?;
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE_NAME}={}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict{secure}",
        minted.text
    );
    let cookie = HeaderValue::from_str(&cookie).map_err(|error| error.to_string())?;
    Ok((minted.client_id, Some(cookie)))
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}
