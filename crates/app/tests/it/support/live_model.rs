//! The model's side of Gemini Live, as far as a call needs it. Says nothing unless a test has it say something.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Models {
    listener: TcpListener,
    pub(crate) url: String,
}

/// One connection of a session.
pub(crate) struct Peer(WebSocketStream<TcpStream>);

impl Models {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// The next connection whose setup is accepted. Those that a killed server has left are passed over.
    pub(crate) async fn next(&mut self) -> Peer {
        loop {
            let accepted = tokio::time::timeout(PATIENCE, self.listener.accept()).await;
            let (stream, _) = accepted.expect("no session called").unwrap();
            let Ok(socket) = tokio_tungstenite::accept_async(stream).await else {
                continue;
            };
            let mut peer = Peer(socket);
            if peer.try_next().await.is_some() {
                peer.send(json!({ "setupComplete": {} })).await;
                return peer;
            }
        }
    }
}

impl Peer {
    pub(crate) async fn call(&mut self, id: &str, tool: &str, arguments: Value) {
        let call = json!({ "id": id, "name": tool, "args": arguments });
        self.send(json!({ "toolCall": { "functionCalls": [call] } }))
            .await;
    }

    /// What the call with this id is answered.
    pub(crate) async fn answer(&mut self, id: &str) -> Value {
        loop {
            let message = self.next().await;
            let answers = message["toolResponse"]["functionResponses"].as_array();
            let answers = answers.into_iter().flatten();
            if let Some(answer) = answers.into_iter().find(|answer| answer["id"] == id) {
                return answer["response"].clone();
            }
        }
    }

    pub(crate) async fn send(&mut self, message: Value) {
        let message = Message::text(message.to_string());
        self.0.send(message).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Value {
        self.try_next().await.expect("the server has left")
    }

    async fn try_next(&mut self) -> Option<Value> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.0.next()).await;
            match next.expect("the server says nothing")? {
                Ok(Message::Text(text)) => return serde_json::from_str(&text).ok(),
                Ok(Message::Binary(bytes)) => return serde_json::from_slice(&bytes).ok(),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}
