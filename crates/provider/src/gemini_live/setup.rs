//! The first message of a connection: the model, its voice, its tools and its speech detection. Knows the fields that a model
//! profile forbids; the values are the configuration's.

use crate::provider_tools::{ProviderTool, beside};
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use windlass_contract::kind::Behavior;
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_session::model::{CallSupport, DeclarationForm, HistoryInput, ModelProfile, Thinking};

/// The settings of a session for the model, sent once per connection. Settings that the profile does not support are left out.
#[derive(Clone, Copy, Debug)]
pub struct SetupRequest<'a> {
    /// The resource name: [`Backend::model_name`](super::address::Backend::model_name).
    pub model: &'a str,
    pub system_instruction: &'a str,
    pub tools: &'a DeclaredTools,
    pub voice: Option<&'a str>,
    /// A BCP 47 tag.
    pub language: Option<&'a str>,
    pub temperature: Option<f64>,
    pub output_tokens_max: Option<u32>,
    pub thinking_level: Option<ThinkingLevel>,
    /// Tokens; 0 turns thinking off.
    pub thinking_budget: Option<u32>,
    pub transcribe_input: bool,
    pub transcribe_output: bool,
    pub speech_detection: SpeechDetection,
    /// Whether the user's speech interrupts the model.
    pub barge_in: bool,
    /// Resumes a session. Its history is not sent again.
    pub resumption_handle: Option<&'a Sensitive<String>>,
    pub compression: Option<Compression>,
    /// A `History` command will follow. If the profile wants that announced, the service then waits for it.
    pub history_follows: bool,
}

/// How the service finds speech. `None` leaves a value to the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeechDetection {
    pub start_sensitivity: Option<Sensitivity>,
    pub end_sensitivity: Option<Sensitivity>,
    /// Milliseconds of speech before its start counts, and so the shortest speech that interrupts.
    pub prefix_padding_ms: Option<u32>,
    /// Milliseconds of silence before the end of speech counts.
    pub silence_ms: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sensitivity {
    High,
    Low,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all(serialize = "SCREAMING_SNAKE_CASE", deserialize = "snake_case"))]
pub enum ThinkingLevel {
    /// No thinking. Gemini has no such level; it is never sent one.
    None,
    Minimal,
    Low,
    Medium,
    High,
    /// More than high. Gemini has no such level; its highest is sent.
    #[serde(rename(serialize = "HIGH", deserialize = "xhigh"))]
    ExtraHigh,
    /// More than high, sent as the highest, too.
    #[serde(rename(serialize = "HIGH", deserialize = "max"))]
    Max,
}

/// Keeps a session alive past its window by forgetting the oldest turns. `None` leaves a size to the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compression {
    pub trigger_tokens: Option<u64>,
    /// The size after a compression; less than the trigger.
    pub target_tokens: Option<u64>,
}

const OPENING: &str = r#"[{"functionDeclarations":["#;
const CLOSING: &str = "]}]";

/// The tools of a setup as text. It is the same for every session of one registry, mode and profile, so make it once and
/// share it.
#[derive(Clone, Debug, Default)]
pub struct DeclaredTools(Option<Arc<RawValue>>);

impl DeclaredTools {
    /// Declares these tools in their order, each with the behaviour that the profile lets it have.
    pub fn new<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>, profile: &ModelProfile) -> Self {
        let mut text = String::from(OPENING);
        for tool in tools {
            let declaration = match profile.declaration {
                DeclarationForm::GeminiJson => &tool.declarations.gemini_json,
                // The declaration forms of other providers do not apply here.
                DeclarationForm::GeminiNative
                | DeclarationForm::Openai
                | DeclarationForm::OpenaiRealtime => &tool.declarations.gemini_native,
            };
            if text.len() > OPENING.len() {
                text.push(',');
            }
            push_declaration(
                declaration.get(),
                behavior(tool.behavior, profile.calls),
                &mut text,
            );
        }
        if text.len() == OPENING.len() {
            return Self(None);
        }
        text.push_str(CLOSING);
        let text = RawValue::from_string(text).expect("declarations are JSON, joined as JSON");
        Self(Some(text.into()))
    }

    /// Adds the provider's own tools to these.
    pub fn beside(self, own: &[ProviderTool]) -> Self {
        Self(beside(self.0, own, ProviderTool::declaration))
    }

    /// The declarations as they are sent, for estimating their share of the context; empty without tools.
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("", |text| text.get())
    }
}

fn behavior(behavior: Behavior, calls: CallSupport) -> Option<&'static str> {
    match (calls, behavior) {
        (CallSupport::BlockingOnly, _) => None,
        // The model waits for a call that is answered as soon as it has begun.
        (CallSupport::Both, Behavior::Blocking | Behavior::Background) => Some("BLOCKING"),
        (CallSupport::Both, Behavior::NonBlocking) | (CallSupport::NonBlockingOnly, _) => {
            Some("NON_BLOCKING")
        }
    }
}

/// Writes a declaration with its behaviour as the first field.
fn push_declaration(declaration: &str, behavior: Option<&'static str>, text: &mut String) {
    let fields = declaration.trim_start().strip_prefix('{');
    let (Some(fields), Some(behavior)) = (fields, behavior) else {
        text.push_str(declaration);
        return;
    };
    text.push_str("{\"behavior\":\"");
    text.push_str(behavior);
    text.push('"');
    if !fields.trim_start().starts_with('}') {
        text.push(',');
    }
    text.push_str(fields);
}

/// Appends the setup frame: one JSON text, to be sent first and once.
pub fn encode_setup(request: &SetupRequest<'_>, profile: &ModelProfile, frame: &mut Vec<u8>) {
    let message = ClientMessage {
        setup: setup(request, profile),
    };
    serde_json::to_writer(frame, &message).expect("strings and numbers always serialize");
}

fn setup<'a>(request: &SetupRequest<'a>, profile: &ModelProfile) -> Setup<'a> {
    let detection = request.speech_detection;
    let resumption_handle = request
        .resumption_handle
        .filter(|_| profile.resumption)
        .map(|handle| handle.expose().as_str());
    let announces_history = profile.history == HistoryInput::InitialClientContent
        && request.history_follows
        && resumption_handle.is_none();
    Setup {
        model: request.model,
        generation_config: GenerationConfig {
            response_modalities: ["AUDIO"],
            temperature: request.temperature,
            max_output_tokens: request.output_tokens_max,
            speech_config: speech_config(request),
            thinking_config: thinking_config(request, profile),
        },
        system_instruction: (!request.system_instruction.is_empty()).then_some(Content {
            parts: [TextPart {
                text: request.system_instruction,
            }],
        }),
        tools: request.tools.0.as_deref(),
        realtime_input_config: RealtimeInputConfig {
            automatic_activity_detection: ActivityDetection {
                start_of_speech_sensitivity: detection.start_sensitivity.map(start_name),
                end_of_speech_sensitivity: detection.end_sensitivity.map(end_name),
                prefix_padding_ms: detection.prefix_padding_ms,
                silence_duration_ms: detection.silence_ms,
            },
            activity_handling: if request.barge_in {
                "START_OF_ACTIVITY_INTERRUPTS"
            } else {
                "NO_INTERRUPTION"
            },
        },
        input_audio_transcription: request.transcribe_input.then_some(Empty {}),
        output_audio_transcription: request.transcribe_output.then_some(Empty {}),
        session_resumption: profile.resumption.then_some(SessionResumption {
            handle: resumption_handle,
        }),
        context_window_compression: request.compression.map(|sizes| WindowCompression {
            trigger_tokens: sizes.trigger_tokens,
            sliding_window: SlidingWindow {
                target_tokens: sizes.target_tokens,
            },
        }),
        history_config: announces_history.then_some(HistoryConfig {
            initial_history_in_client_content: true,
        }),
    }
}

fn speech_config<'a>(request: &SetupRequest<'a>) -> Option<SpeechConfig<'a>> {
    (request.voice.is_some() || request.language.is_some()).then(|| SpeechConfig {
        language_code: request.language,
        voice_config: request.voice.map(|voice_name| VoiceConfig {
            prebuilt_voice_config: PrebuiltVoice { voice_name },
        }),
    })
}

fn thinking_config(request: &SetupRequest<'_>, profile: &ModelProfile) -> Option<ThinkingConfig> {
    match profile.thinking {
        Thinking::Omit => None,
        Thinking::Level => request
            .thinking_level
            .filter(|level| *level != ThinkingLevel::None)
            .map(ThinkingConfig::ThinkingLevel),
        Thinking::Budget => request.thinking_budget.map(ThinkingConfig::ThinkingBudget),
    }
}

fn start_name(sensitivity: Sensitivity) -> &'static str {
    match sensitivity {
        Sensitivity::High => "START_SENSITIVITY_HIGH",
        Sensitivity::Low => "START_SENSITIVITY_LOW",
    }
}

fn end_name(sensitivity: Sensitivity) -> &'static str {
    match sensitivity {
        Sensitivity::High => "END_SENSITIVITY_HIGH",
        Sensitivity::Low => "END_SENSITIVITY_LOW",
    }
}

#[derive(Serialize)]
struct ClientMessage<'a> {
    setup: Setup<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Setup<'a> {
    model: &'a str,
    generation_config: GenerationConfig<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    realtime_input_config: RealtimeInputConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_audio_transcription: Option<Empty>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_audio_transcription: Option<Empty>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_resumption: Option<SessionResumption<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window_compression: Option<WindowCompression>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_config: Option<HistoryConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    response_modalities: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speech_config: Option<SpeechConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeechConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    language_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    voice_config: Option<VoiceConfig<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VoiceConfig<'a> {
    prebuilt_voice_config: PrebuiltVoice<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PrebuiltVoice<'a> {
    voice_name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ThinkingConfig {
    ThinkingLevel(ThinkingLevel),
    ThinkingBudget(u32),
}

#[derive(Serialize)]
struct Content<'a> {
    parts: [TextPart<'a>; 1],
}

#[derive(Serialize)]
struct TextPart<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RealtimeInputConfig {
    automatic_activity_detection: ActivityDetection,
    activity_handling: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ActivityDetection {
    #[serde(skip_serializing_if = "Option::is_none")]
    start_of_speech_sensitivity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_of_speech_sensitivity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_padding_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    silence_duration_ms: Option<u32>,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct SessionResumption<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WindowCompression {
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_tokens: Option<u64>,
    sliding_window: SlidingWindow,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SlidingWindow {
    #[serde(skip_serializing_if = "Option::is_none")]
    target_tokens: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryConfig {
    initial_history_in_client_content: bool,
}
