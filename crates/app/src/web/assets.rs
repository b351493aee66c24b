//! `GET /assets/ID`: the file of a photo, diagram or video of the knowledge base, to callers that may read its record.

use super::access::refused;
use super::client::{NoCaller, known, showing};
use super::{ServerState, line};
use crate::access::Purpose;
use crate::knowledge::assets;
use crate::users;
use axum::body::Body;
use axum::extract::{Path as PathOf, Request, State as Extract};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use std::sync::Arc;
use windlass_contract::handler::KnowledgeReader;
use windlass_contract::id::UserId;

/// A longer file is not for a page beside a conversation.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A drawing runs no script of its own here.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

pub(super) async fn serve(
    Extract(state): Extract<Arc<ServerState>>,
    PathOf(id): PathOf<String>,
    request: Request,
) -> Response<Body> {
    let reader = match reader(&state, request).await {
        Ok(reader) => reader,
        Err(no_caller) => return refused(&no_caller),
    };
    let found = assets::file(
        state.knowledge.clone(),
        state.knowledge_folder.clone(),
        id,
        reader,
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

/// The reader: the caller with a proven identity or the browser that this server knows, otherwise an anonymous one who may read only
/// public files.
async fn reader(state: &ServerState, request: Request) -> Result<KnowledgeReader, NoCaller> {
    let (head, _) = request.into_parts();
    let known = known(state, showing(&head, Purpose::Other)).await?;
    Ok(
        known.map_or(UserId::new("").into(), |caller| KnowledgeReader {
            user_id: users::of_client(&caller.client_id),
            rights: caller.rights,
        }),
    )
}
