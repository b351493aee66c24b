//! Measures the program's own memory at rest: `windlass serve` in a process of its own, with the tools of this workspace. Knows no
//! call.

use crate::measure::print;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts over one data folder; the first one compiles the tools.
const STARTS: usize = 4;
/// How long a server rests before its memory is looked at.
const REST: Duration = Duration::from_secs(2);
pub(crate) const READY: &str = "windlass is ready";

pub(crate) fn run() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = program.with_file_name("windlass");
    if !program.is_file() {
        return Err(format!(
            "{} does not exist; `cargo build --release` makes it",
            program.display()
        ));
    }
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    for start in 1..=STARTS {
        let mut server = started(&program, data.path())?;
        let memory = at_rest(&mut server, start);
        // The server is killed at once: its stored data is safe at any time.
        let ended = server.kill().and_then(|()| server.wait());
        print(&memory?);
        ended.map_err(|error| format!("the server does not end: {error}"))?;
    }
    Ok(())
}

fn started(program: &Path, data: &Path) -> Result<Child, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(program);
    command.current_dir(workspace);
    command.args(["serve", "--listen=127.0.0.1:0", "--data"]);
    command.arg(data);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}", program.display()))
}

fn at_rest(server: &mut Child, start: usize) -> Result<Value, String> {
    let output = server.stdout.take().ok_or("the server has no output")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    if !lines.any(|line| line.starts_with(READY)) {
        return Err("the server ended before it was ready".to_owned());
    }
    std::thread::sleep(REST);
    let kib = |key: &str| memory_kib(server, key);
    Ok(json!({
        "bench": "rest", "start": start, "resident_kib": kib("VmRSS:"), "own_kib": kib("RssAnon:"),
        "of_files_kib": kib("RssFile:"),
    }))
}

/// A value of the kernel's report on a process's memory.
pub(crate) fn memory_kib(server: &Child, key: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    number.and_then(|number| number.parse().ok())
}
