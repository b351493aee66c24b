//! A client's input, limited to the shares of the parties that it speaks for: a client that sends more is read later. Knows no
//! message.

use crate::shares::{Standing, Used};
use crate::transport::websocket::Message;
use std::time::Duration;
use tokio::time::Instant;

/// Messages, and their bytes, that are charged at once: a second of speech, so that one frame of audio costs nothing to charge.
const FRAMES_AT_ONCE: u64 = 50;
const BYTES_AT_ONCE: u64 = 64 * 1024;

pub(super) struct Traffic {
    pub(super) standing: Standing,
    frames: u64,
    bytes: u64,
    paused_until: Option<Instant>,
}

impl Traffic {
    pub(super) fn new(standing: Standing) -> Self {
        Self {
            standing,
            frames: 0,
            bytes: 0,
            paused_until: None,
        }
    }

    pub(super) fn count(&mut self, message: &Message<'_>) {
        self.frames += 1;
        self.bytes += match message {
            Message::Binary(bytes) | Message::Text(bytes) => bytes.len() as u64,
            Message::Ping(_) | Message::Pong | Message::Close(_) | Message::TooLarge { .. } => 0,
        };
    }

    /// Charges the counted input, if it is enough, and delays the next reading if it was too much.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.frames < FRAMES_AT_ONCE && self.bytes < BYTES_AT_ONCE {
            return;
        }
        let frames = self
            .standing
            .spend(Used::Frames, std::mem::take(&mut self.frames));
        let bytes = self
            .standing
            .spend(Used::FrameBytes, std::mem::take(&mut self.bytes));
        let wait = frames.max(bytes);
        self.paused_until = (wait > Duration::ZERO).then(|| now + wait);
    }

    pub(super) fn is_paused(&mut self, now: Instant) -> bool {
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = None;
        }
        self.paused_until.is_some()
    }

    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }
}
