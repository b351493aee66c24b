//! Measures `extract_contacts` with a text of 100 kB that is full of contacts, and the server's time before that to read the data on
//! the world's telephone numbers. The goal is 20 ms for a call, also for the first one.

#![expect(
    clippy::print_stdout,
    reason = "a measurement's result is what it prints"
)]

use crate::path;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;
use windlass_contract::handler::Execution;
use windlass_contract::id::ToolId;

const BYTES: usize = 100_000;
const RUNS: usize = 20;

pub(crate) fn run() -> Result<(), String> {
    let id = ToolId::parse("extract_contacts").ok_or("it is no id")?;
    let handler = windlass_handlers::builtin()
        .remove(&id)
        .ok_or("it is not built in")?;
    let Value::Object(arguments) = json!({"text": text(), "region": "NO"}) else {
        unreachable!("it is an object")
    };
    let arguments = Arc::new(arguments.into());
    let begin = Instant::now();
    let prepare = handler.preparation().ok_or("it prepares nothing")?;
    prepare();
    let prepared_ms = begin.elapsed().as_secs_f64() * 1_000.0;
    let mut took_ms = Vec::with_capacity(RUNS + 1);
    for number in 0..=RUNS {
        let mut invocation = path::invocation(number);
        invocation.arguments = Arc::clone(&arguments);
        let begin = Instant::now();
        let Execution::Ready(result) = handler.execute(invocation) else {
            return Err("it is to be ready at once".to_owned());
        };
        took_ms.push(begin.elapsed().as_secs_f64() * 1_000.0);
        let found = result.map_err(|failure| format!("{failure:?}"))?;
        let found = serde_json::to_value(found.data).map_err(|error| error.to_string())?;
        if found["phones"].as_array().is_none_or(Vec::is_empty) {
            return Err("it has found no telephone number".to_owned());
        }
    }
    let first = took_ms.remove(0);
    took_ms.sort_by(f64::total_cmp);
    println!(
        "{}",
        json!({
            "measurement": "contacts", "bytes": BYTES,
            "prepared_ms": prepared_ms, "first_ms": first, "median_ms": took_ms[RUNS / 2], "longest_ms": took_ms[RUNS - 1],
        })
    );
    Ok(())
}

/// Sentences with an address, a number with its country's code, one without, an amount and a date in each.
fn text() -> String {
    let mut text = String::with_capacity(BYTES);
    for number in 0.. {
        // Writing into a text cannot fail.
        let _ = write!(
            text,
            "Write to maud{number}@example.org or call +47 22 12 {:02} {:02}, or 22 13 {:02} {:02} before noon; order {} of 12.30 came on 2026-11-{:02}. ",
            10 + number % 90,
            10 + number % 80,
            10 + number % 70,
            10 + number % 60,
            number * 7_919,
            1 + number % 28,
        );
        if text.len() >= BYTES {
            break;
        }
    }
    text.truncate(BYTES);
    text
}
