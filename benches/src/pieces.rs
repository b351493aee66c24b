//! Measures a server's cost of a piece of a growing result on its way to a client of the chat, and how soon a call that changes nothing
//! has stopped. The server is a process of its own; its model and the client are this one.

use crate::chat_server::setup;
use crate::kit::Kit;
use crate::measure::{print, rounded};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use windlass_app::server::{Setup, start};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// The most that a call may show at once: its rate is a limit of its own.
const PIECES: usize = 100;
const TURNS: usize = 200;
const PASSES: usize = 5;
const STOPS: usize = 50;

/// Shows as many pieces as it is asked for; asked to be stopped, it works until it is.
struct Shower {
    begun: Mutex<Sender<()>>,
    stopped: Mutex<Sender<Instant>>,
}

/// Tells when the work has ended, also where it is given up.
struct Ending(Option<Sender<Instant>>);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.take().map(|ended| ended.send(Instant::now()));
    }
}

impl Handler for Shower {
    fn execute(&self, invocation: Invocation) -> Execution {
        let Invocation { arguments, context } = invocation;
        let query: Value = arguments.get("query").unwrap_or_default();
        let query = query.as_str().unwrap_or_default().to_owned();
        if query == "stop" {
            let begun = self.begun.lock().ok().map(|begun| begun.clone());
            let stopped = self.stopped.lock().ok().map(|stopped| stopped.clone());
            let ending = Ending(stopped);
            return Execution::Pending(Box::pin(async move {
                let _ = begun.map(|begun| begun.send(()));
                context.cancellation.cancelled().await;
                drop(ending);
                Ok(Success::new(json!({"stopped": true})))
            }));
        }
        let pieces: usize = query.parse().unwrap_or(0);
        Execution::Pending(Box::pin(async move {
            for number in 0..pieces {
                // A piece for which there is no room is left out, and found missing below.
                let _ = context
                    .output(json!({"line": number, "text": "A line of a report that grows."}));
                tokio::task::yield_now().await;
            }
            Ok(Success::new(json!({"shown": pieces})))
        }))
    }
}

pub(crate) fn run(kit: &Kit) -> Result<(), String> {
    let model = model()?;
    in_a_server(model, cost_of_a_piece)?;

    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (begun, has_begun) = channel();
    let (stopped, was_stopped) = channel();
    let address = serve(setup_of(kit, folder.path(), model, (begun, stopped))?)?;
    time_to_stop(address, &has_begun, &was_stopped)
}

/// Measures with a server in a process of its own: its address, and its number.
pub(crate) fn in_a_server(
    model: SocketAddr,
    measure: impl FnOnce(SocketAddr, u32) -> Result<(), String>,
) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut server = Command::new(program)
        .args(["pieces-server", &model.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let measured = ready(&mut server).and_then(|address| measure(address, server.id()));
    let ended = server.kill().and_then(|()| server.wait());
    measured?;
    ended.map_err(|error| format!("the server does not end: {error}"))?;
    Ok(())
}

/// The server whose pieces are measured, until the process is ended.
pub(crate) fn server(kit: &Kit, model: &str) -> Result<(), String> {
    let model = model
        .parse()
        .map_err(|_| format!("{model} is no address"))?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let ends = (channel().0, channel().0);
    let address = serve(setup_of(kit, folder.path(), model, ends)?)?;
    print(&json!({"address": address.to_string()}));
    loop {
        thread::park();
    }
}

fn ready(server: &mut Child) -> Result<SocketAddr, String> {
    let output = server.stdout.take().ok_or("the server says nothing")?;
    let mut line = String::new();
    let read = BufReader::new(output).read_line(&mut line);
    read.map_err(|error| error.to_string())?;
    let said: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
    let address = said["address"].as_str().unwrap_or_default();
    address
        .parse()
        .map_err(|_| format!("{line} names no address"))
}

fn setup_of(
    kit: &Kit,
    folder: &Path,
    model: SocketAddr,
    (begun, stopped): (Sender<()>, Sender<Instant>),
) -> Result<Setup, String> {
    let handler: Arc<dyn Handler> = Arc::new(Shower {
        begun: Mutex::new(begun),
        stopped: Mutex::new(stopped),
    });
    let handlers: BTreeMap<ToolId, Arc<dyn Handler>> = ["kb_search", "kb_get"]
        .into_iter()
        .filter_map(|id| Some((ToolId::parse(id)?, handler.clone())))
        .collect();
    let url = format!("http://{model}/v1");
    setup(kit, folder, "127.0.0.1:0", &url, handlers)
}

/// Serves beside this thread, until the process ends.
fn serve(setup: Setup) -> Result<SocketAddr, String> {
    let (tell, told) = channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let Ok(server) = start(setup).await else {
                return;
            };
            let _ = tell.send(server.address());
            std::future::pending::<()>().await;
        });
    });
    told.recv()
        .map_err(|_| "the server does not start".to_owned())
}

fn cost_of_a_piece(address: SocketAddr, server: u32) -> Result<(), String> {
    let mut costs = Vec::new();
    for pass in 0..=PASSES {
        let mut spent = [Duration::ZERO; 2];
        for (pieces, spent) in [0, PIECES].into_iter().zip(&mut spent) {
            let before = processor(server)?;
            for turn in 0..TURNS {
                let id = format!("p-{pass}-{pieces}-{turn}");
                let body = json!({"id": id, "message": pieces.to_string()});
                let heard = ask(address, &body)?;
                let shown = heard.matches("\"preliminary\":true").count();
                if shown != pieces {
                    return Err(format!("{shown} of {pieces} pieces were shown"));
                }
            }
            *spent = processor(server)?.saturating_sub(before);
        }
        let [without, with] = spent;
        let pieces = (TURNS * PIECES) as f64;
        // The first pass warms up.
        if pass > 0 {
            costs.push(with.saturating_sub(without).as_secs_f64() * 1e6 / pieces);
        }
    }
    costs.sort_by(f64::total_cmp);
    print(&json!({
        "bench": "pieces", "label": "one piece", "pieces": TURNS * PIECES * PASSES,
        "cpu_us_per_piece": rounded(costs[costs.len() / 2]),
        "least": rounded(costs[0]), "most": rounded(costs[costs.len() - 1]),
    }));
    Ok(())
}

fn time_to_stop(
    address: SocketAddr,
    has_begun: &Receiver<()>,
    was_stopped: &Receiver<Instant>,
) -> Result<(), String> {
    let patience = Duration::from_secs(10);
    let mut waits = Vec::new();
    for number in 0..STOPS {
        let id = format!("s-{number}");
        let body = json!({"id": id, "message": "stop"});
        let asking = thread::spawn(move || ask(address, &body));
        has_begun
            .recv_timeout(patience)
            .map_err(|_| "the call does not begin".to_owned())?;
        let requested = Instant::now();
        let stop = json!({"conversationId": id, "callId": "call-1"});
        let answer = post(address, "/api/cancel", &stop)?;
        let stopped = was_stopped
            .recv_timeout(patience)
            .map_err(|_| format!("the call does not stop: {answer}"))?;
        waits.push(stopped.duration_since(requested).as_secs_f64() * 1e3);
        asking
            .join()
            .map_err(|_| "the client is gone".to_owned())??;
    }
    waits.sort_by(f64::total_cmp);
    print(&json!({
        "bench": "pieces", "label": "from a request to stop until the work has ended", "stops": STOPS,
        "ms_median": rounded(waits[waits.len() / 2]), "ms_most": rounded(waits[waits.len() - 1]),
    }));
    Ok(())
}

/// Processor time of a process, of all its threads.
pub(crate) fn processor(process: u32) -> Result<Duration, String> {
    /// Ticks in a second of the kernel's clock for these figures.
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))
        .map_err(|error| error.to_string())?;
    let behind = text.rsplit(')').next().unwrap_or_default();
    let mut fields = behind.split_ascii_whitespace().skip(11);
    let mut field = || fields.next().and_then(|field| field.parse::<f64>().ok());
    match (field(), field()) {
        (Some(user), Some(system)) => Ok(Duration::from_secs_f64((user + system) / TICKS)),
        _ => Err("the kernel does not say what the server has spent".to_owned()),
    }
}

pub(crate) fn ask(address: SocketAddr, body: &Value) -> Result<String, String> {
    post(address, "/api/chat", body)
}

fn post(address: SocketAddr, path: &str, body: &Value) -> Result<String, String> {
    post_with(address, (path, ""), body)
}

/// The same with header lines of its own.
pub(crate) fn post_with(
    address: SocketAddr,
    (path, headers): (&str, &str),
    body: &Value,
) -> Result<String, String> {
    let body = body.to_string();
    let exchange = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard)?;
        Ok(String::from_utf8_lossy(&heard).into_owned())
    };
    exchange().map_err(|error| format!("the server does not answer: {error}"))
}

/// A model that calls the tool with the user's words, and then answers in words.
pub(crate) fn model() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream));
        }
    });
    Ok(address)
}

/// `None` once the server has left.
fn answer_all(stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body: Value = serde_json::from_slice(&body).ok()?;
        let last = body["messages"].as_array()?.last()?;
        let (delta, reason) = match (last["role"].as_str()?, last["content"].as_str()) {
            ("user", Some(said)) => {
                let arguments = json!({"query": said, "limit": 5}).to_string();
                let call = json!({"index": 0, "id": "call_000000000001", "type": "function",
                    "function": {"name": "kb_search", "arguments": arguments}});
                (json!({"tool_calls": [call]}), "tool_calls")
            }
            _ => (json!({"content": "There it is."}), "stop"),
        };
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
        let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        writer.write_all(answer.as_bytes()).ok()?;
    }
}
