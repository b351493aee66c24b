//! The first message: the requested session, and the model's refusals. Knows nothing of later messages.

use super::address::Backend;
use super::declarations;
use super::profile::{Profile, ThinkingRule};
use super::refusal::Refusal;
use crate::declaration::Declaration;
use crate::family::Family;
use crate::sound::activity::Sensitivity;
use crate::text::plan;
use serde_json::{Map, Value};

/// The settings of a session.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) profile: Profile,
    pub(crate) model: String,
    /// The text of the system instruction.
    pub(crate) instruction: String,
    /// Characters of instruction and declarations, for the token count.
    pub(crate) preamble_characters: usize,
    pub(crate) declarations: Vec<Declaration>,
    /// Whether the service's own search is declared.
    pub(crate) searches: bool,
    pub(crate) transcribes_input: bool,
    pub(crate) transcribes_output: bool,
    pub(crate) resumption: Option<Resumption>,
    /// Whether the client sends earlier conversation before anything else.
    pub(crate) announces_history: bool,
    pub(crate) detection: Detection,
    pub(crate) speech_interrupts: bool,
    pub(crate) signals_activity: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resumption {
    pub(crate) handle: Option<String>,
}

/// The source of the user's speech marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detection {
    Automatic(Sensitivity),
    /// The client sends `activityStart` and `activityEnd`.
    Manual,
}

/// The silence that ends speech, if the client sets none.
const SILENCE_MS: u64 = 500;
const PREFIX_PADDING_MS: u64 = 60;

impl Setup {
    /// Reads a `setup` whose field names were checked before.
    pub(crate) fn read(
        setup: &Map<String, Value>,
        backend: Backend,
        family: Option<Family>,
    ) -> Result<Self, Refusal> {
        let model = setup.get("model").and_then(Value::as_str).unwrap_or("");
        let profile = match family {
            Some(family) => Profile::of_family(family, backend),
            None => Profile::find(model, backend).ok_or_else(|| unknown_model(model, backend))?,
        };
        check_generation(setup.get("generationConfig"), &profile)?;
        check_features(setup, &profile)?;
        let tools = setup.get("tools").and_then(Value::as_array);
        let declarations = declarations::read(tools.map_or(&[], Vec::as_slice), &profile)?;
        let input = setup.get("realtimeInputConfig");
        let resumption = setup.get("sessionResumption").map(|resumption| Resumption {
            handle: text_of(resumption, "handle").filter(|handle| !handle.is_empty()),
        });
        Ok(Self {
            profile,
            model: model.to_owned(),
            instruction: setup
                .get("systemInstruction")
                .map(|said| plan::text_of(&said["parts"]))
                .unwrap_or_default(),
            preamble_characters: characters(setup.get("systemInstruction"))
                + characters(setup.get("tools")),
            declarations,
            searches: tools
                .into_iter()
                .flatten()
                .any(|tool| tool.get("googleSearch").is_some()),
            transcribes_input: setup.contains_key("inputAudioTranscription"),
            transcribes_output: setup.contains_key("outputAudioTranscription"),
            resumption,
            announces_history: announces_history(setup),
            detection: detection(input, &profile),
            speech_interrupts: input
                .and_then(|input| text_of(input, "activityHandling"))
                .as_deref()
                != Some("NO_INTERRUPTION"),
            signals_activity: is_true(setup.get("explicitVadSignal")),
        })
    }
}

fn text_of(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn is_true(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool) == Some(true)
}

pub(crate) fn characters(value: Option<&Value>) -> usize {
    value.map_or(0, |value| value.to_string().len())
}

fn announces_history(setup: &Map<String, Value>) -> bool {
    is_true(
        setup
            .get("historyConfig")
            .and_then(|config| config.get("initialHistoryInClientContent")),
    )
}

fn unknown_model(model: &str, backend: Backend) -> Refusal {
    let shown: String = model.chars().take(60).collect();
    Refusal::policy(match backend {
        Backend::GeminiApi => {
            format!(
                "{shown} is not found for API version v1beta, or is not supported for bidiGenerateContent."
            )
        }
        Backend::Vertex => format!("Publisher Model `{shown}` was not found."),
    })
}

fn check_generation(config: Option<&Value>, profile: &Profile) -> Result<(), Refusal> {
    let Some(config) = config else { return Ok(()) };
    let modalities = config.get("responseModalities").and_then(Value::as_array);
    let names: Vec<&str> = modalities
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !(names.is_empty() || names == ["AUDIO"]) {
        return Err(Refusal::invalid(format!(
            "The requested combination of response modalities ({}) is not supported by the model",
            names.join(", ")
        )));
    }
    if config.get("enableAffectiveDialog").is_some() && profile.family != Family::Native25 {
        return Err(Refusal::invalid_argument());
    }
    if config.get("translationConfig").is_some() {
        return Err(Refusal::invalid_argument());
    }
    let Some(thinking) = config.get("thinkingConfig") else {
        return Ok(());
    };
    let level = text_of(thinking, "thinkingLevel");
    let budget = thinking.get("thinkingBudget").is_some();
    let level_allowed = match (profile.thinking, level.as_deref()) {
        (_, None) => true,
        (ThinkingRule::Levels(levels), Some(level)) => levels.contains(&level),
        (ThinkingRule::Budget | ThinkingRule::Fixed, Some(_)) => false,
    };
    if !level_allowed {
        return Err(Refusal::invalid(
            "Thinking level is not supported for this model",
        ));
    }
    if budget && profile.thinking != ThinkingRule::Budget {
        return Err(Refusal::invalid(
            "Thinking budget is not supported for this model",
        ));
    }
    Ok(())
}

fn check_features(setup: &Map<String, Value>, profile: &Profile) -> Result<(), Refusal> {
    let proactive = setup
        .get("proactivity")
        .and_then(|proactivity| proactivity.get("proactiveAudio"));
    let refused = match profile.family {
        Family::Native25 => false,
        // Proactivity is always on there, so only turning it off is an error.
        Family::Live38 | Family::Extended38 => proactive == Some(&Value::Bool(false)),
        Family::Flash31 => setup.contains_key("proactivity"),
    };
    if refused || (announces_history(setup) && !profile.history_config) {
        return Err(Refusal::invalid_argument());
    }
    if !profile.vertex {
        let transparent = setup
            .get("sessionResumption")
            .is_some_and(|resumption| resumption.get("transparent").is_some());
        if transparent {
            return Err(Refusal::unknown_name(
                "transparent",
                &"setup.session_resumption",
            ));
        }
        if setup.contains_key("explicitVadSignal") {
            return Err(Refusal::unknown_name("explicitVadSignal", &"setup"));
        }
    }
    let compression = setup.get("contextWindowCompression");
    let trigger = compression.and_then(|compression| integer(compression.get("triggerTokens")));
    let target = compression
        .and_then(|compression| compression.get("slidingWindow"))
        .and_then(|window| integer(window.get("targetTokens")));
    if let (Some(trigger), Some(target)) = (trigger, target)
        && target >= trigger
    {
        return Err(Refusal::invalid_argument());
    }
    Ok(())
}

/// A 64-bit integer of Protobuf JSON: a number, or a string with one.
pub(crate) fn integer(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::String(text) => text.parse().ok(),
        value => value
            .as_i64()
            .or_else(|| value.as_f64().map(|float| float as i64)),
    }
}

fn detection(input: Option<&Value>, profile: &Profile) -> Detection {
    let automatic = input.and_then(|input| input.get("automaticActivityDetection"));
    if is_true(automatic.and_then(|automatic| automatic.get("disabled"))) {
        return Detection::Manual;
    }
    let setting = |key: &str| automatic.and_then(|automatic| automatic.get(key));
    let high = |key: &str, default: bool| match setting(key).and_then(Value::as_str) {
        Some(name) if name.ends_with("_HIGH") => true,
        Some(name) if name.ends_with("_LOW") => false,
        Some(_) | None => default,
    };
    // By default the Gemini API is more sensitive than Vertex.
    let default = !profile.vertex;
    let milliseconds = |key: &str, default: u64| {
        integer(setting(key)).map_or(default, |value| u64::try_from(value).unwrap_or(0))
    };
    let end_high = high("endOfSpeechSensitivity", default);
    Detection::Automatic(Sensitivity {
        start_high: high("startOfSpeechSensitivity", default),
        prefix_padding_ms: milliseconds("prefixPaddingMs", PREFIX_PADDING_MS),
        silence_ms: milliseconds(
            "silenceDurationMs",
            if end_high { SILENCE_MS } else { 2 * SILENCE_MS },
        ),
    })
}
