//! Measures the cost of saving a voice session, so that it outlives its process: the length of the text, the instructions that make it,
//! and the saves in a minute of talk. `store` measures the disk's part.

use crate::gate::{self, Stop};
use crate::kit::Kit;
use crate::measure::{print, rounded};
use crate::path;
use serde_json::json;
use std::hint::black_box;
use std::time::{Duration, Instant};
use windlass_contract::handler::Success;
use windlass_contract::id::CallRef;
use windlass_session::io::{Input, Output};
use windlass_session::model::{ConnectionEvent, IncomingCall, ModelEvent};
use windlass_session::session::Session;
use windlass_session::time::Timestamp;

/// People say some 150 words a minute, and a question with its answer takes six seconds; every second question calls a tool.
const QUESTION: [&str; 2] = ["And who ", "built the ship?"];
const ANSWER: [&str; 3] = [
    "It was Colin Archer, ",
    "who built it ",
    "at Larvik in 1892.",
];
const TURN: Duration = Duration::from_secs(6);
const TURNS_PER_MINUTE: u32 = 10;
/// How long the measured sessions have lasted, in minutes.
const MINUTES: [u32; 3] = [1, 10, 60];
/// Saves of the two runs whose difference is taken, so that the talk before does not count.
const SAVES_FEW: u32 = 10;
const SAVES_MANY: u32 = 110;
/// Saves that are timed together.
const SAVES_TIMED: u32 = 1_000;

pub(crate) fn run(kit: &Kit) -> Result<(), String> {
    for minutes in MINUTES {
        let (session, saves) = talk(kit, minutes)?;
        let bytes = save(&session)?;
        let start = Instant::now();
        for _ in 0..SAVES_TIMED {
            black_box(save(&session)?);
        }
        let save_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(SAVES_TIMED);
        print(&json!({
            "bench": "snapshots", "session_min": minutes, "bytes": bytes, "save_us": rounded(save_us),
            "instructions_per_save": instructions(minutes)?,
            "saves_per_minute": rounded(f64::from(saves) / f64::from(minutes)),
        }));
    }
    Ok(())
}

/// The program that valgrind runs: a talk, and `saves` saves of it.
pub(crate) fn save_often(kit: &Kit, minutes: &str, saves: &str) -> Result<(), String> {
    let number = |text: &str| {
        text.parse::<u32>()
            .map_err(|_| format!("{text} is no number"))
    };
    let (session, _) = talk(kit, number(minutes)?)?;
    for _ in 0..number(saves)? {
        black_box(save(&session)?);
    }
    Ok(())
}

/// The instructions of one save; `None` without valgrind.
fn instructions(minutes: u32) -> Result<Option<u64>, String> {
    let count = |saves: u32| {
        let arguments = ["saves", &minutes.to_string(), &saves.to_string()];
        match gate::instructions(&arguments) {
            Ok(count) => Ok(Some(count)),
            Err(Stop::Skipped(_)) => Ok(None),
            Err(Stop::Failed(problem)) => Err(problem),
        }
    };
    let (Some(few), Some(many)) = (count(SAVES_FEW)?, count(SAVES_MANY)?) else {
        return Ok(None);
    };
    Ok(Some(
        many.saturating_sub(few) / u64::from(SAVES_MANY - SAVES_FEW),
    ))
}

fn save(session: &Session) -> Result<usize, String> {
    let text = serde_json::to_vec(&session.saved()).map_err(|error| error.to_string())?;
    Ok(text.len())
}

/// A session after some minutes of talk, and how often it was worth saving.
fn talk(kit: &Kit, minutes: u32) -> Result<(Session, u32), String> {
    let registry = kit.registry().map_err(|error| error.to_string())?;
    let mut outputs = Vec::new();
    let mut session = Session::new(path::config(registry), &mut outputs);
    let mut saves = 0;
    let mut take = |at: Timestamp, input: Input| {
        outputs.clear();
        session.handle(at, input, &mut outputs);
        saves += u32::from(outputs.iter().any(Output::is_worth_saving));
        started(&outputs)
    };
    let connected = ConnectionEvent::Connected {
        generation: 1,
        resumed: false,
    };
    let ready = ModelEvent::Ready {
        provider_session_id: None,
    };
    take(Timestamp::default(), Input::Connection(connected));
    take(Timestamp::default(), Input::Model(ready));
    for turn in 0..minutes * TURNS_PER_MINUTE {
        let at = Timestamp::default() + TURN * turn;
        for piece in QUESTION {
            take(at, Input::Model(heard(piece)));
        }
        if turn % 2 == 0
            && let Some(call) = take(at, Input::Model(asked(kit, turn)))
        {
            let found = json!({ "results": [{ "id": turn, "title": "Fram" }] });
            let result = Ok(Success::new(found));
            take(at, Input::CallFinished { call, result });
        }
        for piece in ANSWER {
            take(at, Input::Model(said(piece)));
        }
        take(at, Input::Model(ModelEvent::GenerationComplete));
        take(at, Input::Model(complete()));
    }
    Ok((session, saves))
}

fn started(outputs: &[Output]) -> Option<CallRef> {
    outputs.iter().find_map(|output| match output {
        Output::StartCall(call) => Some(call.call()),
        _ => None,
    })
}

fn heard(text: &str) -> ModelEvent {
    ModelEvent::InputTranscript {
        text: text.to_owned().into(),
        finished: false,
    }
}

fn said(text: &str) -> ModelEvent {
    ModelEvent::OutputTranscript {
        text: text.to_owned().into(),
        finished: false,
    }
}

fn complete() -> ModelEvent {
    ModelEvent::TurnComplete {
        idle: true,
        reason: None,
        unplayed: Duration::ZERO,
    }
}

fn asked(kit: &Kit, turn: u32) -> ModelEvent {
    ModelEvent::Calls(vec![IncomingCall {
        id: Some(format!("function-call-{turn:020}").into()),
        name: Some("kb_search".into()),
        arguments: Ok(kit.arguments_of(turn as usize).into()),
    }])
}
