//! Measures tools that are no Rust against their goals: the cost of a script's call in both processes, how many calls wait beside each
//! other, whether a script that computes for ever delays others, whether memory grows, and the cost of a process of the author's own.
//! The program itself has to be built, because it is the process that runs scripts.

use crate::measure::{PASS, pass, print, rounded};
use crate::path;
use crate::process;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use windlass_contract::handler::{Execution, Handler, HandlerResult, Invocation, Numbers};
use windlass_contract::id::ToolId;
use windlass_runtime::worker::{
    ServedTool, Worker, WorkerLimits, WorkerOptions, WorkerProgram, WorkerRequest,
};

const ECHO: &str =
    "export const execute = async ({ args }) => ({ ok: true, data: { query: args.query } });";
const WAITING: &str = "export async function execute() {
  await new Promise((resolve) => setTimeout(resolve, 50));
  return { ok: true };
}";
const LOOPING: &str = "export async function execute() { for (;;) {} }";
/// Calls that wait at the same time.
const TOGETHER: usize = 200;
/// The kernel counts a process's time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

pub(crate) fn run() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let scripts = Scripts::start()?;
    runtime.block_on(async {
        memory(&scripts).await?;
        waiting_together(&scripts).await?;
        beside_a_loop(&scripts).await
    })?;
    drop(runtime);
    cost_of_a_call()?;
    process::goal()
}

/// Prints the figure of a measurement, and its goal.
pub(crate) fn goal(what: &str, most: f64, unit: &str, figure: f64) {
    print(&json!({
        "bench": "scripts",
        "what": what,
        "unit": unit,
        "goal_at_most": most,
        "figure": rounded(figure),
        "met": figure <= most,
    }));
}

struct Scripts {
    echo: Arc<dyn Handler>,
    waiting: Arc<dyn Handler>,
    looping: Arc<dyn Handler>,
}

impl Scripts {
    fn start() -> Result<Self, String> {
        let worker = worker()?;
        let tool = |id: &str| {
            ToolId::parse(id)
                .map(|id| worker.handler(ServedTool::new(id, Numbers::Doubles)))
                .ok_or("no id")
        };
        Ok(Self {
            echo: tool("echo")?,
            waiting: tool("waiting")?,
            looping: tool("looping")?,
        })
    }
}

async fn works(handler: &Arc<dyn Handler>, number: usize) -> Result<(), String> {
    let result = answer(handler, number).await;
    result.map(drop).map_err(|failure| format!("{failure:?}"))
}

/// Processor time of a trivial call, here and there.
fn cost_of_a_call() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let echo = Scripts::start()?.echo;
    let mut failed = 0;
    let mut once = |number: usize| {
        let result = runtime.block_on(answer(&echo, number));
        failed += usize::from(result.is_err());
    };
    let mut next = 0;
    pass(PASS / 4, &mut next, &mut once);
    let before = children_time();
    let cost = pass(PASS, &mut next, &mut once);
    let there = children_time().saturating_sub(before);
    if failed > 0 {
        return Err(format!("{failed} calls failed"));
    }
    let calls = cost.calls.max(1) as f64;
    let (here, there) = (
        cost.processor_ns_per_call() / 1_000.0,
        there.as_secs_f64() * 1e6 / calls,
    );
    print(&json!({
        "bench": "scripts",
        "calls": cost.calls,
        "cpu_us_per_call_here": rounded(here),
        "cpu_us_per_call_there": rounded(there),
    }));
    goal(
        "a trivial call in a fresh context, both processes",
        300.0,
        "us of processor time",
        here + there,
    );
    Ok(())
}

async fn waiting_together(scripts: &Scripts) -> Result<(), String> {
    let mut times = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..TOGETHER {
            let handler = scripts.waiting.clone();
            calls.spawn(async move { works(&handler, number).await });
        }
        for result in calls.join_all().await {
            result?;
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    goal(
        "200 calls at a time that each wait 50 ms",
        150.0,
        "ms",
        times[times.len() / 2],
    );
    Ok(())
}

/// Measures how a script that computes for as long as it may, again and again, delays others.
async fn beside_a_loop(scripts: &Scripts) -> Result<(), String> {
    let alone = p99_ms(&scripts.echo).await?;
    let looping = scripts.looping.clone();
    let endless = tokio::spawn(async move {
        loop {
            // It is stopped, which is no success.
            drop(answer(&looping, 0).await);
        }
    });
    let beside = p99_ms(&scripts.echo).await;
    endless.abort();
    goal(
        "how much later the slowest hundredth of calls ends beside a script that never ends",
        5.0,
        "ms",
        beside? - alone,
    );
    Ok(())
}

async fn p99_ms(handler: &Arc<dyn Handler>) -> Result<f64, String> {
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < PASS * 2 {
        let before = Instant::now();
        works(handler, times.len()).await?;
        times.push(before.elapsed().as_secs_f64() * 1e3);
        // Calls of a session come with pauses between them.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() * 99 / 100])
}

/// How much more memory both processes have after many calls than after a few.
async fn memory(scripts: &Scripts) -> Result<(), String> {
    let mut kib = [0; 2];
    let mut done = 0;
    for (kib, calls) in kib.iter_mut().zip([100, 10_000]) {
        while done < calls {
            works(&scripts.echo, done).await?;
            done += 1;
        }
        *kib = memory_kib();
    }
    let [few, many] = kib;
    print(&json!({"bench": "scripts", "kib_after_100_calls": few, "kib_after_10000_calls": many}));
    goal(
        "memory of both processes after 10,000 calls, beyond that after 100",
        10.0,
        "percent",
        (f64::from(many) / f64::from(few.max(1)) - 1.0) * 100.0,
    );
    Ok(())
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
    let requests = [
        load("echo", ECHO),
        load("waiting", WAITING),
        load("looping", LOOPING),
    ];
    let requests: Result<Vec<WorkerRequest>, _> = requests.into_iter().collect();
    let requests = requests.map_err(|error| error.to_string())?;
    let flags = "script-worker --memory-bytes 16777216 --compute-ms 2000 --answer-bytes 1048576 --calls 256 --spares 4";
    Ok(Worker::new(WorkerOptions {
        name: "scripts".into(),
        program: WorkerProgram {
            program: program.into(),
            arguments: flags.split(' ').map(Into::into).collect(),
            folder: None,
            files: Vec::new(),
            variables: Vec::new(),
        },
        limits: WorkerLimits {
            concurrency: 256,
            ..WorkerLimits::default()
        },
        first_requests: Box::new(move || requests.clone()),
        secrets: Vec::new(),
        granted: Default::default(),
        connections: Default::default(),
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

pub(crate) async fn answer(handler: &Arc<dyn Handler>, number: usize) -> HandlerResult {
    match handler.execute(invocation(number)) {
        Execution::Ready(result) => result,
        Execution::Pending(future) => future.await,
    }
}

/// The processes that this one has started and that run.
fn children() -> impl Iterator<Item = (std::path::PathBuf, Vec<String>)> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        let (_, facts) = stat.rsplit_once(") ")?;
        let facts: Vec<String> = facts.split(' ').map(str::to_owned).collect();
        (facts.get(1)? == &own).then(|| (process.path(), facts))
    })
}

/// Their processor time.
fn children_time() -> Duration {
    let ticks = children().filter_map(|(_, facts)| {
        Some(facts.get(11)?.parse::<u32>().ok()? + facts.get(12)?.parse::<u32>().ok()?)
    });
    TICK * ticks.sum::<u32>()
}

/// The memory that they and this process have for themselves.
fn memory_kib() -> u32 {
    let own = std::path::PathBuf::from("/proc/self");
    let processes = children().map(|(path, _)| path).chain([own]);
    let kib = processes.filter_map(|path| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u32>().ok()
    });
    kib.sum()
}
