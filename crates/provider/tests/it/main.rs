//! The codec through its public door: frames in, events out; commands in, frames out.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and says when it skips"
)]

mod calls;
mod commands;
mod events;
mod gpt_live;
mod hostile;
mod lenient;
mod mutation;
mod realtime;
mod recorded;
mod setup;
mod text;

use serde_json::Value;
use windlass_provider::gemini_live::{Codec, Sink};
use windlass_provider::profile;
use windlass_session::model::{ModelCommand, ModelEvent};

/// What a frame says, in order: an event, or audio between events.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Event(ModelEvent),
    Audio(Vec<u8>),
}

#[derive(Default)]
struct Heard(Vec<Said>);

impl Sink for Heard {
    fn event(&mut self, event: ModelEvent) {
        self.0.push(Said::Event(event));
    }

    fn audio(&mut self, pcm: &[u8]) {
        self.0.push(Said::Audio(pcm.to_vec()));
    }
}

fn codec(model: &str) -> Codec {
    Codec::new(profile::gemini_live(model).profile.model)
}

fn decode(codec: &mut Codec, frame: &[u8]) -> Vec<Said> {
    let mut heard = Heard::default();
    codec.decode(frame, &mut heard);
    heard.0
}

/// The frames of one command, as values.
fn encode(codec: &mut Codec, command: &ModelCommand) -> Vec<Value> {
    let mut frames = Vec::new();
    codec.encode(command, &mut frames);
    frames
        .iter()
        .map(|frame| serde_json::from_slice(frame).unwrap())
        .collect()
}

/// Spells every field of a message in snake case. Arguments, which are the tool's own, stay as they are.
fn to_snake_case(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(to_snake_case).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let value = if key == "args" {
                    value.clone()
                } else {
                    to_snake_case(value)
                };
                (snake_case(key), value)
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        scalar => scalar.clone(),
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
