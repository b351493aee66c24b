//! Services whose protocol is like OpenAI's, in shapes that they publish. xAI: <https://docs.x.ai/docs/guides/voice/agent>, and
//! what pipecat-ai/pipecat:src/pipecat/services/xai/realtime/events.py reads. Azure Voice Live:
//! <https://learn.microsoft.com/azure/ai-services/speech-service/voice-live-how-to> and
//! Azure/azure-rest-api-specs:specification/ai/data-plane/VoiceLive/stable/2026-04-10.

use super::Talk;
use crate::setup::tool;
use serde_json::{Value, json};
use std::time::Duration;
use windlass_contract::kind::Behavior;
use windlass_provider::gemini_live::SpeechDetection;
use windlass_provider::openai_realtime::{DeclaredTools, Options, SetupRequest, encode_setup};
use windlass_provider::profile::{self, RealtimeForm};
use windlass_session::model::{HistoryEntry, ModelCommand, Role};

fn request<'a>(form: RealtimeForm, tools: &'a DeclaredTools) -> SetupRequest<'a> {
    SetupRequest {
        form,
        model: "m",
        system_instruction: "Be brief.",
        tools,
        voice: Some("eve"),
        language: Some("de-AT"),
        output_tokens_max: Some(500),
        reasoning_effort: None,
        transcribe_input: true,
        transcription_model: None,
        speech_detection: SpeechDetection {
            silence_ms: Some(400),
            ..SpeechDetection::default()
        },
        barge_in: true,
        truncate: true,
    }
}

fn session(request: &SetupRequest<'_>) -> Value {
    let mut frame = Vec::new();
    let profile = profile::openai_realtime(None, "gpt-realtime").profile;
    encode_setup(request, &profile.model, &mut frame);
    let mut event: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!(event["type"], "session.update");
    event["session"].take()
}

fn talk(form: RealtimeForm) -> Talk {
    Talk::with(Options {
        form,
        ..Options::default()
    })
}

fn take(talk: &mut Talk) -> Vec<String> {
    std::mem::take(&mut talk.log)
}

#[test]
fn xai_is_told_what_its_documents_list_and_nothing_else() {
    let tools = DeclaredTools::new([&tool("kb_search", Behavior::Blocking)]);
    let pcm = json!({"type": "audio/pcm", "rate": 24000});
    assert_eq!(
        session(&request(RealtimeForm::Xai, &tools)),
        json!({"instructions": "Be brief.", "voice": "eve",
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 400},
            "audio": {"input": {"format": pcm, "transcription": {"language_hint": "de-AT"}}, "output": {"format": pcm}},
            "tools": [{"type": "function", "name": "kb_search", "description": "d", "parameters": {"type": "object"}}]})
    );
}

#[test]
fn a_call_of_xais_runs_once_however_often_it_comes() {
    let arguments = json!({"type": "response.function_call_arguments.done", "event_id": "e", "call_id": "call_1", "name": "look", "arguments": "{\"q\":1}"});
    let item = json!({"id": "i1", "object": "realtime.item", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "look", "arguments": "{\"q\":1}"});
    let item_done = json!({"type": "response.output_item.done", "response_id": "r1", "output_index": 0, "item": item});
    let done = |output: Value| json!({"type": "response.done", "usage": {}, "response": {"id": "r1", "object": "realtime.response", "status": "completed", "output": output}});
    for events in [
        vec![arguments.clone(), done(json!([]))],
        vec![arguments.clone(), item_done.clone(), done(json!([item]))],
        vec![item_done, arguments.clone(), done(json!([]))],
        vec![arguments, done(json!([item]))],
        vec![done(json!([item]))],
    ] {
        let mut talk = talk(RealtimeForm::Xai);
        for event in [
            json!({"type": "ping", "event_id": "e", "timestamp": 1}),
            json!({"type": "conversation.created", "event_id": "e", "conversation": {"id": "c", "object": "realtime.conversation"}}),
            json!({"type": "session.updated", "event_id": "e", "session": {"voice": "eve"}}),
            json!({"type": "response.created", "response": {"id": "r1", "object": "realtime.response", "status": "in_progress", "output": []}}),
        ] {
            talk.hears(&event);
        }
        take(&mut talk);
        for event in &events {
            talk.hears(event);
        }
        let said = take(&mut talk);
        let calls = said.iter().filter(|word| word.starts_with("calls:"));
        assert_eq!(
            calls.collect::<Vec<_>>(),
            ["calls:call_1/look{\"q\":1}"],
            "{events:?}"
        );
        talk.answered(&["call_1"]);
        assert_eq!(take(&mut talk), ["<output:call_1", "<create"]);
    }
}

#[test]
fn what_xai_does_not_document_is_not_sent_on_an_interruption() {
    let spoken = |form| {
        let mut talk = talk(form);
        talk.hears(&json!({"type": "response.created", "response": {"id": "r1"}}));
        talk.hears(&json!({"type": "response.output_audio.delta", "response_id": "r1", "item_id": "i1", "delta": "AAAAAAAA"}));
        take(&mut talk);
        let mut frames = Vec::new();
        talk.codec.discard(Duration::ZERO, &mut frames);
        let frames = frames.iter();
        let frames = frames.map(|frame| serde_json::from_slice::<Value>(frame).unwrap());
        frames.collect::<Vec<_>>()
    };
    assert_eq!(
        spoken(RealtimeForm::Xai),
        [json!({"type": "response.cancel"})]
    );
    assert_eq!(
        spoken(RealtimeForm::Openai)[0],
        json!({"type": "response.cancel", "response_id": "r1"})
    );
}

#[test]
fn voice_live_is_told_in_the_form_of_the_beta() {
    let none = DeclaredTools::default();
    let mut asked = request(RealtimeForm::VoiceLive, &none);
    asked.voice = Some("en-US-AvaNeural");
    assert_eq!(
        session(&asked),
        json!({"modalities": ["text", "audio"], "instructions": "Be brief.",
            "voice": {"name": "en-US-AvaNeural", "type": "azure-standard"},
            "input_audio_format": "pcm16", "output_audio_format": "pcm16",
            "input_audio_transcription": {"model": "azure-speech", "language": "de"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 400, "create_response": true},
            "max_response_output_tokens": 500})
    );
    asked.model = "gpt-realtime";
    asked.voice = Some("marin");
    asked.barge_in = false;
    let sent = session(&asked);
    assert_eq!(sent["voice"], "marin");
    assert_eq!(
        sent["input_audio_transcription"]["model"],
        "gpt-4o-mini-transcribe"
    );
    assert_eq!(sent["turn_detection"]["type"], "azure_semantic_vad");
    assert_eq!(sent["turn_detection"]["interrupt_response"], false);
    asked.transcription_model = Some("mai-transcribe");
    assert_eq!(
        session(&asked)["input_audio_transcription"]["model"],
        "mai-transcribe"
    );
}

#[test]
fn version_v1_of_voice_live_is_told_in_openais_own_form() {
    let beta = RealtimeForm::VoiceLive;
    assert_eq!(beta.of_version(Some("v1")), RealtimeForm::VoiceLiveV1);
    assert_eq!(beta.of_version(Some("2026-04-10")), beta);
    assert_eq!(beta.of_version(None), beta);
    let openai = RealtimeForm::Openai;
    assert_eq!(openai.of_version(Some("v1")), openai);
    let none = DeclaredTools::default();
    for (voice, kind) in [("en-US-AvaNeural", "azure-standard"), ("alloy", "openai")] {
        let mut asked = request(RealtimeForm::VoiceLiveV1, &none);
        asked.voice = Some(voice);
        let sent = session(&asked);
        assert_eq!(sent["type"], "realtime");
        assert_eq!(sent["output_modalities"], json!(["audio"]));
        let format = json!({"type": "audio/pcm", "rate": 24_000});
        assert_eq!(
            sent["audio"]["output"],
            json!({"format": format, "voice": voice, "voice_type": kind})
        );
        assert_eq!(sent["audio"]["input"]["format"], format);
        assert_eq!(
            sent["audio"]["input"]["transcription"]["model"],
            "azure-speech"
        );
        assert_eq!(sent.get("modalities"), None);
    }
    let mut asked = request(RealtimeForm::Openai, &none);
    asked.voice = Some("alloy");
    assert_eq!(session(&asked)["audio"]["output"].get("voice_type"), None);
}

#[test]
fn azure_is_given_the_deployment_that_transcribes() {
    let none = DeclaredTools::default();
    let mut asked = request(RealtimeForm::Openai, &none);
    asked.transcription_model = Some("my-transcriber");
    let sent = session(&asked);
    assert_eq!(
        sent["audio"]["input"]["transcription"]["model"],
        "my-transcriber"
    );
}

#[test]
fn a_conversation_in_the_words_of_the_beta_is_the_same_conversation() {
    let mut talk = talk(RealtimeForm::VoiceLive);
    let call = json!({"id": "i2", "object": "realtime.item", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "look", "arguments": "{\"q\":1}"});
    for event in [
        json!({"type": "session.created", "session": {"id": "s1", "modalities": ["text", "audio"]}}),
        json!({"type": "session.updated", "session": {"id": "s1", "input_audio_format": "pcm16"}}),
        json!({"type": "conversation.item.created", "item": {"id": "u1", "type": "message", "role": "user", "content": [{"type": "input_audio"}]}}),
        json!({"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}}),
        json!({"type": "response.output_item.added", "response_id": "r1", "output_index": 0, "item": {"id": "i1", "type": "message", "status": "incomplete"}}),
        json!({"type": "response.audio_transcript.delta", "response_id": "r1", "item_id": "i1", "delta": "One moment."}),
        json!({"type": "response.audio.delta", "response_id": "r1", "item_id": "i1", "delta": "AAAAAAAA"}),
        json!({"type": "response.audio_timestamp.delta", "response_id": "r1", "item_id": "i1", "audio_offset_ms": 0, "text": "One"}),
        json!({"type": "response.audio.done", "response_id": "r1", "item_id": "i1"}),
        json!({"type": "response.function_call_arguments.done", "response_id": "r1", "item_id": "i2", "call_id": "call_1", "arguments": "{\"q\":1}"}),
        json!({"type": "response.output_item.done", "response_id": "r1", "output_index": 1, "item": call}),
        json!({"type": "response.done", "response": {"id": "r1", "status": "completed", "output": [call], "usage": {"total_tokens": 7}}}),
    ] {
        talk.hears(&event);
    }
    let said = take(&mut talk);
    let said: Vec<&str> = said
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with("unknown"))
        .collect();
    assert_eq!(
        said,
        [
            "ready",
            "says:One moment.",
            "audio",
            "pcm:6",
            "usage:7",
            "calls:call_1/look{\"q\":1}",
            "generated"
        ]
    );
    let mut frames = Vec::new();
    let text = "Colin Archer.".to_owned().into();
    let entries = vec![HistoryEntry {
        role: Role::Assistant,
        text,
    }];
    let answer_now = false;
    talk.codec.encode(
        &ModelCommand::History {
            entries,
            answer_now,
        },
        &mut frames,
    );
    let last: Value = serde_json::from_slice(frames.last().unwrap()).unwrap();
    assert_eq!(
        last["item"]["content"],
        json!([{"type": "text", "text": "Colin Archer."}])
    );
}

#[test]
fn what_xai_has_heard_so_far_is_no_turn_of_the_user() {
    let heard = |status: Option<&str>, said: &str| {
        let mut event = json!({"type": "conversation.item.input_audio_transcription.completed", "item_id": "i1", "transcript": said});
        if let Some(status) = status {
            event["status"] = status.into();
        }
        event
    };
    let mut talk = talk(RealtimeForm::Xai);
    talk.hears(&heard(Some("in_progress"), "Who"));
    talk.hears(&heard(Some("in_progress"), "Who is"));
    assert!(take(&mut talk).is_empty());
    talk.hears(&heard(Some("completed"), "Who is Maud?"));
    assert_eq!(take(&mut talk).len(), 1);
    talk.hears(&heard(None, "Who is Maud?"));
    assert_eq!(take(&mut talk).len(), 1);
}
