//! A model's server that speaks Chat Completions, or Gemini where it is asked so, and answers by a rule of the test's.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// One answer of the model.
pub(crate) enum Says {
    Words(&'static str),
    Calls(&'static str, Value),
    /// The same by a name that the request gives.
    CallsNamed(String, Value),
    /// The same under this id.
    CallsAs(&'static str, &'static str, Value),
    /// Words, once the gate is open.
    Waits(Arc<Gate>, &'static str),
    /// Status 400.
    Refuses,
    /// Status 401, in these words.
    Scolds(String),
    /// Words, and then the connection breaks.
    Cuts(&'static str),
    /// Words, and then nothing more for as long as the client stays.
    Hangs(&'static str),
}

/// Closed until somebody opens it, for good.
#[derive(Default)]
pub(crate) struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    pub(crate) fn pass(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(
            self.opened
                .wait_while(is_open, |is_open| !*is_open)
                .unwrap(),
        );
    }
}

pub(crate) struct ModelServer {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl ModelServer {
    /// Answers each request as the rule says, which is given the body's last message.
    pub(crate) fn start(rule: impl Fn(&Value) -> Says + Send + Sync + 'static) -> Self {
        Self::start_with(rule, true)
    }

    /// The same of one that does not remember what it was asked: for so many requests that it would be too much.
    pub(crate) fn start_without_memory(
        rule: impl Fn(&Value) -> Says + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(rule, false)
    }

    fn start_with(rule: impl Fn(&Value) -> Says + Send + Sync + 'static, remembers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::new(Log {
            seen: remembers.then(|| seen.clone()),
            requests: AtomicU64::new(0),
        });
        let rule = Arc::new(rule);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, rule) = (log.clone(), rule.clone());
                thread::spawn(move || serve(stream, &log, &*rule));
            }
        });
        Self { url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }
}

fn call_of(id: &str, name: &str, arguments: &Value) -> Value {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    let call = json!({"index": 0, "id": id, "type": "function", "function": function});
    json!({"tool_calls": [call]})
}

/// What was asked, where that is remembered, and how often.
struct Log {
    seen: Option<Arc<Mutex<Vec<Value>>>>,
    requests: AtomicU64,
}

impl Log {
    /// The number of this request.
    fn add(&self, body: Value) -> u64 {
        if let Some(seen) = &self.seen {
            seen.lock().unwrap().push(body);
        }
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn serve(stream: TcpStream, log: &Log, rule: &dyn Fn(&Value) -> Says) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let body = read_body(&mut reader)?;
        if body.get("contents").is_some() {
            log.add(body);
            answer_as_gemini(&mut writer)?;
            continue;
        }
        let last = body["messages"].as_array()?.last()?.clone();
        let number = log.add(body);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
        let (delta, reason) = match rule(&last) {
            Says::Words(words) => (json!({"content": words}), "stop"),
            Says::Waits(gate, words) => {
                gate.pass();
                (json!({"content": words}), "stop")
            }
            Says::Calls(name, arguments) => {
                let id = format!("call_{number:012}");
                (call_of(&id, name, &arguments), "tool_calls")
            }
            Says::CallsNamed(name, arguments) => {
                let id = format!("call_{number:012}");
                (call_of(&id, &name, &arguments), "tool_calls")
            }
            Says::CallsAs(id, name, arguments) => (call_of(id, name, &arguments), "tool_calls"),
            Says::Refuses => {
                let error = json!({"error": {"message": "no", "type": "invalid_request_error"}});
                let (head, body) = ("HTTP/1.1 400 Bad Request\r\n", error.to_string());
                write!(writer, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
                continue;
            }
            Says::Scolds(words) => {
                let error = json!({"error": {"message": words, "type": "invalid_request_error"}});
                let (head, body) = ("HTTP/1.1 401 Unauthorized\r\n", error.to_string());
                write!(writer, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
                continue;
            }
            Says::Cuts(words) => {
                let chunk = json!({"choices": [{"index": 0, "delta": {"content": words}}]});
                let head = format!("{head}Transfer-Encoding: chunked\r\n");
                let chunk = format!("data: {chunk}\n\n");
                let length = chunk.len();
                return write!(writer, "{head}\r\n{length:x}\r\n{chunk}\r\n").ok();
            }
            Says::Hangs(words) => {
                let chunk = json!({"choices": [{"index": 0, "delta": {"content": words}}]});
                write!(writer, "{head}\r\ndata: {chunk}\n\n").ok()?;
                let mut rest = Vec::new();
                return reader.read_to_end(&mut rest).ok().map(|_| ());
            }
        };
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}});
        let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
        write!(writer, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
    }
}

fn answer_as_gemini(writer: &mut TcpStream) -> Option<()> {
    let candidate =
        json!({"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP"});
    let body = format!("data: {}\n\n", json!({"candidates": [candidate]}));
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    write!(writer, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()
}

fn read_body(reader: &mut BufReader<TcpStream>) -> Option<Value> {
    let (_, body) = read_request(reader)?;
    serde_json::from_slice(&body).ok()
}

/// The next request of a connection: its head as it came, and its body.
pub(crate) fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}
