//! Guards the path of one call against growing dearer: counts its instructions with valgrind, which gives the same number
//! on a busy machine as on an idle one, and compares with the number that was committed. Never looks at a clock.

#![expect(
    clippy::print_stdout,
    reason = "telling a developer what happened is this program's purpose"
)]

use crate::kit::{Ids, Kit};
use crate::path::CallPath;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls of the two runs whose difference is taken, so that starting up does not count.
const CALLS_FEW: u64 = 1_000;
const CALLS_MANY: u64 = 3_000;
/// The largest accepted change, in percent of the committed number. Processors for which the C library picks other routines differ by
/// less.
const TOLERANCE_PERCENT: f64 = 15.0;
/// The key of the committed number: each way to build has one, as they differ by a multiple.
const KEY: &str = if cfg!(debug_assertions) {
    "dispatch_instructions_per_call_test_profile"
} else {
    "dispatch_instructions_per_call_release_profile"
};

/// Why the gate gives no result, or fails.
pub(crate) enum Stop {
    Skipped(String),
    Failed(String),
}

/// Counts, and fails where the number is off by more than the tolerance.
pub(crate) fn check() -> Result<(), Stop> {
    compare(count()?)
}

/// Counts, and writes the number down.
pub(crate) fn update() -> Result<(), Stop> {
    write_down(count()?)
}

fn failed(problem: impl fmt::Display) -> Stop {
    Stop::Failed(problem.to_string())
}

fn committed_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.toml")
}

/// The program that valgrind runs: a fixed number of calls and nothing else.
pub(crate) fn run(kit: &Kit, calls: usize) -> Result<(), Stop> {
    let mut path = CallPath::new(kit.registry().map_err(failed)?);
    let frames = kit.frames(Ids::Gemini);
    for number in 0..calls {
        std::hint::black_box(path.call(number, &frames[number % frames.len()]));
    }
    Ok(())
}

/// Instructions of one call.
fn count() -> Result<u64, Stop> {
    let few = instructions(&["calls", &CALLS_FEW.to_string()])?;
    let many = instructions(&["calls", &CALLS_MANY.to_string()])?;
    Ok(many.saturating_sub(few) / (CALLS_MANY - CALLS_FEW))
}

/// Instructions of a whole run.
pub(crate) fn instructions(arguments: &[&str]) -> Result<u64, Stop> {
    let program = std::env::current_exe().map_err(failed)?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Stop::Skipped("valgrind is not installed".to_owned()));
        }
        other => other.map_err(failed)?,
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(failed(format!("the run under valgrind failed: {said}")));
    }
    // The line is `==PID== Collected : 123456`.
    said.lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, number)| number.trim().parse().ok())
        .ok_or_else(|| failed(format!("valgrind gave no number: {said}")))
}

fn compare(found: u64) -> Result<(), Stop> {
    let path = committed_path();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| failed(format!("{} cannot be read: {error}", path.display())))?;
    let committed = number_in(&text).ok_or_else(|| {
        failed(format!(
            "{} has no {KEY}; run `gate update`",
            path.display()
        ))
    })?;
    let change = (found as f64 / committed as f64 - 1.0) * 100.0;
    println!("one call: {found} instructions; committed: {committed}; change: {change:+.1} %");
    if change < -TOLERANCE_PERCENT {
        println!("it became cheaper: write that down with `gate update`, so that it is kept");
    }
    if change <= TOLERANCE_PERCENT {
        return Ok(());
    }
    Err(failed(format!(
        "one call became dearer by more than {TOLERANCE_PERCENT} %; find out why, or accept it with `gate update` and \
         commit the file"
    )))
}

fn write_down(found: u64) -> Result<(), Stop> {
    let path = committed_path();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| failed(format!("{} cannot be read: {error}", path.display())))?;
    let others = text.lines().filter(|line| !line.starts_with(KEY));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.push(format!("{KEY} = {found}"));
    std::fs::write(&path, lines.join("\n") + "\n")
        .map_err(|error| failed(format!("{} cannot be written: {error}", path.display())))?;
    println!(
        "one call: {found} instructions, written to {}",
        path.display()
    );
    Ok(())
}

fn number_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let number = line.strip_prefix(KEY)?.trim_start().strip_prefix('=')?;
        number.trim().parse().ok()
    })
}
