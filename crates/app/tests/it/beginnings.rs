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
    assert!(
        done(&said).ends_with("cd shop && windlass serve"),
        "{}",
        said.output
    );
    let project = path.join("shop");
    let checked = windlass(&project, &["check"]);
    assert!(
        done(&checked).starts_with("checked: 6 tools"),
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
        |checking: &mut Running| while !checking.line().starts_with("checked: 6 tools") {};
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
    assert_eq!(none.code, 1);
    assert!(
        none.problems[0].contains(
            "nowhere is no folder of Windlass's sources: there is no crates/app/Cargo.toml"
        ),
        "{:?}",
        none.problems
    );
    let sources = root();
    let said = windlass(path, &["init", "--rust", sources.to_str().unwrap()]);
    assert!(done(&said).ends_with("cargo run --release -- serve"));
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
    assert!(own(&["check"]).starts_with("checked: 6 tools"));
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
