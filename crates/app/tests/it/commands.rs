//! What every command has: examples in its help that the program understands, results for programs, colours, and completions.

use crate::support::program::{Run, Running, command, run};
use crate::wrong_flags::described;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn windlass(folder: &Path, arguments: &[&str]) -> Run {
    run(command(folder).args(arguments))
}

/// The words of an example, as a shell would split them; what is sent on is another program's.
fn words(example: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in example.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
            continue;
        }
        let end = part.find(['>', '|']).unwrap_or(part.len());
        // Two blanks begin what is said about the example.
        let said = part[..end].find("  ").unwrap_or(end);
        words.extend(part[..said].split_whitespace().map(str::to_owned));
        if said < part.len() {
            break;
        }
    }
    words
}

#[test]
fn every_help_has_examples_that_the_program_understands() {
    let folder = tempfile::tempdir().unwrap();
    let mut open = vec![Vec::<String>::new()];
    let mut count = 0;
    while let Some(path) = open.pop() {
        let help = run(command(folder.path()).args(&path).arg("--help"));
        let (inner, _) = described(&help.output);
        for name in inner {
            open.push([path.as_slice(), &[name]].concat());
        }
        let (_, examples) = help
            .output
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("{path:?} has no examples"));
        let examples = examples.lines().filter_map(|line| {
            let start = line.starts_with("  ").then(|| line.find("windlass "))??;
            Some(&line[start + "windlass ".len()..])
        });
        for example in examples {
            let mut arguments = words(example);
            let first = path.first().unwrap_or(&arguments[0]);
            assert_eq!(&arguments[0], first, "{example}");
            // What stands behind the command of a server is the server's own.
            let at = match arguments.starts_with(&["mcp".to_owned(), "import".to_owned()]) {
                true => 2,
                false => arguments.len(),
            };
            arguments.insert(at, "--help".to_owned());
            let run = run(command(folder.path()).args(&arguments));
            assert_eq!(run.code, 0, "{example}: {:?}", run.problems);
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
}

#[test]
fn results_are_json_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(windlass(path, &["init"]).code, 0);
    let call = ["call", "say_hello", r#"{"query": "Ada"}"#, "--data", "data"];
    let backup = path.join("b.zip").display().to_string();
    for (arguments, pointer, expected) in [
        (&["init", "shop"][..], "/folder", Some("shop")),
        (&["tool", "new", "a"], "/toolId", Some("a")),
        (&["check"], "/ok", None),
        (&["build"], "/artifact", Some("data/tool_registry.json")),
        (&call, "/data/answer", Some("say_hello heard: Ada")),
        (&["keys", "add", "shop"], "/name", Some("shop")),
        (&["keys", "list"], "/keys/0/name", Some("shop")),
        (&["keys", "revoke", "shop"], "/revoked", Some("shop")),
        (&["kb", "index"], "/records", None),
        (&["kb", "stats"], "/records", None),
        (&["kb", "search", "welcome"], "/results", None),
        (&["audit", "list"], "/toolId", Some("say_hello")),
        (&["audit", "verify"], "/intact", None),
        (&["config"], "/server.listen/value", Some("127.0.0.1:8080")),
        (&["schema", "tool"], "/title", None),
        (&["schema", "handler"], "/title", None),
        (&["schema", "config"], "/title", None),
        (
            &["chat", "--text-provider", "demo", "hello"],
            "/finish",
            Some("stop"),
        ),
        (&["backup", &backup], "/files", None),
        (&["restore", &backup, "--data", "new"], "/data", Some("new")),
    ] {
        let run = windlass(path, &[arguments, &["--format", "json"]].concat());
        assert_eq!(run.code, 0, "{arguments:?} {:?}", run.problems);
        let value: Value = serde_json::from_str(&run.output)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", run.output));
        let found = value.pointer(pointer);
        let found = found.unwrap_or_else(|| panic!("{arguments:?} has no {pointer}: {value}"));
        if let Some(expected) = expected {
            assert_eq!(found, expected, "{arguments:?}");
        }
    }
    let serve = [
        "serve", "--port", "0", "--format", "json", "--data", "other",
    ];
    let mut server = Running::start(command(path).args(serve));
    let ready: Value = serde_json::from_str(&server.line()).unwrap();
    let ready = ready["ready"].as_str().unwrap();
    assert!(ready.starts_with("http://127.0.0.1:"), "{ready}");
    let mut simulator = Running::start(command(path).args(["sim", "openai", "--format", "json"]));
    let listening: Value = serde_json::from_str(&simulator.line()).unwrap();
    assert!(
        listening["listening"]
            .as_str()
            .unwrap()
            .starts_with("http://")
    );
}

#[test]
fn colours_are_asked_for_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir_all(path.join("tools/one-tool")).unwrap();
    let check = |more: &[&str], no_color: &str| {
        let output = command(path)
            .args([&["check"][..], more].concat())
            .env("NO_COLOR", no_color)
            .output()
            .unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let painted = ": \u{1b}[1;31merror\u{1b}[0m: ";
    assert!(!check(&[], "").contains('\u{1b}'));
    assert!(check(&["--color", "always"], "").contains(painted));
    assert!(check(&["--color=always"], "1").contains(painted));
    assert!(!check(&["--color", "never"], "").contains('\u{1b}'));
    for (more, is_painted) in [("--color=always", true), ("--color=never", false)] {
        let help = windlass(path, &["check", "--help", more]);
        assert_eq!(help.output.contains('\u{1b}'), is_painted, "{more}");
    }
}

#[test]
fn what_is_to_be_had_alone_is_had_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(windlass(path, &["init"]).code, 0);
    let call = ["call", "say_hello", r#"{"query": "Ada"}"#];
    let log = |more: &[&str]| {
        let output = command(path)
            .args([&call[..], more].concat())
            .output()
            .unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        log(&[]),
        "",
        "a call that worked says its result and nothing else"
    );
    assert_eq!(log(&["-q"]), "");
    assert!(log(&["-v"]).contains("INFO"), "{}", log(&["-v"]));
    // Notes about which nobody has anything to do.
    let check = windlass(path, &["check"]);
    assert_eq!(
        check.problems, [""; 0],
        "a healthy project has nothing to be mended"
    );
    assert!(
        check.output.contains(" notes (-v shows all)"),
        "{}",
        check.output
    );
    let quiet = windlass(path, &["check", "-q"]);
    assert_eq!(quiet.output.lines().count(), 1, "{}", quiet.output);
    let verbose = windlass(path, &["check", "-v"]);
    assert!(
        verbose
            .problems
            .iter()
            .any(|line| line.contains(": note: "))
    );
    let added = windlass(path, &["keys", "add", "shop", "-q"]);
    assert_eq!(added.problems, [""; 0]);
}

#[test]
fn a_first_run_warns_of_nothing_but_the_demo_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(windlass(path, &["init"]).code, 0);
    // As an earlier start and an edit leave it.
    assert_eq!(windlass(path, &["build"]).code, 0);
    let handler = path.join("tools/say-hello/handler.js");
    let text = fs::read_to_string(&handler).unwrap();
    fs::write(&handler, text.replace("heard", "was told")).unwrap();
    let mut server = Running::start(command(path).args(["serve", "--port", "0", "--watch"]));
    server.address();
    fs::write(&handler, text.replace("heard", "was told again")).unwrap();
    let log = server.log_until("new sessions have new tools");
    let warnings: Vec<&String> = log
        .iter()
        .filter(|line| line.contains(" WARN ") || line.contains(" ERROR "))
        .filter(|line| !line.contains("demo model"))
        .collect();
    assert_eq!(warnings, [""; 0]);
    assert!(
        log.iter()
            .any(|line| line.contains("the tools have changed and are built again"))
    );
}

#[test]
fn the_port_comes_from_a_flag_or_from_the_variable_that_hosts_set() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(windlass(path, &["init"]).code, 0);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    let port = port.as_str();
    drop(free);
    for (flags, variable) in [(&["--port", port][..], "1"), (&[], port)] {
        let mut serve = command(path);
        serve.arg("serve").args(flags).env("PORT", variable);
        let mut server = Running::start(&mut serve);
        assert_eq!(server.address(), format!("127.0.0.1:{port}"), "{flags:?}");
    }
}

/// Folders of flags belong to whoever calls, wherever the configuration lies.
#[test]
fn the_data_folder_of_a_flag_is_where_the_caller_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(windlass(path, &["init", "shop"]).code, 0);
    fs::create_dir(path.join("elsewhere")).unwrap();
    let place = path.join("elsewhere");
    let config = ["--config", "../shop/windlass.toml", "--data", "own"];
    for arguments in [
        &["keys", "add", "shop"][..],
        &[
            "call",
            "say_hello",
            r#"{"query": "Ada"}"#,
            "--tools",
            "../shop/tools",
            "--kb",
            "../shop/kb",
        ],
    ] {
        let run = windlass(&place, &[arguments, &config].concat());
        assert_eq!(run.code, 0, "{:?}", run.problems);
    }
    for name in ["access_keys.json", "windlass.db", "tool_registry.json"] {
        assert!(place.join("own").join(name).is_file(), "{name}");
    }
    assert!(!path.join("shop/data").exists() && !path.join("shop/own").exists());
}

#[test]
fn a_shell_completes_what_the_program_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = windlass(path, &["completions", shell]);
        assert_eq!(run.code, 0, "{shell}");
        for name in ["serve", "completions", "--allow-fetch"] {
            let name = if shell == "fish" {
                name.trim_start_matches('-')
            } else {
                name
            };
            assert!(run.output.contains(name), "{shell} {name}");
        }
        for hidden in ["script-worker", "extract"] {
            assert!(!run.output.contains(hidden), "{shell} {hidden}");
        }
    }
    let completions = windlass(path, &["completions", "bash"]).output;
    fs::write(path.join("windlass.bash"), completions).unwrap();
    let complete = "source ./windlass.bash; COMP_WORDS=(windlass audit l); COMP_CWORD=2; _windlass windlass l audit; \
                    echo ${COMPREPLY[@]}";
    let output = Command::new("bash")
        .args(["-c", complete])
        .current_dir(path)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said.trim(),
        "list",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_start_that_is_refused_leaves_the_running_servers_folder_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(windlass(path, &["init"]).code, 0);
    let mut server = Running::start(command(path).args(["serve", "--port", "0"]));
    server.address();
    let handler = path.join("tools/say-hello/handler.js");
    let text = fs::read_to_string(&handler).unwrap();
    fs::write(&handler, text.replace("heard", "was told")).unwrap();
    let contents = || {
        let mut files: Vec<_> = fs::read_dir(path.join("data"))
            .unwrap()
            .flatten()
            // The server itself goes on writing its store.
            .filter(|entry| {
                !entry
                    .file_name()
                    .to_string_lossy()
                    .starts_with("windlass.db")
            })
            .filter(|entry| entry.path().is_file())
            .map(|entry| {
                let changed = entry.metadata().unwrap().modified().unwrap();
                (entry.file_name(), changed, fs::read(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    };
    let before = contents();
    assert!(before.iter().any(|(name, ..)| name == "tool_registry.json"));
    for arguments in [
        &["serve", "--port", "0"][..],
        &["chat", "hello"],
        &["call", "say_hello", r#"{"query": "Ada"}"#, "--data", "data"],
    ] {
        let refused = windlass(path, arguments);
        assert_eq!(refused.code, 1, "{arguments:?}");
        let said = refused.problems.join("\n");
        assert!(said.contains("is in use by process"), "{said}");
    }
    assert!(
        contents() == before,
        "nothing of the running server's was touched"
    );
}

#[test]
fn what_was_done_is_listed_by_tool_by_user_and_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(windlass(path, &["init"]).code, 0);
    for (tool, user) in [
        ("say_hello", "ada"),
        ("say_hello", "eve"),
        ("nothing", "ada"),
    ] {
        windlass(
            path,
            &[
                "call",
                tool,
                r#"{"query": "x"}"#,
                "--user",
                user,
                "--data",
                "data",
            ],
        );
    }
    let list = |more: &[&str]| {
        let run = windlass(path, &[&["audit", "list"][..], more].concat());
        assert_eq!(run.code, 0, "{more:?} {:?}", run.problems);
        run.output.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = list(&[]);
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[0].contains("ada") && all[0].contains("say_hello") && all[0].contains("done"));
    assert!(all[2].contains("refused: NOT_FOUND"), "{all:?}");
    assert_eq!(list(&["--user", "ada"]), [all[0].clone(), all[2].clone()]);
    assert_eq!(
        list(&["--tool", "say_hello", "--user", "eve"]),
        [all[1].clone()]
    );
    assert_eq!(list(&["--since", "1h"]), all);
    assert_eq!(list(&["--since", "2026-01-01"]), all);
    assert_eq!(list(&["--since", "2999-01-01T00:00:00Z"]), [""; 0]);
    let json = list(&["--format", "json", "--user", "eve"]);
    let record: Value = serde_json::from_str(&json[0]).unwrap();
    assert_eq!(record["userId"], "eve");
    // A line that is none is said, and hides no other.
    let audit = path.join("data/audit.jsonl");
    let text = fs::read_to_string(&audit).unwrap();
    fs::write(&audit, format!("{text}rubbish\n")).unwrap();
    let run = windlass(path, &["audit", "list"]);
    assert_eq!(run.output.lines().count(), 3);
    assert_eq!(
        run.problems,
        ["1 line is no record; windlass audit verify names the first"]
    );
}
