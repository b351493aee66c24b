//! A provider at its end of a TCP connection, played by a test message by message. Knows WebSocket and no protocol.

use futures_util::{SinkExt, StreamExt};
use http::HeaderMap;
use serde_json::Value;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A provider, before anybody has come.
pub(crate) struct Provider {
    listener: TcpListener,
    pub(crate) url: String,
}

/// Its end of one connection.
pub(crate) struct Peer {
    socket: WebSocketStream<TcpStream>,
    /// Path and query of the upgrade, and its headers.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
}

impl Provider {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        Self { listener, url }
    }

    pub(crate) async fn accept(&self) -> Peer {
        let accepted = tokio::time::timeout(PATIENCE, self.listener.accept()).await;
        let (stream, _) = accepted.expect("the server never came").unwrap();
        let (mut target, mut headers) = (String::new(), HeaderMap::new());
        #[allow(clippy::result_large_err, reason = "the library's own signature")]
        let read = |request: &Request, response: Response| {
            target = request.uri().to_string();
            headers = request.headers().clone();
            Ok(response)
        };
        let socket = accept_hdr_async(stream, read).await.unwrap();
        Peer {
            socket,
            target,
            headers,
        }
    }
}

impl Peer {
    /// The next message with one of these fields; those before it are passed over.
    pub(crate) async fn until(&mut self, fields: &[&str]) -> Value {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            let message = message.unwrap_or_else(|_| panic!("the server never sent {fields:?}"));
            let data = message.expect("the server has gone").unwrap().into_data();
            let Ok(message) = serde_json::from_slice::<Value>(&data) else {
                continue;
            };
            if fields.iter().any(|field| message.get(field).is_some()) {
                return message;
            }
        }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_raw(Message::text(message.to_string())).await;
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }
}
