//! One session: its state, and the effect of each client event. Knows no socket; `responding` continues responses.

use super::audio::{COMMIT_MS_MIN, Ears, Heard};
use super::config::{Config, Refusal};
use super::items::Items;
use crate::runner::{Options, Output};
use crate::script::Action;
use crate::sound::voice::Voice;
use crate::text::plan;
use serde_json::{Value, json};
use std::collections::VecDeque;
use windlass_session::time::Timestamp;

pub(super) const SAMPLES_PER_MS: usize = 24;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) options: Options,
    pub(super) config: Config,
    pub(super) items: Items,
    pub(super) active: Option<Active>,
    ears: Ears,
    /// The id of the item for the speech in progress.
    speech_item: Option<String>,
    pub(super) ends_at: Option<Timestamp>,
    /// The number of next connections to refuse, until the server has read it.
    pub(super) refuses_next: Option<u32>,
    pub(super) over: bool,
    minted: u64,
    events: u64,
}

/// The current response.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: String,
    pub(super) steps: VecDeque<Action>,
    pub(super) output: Vec<Value>,
    pub(super) speech: Option<Speech>,
    /// `None` while it waits only for the client.
    pub(super) next_at: Option<Timestamp>,
}

/// A message that is being spoken.
#[derive(Debug)]
pub(super) struct Speech {
    pub(super) item_id: String,
    pub(super) voice: Voice,
    pub(super) pieces: VecDeque<String>,
    pub(super) piece_count: usize,
    pub(super) said: String,
}

impl Active {
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Speech {
    pub(super) fn audio_ms(&self) -> u64 {
        (self.voice.position() / SAMPLES_PER_MS) as u64
    }
}

impl Session {
    pub(super) fn new(model: String, options: Options) -> Self {
        let config = Config::new(&model);
        Self {
            ears: Ears::new(config.sensitivity()),
            options,
            config,
            items: Items::default(),
            active: None,
            speech_item: None,
            ends_at: None,
            refuses_next: None,
            over: false,
            minted: 0,
            events: 0,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn begin(&mut self, out: &mut Vec<Output>) {
        let session = self.config.shown();
        self.send(json!({"type": "session.created", "session": session}), out);
    }

    /// Sends an event, with its id.
    pub(super) fn send(&mut self, mut event: Value, out: &mut Vec<Output>) {
        self.events += 1;
        event["event_id"] = json!(format!("event_{}", self.events));
        out.push(Output::Send(event.to_string().into_bytes()));
    }

    pub(super) fn mint(&mut self, kind: &str) -> String {
        self.minted += 1;
        format!("{kind}_{}", self.minted)
    }

    fn refuse(&mut self, event: &Value, refusal: &Refusal, out: &mut Vec<Output>) {
        let error = json!({"type": "invalid_request_error", "code": refusal.code, "message": refusal.message,
            "param": refusal.param, "event_id": event["event_id"]});
        self.send(json!({"type": "error", "error": error}), out);
    }

    /// Takes one event of the client.
    pub(super) fn take(&mut self, now: Timestamp, frame: &[u8], out: &mut Vec<Output>) {
        let event = serde_json::from_slice::<Value>(frame).unwrap_or(Value::Null);
        let taken = match event["type"].as_str() {
            Some("session.update") => self.update(&event, out),
            Some("input_audio_buffer.append") => self.append(now, &event, out),
            Some("input_audio_buffer.commit") => self.commit_by_hand(out),
            Some("input_audio_buffer.clear") => {
                self.ears.clear();
                self.send(json!({"type": "input_audio_buffer.cleared"}), out);
                Ok(())
            }
            Some("conversation.item.create") => self.create_item(&event, out),
            Some("conversation.item.retrieve") => self.retrieve(&event, out),
            Some("conversation.item.truncate") => self.truncate(&event, out),
            Some("conversation.item.delete") => self.delete(&event, out),
            Some("response.create") => self.create_response(now, out),
            Some("response.cancel") => self.cancel_response(&event, out),
            Some(kind) => {
                let message = format!("Invalid value: '{kind}'.");
                Err(Refusal::new("invalid_value", "type", message))
            }
            None => Err(Refusal::new("invalid_event", "type", "Missing type.")),
        };
        if let Err(refusal) = taken {
            self.refuse(&event, &refusal, out);
        }
    }

    fn update(&mut self, event: &Value, out: &mut Vec<Output>) -> Result<(), Refusal> {
        let before = self.config.sensitivity();
        self.config.update(&event["session"])?;
        let after = self.config.sensitivity();
        if before != after {
            self.ears.tune(after);
        }
        let session = self.config.shown();
        self.send(json!({"type": "session.updated", "session": session}), out);
        Ok(())
    }

    fn append(
        &mut self,
        now: Timestamp,
        event: &Value,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let audio = event["audio"].as_str().unwrap_or_default();
        let detects = self.config.detects_turns();
        let Some(heard) = self.ears.hear(audio, detects) else {
            return Err(Refusal::new(
                "invalid_value",
                "audio",
                "Invalid 'audio'. Expected base64-encoded audio bytes.",
            ));
        };
        for heard in heard {
            match heard {
                Heard::Started { at_ms } => self.speech_started(at_ms, out),
                Heard::Stopped { at_ms } => self.speech_stopped(now, at_ms, out),
            }
        }
        Ok(())
    }

    fn speech_started(&mut self, at_ms: u64, out: &mut Vec<Output>) {
        let id = self.mint("item");
        self.speech_item = Some(id.clone());
        self.send(
            json!({"type": "input_audio_buffer.speech_started", "audio_start_ms": at_ms, "item_id": id}),
            out,
        );
        if self.config.detection_flag("interrupt_response") {
            self.cancel_active("turn_detected", out);
        }
    }

    fn speech_stopped(&mut self, now: Timestamp, at_ms: u64, out: &mut Vec<Output>) {
        let id = self.speech_item.take().unwrap_or_else(|| self.mint("item"));
        self.send(
            json!({"type": "input_audio_buffer.speech_stopped", "audio_end_ms": at_ms, "item_id": id}),
            out,
        );
        self.commit(&id, out);
        if self.config.detection_flag("create_response") && self.active.is_none() {
            self.start_response(now, out);
        }
    }

    fn commit_by_hand(&mut self, out: &mut Vec<Output>) -> Result<(), Refusal> {
        if self.ears.buffered_ms() < COMMIT_MS_MIN {
            let message = format!(
                "Error committing input audio buffer: buffer too small. Expected at least {COMMIT_MS_MIN}ms of audio, but buffer only has {}ms of audio.",
                self.ears.buffered_ms()
            );
            return Err(Refusal::new("input_audio_buffer_commit_empty", "", message));
        }
        let id = self.mint("item");
        self.commit(&id, out);
        Ok(())
    }

    /// Turns the buffer's audio into an item of the user.
    fn commit(&mut self, id: &str, out: &mut Vec<Output>) {
        let seconds = self.ears.buffered_ms().div_ceil(1_000);
        self.ears.clear();
        let previous = self.items.last_id();
        self.send(
            json!({"type": "input_audio_buffer.committed", "previous_item_id": previous, "item_id": id}),
            out,
        );
        let item = json!({"id": id, "object": "realtime.item", "type": "message", "status": "completed", "role": "user",
            "content": [{"type": "input_audio", "transcript": null}]});
        self.add_item(item, out);
        if !self.config.transcribes() {
            return;
        }
        let transcript = plan::transcript(&self.options, &self.items.said());
        self.send(
            json!({"type": "conversation.item.input_audio_transcription.delta", "item_id": id, "content_index": 0,
                "delta": transcript}),
            out,
        );
        self.send(
            json!({"type": "conversation.item.input_audio_transcription.completed", "item_id": id, "content_index": 0,
                "transcript": transcript, "usage": {"type": "duration", "seconds": seconds}}),
            out,
        );
    }

    /// Adds an item that is complete from the beginning.
    fn add_item(&mut self, item: Value, out: &mut Vec<Output>) {
        let previous = self.items.last_id();
        for kind in ["conversation.item.added", "conversation.item.done"] {
            self.send(
                json!({"type": kind, "previous_item_id": previous, "item": item}),
                out,
            );
        }
        self.items.push(item, 0);
    }

    fn create_item(&mut self, event: &Value, out: &mut Vec<Output>) -> Result<(), Refusal> {
        let id = self.mint("item");
        let item = self.items.read(&event["item"], &id)?;
        self.add_item(item, out);
        Ok(())
    }

    fn retrieve(&mut self, event: &Value, out: &mut Vec<Output>) -> Result<(), Refusal> {
        let id = event["item_id"].as_str().unwrap_or_default();
        let Some(item) = self.items.find(id) else {
            return Err(Refusal::new(
                "item_retrieve_invalid_item_id",
                "item_id",
                format!("Error retrieving item: the item with id '{id}' does not exist."),
            ));
        };
        let item = item.shown.clone();
        self.send(
            json!({"type": "conversation.item.retrieved", "item": item}),
            out,
        );
        Ok(())
    }

    fn truncate(&mut self, event: &Value, out: &mut Vec<Output>) -> Result<(), Refusal> {
        let id = event["item_id"].as_str().unwrap_or_default();
        let end_ms = event["audio_end_ms"].as_u64();
        let invalid = |param: &str, message: String| Refusal::new("invalid_value", param, message);
        let Some(item) = self.items.find(id) else {
            let message = format!("Error truncating item: the item with id '{id}' does not exist.");
            return Err(invalid("item_id", message));
        };
        let Some(end_ms) = end_ms else {
            return Err(invalid(
                "audio_end_ms",
                "Invalid 'audio_end_ms'.".to_owned(),
            ));
        };
        if item.shown["role"] != "assistant" {
            let message = "Only model output audio messages can be truncated.";
            return Err(invalid("item_id", message.to_owned()));
        }
        if end_ms > item.audio_ms {
            let message = format!(
                "Audio content of {}ms is already shorter than {end_ms}ms",
                item.audio_ms
            );
            return Err(invalid("audio_end_ms", message));
        }
        item.audio_ms = end_ms;
        item.shown["content"] = json!([{"type": "output_audio"}]);
        self.send(
            json!({"type": "conversation.item.truncated", "item_id": id, "content_index": event["content_index"],
                "audio_end_ms": end_ms}),
            out,
        );
        Ok(())
    }

    fn delete(&mut self, event: &Value, out: &mut Vec<Output>) -> Result<(), Refusal> {
        let id = event["item_id"].as_str().unwrap_or_default();
        if !self.items.remove(id) {
            let message = format!("Error deleting item: the item with id '{id}' does not exist.");
            return Err(Refusal::new(
                "item_delete_invalid_item_id",
                "item_id",
                message,
            ));
        }
        self.send(
            json!({"type": "conversation.item.deleted", "item_id": id}),
            out,
        );
        Ok(())
    }

    fn create_response(&mut self, now: Timestamp, out: &mut Vec<Output>) -> Result<(), Refusal> {
        if let Some(active) = &self.active {
            let message = format!(
                "Conversation already has an active response in progress: {}. Wait until the response is finished before creating a new one.",
                active.id()
            );
            let code = "conversation_already_has_active_response";
            return Err(Refusal::new(code, "", message));
        }
        self.start_response(now, out);
        Ok(())
    }

    fn cancel_response(&mut self, event: &Value, out: &mut Vec<Output>) -> Result<(), Refusal> {
        let wanted = event["response_id"].as_str();
        let is_active = self
            .active
            .as_ref()
            .is_some_and(|active| wanted.is_none_or(|id| id == active.id()));
        if !is_active {
            return Err(Refusal::new(
                "response_cancel_not_active",
                "",
                "Cancellation failed: no active response found",
            ));
        }
        self.cancel_active("client_cancelled", out);
        Ok(())
    }
}
