//! A provider of live models over real sockets: it accepts every setup, hands over what it is told, and says one thing to
//! all of it where it speaks OpenAI's protocol. It ends a session of OpenAI's as the service does after an hour when it is told to.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// The words on which a session's hour is over.
pub(crate) const HOUR_IS_OVER: &str = "The hour is over.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    GeminiLive,
    OpenaiRealtime,
}

pub(crate) struct LiveProvider {
    pub(crate) url: String,
    told: mpsc::UnboundedReceiver<(usize, Value)>,
}

impl LiveProvider {
    pub(crate) async fn start(speaks: Speaks) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let (sender, told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for connection in 1.. {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                tokio::spawn(converse(stream, speaks, connection, sender.clone()));
            }
        });
        Self { url, told }
    }

    /// What it is told next, and on which connection, counted from 1.
    pub(crate) async fn next(&mut self) -> (usize, Value) {
        let next = tokio::time::timeout(PATIENCE, self.told.recv()).await;
        next.expect("the server told the provider nothing").unwrap()
    }
}

async fn converse(
    stream: TcpStream,
    speaks: Speaks,
    connection: usize,
    told: mpsc::UnboundedSender<(usize, Value)>,
) -> Option<()> {
    let mut socket = accept_async(stream).await.ok()?;
    let said = |message: Value| Message::text(message.to_string());
    if speaks == Speaks::OpenaiRealtime {
        let created = json!({"type": "session.created", "session": {"id": "s"}});
        socket.send(said(created)).await.ok()?;
    }
    while let Some(Ok(message)) = socket.next().await {
        let Some(message) = read(message) else {
            continue;
        };
        if message.get("setup").is_some() {
            socket.send(said(json!({"setupComplete": {}}))).await.ok()?;
        } else if message["type"] == "session.update" {
            let updated = json!({"type": "session.updated", "session": {"id": "s"}});
            socket.send(said(updated)).await.ok()?;
        }
        if message["type"] == "response.create" {
            for event in response() {
                socket.send(said(event)).await.ok()?;
            }
        }
        let is_over = connection == 1 && message.to_string().contains(HOUR_IS_OVER);
        told.send((connection, message)).ok()?;
        if is_over {
            let error = json!({"type": "invalid_request_error", "code": "session_expired",
                "message": "Your session hit the maximum duration of 60 minutes."});
            let expired = json!({"type": "error", "error": error});
            socket.send(said(expired)).await.ok()?;
            let frame = CloseFrame {
                code: 1001.into(),
                reason: "".into(),
            };
            return socket.close(Some(frame)).await.ok();
        }
    }
    Some(())
}

/// What OpenAI's model says to everything.
pub(crate) const ANSWER: &str = "Very well.";

fn response() -> [Value; 4] {
    let item = json!({"id": "item_1", "type": "message", "role": "assistant",
        "content": [{"type": "output_audio", "transcript": ANSWER}]});
    [
        json!({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}),
        json!({"type": "response.output_audio_transcript.delta", "response_id": "r", "item_id": "item_1",
            "output_index": 0, "content_index": 0, "delta": ANSWER}),
        json!({"type": "response.output_item.done", "response_id": "r", "item": item}),
        json!({"type": "response.done", "response": {"id": "r", "status": "completed", "output": [item]}}),
    ]
}

fn read(message: Message) -> Option<Value> {
    serde_json::from_slice(&message.into_data()).ok()
}
