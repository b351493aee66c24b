//! The messages between a voice client and the server, as JSON (`docs/voice-protocol.md`). Owns their shapes and limits; knows
//! no socket and no session.

mod incoming;
mod outgoing;

pub use incoming::{
    AudioMode, ClientMessage, ConfirmAnswer, NO_APPROVAL_ID, NO_CALL_ID, Rejection, Start, parse,
    sent_input,
};
pub use outgoing::{ServerMessage, of_event, of_question, of_update, offer_json, standing_json};

use crate::transport::websocket::MessageLimits;

/// Bytes of a text message without a picture.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// The size limits for messages of a client that may show pictures of this size.
pub const fn message_limits(image_bytes_max: usize) -> MessageLimits {
    /// Bytes of the message around a picture's base64.
    const AROUND_IMAGE: usize = 1_024;
    let with_image = image_bytes_max.div_ceil(3) * 4 + AROUND_IMAGE;
    MessageLimits {
        text_bytes_max: if with_image > TEXT_BYTES_MAX {
            with_image
        } else {
            TEXT_BYTES_MAX
        },
        binary_bytes_max: AUDIO_BYTES_MAX,
    }
}

/// Bytes of PCM in one message.
pub const AUDIO_BYTES_MAX: usize = 64 * 1024;
