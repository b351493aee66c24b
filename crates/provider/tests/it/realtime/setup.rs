//! What goes out: the setup as the service documents it, items, results, and the microphone.

use super::answer;
use crate::setup::tool;
use serde_json::{Value, json};
use windlass_contract::kind::Behavior;
use windlass_provider::gemini_live::{Sensitivity, SpeechDetection};
use windlass_provider::openai_chat::ReasoningEffort;
use windlass_provider::openai_realtime::{
    Codec, DeclaredTools, Options, SetupRequest, encode_setup,
};
use windlass_provider::profile::{self, RealtimeForm};
use windlass_session::model::ModelCommand;

fn setup(model: &str, request: &SetupRequest<'_>) -> Value {
    let mut frame = Vec::new();
    encode_setup(
        request,
        &profile::openai_realtime(None, model).profile.model,
        &mut frame,
    );
    serde_json::from_slice(&frame).unwrap()
}

fn frames(command: &ModelCommand) -> Vec<Value> {
    let mut frames = Vec::new();
    Codec::new(Options::default()).encode(command, &mut frames);
    frames
        .iter()
        .map(|frame| serde_json::from_slice(frame).unwrap())
        .collect()
}

#[test]
fn a_setup_says_everything_and_only_what_the_model_takes() {
    let tools = DeclaredTools::new([&tool("kb_search", Behavior::Blocking)]);
    let none = DeclaredTools::default();
    let full = SetupRequest {
        form: RealtimeForm::Openai,
        model: "gpt-realtime-2.1",
        transcription_model: None,
        system_instruction: "Be brief.",
        tools: &tools,
        voice: Some("cedar"),
        language: Some("de-AT"),
        output_tokens_max: Some(500),
        reasoning_effort: Some(ReasoningEffort::Low),
        transcribe_input: true,
        speech_detection: SpeechDetection {
            start_sensitivity: Some(Sensitivity::Low),
            end_sensitivity: Some(Sensitivity::High),
            prefix_padding_ms: Some(200),
            silence_ms: None,
        },
        barge_in: false,
        truncate: false,
    };
    let pcm = json!({"type": "audio/pcm", "rate": 24000});
    let mut expected = json!({"type": "session.update", "event_id": "wl_setup", "session": {
        "type": "realtime", "instructions": "Be brief.", "output_modalities": ["audio"],
        "audio": {
            "input": {"format": pcm, "transcription": {"model": "gpt-4o-mini-transcribe", "language": "de"},
                "turn_detection": {"type": "server_vad", "prefix_padding_ms": 200, "silence_duration_ms": 300,
                    "create_response": true, "interrupt_response": false}},
            "output": {"format": pcm, "voice": "cedar"}},
        "tools": [{"type": "function", "name": "kb_search", "description": "d", "parameters": {"type": "object"}}],
        "tool_choice": "auto", "max_output_tokens": 500, "reasoning": {"effort": "low"}, "truncation": "disabled"}});
    let mut sent = setup("gpt-realtime-2.1", &full);
    let threshold = sent["session"]["audio"]["input"]["turn_detection"]
        .as_object_mut()
        .unwrap()
        .remove("threshold");
    assert!((threshold.unwrap().as_f64().unwrap() - 0.7).abs() < 1e-6);
    assert_eq!(sent, expected);
    let session = expected["session"].as_object_mut().unwrap();
    session.remove("reasoning");
    let older = setup("gpt-realtime", &full);
    assert_eq!(older["session"]["reasoning"], Value::Null);
    let plain = SetupRequest {
        tools: &none,
        voice: None,
        language: None,
        output_tokens_max: Some(100_000),
        reasoning_effort: None,
        transcribe_input: false,
        speech_detection: SpeechDetection::default(),
        barge_in: true,
        truncate: true,
        ..full
    };
    assert_eq!(
        setup("gpt-realtime-2.1", &plain)["session"],
        json!({"type": "realtime", "instructions": "Be brief.", "output_modalities": ["audio"],
            "audio": {"input": {"format": pcm, "transcription": null,
                "turn_detection": {"type": "server_vad", "create_response": true, "interrupt_response": true}},
                "output": {"format": pcm}},
            "truncation": "auto"})
    );
}

#[test]
fn items_have_the_shape_that_the_service_takes() {
    assert_eq!(
        frames(&ModelCommand::UserText("Hi".to_owned().into())),
        [
            json!({"type": "conversation.item.create", "item": {"id": "wl_item_1", "type": "message", "role": "user",
                "content": [{"type": "input_text", "text": "Hi"}]}}),
            json!({"type": "response.create", "event_id": "wl_response_1"}),
        ]
    );
    let output = frames(&ModelCommand::ToolResponses(vec![answer("c1")]));
    assert_eq!(output[0]["item"]["type"], "function_call_output");
    assert_eq!(output[0]["item"]["call_id"], "c1");
    let read: Value = serde_json::from_str(output[0]["item"]["output"].as_str().unwrap()).unwrap();
    assert_eq!(
        read,
        json!({"ok": true, "data": {"t": 1}, "meta": {"toolId": "look", "durationMs": 3}})
    );
    let image = ModelCommand::Image {
        mime_type: "image/png".to_owned(),
        data: std::sync::Arc::<[u8]>::from([0_u8, 0, 0]).into(),
    };
    assert_eq!(
        frames(&image)[0]["item"]["content"],
        json!([{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}])
    );
}

#[test]
fn the_microphone_is_sent_at_the_services_rate() {
    let mut codec = Codec::new(Options::default());
    let mut bytes = 0;
    for _ in 0..50 {
        let mut frame = Vec::new();
        codec.encode_audio(&[0; 640], &mut frame);
        let event: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(event["type"], "input_audio_buffer.append");
        let audio = event["audio"].as_str().unwrap();
        bytes += audio.len() / 4 * 3 - audio.matches('=').count();
    }
    // One second, but for the eight samples that wait for their neighbours.
    assert_eq!(bytes, 48_000 - 24);
    let silence = frames(&ModelCommand::AudioEnded);
    assert_eq!(silence[0]["type"], "input_audio_buffer.append");
}
