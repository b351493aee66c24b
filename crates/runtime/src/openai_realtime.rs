//! OpenAI Realtime as a live provider: opens connections together with their codec. Takes addresses and setups as given; the
//! protocol is the codec's.

use crate::codec::{Codec, LiveProvider, OpenRequest, Opening, Sink};
use crate::transport::websocket::{self, MessageLimits, SocketLimits, Target};
use std::sync::Arc;
use std::time::Duration;
use windlass_provider::gemini_live::SpeechDetection;
use windlass_provider::openai_chat::ReasoningEffort;
use windlass_provider::openai_realtime::{
    self, DeclaredTools, Options, SetupRequest, encode_setup,
};
use windlass_provider::profile::RealtimeForm;
use windlass_session::model::{LostReason, ModelCommand, ModelEvent, ModelProfile};

/// Settings that all sessions with one model share.
#[derive(Clone, Debug)]
pub struct OpenaiRealtimeSettings {
    pub target: Target,
    pub form: RealtimeForm,
    pub model: String,
    /// Whether the target's headers hold a key of the configuration's.
    pub has_key: bool,
    /// The time from the first byte to the upgrade.
    pub connect_timeout: Duration,
    pub voice: Option<String>,
    pub language: Option<String>,
    pub output_tokens_max: Option<u32>,
    pub reasoning_effort: Option<ReasoningEffort>,
    pub transcribe_input: bool,
    pub transcription_model: Option<String>,
    pub speech_detection: SpeechDetection,
    pub barge_in: bool,
    /// Whether the oldest turns are forgotten when the window is full.
    pub truncate: bool,
}

/// The provider of one session.
#[derive(Clone, Debug)]
pub struct OpenaiRealtime {
    pub settings: Arc<OpenaiRealtimeSettings>,
    pub system_instruction: Arc<str>,
    /// Shared by all sessions of one registry and mode.
    pub tools: DeclaredTools,
}

/// Bytes of the largest expected event of the service; its own clients take as much.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

const SOCKET_LIMITS: SocketLimits = SocketLimits {
    messages: MessageLimits {
        text_bytes_max: MESSAGE_BYTES_MAX,
        binary_bytes_max: MESSAGE_BYTES_MAX,
    },
    // Ten seconds of buffered microphone audio at 24 kHz in base64 must fit.
    queued_audio_bytes_max: 768 * 1024,
    queued_bytes_max: 4 << 20,
};

impl LiveProvider for OpenaiRealtime {
    fn has_key(&self) -> bool {
        self.settings.has_key
    }

    fn open(&self, request: OpenRequest<'_>) -> Opening {
        let settings = self.settings.clone();
        let defaults = Options::default();
        let codec = openai_realtime::Codec::new(Options {
            form: settings.form,
            barge_in: settings.barge_in,
            silence_ms: settings
                .speech_detection
                .silence_ms
                .unwrap_or(defaults.silence_ms),
        });
        Opening {
            codec: Box::new(Connection {
                codec,
                profile: request.session.profile.clone(),
                provider: self.clone(),
            }),
            connecting: Box::pin(async move {
                let timeout = settings.connect_timeout;
                websocket::connect(&settings.target, SOCKET_LIMITS, timeout).await
            }),
        }
    }
}

struct Connection {
    codec: openai_realtime::Codec,
    profile: Arc<ModelProfile>,
    provider: OpenaiRealtime,
}

impl Codec for Connection {
    fn encode_setup(&mut self, frame: &mut Vec<u8>) {
        let settings = &self.provider.settings;
        let request = SetupRequest {
            form: settings.form,
            model: &settings.model,
            system_instruction: &self.provider.system_instruction,
            tools: &self.provider.tools,
            voice: settings.voice.as_deref(),
            language: settings.language.as_deref(),
            output_tokens_max: settings.output_tokens_max,
            reasoning_effort: settings.reasoning_effort,
            transcribe_input: settings.transcribe_input,
            transcription_model: settings.transcription_model.as_deref(),
            speech_detection: settings.speech_detection,
            barge_in: settings.barge_in,
            truncate: settings.truncate,
        };
        encode_setup(&request, &self.profile, frame);
    }

    fn decode(&mut self, frame: &[u8], sink: &mut dyn Sink) {
        self.codec.decode(frame, &mut Passed(sink));
    }

    fn react(&mut self, frames: &mut Vec<Vec<u8>>) -> Result<(), LostReason> {
        self.codec.react(frames)
    }

    fn encode(&mut self, command: &ModelCommand, frames: &mut Vec<Vec<u8>>) {
        self.codec.encode(command, frames);
    }

    fn encode_audio(&mut self, pcm: &[u8], frame: &mut Vec<u8>) {
        self.codec.encode_audio(pcm, frame);
    }

    fn close_reason(&self, code: u16, reason: String) -> LostReason {
        openai_realtime::close_reason(code, reason)
    }

    fn lifetime(&self) -> Option<Duration> {
        Some(openai_realtime::SESSION_LIFETIME)
    }

    fn discard(&mut self, unplayed: Duration, frames: &mut Vec<Vec<u8>>) {
        self.codec.discard(unplayed, frames);
    }
}

/// The codec's sink, passed on to the driver's.
struct Passed<'a>(&'a mut dyn Sink);

impl openai_realtime::Sink for Passed<'_> {
    fn event(&mut self, event: ModelEvent) {
        self.0.event(event);
    }

    fn audio(&mut self, pcm: &[u8]) {
        self.0.audio(pcm);
    }

    fn unplayed(&self) -> Duration {
        self.0.unplayed()
    }
}
