//! `GET /assets/ID`: the file of a photo, diagram or video of the knowledge base, to whoever may read its record.

use super::client::known;
use super::{State, line};
use crate::knowledge::assets;
use axum::body::Body;
use axum::extract::{Path as PathOf, State as Extract};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use std::sync::Arc;
use windlass_tool::id::UserId;

/// A longer file is not for a page beside a conversation.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A drawing runs no script of its own here.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

pub(super) async fn serve(
    Extract(state): Extract<Arc<State>>,
    PathOf(id): PathOf<String>,
    headers: HeaderMap,
) -> Response<Body> {
    let found = assets::file(
        state.knowledge.clone(),
        state.knowledge_folder.clone(),
        id,
        reader(&state, &headers),
        FILE_BYTES_MAX,
    );
    let Some(file) = found.await else {
        return line(StatusCode::NOT_FOUND, "there is no such file");
    };
    let mut response = Response::new(Body::from(file.bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.mime_type));
    let caching = HeaderValue::from_static("private, no-cache");
    headers.insert(CACHE_CONTROL, caching);
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// Who asks: the user whom the proxy has named or the browser that this server knows, else somebody who may read only what
/// everybody may.
fn reader(state: &State, headers: &HeaderMap) -> UserId {
    known(state, headers).map_or(UserId::new(""), |client| crate::users::of_client(&client))
}
