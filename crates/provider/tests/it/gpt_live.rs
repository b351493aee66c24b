//! GPT-Live in the shapes of OpenAI's own client library (openai/openai-node:src/resources/live/live.ts), and a session as it was
//! recorded (Travizm/dsh-openai-live:docs/protocol.md).

use crate::mutation::Mutations;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::sensitive::Sensitive;
use windlass_provider::gpt_live::{Codec, SetupRequest, Sink, address, encode_setup};
use windlass_session::model::{LostReason, ModelEvent};

#[derive(Default)]
struct Heard(Vec<String>);

impl Sink for Heard {
    fn event(&mut self, event: ModelEvent) {
        self.0.push(match event {
            ModelEvent::Ready {
                provider_session_id,
            } => format!("ready:{}", provider_session_id.unwrap_or_default()),
            ModelEvent::InputTranscript { text, .. } => format!("user:{}", text.expose()),
            ModelEvent::OutputTranscript { text, .. } => format!("says:{}", text.expose()),
            ModelEvent::AudioStarted => "audio".to_owned(),
            ModelEvent::Usage(usage) => format!("seconds:{}", usage.seconds),
            ModelEvent::Malformed { problem } => format!("malformed:{problem}"),
            ModelEvent::Unknown { fields } => format!("unknown:{}", fields.join(",")),
            other => panic!("the codec never says {other:?}"),
        });
    }

    fn audio(&mut self, pcm: &[u8]) {
        self.0.push(format!("pcm:{}", pcm.len()));
    }

    fn delegated(&mut self, id: Arc<str>) {
        self.0.push(format!("task:{id}"));
    }
}

fn hear(codec: &mut Codec, event: &Value) -> Vec<String> {
    let mut heard = Heard::default();
    codec.decode(event.to_string().as_bytes(), &mut heard);
    heard.0
}

fn session() -> Vec<Value> {
    vec![
        json!({"type": "session.started", "event_id": "e1", "session": {"id": "live_1", "expires_at": 1, "model": "gpt-live-1", "status": "active"}}),
        json!({"type": "session.instructions.appended", "event_id": "e2", "start_ms": 0, "end_ms": 0}),
        json!({"type": "session.input_transcript.delta", "event_id": "e3", "delta": "Please check", "start_ms": 0, "end_ms": 400}),
        json!({"type": "session.output_audio.delta", "delta": "AAAAAAAA"}),
        json!({"type": "session.output_transcript.delta", "event_id": "e4", "delta": "One moment.", "start_ms": 500, "end_ms": 900}),
        json!({"type": "session.delegation.created", "event_id": "e5", "offset_ms": 4600, "delegation": {"id": "dlg_1", "target": "client", "type": "delegation"}}),
        json!({"type": "session.thinking.appended", "event_id": "e6", "start_ms": 1, "end_ms": 1}),
        json!({"type": "session.commentary.appended", "event_id": "e7", "start_ms": 1, "end_ms": 1, "client_event_id": "c"}),
        json!({"type": "session.output_audio.delta", "delta": "AAAAAAAA", "start_ms": 0, "end_ms": 20}),
        json!({"type": "session.usage.updated", "event_id": "e8", "usage": {"seconds": 7}, "context_window": {"usage_ratio": 0.1}}),
        json!({"type": "session.usage.updated", "event_id": "e9", "usage": {"seconds": 9}}),
        json!({"type": "info", "event_id": "e10", "code": "data_channel_permissions", "message": "m"}),
    ]
}

#[test]
fn a_session_is_read_as_it_is_published() {
    let mut codec = Codec::default();
    let mut said = Vec::new();
    for event in session() {
        said.extend(hear(&mut codec, &event));
    }
    assert_eq!(
        said.join(" "),
        "ready:live_1 user:Please check audio pcm:6 says:One moment. task:dlg_1 pcm:6 seconds:7 seconds:2"
    );
    codec.answer_ended();
    let audio = json!({"type": "session.output_audio.delta", "delta": "AAAAAAAA"});
    assert_eq!(hear(&mut codec, &audio), ["audio", "pcm:6"]);
    assert_eq!(codec.react(), Ok(()));
    let closed = json!({"type": "session.closed", "reason": "expired", "usage": {"seconds": 9}, "session": {"id": "live_1"}});
    assert!(hear(&mut codec, &closed).is_empty());
    let Err(LostReason::Closed { reason, .. }) = codec.react() else {
        panic!("the session goes on");
    };
    assert_eq!(reason, "the service closed the session: expired");
}

#[test]
fn a_refusal_ends_the_session_where_it_has_not_begun_or_cannot_go_on() {
    let error = |code: &str, param: Value| json!({"type": "error", "event_id": "e", "error": {"type": "invalid_request_error", "code": code, "message": "secret", "param": param}});
    for (is_ready, code, lost) in [
        (false, "unknown_parameter", true),
        (true, "unknown_parameter", false),
        (true, "invalid_api_key", true),
        (true, "credit_balance_exhausted", true),
    ] {
        let mut codec = Codec::default();
        if is_ready {
            hear(&mut codec, &session()[0]);
        }
        let said = hear(&mut codec, &error(code, json!("session.voice")));
        assert!(!format!("{said:?}").contains("secret"));
        assert_eq!(said.is_empty(), lost, "{code}: {said:?}");
        assert_eq!(codec.react().is_err(), lost, "{code}");
    }
}

#[test]
fn nothing_is_sent_but_what_is_documented() {
    let mut frame = Vec::new();
    let request = SetupRequest {
        model: "gpt-live-1",
        instructions: "Be brief.",
        voice: Some("marin"),
    };
    encode_setup(&request, &mut frame);
    assert_eq!(
        serde_json::from_slice::<Value>(&frame).unwrap(),
        json!({"type": "session.start", "session": {"model": "gpt-live-1", "instructions": "Be brief.",
            "audio": {"format": {"type": "audio/pcm", "rate": 24000}, "output": {"voice": "marin"}}, "delegation": {"type": "client"}}})
    );
    let mut codec = Codec::default();
    let mut frame = Vec::new();
    codec.encode_audio(&[0; 640], &mut frame);
    let audio: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!(audio["type"], "session.input_audio.append");
    assert_eq!(audio.as_object().unwrap().len(), 2);
    let mut frames = Vec::new();
    let text = "Grüße, ".repeat(300);
    codec.commentary(Some("dlg_1"), &text, &mut frames);
    codec.thinking(None, "quiet", &mut frames);
    codec.thinking(None, "  ", &mut frames);
    let events: Vec<Value> = frames
        .iter()
        .map(|frame| serde_json::from_slice(frame).unwrap())
        .collect();
    let (last, spoken) = events.split_last().unwrap();
    assert_eq!(
        last,
        &json!({"type": "session.thinking.append", "content": "quiet", "delegation_id": null})
    );
    let words: Vec<&str> = spoken
        .iter()
        .flat_map(|event| event["content"].as_str().unwrap().split_whitespace())
        .collect();
    assert_eq!(words.len(), 300);
    for event in spoken {
        assert_eq!(
            (&event["type"], &event["delegation_id"]),
            (&json!("session.commentary.append"), &json!("dlg_1"))
        );
        assert!(event["content"].as_str().unwrap().chars().count() <= 480);
    }
}

#[test]
fn a_session_is_opened_where_it_is_meant_to_be() {
    let key = Sensitive("sk-1".to_owned());
    for (url, expected) in [
        (None, Some("wss://api.openai.com/v1/live/sessions")),
        (
            Some("http://127.0.0.1:9"),
            Some("ws://127.0.0.1:9/v1/live/sessions"),
        ),
        (
            Some("https://r.azure.example/openai/v1"),
            Some("wss://r.azure.example/openai/v1/live/sessions"),
        ),
        (
            Some("ws://h/v1/live/sessions"),
            Some("ws://h/v1/live/sessions"),
        ),
        (Some("ftp://h"), None),
        (Some("ws://user:secret@h"), None),
    ] {
        let address = address(Some(&key), url);
        assert_eq!(
            address.as_ref().ok().map(|address| address.url.as_str()),
            expected
        );
        assert!(!format!("{address:?}").contains("secret"));
    }
    assert!(address(None, None).is_err() && address(None, Some("ws://h")).is_ok());
}

#[test]
fn after_a_hundred_thousand_damaged_events_a_task_is_still_taken() {
    let mut mutations = Mutations::of(&session());
    let mut codec = Codec::default();
    for number in 0..100_000_u32 {
        let mut heard = Heard::default();
        codec.decode(&mutations.next(), &mut heard);
        assert!(heard.0.len() < 50, "{:?}", heard.0);
        let _ = codec.react();
        if number % 500 == 0 {
            let task = json!({"type": "session.delegation.created", "delegation": {"id": "dlg_9", "target": "client"}});
            assert_eq!(hear(&mut codec, &task), ["task:dlg_9"]);
        }
    }
}
