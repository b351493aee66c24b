//! Tools in JavaScript, as their authors meet them: checked, called, served, saved again, and never in the way of others.

use crate::support::http::post;
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Run, Running, command, run};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Writes a tool of a folder that has its own `tools` and `kb`.
fn write_tool(folder: &Path, name: &str, files: &[(&str, &str)]) {
    let directory = folder.join("tools").join(name);
    fs::create_dir_all(&directory).unwrap();
    let schema = json!({
        "toolId": name.replace('-', "_"), "version": "1.0.0", "description": "Does one thing well.", "category": "utility",
        "sideEffects": "none", "idempotent": true, "requiresConfirmation": false, "allowedModes": ["text", "voice"],
        "latencyBudgetMs": 100, "timeoutMs": 1_000,
        "parameters": {"type": "object", "additionalProperties": false, "properties": {"n": {"type": "integer", "default": 4}}},
    });
    fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
    fs::write(
        directory.join("guide.md"),
        "# A tool\n\nDoes one thing well.\n",
    )
    .unwrap();
    for (file, text) in files {
        let file = directory.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

/// A folder with one tool, `own`.
fn folder_with(handler: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_tool(folder.path(), "own", &[("handler.js", handler)]);
    folder
}

fn windlass(folder: &Path, arguments: &[&str]) -> Run {
    run(command(folder).args(arguments))
}

/// The response of one call, and the log.
fn call(folder: &Path, arguments: &[&str]) -> (Value, String) {
    let output = command(folder)
        .args(["call", "own"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    let response = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}\n{log}"));
    (response, log)
}

const DOUBLES: &str = "import { twice } from '../_shared/twice.js';
export async function execute({ args, context }) {
  console.log('doubles');
  return { ok: true, data: { doubled: twice(args.n), mode: context.mode, tool: context.tool.id } };
}
";

#[test]
fn a_script_is_checked_and_called() {
    let folder = folder_with(DOUBLES);
    let shared = folder.path().join("tools/_shared/twice.js");
    fs::create_dir_all(shared.parent().unwrap()).unwrap();
    fs::write(shared, "export const twice = (n) => 2 * n;\n").unwrap();
    let checked = windlass(folder.path(), &["check"]);
    assert_eq!((checked.code, checked.problems.as_slice()), (0, &[][..]));
    let (response, log) = call(folder.path(), &["{\"n\": 21}"]);
    assert_eq!(
        response["data"],
        json!({"doubled": 42, "mode": "text", "tool": "own"}),
        "{log}"
    );
    let (response, _) = call(folder.path(), &["{}", "--mode", "voice"]);
    assert_eq!(response["data"]["doubled"], 8);
}

#[test]
fn check_names_the_line_and_the_column_of_what_the_engine_does_not_take() {
    for (handler, problem) in [
        (
            "export async function execute() {\n  return {;\n}\n",
            "tools/own/handler.js:2:11: error: SyntaxError: ",
        ),
        (
            "import './none.js';\nexport async function execute() {}\n",
            "tools/own/handler.js:1:8: error: the import \"./none.js\" leads nowhere: there is no file own/none.js",
        ),
        (
            "const execute = 1;\n",
            "tools/own/handler.js: error: the file does not export a function `execute`",
        ),
        (
            "export async function execute() {}\nfor (;;) {}\n",
            "tools/own/handler.js: error: what stands at the top of the file does not end within",
        ),
    ] {
        let folder = folder_with(handler);
        let checked = windlass(folder.path(), &["check"]);
        assert_eq!(checked.code, 1, "{handler}");
        assert!(
            checked.problems[0].starts_with(problem),
            "{handler}: {:?}",
            checked.problems
        );
    }
}

#[test]
fn a_handler_in_typescript_runs_or_check_says_what_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let new = windlass(folder.path(), &["tool", "new", "own", "--kind", "ts"]);
    assert_eq!(new.code, 0, "{:?}", new.problems);
    let checked = windlass(folder.path(), &["check"]);
    if cfg!(feature = "typescript") {
        assert_eq!((checked.code, checked.problems.as_slice()), (0, &[][..]));
        let (response, log) = call(folder.path(), &["{\"query\": \"A-1\"}"]);
        assert_eq!(response["data"]["answer"], "own heard: A-1", "{log}");
    } else {
        let expected = "tools/own/handler.ts: error: this program was built without TypeScript (build it with --features typescript, or write the file in JavaScript)";
        assert_eq!((checked.code, checked.problems[0].as_str()), (1, expected));
    }
}

#[test]
fn a_handler_that_breaks_tells_its_author_where_and_the_model_nothing() {
    let folder = folder_with(
        "export async function execute({ args }) {\n  console.log('begins');\n  return args.none.x;\n}\n",
    );
    let model = model();
    let mut server = serve(folder.path(), &model);
    let address = server.address();
    let answer = ask(&address, "one", "go");
    assert!(!answer.contains("handler.js"), "{answer}");
    server.expect_log("own/handler.js: log: begins");
    server.expect_log("own/handler.js:3:");
    let told = model.seen().pop().unwrap().to_string();
    assert!(!told.contains("handler.js"), "{told}");
}

#[test]
fn a_script_reaches_what_it_may_and_nothing_else() {
    let folder = folder_with(
        "export async function execute({ context }) {
           const found = await context.kb.search({ query: 'Fram', topK: 1 });
           const record = await context.kb.get(found[0].id);
           const failed = async (work) => { try { await work(); } catch (error) { return error.code ?? error.name; } };
           return { ok: true, data: [found[0].title, record.body.includes('polar'), await context.kb.get('none'),
             await failed(() => fetch('http://127.0.0.1:9/')), await failed(() => context.calendar.getEvents({})) ] };
         }",
    );
    let record = folder.path().join("kb/public/ship/fram.md");
    fs::create_dir_all(record.parent().unwrap()).unwrap();
    fs::write(
        record,
        "---\ntitle: The Fram\n---\nThe Fram is a polar ship.\n",
    )
    .unwrap();
    let (response, log) = call(folder.path(), &["{}", "--kb", "kb"]);
    let data = &response["data"];
    assert_eq!(
        (&data[0], &data[1], &data[2]),
        (&json!("The Fram"), &json!(true), &json!(null)),
        "{response}\n{log}"
    );
    assert_eq!(
        (&data[3], &data[4]),
        (&json!("NOT_ALLOWED"), &json!("Error")),
        "{response}"
    );
}

#[test]
fn handlers_that_never_end_have_one_clean_answer() {
    for (body, error_type) in [
        ("for (;;) {}", "TRANSIENT"),
        (
            "await new Promise((resolve) => setTimeout(resolve, 60000));",
            "TRANSIENT",
        ),
        ("await new Promise(() => {});", "INTERNAL"),
        (
            "const all = []; for (;;) all.push('x'.repeat(10000));",
            "INTERNAL",
        ),
        // No engine of this kind can stop this one.
        (
            "(3n ** 620000n).toString(); (3n ** 619999n).toString(); (3n ** 619998n).toString();",
            "TRANSIENT",
        ),
    ] {
        let folder = folder_with(&format!("export async function execute() {{ {body} }}"));
        let (response, log) = call(folder.path(), &["{}"]);
        assert_eq!(
            response["error"]["type"], error_type,
            "{body}: {response}\n{log}"
        );
    }
}

/// A server whose model calls the tool that the user names.
fn serve(folder: &Path, model: &ModelServer) -> Running {
    let mut server = command(folder);
    server.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--watch",
        "--tools",
        "tools",
        "--data",
        "data",
    ]);
    server.args(["--text-provider-url", &model.url]);
    Running::start(&mut server)
}

fn model() -> ModelServer {
    ModelServer::start(|message| {
        let said = message["content"].as_str().unwrap_or_default();
        match (message["role"].as_str(), said) {
            (Some("user"), "stuck") => Says::Calls("stuck", json!({})),
            (Some("user"), _) => Says::Calls("own", json!({"n": 3})),
            _ => Says::Words("Done."),
        }
    })
}

fn ask(address: &str, conversation: &str, message: &str) -> String {
    let body = json!({"id": conversation, "message": message}).to_string();
    post(address, "/api/chat", body.as_bytes()).body
}

#[test]
fn a_saved_handler_serves_the_next_call() {
    let folder = folder_with(
        "export const execute = async ({ args }) => ({ ok: true, data: `first ${args.n}` });",
    );
    let model = model();
    let mut server = serve(folder.path(), &model);
    let address = server.address();
    assert!(ask(&address, "one", "go").contains("first 3"));
    let handler = folder.path().join("tools/own/handler.js");
    fs::write(
        handler,
        "export const execute = async ({ args }) => ({ ok: true, data: `second ${args.n}` });",
    )
    .unwrap();
    server.expect_log("new sessions have new tools");
    assert!(ask(&address, "two", "go").contains("second 3"));
    // Each turn of a chat has the tools of its time.
    assert!(ask(&address, "one", "go").contains("second 3"));
}

#[test]
fn scripts_that_are_stuck_cost_no_other_session_anything() {
    let folder = folder_with(
        "export const execute = async ({ args }) => ({ ok: true, data: `quick ${args.n}` });",
    );
    let stuck = "export async function execute({ context }) { context.progress('runs'); (3n ** 620000n).toString(); (3n ** 619999n).toString(); }";
    write_tool(folder.path(), "stuck", &[("handler.js", stuck)]);
    let model = model();
    let mut server = serve(folder.path(), &model);
    let address = server.address();
    assert!(ask(&address, "other", "go").contains("quick 3"));
    thread::scope(|scope| {
        let held: Vec<_> = (0..4)
            .map(|number| {
                let (address, conversation) = (&address, format!("stuck-{number}"));
                scope.spawn(move || ask(address, &conversation, "stuck"))
            })
            .collect();
        for round in 0..3 {
            assert!(ask(&address, &format!("beside-{round}"), "go").contains("quick 3"));
        }
        for held in held {
            let answer = held.join().unwrap();
            assert!(answer.contains("Done."), "{answer}");
        }
    });
    assert!(ask(&address, "after", "go").contains("quick 3"));
    // The session of a stuck call goes on as well.
    assert!(ask(&address, "stuck-0", "go").contains("quick 3"));
}

/// A service that takes every request and answers none until it is told to end; how many it took.
struct Silent {
    place: String,
    taken: Arc<AtomicUsize>,
    held: Arc<Mutex<Vec<TcpStream>>>,
}

fn silent() -> Silent {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let (taken, held) = (
        Arc::<AtomicUsize>::default(),
        Arc::<Mutex<Vec<TcpStream>>>::default(),
    );
    thread::spawn({
        let (taken, held) = (taken.clone(), held.clone());
        move || {
            for client in listener.incoming() {
                taken.fetch_add(1, Ordering::SeqCst);
                held.lock().unwrap().push(client.unwrap());
            }
        }
    });
    Silent { place, taken, held }
}

#[test]
fn seven_hundred_waiting_fetches_of_one_script_hold_up_no_other_and_leave_little_in_doubt() {
    const CALLS: usize = 700;
    let folder = folder_with(
        "export const execute = async ({ args }) => ({ ok: true, data: `quick ${args.n}` });",
    );
    let service = silent();
    let fetches = format!(
        "export async function execute({{ context }}) {{ await fetch('http://{}/', {{ method: 'POST', body: 'x' }}); return {{ ok: true, data: 1 }}; }}",
        service.place
    );
    write_tool(folder.path(), "stuck", &[("handler.js", &fetches)]);
    let path = folder.path().join("tools/stuck/schema.json");
    let mut schema: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    schema["sideEffects"] = "writes".into();
    schema["timeoutMs"] = 8_000.into();
    fs::write(path, schema.to_string()).unwrap();
    let settings = format!("[handlers]\nallow_fetch = [\"{}\"]\n", service.place);
    fs::write(folder.path().join("windlass.toml"), settings).unwrap();
    let model = model();
    let mut server = serve(folder.path(), &model);
    let address = server.address();
    let mut flood = Vec::new();
    for number in 0..CALLS {
        let body = json!({"id": format!("stuck-{number}"), "message": "stuck"}).to_string();
        let mut client = TcpStream::connect(&address).unwrap();
        let length = body.len();
        write!(
            client,
            "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        flood.push(client);
    }
    while service.taken.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    // Another script is served while all of them wait.
    for round in 0..10 {
        let answer = ask(&address, &format!("beside-{round}"), "go");
        assert!(answer.contains("quick 3"), "{answer}");
    }
    let (mut unknown, mut passing) = (0, 0);
    for mut client in flood {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        unknown += usize::from(answer.contains("OUTCOME_UNKNOWN"));
        passing += usize::from(answer.contains("TRANSIENT"));
        // Those that come next are not waited for.
        service.held.lock().unwrap().clear();
    }
    let taken = service.taken.load(Ordering::SeqCst);
    assert!(
        unknown <= taken,
        "{unknown} in doubt of {taken} that were sent"
    );
    assert!(
        passing > 0 && unknown + passing <= CALLS,
        "{passing} and {unknown}"
    );
}

#[test]
fn what_breaks_in_a_handler_is_one_line_for_operators_and_no_word_for_the_model() {
    for (breaks, said) in [
        (
            "throw new ToolError('INTERNAL', 'no route to the books')",
            "the handler reports INTERNAL: no route to the books",
        ),
        (
            "return { ok: false, error: { type: 'INTERNAL', message: 'no route to the books' } }",
            "the handler reports INTERNAL: no route to the books",
        ),
        (
            "throw new Error('no route to the books')",
            "no route to the books",
        ),
    ] {
        let handler = format!(
            "import {{ ToolError }} from '../error-types.js';\nexport async function execute() {{ {breaks}; }}\n"
        );
        let folder = folder_with(&handler);
        let (response, log) = call(folder.path(), &["{}"]);
        let error = &response["error"];
        assert_eq!(error["type"], "INTERNAL", "{breaks}: {response}");
        assert!(!error.to_string().contains("books"), "{error}");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("books")).collect();
        let [line] = lines[..] else {
            panic!("{breaks}: {log}");
        };
        for part in ["ERROR", "session=", "tool=own", said] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}
