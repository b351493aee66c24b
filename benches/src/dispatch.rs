//! Measures one validated call through the whole path, and its parts. Knows nothing of how a call is run.

use crate::kit::{Ids, Kit};
use crate::measure::{PASS, cost, print, rounded, spread, spread_by_place};
use crate::path::{self, CALLS_PER_TURN, CallPath};
use serde_json::{Value, json};
use std::hint::black_box;
use windlass_contract::arguments::Arguments;
use windlass_contract::registry::Registry;
use windlass_provider::gemini_live::{Codec, Sink};
use windlass_provider::profile;
use windlass_session::model::ModelEvent;

const VARIANTS: [&str; 6] = ["full", "short-ids", "parse", "validate", "core", "encode"];

/// Prints the spread of single calls at each place in their turn.
const PLACES: &str = "places";

/// Measures the variants that are named, or all of them.
pub(crate) fn run(kit: &Kit, asked: &[&str]) -> Result<(), String> {
    if asked == [PLACES] {
        return places(kit);
    }
    if let Some(unknown) = asked.iter().find(|name| !VARIANTS.contains(name)) {
        return Err(format!(
            "there is no variant {unknown}; there are {}",
            VARIANTS.join(", ")
        ));
    }
    for variant in VARIANTS {
        if asked.is_empty() || asked.contains(&variant) {
            print(&measure_variant(kit, variant)?);
        }
    }
    Ok(())
}

/// The first call of a turn also ends the turn before. A place that is slower than the others shows where the slowest calls come from.
fn places(kit: &Kit) -> Result<(), String> {
    let registry = kit.registry().map_err(|error| error.to_string())?;
    let frames = kit.frames(Ids::Gemini);
    let mut path = CallPath::new(registry);
    path::check(&mut path, &frames, Ids::Gemini)?;
    let spreads = spread_by_place(PASS, CALLS_PER_TURN, |number| {
        black_box(path.call(number, &frames[number % frames.len()]));
    });
    for (place, spread) in spreads.iter().enumerate() {
        print(&json!({"bench": "dispatch", "place": place, "lat_us": spread}));
    }
    Ok(())
}

fn measure_variant(kit: &Kit, variant: &str) -> Result<Value, String> {
    let registry = kit.registry().map_err(|error| error.to_string())?;
    let ids = if variant == "short-ids" {
        Ids::Short
    } else {
        Ids::Gemini
    };
    let frames = kit.frames(ids);
    let frame_of = |number: usize| &frames[number % frames.len()];
    let mut extra = json!({});
    let mut once: Box<dyn FnMut(usize)> = match variant {
        "parse" => {
            let mut codec = Codec::new(
                profile::gemini_live(profile::GEMINI_LIVE_MODEL)
                    .profile
                    .model,
            );
            Box::new(move |number| codec.decode(frame_of(number), &mut Forget))
        }
        "validate" => validate(kit, &registry),
        "encode" => encode(kit, &registry, &frames)?,
        "core" => {
            let mut path = CallPath::new(registry.clone());
            let mut calls = Vec::new();
            for frame in &frames {
                path.codec.decode(frame, &mut Keep(&mut calls));
            }
            Box::new(move |number| {
                if number.is_multiple_of(CALLS_PER_TURN) {
                    path.turn();
                }
                let event = calls[number % calls.len()].clone();
                path.event(event);
            })
        }
        _ => {
            let mut path = CallPath::new(registry.clone());
            let bytes = path::check(&mut path, &frames, ids)?;
            extra = json!({"response_bytes": bytes, "calls_per_turn": CALLS_PER_TURN});
            Box::new(move |number| {
                black_box(path.call(number, frame_of(number)));
            })
        }
    };
    let cost = cost(PASS, &mut once);
    let mut result = json!({
        "bench": "dispatch",
        "label": format!("windlass/{variant}"),
        "calls": cost.calls,
        "cpu_us_per_call": rounded(cost.processor_ns_per_call() / 1_000.0),
        "lat_us": spread(PASS / 2, &mut once),
    });
    if let (Value::Object(result), Value::Object(extra)) = (&mut result, extra) {
        result.extend(extra);
    }
    Ok(result)
}

/// Defaults and validation alone, with the copy of the arguments that they need.
fn validate<'k>(kit: &Kit, registry: &Registry) -> Box<dyn FnMut(usize) + 'k> {
    let arguments: Vec<Arguments> = (0..64)
        .map(|number| kit.arguments_of(number).into())
        .collect();
    let tool = registry.get("kb_search").cloned();
    Box::new(move |number| {
        let mut arguments = arguments[number % arguments.len()].clone();
        if let Some(tool) = &tool {
            black_box(tool.parameters.apply_defaults(&mut arguments));
            black_box(tool.parameters.argument_violations(&arguments).is_empty());
        }
    })
}

/// The answer of the first call, encoded again and again.
fn encode<'k>(
    kit: &Kit,
    registry: &std::sync::Arc<Registry>,
    frames: &[Vec<u8>],
) -> Result<Box<dyn FnMut(usize) + 'k>, String> {
    let mut path = CallPath::new(registry.clone());
    let command = path
        .answer(&frames[0])
        .ok_or_else(|| format!("no answer to {:?}", kit.arguments))?;
    let mut sent = Vec::new();
    Ok(Box::new(move |_| {
        sent.clear();
        path.codec.encode(&command, &mut sent);
        black_box(&sent);
    }))
}

struct Forget;

impl Sink for Forget {
    fn event(&mut self, event: ModelEvent) {
        black_box(event);
    }

    fn audio(&mut self, _: &[u8]) {}
}

struct Keep<'k>(&'k mut Vec<ModelEvent>);

impl Sink for Keep<'_> {
    fn event(&mut self, event: ModelEvent) {
        self.0.push(event);
    }

    fn audio(&mut self, _: &[u8]) {}
}
