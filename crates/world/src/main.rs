//! Runs worlds: `windlass-soak --first 1 --seeds 10000`, or one of them with its trace: `--seed 7`. Stops at the first rule that does
//! not hold, and names the seed; and fails if an expected event never occurred.

#![expect(
    clippy::print_stdout,
    reason = "telling a contributor what happened is this program's purpose"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use windlass_world::{Counts, Plan, Violation, run};

/// Worlds with a violation that is known and not fixed, each with its cause. Every other seed has to hold.
const KNOWN: &[u64] = &[];

const USAGE: &str = "usage: windlass-soak [--first N] [--seeds N] [--sqlite N] [--violations N] | --seed N [--sqlite 1]\n\
     --sqlite N      how many of the worlds have their rows in SQLite\n\
     --violations N  stops after so many worlds with a violation; unless said, after the first that is not known\n";

/// The request of the command line.
struct Request {
    first: u64,
    seeds: u64,
    sqlite: u64,
    replayed: Option<u64>,
    violations: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut request = Request {
        first: 0,
        seeds: 10_000,
        sqlite: 0,
        replayed: None,
        // Known violations end no run.
        violations: 1 + KNOWN.len() as u64,
    };
    for pair in arguments.chunks(2) {
        let value = pair.get(1).and_then(|value| value.parse::<u64>().ok());
        match (pair[0].as_str(), value) {
            ("--first", Some(value)) => request.first = value,
            ("--seeds", Some(value)) => request.seeds = value,
            ("--sqlite", Some(value)) => request.sqlite = value,
            ("--violations", Some(value)) => request.violations = value,
            ("--seed", Some(value)) => request.replayed = Some(value),
            _ => {
                print!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let folder = std::env::temp_dir().join(format!("windlass-worlds-{}", std::process::id()));
    let code = match request.replayed {
        Some(seed) => replay(seed, (request.sqlite > 0).then(|| folder.join("0"))),
        None => soak(&request, &folder),
    };
    // Without worlds in SQLite there is no folder.
    let _ = std::fs::remove_dir_all(&folder);
    code
}

fn soak(request: &Request, folder: &Path) -> ExitCode {
    let (first, seeds) = (request.first, request.seeds);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let queue = Queue {
        next: AtomicU64::new(first),
        end: first.saturating_add(seeds),
        violations_left: AtomicU64::new(request.violations),
    };
    let results: Vec<(Counts, Vec<(u64, Violation)>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| run_worlds(&queue, request, folder)))
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
    for (of_one, violations) in results {
        counts.add(&of_one);
        broken.extend(violations);
    }
    broken.sort_by_key(|(seed, _)| *seed);
    broken.retain(|(seed, violation)| {
        let is_known = KNOWN.contains(seed);
        if is_known {
            println!("seed {seed} breaks {}, as is known", violation.rule);
        }
        !is_known
    });
    for (seed, violation) in &broken {
        println!("seed {seed} breaks {}: {}", violation.rule, violation.what);
    }
    if let Some((seed, _)) = broken.first() {
        println!("replay it: cargo xtask soak --seed {seed}");
    }
    println!("{seeds} worlds from seed {first}");
    print!("{counts}");
    let missing = counts.missing();
    if !missing.is_empty() {
        println!(
            "never occurred, so that nothing was proved about it (more --seeds may have it): {}",
            missing.join(", ")
        );
    }
    match broken.is_empty() && missing.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The worlds to run, and the bound of violations.
struct Queue {
    next: AtomicU64,
    end: u64,
    violations_left: AtomicU64,
}

/// Runs worlds that no thread has taken yet, until enough of them have broken a rule.
fn run_worlds(queue: &Queue, request: &Request, folder: &Path) -> (Counts, Vec<(u64, Violation)>) {
    let mut counts = Counts::default();
    let mut violations = Vec::new();
    loop {
        let seed = queue.next.fetch_add(1, Ordering::Relaxed);
        if seed >= queue.end || queue.violations_left.load(Ordering::Relaxed) == 0 {
            return (counts, violations);
        }
        let is_in_sqlite = seed - request.first < request.sqlite;
        let plan = Plan {
            folder: is_in_sqlite.then(|| folder.join(seed.to_string())),
            ..Plan::of(seed)
        };
        let report = run(&plan);
        if let Some(folder) = &plan.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
        counts.add(&report.counts);
        if let Some(violation) = report.violation {
            let left = &queue.violations_left;
            let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
            violations.push((seed, violation));
        }
    }
}

fn replay(seed: u64, folder: Option<PathBuf>) -> ExitCode {
    let plan = Plan {
        is_traced: true,
        folder,
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
