//! Gemini Live (`BidiGenerateContent`): one connection's codec with its setup, addresses and close
//! codes. Does no IO and decides nothing: policies are the session's, retries the driver's.

pub mod address;
mod answer;
mod audio;
mod call;
mod close;
mod decode;
mod encode;
mod setup;
mod wire;

pub use audio::encode_audio;
pub use close::{CloseClass, classify_close};
pub use decode::Sink;
pub use setup::{
    Compression, DeclaredTools, Sensitivity, SetupRequest, SpeechDetection, ThinkingLevel,
    encode_setup,
};

use decode::DecoderState;
use windlass_session::model::{ModelCommand, ModelProfile};

/// The codec of one connection. Make a new one for each: provider ids, runs of audio and calls that wait for their
/// message are the connection's own.
#[derive(Debug)]
pub struct Codec {
    profile: ModelProfile,
    decoder: DecoderState,
}

impl Codec {
    pub fn new(profile: ModelProfile) -> Self {
        Self {
            profile,
            decoder: DecoderState::default(),
        }
    }

    pub fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    /// Reads one frame of the server, text or binary, and passes its contents to the sink, in the order in which they are to be
    /// acted on. Never fails: an unreadable frame becomes [`ModelEvent::Malformed`], an unknown one becomes
    /// [`ModelEvent::Unknown`].
    ///
    /// [`ModelEvent::Malformed`]: windlass_session::model::ModelEvent::Malformed
    /// [`ModelEvent::Unknown`]: windlass_session::model::ModelEvent::Unknown
    pub fn decode(&mut self, frame: &[u8], sink: &mut impl Sink) {
        self.decoder.decode(frame, sink);
    }

    /// Appends the frames that carry a command, each one JSON text to be sent as a text message, in this order.
    pub fn encode(&mut self, command: &ModelCommand, frames: &mut Vec<Vec<u8>>) {
        self.decoder.expect_answer(command);
        encode::encode(command, &self.profile, frames);
    }
}
