//! Tools made of what a team has already, through the command line.

use crate::support::program::{Run, command, run};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;

fn windlass(folder: &Path, arguments: &[&str]) -> Run {
    run(command(folder).args(arguments))
}

fn description(server: &str) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Shop", "version": "1" },
        "servers": [{ "url": server }],
        "paths": {
            "/orders/{id}": {
                "get": {
                    "operationId": "getOrder",
                    "summary": "Get one order",
                    "tags": ["orders"],
                    "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
                },
                "delete": {
                    "operationId": "cancelOrder",
                    "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
                },
            },
            "/picture": { "get": { "responses": { "200": { "description": "", "content": { "image/png": {} } } } } },
        },
    })
}

fn import(folder: &Path, description: &Value, arguments: &[&str]) -> Run {
    fs::write(folder.join("shop.json"), description.to_string()).unwrap();
    windlass(
        folder,
        &[&["import", "openapi", "shop.json"], arguments].concat(),
    )
}

fn schema(folder: &Path, tool: &str) -> Value {
    let path = folder.join("tools").join(tool).join("schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Answers one request with a text, and says what was asked.
fn one_answer(listener: TcpListener, answer: &str) -> std::thread::JoinHandle<String> {
    let answer = answer.to_owned();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut request = String::new();
        reader.read_line(&mut request).unwrap();
        let length = answer.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
        )
        .unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = reader.read_to_end(&mut Vec::new());
        request
    })
}

#[test]
fn an_operation_of_a_backend_is_called_without_a_line_of_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let imported = import(path, &description(&format!("http://{address}")), &[]);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    assert_eq!(
        imported.problems,
        ["left out: GET /picture: it answers with image/png, not with JSON or text"]
    );
    let served = one_answer(listener, r#"{"state": "sent"}"#);
    let arguments = [
        "call",
        "get_order",
        r#"{"id": "A/1"}"#,
        "--allow-fetch",
        &address,
    ];
    let called = windlass(path, &arguments);
    assert_eq!(called.code, 0, "{} {:?}", called.output, called.problems);
    let response: Value = serde_json::from_str(&called.output).unwrap();
    assert_eq!(response["data"]["state"], "sent");
    assert_eq!(served.join().unwrap(), "GET /orders/A%2F1 HTTP/1.1\r\n");
    let asked = windlass(path, &["call", "cancel_order", r#"{"id": "A1"}"#]);
    assert!(
        asked.output.contains("CONFIRMATION_REQUIRED"),
        "{}",
        asked.output
    );
}

#[test]
fn a_newer_description_is_taken_up_on_demand_and_reviewed_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut document = description("https://shop.example");
    assert_eq!(import(path, &document, &[]).code, 0);
    // The author has reviewed a tool.
    let mut reviewed = schema(path, "cancel-order");
    reviewed["requiresConfirmation"] = false.into();
    let file = path.join("tools/cancel-order/schema.json");
    fs::write(&file, reviewed.to_string()).unwrap();
    let again = import(path, &document, &[]);
    assert_eq!(again.code, 0, "{:?}", again.problems);
    assert_eq!(schema(path, "cancel-order"), reviewed);
    // The backend changes one operation and drops another.
    let delete = document
        .pointer_mut("/paths/~1orders~1{id}/delete/parameters")
        .unwrap();
    delete
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "reason", "in": "query", "schema": { "type": "string" } }));
    let item = document.pointer_mut("/paths/~1orders~1{id}").unwrap();
    item.as_object_mut().unwrap().remove("get");
    let refused = import(path, &document, &[]);
    assert_eq!(refused.code, 1);
    let problems = refused.problems.join("\n");
    for said in [
        "changed: cancel-order: schema.json/parameters/properties/reason: new",
        "gone: get-order: the description has no GET /orders/{id} any more",
        "2 tools are others since the last import; nothing was written",
    ] {
        assert!(problems.contains(said), "{problems}");
    }
    assert_eq!(schema(path, "cancel-order"), reviewed);
    let accepted = import(path, &document, &["--accept"]);
    assert_eq!(accepted.code, 0, "{:?}", accepted.problems);
    assert_eq!(schema(path, "cancel-order")["requiresConfirmation"], true);
    assert!(!path.join("tools/get-order").exists());
    assert!(path.join("tools/_get-order/schema.json").exists());
}

#[test]
fn what_cannot_be_imported_is_said_and_leaves_the_folder_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let document = description("https://shop.example");
    let own = path.join("tools/get-order");
    fs::create_dir_all(&own).unwrap();
    for (arguments, code, said) in [
        (
            &[][..],
            1,
            "was not imported, and GET /orders/{id} would replace it",
        ),
        (
            &["--only", "getNothing"],
            2,
            "there is no operation getNothing",
        ),
        (
            &["--only", "get_picture"],
            1,
            "an operation that --only names cannot be imported",
        ),
        (&["--base-url", "shop"], 2, "--base-url https://"),
    ] {
        let run = import(path, &document, arguments);
        let problems = run.problems.join("\n");
        assert!(problems.contains(said), "{problems}");
        assert_eq!(run.code, code);
        let names: Vec<_> = fs::read_dir(path.join("tools"))
            .unwrap()
            .flatten()
            .collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
    let run = windlass(path, &["import", "openapi", "missing.yaml"]);
    let problems = run.problems.join("\n");
    assert_eq!(run.code, 2);
    assert!(
        problems.contains("missing.yaml")
            && problems.contains("there is no such file; name a description"),
        "{problems}"
    );
}

#[test]
fn tools_of_a_node_project_are_copied_and_their_uses_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let old = path.join("old/tools/say_time");
    fs::create_dir_all(&old).unwrap();
    let schema = json!({
        "toolId": "say_time", "version": "1.0.0", "description": "Says the time", "category": "utility",
        "sideEffects": "none", "idempotent": true, "requiresConfirmation": false, "allowedModes": ["text"],
        "latencyBudgetMs": 100, "parameters": { "type": "object", "properties": {}, "additionalProperties": false },
    });
    fs::write(old.join("schema.json"), schema.to_string()).unwrap();
    fs::write(old.join("doc_summary.md"), "Says the time.\n").unwrap();
    let sections = [
        "Summary",
        "Preconditions",
        "Postconditions",
        "Invariants",
        "Failure Modes",
        "Examples",
        "Common Mistakes",
    ];
    let doc: String = sections
        .iter()
        .map(|section| format!("## {section}\n\nNone.\n\n"))
        .collect();
    fs::write(old.join("doc.md"), format!("# say_time\n\n{doc}")).unwrap();
    let handler = "import { time } from './time.js';\nexport async function execute(context) {\n  context.ws;\n  return { ok: true, data: { time, asked: context.args } };\n}\n";
    fs::write(old.join("handler.js"), handler).unwrap();
    fs::write(old.join("time.js"), "export const time = 'noon';\n").unwrap();
    let imported = windlass(path, &["import", "node", "old"]);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    assert_eq!(
        imported.problems,
        ["tools/say-time/handler.js:3: replace context.ws by context.messaging.send(message)"]
    );
    let called = windlass(path, &["call", "say_time", "{}"]);
    let response: Value = serde_json::from_str(&called.output).unwrap();
    assert_eq!(response["data"]["time"], "noon", "{:?}", called.problems);
    let again = windlass(path, &["import", "node", "old"]);
    assert_eq!((again.code, again.problems.len()), (1, 1));
}
