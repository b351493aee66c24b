//! Handlers that hold their threads: they starve themselves, and nobody else, and the server ends in time.

use crate::chat::chat_with;
use crate::support::http::{get, post};
use crate::support::model_server::{Gate, ModelServer, Says};
use crate::support::program::{Running, command_of, example};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

fn write_tool(tools: &Path, id: &str, timeout_ms: u64) {
    let schema = json!({
        "toolId": id, "version": "1.0.0", "description": "Does one thing.", "category": "utility",
        "sideEffects": "none", "idempotent": true, "requiresConfirmation": false,
        "allowedModes": ["text", "voice"], "latencyBudgetMs": 800, "timeoutMs": timeout_ms,
        "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
    });
    let folder = tools.join(id);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# A tool\n\nDoes one thing.\n").unwrap();
}

/// Sleeps until its gate is open.
struct Sleeps {
    gate: Arc<Gate>,
    begun: Arc<AtomicUsize>,
}

impl Handler for Sleeps {
    fn execute(&self, _: Invocation) -> Execution {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.gate.pass();
        Execution::Ready(Ok(Success::new(json!({"slept": true}))))
    }
}

/// Computes in its future, without an end until it is told.
struct Spins(Arc<AtomicBool>);

impl Handler for Spins {
    fn execute(&self, _: Invocation) -> Execution {
        let is_over = self.0.clone();
        Execution::Pending(Box::pin(async move {
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            Ok(Success::default())
        }))
    }
}

struct Quick;

impl Handler for Quick {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::new(json!({"quick": true}))))
    }
}

fn rule(last: &Value) -> Says {
    let content = last["content"].to_string();
    match () {
        () if last["role"] == "tool" && content.contains("quick") => Says::Words("It was quick."),
        () if last["role"] == "tool" => Says::Words("It was not."),
        () if content.contains("Sleep.") => Says::Calls("sleeps", json!({})),
        () if content.contains("Spin.") => Says::Calls("spins", json!({})),
        () => Says::Calls("quick", json!({})),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_hung_handlers_starve_only_themselves_and_the_server_ends_in_time() {
    let tools = tempfile::tempdir().unwrap();
    // A lost thread is replaced within the test, for one of the tools; the other's calls wait for as long as it takes.
    for (id, timeout_ms) in [("sleeps", 60_000), ("spins", 1_000), ("quick", 20_000)] {
        write_tool(tools.path(), id, timeout_ms);
    }
    let (gate, begun, is_over) = (Arc::default(), Arc::default(), Arc::default());
    let sleeps = Sleeps {
        gate: Arc::clone(&gate),
        begun: Arc::clone(&begun),
    };
    let handlers: [(&str, Arc<dyn Handler>); 3] = [
        ("sleeps", Arc::new(sleeps)),
        ("spins", Arc::new(Spins(Arc::clone(&is_over)))),
        ("quick", Arc::new(Quick)),
    ];
    let handlers: BTreeMap<_, _> = handlers
        .into_iter()
        .map(|(id, handler)| (ToolId::parse(id).unwrap(), handler))
        .collect();
    let keys = [
        ("folders.tools", tools.path().to_str().unwrap()),
        ("server.shutdown_seconds", "1"),
        ("threads.handlers_max", "24"),
        ("threads.tool_max", "2"),
        ("server.connections_max", "2000"),
    ];
    let chat = chat_with(rule, &keys, handlers).await;
    let mut held = Vec::new();
    for (words, count) in [("Spin.", 4), ("Sleep.", 512)] {
        for number in 0..count {
            let body = json!({"id": format!("{words}-{number}"), "message": words}).to_string();
            let mut client = TcpStream::connect(&chat.address).await.unwrap();
            let length = body.len();
            let head = format!(
                "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
            );
            client
                .write_all(format!("{head}{body}").as_bytes())
                .await
                .unwrap();
            held.push(client);
        }
    }
    // Others are served, before and while the threads of the hung ones are lost.
    for number in 0..20 {
        let answer = chat.ask(&json!({"id": format!("q-{number}"), "message": "Quick."}));
        assert!(answer.body.contains("It was quick."), "{}", answer.body);
        assert_eq!(get(&chat.address, "/health").status, 200);
    }
    let spun = chat.ask(&json!({"id": "spin", "message": "Spin."}));
    assert!(spun.body.contains("It was not."), "{}", spun.body);
    assert!(begun.load(Ordering::SeqCst) <= 2);
    // It ends although nobody has let go of a thread.
    chat.close().await;
    gate.open();
    is_over.store(true, Ordering::Relaxed);
}

#[test]
fn a_signal_ends_a_program_whose_handler_never_gives_its_sessions_thread_back() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    write_tool(&tools, "sleeps", 60_000);
    let model = ModelServer::start(rule);
    let mut command = command_of(&example("never_returns"), folder.path());
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
        .args(["--tools", "tools", "--data", "data"])
        .env("WINDLASS_TEXT_PROVIDER", "openai")
        .env("WINDLASS_TEXT_URL", &model.url)
        // With one thread for all sessions and sockets, nothing of the server's own can go on.
        .env("WINDLASS_SERVER_WORKER_THREADS", "1")
        .env("WINDLASS_SERVER_SHUTDOWN_SECONDS", "1");
    let mut running = Running::start(&mut command);
    let address = running.address();
    // Its answer never comes, and its connection ends with the program.
    let asked = std::thread::spawn(move || {
        let body = json!({"id": "a", "message": "Sleep."}).to_string();
        std::panic::catch_unwind(|| post(&address, "/api/chat", body.as_bytes()))
    });
    while !folder.path().join("begun").exists() {
        std::thread::yield_now();
    }
    running.signal("-TERM");
    let (code, log) = running.end();
    assert_eq!(code, Some(1));
    assert!(log.contains("it was ended without waiting for it"), "{log}");
    drop(asked.join());
}
