//! Tools that call tools, in the real program: a script that is made of others, also where the server is killed in the middle of it.

use crate::chat::chunks;
use crate::support::http::{HttpAnswer, post};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command, run};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

fn write_tool(folder: &Path, id: &str, side_effects: &str, (file, text): (&str, &str)) {
    let directory = folder.join("tools").join(id);
    fs::create_dir_all(&directory).unwrap();
    let schema = json!({
        "toolId": id, "version": "1.0.0", "description": "Does one thing.", "category": "action",
        "sideEffects": side_effects, "idempotent": false, "requiresConfirmation": id == "asks",
        "allowedModes": ["text"], "latencyBudgetMs": 3_000,
        "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
    });
    fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
    fs::write(directory.join("guide.md"), "# A tool\n\nDoes one thing.\n").unwrap();
    fs::write(directory.join(file), text).unwrap();
}

const OK: (&str, &str) = (
    "handler.js",
    "export const execute = async ({ context }) => ({ ok: true, data: context.tool.id });",
);

#[test]
fn a_script_is_made_of_other_tools_within_their_rules() {
    let folder = tempfile::tempdir().unwrap();
    write_tool(folder.path(), "reads", "read_only", OK);
    write_tool(folder.path(), "writes", "writes", OK);
    write_tool(folder.path(), "asks", "writes", OK);
    let asking = "export async function execute({ context }) {
      const told = [];
      for (const [id, args] of [['reads', {}], ['writes', {}], ['asks', {}], ['none', {}], ['reads', { x: 1 }], ['plan', {}]]) {
        const { ok, data, error, meta } = await context.callTool(id, args);
        told.push(ok ? data : error.type);
        if (meta.parentCallId !== 'call-1') throw new Error(JSON.stringify(meta));
      }
      return { ok: true, data: told };
    }";
    write_tool(folder.path(), "plan", "writes", ("handler.js", asking));
    let run = run(command(folder.path()).args(["call", "plan", "{}"]));
    let response: Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!(
        response["data"],
        json!([
            "reads",
            "writes",
            "PERMANENT",
            "NOT_FOUND",
            "VALIDATION",
            "PERMANENT"
        ]),
        "{response} {:?}",
        run.problems
    );
}

#[test]
fn what_tools_call_is_checked_as_far_as_it_is_written_out() {
    let folder = tempfile::tempdir().unwrap();
    let calling = |called: &str| {
        format!(
            "export async function execute({{ context }}) {{\n  return await context.callTool('{called}');\n}}"
        )
    };
    for (id, side_effects, called) in [
        ("plan", "writes", "order"),
        ("order", "writes", "pay"),
        ("pay", "writes", "plan"),
        ("alone", "writes", "alone"),
        ("reads", "read_only", "order"),
        ("hopes", "writes", "none"),
        ("hurries", "writes", "asks"),
    ] {
        write_tool(
            folder.path(),
            id,
            side_effects,
            ("handler.js", &calling(called)),
        );
    }
    write_tool(folder.path(), "asks", "writes", OK);
    let checked = run(command(folder.path()).args(["check", "-v"]));
    assert_eq!(checked.code, 1);
    let said = checked.problems.join("\n");
    for line in [
        "tools/plan/handler.js:2:24: error: `plan` calls order, which calls pay, which calls plan: that would not end",
        "tools/order/handler.js:2:24: error: `order` calls pay, which calls plan, which calls order: ",
        "tools/alone/handler.js:2:24: error: `alone` calls alone: that would not end",
        "tools/reads/handler.js:2:24: warning: `reads` calls `order`, which does more than `reads` says of itself",
        "tools/hopes/handler.js:2:24: warning: `hopes` calls `none`, and there is no such tool",
        "tools/hurries/handler.js:2:24: warning: `hurries` calls `asks`, which only a model can call",
        "tools/plan/handler.js: note: the tool `plan` may call order",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
}

#[test]
fn a_user_approves_a_tool_with_those_that_it_may_call() {
    let folder = tempfile::tempdir().unwrap();
    write_tool(folder.path(), "order", "writes", OK);
    write_tool(folder.path(), "mail", "writes", OK);
    let both = "export async function execute({ context }) {
      await context.callTool('order'); await context.callTool('mail'); return { ok: true };
    }";
    write_tool(folder.path(), "asks", "writes", ("handler.js", both));
    let file = folder.path().join("tools/asks/schema.json");
    let mut schema: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    schema["confirmation"] = json!({"preview": "Plan the evening"});
    fs::write(file, schema.to_string()).unwrap();
    let asked = run(command(folder.path()).args(["call", "asks", "{}", "--confirm"]));
    let said = asked.problems.join("\n");
    assert!(
        said.contains("Plan the evening (may call mail, order)"),
        "{said}"
    );
}

/// A shop that counts orders, and a place where a handler waits until somebody lets it go on.
struct Outside {
    port: u16,
    orders: Arc<AtomicUsize>,
    lets_go_on: Arc<AtomicBool>,
    waiting: Receiver<()>,
    /// Those that are not let go on.
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Outside {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, waiting) = channel();
        let outside = Self {
            port,
            orders: Arc::default(),
            lets_go_on: Arc::default(),
            waiting,
            held: Arc::default(),
        };
        let (orders, lets_go_on) = (outside.orders.clone(), outside.lets_go_on.clone());
        let held = outside.held.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &orders, (&lets_go_on, &held), &sender);
            }
        });
        outside
    }
}

fn serve(
    mut stream: TcpStream,
    orders: &AtomicUsize,
    (lets_go_on, held): (&AtomicBool, &Mutex<Vec<TcpStream>>),
    waiting: &Sender<()>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).unwrap();
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let body = match first.contains(" /wait ") {
        true => {
            waiting.send(()).unwrap();
            if !lets_go_on.load(Ordering::SeqCst) {
                held.lock().unwrap().push(stream);
                return;
            }
            json!({})
        }
        false => json!({"receipt": orders.fetch_add(1, Ordering::SeqCst) + 1}),
    };
    let body = body.to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let length = body.len();
    let _ = write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}");
}

/// A server whose model calls `plan` for everything that the user says.
fn serve_plans(folder: &Path, outside: &Outside, model: &ModelServer) -> (Running, String) {
    let mut server = command(folder);
    server
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--tools",
            "tools",
            "--data",
            "data",
        ])
        .args(["--text-provider-url", &model.url])
        .args(["--allow-fetch", &format!("127.0.0.1:{}", outside.port)]);
    let mut server = Running::start(&mut server);
    let address = server.address();
    (server, address)
}

fn say(address: &str) -> HttpAnswer {
    let body = json!({"id": "talk", "message": "plan"}).to_string();
    post(address, "/api/chat", body.as_bytes())
}

#[test]
fn a_change_that_a_killed_tool_had_called_for_is_not_made_again() {
    let outside = Outside::open();
    let url = format!("http://127.0.0.1:{}", outside.port);
    let folder = tempfile::tempdir().unwrap();
    let order =
        json!({"kind": "http", "method": "POST", "url": format!("{url}/order"), "body": {}});
    write_tool(
        folder.path(),
        "order",
        "writes",
        ("handler.json", &order.to_string()),
    );
    let plan = "export async function execute({ context }) {
      const { data } = await context.callTool('order');
      await context.http.fetch('URL/wait');
      return { ok: true, data };
    }";
    write_tool(
        folder.path(),
        "plan",
        "writes",
        ("handler.js", &plan.replace("URL", &url)),
    );
    let model = ModelServer::start(|message| match message["role"].as_str() {
        Some("user") => Says::Calls("plan", json!({})),
        _ => Says::Words("Well."),
    });
    let (server, address) = serve_plans(folder.path(), &outside, &model);
    let asked = thread::spawn(move || say(&address));
    // The order is made and its end is stored; the plan is not at its end.
    outside.waiting.recv().unwrap();
    server.kill();
    drop(asked.join());
    assert_eq!(outside.orders.load(Ordering::SeqCst), 1);
    outside.lets_go_on.store(true, Ordering::SeqCst);
    let (_server, address) = serve_plans(folder.path(), &outside, &model);
    // Nobody knows how the plan ended, so that the user is asked.
    let chunks = chunks(&say(&address));
    let question = chunks
        .iter()
        .find(|chunk| chunk["type"] == "tool-approval-request");
    let token = &question.unwrap_or_else(|| panic!("{chunks:?}"))["approvalId"];
    let yes = json!({"conversationId": "talk", "token": token, "approved": true});
    let approved = post(&address, "/api/confirm", yes.to_string().as_bytes());
    let approved: Value = serde_json::from_str(&approved.body).unwrap();
    assert_eq!(
        approved["response"]["data"],
        json!({"receipt": 1}),
        "{approved}"
    );
    assert_eq!(outside.orders.load(Ordering::SeqCst), 1);
}
