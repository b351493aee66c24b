//! Runs a simulated text provider on a socket: reads requests, and sends answers piece by piece. Knows nothing of their content.

use crate::web::listener::{self, ListenerLimits};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use windlass_sim::runner::Options;
use windlass_sim::text::{self, BODY_BYTES_MAX, HttpAnswer, Piece, Protocol, Server};

/// A simulator that has its address and does not serve yet.
pub(crate) struct TextSimulator {
    listener: TcpListener,
    server: Arc<Mutex<Server>>,
}

impl TextSimulator {
    pub(crate) async fn bind(
        address: SocketAddr,
        protocol: Protocol,
        options: Options,
    ) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address).await?,
            server: Arc::new(Mutex::new(Server::new(protocol, options))),
        })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` turns true.
    pub(crate) async fn serve(self, shutdown: watch::Receiver<bool>) {
        let router = Router::new().fallback(answer).with_state(self.server);
        listener::serve(self.listener, router, ListenerLimits::default(), shutdown).await;
    }
}

async fn answer(
    State(server): State<Arc<Mutex<Server>>>,
    request: Request<Body>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
        return response;
    };
    let headers: Vec<(String, String)> = head
        .headers
        .iter()
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    let answer = server
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .answer(&text::Request {
            method: head.method.as_str(),
            path: head.uri.path(),
            query: head.uri.query().unwrap_or_default(),
            headers: &headers,
            body: &body,
        });
    response(answer)
}

fn response(answer: HttpAnswer) -> Response<Body> {
    let body = match <[Piece; 1]>::try_from(answer.body) {
        Ok([Piece::Bytes(bytes)]) => Body::from(bytes),
        Ok([piece]) => streamed(vec![piece]),
        Err(pieces) => streamed(pieces),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response
                .headers_mut()
                .insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// Each piece when it is due. An endless one is given again and again, as fast as the client takes it.
fn streamed(pieces: Vec<Piece>) -> Body {
    let pieces = stream::unfold(pieces.into_iter(), |mut pieces| async move {
        loop {
            match pieces.next()? {
                Piece::Bytes(bytes) => return Some((Ok(Bytes::from(bytes)), pieces)),
                Piece::WaitMs(milliseconds) => {
                    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                }
                Piece::Cut => {
                    let error = io::Error::from(io::ErrorKind::ConnectionReset);
                    return Some((Err(error), Vec::new().into_iter()));
                }
                Piece::Endless(bytes) => {
                    let again = vec![Piece::Endless(bytes.clone())];
                    return Some((Ok(Bytes::from(bytes)), again.into_iter()));
                }
            }
        }
    });
    Body::from_stream(pieces)
}
