//! `windlass mcp serve`: the program as an MCP client starts it, over its standard input and output.

use crate::support::http::{post_with, request};
use crate::support::program::{Running, command, run};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// How long a program is quiet that is stuck. One that is only slow is ended earlier, and ends as well.
const QUIET: Duration = Duration::from_millis(500);

/// A project whose tool `say` tells what it was given, and whose tool `keep` needs consent.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (id, effects, asks) in [("say", "none", false), ("keep", "writes", true)] {
        let directory = folder.path().join("tools").join(id);
        std::fs::create_dir_all(&directory).unwrap();
        let schema = json!({
            "toolId": id, "version": "1.0.0", "description": "Says it.", "category": if asks { "action" } else { "utility" },
            "sideEffects": effects, "idempotent": true, "requiresConfirmation": asks,
            "allowedModes": ["text"], "latencyBudgetMs": 1000,
            "parameters": {"type": "object", "additionalProperties": false, "properties": {"text": {"type": "string"}}}
        });
        std::fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
        std::fs::write(directory.join("guide.md"), "# Say\n\nSays it.\n").unwrap();
        let handler = "export async function execute({ args }) { return { ok: true, data: { said: args.text } }; }";
        std::fs::write(directory.join("handler.js"), handler).unwrap();
    }
    folder
}

fn start(folder: &std::path::Path) -> Running {
    Running::start(command(folder).args(["mcp", "serve"]).stdin(Stdio::piped()))
}

fn ask(program: &mut Running, message: &Value) -> Value {
    program.say(&message.to_string());
    next(program)
}

fn next(program: &mut Running) -> Value {
    let line = program.line();
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
}

/// What each request of that revision says.
fn stateless() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn a_request_without_sessions_says_what_its_client_can_and_asks_for_no_ping() {
    let folder = project();
    let mut program = start(folder.path());
    let mut incapable = stateless();
    let members = incapable.as_object_mut().unwrap();
    members.remove("io.modelcontextprotocol/clientCapabilities");
    for (id, method, meta, expected) in [
        (1, "tools/list", incapable, -32602),
        (2, "ping", stateless(), -32601),
    ] {
        let message =
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta}});
        let answer = ask(&mut program, &message);
        assert_eq!(answer["error"]["code"], expected, "{message} {answer}");
        assert_eq!(answer["id"], id);
    }
}

#[test]
fn a_program_that_starts_it_lists_and_calls_in_either_revision() {
    let folder = project();
    let mut program = start(folder.path());
    let stateless = stateless();
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": stateless}});
    assert_eq!(
        ask(&mut program, &discover)["result"]["supportedVersions"][0],
        "2026-07-28"
    );
    let early = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    assert_eq!(ask(&mut program, &early)["error"]["code"], -32600);
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}});
    let hello = json!({"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": params});
    assert_eq!(
        ask(&mut program, &hello)["result"]["protocolVersion"],
        "2025-06-18"
    );
    program.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let listed = ask(
        &mut program,
        &json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list"}),
    );
    let names: Vec<_> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, ["keep", "say"]);
    let call = |id: u64, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {"text": "hi"}}});
    let said = ask(&mut program, &call(5, "say"));
    assert_eq!(
        said["result"]["structuredContent"],
        json!({"said": "hi"}),
        "{said}"
    );
    let asked = ask(&mut program, &call(6, "keep"));
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let yes = json!({"action": "accept", "content": {"approve": true}});
    let kept = ask(
        &mut program,
        &json!({"jsonrpc": "2.0", "id": asked["id"], "result": yes}),
    );
    assert_eq!(
        kept["result"]["structuredContent"],
        json!({"said": "hi"}),
        "{kept}"
    );
    let again = ask(&mut program, &call(7, "keep"));
    assert_eq!(
        again["result"]["_meta"]["dev.windlass/replayed"], true,
        "{again}"
    );
    assert_eq!(
        ask(&mut program, &json!(["no message"]))["error"]["code"],
        -32600
    );
    program.say("{");
    assert_eq!(next(&mut program)["error"]["code"], -32700);
    // While it has the folder, no other one does.
    let second = run(command(folder.path()).args(["mcp", "serve"]));
    assert_eq!(second.code, 1, "{:?}", second.problems);
    program.signal("-TERM");
    assert_eq!(program.end().0, Some(0));
}

/// A tool that needs both a role and consent.
fn for_staff(folder: &std::path::Path) {
    let path = folder.join("tools/keep/schema.json");
    let mut schema: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    schema["permissions"] = json!({"requiresAuth": true, "roles": ["staff"]});
    std::fs::write(path, schema.to_string()).unwrap();
}

#[test]
fn who_approves_on_the_page_has_the_roles_of_the_caller() {
    let folder = project();
    for_staff(folder.path());
    let mut started = command(folder.path());
    started.args(["mcp", "serve", "--role", "staff"]);
    let mut program = Running::start(started.stdin(Stdio::piped()));
    let stateless = stateless();
    let params = json!({"name": "keep", "arguments": {"text": "hi"}, "_meta": stateless});
    let call =
        |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    let told = ask(&mut program, &call(1));
    let url = &told["result"]["_meta"]["dev.windlass/error"]["details"]["approveAt"];
    let url = url.as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    let (address, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_at_checked(rest.find('/')?))
        .unwrap();
    let shown = request(address, "GET", path, &[]).body;
    let token = shown.split_once("name=\"token\" value=\"").unwrap().1;
    let token = token.split_once('"').unwrap().0;
    let form = format!("token={token}&approved=yes");
    let given = post_with(address, path, &[], form.as_bytes());
    assert!(given.body.contains("has run"), "{}", given.body);
    let done = ask(&mut program, &call(2));
    assert_eq!(
        done["result"]["structuredContent"],
        json!({"said": "hi"}),
        "{done}"
    );
}

#[test]
fn what_is_asked_right_before_the_end_is_answered() {
    let folder = project();
    let mut program = start(folder.path());
    let stateless = stateless();
    let params = json!({"name": "say", "arguments": {"text": "hi"}, "_meta": stateless});
    for id in 1..=20 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        program.say(&call.to_string());
    }
    drop(program.take_input());
    let mut answered: Vec<Value> = (0..20).map(|_| next(&mut program)["id"].clone()).collect();
    answered.sort_by_key(Value::as_u64);
    assert_eq!(answered, (1..=20).map(Value::from).collect::<Vec<_>>());
    assert_eq!(program.line(), "");
    assert_eq!(program.end().0, Some(0));
}

#[test]
fn a_client_that_reads_nothing_holds_up_no_end() {
    let folder = project();
    let mut program = start(folder.path());
    let early = json!({"jsonrpc": "2.0", "id": "x".repeat(250), "method": "tools/list"});
    ask(&mut program, &early);
    let mut input = program.take_input();
    let (sender, written) = channel();
    let writing =
        thread::spawn(
            move || {
                while writeln!(input, "{early}").is_ok() && sender.send(()).is_ok() {}
            },
        );
    // Until it takes nothing more, because nobody reads its answers.
    while written.recv_timeout(QUIET).is_ok() {}
    program.signal("-TERM");
    assert_eq!(program.end().0, Some(0));
    writing.join().unwrap();
}

#[test]
fn a_revision_whose_batches_nobody_answers_is_not_agreed_on() {
    let folder = project();
    let mut program = start(folder.path());
    let params = json!({"protocolVersion": "2025-03-26", "capabilities": {}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    assert_eq!(
        ask(&mut program, &hello)["result"]["protocolVersion"],
        "2025-11-25"
    );
}
