//! The answer to one request of an MCP client, as one object or as a stream. Knows statuses and streams; the host answers.

use super::{empty, failed, json};
use crate::mcp::reply::{Failure, METHOD_NOT_FOUND, MISSING_CAPABILITY, Revision, result};
use crate::mcp::{Exchange, Leaving, McpHost, Peer, message::Request as McpRequest};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use windlass_runtime::text::ui_stream::UNBUFFERED;

/// Pause between signs of life: a middlebox takes a silent connection for dead.
const STILL_THERE: Duration = Duration::from_secs(15);

/// A request with everything that its answer needs.
pub(super) struct Running {
    pub(super) host: Arc<McpHost>,
    pub(super) peer: Peer,
    pub(super) exchange: Exchange,
    pub(super) request: McpRequest,
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl Running {
    /// The message that answers the request. It is made to its end, also where its client has left.
    async fn answer(self) -> Option<(Value, Option<i32>)> {
        let Self {
            host,
            peer,
            exchange,
            request,
            permit,
        } = self;
        let session = exchange.session.clone();
        let answered = host.answer(&peer, exchange, &request).await;
        if let Some(session) = session {
            session.open.close(&request.id);
        }
        drop(permit);
        Some(match answered? {
            Ok(value) => (result(&request.id, value), None),
            Err(failure) => (failure.to_message(Some(&request.id)), Some(failure.code)),
        })
    }
}

/// The answer as one object.
pub(super) async fn whole(
    running: Running,
    leaving: Leaving,
    messages: mpsc::Receiver<Value>,
) -> Response<Body> {
    let is_stateless = running.exchange.revision == Revision::Stateless;
    // In a task of its own: a change that has begun runs to its end.
    let answered = tokio::spawn(running.answer()).await;
    // Messages that were queued meanwhile have no reader.
    drop((leaving, messages));
    match answered {
        Ok(Some((message, code))) => {
            let status = match code {
                Some(METHOD_NOT_FOUND) if is_stateless => StatusCode::NOT_FOUND,
                Some(MISSING_CAPABILITY) => StatusCode::BAD_REQUEST,
                _ => StatusCode::OK,
            };
            json(status, &message)
        }
        Ok(None) => empty(StatusCode::ACCEPTED),
        Err(_) => failed(
            StatusCode::INTERNAL_SERVER_ERROR,
            &Failure::internal(),
            None,
        ),
    }
}

/// The answer as a stream, which ends with it. Who closes the stream takes the request back.
pub(super) fn streamed(
    running: Running,
    leaving: Leaving,
    messages: mpsc::Receiver<Value>,
) -> Response<Body> {
    let last = running.exchange.outlet.clone();
    tokio::spawn(async move {
        if let Some((message, _)) = running.answer().await {
            // The client may have left.
            let _ = last.send(message).await;
        }
    });
    let pieces = stream::unfold((messages, leaving), |(mut messages, leaving)| async move {
        let piece = match tokio::time::timeout(STILL_THERE, messages.recv()).await {
            Ok(Some(message)) => format!("event: message\ndata: {message}\n\n"),
            Ok(None) => return None,
            Err(_) => ": still there\n\n".to_owned(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(piece)), (messages, leaving)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    for (name, value) in UNBUFFERED {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}
