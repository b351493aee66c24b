//! The messages between a voice client and the server, as JSON (contract, section 18). Owns their shapes and limits; knows
//! no socket and no session.

mod incoming;
mod outgoing;

pub use incoming::{AudioMode, ClientMessage, Rejection, Start, parse};
pub use outgoing::{ServerMessage, of_event, of_question, of_update};

use crate::transport::websocket::MessageLimits;

/// Largest messages of a client.
pub const LIMITS: MessageLimits = MessageLimits {
    text_bytes_max: 1 << 20,
    binary_bytes_max: AUDIO_BYTES_MAX,
};

/// Bytes of PCM in one message.
pub const AUDIO_BYTES_MAX: usize = 64 * 1024;
