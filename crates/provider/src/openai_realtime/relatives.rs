//! The setups of services whose protocol is like OpenAI's. xAI's: <https://docs.x.ai/docs/guides/voice/agent>. That of Azure
//! Voice Live is the one of OpenAI's beta, but for version `v1`
//! (Azure/azure-rest-api-specs:specification/ai/data-plane/VoiceLive/v1):
//! <https://learn.microsoft.com/azure/ai-services/speech-service/voice-live-how-to>.

use super::setup::{Format, PCM, SetupRequest, TurnDetection, primary_language, turn_detection};
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
pub(super) struct XaiSession<'a> {
    instructions: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    voice: Option<&'a str>,
    turn_detection: TurnDetection,
    audio: XaiAudio<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct XaiAudio<'a> {
    input: XaiInput<'a>,
    output: XaiOutput,
}

#[derive(Serialize)]
struct XaiInput<'a> {
    format: Format,
    #[serde(skip_serializing_if = "Option::is_none")]
    transcription: Option<XaiTranscription<'a>>,
}

#[derive(Serialize)]
struct XaiOutput {
    format: Format,
}

/// The transcription settings; xAI transcribes without them, too.
#[derive(Serialize)]
struct XaiTranscription<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language_hint: Option<&'a str>,
}

impl<'a> XaiSession<'a> {
    pub(super) fn new(request: &SetupRequest<'a>) -> Self {
        let (model, language_hint) = (request.transcription_model, request.language);
        Self {
            instructions: request.system_instruction,
            voice: request.voice,
            turn_detection: TurnDetection {
                create_response: None,
                interrupt_response: None,
                ..turn_detection(request)
            },
            audio: XaiAudio {
                input: XaiInput {
                    format: PCM,
                    transcription: (model.is_some() || language_hint.is_some()).then_some(
                        XaiTranscription {
                            model,
                            language_hint,
                        },
                    ),
                },
                output: XaiOutput { format: PCM },
            },
            tools: request.tools.raw(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct VoiceLiveSession<'a> {
    modalities: [&'static str; 2],
    instructions: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    voice: Option<Voice<'a>>,
    input_audio_format: &'static str,
    output_audio_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_audio_transcription: Option<Transcription<'a>>,
    turn_detection: TurnDetection,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_response_output_tokens: Option<u32>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Voice<'a> {
    Openai(&'a str),
    Azure {
        name: &'a str,
        #[serde(rename = "type")]
        kind: &'static str,
    },
}

impl<'a> Voice<'a> {
    fn of(name: &'a str) -> Self {
        match voice_type(name) {
            OPENAI_VOICE => Self::Openai(name),
            kind => Self::Azure { name, kind },
        }
    }
}

const OPENAI_VOICE: &str = "openai";

/// Names of Azure voices have their language in front, as in `en-US-AvaNeural`.
pub(super) fn voice_type(name: &str) -> &'static str {
    match name.contains('-') {
        true => "azure-standard",
        false => OPENAI_VOICE,
    }
}

#[derive(Serialize)]
struct Transcription<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'a str>,
}

/// The transcription model for models that hear audio. The others have a service of their own.
const TRANSCRIPTION_MODEL: &str = "gpt-4o-mini-transcribe";
const AZURE_SPEECH: &str = "azure-speech";

/// The transcription for a session that names none.
pub(super) fn usual_transcription(model: &str) -> &'static str {
    match model.starts_with("gpt-realtime") {
        true => TRANSCRIPTION_MODEL,
        false => AZURE_SPEECH,
    }
}

impl<'a> VoiceLiveSession<'a> {
    pub(super) fn new(request: &SetupRequest<'a>) -> Self {
        let usual = usual_transcription(request.model);
        let detection = turn_detection(request);
        let tools = request.tools.raw();
        Self {
            modalities: ["text", "audio"],
            instructions: request.system_instruction,
            voice: request.voice.map(Voice::of),
            input_audio_format: "pcm16",
            output_audio_format: "pcm16",
            input_audio_transcription: request.transcribe_input.then(|| Transcription {
                model: request.transcription_model.unwrap_or(usual),
                language: request.language.map(primary_language),
            }),
            turn_detection: match request.barge_in {
                true => TurnDetection {
                    interrupt_response: None,
                    ..detection
                },
                // Only this kind has a setting against interruption.
                false => TurnDetection {
                    kind: "azure_semantic_vad",
                    ..detection
                },
            },
            tool_choice: tools.map(|_| "auto"),
            tools,
            max_response_output_tokens: request.output_tokens_max,
        }
    }
}
