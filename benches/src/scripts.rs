//! Measures calls of scripts: what one costs in both processes, and how many wait beside each other. The program itself has to be
//! built, because it is the process that runs them.

use crate::measure::{PASS, pass, print, rounded};
use crate::path;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use windlass_runtime::worker::{
    Worker, WorkerEnvironment, WorkerLimits, WorkerOptions, WorkerProgram, WorkerRequest,
};
use windlass_tool::handler::{Execution, Handler, HandlerResult, Invocation};
use windlass_tool::id::ToolId;

const ECHO: &str =
    "export const execute = async ({ args }) => ({ ok: true, data: { query: args.query } });";
const WAITING: &str = "export async function execute() {
  await new Promise((resolve) => setTimeout(resolve, 50));
  return { ok: true };
}";
/// Calls that wait at the same time.
const TOGETHER: usize = 200;
/// The kernel counts a process's time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

pub(crate) fn run() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let worker = worker()?;
    let tool = |id: &str| {
        ToolId::parse(id)
            .map(|id| worker.handler(id))
            .ok_or("no id")
    };
    let (echo, waiting) = (tool("echo")?, tool("waiting")?);
    let mut failed = 0;
    let mut once = |number: usize| {
        let result = runtime.block_on(answer(&echo, number));
        failed += usize::from(result.is_err());
    };
    let mut next = 0;
    pass(PASS / 4, &mut next, &mut once);
    let before = children_time();
    let cost = pass(PASS, &mut next, &mut once);
    let children = children_time().saturating_sub(before);
    let calls = u32::try_from(cost.calls).unwrap_or(u32::MAX).max(1);
    print(&json!({
        "bench": "scripts",
        "calls": calls,
        "cpu_us_per_call_here": rounded(cost.processor_ns_per_call() / 1_000.0),
        "cpu_us_per_call_there": rounded(children.as_secs_f64() * 1e6 / f64::from(calls)),
    }));
    for _ in 0..3 {
        let begun = Instant::now();
        let results = runtime.block_on(async {
            let mut calls = tokio::task::JoinSet::new();
            for number in 0..TOGETHER {
                let handler = waiting.clone();
                calls.spawn(async move { answer(&handler, number).await });
            }
            calls.join_all().await
        });
        failed += results.iter().filter(|result| result.is_err()).count();
        print(&json!({
            "bench": "scripts waiting",
            "calls": TOGETHER,
            "milliseconds": rounded(begun.elapsed().as_secs_f64() * 1e3),
        }));
    }
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} calls failed")),
    }
}

/// The worker as the program starts it, with two tools.
fn worker() -> Result<Arc<Worker>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = program.with_file_name("windlass");
    let load = |tool: &str, source: &str| {
        let entry = format!("{tool}/handler.js");
        let modules = BTreeMap::from([(entry.clone(), source)]);
        let params = json!({"tool": tool, "entry": entry, "modules": modules});
        serde_json::value::to_raw_value(&params).map(|params| WorkerRequest {
            method: "load".to_owned(),
            params: params.into(),
        })
    };
    let requests = [load("echo", ECHO), load("waiting", WAITING)];
    let requests: Result<Vec<WorkerRequest>, _> = requests.into_iter().collect();
    let requests = requests.map_err(|error| error.to_string())?;
    let flags = "script-worker --memory-bytes 16777216 --compute-ms 2000 --answer-bytes 1048576 --calls 256 --spares 4";
    Ok(Worker::new(WorkerOptions {
        name: "scripts".into(),
        program: WorkerProgram {
            program: program.into(),
            arguments: flags.split(' ').map(Into::into).collect(),
            folder: None,
            environment: WorkerEnvironment::Only(Vec::new()),
        },
        limits: WorkerLimits {
            concurrency: 256,
            ..WorkerLimits::default()
        },
        first_requests: Box::new(move || requests.clone()),
        secrets: Vec::new(),
    }))
}

/// An attempt by the machine's own clock, which the worker looks at.
fn invocation(number: usize) -> Invocation {
    let mut invocation = path::invocation(number);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let in_a_minute = now + Duration::from_secs(60);
    invocation.context.deadline_unix_ms =
        u64::try_from(in_a_minute.as_millis()).unwrap_or(u64::MAX);
    invocation
}

async fn answer(handler: &Arc<dyn Handler>, number: usize) -> HandlerResult {
    match handler.execute(invocation(number)) {
        Execution::Ready(result) => result,
        Execution::Pending(future) => future.await,
    }
}

/// Processor time of the processes that this one has started and that run.
fn children_time() -> Duration {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ticks = processes.filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        let (_, facts) = stat.rsplit_once(") ")?;
        let facts: Vec<&str> = facts.split(' ').collect();
        let is_ours = facts.get(1)? == &own;
        let time = facts.get(11)?.parse::<u32>().ok()? + facts.get(12)?.parse::<u32>().ok()?;
        is_ours.then_some(time)
    });
    TICK * ticks.sum::<u32>()
}
