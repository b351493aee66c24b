//! A client of the voice endpoint: sends messages, waits for those that a test wants, and keeps the audio's length.

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use std::future::poll_fn;
use std::time::Duration;
use windlass_runtime::transport::websocket::{
    ConnectError, Message, MessageLimits, Socket, SocketLimits, Target, connect,
};

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

const LIMITS: SocketLimits = SocketLimits {
    messages: MessageLimits {
        text_bytes_max: 8 << 20,
        binary_bytes_max: 8 << 20,
    },
    queued_audio_bytes_max: 8 << 20,
    queued_bytes_max: 8 << 20,
};

pub(crate) struct VoiceClient {
    socket: Socket,
    /// What came and nobody has looked at.
    waiting: Vec<Event>,
    pub(crate) audio_bytes: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Message(Value),
    Closed(u16),
}

impl VoiceClient {
    pub(crate) async fn connect(
        address: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, ConnectError> {
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        let target = Target {
            url: format!("ws://{address}/voice"),
            headers: headers.collect(),
        };
        Ok(Self {
            socket: connect(&target, LIMITS, PATIENCE).await?,
            waiting: Vec::new(),
            audio_bytes: 0,
        })
    }

    /// Connects and starts a session; what `started` says.
    pub(crate) async fn start(address: &str, start: Value) -> (Self, Value) {
        let mut client = Self::connect(address, &[]).await.unwrap();
        client.send(start).await;
        let started = client.expect("started").await;
        (client, started)
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.socket
            .send_text(|bytes| bytes.extend_from_slice(message.to_string().as_bytes()))
            .unwrap();
        poll_fn(|context| self.socket.poll_flush(context))
            .await
            .unwrap();
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.send(serde_json::json!({"type": "text", "text": text}))
            .await;
    }

    /// The next message of a type; those before it are passed over.
    pub(crate) async fn expect(&mut self, kind: &str) -> Value {
        let mut passed = Vec::new();
        loop {
            match self.next().await {
                Event::Message(message) if message["type"] == kind => return message,
                Event::Message(message) => passed.push(message),
                Event::Closed(code) => {
                    panic!("closed with {code} before {kind}; there was {passed:?}")
                }
            }
        }
    }

    /// All messages up to the next one of a type.
    pub(crate) async fn all_until(&mut self, kind: &str) -> Vec<Value> {
        let mut passed = Vec::new();
        loop {
            match self.next().await {
                Event::Message(message) if message["type"] == kind => return passed,
                Event::Message(message) => passed.push(message),
                Event::Closed(code) => panic!("closed with {code} before {kind}"),
            }
        }
    }

    /// What `started` says; `None` where an error comes in its place.
    pub(crate) async fn started_or_refused(&mut self) -> Option<Value> {
        let answer = self.answer_to_start().await;
        (answer["type"] == "started").then_some(answer)
    }

    /// What `started` says, or the error that comes in its place.
    pub(crate) async fn answer_to_start(&mut self) -> Value {
        loop {
            match self.next().await {
                Event::Message(message)
                    if message["type"] == "started" || message["type"] == "error" =>
                {
                    return message;
                }
                Event::Message(_) => {}
                Event::Closed(code) => panic!("closed with {code} before a session or an error"),
            }
        }
    }

    /// The code with which the server closes; messages before it are passed over.
    pub(crate) async fn expect_close(&mut self) -> u16 {
        loop {
            if let Event::Closed(code) = self.next().await {
                return code;
            }
        }
    }

    async fn next(&mut self) -> Event {
        while self.waiting.is_empty() {
            let read = poll_fn(|context| {
                // Pongs and closes go out while we wait.
                let _ = self.socket.poll_flush(context);
                self.socket.poll_read(context)
            });
            let mut reading = match tokio::time::timeout(PATIENCE, read).await {
                Ok(Ok(reading)) => reading,
                Ok(Err(_)) => return Event::Closed(1006),
                Err(_) => panic!("nothing came for {PATIENCE:?}"),
            };
            while let Some(message) = reading.next_message().unwrap() {
                match message {
                    Message::Text(text) => self
                        .waiting
                        .push(Event::Message(serde_json::from_slice(&text).unwrap())),
                    Message::Binary(audio) => self.audio_bytes += audio.len(),
                    Message::Close(frame) => self.waiting.push(Event::Closed(frame.code)),
                    Message::Ping(_) | Message::Pong | Message::TooLarge { .. } => {}
                }
            }
            self.socket.finish(reading);
        }
        self.waiting.remove(0)
    }
}
