//! Tools made of what a team has already, through the command line.

use crate::chat::{approval, chunks, words};
use crate::support::http::{HttpAnswer, post};
use crate::support::model_server::{ModelServer, Says, read_request};
use crate::support::program::{Run, Running, command, run};
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

/// Answers one request, and says what was asked: its first line and its body.
fn one_change(listener: TcpListener) -> std::thread::JoinHandle<(String, String)> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (asked, body) = read_request(&mut reader).unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2";
        write!(stream, "{head}\r\nconnection: close\r\n\r\n{{}}").unwrap();
        let first = asked.lines().next().unwrap().to_owned();
        (first, String::from_utf8(body).unwrap())
    })
}

#[test]
fn what_the_user_is_shown_of_an_imported_change_is_all_that_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let backend = listener.local_addr().unwrap().to_string();
    let description = json!({
        "openapi": "3.0.3", "info": { "title": "Forge" },
        "servers": [{ "url": format!("http://{backend}") }],
        "paths": { "/repos/{repo}": { "patch": {
            "operationId": "updateRepo",
            "parameters": [
                { "name": "repo", "in": "path", "required": true, "schema": { "type": "string" } },
                { "name": "notify", "in": "query", "schema": { "type": "boolean", "default": true } },
            ],
            "requestBody": { "content": { "application/json": { "schema": { "type": "object", "properties": {
                "description": { "type": "string" },
                "private": { "type": "boolean", "default": false },
                "has_issues": { "type": "boolean", "default": true },
            } } } } },
        } } },
    });
    let imported = import(path, &description, &[]);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    let arguments = json!({ "repo": "r", "description": "d" });
    let asked = arguments.clone();
    let model = ModelServer::start(move |last| match &last["role"] {
        role if role == "tool" => Says::Words("Changed."),
        _ => Says::Calls("update_repo", asked.clone()),
    });
    let mut server = Running::start(
        command(path)
            .args(["serve", "--listen", "127.0.0.1:0", "--tools", "tools"])
            .args(["--provider", "demo", "--text-provider-url", &model.url])
            .args(["--allow-fetch", &backend]),
    );
    let address = server.address();
    let ask =
        |body: Value| -> HttpAnswer { post(&address, "/api/chat", body.to_string().as_bytes()) };
    let shown = ask(json!({ "id": "c", "message": "Describe it." }));
    let data = chunks(&shown)
        .into_iter()
        .find(|chunk| chunk["type"] == "data-confirmation-request")
        .unwrap_or_else(|| panic!("{}", shown.body));
    assert_eq!(data["data"]["args"], arguments, "{data}");
    let preview = data["data"]["preview"].as_str().unwrap_or_default();
    for unsaid in ["private", "has_issues", "notify"] {
        assert!(!preview.contains(unsaid), "{data}");
    }
    let request = chunks(&shown)
        .into_iter()
        .find(|chunk| chunk["type"] == "tool-approval-request")
        .unwrap();
    let sent = one_change(listener);
    let yes = [approval(request["approvalId"].as_str().unwrap(), true)];
    let answer = ask(json!({ "id": "c", "messages": yes }));
    assert_eq!(words(&answer), "Changed.", "{}", answer.body);
    let (first, body) = sent.join().unwrap();
    assert_eq!(first, "PATCH /repos/r HTTP/1.1");
    assert_eq!(body, r#"{"description":"d"}"#);
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
    reviewed["effectKey"] = json!(["/id"]);
    reviewed["repeatable"] = false.into();
    reviewed["sensitive"] = json!(["/gone"]);
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
    let taken_up = schema(path, "cancel-order");
    assert_eq!(taken_up["requiresConfirmation"], true);
    assert_eq!(taken_up["effectKey"], json!(["/id"]));
    assert_eq!(taken_up.get("sensitive"), None);
    let problems = accepted.problems.join("\n");
    assert!(
        problems.contains("your `sensitive` is taken out: it names an argument that is gone"),
        "{problems}"
    );
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

fn import_list(folder: &Path, list: &Value, arguments: &[&str]) -> Run {
    fs::write(folder.join("tools.json"), list.to_string()).unwrap();
    windlass(
        folder,
        &[&["import", "tools", "tools.json"], arguments].concat(),
    )
}

#[test]
fn definitions_of_other_programs_become_tools_whose_code_is_to_be_written() {
    let weather = json!({
        "type": "object", "$schema": "http://json-schema.org/draft-07/schema#", "required": ["place"],
        "properties": {
            "place": { "type": "string", "format": "city" },
            "units": { "$ref": "#/definitions/units" },
            "days": { "type": "integer", "default": 3, "format": "int32" },
        },
        "definitions": { "units": { "type": "string", "enum": ["c", "f"] } },
    });
    let long = format!("Gets the weather. {}", "It is fine. ".repeat(200));
    for list in [
        json!({ "tools": [{ "name": "getWeather", "description": long, "inputSchema": weather, "annotations": { "readOnlyHint": true } }] }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [{ "name": "getWeather", "description": long, "inputSchema": weather, "annotations": { "readOnlyHint": true } }] } }),
        json!([{ "type": "function", "function": { "name": "getWeather", "description": long, "strict": false, "parameters": weather } }]),
        json!([{ "type": "function", "name": "getWeather", "description": long, "parameters": weather }]),
        json!([{ "name": "getWeather", "description": long, "input_schema": weather }]),
        json!({ "getWeather": { "description": long, "inputSchema": { "jsonSchema": weather } } }),
        json!([{ "functionDeclarations": [{ "name": "getWeather", "description": long, "parameters": weather }] }]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let imported = import_list(path, &list, &[]);
        assert_eq!(imported.code, 0, "{list}: {:?}", imported.problems);
        let schema = schema(path, "get-weather");
        assert_eq!(
            schema["parameters"],
            json!({
                "type": "object", "additionalProperties": false, "required": ["place"],
                "properties": {
                    "place": { "type": "string", "format": "city" },
                    "units": { "type": "string", "enum": ["c", "f"] },
                    "days": { "type": "integer", "description": "Default: 3." },
                },
            }),
            "{list}"
        );
        let reads = list.to_string().contains("readOnlyHint");
        let facts = (&schema["sideEffects"], &schema["requiresConfirmation"]);
        match reads {
            true => assert_eq!(facts, (&json!("read_only"), &json!(false))),
            false => assert_eq!(facts, (&json!("writes"), &json!(true))),
        }
        assert_eq!(
            schema["description"].as_str().unwrap().chars().count(),
            1_024
        );
        assert!(
            imported
                .problems
                .iter()
                .any(|problem| problem.contains("cut to 1024 characters")),
            "{:?}",
            imported.problems
        );
        let checked = windlass(path, &["check"]);
        assert_eq!(checked.code, 0, "{:?}", checked.problems);
    }
}

#[test]
fn the_code_of_a_definition_stays_its_authors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let list = |parameters: Value| {
        json!([
            { "name": "math.add", "description": "Adds.", "inputSchema": parameters, "annotations": { "readOnlyHint": true } },
            { "name": "math.none", "description": "Is deep.", "inputSchema": { "type": "object", "properties": { "a": { "$ref": "other.json" } } } },
        ])
    };
    let two = json!({ "type": "object", "properties": { "a": { "type": "number" }, "b": { "type": "number" } }, "anyOf": [{ "required": ["a"] }] });
    let imported = import_list(path, &list(two), &[]);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    let problems = imported.problems.join("\n");
    for said in [
        "left out: math.none: it refers to another file (other.json)",
        "note: other names here: math.add is math_add",
        "note: math-add: `anyOf` at the top of the arguments is left out",
    ] {
        assert!(problems.contains(said), "{problems}");
    }
    let called = windlass(path, &["call", "math_add", "{}"]);
    assert!(
        called
            .output
            .contains("math_add has no code yet: write it in math-add/handler.js"),
        "{} {:?}",
        called.output,
        called.problems
    );
    let handler = path.join("tools/math-add/handler.js");
    let code = "export async function execute({ args }) { return { ok: true, data: { sum: args.a + args.b } }; }";
    fs::write(&handler, code).unwrap();
    let called = windlass(path, &["call", "math_add", r#"{"a": 1, "b": 2}"#]);
    assert!(
        called.output.contains("3"),
        "{} {:?}",
        called.output,
        called.problems
    );
    let three = json!({ "type": "object", "properties": { "c": { "type": "number" } } });
    assert_eq!(import_list(path, &list(three.clone()), &[]).code, 1);
    let accepted = import_list(path, &list(three), &["--accept"]);
    assert_eq!(accepted.code, 0, "{:?}", accepted.problems);
    assert_eq!(fs::read_to_string(&handler).unwrap(), code);
    assert!(
        schema(path, "math-add")["parameters"]["properties"]
            .get("c")
            .is_some()
    );
}

#[test]
fn a_file_without_definitions_says_what_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let one = json!([{ "name": "one", "description": "One." }]);
    for (text, arguments, code, said) in [
        ("{".to_owned(), &[][..], 1, "it is not JSON"),
        ("[]".to_owned(), &[], 1, "it holds no tool definitions"),
        (
            "[1, \"a\", null, {\"a\": 1}]".to_owned(),
            &[],
            1,
            "it holds no tool definitions",
        ),
        (
            description("https://a.example").to_string(),
            &[],
            2,
            "windlass import openapi",
        ),
        (
            one.to_string(),
            &["--only", "two"],
            2,
            "there is no tool two; there are one",
        ),
    ] {
        fs::write(path.join("tools.json"), text).unwrap();
        let run = windlass(
            path,
            &[&["import", "tools", "tools.json"], arguments].concat(),
        );
        let problems = run.problems.join("\n");
        assert!(problems.contains(said), "{problems}");
        assert_eq!(run.code, code, "{problems}");
    }
    let run = windlass(path, &["import", "tools", "missing.json"]);
    assert_eq!(run.code, 2);
    assert!(
        run.problems
            .join("")
            .contains("there is no such file; name a list of tool definitions")
    );
}

fn old_tool(project: &Path, name: &str, parameters: Value, handler: &str) {
    let folder = project.join("tools").join(name);
    fs::create_dir_all(&folder).unwrap();
    let schema = json!({
        "toolId": name, "version": "1.0.0", "description": "An old tool", "category": "utility",
        "sideEffects": "none", "idempotent": true, "requiresConfirmation": false, "allowedModes": ["text", "voice"],
        "latencyBudgetMs": 100, "parameters": parameters,
    });
    fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    fs::write(
        folder.join("guide.md"),
        format!("# {name}\n\nAn old tool.\n"),
    )
    .unwrap();
    fs::write(folder.join("handler.js"), handler).unwrap();
}

#[test]
fn the_tools_of_a_node_project_come_into_a_project_that_init_made() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old");
    let empty = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    old_tool(
        &old,
        "ignore_user",
        json!({ "type": "object", "properties": { "minutes": { "type": "integer" } }, "additionalProperties": false }),
        "export async function execute({ args, ws, geminiSession }) {\n  ws.send(JSON.stringify({ type: 'timeout' }));\n  geminiSession.close();\n  return { ok: true };\n}\n",
    );
    old_tool(
        &old,
        "start_voice_session",
        empty.clone(),
        "export async function execute(context) {\n  const { ws } = context;\n  ws.send('{}');\n  return { ok: true };\n}\n",
    );
    old_tool(
        &old,
        "say_news",
        empty.clone(),
        "export async function execute(context) {\n  const {\n    ws,\n  } = context;\n  return { ok: true, data: 'news' };\n}\n",
    );
    old_tool(
        &old,
        "query_tool_memory",
        empty,
        "export async function execute() {}\n",
    );
    let init = windlass(folder.path(), &["init", "new"]);
    assert_eq!(init.code, 0, "{:?}", init.problems);
    let new = folder.path().join("new");
    let imported = windlass(&new, &["import", "node", "../old"]);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    let problems = imported.problems.join("\n");
    for said in [
        "note: ignore-user: its handler is left out: the built-in one of ignore_user does its work",
        "note: ignore-user: it has the built-in schema and guide, because its own do not fit",
        "note: start-voice-session: its handler is left out",
        "tools/say-news/handler.js:3: replace ws by context.messaging.send(message)",
        "note: query-tool-memory: its handler is left out: the built-in one of query_tool_memory does its work",
        "note: query-tool-memory: it has the built-in schema and guide, because its own do not fit",
    ] {
        assert!(problems.contains(said), "{said} is not in {problems}");
    }
    for gone in [
        "ignore-user/handler.js",
        "start-voice-session/handler.js",
        "query-tool-memory/handler.js",
    ] {
        assert!(!new.join("tools").join(gone).exists(), "{gone}");
    }
    assert!(new.join("tools/say-hello/handler.js").exists());
    let checked = windlass(&new, &["check"]);
    assert_eq!(checked.code, 0, "{:?}", checked.problems);
    let again = windlass(&new, &["import", "node", "../old"]);
    assert_eq!(again.code, 1, "{:?}", again.problems);
    assert!(
        again.problems.join("").contains("is there already"),
        "{:?}",
        again.problems
    );
}

#[test]
fn a_project_is_not_taken_over_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(windlass(path, &["init"]).code, 0);
    let handler = path.join("tools/say-hello/handler.js");
    let before = fs::read(&handler).unwrap();
    let refused = windlass(path, &["import", "node", "."]);
    assert_eq!(refused.code, 1, "{:?}", refused.problems);
    let problems = refused.problems.join("\n");
    assert!(problems.contains("is there already"), "{problems}");
    assert_eq!(fs::read(&handler).unwrap(), before);
}

#[test]
fn a_node_project_keeps_its_prompts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("package.json"), "{}").unwrap();
    fs::create_dir_all(path.join("prompts")).unwrap();
    fs::write(path.join("prompts/system.md"), "You are Ada.\n").unwrap();
    let init = windlass(path, &["init", "."]);
    assert_eq!(init.code, 0, "{:?}", init.problems);
    let names: Vec<_> = fs::read_dir(path.join("prompts"))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
}
