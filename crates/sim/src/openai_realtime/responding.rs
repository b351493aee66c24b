//! The progress of a response: its items, its audio at the speed of the settings, its end. Knows the protocol's order of events; the
//! content comes from the script or the demo model.

use super::requests::{Active, SAMPLES_PER_MS, Session, Speech};
use crate::pieces::split;
use crate::runner::Output;
use crate::script::{Action, CallForm, CallId, Closing};
use crate::sound::voice::Voice;
use crate::text::plan;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use windlass_session::time::Timestamp;

/// 100 ms of audio in an event.
const SAMPLES_PER_DELTA: usize = 2_400;

enum Step {
    Next,
    Done,
    /// A failure with these details.
    Failed(Value),
}

impl Session {
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let next = self.active.as_ref().and_then(|active| active.next_at);
        next.into_iter().chain(self.ends_at).min()
    }

    pub(super) fn start_response(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let actions = plan::next(
            &self.options,
            self.config.instruction(),
            &self.items.said(),
            &self.config.tools(),
        );
        let id = self.mint("resp");
        let response = self.response(&id, "in_progress", Value::Null, &[], Value::Null);
        self.send(
            json!({"type": "response.created", "response": response}),
            out,
        );
        self.active = Some(Active {
            id,
            steps: actions.into(),
            output: Vec::new(),
            speech: None,
            next_at: Some(now),
        });
    }

    fn response(
        &self,
        id: &str,
        status: &str,
        details: Value,
        output: &[Value],
        usage: Value,
    ) -> Value {
        let config = self.config.shown();
        json!({"object": "realtime.response", "id": id, "status": status, "status_details": details, "output": output,
            "conversation_id": "conv_1", "output_modalities": config["output_modalities"],
            "max_output_tokens": config["max_output_tokens"],
            "audio": {"output": {"format": config["audio"]["output"]["format"], "voice": config["audio"]["output"]["voice"]}},
            "usage": usage, "metadata": null})
    }

    /// Continues the response up to `now`.
    pub(super) fn advance(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        if !self.over && self.ends_at.is_some_and(|at| at <= now) {
            return self.expire(out);
        }
        while !self.over {
            let due = self.active.as_ref().and_then(|active| active.next_at);
            let Some(mut active) = self.active.take_if(|_| due.is_some_and(|at| at <= now)) else {
                return;
            };
            match self.step(&mut active, now, out) {
                Step::Next => self.active = Some(active),
                Step::Failed(details) => {
                    self.finish(active, "failed", details, Value::Null, out);
                }
                Step::Done => {
                    let usage = usage_of(&active.output);
                    self.finish(active, "completed", Value::Null, usage, out);
                }
            }
        }
    }

    fn step(&mut self, active: &mut Active, now: Timestamp, out: &mut Vec<Output>) -> Step {
        if active.speech.is_some() {
            self.speak(active, now, out);
            return Step::Next;
        }
        let Some(action) = active.steps.pop_front() else {
            return Step::Done;
        };
        match action {
            Action::Say(text) if self.config.is_spoken() => self.begin_speech(active, &text, out),
            Action::Say(text) => self.write(active, &text, out),
            Action::Call(call) => self.call(active, &call, out),
            Action::Calls(calls) => {
                for call in &calls {
                    self.call(active, call, out);
                }
            }
            Action::WaitMs(milliseconds) => {
                active.next_at = Some(now + Duration::from_millis(milliseconds));
            }
            Action::Fail(failure) => {
                let code = if failure.status == 429 {
                    "rate_limit_exceeded"
                } else {
                    "server_error"
                };
                let error = json!({"type": code, "code": code, "message": failure.message});
                return Step::Failed(json!({"type": "failed", "error": error}));
            }
            Action::LeaveOpen => active.next_at = None,
            Action::Endless => {
                active.steps.push_front(Action::Endless);
                active
                    .steps
                    .push_front(Action::Say("and on and on".to_owned()));
            }
            Action::GoAwayMs(milliseconds) => {
                self.ends_at = Some(now + Duration::from_millis(milliseconds));
            }
            Action::Raw(value) => out.push(Output::Send(value.to_string().into_bytes())),
            Action::RawText(text) => out.push(Output::Send(text.into_bytes())),
            Action::Close(Closing { code, reason }) => {
                self.hang_up(Output::Close { code, reason }, out);
            }
            Action::Drop => self.hang_up(Output::Drop, out),
            Action::HalfFrame(value) => {
                self.hang_up(Output::DropWithin(value.to_string().into_bytes()), out);
            }
            Action::RefuseConnects(count) => self.refuses_next = Some(count),
            Action::StallMs(milliseconds) => out.push(Output::StopReading {
                until: now + Duration::from_millis(milliseconds),
            }),
            // Actions for other protocols do nothing here.
            Action::Think(_)
            | Action::Search(_)
            | Action::AudioMs(_)
            | Action::ExpectResponse
            | Action::Cancel
            | Action::EndTurn
            | Action::Flood(_)
            | Action::HalfACharacter => {}
        }
        Step::Next
    }

    fn hang_up(&mut self, how: Output, out: &mut Vec<Output>) {
        self.over = true;
        out.push(how);
    }

    /// Ends the session when its time is over: the service reports it and closes, without an earlier warning.
    fn expire(&mut self, out: &mut Vec<Output>) {
        let message = "Your session hit the maximum duration of 60 minutes.";
        self.send(
            json!({"type": "error", "error": {"type": "invalid_request_error", "code": "session_expired",
                "message": message, "param": null, "event_id": null}}),
            out,
        );
        let (code, reason) = (1001, message.to_owned());
        self.hang_up(Output::Close { code, reason }, out);
    }

    /// Sends an event of the current response.
    fn say(&mut self, active: &Active, kind: &str, fields: Value, out: &mut Vec<Output>) {
        let mut event = json!({"type": format!("response.{kind}"), "response_id": active.id,
            "output_index": active.output.len()});
        if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
            event.extend(fields);
        }
        self.send(event, out);
    }

    fn add_output(&mut self, active: &Active, item: &Value, out: &mut Vec<Output>) {
        self.say(active, "output_item.added", json!({ "item": item }), out);
        let previous = self.items.last_id();
        self.send(
            json!({"type": "conversation.item.added", "previous_item_id": previous, "item": item}),
            out,
        );
    }

    fn end_output(
        &mut self,
        active: &mut Active,
        item: Value,
        audio_ms: u64,
        out: &mut Vec<Output>,
    ) {
        let previous = self.items.last_id();
        self.send(
            json!({"type": "conversation.item.done", "previous_item_id": previous, "item": item}),
            out,
        );
        self.say(active, "output_item.done", json!({ "item": item }), out);
        self.items.push(item.clone(), audio_ms);
        active.output.push(item);
    }

    fn begin_speech(&mut self, active: &mut Active, text: &str, out: &mut Vec<Output>) {
        let item_id = self.mint("item");
        let item = message(&item_id, "in_progress", &[]);
        self.add_output(active, &item, out);
        let part = json!({"item_id": item_id, "content_index": 0, "part": {"type": "audio", "transcript": ""}});
        self.say(active, "content_part.added", part, out);
        let pieces: VecDeque<String> = split(text).into();
        active.speech = Some(Speech {
            item_id,
            voice: Voice::of_text(text),
            piece_count: pieces.len(),
            pieces,
            said: String::new(),
        });
    }

    /// Sends the next tenth of a second, and its words.
    fn speak(&mut self, active: &mut Active, now: Timestamp, out: &mut Vec<Output>) {
        let Some(mut speech) = active.speech.take() else {
            return;
        };
        let place = json!({"item_id": speech.item_id, "content_index": 0});
        let with = |name: &str, value: Value| {
            let mut fields = place.clone();
            fields[name] = value;
            fields
        };
        let total = speech.voice.samples().max(1);
        let due = (speech.voice.position() * speech.piece_count / total) + 1;
        while speech.piece_count - speech.pieces.len() < due
            && let Some(piece) = speech.pieces.pop_front()
        {
            speech.said.push_str(&piece);
            let fields = with("delta", json!(piece));
            self.say(active, "output_audio_transcript.delta", fields, out);
        }
        let mut pcm = Vec::new();
        let samples = speech.voice.speak(SAMPLES_PER_DELTA, &mut pcm);
        let fields = with("delta", json!(base64_simd::STANDARD.encode_to_string(&pcm)));
        self.say(active, "output_audio.delta", fields, out);
        let speed = self.options.settings.speed;
        if speed > 0.0 {
            let milliseconds = samples as f64 / SAMPLES_PER_MS as f64;
            let base = active.next_at.unwrap_or(now);
            active.next_at = Some(base + Duration::from_secs_f64(milliseconds / 1_000.0 / speed));
        }
        if speech.voice.is_over() {
            self.end_speech(active, speech, "completed", out);
        } else {
            active.speech = Some(speech);
        }
    }

    fn end_speech(
        &mut self,
        active: &mut Active,
        mut speech: Speech,
        status: &str,
        out: &mut Vec<Output>,
    ) {
        if status == "completed" {
            speech.said.extend(speech.pieces.drain(..));
        }
        let place = |name: Option<(&str, Value)>| {
            let mut fields = json!({"item_id": speech.item_id, "content_index": 0});
            if let Some((name, value)) = name {
                fields[name] = value;
            }
            fields
        };
        self.say(active, "output_audio.done", place(None), out);
        let transcript = json!(speech.said);
        let fields = place(Some(("transcript", transcript.clone())));
        self.say(active, "output_audio_transcript.done", fields, out);
        let part = json!({"type": "audio", "transcript": transcript});
        self.say(
            active,
            "content_part.done",
            place(Some(("part", part))),
            out,
        );
        let content = json!({"type": "output_audio", "transcript": transcript});
        let item = message(&speech.item_id, status, &[content]);
        self.end_output(active, item, speech.audio_ms(), out);
    }

    fn write(&mut self, active: &mut Active, text: &str, out: &mut Vec<Output>) {
        let id = self.mint("item");
        self.add_output(active, &message(&id, "in_progress", &[]), out);
        let fields = |name: &str, value: Value| {
            let mut fields = json!({"item_id": id, "content_index": 0});
            fields[name] = value;
            fields
        };
        let part = json!({"type": "text", "text": ""});
        self.say(active, "content_part.added", fields("part", part), out);
        for piece in split(text) {
            let fields = fields("delta", json!(piece));
            self.say(active, "output_text.delta", fields, out);
        }
        self.say(active, "output_text.done", fields("text", json!(text)), out);
        let part = json!({"type": "text", "text": text});
        self.say(active, "content_part.done", fields("part", part), out);
        let content = json!({"type": "output_text", "text": text});
        let item = message(&id, "completed", &[content]);
        self.end_output(active, item, 0, out);
    }

    fn call(&mut self, active: &mut Active, call: &CallForm, out: &mut Vec<Output>) {
        let id = self.mint("item");
        let call_id = match &call.id {
            CallId::Given(id) => json!(id),
            CallId::Minted => json!(self.mint("call")),
            CallId::Missing => Value::Null,
        };
        let arguments = match &call.args {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let item = |status: &str, arguments: &str| {
            json!({"id": id, "object": "realtime.item", "type": "function_call", "status": status, "name": call.name,
                "call_id": call_id, "arguments": arguments})
        };
        self.add_output(active, &item("in_progress", ""), out);
        let place = json!({"item_id": id, "call_id": call_id});
        let mut delta = place.clone();
        delta["delta"] = json!(arguments);
        self.say(active, "function_call_arguments.delta", delta, out);
        let mut done = place;
        done["name"] = json!(call.name);
        done["arguments"] = json!(arguments);
        self.say(active, "function_call_arguments.done", done, out);
        self.end_output(active, item("completed", &arguments), 0, out);
    }

    /// Ends the current response, if any, before it is complete.
    pub(super) fn cancel_active(&mut self, reason: &str, out: &mut Vec<Output>) {
        let Some(mut active) = self.active.take() else {
            return;
        };
        if let Some(speech) = active.speech.take() {
            self.end_speech(&mut active, speech, "incomplete", out);
        }
        let details = json!({"type": "cancelled", "reason": reason});
        let usage = usage_of(&active.output);
        self.finish(active, "cancelled", details, usage, out);
    }

    fn finish(
        &mut self,
        active: Active,
        status: &str,
        details: Value,
        usage: Value,
        out: &mut Vec<Output>,
    ) {
        let response = self.response(&active.id, status, details, &active.output, usage);
        self.send(json!({"type": "response.done", "response": response}), out);
        self.send(
            json!({"type": "rate_limits.updated", "rate_limits": [
                {"name": "tokens", "limit": 50000, "remaining": 49950, "reset_seconds": 1}]}),
            out,
        );
    }
}

fn message(id: &str, status: &str, content: &[Value]) -> Value {
    json!({"id": id, "object": "realtime.item", "type": "message", "status": status, "role": "assistant",
        "content": content})
}

fn usage_of(output: &[Value]) -> Value {
    let characters: usize = output.iter().map(|item| item.to_string().len()).sum();
    let tokens = plan::tokens(characters);
    json!({"total_tokens": tokens + 10, "input_tokens": 10, "output_tokens": tokens,
        "input_token_details": {"text_tokens": 10, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 0,
            "cached_tokens_details": {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0}},
        "output_token_details": {"text_tokens": tokens, "audio_tokens": 0}})
}
