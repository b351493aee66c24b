//! Runs worlds: `windlass-soak --first 1 --seeds 10000`, or one of them with its trace: `--seed 7`. Stops at the first rule
//! that does not hold, and names the seed; and fails where something never occurred that was to.

#![expect(
    clippy::print_stdout,
    reason = "telling a contributor what happened is this program's purpose"
)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use windlass_world::{Counts, Plan, Violation, run};

const USAGE: &str = "usage: windlass-soak [--first N] [--seeds N] | --seed N\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut first = 0;
    let mut seeds = 10_000;
    let mut replayed = None;
    for pair in arguments.chunks(2) {
        let value = pair.get(1).and_then(|value| value.parse::<u64>().ok());
        match (pair[0].as_str(), value) {
            ("--first", Some(value)) => first = value,
            ("--seeds", Some(value)) => seeds = value,
            ("--seed", Some(value)) => replayed = Some(value),
            _ => {
                print!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    match replayed {
        Some(seed) => replay(seed),
        None => soak(first, seeds),
    }
}

fn soak(first: u64, seeds: u64) -> ExitCode {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(first);
    let end = first.saturating_add(seeds);
    let results: Vec<(Counts, Option<(u64, Violation)>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| run_until_broken(&next, end)))
            .collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| worker.join().ok();
        workers.into_iter().filter_map(join).collect()
    });
    if results.len() < threads {
        println!("a world panicked");
        return ExitCode::FAILURE;
    }
    let mut counts = Counts::default();
    let mut broken = Vec::new();
    for (of_one, violation) in results {
        counts.add(&of_one);
        broken.extend(violation);
    }
    broken.sort_by_key(|(seed, _)| *seed);
    if let Some((seed, violation)) = broken.first() {
        println!("seed {seed} breaks {}: {}", violation.rule, violation.what);
        println!("replay it: cargo xtask soak --seed {seed}");
        return ExitCode::FAILURE;
    }
    println!("{seeds} worlds from seed {first}");
    print!("{counts}");
    let missing = counts.missing();
    if !missing.is_empty() {
        println!(
            "never occurred, so that nothing was proved about it (more --seeds may have it): {}",
            missing.join(", ")
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs worlds that nobody has taken yet, until one of them breaks a rule.
fn run_until_broken(next: &AtomicU64, end: u64) -> (Counts, Option<(u64, Violation)>) {
    let mut counts = Counts::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return (counts, None);
        }
        let report = run(&Plan::of(seed));
        counts.add(&report.counts);
        if let Some(violation) = report.violation {
            next.store(end, Ordering::Relaxed);
            return (counts, Some((seed, violation)));
        }
    }
}

fn replay(seed: u64) -> ExitCode {
    let plan = Plan {
        is_traced: true,
        ..Plan::of(seed)
    };
    let report = run(&plan);
    for line in &report.trace {
        println!("{line}");
    }
    match report.violation {
        Some(violation) => {
            println!("seed {seed} breaks {}: {}", violation.rule, violation.what);
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}
