//! The first frame of a connection, for each family of models.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;
use windlass_contract::kind::{
    Behavior, Category, Mode, OnInterrupt, Reach, Scheduling, SideEffects,
};
use windlass_contract::registry::{Declarations, Tool};
use windlass_contract::sensitive::Sensitive;
use windlass_contract::validate::Validator;
use windlass_provider::gemini_live::{
    Compression, DeclaredTools, Sensitivity, SetupRequest, SpeechDetection, ThinkingLevel,
    encode_setup,
};
use windlass_provider::profile;
use windlass_session::model::{DeclarationForm, ModelProfile};

pub(crate) fn plain_request<'a>(tools: &'a DeclaredTools, model: &'a str) -> SetupRequest<'a> {
    SetupRequest {
        model,
        system_instruction: "Be brief.",
        tools,
        voice: None,
        language: None,
        temperature: None,
        output_tokens_max: None,
        thinking_level: None,
        thinking_budget: None,
        transcribe_input: true,
        transcribe_output: true,
        speech_detection: SpeechDetection::default(),
        barge_in: true,
        resumption_handle: None,
        compression: None,
        history_follows: false,
    }
}

fn encoded(request: &SetupRequest<'_>, model: &str) -> Value {
    let mut frame = Vec::new();
    encode_setup(
        request,
        &profile::gemini_live(model).profile.model,
        &mut frame,
    );
    serde_json::from_slice::<Value>(&frame).unwrap()["setup"].take()
}

struct Mute;

impl Handler for Mute {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

pub(crate) fn tool(id: &str, behavior: Behavior) -> Arc<Tool> {
    let native = json!({"name": id, "description": "d", "parameters": {"type": "OBJECT"}});
    let with_json_schema =
        json!({"name": id, "description": "d", "parametersJsonSchema": {"type": "object"}});
    Arc::new(Tool {
        id: ToolId::parse(id).unwrap(),
        version: "1.0.0".into(),
        code_hash: "1".into(),
        description: "d".to_owned(),
        category: Category::Utility,
        side_effects: SideEffects::None,
        idempotent: true,
        requires_confirmation: false,
        consent_condition: None,
        remember: None,
        allowed_modes: vec![Mode::Voice],
        latency_budget_ms: 10,
        timeout_ms: 1_000,
        behavior,
        scheduling: Scheduling::WhenIdle,
        on_interrupt: OnInterrupt::Finish,
        reach: Reach::Internal,
        confirmation_preview: None,
        rate_limit: None,
        permissions: windlass_contract::rights::Permissions::default(),
        availability: None,
        effect_key: Arc::default(),
        repeatable: false,
        sensitive: vec![],
        state: std::collections::BTreeMap::new(),
        status: None,
        parameters: Validator::compile(&json!({"type": "object"})).unwrap(),
        response: None,
        declarations: Declarations {
            openai: raw(&json!({"type": "function", "function":
                {"name": id, "description": "d", "parameters": {"type": "object"}}})),
            openai_realtime: raw(&json!({"type": "function", "name": id, "description": "d",
                "parameters": {"type": "object"}})),
            gemini_native: raw(&native),
            gemini_json: raw(&with_json_schema),
        },
        summary: String::new(),
        documentation: String::new(),
        handler: Arc::new(Mute),
    })
}

#[test]
fn the_least_setup_says_model_modality_and_what_was_asked_for() {
    let tools = DeclaredTools::default();
    let mut request = plain_request(&tools, "models/gemini-3.8-live");
    assert_eq!(
        encoded(&request, "gemini-3.8-live"),
        json!({
            "model": "models/gemini-3.8-live",
            "generationConfig": {"responseModalities": ["AUDIO"]},
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "realtimeInputConfig": {"automaticActivityDetection": {}, "activityHandling": "START_OF_ACTIVITY_INTERRUPTS"},
            "inputAudioTranscription": {},
            "outputAudioTranscription": {},
            "sessionResumption": {}
        })
    );
    request.system_instruction = "";
    request.transcribe_input = false;
    request.transcribe_output = false;
    request.barge_in = false;
    assert_eq!(
        encoded(&request, "gemini-3.8-live"),
        json!({
            "model": "models/gemini-3.8-live",
            "generationConfig": {"responseModalities": ["AUDIO"]},
            "realtimeInputConfig": {"automaticActivityDetection": {}, "activityHandling": "NO_INTERRUPTION"},
            "sessionResumption": {}
        })
    );
}

#[test]
fn a_full_setup_spells_every_field_as_the_service_does() {
    let tools = DeclaredTools::new(
        &[tool("lookup_order", Behavior::NonBlocking)],
        &profile::gemini_live("gemini-3.8-live").profile.model,
    );
    let handle = Sensitive("h-abc".to_owned());
    let request = SetupRequest {
        voice: Some("Kore"),
        language: Some("en-US"),
        temperature: Some(0.7),
        output_tokens_max: Some(500),
        speech_detection: SpeechDetection {
            start_sensitivity: Some(Sensitivity::High),
            end_sensitivity: Some(Sensitivity::Low),
            prefix_padding_ms: Some(40),
            silence_ms: Some(500),
        },
        resumption_handle: Some(&handle),
        compression: Some(Compression {
            trigger_tokens: Some(25_600),
            target_tokens: Some(12_800),
        }),
        ..plain_request(&tools, "models/gemini-3.8-live")
    };
    assert_eq!(
        encoded(&request, "gemini-3.8-live"),
        json!({
            "model": "models/gemini-3.8-live",
            "generationConfig": {
                "responseModalities": ["AUDIO"],
                "temperature": 0.7,
                "maxOutputTokens": 500,
                "speechConfig": {"languageCode": "en-US", "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}
            },
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [{
                "name": "lookup_order", "description": "d", "behavior": "NON_BLOCKING", "parameters": {"type": "OBJECT"}}]}],
            "realtimeInputConfig": {
                "automaticActivityDetection": {
                    "startOfSpeechSensitivity": "START_SENSITIVITY_HIGH",
                    "endOfSpeechSensitivity": "END_SENSITIVITY_LOW",
                    "prefixPaddingMs": 40,
                    "silenceDurationMs": 500
                },
                "activityHandling": "START_OF_ACTIVITY_INTERRUPTS"
            },
            "inputAudioTranscription": {},
            "outputAudioTranscription": {},
            "sessionResumption": {"handle": "h-abc"},
            "contextWindowCompression": {"triggerTokens": 25600, "slidingWindow": {"targetTokens": 12800}}
        })
    );
    assert!(!format!("{request:?}").contains("h-abc"));
}

#[test]
fn behaviour_is_said_where_the_model_knows_it_and_nowhere_else() {
    for (model, expected) in [
        ("gemini-3.8-live", [Some("BLOCKING"), Some("NON_BLOCKING")]),
        (
            "gemini-2.5-flash-native-audio-preview-12-2025",
            [Some("BLOCKING"), Some("NON_BLOCKING")],
        ),
        (
            "gemini-3.8-live-extended-thinking",
            [Some("NON_BLOCKING"), Some("NON_BLOCKING")],
        ),
        ("gemini-3.1-flash-live-preview", [None, None]),
        ("gemini-unheard-of", [None, None]),
    ] {
        let declared = DeclaredTools::new(
            &[
                tool("wait", Behavior::Blocking),
                tool("go_on", Behavior::NonBlocking),
            ],
            &profile::gemini_live(model).profile.model,
        );
        let declared: Value = serde_json::from_str(declared.text()).unwrap();
        let declarations = declared[0]["functionDeclarations"].as_array().unwrap();
        let behaviors: Vec<Option<&str>> = declarations
            .iter()
            .map(|declaration| {
                declaration
                    .get("behavior")
                    .map(|said| said.as_str().unwrap())
            })
            .collect();
        assert_eq!(behaviors, expected, "{model}");
        assert_eq!(declarations[0]["name"], "wait");
        assert_eq!(declarations[1]["parameters"], json!({"type": "OBJECT"}));
    }
}

#[test]
fn the_profile_chooses_the_form_of_a_declaration() {
    let profile = ModelProfile {
        declaration: DeclarationForm::GeminiJson,
        ..profile::gemini_live("gemini-3.8-live").profile.model
    };
    let declared = DeclaredTools::new(&[tool("f", Behavior::Blocking)], &profile);
    assert_eq!(
        serde_json::from_str::<Value>(declared.text()).unwrap(),
        json!([{"functionDeclarations": [{
            "name": "f", "description": "d", "behavior": "BLOCKING", "parametersJsonSchema": {"type": "object"}}]}])
    );
}

#[test]
fn without_tools_there_is_no_tools_field() {
    let none = DeclaredTools::new(&[], &profile::gemini_live("gemini-3.8-live").profile.model);
    assert_eq!(none.text(), "");
    let setup = encoded(&plain_request(&none, "m"), "gemini-3.8-live");
    assert!(!setup.as_object().unwrap().contains_key("tools"));
}

#[test]
fn thinking_is_configured_as_the_model_takes_it() {
    let tools = DeclaredTools::default();
    let request = SetupRequest {
        thinking_level: Some(ThinkingLevel::Low),
        thinking_budget: Some(0),
        ..plain_request(&tools, "m")
    };
    for (model, expected) in [
        ("gemini-3.8-live", Value::Null),
        (
            "gemini-3.8-live-extended-thinking",
            json!({"thinkingLevel": "LOW"}),
        ),
        (
            "gemini-2.5-flash-native-audio-preview-12-2025",
            json!({"thinkingBudget": 0}),
        ),
    ] {
        assert_eq!(
            encoded(&request, model)["generationConfig"]["thinkingConfig"],
            expected,
            "{model}"
        );
    }
}

#[test]
fn history_is_announced_only_where_it_must_be_and_not_again_on_resuming() {
    let tools = DeclaredTools::default();
    let handle = Sensitive("h".to_owned());
    for (model, history_follows, resumption_handle, announced) in [
        ("gemini-3.1-flash-live-preview", true, None, true),
        ("gemini-3.1-flash-live-preview", false, None, false),
        ("gemini-3.1-flash-live-preview", true, Some(&handle), false),
        ("gemini-3.8-live", true, None, false),
    ] {
        let request = SetupRequest {
            history_follows,
            resumption_handle,
            ..plain_request(&tools, "m")
        };
        let expected = if announced {
            json!({"initialHistoryInClientContent": true})
        } else {
            Value::Null
        };
        assert_eq!(encoded(&request, model)["historyConfig"], expected);
    }
}
