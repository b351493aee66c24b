//! Measures a start: the time to load the registry, and the cost of a whole server until it is ready and its memory at rest, with 5 and
//! with 200 tools. Knows no call.

#![expect(
    clippy::print_stdout,
    reason = "a server that was started says what it cost by printing it"
)]

use crate::kit::{KbSearch, Kit, artifact_path, build, load, write_tools};
use crate::measure::{cost, print, rounded};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use windlass_app::server::config::{Flag, Loaded, Sources};
use windlass_app::server::{Setup, start};
use windlass_contract::handler::Handler;
use windlass_contract::id::ToolId;

/// Starts of one server; the first one compiles its tools and is reported apart.
const STARTS: usize = 8;
/// How long a server rests before its memory is looked at.
const REST: Duration = Duration::from_secs(1);

pub(crate) fn run(kit: &Kit) -> Result<(), String> {
    for tools in [5, 200] {
        print(&measure_load(kit, tools).map_err(|error| error.to_string())?);
    }
    for tools in [5, 200] {
        print(&measure_server(kit, tools)?);
    }
    Ok(())
}

fn measure_load(kit: &Kit, tools: usize) -> std::io::Result<Value> {
    let folder = tempfile::tempdir()?;
    build(folder.path(), &kit.many(tools))?;
    let artifact = artifact_path(folder.path());
    let bytes = std::fs::metadata(&artifact)?.len();
    let loaded = load(&artifact)?.len();
    let cost = cost(Duration::from_secs(3), |_| {
        std::hint::black_box(load(&artifact).map(|registry| registry.len()).ok());
    });
    Ok(json!({
        "bench": "startup", "label": "load of the registry", "tools": loaded, "artifact_bytes": bytes,
        "loads": cost.calls, "cpu_ms_per_load": rounded(cost.processor_ns_per_call() / 1e6),
    }))
}

/// Starts servers in processes of their own, one after the other, over the same folder.
fn measure_server(kit: &Kit, tools: usize) -> Result<Value, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    write_tools(folder.path(), &kit.many(tools)).map_err(|error| error.to_string())?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(started(folder.path())?);
    }
    let first = starts.remove(0);
    let median = |key: &str| {
        let mut numbers: Vec<f64> = starts
            .iter()
            .filter_map(|start| start[key].as_f64())
            .collect();
        numbers.sort_by(f64::total_cmp);
        numbers.get(numbers.len() / 2).copied()
    };
    Ok(json!({
        "bench": "startup", "label": "server until it is ready, and at rest", "tools": tools,
        "first_cpu_ms": first["cpu_ms"], "cpu_ms": median("cpu_ms"), "resident_kib": median("resident_kib"),
        "private_kib": median("private_kib"), "threads": median("threads"),
    }))
}

fn started(folder: &Path) -> Result<Value, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .arg("started")
        .arg(folder)
        .output()
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("the server did not start: {said}")
    })
}

/// Starts a server over a folder, prints the cost, and ends.
pub(crate) fn start_once(folder: &str) -> Result<(), String> {
    let setup = setup(Path::new(folder))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let server = start(setup).await.map_err(|error| format!("{error:?}"))?;
        let cpu_ms = rounded(processor_ms()?);
        tokio::time::sleep(REST).await;
        let kib = |key| memory_kib(key).ok_or("the kernel does not say what memory is used");
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        println!(
            "{}",
            json!({
                "cpu_ms": cpu_ms, "resident_kib": kib("Rss:")?, "threads": threads,
                "private_kib": kib("Private_Clean:")? + kib("Private_Dirty:")?,
            })
        );
        server.shut_down().await;
        Ok(())
    })
}

/// The processor time that all threads of this process have used so far.
fn processor_ms() -> Result<f64, String> {
    let tasks = std::fs::read_dir("/proc/self/task").map_err(|error| error.to_string())?;
    let nanoseconds: u64 = tasks
        .filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_ascii_whitespace().next()?.parse::<u64>().ok()
        })
        .sum();
    Ok(nanoseconds as f64 / 1e6)
}

fn memory_kib(key: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// A server that relays to a provider, but has no client.
fn setup(folder: &Path) -> Result<Setup, String> {
    let at = |name: &str| folder.join(name).display().to_string();
    std::fs::create_dir_all(folder.join("kb")).map_err(|error| error.to_string())?;
    let keys = [
        ("server.listen", "127.0.0.1:0".to_owned()),
        ("folders.tools", at("tools")),
        ("folders.knowledge", at("kb")),
        ("folders.prompts", at("prompts")),
        ("folders.data", at("data")),
        ("provider.kind", "gemini-live".to_owned()),
        ("provider.url", "ws://127.0.0.1:9/".to_owned()),
        ("log.level", "error".to_owned()),
    ];
    let flags = keys.into_iter().map(|(key, value)| Flag {
        name: "--bench",
        key,
        value,
    });
    let sources = Sources {
        working_directory: folder.to_owned(),
        flags: flags.collect(),
        ..Sources::default()
    };
    let loaded = Loaded::load(&sources).map_err(|error| error.to_string())?;
    Ok(Setup {
        config: loaded.config,
        handlers: handlers(folder).map_err(|error| error.to_string())?,
        watch: false,
    })
}

/// A handler for each tool of the folder.
fn handlers(folder: &Path) -> std::io::Result<BTreeMap<ToolId, Arc<dyn Handler>>> {
    let mut handlers = BTreeMap::new();
    for directory in std::fs::read_dir(folder.join("tools"))? {
        let name = directory?.file_name();
        if let Some(id) = ToolId::parse(&name.to_string_lossy().replace('-', "_")) {
            handlers.insert(id, Arc::new(KbSearch) as Arc<dyn Handler>);
        }
    }
    Ok(handlers)
}
