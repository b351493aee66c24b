//! Measures the session core alone: how many inputs of each kind it takes in a second on one processor.

use crate::kit::Kit;
use crate::measure::{PASS, cost, print, rounded};
use crate::path::CallPath;
use serde_json::json;
use std::time::Duration;
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::ClientEvent;
use windlass_session::io::Input;
use windlass_session::model::{ModelEvent, Usage};

/// One answer of the model as a live session has it: 24 pieces of transcript with the microphone's and the usage between
/// them, and the turn's end.
const STEPS_PER_ANSWER: usize = 32;

pub(crate) fn mixed(number: usize) -> ModelEvent {
    match number % STEPS_PER_ANSWER {
        0..=3 => ModelEvent::InputTranscript {
            text: Sensitive(" and how".to_owned()),
            finished: false,
        },
        4 => ModelEvent::AudioStarted,
        5..=28 => ModelEvent::OutputTranscript {
            text: Sensitive(" she was built".to_owned()),
            finished: false,
        },
        29 => ModelEvent::Usage(Usage::default()),
        30 => ModelEvent::GenerationComplete,
        _ => ModelEvent::TurnComplete {
            idle: true,
            reason: None,
            unplayed: Duration::ZERO,
        },
    }
}

pub(crate) fn run(kit: &Kit) -> Result<(), String> {
    let registry = kit.registry().map_err(|error| error.to_string())?;
    let report = |label: &str, input: &dyn Fn(usize) -> Input| {
        let mut path = CallPath::new(registry.clone());
        let cost = cost(PASS, |number| {
            path.core(input(number));
        });
        let ns = cost.processor_ns_per_call();
        print(&json!({
            "bench": "core", "label": label, "steps": cost.calls,
            "cpu_ns_per_step": rounded(ns), "steps_per_cpu_s": (1e9 / ns).round(),
        }));
    };
    report("tick with nothing due", &|_| Input::Tick);
    report("usage", &|_| {
        Input::Model(ModelEvent::Usage(Usage::default()))
    });
    report("an answer of 32 steps", &|number| {
        Input::Model(mixed(number))
    });
    report("turns of typed text", &|number| match number % 2 {
        0 => Input::Client(ClientEvent::Text {
            text: Sensitive("and how was she built?".to_owned()),
            message: None,
        }),
        _ => Input::Model(ModelEvent::TurnComplete {
            idle: true,
            reason: None,
            unplayed: Duration::ZERO,
        }),
    });
    Ok(())
}
