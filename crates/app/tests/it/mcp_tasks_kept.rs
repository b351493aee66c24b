//! Tasks of MCP clients in real programs: their progress, and what is known of them after a kill, over HTTP and over a pipe.

use crate::access::key;
use crate::mcp_server::code;
use crate::mcp_tasks::{LOOK_PAUSE, about, get, id_of, tasks, until};
use crate::support::http::request;
use crate::support::mcp_client::{message, read, send};
use crate::support::program::{Running, command};
use crate::tasks::{Kind, Studio, call_back, say_in};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::thread;

const SERVES: &str = "[mcp_server]\nenabled = true\nassume_external_content = false\n";

/// Has a task begun by `export` of a studio.
fn export(studio: &Studio, what: &str) -> Value {
    let params = json!({"name": "export", "arguments": {"what": what}});
    let body = message(1, "tools/call", params, &tasks());
    read(&send(&studio.address, &[], &body))["result"].clone()
}

#[test]
fn a_task_says_how_far_it_is() {
    let studio = Studio::open(Kind::Script, json!({}), SERVES);
    let id = id_of(&export(&studio, "a"));
    while get(&studio.address, &id)["statusMessage"] != "half way" {
        thread::sleep(LOOK_PAUSE);
    }
    studio.service.gate.open();
    let ended = until(&studio.address, &id, "completed");
    assert_eq!(ended["result"]["structuredContent"], json!({"rows": 7}));
}

#[test]
fn after_a_kill_the_next_look_says_what_happened() {
    let mut writes = Studio::open(Kind::Http, json!({}), SERVES);
    let id = id_of(&export(&writes, "a"));
    while writes.service.asked().is_empty() {
        thread::yield_now();
    }
    writes.kill();
    writes.serve();
    let task = get(&writes.address, &id);
    assert_eq!(task["status"], "failed", "{task}");
    assert_eq!(task["error"]["code"], -32603, "{task}");
    let error = &task["error"]["data"]["dev.windlass/error"];
    assert_eq!(error["code"], "OUTCOME_UNKNOWN", "{task}");
    for words in [&task["error"]["message"], &task["statusMessage"]] {
        let words = words.as_str().unwrap();
        assert!(words.contains("nobody knows"), "{task}");
    }
    // Nothing begins a second time unasked.
    let again = export(&writes, "a");
    assert_eq!(code(&again), "CONFIRMATION_REQUIRED", "{again}");
    assert_eq!(writes.service.asked(), ["a"]);

    let reads = json!({"sideEffects": "read_only", "category": "utility", "idempotent": true});
    let mut reads = Studio::open(Kind::Http, reads, SERVES);
    let id = id_of(&export(&reads, "a"));
    reads.kill();
    reads.serve();
    let task = get(&reads.address, &id);
    assert_eq!(task["status"], "failed", "{task}");
    let said = task["statusMessage"].as_str().unwrap();
    assert!(said.contains("has changed nothing"), "{task}");
    let other = id_of(&export(&reads, "a"));
    assert_ne!(other, id, "it may run again");
    reads.service.gate.open();
    until(&reads.address, &other, "completed");

    // What a service has accepted goes on.
    let mut accepted = Studio::open(Kind::Webhook, json!({}), SERVES);
    let id = id_of(&export(&accepted, "a"));
    while accepted.service.asked().is_empty() {
        thread::yield_now();
    }
    assert_eq!(id_of(&export(&accepted, "a")), id);
    accepted.kill();
    accepted.serve();
    assert_eq!(get(&accepted.address, &id)["status"], "working");
    assert_eq!(id_of(&export(&accepted, "a")), id);
    let done = json!({"effectId": id, "ok": true, "data": {"rows": 7}});
    assert_eq!(call_back(&accepted.address, &id, &done).status, 200);
    let ended = until(&accepted.address, &id, "completed");
    assert_eq!(ended["result"]["structuredContent"], json!({"rows": 7}));
}

#[test]
fn what_a_model_has_begun_for_a_user_is_no_task_of_that_users_programs() {
    let mut studio = Studio::open(Kind::Script, json!({}), SERVES);
    studio.kill();
    let shown = key(
        &studio.folder.path().join("data"),
        &["ada", "--user", "ada"],
    );
    studio.serve();
    let ada = [("Authorization", &*shown)];
    say_in(&studio.address, "talk", "export a", &ada);
    let told = studio.result();
    let id = told["data"]["backgroundTaskId"].as_str().unwrap();
    let own = request(&studio.address, "GET", &format!("/api/tasks/{id}"), &ada);
    assert_eq!(own.status, 200, "{}", own.body);
    let answer = about(&studio.address, &ada, "tasks/get", json!({"taskId": id}));
    assert_eq!(read(&answer)["error"]["code"], -32602, "{}", answer.body);
    studio.service.gate.open();
}

/// A project with a tool that works in the background, until the file `go` is there.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("tools/export");
    std::fs::create_dir_all(&directory).unwrap();
    let schema = json!({
        "toolId": "export", "version": "1.0.0", "description": "Exports all there is.", "category": "action",
        "sideEffects": "writes", "idempotent": false, "requiresConfirmation": false, "behavior": "background",
        "allowedModes": ["text"], "latencyBudgetMs": 1_000,
        "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
    });
    std::fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(directory.join("guide.md"), "# Export\n\nExports all.\n").unwrap();
    let worker = "import { createInterface } from 'node:readline';
        import { appendFileSync, existsSync } from 'node:fs';
        createInterface({ input: process.stdin }).on('line', (line) => {
            const { id, method } = JSON.parse(line);
            if (method !== 'execute') return;
            appendFileSync('begun', 'x');
            const looking = setInterval(() => {
                if (!existsSync('go')) return;
                clearInterval(looking);
                process.stdout.write(`${JSON.stringify({ id, result: { ok: true, data: { rows: 7 } } })}\\n`);
            }, 20);
        });";
    std::fs::write(directory.join("worker.mjs"), worker).unwrap();
    let handler = json!({"kind": "process", "command": ["node", "worker.mjs"]});
    std::fs::write(directory.join("handler.json"), handler.to_string()).unwrap();
    let settings = format!("[handlers]\nprocesses = true\n{SERVES}");
    std::fs::write(folder.path().join("windlass.toml"), settings).unwrap();
    folder
}

/// `windlass mcp serve`, and the requests that it was sent.
struct Program {
    running: Running,
    requests: u64,
}

impl Program {
    fn start(folder: &Path) -> Self {
        let mut program = command(folder);
        program.args(["mcp", "serve"]).stdin(Stdio::piped());
        Self {
            running: Running::start(&mut program),
            requests: 0,
        }
    }

    /// The result of a request. An id is in use until its answer was written.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let request = message(self.requests, method, params, &tasks());
        self.running.say(&request.to_string());
        let line = self.running.line();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }
}

#[test]
fn a_program_over_a_pipe_hands_out_tasks_that_the_next_one_knows() {
    let folder = project();
    let call = json!({"name": "export", "arguments": {}});
    let begun = || std::fs::read_to_string(folder.path().join("tools/export/begun"));
    let mut program = Program::start(folder.path());
    let id = id_of(&program.ask("tools/call", call.clone()));
    assert_eq!(id_of(&program.ask("tools/call", call.clone())), id);
    while begun().is_err() {
        thread::sleep(LOOK_PAUSE);
    }
    program.running.kill();
    let mut program = Program::start(folder.path());
    let task = program.ask("tasks/get", json!({"taskId": id}));
    assert_eq!(task["status"], "failed", "{task}");
    let said = task["statusMessage"].as_str().unwrap();
    assert!(said.contains("nobody knows"), "{task}");
    // Another one, by a key of its own, comes to its end.
    let mut keyed = call;
    keyed["_meta"]["dev.windlass/idempotency-key"] = "k".into();
    std::fs::write(folder.path().join("tools/export/go"), "").unwrap();
    let id = id_of(&program.ask("tools/call", keyed));
    let ended = loop {
        let task = program.ask("tasks/get", json!({"taskId": id}));
        if task["status"] != "working" {
            break task;
        }
        thread::sleep(LOOK_PAUSE);
    };
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"], json!({"rows": 7}));
}
