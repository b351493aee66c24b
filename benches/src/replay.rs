//! Measures the time to run a recorded hour again: reading the lines, the core, and comparing the outputs.

use crate::core_steps::mixed;
use crate::kit::Kit;
use crate::measure::{print, rounded};
use crate::path;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_contract::handler::Success;
use windlass_contract::id::{CallNumber, CallRef};
use windlass_contract::registry::Registry;
use windlass_session::io::Input;
use windlass_session::journal::{JournalStep, Replay};
use windlass_session::model::{ConnectionEvent, IncomingCall, ModelEvent};
use windlass_session::session::SessionConfig;
use windlass_session::time::Timestamp;

/// A request and its answer take six seconds; every second request calls a tool.
const TURNS: u64 = 600;
const TURN: Duration = Duration::from_secs(6);

pub(crate) fn run(kit: &Kit) -> Result<(), String> {
    let registry = kit.registry().map_err(|error| error.to_string())?;
    let config = path::config(registry.clone());
    let lines = record(kit, &config, &registry)?;
    let bytes: usize = lines.iter().map(String::len).sum();
    let start = Instant::now();
    let (mut replay, _) = Replay::begin(config, registry);
    for line in &lines {
        let step: JournalStep = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if replay.step(step.at, step.input) != step.outputs {
            return Err(format!("a step gave something else: {line}"));
        }
    }
    print(&json!({
        "bench": "replay", "session_s": TURNS * TURN.as_secs(), "inputs": lines.len(), "bytes": bytes,
        "replay_ms": rounded(start.elapsed().as_secs_f64() * 1_000.0),
    }));
    Ok(())
}

fn record(
    kit: &Kit,
    config: &SessionConfig,
    registry: &Arc<Registry>,
) -> Result<Vec<String>, String> {
    let (mut session, _) = Replay::begin(config.clone(), registry.clone());
    let mut lines = Vec::new();
    let mut take = |at: Timestamp, input: Input| {
        let outputs = session.step(at, input.clone());
        let step = JournalStep {
            number: lines.len() as u64 + 1,
            at,
            input,
            outputs,
        };
        lines.push(serde_json::to_string(&step).map_err(|error| error.to_string())?);
        Ok::<(), String>(())
    };
    let ready = ModelEvent::Ready {
        provider_session_id: None,
    };
    let connected = ConnectionEvent::Connected {
        generation: 1,
        resumed: false,
    };
    take(Timestamp::default(), Input::Connection(connected))?;
    take(Timestamp::default(), Input::Model(ready))?;
    let mut calls = 0;
    for turn in 0..TURNS {
        let begun = Timestamp::default() + TURN * u32::try_from(turn).unwrap_or(u32::MAX);
        for number in 0..32 {
            let at = begun + TURN * number / 32;
            take(at, Input::Model(mixed(number as usize)))?;
            if number == 3 && turn % 2 == 0 {
                calls += 1;
                take(at, Input::Model(call(kit, calls)))?;
                take(at + Duration::from_millis(100), finished(calls))?;
            }
        }
    }
    Ok(lines)
}

fn call(kit: &Kit, number: u64) -> ModelEvent {
    ModelEvent::Calls(vec![IncomingCall {
        id: Some(format!("function-call-{number:020}").into()),
        name: Some("kb_search".into()),
        arguments: Ok(kit
            .arguments_of(usize::try_from(number).unwrap_or_default())
            .into()),
    }])
}

fn finished(call: u64) -> Input {
    let results: Vec<Value> = (0..3)
        .map(|hit| json!({"id": hit, "snippet": "lorem ipsum ".repeat(40)}))
        .collect();
    Input::CallFinished {
        call: CallRef {
            call: CallNumber(call),
            attempt: 1,
        },
        result: Ok(Success::new(json!({ "results": results }))),
    }
}
