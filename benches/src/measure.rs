//! Measures the cost of work: processor time from the kernel's accounts, and the spread of single durations. Knows nothing of the work.

#![expect(
    clippy::print_stdout,
    reason = "a measurement's result is what it prints"
)]

use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a pass runs.
pub(crate) const PASS: Duration = Duration::from_secs(2);
/// How often the clock is looked at, in calls.
const STRIDE: usize = 64;

/// Processor time of this process's first thread, which does all the work, in nanoseconds. `None` where the kernel does
/// not say.
pub(crate) fn processor_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The cost of one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) calls: usize,
    pub(crate) processor: Duration,
}

impl Cost {
    pub(crate) fn processor_ns_per_call(self) -> f64 {
        self.processor.as_nanos() as f64 / self.calls.max(1) as f64
    }
}

/// Calls `once` with rising numbers until the time is up, without looking at each call.
pub(crate) fn pass(length: Duration, next: &mut usize, mut once: impl FnMut(usize)) -> Cost {
    let first = *next;
    let before = processor_ns();
    let start = Instant::now();
    while start.elapsed() < length {
        for _ in 0..STRIDE {
            once(*next);
            *next += 1;
        }
    }
    let wall = start.elapsed();
    let processor = match (before, processor_ns()) {
        (Some(before), Some(after)) => Duration::from_nanos(after.saturating_sub(before)),
        _ => wall,
    };
    Cost {
        calls: *next - first,
        processor,
    }
}

/// Warms up, then takes the median of five passes.
pub(crate) fn cost(length: Duration, mut once: impl FnMut(usize)) -> Cost {
    const PASSES: u32 = 5;
    let mut next = 0;
    pass(length / 4, &mut next, &mut once);
    let mut costs: Vec<Cost> = (0..PASSES)
        .map(|_| pass(length / PASSES, &mut next, &mut once))
        .collect();
    costs.sort_by(|left, right| {
        left.processor_ns_per_call()
            .total_cmp(&right.processor_ns_per_call())
    });
    costs[costs.len() / 2]
}

/// The spread of single calls, in microseconds, with the clock read before and after each.
pub(crate) fn spread(length: Duration, mut once: impl FnMut(usize)) -> Value {
    let mut durations: Vec<u64> = Vec::with_capacity(4_000_000);
    let start = Instant::now();
    let mut now = start;
    let mut number = 0;
    while now.duration_since(start) < length && durations.len() < durations.capacity() {
        let before = Instant::now();
        once(number);
        now = Instant::now();
        durations.push(u64::try_from(now.duration_since(before).as_nanos()).unwrap_or(u64::MAX));
        number += 1;
    }
    percentiles(durations)
}

/// The same for each place in a cycle of `places` calls: the times of a place's median and of its slowest calls, in microseconds.
pub(crate) fn spread_by_place(
    length: Duration,
    places: usize,
    mut once: impl FnMut(usize),
) -> Vec<Value> {
    let mut durations: Vec<Vec<u64>> = vec![Vec::with_capacity(500_000); places];
    let start = Instant::now();
    let mut now = start;
    let mut number = 0;
    while now.duration_since(start) < length {
        let before = Instant::now();
        once(number);
        now = Instant::now();
        let taken = u64::try_from(now.duration_since(before).as_nanos()).unwrap_or(u64::MAX);
        durations[number % places].push(taken);
        number += 1;
    }
    durations.into_iter().map(percentiles).collect()
}

fn percentiles(mut durations: Vec<u64>) -> Value {
    durations.sort_unstable();
    let at = |part: f64| {
        let index = ((part * durations.len() as f64) as usize).min(durations.len().max(1) - 1);
        durations.get(index).map_or(0.0, |ns| *ns as f64 / 1_000.0)
    };
    json!({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": at(1.0)})
}

/// Prints one result as the peers' kit does: a JSON object on one line.
pub(crate) fn print(result: &Value) {
    println!("{result}");
}

/// Two digits behind the point are more than the machine's noise lets one read.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
