//! Runs a simulated provider of spoken conversations on a socket: accepts, upgrades, carries frames and time to the state machine and
//! its outputs back. Knows nothing of the frames' content.

use crate::web::listener::{self, ListenerLimits};
use crate::web::upgrade;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use windlass_runtime::transport::websocket::{
    AudioForm, Message, MessageLimits, Reading, Role, Socket, SocketLimits, SocketLost,
};
use windlass_session::time::Timestamp;
use windlass_sim::gemini_live;
use windlass_sim::openai_realtime;
use windlass_sim::runner::{ConnectionId, Input, Options, Output, Rejection, Upgrade};

/// How long the closing handshake may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// A wake-up in place of a missing deadline; no step depends on it.
const FAR: Duration = Duration::from_secs(3_600);

/// The state machine judges the size of messages, so the socket lets more through.
const LIMITS: SocketLimits = SocketLimits {
    messages: MessageLimits {
        text_bytes_max: 17 << 20,
        binary_bytes_max: 17 << 20,
    },
    queued_audio_bytes_max: 32 << 20,
    queued_bytes_max: 32 << 20,
};

/// A simulator that has its address and does not serve yet.
pub(crate) struct Simulator {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// The simulated service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    GeminiLive,
    OpenaiRealtime,
}

/// The state machine behind the socket.
enum Machine {
    GeminiLive(Box<gemini_live::Server>),
    OpenaiRealtime(Box<openai_realtime::Server>),
}

impl Machine {
    fn connect(&mut self, upgrade: &Upgrade) -> Result<ConnectionId, Rejection> {
        match self {
            Self::GeminiLive(server) => server.connect(upgrade),
            Self::OpenaiRealtime(server) => server.connect(upgrade),
        }
    }

    fn handle(
        &mut self,
        now: Timestamp,
        id: ConnectionId,
        input: Input<'_>,
        out: &mut Vec<Output>,
    ) {
        match self {
            Self::GeminiLive(server) => server.handle(now, id, input, out),
            Self::OpenaiRealtime(server) => server.handle(now, id, input, out),
        }
    }

    fn next_deadline(&self, id: ConnectionId) -> Option<Timestamp> {
        match self {
            Self::GeminiLive(server) => server.next_deadline(id),
            Self::OpenaiRealtime(server) => server.next_deadline(id),
        }
    }

    /// Google sends binary messages, OpenAI text.
    fn form(&self) -> AudioForm {
        match self {
            Self::GeminiLive(_) => AudioForm::Binary,
            Self::OpenaiRealtime(_) => AudioForm::Text,
        }
    }
}

/// Sends the waiting bytes and then these, and hangs up.
async fn cut(mut socket: Socket, tail: &[u8]) -> io::Result<()> {
    poll_fn(|context| socket.poll_flush(context)).await?;
    let mut stream = socket.into_stream();
    stream.write_all(tail).await?;
    stream.shutdown().await
}

/// The first half of the frame that a server would send this payload in.
fn first_half(form: AudioForm, payload: &[u8]) -> Vec<u8> {
    // The last frame of its message, unmasked (RFC 6455, section 5.2).
    let mut frame = vec![match form {
        AudioForm::Text => 0x81,
        AudioForm::Binary => 0x82,
    }];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        (_, Err(_)) => {
            frame.push(127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&payload[..payload.len() / 2]);
    frame
}

struct Shared {
    server: Mutex<Machine>,
    started: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        Timestamp::default() + self.started.elapsed()
    }

    fn instant(&self, at: Timestamp) -> Instant {
        self.started + Duration::from_micros(at.0)
    }
}

impl Simulator {
    pub(crate) async fn bind(
        address: SocketAddr,
        service: Service,
        options: Options,
    ) -> io::Result<Self> {
        let machine = match service {
            Service::GeminiLive => Machine::GeminiLive(Box::new(gemini_live::Server::new(options))),
            Service::OpenaiRealtime => {
                Machine::OpenaiRealtime(Box::new(openai_realtime::Server::new(options)))
            }
        };
        Ok(Self {
            listener: TcpListener::bind(address).await?,
            shared: Arc::new(Shared {
                server: Mutex::new(machine),
                started: Instant::now(),
            }),
        })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` turns true.
    pub(crate) async fn serve(self, shutdown: watch::Receiver<bool>) {
        let router = Router::new().fallback(answer).with_state(self.shared);
        listener::serve(self.listener, router, ListenerLimits::default(), shutdown).await;
    }
}

async fn answer(State(shared): State<Arc<Shared>>, mut request: Request<Body>) -> Response<Body> {
    let accept = match upgrade::accept(request.headers()) {
        Ok(accept) => accept,
        Err(problem) => return refuse(StatusCode::BAD_REQUEST, problem),
    };
    let target = request.uri().path_and_query();
    let headers = request.headers().iter().filter_map(|(name, value)| {
        let value = value.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    let wanted = Upgrade {
        target: target.map_or_else(String::new, ToString::to_string),
        headers: headers.collect(),
    };
    let id = match shared.lock().connect(&wanted) {
        Ok(id) => id,
        Err(rejection) => {
            let status = StatusCode::from_u16(rejection.http_status);
            return refuse(status.unwrap_or(StatusCode::BAD_REQUEST), rejection.cause);
        }
    };
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let upgraded = upgrade::socket(upgrading).await;
        let socket = upgraded.and_then(|(stream, already_read)| {
            Socket::new(Box::new(stream), Role::Server, LIMITS, already_read).ok()
        });
        if let Some(socket) = socket {
            Conversation::new(socket, shared.clone(), id).run().await;
        }
        let now = shared.now();
        let nobody_is_left = &mut Vec::new();
        shared.lock().handle(now, id, Input::Closed, nobody_is_left);
    });
    let mut response = upgrade::switching(accept);
    if wanted.offers("realtime") {
        // A browser's client ends the connection unless one of its offers is taken; the others hold its key.
        let name = HeaderName::from_static("sec-websocket-protocol");
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static("realtime"));
    }
    response
}

fn refuse(status: StatusCode, problem: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{problem}\n")));
    *response.status_mut() = status;
    response
}

/// One connection, from its upgrade to its end.
struct Conversation {
    socket: Socket,
    shared: Arc<Shared>,
    id: ConnectionId,
    sleep: Pin<Box<Sleep>>,
    reads_again_at: Option<Timestamp>,
    outputs: Vec<Output>,
    stage: Stage,
}

#[derive(PartialEq, Eq)]
enum Stage {
    Open,
    /// Our close frame is out, and the peer's is waited for.
    Closing {
        until: Instant,
    },
    Over,
    /// The session ends after the waiting bytes and these are sent.
    Cut {
        tail: Vec<u8>,
    },
}

impl Stage {
    fn goes_on(&self) -> bool {
        matches!(self, Self::Open | Self::Closing { .. })
    }
}

enum Woken {
    Read(Result<Reading, SocketLost>),
    Time,
}

impl Conversation {
    fn new(socket: Socket, shared: Arc<Shared>, id: ConnectionId) -> Self {
        Self {
            socket,
            shared,
            id,
            sleep: Box::pin(tokio::time::sleep(FAR)),
            reads_again_at: None,
            outputs: Vec::new(),
            stage: Stage::Open,
        }
    }

    async fn run(mut self) {
        if let Some(reading) = self.socket.already_read() {
            self.take(reading);
        }
        while self.stage.goes_on() {
            let deadline = self.deadline();
            self.sleep.as_mut().reset(deadline);
            match poll_fn(|context| self.poll(context)).await {
                Woken::Read(Ok(reading)) => self.take(reading),
                Woken::Read(Err(_)) => self.stage = Stage::Over,
                Woken::Time => self.tick(),
            }
        }
        if let Stage::Cut { tail } = self.stage {
            // A client that takes nothing is cut off all the same.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, cut(self.socket, &tail)).await;
        }
    }

    fn deadline(&self) -> Instant {
        if let Stage::Closing { until } = self.stage {
            return until;
        }
        let next = self.shared.lock().next_deadline(self.id);
        let earliest = next.into_iter().chain(self.reads_again_at).min();
        earliest.map_or_else(|| Instant::now() + FAR, |at| self.shared.instant(at))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Woken> {
        if let Poll::Ready(Err(error)) = self.socket.poll_flush(context) {
            return Poll::Ready(Woken::Read(Err(error.into())));
        }
        if self.reads_again_at.is_none()
            && let Poll::Ready(read) = self.socket.poll_read(context)
        {
            return Poll::Ready(Woken::Read(read));
        }
        self.sleep.as_mut().poll(context).map(|()| Woken::Time)
    }

    fn tick(&mut self) {
        if matches!(self.stage, Stage::Closing { .. }) {
            self.stage = Stage::Over;
            return;
        }
        let now = self.shared.now();
        if self.reads_again_at.is_some_and(|at| at <= now) {
            self.reads_again_at = None;
        }
        self.feed(Input::Tick);
    }

    fn take(&mut self, mut reading: Reading) {
        loop {
            match reading.next_message() {
                Ok(Some(message)) => self.take_message(message),
                Ok(None) => break,
                Err(error) => {
                    self.close(error.close_code(), "");
                    break;
                }
            }
        }
        self.socket.finish(reading);
    }

    fn take_message(&mut self, message: Message<'_>) {
        match message {
            Message::Text(frame) | Message::Binary(frame) => self.feed(Input::Frame(&frame)),
            Message::Ping(payload) => {
                if self.socket.send_pong(payload).is_err() {
                    self.stage = Stage::Over;
                }
            }
            Message::Pong => {}
            Message::TooLarge { .. } => self.close(1009, "The message is too large."),
            Message::Close(frame) => match self.stage {
                Stage::Open => {
                    // From now on its session can be resumed elsewhere, however long this socket still lingers.
                    self.feed(Input::Closed);
                    // A peer that gave no code gets none back that it would have to explain.
                    let code = if frame.code == 1005 { 1000 } else { frame.code };
                    self.close(code, "");
                }
                Stage::Closing { .. } | Stage::Over | Stage::Cut { .. } => {
                    self.stage = Stage::Over;
                }
            },
        }
    }

    fn feed(&mut self, input: Input<'_>) {
        if self.stage != Stage::Open {
            return;
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        let now = self.shared.now();
        self.shared.lock().handle(now, self.id, input, &mut outputs);
        for output in outputs.drain(..) {
            self.obey(output);
        }
        self.outputs = outputs;
    }

    fn obey(&mut self, output: Output) {
        match output {
            Output::Send(frame) => {
                let form = self.shared.lock().form();
                let sent = self
                    .socket
                    .send_audio(form, |bytes| bytes.extend_from_slice(&frame));
                if !sent {
                    self.stage = Stage::Over;
                }
            }
            Output::Close { code, reason } => self.close(code, &reason),
            Output::Drop => self.stage = Stage::Over,
            Output::DropWithin(frame) => {
                let form = self.shared.lock().form();
                self.stage = Stage::Cut {
                    tail: first_half(form, &frame),
                };
            }
            Output::StopReading { until } => self.reads_again_at = Some(until),
        }
    }

    fn close(&mut self, code: u16, reason: &str) {
        if self.stage != Stage::Open {
            return;
        }
        self.reads_again_at = None;
        self.stage = match self.socket.send_close(code, reason) {
            Ok(()) => Stage::Closing {
                until: Instant::now() + CLOSE_TIMEOUT,
            },
            Err(_) => Stage::Over,
        };
    }
}
