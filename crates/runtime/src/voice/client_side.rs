//! The client's socket and its state: the form of audio, the number of bad messages, the time of its last sign of life, and
//! whether its credential still counts.
//! Knows no session.

use super::VoiceSettings;
use super::timer::FlagWatch;
use crate::caller::Validity;
use crate::client_protocol::{AudioMode, ServerMessage};
use crate::transport::websocket::{AudioForm, Role, Socket};
use std::io;
use std::task::{Context, Poll};
use tokio::time::Instant;
use windlass_session::client::ErrorCode;

pub(super) struct ClientSide {
    socket: Socket,
    pub(super) audio: AudioMode,
    bad_messages: u32,
    heard_at: Instant,
    is_pinged: bool,
    has_peer_closed: bool,
    is_absent: bool,
    /// Raised when the client's key is withdrawn; `None` without a key.
    withdrawn: Option<FlagWatch>,
    state: ClientState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    Open,
    /// Nothing more goes out, and input is ignored.
    Closing,
    Gone,
}

impl ClientSide {
    pub(super) fn new(socket: Socket, validity: Validity, now: Instant) -> Self {
        Self {
            socket,
            audio: AudioMode::default(),
            bad_messages: 0,
            heard_at: now,
            is_pinged: false,
            has_peer_closed: false,
            is_absent: false,
            withdrawn: validity.withdrawal().map(FlagWatch::new),
            state: ClientState::Open,
        }
    }

    /// An absent client. It takes the place of a client, whose socket is closed by that.
    pub(super) fn absent(settings: &VoiceSettings, now: Instant) -> io::Result<Self> {
        let nothing = Box::new(tokio::io::empty());
        let socket = Socket::new(nothing, Role::Server, settings.client_socket, Vec::new())?;
        Ok(Self {
            is_absent: true,
            state: ClientState::Gone,
            ..Self::new(socket, Validity::default(), now)
        })
    }

    /// Whether the client's credential has just been withdrawn.
    pub(super) fn poll_withdrawn(&mut self, context: &mut Context<'_>) -> bool {
        let withdrawn = self.withdrawn.as_mut();
        withdrawn.is_some_and(|withdrawn| withdrawn.poll_raised(context))
    }

    pub(super) fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == ClientState::Open
    }

    pub(super) fn is_absent(&self) -> bool {
        self.is_absent
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state == ClientState::Gone
    }

    /// The connection is lost, or its peer is stuck; nothing more can be sent.
    pub(super) fn give_up(&mut self) {
        self.state = ClientState::Gone;
    }

    pub(super) fn say(&mut self, message: &ServerMessage<'_>) {
        // A client that reads slowly misses pieces of results, which come whole, and stays.
        let is_piece = matches!(message, ServerMessage::ToolOutput { .. });
        if is_piece && self.socket.is_congested() {
            return;
        }
        if self.is_open() && self.socket.send_text(|bytes| message.write(bytes)).is_err() {
            self.give_up();
        }
    }

    /// Sends a message that was written before.
    pub(super) fn repeat(&mut self, message: &[u8]) {
        if self.is_open()
            && self
                .socket
                .send_text(|bytes| bytes.extend_from_slice(message))
                .is_err()
        {
            self.give_up();
        }
    }

    pub(super) fn error(&mut self, code: ErrorCode, message: impl Into<String>) {
        self.say(&ServerMessage::error(code, message.into()));
    }

    /// Sends a piece of the model's voice. Returns false if it was dropped.
    #[must_use]
    pub(super) fn speak(&mut self, pcm: &[u8]) -> bool {
        if !self.is_open() {
            return false;
        }
        match self.audio {
            AudioMode::Binary => self
                .socket
                .send_audio(AudioForm::Binary, |bytes| bytes.extend_from_slice(pcm)),
            AudioMode::Json => self.socket.send_audio(AudioForm::Text, |bytes| {
                bytes.extend_from_slice(br#"{"type":"audio","data":""#);
                base64_simd::STANDARD.encode_append(pcm, bytes);
                bytes.extend_from_slice(br#""}"#);
            }),
        }
    }

    pub(super) fn pong(&mut self, payload: &[u8]) {
        if self.is_open() && self.socket.send_pong(payload).is_err() {
            self.give_up();
        }
    }

    pub(super) fn heard(&mut self, now: Instant) {
        self.heard_at = now;
        self.is_pinged = false;
    }

    /// Counts a bad message. Returns true if it is one too many.
    pub(super) fn count_bad_message(&mut self, settings: &VoiceSettings) -> bool {
        self.bad_messages += 1;
        self.bad_messages >= settings.bad_messages_max
    }

    /// Sends the close frame. Later input is read and ignored, so that the peer gets the queue.
    pub(super) fn close(&mut self, code: u16, reason: &str) {
        if self.is_open() {
            self.state = match self.socket.send_close(code, reason) {
                Ok(()) => ClientState::Closing,
                Err(_) => ClientState::Gone,
            };
        }
    }

    /// Notes that the peer has sent its close frame, or can never be read again.
    pub(super) fn peer_closed(&mut self) {
        self.has_peer_closed = true;
    }

    /// Whether both sides have sent their close frames, and ours has left.
    pub(super) fn has_parted(&self) -> bool {
        self.has_peer_closed && !self.socket.has_waiting()
    }

    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) {
        if self.state != ClientState::Gone
            && let Poll::Ready(Err(_)) = self.socket.poll_flush(context)
        {
            self.give_up();
        }
    }

    /// The time at which the client is next to be looked after.
    pub(super) fn deadline(&self, settings: &VoiceSettings) -> Option<Instant> {
        if !self.is_open() {
            return None;
        }
        let silence = if self.is_pinged {
            settings.client_silence_timeout
        } else {
            settings.client_ping_after
        };
        let stall = self
            .socket
            .stalled_since()
            .map(|since| since + settings.client_stall_timeout);
        Some(stall.map_or(self.heard_at + silence, |stall| {
            stall.min(self.heard_at + silence)
        }))
    }

    /// Pings a silent client, and gives up one that takes nothing or has been silent for too long.
    pub(super) fn look_after(&mut self, now: Instant, settings: &VoiceSettings) {
        if !self.is_open() {
            return;
        }
        let is_stuck = self
            .socket
            .stalled_since()
            .is_some_and(|since| now >= since + settings.client_stall_timeout);
        let silence = now.saturating_duration_since(self.heard_at);
        if is_stuck || silence >= settings.client_silence_timeout {
            self.give_up();
        } else if silence >= settings.client_ping_after && !self.is_pinged {
            self.is_pinged = true;
            if self.socket.send_ping().is_err() {
                self.give_up();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_contract::id::CallNumber;

    #[test]
    fn a_client_that_reads_slowly_misses_pieces_and_stays() {
        let (ours, _theirs) = tokio::io::duplex(64);
        let limits = VoiceSettings::default().client_socket;
        let socket = Socket::new(Box::new(ours), Role::Server, limits, Vec::new()).unwrap();
        let mut client = ClientSide::new(socket, Validity::default(), Instant::now());
        let data = json!("x".repeat(16_000));
        for sequence in 1..=200 {
            client.say(&ServerMessage::ToolOutput {
                call_id: CallNumber(1),
                sequence,
                data: &data,
            });
        }
        assert!(client.is_open() && client.socket.is_congested());
        // A message that must not be dropped still finds room.
        client.say(&ServerMessage::Stopped);
        assert!(client.is_open());
    }
}
