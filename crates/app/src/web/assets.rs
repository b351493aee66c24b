//! `GET /assets/ID`: the file of a photo, diagram or video of the knowledge base. Serves what a record names and everybody may
//! read, and nothing else of the folder.

use super::{State, line};
use axum::body::Body;
use axum::extract::{Path as PathOf, State as Extract};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_knowledge::{AssetPlace, asset};
use windlass_tool::handler::{GetRequest, Knowledge};
use windlass_tool::id::UserId;

/// A longer file is not for a page beside a conversation.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A drawing runs no script of its own here.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

pub(super) async fn serve(
    Extract(state): Extract<Arc<State>>,
    PathOf(id): PathOf<String>,
) -> Response<Body> {
    let missing = || line(StatusCode::NOT_FOUND, "there is no such file");
    let request = GetRequest {
        id,
        namespace: None,
        // Somebody who may read only what everybody may.
        user_id: UserId::new(""),
    };
    let Ok(Ok(record)) = state.knowledge.get(request).await else {
        return missing();
    };
    let found = asset(&record).and_then(|asset| match (asset.place, asset.mime_type) {
        (AssetPlace::File(path), Some(mime_type)) => Some((path, mime_type)),
        (AssetPlace::File(_) | AssetPlace::Url(_), _) => None,
    });
    let Some((path, mime_type)) = found else {
        return missing();
    };
    let folder = state.knowledge_folder.clone();
    let read = tokio::task::spawn_blocking(move || read(&folder, &path)).await;
    let Ok(Some(bytes)) = read else {
        return missing();
    };
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(mime_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// A file's bytes; `None` where it is not there, is too large, or lies elsewhere behind a link.
fn read(folder: &Path, path: &str) -> Option<Vec<u8>> {
    let root: PathBuf = folder.canonicalize().ok()?;
    let file = root.join(path).canonicalize().ok()?;
    if !file.starts_with(&root) || !file.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(file)
        .ok()?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    (bytes.len() as u64 <= FILE_BYTES_MAX).then_some(bytes)
}
