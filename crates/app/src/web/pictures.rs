//! `GET /pictures/DIGEST?until=…&signature=…`: a picture that a call brought back, for a client that this server knows, and for anybody
//! who was given its address until that ends. The digest cannot be guessed without the picture. Knows no conversation.

use super::access::refused;
use super::client::{known, showing};
use super::{ServerState, line};
use crate::access::Purpose;
use crate::clock;
use crate::signed_pictures::opens;
use axum::body::Body;
use axum::extract::{Path, Request, State as Extract};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use std::sync::Arc;
use windlass_contract::handler::picture_type;

/// The longest picture that is kept, in bytes.
const BYTES_MAX: usize = 64 * 1024 * 1024;

pub(super) async fn serve(
    Extract(state): Extract<Arc<ServerState>>,
    Path(hash): Path<String>,
    request: Request,
) -> Response<Body> {
    let (head, _) = request.into_parts();
    let none = || line(StatusCode::NOT_FOUND, "there is no such picture");
    let query = head.uri.query();
    if !opens(&state.client_key, &hash, query, clock::now_unix_ms()) {
        match known(&state, showing(&head, Purpose::Other)).await {
            Ok(Some(_)) => {}
            Ok(None) => return none(),
            Err(no_caller) => return refused(&no_caller),
        }
    }
    let files = state.chat.pictures.clone();
    let read = tokio::task::spawn_blocking(move || files.read_data(&hash, BYTES_MAX)).await;
    let found = read.ok().flatten();
    // Other types are refused: a browser could run them.
    let found = found.and_then(|data| Some((picture_type(&data)?, data)));
    let Some((mime_type, data)) = found else {
        return none();
    };
    let mut response = Response::new(Body::from(data));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(mime_type));
    let caching = HeaderValue::from_static("private, max-age=86400, immutable");
    headers.insert(CACHE_CONTROL, caching);
    response
}
