//! A worker on a thread of the test, and a host of the test's own that speaks with it.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;
use windlass_script::{Limits, WorkerError, serve};

/// Where the handler of [`Host::of_handler`] stands.
pub(crate) const ENTRY: &str = "own/handler.js";

pub(crate) struct Host {
    to_worker: Option<PipeWriter>,
    from_worker: BufReader<PipeReader>,
    console: Option<PipeReader>,
    worker: Option<JoinHandle<Result<(), WorkerError>>>,
    next_id: u64,
    /// What the worker said besides answers and requests.
    pub(crate) notifications: Vec<Value>,
}

/// The limits of most tests: generous in time, because the machine may be busy.
pub(crate) fn limits() -> Limits {
    Limits {
        compute_max: Duration::from_secs(20),
        spares: 1,
        ..Limits::default()
    }
}

impl Host {
    pub(crate) fn start(limits: Limits) -> Self {
        let (worker_input, to_worker) = pipe().unwrap();
        let (from_worker, worker_output) = pipe().unwrap();
        let (console, worker_console) = pipe().unwrap();
        let worker = spawn(move || {
            serve(
                BufReader::new(worker_input),
                worker_output,
                worker_console,
                limits,
            )
        });
        Self {
            to_worker: Some(to_worker),
            from_worker: BufReader::new(from_worker),
            console: Some(console),
            worker: Some(worker),
            next_id: 0,
            notifications: Vec::new(),
        }
    }

    /// A worker that has one tool, `own`, of these files.
    pub(crate) fn of_files<const N: usize>(
        limits: Limits,
        entry: &str,
        files: [(&str, &str); N],
    ) -> Self {
        let mut host = Self::start(limits);
        host.load("own", entry, files);
        host
    }

    pub(crate) fn of_handler(source: &str) -> Self {
        Self::of_files(limits(), ENTRY, [(ENTRY, source)])
    }

    pub(crate) fn load<const N: usize>(
        &mut self,
        tool: &str,
        entry: &str,
        files: [(&str, &str); N],
    ) {
        let modules: BTreeMap<&str, &str> = files.into_iter().collect();
        let id = self.send_request(
            "load",
            json!({"tool": tool, "entry": entry, "modules": modules}),
        );
        let answer = self.answer(id, &mut |method, _| panic!("{method} while it loads"));
        assert_eq!(answer, json!({"result": {}}));
    }

    pub(crate) fn send(&mut self, line: &Value) {
        let to_worker = self.to_worker.as_mut().unwrap();
        writeln!(to_worker, "{line}").unwrap();
    }

    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn execute(&mut self, args: Value, context: Value) -> u64 {
        self.send_request(
            "execute",
            json!({"tool": "own", "args": args, "context": context}),
        )
    }

    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.from_worker.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The answer to a request as `result` or `error`. What the worker asks meanwhile, `respond` answers.
    pub(crate) fn answer(
        &mut self,
        id: u64,
        respond: &mut dyn FnMut(&str, &Value) -> Value,
    ) -> Value {
        loop {
            let mut line = self.receive();
            let object = line.as_object_mut().unwrap();
            assert_eq!(object.remove("jsonrpc"), Some(json!("2.0")));
            match (object.get("method").cloned(), object.get("id").cloned()) {
                (Some(method), Some(request)) => {
                    let mut answer = respond(method.as_str().unwrap(), &object["params"]);
                    answer["id"] = request;
                    self.send(&answer);
                }
                (Some(_), None) => self.notifications.push(line),
                (None, found) => {
                    assert_eq!(found, Some(json!(id)));
                    object.remove("id");
                    return line;
                }
            }
        }
    }

    /// One call, whose requests nobody answers, because it has none.
    pub(crate) fn call(&mut self, args: Value) -> Value {
        self.call_with(args, context(), &mut |method, _| {
            panic!("the handler asks for {method}")
        })
    }

    pub(crate) fn call_with(
        &mut self,
        args: Value,
        context: Value,
        respond: &mut dyn FnMut(&str, &Value) -> Value,
    ) -> Value {
        let id = self.execute(args, context);
        self.answer(id, respond)
    }

    /// What the handlers wrote on their consoles, after the worker has ended.
    pub(crate) fn into_console(mut self) -> String {
        drop(self.to_worker.take());
        self.worker.take().unwrap().join().unwrap().unwrap();
        std::io::read_to_string(self.console.take().unwrap()).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.to_worker.take());
        if let Some(worker) = self.worker.take() {
            let ended = worker.join().unwrap();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

/// The context of a call as a host sends it, with a deadline that no test reaches.
pub(crate) fn context() -> Value {
    json!({
        "clientId": "client", "sessionId": "session", "userId": "user", "conversationId": "conversation", "mode": "text", "turn": 3,
        "tool": {"id": "own", "version": "1.0.0", "idempotent": true},
        "session": {"isActive": true, "toolsVersion": "1.0.00000000", "state": {"isModelGenerating": true}},
        "capabilities": {"voice": false, "messaging": true}, "voice": {"isActive": false}, "effectId": null,
        "deadline": 32_503_680_000_000_u64,
    })
}

pub(crate) fn result(value: Value) -> Value {
    json!({"result": value})
}

pub(crate) fn data(value: Value) -> Value {
    result(json!({"ok": true, "data": value}))
}
