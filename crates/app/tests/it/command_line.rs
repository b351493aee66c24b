//! Commands that end by themselves: what they print, what they say of what is wrong, and their exit codes.

use crate::support::program::{Run, command, folders, run};
use crate::support::root;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn windlass(folder: &Path, arguments: &[&str]) -> Run {
    run(command(folder).args(arguments))
}

#[test]
fn asking_wrongly_ends_with_2_and_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, said) in [
        (&["sarve"][..], "unrecognized subcommand 'sarve'"),
        (
            &["serve", "--lisden", "x"],
            "unexpected argument '--lisden'",
        ),
        (
            &["call", "kb_get"],
            "the following required arguments were not provided",
        ),
        (
            &["call", "kb_get", "[1]"],
            "windlass: the arguments are JSON but no object; write them as in '{\"query\": \"Ada\"}'",
        ),
        (
            &["call", "kb_get", "{"],
            "windlass: the arguments are no JSON: ",
        ),
        (
            &["call", "kb_get", "{\"id\":1,\"id\":2}"],
            "windlass: the arguments are no JSON: ",
        ),
        (
            &["call", "kb_get", "{}", "--mode", "video"],
            "invalid value 'video' for '--mode",
        ),
        (
            &["call", "kb_get", "{}", "--user", ""],
            "windlass: --user has to be a printable id",
        ),
        (
            &["sim", "gemini-live", "--listen", "here"],
            "invalid value 'here' for '--listen",
        ),
        (&["build", "--out", "/"], "windlass: --out / names no file"),
        (
            &["kb", "search", " "],
            "windlass: the query is empty; write what to look for",
        ),
    ] {
        let run = windlass(folder.path(), arguments);
        let [problem] = run.problems.as_slice() else {
            panic!("{arguments:?} said {:?}", run.problems);
        };
        assert!(problem.starts_with("windlass: "), "{problem}");
        assert!(problem.contains(said), "{arguments:?} said {problem}");
        assert_eq!((run.code, run.output.as_str()), (2, ""), "{arguments:?}");
    }
}

#[test]
fn arguments_that_are_not_understood_are_said_in_one_line_with_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, line) in [
        (
            &["serve", "--lisden", "x"][..],
            "windlass: unexpected argument '--lisden' found; a similar argument exists: '--listen'; \
             Usage: windlass serve --listen <ADDRESS>; --help lists what there is",
        ),
        (
            &["kb", "eval"],
            "windlass: the following required arguments were not provided: --corpus <FILE>, --queries <FILE>, --qrels <FILE>; \
             Usage: windlass kb eval --corpus <FILE> --queries <FILE> --qrels <FILE>; --help lists what there is",
        ),
        (
            &["check", "--format", "xml"],
            "windlass: invalid value 'xml' for '--format <FORMAT>' [possible values: text, json]; --help lists what there is",
        ),
    ] {
        let run = windlass(folder.path(), arguments);
        assert_eq!((run.code, run.problems), (2, vec![line.to_owned()]));
    }
}

#[test]
fn what_cannot_be_done_ends_with_1_and_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("file"), "").unwrap();
    fs::write(path.join("odd.toml"), "[server]\nlissen = 1\n").unwrap();
    let unset = "[provider]\nkind = \"gemini-live\"\napi_key_env = \"WINDLASS_TEST_UNSET\"\n";
    fs::write(path.join("unset.toml"), unset).unwrap();
    let tools = root().join("tools").display().to_string();
    let kb = root().join("kb").display().to_string();
    let tools = tools.as_str();
    for (arguments, code, said) in [
        (
            &["serve", "--config", "missing.toml"][..],
            2,
            "windlass: the configuration missing.toml cannot be read: ",
        ),
        (
            &["serve", "--config", "odd.toml"],
            1,
            "windlass: there is no key server.lissen (from odd.toml:2); the nearest one is server.listen",
        ),
        (
            &["serve", "--listen", "nowhere"],
            2,
            "windlass: server.listen has the value \"nowhere\" (from --listen), which is not an address and port such as ",
        ),
        (
            &["serve", "--provider", "gemini"],
            2,
            "windlass: provider.kind has the value \"gemini\" (from --provider), which is not one of \
             auto, gemini-live, openai-realtime, gpt-live, demo",
        ),
        (
            &["serve", "--provider", "openai-realtime"],
            1,
            "windlass: the provider openai-realtime needs a key: set OPENAI_API_KEY, or choose the demo model with --provider demo",
        ),
        (
            &["serve", "--provider", "gemini-live"],
            1,
            "windlass: the provider gemini-live needs a key: set GEMINI_API_KEY, or choose the demo model with --provider demo",
        ),
        (
            &["serve", "--config", "unset.toml"],
            1,
            "windlass: the provider gemini-live needs a key: the environment variable that provider.api_key_env names is \
             not set; set it, or choose the demo model with --provider demo",
        ),
        (
            &[
                "serve",
                "--provider",
                "demo",
                "--provider-url",
                "ws://127.0.0.1:1",
            ],
            2,
            "windlass: the demo model runs inside this process and has no address: ",
        ),
        (
            &["serve", "--data", "file", "--tools", tools],
            2,
            "windlass: --data names file, which is no folder: name another",
        ),
        (
            &["serve", "--data", "d1", "--tools", tools, "--kb", "missing"],
            2,
            "windlass: there is no knowledge base folder missing: create it, or name another",
        ),
        (
            &[
                "serve",
                "--data",
                "d2",
                "--tools",
                tools,
                "--kb",
                &kb,
                "--listen",
                "192.0.2.1:80",
            ],
            1,
            "windlass: cannot listen on 192.0.2.1:80: ",
        ),
        (
            &["sim", "openai", "--listen", "192.0.2.1:80"],
            1,
            "windlass: cannot listen on 192.0.2.1:80: Cannot assign requested address (os error 99); \
             choose another address with --listen",
        ),
        (
            &["check", "--tools", tools, "--kb", "missing"],
            2,
            "windlass: there is no knowledge base folder missing: create it, or name another with --kb",
        ),
        (
            &["replay", "missing"],
            2,
            "windlass: missing cannot be read: No such file or directory (os error 2); name a session's journal",
        ),
        (
            &["replay", "."],
            2,
            "windlass: . cannot be read: is a directory; name a session's journal",
        ),
        (
            &["replay", "odd.toml"],
            1,
            "windlass: odd.toml, line 1: is no line of a journal: ",
        ),
        (
            &["build", "--tools", tools, "--out", "file/x.json"],
            1,
            "windlass: the artifact file/x.json cannot be written: Not a directory (os error 20); name another file with --out",
        ),
        (
            &["kb", "get", "qqqqqqqq", "--kb", &kb],
            1,
            "windlass: there is no record \"qqqqqqqq\"; `windlass kb search` finds ids",
        ),
    ] {
        refuses(path, arguments, code, said);
    }
}

/// The command fails with an exit code, prints nothing, and says this in one line.
fn refuses(folder: &Path, arguments: &[&str], code: i32, said: &str) {
    let run = windlass(folder, arguments);
    assert_eq!(run.problems.len(), 1, "{arguments:?}: {:?}", run.problems);
    assert!(run.problems[0].starts_with(said), "{:?}", run.problems);
    assert_eq!((run.code, run.output.as_str()), (code, ""), "{arguments:?}");
}

#[test]
fn a_script_that_cannot_be_read_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(
        path.join("script.yaml"),
        "exchanges:\n  - when: any\n    do: [dance]\n",
    )
    .unwrap();
    for (arguments, code, said) in [
        (
            &["sim", "gemini-live", "--script", "missing.yaml"][..],
            2,
            "windlass: the script missing.yaml cannot be read: ",
        ),
        (
            &["sim", "gemini-live", "--script", "script.yaml"],
            1,
            "windlass: script.yaml:3:",
        ),
    ] {
        refuses(path, arguments, code, said);
    }
}

#[test]
fn without_tools_there_is_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["empty", "kb"] {
        fs::create_dir(path.join(name)).unwrap();
    }
    for (tools, code, problem) in [
        (
            "missing",
            2,
            "windlass: there is no tools folder missing: create it, or name another with --tools",
        ),
        (
            "empty",
            1,
            "windlass: there are no tools in empty; windlass init writes a project to begin with, --tools names another folder",
        ),
    ] {
        let run = windlass(path, &["serve", "--data", "d3", "--tools", tools]);
        assert_eq!((run.code, run.problems), (code, vec![problem.to_owned()]));
    }
}

#[test]
fn a_key_that_cannot_be_one_is_refused_at_the_start_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(command(folder.path())
        .arg("serve")
        .env("GEMINI_API_KEY", "two words"));
    assert_eq!(
        run.problems,
        [
            "windlass: provider.api_key has the value … (from the environment, GEMINI_API_KEY), which is not a key or \
          token in one line without spaces, as the provider shows it"
        ]
    );
    assert_eq!(run.code, 1);
}

#[test]
fn the_effective_configuration_is_printed_with_origins_and_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("windlass.toml"),
        "[server]\nlisten = \"127.0.0.1:1\"\nsessions_max = 5\n[log]\nlevel = \"warn\"\n",
    )
    .unwrap();
    let run = run(command(folder.path())
        .args(["config", "--listen", "127.0.0.1:3"])
        .env("WINDLASS_SERVER_SESSIONS_MAX", "7")
        .env("GEMINI_API_KEY", "top-secret"));
    assert_eq!(run.code, 0, "{:?}", run.problems);
    for line in [
        "listen = \"127.0.0.1:3\"  # from --listen",
        "sessions_max = 7  # from the environment, WINDLASS_SERVER_SESSIONS_MAX",
        "level = \"warn\"  # from windlass.toml:5",
        "shutdown_seconds = 30  # default",
        "api_key = \"********\"  # from the environment, GEMINI_API_KEY",
        "# url is not set",
    ] {
        assert!(
            run.output.lines().any(|printed| printed == line),
            "{line} in {}",
            run.output
        );
    }
    assert!(!run.output.contains("top-secret"));
    let run = self::run(
        command(folder.path())
            .arg("config")
            .env("WINDLASS_SERVER_COLOUR", "1"),
    );
    assert_eq!(
        run.problems,
        [
            "windlass: there is no setting for the environment variable WINDLASS_SERVER_COLOUR; \
          docs/configuration.md lists those that there are"
        ]
    );
}

fn call(folder: &Path, arguments: &[&str]) -> (i32, Value) {
    let run = run(command(folder)
        .arg("call")
        .args(arguments)
        .args(folders(&folder.join("data"))));
    let response = serde_json::from_str(&run.output)
        .unwrap_or_else(|_| panic!("no response: {} {:?}", run.output, run.problems));
    (run.code, response)
}

#[test]
fn a_guide_can_be_asked_for_where_the_prompt_holds_them_all() {
    let folder = tempfile::tempdir().unwrap();
    let (code, described) = call(
        folder.path(),
        &["describe_tool", "{\"tool_id\": \"kb_get\"}"],
    );
    assert_eq!(code, 0, "{described}");
    let guide = described["data"]["guide"].as_str().unwrap();
    assert!(guide.starts_with("# kb_get"), "{guide}");
}

#[test]
fn a_limit_that_a_tools_schema_forbids_is_named_and_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let run = run(command(path)
        .env("WINDLASS_VOICE_LIMITS_TURN_TOP_K_MAX", "0")
        .args(["call", "kb_search", "{\"query\": \"Fram\"}"])
        .args(folders(&path.join("data"))));
    assert_eq!(run.code, 1);
    let said = run.problems.last().unwrap();
    assert!(
        said.starts_with(
            "windlass: voice.limits.turn.top_k_max = 0 would clamp `top_k` of the tool kb_search"
        ),
        "{said}"
    );
}

#[test]
fn a_limit_of_no_open_calls_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (table, variable) in [("voice", "VOICE"), ("text", "TEXT")] {
        let variable = format!("WINDLASS_{variable}_LIMITS_OPEN_CALLS_MAX");
        let run = run(command(folder.path()).env(&variable, "0").arg("config"));
        let said = format!(
            "windlass: {table}.limits.open_calls_max has the value 0 (from the environment, {variable}), which is not a whole number from 1 to 1000000000"
        );
        assert_eq!((run.code, run.problems), (1, vec![said]));
    }
}

#[test]
fn one_call_goes_through_the_whole_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (code, found) = call(
        path,
        &[
            "kb_search",
            "{\"query\": \"who designed the ship Fram\"}",
            "--mode",
            "voice",
        ],
    );
    assert_eq!((code, &found["ok"]), (0, &Value::Bool(true)), "{found}");
    assert_eq!(found["meta"]["clamped"]["top_k"], serde_json::json!([5, 3]));
    assert!(found["data"]["results"].as_array().unwrap().len() <= 3);

    for (arguments, error) in [
        (&["kb_serch", "{}"][..], "NOT_FOUND"),
        (&["kb_search", "{\"query\": 1}"], "VALIDATION"),
        (
            &["kb_search", "{\"query\": \"x\", \"confirm\": true}"],
            "VALIDATION",
        ),
        (
            &["end_voice_session", "{}", "--mode", "text"],
            "MODE_RESTRICTED",
        ),
        (&["kb_get", "{\"id\": \"person:nobody\"}"], "NOT_FOUND"),
    ] {
        let (code, response) = call(path, arguments);
        assert_eq!(
            (code, &response["error"]["type"]),
            (1, &Value::from(error)),
            "{response}"
        );
        assert_eq!(response["meta"]["toolId"], arguments[0]);
    }
    let audit = fs::read_to_string(path.join("data/audit.jsonl")).unwrap();
    assert_eq!(audit.lines().count(), 6, "{audit}");
    check_verified(path, &audit);
}

/// Six calls left six records of one chain; one that is changed afterwards is named.
fn check_verified(path: &Path, audit: &str) {
    let verify = ["audit", "verify"];
    let intact = windlass(path, &verify);
    assert_eq!(intact.code, 0, "{:?}", intact.problems);
    assert!(
        intact
            .output
            .starts_with("intact: 6 records in 1 file; the last hash is "),
        "{}",
        intact.output
    );
    let changed = audit.replacen("\"turn\":1", "\"turn\":9", 2);
    fs::write(path.join("data/audit.jsonl"), changed).unwrap();
    let broken = windlass(path, &verify);
    assert_eq!((broken.code, broken.output.as_str()), (1, ""));
    assert_eq!(
        broken.problems,
        [
            "windlass: data/audit.jsonl, line 1: the record was changed: its content does not give its hash"
        ]
    );
    let missing = windlass(path, &["audit", "verify", "nowhere.jsonl"]);
    assert_eq!(missing.code, 2);
    assert!(
        missing.problems[0].starts_with("windlass: nowhere.jsonl cannot be read: "),
        "{:?}",
        missing.problems
    );
}

#[test]
fn building_says_what_it_wrote_and_checking_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tools = root().join("tools").display().to_string();
    let check = windlass(folder.path(), &["check", "--tools", &tools]);
    assert_eq!(check.code, 0, "{:?}", check.problems);
    assert!(
        check.output.starts_with("checked: 5 tools, version 1.0."),
        "{}",
        check.output
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let build = windlass(
        folder.path(),
        &["build", "--tools", &tools, "--out", "a/b.json"],
    );
    assert!(
        build
            .output
            .starts_with("wrote a/b.json: 5 tools, version 1.0."),
        "{}",
        build.output
    );
    let artifact = fs::read_to_string(folder.path().join("a/b.json")).unwrap();

    fs::create_dir_all(folder.path().join("bad/one-tool")).unwrap();
    fs::write(
        folder.path().join("bad/one-tool/schema.json"),
        "{\n  \"toolId\": 3,\n}",
    )
    .unwrap();
    let bad = windlass(
        folder.path(),
        &["build", "--tools", "bad", "--out", "a/b.json"],
    );
    assert_eq!((bad.code, bad.output.as_str()), (1, ""));
    assert!(
        bad.problems[0].starts_with("bad/one-tool"),
        "{:?}",
        bad.problems
    );
    let last = bad.problems.last().unwrap();
    assert!(
        last.ends_with("in the tools; nothing was written"),
        "{last}"
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("a/b.json")).unwrap(),
        artifact
    );

    let json = windlass(
        folder.path(),
        &["check", "--tools", "bad", "--format", "json"],
    );
    let report: Value = serde_json::from_str(&json.output).unwrap();
    assert_eq!((json.code, &report["ok"]), (1, &Value::Bool(false)));
    assert!(
        report["problems"]
            .as_array()
            .is_some_and(|problems| !problems.is_empty())
    );
}

#[test]
fn an_artifact_that_was_changed_by_hand_is_not_used_but_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let artifact = folder.path().join("data/tool_registry.json");
    let question = &["kb_get", "{\"id\": \"person:colin_archer\"}"];
    assert_eq!(call(folder.path(), question).0, 0);
    let built = fs::read_to_string(&artifact).unwrap();
    let tampered = built.replacen(
        "\"requiresConfirmation\":false",
        "\"requiresConfirmation\":true",
        5,
    );
    assert_ne!(tampered, built);
    fs::write(&artifact, tampered).unwrap();
    assert_eq!(call(folder.path(), question).0, 0);
    let again = fs::read_to_string(&artifact).unwrap();
    let without_time = |text: &str| {
        text.lines()
            .filter(|line| !line.contains("buildTimestamp"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(without_time(&again), without_time(&built));
}
