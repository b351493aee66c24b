//! The first message of a connection: instructions, voice, tools and speech detection. Knows the fields that a model's profile
//! forbids; the values are the configuration's.

use super::relatives::{VoiceLiveSession, XaiSession, usual_transcription, voice_type};
use crate::gemini_live::{Sensitivity, SpeechDetection};
use crate::openai_chat::ReasoningEffort;
use crate::profile::RealtimeForm;
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use windlass_contract::registry::Tool;
use windlass_session::model::{ModelProfile, Thinking};

/// The settings of a session for the model, sent once per connection.
#[derive(Clone, Copy, Debug)]
pub struct SetupRequest<'a> {
    pub form: RealtimeForm,
    pub model: &'a str,
    pub system_instruction: &'a str,
    pub tools: &'a DeclaredTools,
    pub voice: Option<&'a str>,
    /// A BCP 47 tag, which steers the transcription.
    pub language: Option<&'a str>,
    pub output_tokens_max: Option<u32>,
    /// Sent only if the profile has the field.
    pub reasoning_effort: Option<ReasoningEffort>,
    pub transcribe_input: bool,
    /// `None` for a model that suits the service; on Azure the name of a deployment.
    pub transcription_model: Option<&'a str>,
    pub speech_detection: SpeechDetection,
    /// Whether the user's speech interrupts the model.
    pub barge_in: bool,
    /// Whether the service forgets the oldest turns when its window is full; otherwise it refuses to go on.
    pub truncate: bool,
}

/// Declarations, ready to be copied into a setup. Make it once and share it.
#[derive(Clone, Debug, Default)]
pub struct DeclaredTools(Option<Arc<RawValue>>);

impl DeclaredTools {
    pub fn new<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>) -> Self {
        let declarations: Vec<&str> = tools
            .into_iter()
            .map(|tool| tool.declarations.openai_realtime.get())
            .collect();
        if declarations.is_empty() {
            return Self(None);
        }
        let text = RawValue::from_string(format!("[{}]", declarations.join(",")))
            .expect("declarations are JSON, joined as JSON");
        Self(Some(text.into()))
    }

    /// The declarations as they are sent, for estimating their share of the context; empty without tools.
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("", |text| text.get())
    }

    pub(super) fn raw(&self) -> Option<&RawValue> {
        self.0.as_deref()
    }
}

/// Names the setup in an error that the service sends about it.
pub(super) const SETUP_EVENT_ID: &str = "wl_setup";
/// Transcribes well and cheaply; the official agents' default.
const TRANSCRIPTION_MODEL: &str = "gpt-4o-mini-transcribe";
/// The service takes at most this many, or any number (`inf`).
const OUTPUT_TOKENS_MAX: u32 = 4_096;

#[derive(Serialize)]
struct Event<S> {
    #[serde(rename = "type")]
    kind: &'static str,
    event_id: &'static str,
    session: S,
}

#[derive(Serialize)]
struct Session<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    instructions: &'a str,
    output_modalities: [&'static str; 1],
    audio: Audio<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    truncation: &'static str,
}

#[derive(Serialize)]
struct Reasoning {
    effort: ReasoningEffort,
}

#[derive(Serialize)]
struct Audio<'a> {
    input: AudioInput<'a>,
    output: AudioOutput<'a>,
}

#[derive(Serialize)]
struct AudioInput<'a> {
    format: Format,
    transcription: Option<Transcription<'a>>,
    turn_detection: TurnDetection,
}

#[derive(Serialize)]
struct AudioOutput<'a> {
    format: Format,
    #[serde(skip_serializing_if = "Option::is_none")]
    voice: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    voice_type: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct Format {
    #[serde(rename = "type")]
    kind: &'static str,
    rate: u32,
}

/// The only rate that the service takes.
pub(super) const PCM: Format = Format {
    kind: "audio/pcm",
    rate: 24_000,
};

#[derive(Serialize)]
struct Transcription<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct TurnDetection {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) threshold: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prefix_padding_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) silence_duration_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) create_response: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interrupt_response: Option<bool>,
}

/// Appends the setup.
pub fn encode_setup(request: &SetupRequest<'_>, profile: &ModelProfile, frame: &mut Vec<u8>) {
    let written = match request.form {
        RealtimeForm::Openai | RealtimeForm::VoiceLiveV1 => write(session(request, profile), frame),
        RealtimeForm::Xai => write(XaiSession::new(request), frame),
        RealtimeForm::VoiceLive => write(VoiceLiveSession::new(request), frame),
    };
    written.expect("strings and JSON values always serialize");
}

fn write(session: impl Serialize, frame: &mut Vec<u8>) -> serde_json::Result<()> {
    let event = Event {
        kind: "session.update",
        event_id: SETUP_EVENT_ID,
        session,
    };
    serde_json::to_writer(frame, &event)
}

fn session<'a>(request: &SetupRequest<'a>, profile: &ModelProfile) -> Session<'a> {
    let tools = request.tools.raw();
    let is_azure = request.form == RealtimeForm::VoiceLiveV1;
    let transcription_model = match is_azure {
        true => usual_transcription(request.model),
        false => TRANSCRIPTION_MODEL,
    };
    Session {
        kind: "realtime",
        instructions: request.system_instruction,
        output_modalities: ["audio"],
        audio: Audio {
            input: AudioInput {
                format: PCM,
                transcription: request.transcribe_input.then(|| Transcription {
                    model: request.transcription_model.unwrap_or(transcription_model),
                    language: request.language.map(primary_language),
                }),
                turn_detection: turn_detection(request),
            },
            output: AudioOutput {
                format: PCM,
                voice: request.voice,
                voice_type: request.voice.filter(|_| is_azure).map(voice_type),
            },
        },
        tool_choice: tools.map(|_| "auto"),
        tools,
        max_output_tokens: request
            .output_tokens_max
            .filter(|max| *max <= OUTPUT_TOKENS_MAX),
        reasoning: request
            .reasoning_effort
            .filter(|_| profile.thinking == Thinking::Level)
            .map(|effort| Reasoning { effort }),
        truncation: if request.truncate { "auto" } else { "disabled" },
    }
}

/// The service takes the language alone, as ISO 639-1.
pub(super) fn primary_language(tag: &str) -> &str {
    tag.split('-').next().unwrap_or(tag)
}

/// Sensitivities are the service's threshold, whose own value is 0.5, and the silence that ends speech.
pub(super) fn turn_detection(request: &SetupRequest<'_>) -> TurnDetection {
    let detection = &request.speech_detection;
    TurnDetection {
        kind: "server_vad",
        threshold: detection.start_sensitivity.map(|start| match start {
            Sensitivity::High => 0.3,
            Sensitivity::Low => 0.7,
        }),
        prefix_padding_ms: detection.prefix_padding_ms,
        silence_duration_ms: detection.silence_ms.or_else(|| {
            detection.end_sensitivity.map(|end| match end {
                Sensitivity::High => 300,
                Sensitivity::Low => 900,
            })
        }),
        create_response: Some(true),
        interrupt_response: Some(request.barge_in),
    }
}
