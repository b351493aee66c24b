//! Measures the effects of a flood from one address on all other clients: chat turns of others while it goes on and while it does not,
//! and the server's memory. The server has one core and this program, which floods, the other (`taskset`).

use crate::measure::print;
use crate::rest::{READY, memory_kib};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

/// How long the others chat in peace, and how long under the flood.
const TIME: Duration = Duration::from_secs(30);
/// Below the shares of a user and of an address, which is 20 turns in a second: refusals are not measured here.
const USERS: u64 = 40;
const TURNS_PER_SECOND: u64 = 15;
/// Ten times an address's share of requests: 12,000 in a minute.
const REQUESTS_PER_SECOND: u64 = 2_000;
/// One request in ten asks for a turn: ten times the share of 1,200 in a minute.
const TURN_EVERY: u64 = 10;
/// Ten times an address's share of connections, which say half of a head and hold their place.
const HALF_HEADS: usize = 10_240;
const HALF_HEADS_PER_TICK: usize = 20;
const TICK: Duration = Duration::from_millis(10);

pub(crate) fn run() -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut server = started(data.path())?;
    let measured = address(&mut server).and_then(|address| measure(&server, address));
    let ended = server.kill().and_then(|()| server.wait());
    print(&measured?);
    ended
        .map(drop)
        .map_err(|error| format!("the server does not end: {error}"))
}

fn started(data: &Path) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = program.with_file_name("windlass");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new("taskset");
    command
        .args(["-c", "0"])
        .arg(&program)
        .current_dir(workspace);
    command
        .args(["serve", "--listen=127.0.0.1:0", "--data"])
        .arg(data);
    // A model that answers by itself, whatever keys this machine has.
    for variable in ["GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"] {
        command.env_remove(variable);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}", program.display()))
}

fn address(server: &mut Child) -> Result<SocketAddr, String> {
    let output = server.stdout.take().ok_or("the server has no output")?;
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let mut ready = lines.filter(|line| line.starts_with(READY));
    let ready = ready.next().ok_or("the server ended before it was ready")?;
    let (_, address) = ready.split_once("http://").unwrap_or_default();
    address.parse().map_err(|_| format!("no address: {ready}"))
}

fn measure(server: &Child, address: SocketAddr) -> Result<Value, String> {
    turns(address, "before", Duration::from_secs(2))?;
    let before = memory_kib(server, "VmRSS:");
    let quiet = turns(address, "quiet", TIME)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(AtomicU64::new(0));
    let flood = {
        let (is_over, sent) = (Arc::clone(&is_over), Arc::clone(&sent));
        thread::spawn(move || flood(address, &is_over, &sent))
    };
    let flooded = turns(address, "flooded", TIME);
    is_over.store(true, Ordering::Relaxed);
    let ended = flood
        .join()
        .map_err(|_| "the flood ended early".to_owned())?;
    ended.and(flooded).map(|flooded| {
        json!({
            "bench": "flood", "requests_of_the_flood": sent.load(Ordering::Relaxed), "turns": quiet.len() + flooded.len(),
            "quiet_ms": percentiles(&quiet), "flooded_ms": percentiles(&flooded),
            "resident_kib": [before, memory_kib(server, "VmRSS:")],
        })
    })
}

fn percentiles(durations: &[Duration]) -> Value {
    let mut durations = durations.to_vec();
    durations.sort_unstable();
    let at = |part: f64| {
        let index = (part * durations.len() as f64) as usize;
        let duration = durations.get(index.min(durations.len().max(1) - 1));
        duration.map_or(0.0, |duration| {
            (duration.as_secs_f64() * 100_000.0).round() / 100.0
        })
    };
    json!({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)})
}

/// Turns of chats, at a steady rate: each is timed from when it was due.
fn turns(address: SocketAddr, name: &str, time: Duration) -> Result<Vec<Duration>, String> {
    let begun = Instant::now();
    let mut durations = Vec::new();
    for number in 0.. {
        let due = begun + Duration::from_micros(number * 1_000_000 / TURNS_PER_SECOND);
        if due - begun > time {
            return Ok(durations);
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let user = number % USERS;
        let body = json!({"id": format!("{name}-{user}"), "userId": format!("{name}-{user}"), "message": "Hello."});
        let answer =
            turn(address, &body.to_string()).map_err(|error| format!("a turn: {error}"))?;
        if !answer.starts_with("HTTP/1.1 200") {
            return Err(format!("a turn of others was refused: {answer}"));
        }
        durations.push(due.elapsed());
    }
    Ok(durations)
}

fn turn(address: SocketAddr, body: &str) -> std::io::Result<String> {
    let mut client = TcpStream::connect(address)?;
    client.write_all(request("POST", "/api/chat", body).as_bytes())?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    Ok(answer)
}

fn request(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Requests, turns and half heads, from an address of its own.
fn flood(address: SocketAddr, is_over: &AtomicBool, sent: &Arc<AtomicU64>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut held = Vec::new();
        let mut number = 0;
        let mut ticks = tokio::time::interval(TICK);
        while !is_over.load(Ordering::Relaxed) {
            ticks.tick().await;
            for _ in 0..REQUESTS_PER_SECOND * TICK.as_millis() as u64 / 1_000 {
                number += 1;
                let text = match number % TURN_EVERY {
                    0 => request(
                        "POST",
                        "/api/chat",
                        &json!({"id": "flood", "message": "Hello."}).to_string(),
                    ),
                    _ => request("GET", "/health", ""),
                };
                let sent = Arc::clone(sent);
                tokio::spawn(async move {
                    if let Some(mut client) = connected(address).await {
                        let _ = client.write_all(text.as_bytes()).await;
                        let _ = client.read_to_end(&mut Vec::new()).await;
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..HALF_HEADS_PER_TICK.min(HALF_HEADS.saturating_sub(held.len())) {
                if let Some(mut client) = connected(address).await {
                    let _ = client.write_all(b"GET /health HTTP/1.1\r\nHost:").await;
                    held.push(client);
                }
            }
        }
    });
    Ok(())
}

async fn connected(address: SocketAddr) -> Option<tokio::net::TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind(([127, 0, 0, 2], 0).into()).ok()?;
    socket.connect(address).await.ok()
}
