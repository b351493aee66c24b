//! Gemini Live as a live provider: opens connections together with their codec. Takes addresses and setups as given; the protocol
//! is the codec's.

use crate::codec::{Codec, LiveProvider, OpenRequest, Opening, Sink};
use crate::transport::websocket::{self, MessageLimits, SocketLimits, Target};
use http::header::{HeaderName, HeaderValue};
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::sensitive::Sensitive;
use windlass_provider::gemini_live::address::Address;
use windlass_provider::gemini_live::{
    self, CloseClass, Compression, DeclaredTools, SetupRequest, SpeechDetection, ThinkingLevel,
    classify_close, encode_audio, encode_setup,
};
use windlass_session::model::{LostReason, ModelCommand, ModelEvent};

/// Settings that all sessions with one model share.
#[derive(Clone, Debug)]
pub struct GeminiLiveSettings {
    pub target: Target,
    /// The model's resource name.
    pub model: String,
    /// Whether the target's headers hold a key of the configuration's.
    pub has_key: bool,
    /// The time from the first byte to the upgrade.
    pub connect_timeout: Duration,
    pub voice: Option<String>,
    pub language: Option<String>,
    pub temperature: Option<f64>,
    pub output_tokens_max: Option<u32>,
    pub thinking_level: Option<ThinkingLevel>,
    pub thinking_budget: Option<u32>,
    pub transcribe_input: bool,
    pub transcribe_output: bool,
    pub speech_detection: SpeechDetection,
    pub barge_in: bool,
    pub compression: Option<Compression>,
}

/// The provider of one session.
#[derive(Clone, Debug)]
pub struct GeminiLive {
    pub settings: Arc<GeminiLiveSettings>,
    pub system_instruction: Arc<str>,
    /// Shared by all sessions of one registry, mode and model.
    pub tools: DeclaredTools,
}

/// Bytes of the largest expected message of the service; its clients take 1 MiB, and bursts of audio are long.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

const SOCKET_LIMITS: SocketLimits = SocketLimits {
    messages: MessageLimits {
        text_bytes_max: MESSAGE_BYTES_MAX,
        binary_bytes_max: MESSAGE_BYTES_MAX,
    },
    // Ten seconds of buffered microphone audio in base64 must fit.
    queued_audio_bytes_max: 512 * 1024,
    queued_bytes_max: 4 << 20,
};

/// The reason why an address cannot be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value of the provider's header {name} holds characters that no header can carry")]
pub struct HeaderError {
    pub name: &'static str,
}

/// The codec's address as a target. Header values are marked so that they are never printed.
pub fn target(address: &Address) -> Result<Target, HeaderError> {
    let headers = address.headers.iter().map(|(name, value)| {
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| HeaderError { name })?;
        value.set_sensitive(true);
        Ok((HeaderName::from_static(name), value))
    });
    Ok(Target {
        url: address.url.clone(),
        headers: headers.collect::<Result<_, _>>()?,
    })
}

impl LiveProvider for GeminiLive {
    fn has_key(&self) -> bool {
        self.settings.has_key
    }

    fn open(&self, request: OpenRequest<'_>) -> Opening {
        let settings = self.settings.clone();
        let codec = Connection {
            codec: gemini_live::Codec::new((*request.session.profile).clone()),
            provider: self.clone(),
            resumption_handle: request.resumption_handle.cloned(),
            history_follows: request.history_follows,
        };
        Opening {
            connecting: Box::pin(async move {
                let timeout = settings.connect_timeout;
                websocket::connect(&settings.target, SOCKET_LIMITS, timeout).await
            }),
            codec: Box::new(codec),
        }
    }
}

struct Connection {
    codec: gemini_live::Codec,
    provider: GeminiLive,
    resumption_handle: Option<Sensitive<String>>,
    history_follows: bool,
}

impl Codec for Connection {
    fn encode_setup(&mut self, frame: &mut Vec<u8>) {
        let settings = &self.provider.settings;
        let request = SetupRequest {
            model: &settings.model,
            system_instruction: &self.provider.system_instruction,
            tools: &self.provider.tools,
            voice: settings.voice.as_deref(),
            language: settings.language.as_deref(),
            temperature: settings.temperature,
            output_tokens_max: settings.output_tokens_max,
            thinking_level: settings.thinking_level,
            thinking_budget: settings.thinking_budget,
            transcribe_input: settings.transcribe_input,
            transcribe_output: settings.transcribe_output,
            speech_detection: settings.speech_detection,
            barge_in: settings.barge_in,
            resumption_handle: self.resumption_handle.as_ref(),
            compression: settings.compression,
            history_follows: self.history_follows,
        };
        encode_setup(&request, self.codec.profile(), frame);
    }

    fn decode(&mut self, frame: &[u8], sink: &mut dyn Sink) {
        self.codec.decode(frame, &mut Passed(sink));
    }

    fn encode(&mut self, command: &ModelCommand, frames: &mut Vec<Vec<u8>>) {
        self.codec.encode(command, frames);
    }

    fn encode_audio(&mut self, pcm: &[u8], frame: &mut Vec<u8>) {
        encode_audio(pcm, frame);
    }

    fn close_reason(&self, code: u16, reason: String) -> LostReason {
        match classify_close(code, &reason) {
            CloseClass::Auth => LostReason::Unauthorized,
            CloseClass::Normal
            | CloseClass::InvalidContent
            | CloseClass::Policy { .. }
            | CloseClass::ServerFault
            | CloseClass::Quota => LostReason::Closed { code, reason },
        }
    }
}

/// The codec's sink, passed on to the driver's.
struct Passed<'a>(&'a mut dyn Sink);

impl gemini_live::Sink for Passed<'_> {
    fn event(&mut self, event: ModelEvent) {
        self.0.event(event);
    }

    fn audio(&mut self, pcm: &[u8]) {
        self.0.audio(pcm);
    }
}
