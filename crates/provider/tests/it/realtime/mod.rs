//! The codec of OpenAI Realtime through its public door: events in, model events and our events out.

mod conversation;
mod hostile;
mod lenient;
mod recorded;
mod relatives;
mod setup;

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::envelope::{Projection, ProjectionBody};
use windlass_provider::openai_realtime::{Codec, Options, Sink};
use windlass_session::model::{
    IncomingCall, ModelCommand, ModelEvent, ModelToolResponse, TurnEndReason,
};

/// A codec in a conversation, and what became of it since it was last asked, a word each.
struct Talk {
    codec: Codec,
    log: Vec<String>,
    unplayed: Duration,
}

struct Heard<'a> {
    log: &'a mut Vec<String>,
    unplayed: Duration,
}

impl Sink for Heard<'_> {
    fn event(&mut self, event: ModelEvent) {
        self.log.push(word(&event));
    }

    fn audio(&mut self, pcm: &[u8]) {
        self.log.push(format!("pcm:{}", pcm.len()));
    }

    fn unplayed(&self) -> Duration {
        self.unplayed
    }
}

fn word(event: &ModelEvent) -> String {
    match event {
        ModelEvent::Ready { .. } => "ready".to_owned(),
        ModelEvent::Calls(calls) => {
            let calls: Vec<String> = calls.iter().map(call_word).collect();
            format!("calls:{}", calls.join("+"))
        }
        ModelEvent::SpeechStarted => "speech".to_owned(),
        ModelEvent::SpeechEnded => "quiet".to_owned(),
        ModelEvent::InputTranscribed { text } => format!("user:{}", text.expose()),
        ModelEvent::OutputTranscript { text, .. } => format!("says:{}", text.expose()),
        ModelEvent::OutputText { text } => format!("text:{}", text.expose()),
        ModelEvent::AudioStarted => "audio".to_owned(),
        ModelEvent::GenerationComplete => "generated".to_owned(),
        ModelEvent::TurnComplete { reason: None, .. } => "end".to_owned(),
        ModelEvent::TurnComplete {
            reason: Some(TurnEndReason::Blocked),
            ..
        } => "end:blocked".to_owned(),
        ModelEvent::TurnComplete {
            reason: Some(reason),
            ..
        } => format!("end:{reason:?}"),
        ModelEvent::Interrupted => "interrupted".to_owned(),
        ModelEvent::Usage(usage) => format!("usage:{}", usage.total_tokens),
        ModelEvent::Malformed { problem } => format!("malformed:{problem}"),
        ModelEvent::Unknown { fields } => format!("unknown:{}", fields.join(",")),
        other => panic!("the codec never says {other:?}"),
    }
}

fn call_word(call: &IncomingCall) -> String {
    let arguments = match &call.arguments {
        Ok(arguments) => json!(arguments).to_string(),
        Err(_) => "bad".to_owned(),
    };
    let or_none = |text: &Option<Arc<str>>| text.as_deref().unwrap_or("none").to_owned();
    format!("{}/{}{arguments}", or_none(&call.id), or_none(&call.name))
}

fn sent_word(frame: &[u8]) -> String {
    let frame: Value = serde_json::from_slice(frame).unwrap();
    let item = &frame["item"];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    match frame["type"].as_str().unwrap() {
        "conversation.item.create" => match item["type"].as_str().unwrap() {
            "function_call_output" => format!("<output:{}", text(&item["call_id"])),
            _ => format!("<{}", text(&item["role"])),
        },
        "response.create" => "<create".to_owned(),
        "response.cancel" => format!("<cancel:{}", text(&frame["response_id"])),
        "conversation.item.truncate" => {
            format!(
                "<truncate:{}@{}",
                text(&frame["item_id"]),
                frame["audio_end_ms"]
            )
        }
        "input_audio_buffer.append" => "<audio".to_owned(),
        other => panic!("the codec never sends {other}"),
    }
}

impl Talk {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        Self {
            codec: Codec::new(options),
            log: Vec::new(),
            unplayed: Duration::ZERO,
        }
    }

    /// One event of the server, and the codec's reaction; the core's to an interruption as well.
    fn hears(&mut self, event: &Value) -> &mut Self {
        self.hears_text(&event.to_string())
    }

    fn hears_text(&mut self, event: &str) -> &mut Self {
        self.hears_bytes(event.as_bytes())
    }

    fn hears_bytes(&mut self, event: &[u8]) -> &mut Self {
        let before = self.log.len();
        let unplayed = self.unplayed;
        let log = &mut self.log;
        self.codec.decode(event, &mut Heard { log, unplayed });
        let mut frames = Vec::new();
        let outcome = self.codec.react(&mut frames);
        if self.log[before..].iter().any(|word| word == "interrupted") {
            self.codec.discard(unplayed, &mut frames);
        }
        self.log.extend(frames.iter().map(|frame| sent_word(frame)));
        if let Err(reason) = outcome {
            self.log.push(format!("lost:{reason:?}"));
        }
        self
    }

    fn told(&mut self, command: &ModelCommand) -> &mut Self {
        let mut frames = Vec::new();
        self.codec.encode(command, &mut frames);
        self.log.extend(frames.iter().map(|frame| sent_word(frame)));
        self
    }

    fn typed(&mut self, text: &str) -> &mut Self {
        self.told(&ModelCommand::UserText(text.to_owned().into()))
    }

    fn answered(&mut self, ids: &[&str]) -> &mut Self {
        self.told(&ModelCommand::ToolResponses(
            ids.iter().map(|id| answer(id)).collect(),
        ))
    }

    /// The client interrupts.
    fn discards(&mut self) -> &mut Self {
        let mut frames = Vec::new();
        self.codec.discard(self.unplayed, &mut frames);
        self.log.extend(frames.iter().map(|frame| sent_word(frame)));
        self
    }

    fn created(&mut self, id: &str) -> &mut Self {
        self.hears(&json!({"type": "response.created", "event_id": "e", "response": {"id": id, "status": "in_progress"}}))
    }

    fn done(&mut self, id: &str, status: &str, output: Value) -> &mut Self {
        self.hears(&json!({"type": "response.done", "event_id": "e",
            "response": {"id": id, "status": status, "output": output}}))
    }

    fn acknowledged(&mut self, item: u32) -> &mut Self {
        self.hears(&json!({"type": "conversation.item.added", "event_id": "e",
            "item": {"id": format!("wl_item_{item}"), "type": "message"}}))
    }

    fn speaks(&mut self, response: &str, item: &str, milliseconds: usize) -> &mut Self {
        let pcm = base64_of_silence(milliseconds * 48);
        self.hears(
            &json!({"type": "response.output_audio.delta", "event_id": "e", "response_id": response,
            "item_id": item, "output_index": 0, "content_index": 0, "delta": pcm}),
        )
    }

    fn finishes_call(&mut self, response: &str, item: &Value) -> &mut Self {
        self.finishes_call_at(response, 0, item)
    }

    fn finishes_call_at(&mut self, response: &str, place: u64, item: &Value) -> &mut Self {
        self.hears(
            &json!({"type": "response.output_item.done", "event_id": "e", "response_id": response,
            "output_index": place, "item": item}),
        )
    }

    fn hears_speech(&mut self) -> &mut Self {
        self.hears(
            &json!({"type": "input_audio_buffer.speech_started", "event_id": "e", "item_id": "u"}),
        )
    }

    fn hears_quiet(&mut self) -> &mut Self {
        self.hears(
            &json!({"type": "input_audio_buffer.speech_stopped", "event_id": "e", "item_id": "u"}),
        )
    }

    /// What happened since it was last asked.
    #[track_caller]
    fn expect(&mut self, expected: &str) -> &mut Self {
        assert_eq!(std::mem::take(&mut self.log).join(" "), expected);
        self
    }
}

fn base64_of_silence(bytes: usize) -> String {
    assert!(bytes.is_multiple_of(3));
    "A".repeat(bytes / 3 * 4)
}

fn call(id: &str, status: &str, arguments: &str) -> Value {
    json!({"id": format!("item_{id}"), "type": "function_call", "status": status, "call_id": id, "name": "look",
        "arguments": arguments})
}

fn answer(id: &str) -> ModelToolResponse {
    ModelToolResponse {
        id: Some(Arc::from(id)),
        name: "look".into(),
        projection: Projection {
            duration_ms: 3,
            body: ProjectionBody::Success {
                data: Some(json!({"t": 1}).into()),
                content: Vec::new(),
                cut: None,
                quoted: false,
            },
        },
        scheduling: None,
    }
}
