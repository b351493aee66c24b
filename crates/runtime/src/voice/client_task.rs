//! The task of one connected client: reads and writes both sockets, wakes at deadlines, and never waits for one of them while
//! another has something to do. Knows the order of a connection's stages; the session's work is [`Running`]'s.

mod starting;
mod traffic;

use super::beginning::Beginning;
use super::client_side::ClientSide;
use super::resume_registry::{LiveLeg, Visit};
use super::running::Running;
use super::timer::{FlagWatch, Timer};
use super::{Connection, VoiceService, unix_ms};
use crate::caller::Caller;
use crate::client_protocol::{AudioMode, ClientMessage, ServerMessage, TEXT_BYTES_MAX, parse};
use crate::pump::Microphone;
use crate::shares::Used;
use crate::transport::websocket::{Message, Reading, Role, Socket};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;
use traffic::Traffic;
use windlass_contract::envelope::rfc3339;
use windlass_session::client::{CancelWay, ClientEvent, ErrorCode};
use windlass_session::event::EndReason;

/// Further reads of a client's socket when the server begins to shut down.
const READINGS_BEFORE_SHUTDOWN_MAX: u32 = 16;

pub(super) struct ClientTask {
    service: Arc<VoiceService>,
    caller: Caller,
    traffic: Traffic,
    client: ClientSide,
    stage: Stage,
    timer: Timer,
    shutdown: FlagWatch,
    /// A session that has ended, and whose started changes may still run.
    finished: Option<Box<Running>>,
    /// The session that this connection's client resumes; the task that owns the session takes over.
    resumed: Option<Arc<LiveLeg>>,
    /// The connection's place among those that wait to begin, while it is one of them.
    lease: Option<Box<dyn Send>>,
}

enum Stage {
    AwaitingStart {
        until: Instant,
    },
    /// The store is asked for the contents of the conversation, or for the leg.
    Beginning {
        until: Instant,
        work: Beginning,
        audio: AudioMode,
    },
    Running(Box<Running>),
    Closing {
        until: Instant,
    },
}

impl ClientTask {
    pub(super) fn new(service: Arc<VoiceService>, connection: Connection) -> io::Result<Self> {
        let now = Instant::now();
        let settings = &service.settings;
        let socket = Socket::new(
            connection.stream,
            Role::Server,
            settings.client_socket,
            connection.already_read,
        )?;
        Ok(Self {
            client: ClientSide::new(socket, connection.caller.validity.clone(), now),
            caller: connection.caller,
            traffic: Traffic::new(connection.standing),
            stage: Stage::AwaitingStart {
                until: now + settings.start_timeout,
            },
            timer: Timer::new(now),
            shutdown: FlagWatch::new(service.shutdown.subscribe()),
            finished: None,
            resumed: None,
            lease: Some(connection.lease),
            service,
        })
    }

    /// Serves the client to its end.
    pub(super) async fn run(mut self) {
        self.client.say(&ServerMessage::Connected {
            client_id: self.caller.client_id.as_str(),
            timestamp: rfc3339(unix_ms()),
        });
        if let Some(reading) = self.client.socket().already_read() {
            self.read(reading, Instant::now());
        }
        poll_fn(|context| self.poll(context)).await;
        // Both sockets are closed before the last changes are waited for.
        let Self {
            client,
            finished,
            resumed,
            traffic,
            lease,
            ..
        } = self;
        if let Some(live) = resumed {
            return live.enter(Box::new(client));
        }
        // Tasks may run for hours, without a connected client.
        drop((client, traffic, lease));
        if let Some(running) = finished {
            running.finish().await;
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = Instant::now();
            if self.shutdown.poll_raised(context) {
                // Input that the client has already sent is read: an answer on its way counts.
                for _ in 0..READINGS_BEFORE_SHUTDOWN_MAX {
                    if !self.poll_client(context, now) {
                        break;
                    }
                }
                self.shut_down(now);
            }
            if self.client.poll_withdrawn(context) {
                self.turn_out(now);
            }
            self.look_after(now);
            let mut progressed = self.poll_visit(context, now);
            progressed |= self.poll_beginning(context, now);
            progressed |= self.poll_client(context, now);
            if self.resumed.is_some() {
                return Poll::Ready(());
            }
            if let Stage::Running(running) = &mut self.stage {
                progressed |= running.poll(context, &mut self.client, now);
                progressed |= running.poll_flush(context, &mut self.client, now);
            }
            progressed |= self.change_stage(context, now);
            self.client.poll_flush(context);
            progressed |= self.change_stage(context, now);
            if self.is_over(now) {
                return Poll::Ready(());
            }
            if progressed {
                continue;
            }
            let deadline = self.deadline();
            if self.timer.poll_until(context, now, deadline).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Takes in a client that resumes its session. Returns whether anything happened.
    fn poll_visit(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let Stage::Running(running) = &mut self.stage else {
            return false;
        };
        match running.visit(context) {
            None => false,
            Some(Visit::Closed) => {
                running.close(&mut self.client, now);
                true
            }
            Some(Visit::Client(side)) => {
                let mut old = std::mem::replace(&mut self.client, *side);
                old.close(1000, "the session goes on over another connection");
                old.poll_flush(context);
                self.client.heard(now);
                running.client_back(&mut self.client, now);
                if let Some(reading) = self.client.socket().already_read() {
                    self.read(reading, now);
                }
                true
            }
        }
    }

    /// Reads from the client once. Returns whether anything came.
    fn poll_client(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        // Input behind a start is for the session that it leads to.
        if self.client.is_gone() || self.is_beginning() || self.traffic.is_paused(now) {
            return false;
        }
        match self.client.socket().poll_read(context) {
            Poll::Pending => false,
            Poll::Ready(Ok(reading)) => {
                self.read(reading, now);
                true
            }
            Poll::Ready(Err(_)) => {
                self.client.give_up();
                true
            }
        }
    }

    fn read(&mut self, mut reading: Reading, now: Instant) {
        self.client.heard(now);
        while self.resumed.is_none() && !self.is_beginning() {
            match reading.next_message() {
                Ok(None) => break,
                Ok(Some(message)) => self.client_message(message, now),
                Err(error) => {
                    self.client.close(error.close_code(), &error.to_string());
                    self.client.peer_closed();
                    break;
                }
            }
        }
        self.client.socket().finish(reading);
        self.traffic.settle(now);
    }

    fn client_message(&mut self, message: Message<'_>, now: Instant) {
        self.traffic.count(&message);
        match message {
            Message::Close(_) => {
                self.client.close(1000, "");
                self.client.peer_closed();
            }
            _ if !self.client.is_open() => {}
            Message::Binary(pcm) => self.microphone(&pcm, now),
            Message::Text(text) if std::str::from_utf8(&text).is_err() => {
                // RFC 6455, section 8.1.
                self.client.close(1007, "a text message is not UTF-8");
            }
            Message::Text(text) => match parse(&text) {
                Ok(message) => self.parsed_message(message, now),
                Err(rejection) => self.bad_message(rejection.code, rejection.message),
            },
            Message::Ping(payload) => self.client.pong(payload),
            Message::Pong => {}
            Message::TooLarge { is_binary } => {
                let limits = self.service.settings.client_socket.messages;
                let message = if is_binary {
                    let limit = limits.binary_bytes_max;
                    format!("audio messages may have at most {limit} bytes")
                } else {
                    let with_image = limits.text_bytes_max;
                    format!(
                        "text messages may have at most {TEXT_BYTES_MAX} bytes, and those with an image {with_image}"
                    )
                };
                self.bad_message(ErrorCode::TooLarge, message);
            }
        }
    }

    fn parsed_message(&mut self, message: ClientMessage, now: Instant) {
        let event = match message {
            ClientMessage::Ping => {
                let timestamp = rfc3339(unix_ms());
                return self.client.say(&ServerMessage::Pong { timestamp });
            }
            ClientMessage::Audio(pcm) => return self.microphone(&pcm, now),
            ClientMessage::Start(start) => return self.start(start, now),
            ClientMessage::Text(text) => {
                if let Err(exceeded) = self.traffic.standing.take(Used::Turns, 1) {
                    return self
                        .client
                        .error(ErrorCode::Overloaded, exceeded.to_string());
                }
                ClientEvent::Text {
                    text,
                    message: None,
                }
            }
            ClientMessage::Image { data, .. }
                if data.expose().len() > self.service.settings.image_bytes_max =>
            {
                let limit = self.service.settings.image_bytes_max;
                let message = format!("an image may have at most {limit} bytes; make it smaller");
                return self.bad_message(ErrorCode::TooLarge, message);
            }
            ClientMessage::Image { mime_type, data } => ClientEvent::Image { mime_type, data },
            ClientMessage::TurnComplete => ClientEvent::TurnComplete,
            ClientMessage::Interrupt => ClientEvent::Interrupt,
            ClientMessage::Cancel(call) => ClientEvent::Cancel {
                call,
                way: CancelWay::Socket,
            },
            ClientMessage::Revoke(approval) => ClientEvent::Revoke { approval },
            ClientMessage::PlaybackDone => ClientEvent::PlaybackDone,
            ClientMessage::Stop => ClientEvent::Stop,
            ClientMessage::Confirm(answer) => {
                return match &mut self.stage {
                    Stage::Running(running) => {
                        running.confirm(&answer, &mut self.client, now);
                    }
                    Stage::AwaitingStart { .. } => self.not_started(),
                    Stage::Beginning { .. } | Stage::Closing { .. } => {}
                };
            }
        };
        match &mut self.stage {
            Stage::Running(running) => running.client_event(event, &mut self.client, now),
            Stage::AwaitingStart { .. } if event == ClientEvent::Stop => {
                self.client.say(&ServerMessage::Stopped);
                self.close(1000, "", now);
            }
            Stage::AwaitingStart { .. } => self.not_started(),
            Stage::Beginning { .. } | Stage::Closing { .. } => {}
        }
    }

    fn not_started(&mut self) {
        self.bad_message(ErrorCode::NotStarted, "the first message must be start");
    }

    fn microphone(&mut self, pcm: &[u8], now: Instant) {
        let Stage::Running(running) = &mut self.stage else {
            return self.not_started();
        };
        match running.microphone(pcm, &mut self.client, now) {
            Microphone::Pass | Microphone::Held | Microphone::Overflow { is_news: false } => {}
            Microphone::Overflow { is_news: true } => {
                let message =
                    "audio comes faster than it can have been spoken, so some was dropped";
                self.client.error(ErrorCode::AudioOverflow, message);
            }
            Microphone::Odd => {
                let message = "audio must be whole samples of 16 bits";
                self.bad_message(ErrorCode::BadAudio, message);
            }
        }
    }

    fn bad_message(&mut self, code: ErrorCode, message: impl Into<String>) {
        self.client.error(code, message);
        if self.client.count_bad_message(&self.service.settings) {
            self.client.close(1008, "too many bad messages");
        }
    }

    fn shut_down(&mut self, now: Instant) {
        match &mut self.stage {
            Stage::AwaitingStart { .. } | Stage::Beginning { .. } => {
                self.client
                    .error(ErrorCode::ShuttingDown, "the server is shutting down");
                self.close(1001, "the server is shutting down", now);
            }
            Stage::Running(running) => running.shut_down(&mut self.client, now),
            Stage::Closing { .. } => {}
        }
    }

    /// Ends the session of a client whose credential was withdrawn.
    fn turn_out(&mut self, now: Instant) {
        let code = ErrorCode::Unauthorized;
        let message = "the key with which this session began was revoked; sign in anew";
        self.client.error(code, message);
        match &mut self.stage {
            Stage::AwaitingStart { .. } | Stage::Beginning { .. } => {
                self.close(1008, code.as_str(), now);
            }
            Stage::Running(running) => {
                running.client_event(ClientEvent::Stop, &mut self.client, now);
            }
            Stage::Closing { .. } => {}
        }
    }

    fn close(&mut self, code: u16, reason: &str, now: Instant) {
        self.client.close(code, reason);
        self.stage = Stage::Closing {
            until: now + self.service.settings.close_timeout,
        };
    }

    /// Reacts to a lost client and to an ended session. Returns whether there was either.
    fn change_stage(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let Stage::Running(running) = &mut self.stage else {
            if matches!(self.stage, Stage::AwaitingStart { .. }) && !self.client.is_open() {
                self.close(1000, "", now);
                return true;
            }
            return false;
        };
        if !self.client.is_open() {
            running.client_lost(&mut self.client, now);
            if (self.client.is_gone() || self.client.has_parted())
                && !self.client.is_absent()
                && let Ok(nobody) = ClientSide::absent(&self.service.settings, now)
            {
                self.client = nobody;
            }
        }
        let Some(reason) = running.ended() else {
            return false;
        };
        let (code, text) = match reason {
            EndReason::Stopped | EndReason::Intent(_) | EndReason::ClientLost => (1000, ""),
            EndReason::ProviderLost => (1011, "the model's provider is gone"),
            EndReason::Shutdown => (1001, "the server is shutting down"),
        };
        running.leave();
        self.client.close(code, text);
        let until = now + self.service.settings.close_timeout;
        if let Stage::Running(mut running) =
            std::mem::replace(&mut self.stage, Stage::Closing { until })
        {
            running.say_goodbye(context);
            self.finished = Some(running);
        }
        true
    }

    /// Whether the close frame was sent, and the peer has answered it or had its time.
    fn is_over(&mut self, now: Instant) -> bool {
        match &self.stage {
            Stage::AwaitingStart { .. } | Stage::Beginning { .. } | Stage::Running(_) => false,
            Stage::Closing { until } => {
                now >= *until || self.client.is_gone() || self.client.has_parted()
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let of_stage = match &self.stage {
            Stage::AwaitingStart { until }
            | Stage::Beginning { until, .. }
            | Stage::Closing { until } => Some(*until),
            Stage::Running(running) => running.deadline(),
        };
        let of_client = self.client.deadline(&self.service.settings);
        let of_pause = self.traffic.paused_until();
        of_stage.into_iter().chain(of_client).chain(of_pause).min()
    }

    fn look_after(&mut self, now: Instant) {
        self.client.look_after(now, &self.service.settings);
        match &mut self.stage {
            Stage::AwaitingStart { until } if now >= *until => {
                let seconds = self.service.settings.start_timeout.as_secs();
                let message = format!("no start came within {seconds} seconds");
                self.client.error(ErrorCode::NotStarted, message);
                self.close(1008, "no start", now);
            }
            Stage::Running(running) => running.look_after(&mut self.client, now),
            Stage::Beginning { until, .. } if now >= *until => self.give_up_beginning(now),
            Stage::AwaitingStart { .. } | Stage::Beginning { .. } | Stage::Closing { .. } => {}
        }
    }
}
