//! The session's configuration: its initial values, and the accepted changes. Knows nothing of their effects.

use crate::declaration::Declaration;
use crate::sound::activity::Sensitivity;
use serde_json::{Map, Value, json};

/// A refused change: code, place and words.
pub(super) struct Refusal {
    pub(super) code: &'static str,
    pub(super) param: String,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(code: &'static str, param: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            param: param.to_owned(),
            message: message.into(),
        }
    }

    fn unknown(param: &str) -> Self {
        Self::new(
            "unknown_parameter",
            param,
            format!("Unknown parameter: '{param}'."),
        )
    }
}

#[derive(Debug)]
pub(super) struct Config(Map<String, Value>);

/// The end of the session after one hour; it began at the date of the simulator's answers.
const EXPIRES_AT: u64 = 1_790_003_600;
const KEYS: [&str; 16] = [
    "type",
    "model",
    "output_modalities",
    "instructions",
    "audio",
    "tools",
    "tool_choice",
    "max_output_tokens",
    "truncation",
    "tracing",
    "prompt",
    "include",
    "parallel_tool_calls",
    "reasoning",
    "object",
    "id",
];
const TOOL_KEYS: [&str; 4] = ["type", "name", "description", "parameters"];

impl Config {
    pub(super) fn new(model: &str) -> Self {
        let pcm = json!({"type": "audio/pcm", "rate": 24000});
        let config = json!({
            "type": "realtime", "object": "realtime.session", "id": "sess_1", "model": model,
            "output_modalities": ["audio"], "instructions": "You are a simulator.", "tools": [], "tool_choice": "auto",
            "max_output_tokens": "inf", "tracing": null, "truncation": "auto", "prompt": null,
            "expires_at": EXPIRES_AT, "include": null,
            "audio": {
                "input": {"format": pcm, "transcription": null, "noise_reduction": null,
                    "turn_detection": {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300,
                        "silence_duration_ms": 200, "idle_timeout_ms": null, "create_response": true,
                        "interrupt_response": true}},
                "output": {"format": pcm, "voice": "marin", "speed": 1.0}}
        });
        match config {
            Value::Object(config) => Self(config),
            _ => unreachable!("the literal above is an object"),
        }
    }

    /// The whole configuration, as the service shows it after every change.
    pub(super) fn shown(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// Applies all named changes, or none.
    pub(super) fn update(&mut self, change: &Value) -> Result<(), Refusal> {
        let Some(change) = change.as_object() else {
            return Err(Refusal::new(
                "missing_required_parameter",
                "session",
                "Missing required parameter: 'session'.",
            ));
        };
        match change.get("type").and_then(Value::as_str) {
            Some("realtime") => {}
            Some(_) => {
                return Err(Refusal::new(
                    "invalid_value",
                    "session.type",
                    "Passing a different session type is not allowed.",
                ));
            }
            None => {
                return Err(Refusal::new(
                    "missing_required_parameter",
                    "session.type",
                    "Missing required parameter: 'session.type'.",
                ));
            }
        }
        for key in change.keys() {
            if !KEYS.contains(&key.as_str()) {
                return Err(Refusal::unknown(&format!("session.{key}")));
            }
        }
        self.check_model(change)?;
        check_tools(change.get("tools"))?;
        check_audio(change.get("audio"))?;
        merge(&mut self.0, change);
        Ok(())
    }

    fn check_model(&self, change: &Map<String, Value>) -> Result<(), Refusal> {
        if let Some(model) = change.get("model")
            && *model != self.0["model"]
        {
            return Err(Refusal::new(
                "invalid_value",
                "session.model",
                "The model of a session cannot be changed.",
            ));
        }
        let reasons = self.0["model"]
            .as_str()
            .is_some_and(|model| model.starts_with("gpt-realtime-2.") || model == "gpt-realtime-2");
        for key in ["reasoning", "parallel_tool_calls"] {
            if change.contains_key(key) && !reasons {
                return Err(Refusal::unknown(&format!("session.{key}")));
            }
        }
        Ok(())
    }

    fn at(&self, path: &[&str]) -> &Value {
        path.iter()
            .fold(None, |found: Option<&Value>, key| match found {
                None => self.0.get(*key),
                Some(value) => Some(&value[*key]),
            })
            .unwrap_or(&Value::Null)
    }

    pub(super) fn is_spoken(&self) -> bool {
        self.at(&["output_modalities"])[0] != "text"
    }

    pub(super) fn transcribes(&self) -> bool {
        !self.at(&["audio", "input", "transcription"]).is_null()
    }

    /// Whether the service finds the ends of speech by itself.
    pub(super) fn detects_turns(&self) -> bool {
        !self.at(&["audio", "input", "turn_detection"]).is_null()
    }

    pub(super) fn detection_flag(&self, name: &str) -> bool {
        let value = &self.at(&["audio", "input", "turn_detection"])[name];
        value.as_bool().unwrap_or(true)
    }

    pub(super) fn sensitivity(&self) -> Sensitivity {
        let detection = self.at(&["audio", "input", "turn_detection"]);
        Sensitivity {
            start_high: detection["threshold"].as_f64().unwrap_or(0.5) <= 0.5,
            prefix_padding_ms: 60,
            silence_ms: detection["silence_duration_ms"].as_u64().unwrap_or(500),
        }
    }

    pub(super) fn instruction(&self) -> &str {
        self.at(&["instructions"]).as_str().unwrap_or_default()
    }

    pub(super) fn tools(&self) -> Vec<Declaration> {
        let tools = self.at(&["tools"]).as_array().into_iter().flatten();
        tools
            .map(|tool| Declaration {
                name: tool["name"].as_str().unwrap_or_default().to_owned(),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
                parameters: tool["parameters"].clone(),
                json_schema: true,
                blocking: true,
            })
            .collect()
    }
}

/// The same limit as for Chat Completions.
const TOOLS_MAX: usize = 128;

fn check_tools(tools: Option<&Value>) -> Result<(), Refusal> {
    let tools = tools.and_then(Value::as_array);
    if tools.is_some_and(|tools| tools.len() > TOOLS_MAX) {
        let message = "Invalid 'session.tools': array too long.";
        return Err(Refusal::new(
            "array_above_max_length",
            "session.tools",
            message,
        ));
    }
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        let place = |key: &str| format!("session.tools[{index}].{key}");
        for key in tool.as_object().into_iter().flat_map(Map::keys) {
            if !TOOL_KEYS.contains(&key.as_str()) {
                return Err(Refusal::unknown(&place(key)));
            }
        }
        if tool["name"].as_str().is_none_or(str::is_empty) {
            let param = place("name");
            let message = format!("Missing required parameter: '{param}'.");
            return Err(Refusal::new("missing_required_parameter", &param, message));
        }
    }
    Ok(())
}

/// PCM is accepted at one rate only.
fn check_audio(audio: Option<&Value>) -> Result<(), Refusal> {
    for side in ["input", "output"] {
        let format = audio.map_or(&Value::Null, |audio| &audio[side]["format"]);
        if format["type"] == "audio/pcm"
            && format["rate"].as_u64().is_some_and(|rate| rate != 24_000)
        {
            return Err(Refusal::new(
                "invalid_value",
                &format!("session.audio.{side}.format.rate"),
                "Invalid value: expected 24000.",
            ));
        }
    }
    Ok(())
}

fn merge(into: &mut Map<String, Value>, change: &Map<String, Value>) {
    for (key, value) in change {
        match (into.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}
