//! A model's server over HTTP that answers from a list, and a text session that asks it.

use crate::support::{
    StillCapabilities, conversation_of, session_config, shared, shared_over, tools,
};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass_contract::handler::Capabilities;
use windlass_contract::id::{ClientId, SessionId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::Ledger;
use windlass_provider::profile::{self, TextTransport};
use windlass_runtime::call_driver::Shared;
use windlass_runtime::subscriber::Subscriber;
use windlass_runtime::text::ui_stream::{Outlet, UiStream};
use windlass_runtime::text::{
    Consent, ModelOptions, Past, Protocol, TextLimits, TextModel, TextRequest, TextSession,
    TextSettings, TextTools, TurnEnd, TurnInput, TurnMemory, UserInput,
};
use windlass_runtime::transport::http::{HttpClient, HttpLimits};
use windlass_session::client::MessageKey;
use windlass_session::limits::Limits;
use windlass_session::session::SessionConfig;

/// What the server answers to one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Chunks of a stream, and its end mark.
    Stream(Vec<Value>),
    /// The same, sent at once.
    Together(Vec<Value>),
    /// Bytes of a stream, as they are; then the answer ends.
    Raw(Vec<u8>),
    /// The same, and then the connection breaks.
    Broken(Vec<u8>),
    /// The same, and then nothing more comes.
    Hanging(Vec<u8>),
    /// The same again and again.
    Endless(Vec<u8>),
    /// The head of a refusal whose body never comes.
    StalledRefusal,
    Refusal {
        status: u16,
        headers: &'static str,
        body: String,
    },
}

pub(crate) fn text(words: &str) -> Reply {
    let mut chunks: Vec<Value> = words
        .split_inclusive(' ')
        .map(|word| delta(json!({"content": word})))
        .collect();
    chunks.push(finish("stop"));
    Reply::Stream(chunks)
}

pub(crate) fn calls(calls: &[(&str, &str, Value)]) -> Reply {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(index, (id, name, arguments))| {
            json!({"index": index, "id": id, "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}})
        })
        .collect();
    Reply::Stream(vec![
        delta(json!({"role": "assistant", "content": null, "tool_calls": calls})),
        finish("tool_calls"),
    ])
}

pub(crate) fn delta(delta: Value) -> Value {
    json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub(crate) fn finish(reason: &str) -> Value {
    json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}})
}

pub(crate) fn refusal(status: u16, headers: &'static str) -> Reply {
    let body = json!({"error": {"message": "no", "type": "some_error"}}).to_string();
    Reply::Refusal {
        status,
        headers,
        body,
    }
}

/// The server. Its last answer is given again and again.
#[derive(Clone)]
pub(crate) struct TextServer {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Value>>>,
    connections: Arc<Mutex<usize>>,
}

impl TextServer {
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("http://{}/v1", listener.local_addr().unwrap()),
            seen: Arc::default(),
            connections: Arc::default(),
        };
        let shared = server.clone();
        let replies = Arc::new(Mutex::new(VecDeque::from(replies)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *shared.connections.lock().unwrap() += 1;
                tokio::spawn(serve(stream, shared.clone(), replies.clone()));
            }
        });
        server
    }

    /// The bodies that came, in their order.
    pub(crate) fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    server: TextServer,
    replies: Arc<Mutex<VecDeque<Reply>>>,
) -> Option<()> {
    loop {
        let body = read_request(&mut stream).await?;
        server.seen.lock().unwrap().push(body);
        let reply = {
            let mut replies = replies.lock().unwrap();
            match replies.len() {
                1 => replies[0].clone(),
                _ => replies.pop_front()?,
            }
        };
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunk =
            |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        match reply {
            Reply::Stream(chunks) => {
                stream.write_all(head.as_bytes()).await.ok()?;
                for value in chunks {
                    let event = format!("data: {value}\n\n");
                    stream.write_all(&chunk(event.as_bytes())).await.ok()?;
                }
                let end = [chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n".to_vec()].concat();
                stream.write_all(&end).await.ok()?;
            }
            Reply::Together(chunks) => {
                let events = chunks.iter().map(|value| format!("data: {value}\n\n"));
                let events = events.chain(["data: [DONE]\n\n".to_owned()]);
                let body: Vec<u8> = events.flat_map(|event| chunk(event.as_bytes())).collect();
                let whole = [head.as_bytes(), &body, b"0\r\n\r\n"].concat();
                stream.write_all(&whole).await.ok()?;
            }
            Reply::Raw(bytes) => {
                let whole = [head.as_bytes(), &chunk(&bytes), b"0\r\n\r\n"].concat();
                stream.write_all(&whole).await.ok()?;
            }
            Reply::Broken(bytes) => {
                let whole = [head.as_bytes(), &chunk(&bytes)].concat();
                stream.write_all(&whole).await.ok()?;
                return None;
            }
            Reply::Hanging(bytes) => {
                let whole = [head.as_bytes(), &chunk(&bytes)].concat();
                stream.write_all(&whole).await.ok()?;
                std::future::pending::<()>().await;
            }
            Reply::Endless(bytes) => {
                stream.write_all(head.as_bytes()).await.ok()?;
                loop {
                    stream.write_all(&chunk(&bytes)).await.ok()?;
                }
            }
            Reply::StalledRefusal => {
                let head = "HTTP/1.1 500 Refused\r\nContent-Length: 100\r\n\r\n{";
                stream.write_all(head.as_bytes()).await.ok()?;
                std::future::pending::<()>().await;
            }
            Reply::Refusal {
                status,
                headers,
                body,
            } => {
                let whole = format!(
                    "HTTP/1.1 {status} Refused\r\n{headers}Content-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(whole.as_bytes()).await.ok()?;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))?
                .trim()
                .parse()
                .ok()?;
            if bytes.len() >= end + 4 + length {
                return serde_json::from_slice(&bytes[end + 4..end + 4 + length]).ok();
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

pub(crate) fn model(url: &str, name: &str) -> Arc<TextModel> {
    let limits = HttpLimits {
        idle_timeout: Duration::from_millis(300),
        ..HttpLimits::default()
    };
    model_with(url, name, limits)
}

pub(crate) fn model_with(url: &str, name: &str, limits: HttpLimits) -> Arc<TextModel> {
    let client = HttpClient::new(url, Vec::new(), limits).unwrap();
    let profile = profile::openai_chat(url, name).profile;
    Arc::new(TextModel::new(
        name,
        Protocol::Openai { profile },
        client,
        ModelOptions::default(),
    ))
}

/// A model of Gemini's at the same server.
pub(crate) fn gemini_model(url: &str, name: &str) -> Arc<TextModel> {
    gemini_model_by(url, name, TextTransport::GenerateContent)
}

/// The same, asked by this protocol.
pub(crate) fn gemini_model_by(url: &str, name: &str, transport: TextTransport) -> Arc<TextModel> {
    let client = HttpClient::new(url, Vec::new(), HttpLimits::default()).unwrap();
    let mut profile = profile::gemini_text(name).profile;
    profile.request.transport = transport;
    let resource = format!("models/{name}");
    let protocol = Protocol::Gemini { profile, resource };
    Arc::new(TextModel::new(
        name,
        protocol,
        client,
        ModelOptions::default(),
    ))
}

pub(crate) fn limits() -> TextLimits {
    TextLimits {
        retry_wait: Duration::from_millis(1),
        ..TextLimits::default()
    }
}

/// A session and what its client was written.
pub(crate) struct Chat {
    pub(crate) session: TextSession,
    turns: u32,
}

/// What is around a session.
pub(crate) struct Place {
    pub(crate) capabilities: Arc<dyn Capabilities>,
    pub(crate) limits: Limits,
    pub(crate) shared: Shared,
}

impl Place {
    pub(crate) fn usual(shared: Shared) -> Self {
        Self {
            capabilities: Arc::new(StillCapabilities),
            limits: Limits::of(Mode::Text),
            shared,
        }
    }
}

/// How one turn ended, and what was written of it.
pub(crate) struct Written {
    pub(crate) end: TurnEnd,
    pub(crate) chunks: Vec<Value>,
    /// How many times something was written.
    pub(crate) pieces: usize,
}

impl Chat {
    pub(crate) fn new(models: Vec<Arc<TextModel>>, tools: Vec<Tool>) -> Self {
        Self::with(models, tools, limits(), Vec::new())
    }

    pub(crate) fn with(
        models: Vec<Arc<TextModel>>,
        tools: Vec<Tool>,
        limits: TextLimits,
        subscribers: Vec<Arc<dyn Subscriber>>,
    ) -> Self {
        Self::summarised(models, None, tools, limits, subscribers)
    }

    pub(crate) fn summarised(
        models: Vec<Arc<TextModel>>,
        summary_model: Option<Arc<TextModel>>,
        tools: Vec<Tool>,
        limits: TextLimits,
        subscribers: Vec<Arc<dyn Subscriber>>,
    ) -> Self {
        let settings = TextSettings {
            models,
            summary_model,
            limits,
        };
        Self::begin(settings, tools, shared(subscribers))
    }

    /// One that shares a ledger with others.
    pub(crate) fn over(
        ledger: Arc<dyn Ledger>,
        models: Vec<Arc<TextModel>>,
        tools: Vec<Tool>,
    ) -> Self {
        let settings = TextSettings {
            models,
            summary_model: None,
            limits: limits(),
        };
        Self::begin(settings, tools, shared_over(ledger, Vec::new()))
    }

    /// The next session of the same conversation, which knows what the log says.
    pub(crate) fn going_on(
        ledger: Arc<dyn Ledger>,
        models: Vec<Arc<TextModel>>,
        tools: Vec<Tool>,
    ) -> Self {
        let place = Place::usual(shared_over(ledger, Vec::new()));
        Self::going_on_at(place, models, tools)
    }

    /// The same at a place of its own.
    pub(crate) fn going_on_at(place: Place, models: Vec<Arc<TextModel>>, tools: Vec<Tool>) -> Self {
        let settings = TextSettings {
            models,
            summary_model: None,
            limits: limits(),
        };
        let conversation =
            conversation_of(&session_config(Mode::Text, tools::registry(Vec::new())));
        let past = Past::read(&*place.shared.ledger, &conversation).unwrap();
        Self::begin_as("s-2", settings, tools, past, place)
    }

    /// One that is not at the usual place.
    pub(crate) fn at(place: Place, models: Vec<Arc<TextModel>>, tools: Vec<Tool>) -> Self {
        let settings = TextSettings {
            models,
            summary_model: None,
            limits: limits(),
        };
        Self::begin_as("s-1", settings, tools, Past::none(), place)
    }

    pub(crate) fn begin(settings: TextSettings, tools: Vec<Tool>, shared: Shared) -> Self {
        let place = Place::usual(shared);
        Self::begin_as("s-1", settings, tools, Past::none(), place)
    }

    fn begin_as(
        id: &str,
        settings: TextSettings,
        tools: Vec<Tool>,
        past: Past,
        place: Place,
    ) -> Self {
        let Place {
            capabilities,
            limits,
            shared,
        } = place;
        let registry = tools::registry(tools);
        let declared = Arc::new(TextTools::new(registry.declared(Mode::Text), "test"));
        let session = SessionConfig {
            session_id: SessionId::new(id),
            profile: settings.models[0].profile.clone(),
            limits: Arc::new(limits),
            ..session_config(Mode::Text, registry)
        };
        let conversation = conversation_of(&session);
        let session = TextSession::begin(TextRequest {
            session,
            conversation,
            client_id: ClientId::new("client"),
            beginner: windlass_store::Beginner::default(),
            capabilities,
            shared,
            settings: Arc::new(settings),
            tools: declared,
            past,
            memory: TurnMemory::default(),
        });
        Self { session, turns: 0 }
    }

    pub(crate) async fn say(&mut self, words: &str) -> Written {
        let mut never = std::pin::pin!(std::future::pending());
        self.say_until(words, never.as_mut()).await
    }

    pub(crate) async fn say_until(
        &mut self,
        words: &str,
        cancelled: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> Written {
        let input = TurnInput::User(UserInput {
            text: Sensitive(words.to_owned()),
            ..UserInput::default()
        });
        self.turn_until(input, cancelled).await
    }

    /// The same in a message that its client knows by a name, until somebody gives the turn up.
    pub(crate) async fn say_as(
        &mut self,
        name: &str,
        words: &str,
        cancelled: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> Written {
        let input = TurnInput::User(UserInput {
            text: Sensitive(words.to_owned()),
            message: Some(MessageKey::of(name)),
            ..UserInput::default()
        });
        self.turn_until(input, cancelled).await
    }

    /// The user says yes to a question.
    pub(crate) async fn approve(&mut self, token: &str) -> Written {
        self.answer(yes(token)).await
    }

    /// The user answers a question.
    pub(crate) async fn answer(&mut self, consent: Consent) -> Written {
        let input = TurnInput::Confirm(vec![consent]);
        let mut never = std::pin::pin!(std::future::pending());
        self.turn_until(input, never.as_mut()).await
    }

    async fn turn_until(
        &mut self,
        input: TurnInput,
        cancelled: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> Written {
        self.turns += 1;
        let written = Paper::default();
        let id = format!("m{}", self.turns);
        let continues = matches!(input, TurnInput::Confirm(_));
        let mut sink = UiStream::new(written.clone(), id, continues);
        let end = self
            .session
            .turn(input, "Be brief.", &mut sink, cancelled)
            .await;
        Written {
            end,
            chunks: written.chunks(),
            pieces: written.pieces(),
        }
    }
}

/// The user's yes to the question of a token.
pub(crate) fn yes(token: &str) -> Consent {
    Consent {
        token: Sensitive(token.to_owned()),
        approved: true,
        reason: None,
        remember: false,
        input: None,
    }
}

impl Written {
    /// The words of the answer.
    pub(crate) fn words(&self) -> String {
        self.of_type("text-delta")
            .filter_map(|chunk| chunk["delta"].as_str())
            .collect()
    }

    pub(crate) fn errors(&self) -> Vec<&str> {
        self.of_type("error")
            .filter_map(|chunk| chunk["errorText"].as_str())
            .collect()
    }

    pub(crate) fn of_type(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.chunks
            .iter()
            .filter(move |chunk| chunk["type"] == kind)
    }
}

/// What a turn wrote, piece by piece.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<Vec<u8>>>>);

impl Outlet for Paper {
    fn send(&mut self, bytes: &mut Vec<u8>) {
        self.0.lock().unwrap().push(std::mem::take(bytes));
    }
}

impl Paper {
    fn pieces(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn chunks(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().concat()).unwrap();
        let body = text.strip_suffix("data: [DONE]\n\n").expect("an end mark");
        body.split_terminator("\n\n")
            .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
            .collect()
    }
}
