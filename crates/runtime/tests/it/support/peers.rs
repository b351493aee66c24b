//! The client and the provider of one voice session, both as a test speaks them.

use super::{
    Recorder, StillCapabilities, conversation_of, session_config, shared, shared_over, tools,
};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Message, protocol};
use windlass_contract::id::{ClientId, ConversationId, SessionId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::sensitive::Sensitive;
use windlass_driver::Ledger;
use windlass_provider::gemini_live::{DeclaredTools, SpeechDetection};
use windlass_provider::profile::RealtimeForm;
use windlass_provider::{openai_realtime, profile};
use windlass_runtime::caller::{Acquaintance, Caller};
use windlass_runtime::client_protocol::Start;
use windlass_runtime::codec::{LiveProvider, OpenRequest, Opening};
use windlass_runtime::gemini_live::{GeminiLive, GeminiLiveSettings};
use windlass_runtime::openai_realtime::{OpenaiRealtime, OpenaiRealtimeSettings};
use windlass_runtime::subscriber::Subscriber;
use windlass_runtime::transport::websocket::{
    ConnectError, MessageLimits, Role, Socket, SocketLimits, Target,
};
use windlass_runtime::voice::{
    Admission, Connection, Host, Party, Refusal, VoiceService, VoiceSettings,
};
use windlass_store::{ConversationRef, LegRef, PartyKind};

/// Bytes that a stream in memory holds before its writer has to wait.
const STREAM_BYTES: usize = 64 * 1024;

/// One end of a WebSocket, spoken by an implementation that is not ours.
pub(crate) struct Peer(WebSocketStream<DuplexStream>);

impl Peer {
    async fn over(stream: DuplexStream, role: protocol::Role) -> Self {
        Self(WebSocketStream::from_raw_socket(stream, role, None).await)
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.send_raw(Message::text(message.to_string())).await;
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        self.0.send(message).await.unwrap();
    }

    /// Sends as long as the other end listens.
    pub(crate) async fn try_send(&mut self, message: Message) -> bool {
        self.0.send(message).await.is_ok()
    }

    /// The next message: JSON as it is, audio as `{"pcm": bytes}`, a close as `{"close": code}`, the end as null.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            return match self.0.next().await {
                None | Some(Err(_)) => Value::Null,
                Some(Ok(Message::Text(text))) => serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Binary(pcm))) => match serde_json::from_slice(&pcm) {
                    Ok(json @ Value::Object(_)) => json,
                    _ => json!({ "pcm": pcm.len() }),
                },
                Some(Ok(Message::Close(frame))) => {
                    json!({ "close": frame.map(|frame| u16::from(frame.code)) })
                }
                Some(Ok(_)) => continue,
            };
        }
    }

    /// Reads until a message has this type, or this key.
    pub(crate) async fn until(&mut self, name: &str) -> Value {
        loop {
            let message = self.next().await;
            assert_ne!(message, Value::Null, "the connection ended before {name}");
            if message["type"] == name || message.get(name).is_some() {
                return message;
            }
        }
    }

    /// Everything until the connection ends.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            match self.next().await {
                Value::Null => return messages,
                message => messages.push(message),
            }
        }
    }
}

/// Whose protocol the provider speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Live {
    #[default]
    Gemini,
    Openai,
}

/// A provider in memory. Each connection that a session opens comes out at the other side.
struct MemoryProvider {
    live: Live,
    registry: Arc<Registry>,
    connections: mpsc::UnboundedSender<DuplexStream>,
    refusal: Option<ConnectError>,
}

impl LiveProvider for MemoryProvider {
    fn open(&self, request: OpenRequest<'_>) -> Opening {
        let codec = match self.live {
            Live::Gemini => gemini(&self.registry).open(request).codec,
            Live::Openai => openai(&self.registry).open(request).codec,
        };
        let limits = SocketLimits {
            messages: MessageLimits {
                text_bytes_max: 1 << 20,
                binary_bytes_max: 1 << 20,
            },
            queued_audio_bytes_max: 512 * 1024,
            queued_bytes_max: 1 << 20,
        };
        let refusal = self.refusal.clone();
        let connections = self.connections.clone();
        Opening {
            connecting: Box::pin(async move {
                if let Some(refusal) = refusal {
                    return Err(refusal);
                }
                let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
                connections.send(theirs).unwrap();
                Ok(Socket::new(Box::new(ours), Role::Client, limits, Vec::new()).unwrap())
            }),
            codec,
        }
    }
}

fn gemini(registry: &Registry) -> GeminiLive {
    let settings = GeminiLiveSettings {
        target: Target {
            url: "ws://provider.invalid/".to_owned(),
            headers: Vec::new(),
        },
        model: "models/test".to_owned(),
        has_key: true,
        connect_timeout: Duration::from_secs(10),
        voice: None,
        language: None,
        temperature: None,
        output_tokens_max: None,
        thinking_level: None,
        thinking_budget: None,
        transcribe_input: true,
        transcribe_output: true,
        speech_detection: SpeechDetection::default(),
        barge_in: true,
        compression: None,
    };
    GeminiLive {
        settings: Arc::new(settings),
        system_instruction: "Be brief.".into(),
        tools: DeclaredTools::new(registry.declared(Mode::Voice), &tools::profile()),
    }
}

fn openai(registry: &Registry) -> OpenaiRealtime {
    OpenaiRealtime {
        settings: Arc::new(OpenaiRealtimeSettings {
            target: Target {
                url: "ws://provider.invalid/".to_owned(),
                headers: Vec::new(),
            },
            has_key: true,
            connect_timeout: Duration::from_secs(10),
            voice: None,
            language: None,
            output_tokens_max: None,
            reasoning_effort: None,
            form: RealtimeForm::Openai,
            model: profile::OPENAI_REALTIME_MODEL.to_owned(),
            transcription_model: None,
            transcribe_input: true,
            speech_detection: SpeechDetection::default(),
            barge_in: true,
            truncate: true,
        }),
        system_instruction: "Be brief.".into(),
        tools: openai_realtime::DeclaredTools::new(registry.declared(Mode::Voice)),
    }
}

struct OneSession {
    live: Live,
    registry: Arc<Registry>,
    connections: mpsc::UnboundedSender<DuplexStream>,
    refusal: Option<ConnectError>,
    start_refusal: Option<Refusal>,
    /// Of the next session.
    number: AtomicU32,
    user: Option<&'static str>,
    conversation: Option<&'static str>,
    lease: Mutex<Option<Arc<()>>>,
}

impl Host for OneSession {
    fn crowded(&self, kind: PartyKind) -> String {
        format!("the {} has its share", kind.as_str())
    }

    fn admit(&self, caller: &Caller, start: &Start) -> Result<Party, Refusal> {
        if let Some(refusal) = &self.start_refusal {
            return Err(refusal.clone());
        }
        let mut session = session_config(Mode::Voice, self.registry.clone());
        session.user_id = UserId::new(start.user_id.as_deref().or(self.user).unwrap_or("ada"));
        if let Some(conversation) = start.conversation_id.as_deref().or(self.conversation) {
            session.conversation_id = ConversationId::new(conversation);
        }
        Ok(Party {
            caller: caller.clone(),
            conversation: conversation_of(&session),
            user_id: session.user_id,
            is_new: false,
        })
    }

    fn start(
        &self,
        party: &Party,
        start: Start,
        leg: Option<&LegRef>,
    ) -> Result<Admission, Refusal> {
        let mut session = session_config(Mode::Voice, self.registry.clone());
        session.user_id = party.user_id.clone();
        session.conversation_id = party.conversation.conversation_id.clone();
        let number = match leg {
            None => {
                let number = self.number.fetch_add(1, Ordering::SeqCst);
                session.session_id = SessionId::new(format!("s-{number}"));
                number
            }
            Some(leg) => {
                session.session_id = leg.leg.clone();
                session.epoch = leg.epoch;
                0
            }
        };
        session.pending_request = start.pending_request.map(Sensitive::into_inner);
        if self.live == Live::Openai {
            let found = profile::openai_realtime(None, profile::OPENAI_REALTIME_MODEL);
            session.profile = Arc::new(found.profile.model);
        }
        Ok(Admission {
            session,
            capabilities: Arc::new(StillCapabilities),
            provider: Box::new(MemoryProvider {
                live: self.live,
                registry: self.registry.clone(),
                connections: self.connections.clone(),
                refusal: self.refusal.clone(),
            }),
            resume_token: Sensitive(match number {
                1 => "resume-me".to_owned(),
                number => format!("resume-me-{number}"),
            }),
            lease: Box::new(self.lease.lock().unwrap().take()),
        })
    }

    fn ledger_user(
        &self,
        _: &Caller,
        conversation: &ConversationRef,
        named: Option<&str>,
    ) -> UserId {
        named.map_or_else(|| conversation.user_id.clone(), UserId::new)
    }

    fn user_of(&self, conversation: &ConversationRef) -> UserId {
        conversation.user_id.clone()
    }
}

/// How a session's surroundings differ from the ordinary.
#[derive(Default)]
pub(crate) struct Setting {
    pub(crate) tools: Vec<Tool>,
    pub(crate) settings: VoiceSettings,
    pub(crate) provider_refuses: Option<ConnectError>,
    pub(crate) host_refuses: Option<Refusal>,
    pub(crate) live: Live,
    pub(crate) watched_by: Option<Arc<dyn Subscriber>>,
    /// Where everything is kept; else in memory.
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    /// Which process this is, of those that follow each other; its sessions and tokens are numbered from there.
    pub(crate) number: u32,
    /// Another user than Ada, and another conversation than c-1.
    pub(crate) user: Option<&'static str>,
    pub(crate) conversation: Option<&'static str>,
}

/// A voice service with one client that has connected.
pub(crate) struct Stage {
    pub(crate) service: Arc<VoiceService>,
    pub(crate) client: Peer,
    pub(crate) served: JoinHandle<()>,
    pub(crate) events: Arc<Recorder>,
    /// Gone once the session's lease is.
    pub(crate) lease: std::sync::Weak<()>,
    tasks: Mutex<Vec<AbortHandle>>,
    connections: mpsc::UnboundedReceiver<DuplexStream>,
}

impl Stage {
    pub(crate) async fn set(setting: Setting) -> Self {
        let (sender, connections) = mpsc::unbounded_channel();
        let events = Arc::new(Recorder::default());
        let lease = Arc::new(());
        let watched = Arc::downgrade(&lease);
        let mut subscribers: Vec<Arc<dyn Subscriber>> = vec![events.clone()];
        subscribers.extend(setting.watched_by);
        let host = OneSession {
            live: setting.live,
            registry: tools::registry(setting.tools),
            connections: sender,
            refusal: setting.provider_refuses,
            start_refusal: setting.host_refuses,
            number: AtomicU32::new(setting.number.max(1)),
            user: setting.user,
            conversation: setting.conversation,
            lease: Mutex::new(Some(lease)),
        };
        let service = VoiceService::new(
            setting.settings,
            Arc::new(host),
            match setting.ledger {
                Some(ledger) => shared_over(ledger, subscribers),
                None => shared(subscribers),
            },
        );
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        let connection = Connection {
            standing: Default::default(),
            stream: Box::new(ours),
            already_read: Vec::new(),
            caller: Caller::known(ClientId::new("client-1")),
            lease: Box::new(()),
        };
        let served = tokio::spawn(service.clone().serve(connection));
        Self {
            tasks: Mutex::new(vec![served.abort_handle()]),
            service,
            client: Peer::over(theirs, protocol::Role::Client).await,
            served,
            events,
            lease: watched,
            connections,
        }
    }

    /// Another connection of the client to the same service.
    pub(crate) async fn another_client(&self) -> Peer {
        self.client_called("client-1").await
    }

    pub(crate) async fn client_called(&self, id: &str) -> Peer {
        self.connected(Caller::known(ClientId::new(id))).await
    }

    /// A client that has shown nothing, and was given an id.
    pub(crate) async fn client_without_id(&self) -> Peer {
        self.connected(Caller::unproven(
            ClientId::new("client-passing"),
            Acquaintance::Passing,
        ))
        .await
    }

    async fn connected(&self, caller: Caller) -> Peer {
        self.served_to(caller).await.0
    }

    /// The stage's own client is another one.
    pub(crate) async fn take_for_client(&mut self, id: &str) {
        let caller = Caller::known(ClientId::new(id));
        (self.client, self.served) = self.served_to(caller).await;
    }

    async fn served_to(&self, caller: Caller) -> (Peer, JoinHandle<()>) {
        self.served_with(caller, Box::new(())).await
    }

    /// A connection that is gone from those that wait to begin once nobody holds the lease.
    pub(crate) async fn client_with(&self, lease: Arc<()>) -> Peer {
        let caller = Caller::known(ClientId::new("client-1"));
        self.served_with(caller, Box::new(lease)).await.0
    }

    async fn served_with(&self, caller: Caller, lease: Box<dyn Send>) -> (Peer, JoinHandle<()>) {
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        let connection = Connection {
            standing: Default::default(),
            stream: Box::new(ours),
            already_read: Vec::new(),
            caller,
            lease,
        };
        let served = tokio::spawn(self.service.clone().serve(connection));
        self.tasks.lock().unwrap().push(served.abort_handle());
        (Peer::over(theirs, protocol::Role::Client).await, served)
    }

    /// The process ends: nothing more is heard of its sessions, and what they held is let go.
    pub(crate) async fn kill(self) {
        for task in self.tasks.lock().unwrap().iter() {
            task.abort();
        }
        while Arc::strong_count(&self.service) > 1 {
            tokio::task::yield_now().await;
        }
    }

    /// The client's connection breaks; a stranger takes its place here.
    pub(crate) async fn lose_client(&mut self) {
        let stranger = self.another_client().await;
        drop(std::mem::replace(&mut self.client, stranger));
        self.until_seen("ClientLost").await;
    }

    /// Lets the other tasks run until there was an event that begins so.
    pub(crate) async fn until_seen(&self, beginning: &str) {
        while !self.events.saw(beginning) {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn start(&mut self) {
        self.client.send(json!({ "type": "start" })).await;
        self.client.until("started").await;
    }

    /// The provider's side of the next connection.
    pub(crate) async fn provider(&mut self) -> Peer {
        let stream = self.connections.recv().await.unwrap();
        Peer::over(stream, protocol::Role::Server).await
    }

    /// The same, while the client answers pings for as long as that takes.
    pub(crate) async fn provider_while_listening(&mut self) -> Peer {
        let (connections, client) = (&mut self.connections, &mut self.client);
        let stream = loop {
            tokio::select! {
                stream = connections.recv() => break stream.unwrap(),
                message = client.next() => assert_ne!(message, Value::Null, "the client was sent away"),
            }
        };
        Peer::over(stream, protocol::Role::Server).await
    }

    /// A session whose provider has accepted the setup.
    pub(crate) async fn running(setting: Setting) -> (Self, Peer) {
        let mut stage = Self::set(setting).await;
        stage.start().await;
        let mut provider = stage.provider().await;
        provider.until("setup").await;
        provider.send(json!({ "setupComplete": {} })).await;
        (stage, provider)
    }
}

/// A frame of the model's voice: this many bytes of silence.
pub(crate) fn voice(bytes: usize) -> Value {
    let data = base64_simd::STANDARD.encode_to_string(vec![0_u8; bytes]);
    let part = json!({ "inlineData": { "mimeType": "audio/pcm;rate=24000", "data": data } });
    json!({ "serverContent": { "modelTurn": { "parts": [part] } } })
}

pub(crate) fn turn_end() -> Value {
    json!({ "serverContent": { "turnComplete": true } })
}

/// A call as the provider makes it.
pub(crate) fn call(id: &str, name: &str, args: Value) -> Value {
    json!({ "toolCall": { "functionCalls": [{ "id": id, "name": name, "args": args }] } })
}

pub(crate) fn binary(bytes: usize) -> Message {
    Message::binary(vec![0_u8; bytes])
}

/// A text message that is no text.
pub(crate) fn no_text() -> Message {
    use protocol::frame::Frame;
    use protocol::frame::coding::{Data, OpCode};
    let payload = b"{\"type\":\"\xff\"}".to_vec();
    Message::Frame(Frame::message(payload, OpCode::Data(Data::Text), true))
}

pub(crate) fn close_with(code: u16, reason: &str) -> Message {
    Message::Close(Some(protocol::CloseFrame {
        code: code.into(),
        reason: reason.to_owned().into(),
    }))
}
