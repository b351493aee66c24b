//! The program as a process that goes on: its line when it is ready, signals, ports, the simulator, and tools that change
//! while it runs.

use crate::support::http::{answer_on, get, post};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command, folders, run};
use crate::support::root;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::path::Path;

fn serve(folder: &Path, more: &[&str]) -> Running {
    let mut command = command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(folders(&folder.join("data")))
        .args(more);
    Running::start(&mut command)
}

#[test]
fn a_server_says_where_it_is_and_a_signal_ends_it() {
    for signal in ["-TERM", "-INT"] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = serve(folder.path(), &[]);
        let line = server.line();
        let address = line.strip_prefix("windlass is ready at http://").unwrap();
        assert_eq!(get(address, "/ready").status, 200);
        server.signal(signal);
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("demo model, rules without AI"), "{log}");
    }
}

#[test]
fn a_client_that_rests_between_two_requests_costs_24_kib_at_most() {
    const CLIENTS: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let mut server = serve(folder.path(), &[]);
    let address = server.address();
    let own_kib = || -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let mut lines = status.lines();
        let own = lines.find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = own.unwrap().trim().strip_suffix(" kB");
        kib.unwrap().parse().unwrap()
    };
    let connect = || {
        let mut client = BufReader::new(TcpStream::connect(&address).unwrap());
        let request = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
        client.get_mut().write_all(request.as_bytes()).unwrap();
        assert_eq!(answer_on(&mut client).unwrap().body, "up\n");
        client
    };
    // What the first requests bring into memory is the server's, and no client's.
    drop(connect());
    let before = own_kib();
    let clients: Vec<_> = (0..CLIENTS).map(|_| connect()).collect();
    let cost = own_kib().saturating_sub(before);
    println!("{CLIENTS} clients cost {cost} KiB");
    assert!(cost <= 24 * CLIENTS, "{cost} KiB for {CLIENTS} clients");
    drop(clients);
}

#[test]
fn a_server_with_the_demo_model_says_why() {
    const KEY: (&str, &str) = ("GEMINI_API_KEY", "a-key");
    const FILE: &str = "[provider]\napi_key_env = \"STUDIO_KEY\"\n";
    let chosen = "provider.kind (--provider) is demo: this is the demo model, rules without AI; choose gemini-live or openai-realtime for another";
    let nothing = "no provider is configured: this is the demo model, rules without AI; set OPENAI_API_KEY for OpenAI Realtime, or \
                   GEMINI_API_KEY for Gemini Live";
    let unset = "no provider is configured: this is the demo model, rules without AI; the environment variable that \
                 provider.api_key_env names is not set; set it for Gemini Live";
    for (file, provider, variable, notice) in [
        ("", "auto", ("GEMINI_API_KEY", ""), nothing),
        ("", "demo", KEY, chosen),
        ("", "demo", ("GEMINI_API_KEY", ""), chosen),
        (FILE, "auto", ("STUDIO_KEY", ""), unset),
        (FILE, "auto", ("OTHER_KEY", "a-key"), unset),
        (FILE, "demo", ("STUDIO_KEY", ""), chosen),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("windlass.toml"), file).unwrap();
        let mut server = command(folder.path());
        server
            .args(["serve", "--listen", "127.0.0.1:0", "--provider", provider])
            .args(folders(&folder.path().join("data")))
            .env(variable.0, variable.1);
        let mut server = Running::start(&mut server);
        server.address();
        server.signal("-TERM");
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{log}");
        let said: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("voice: "))
            .collect();
        assert!(said.len() == 1 && said[0].ends_with(notice), "{log}");
    }
}

/// No provider is asked anything before a session begins, so that any key will do.
#[test]
fn a_server_says_for_each_mode_which_model_and_why() {
    const OPENAI: (&str, &str) = ("OPENAI_API_KEY", "a-key");
    const GEMINI: (&str, &str) = ("GEMINI_API_KEY", "a-key");
    for (variables, voice, text) in [
        (
            &[OPENAI][..],
            "voice: OpenAI Realtime, model gpt-realtime-2.1, because OPENAI_API_KEY is set; --provider chooses another",
            "text: OpenAI by Responses, model gpt-5.4-mini, because OPENAI_API_KEY is set; --text-provider chooses another",
        ),
        (
            &[OPENAI, GEMINI],
            "voice: Gemini Live, model ",
            "text: Gemini, model gemini-3.5-flash, because GEMINI_API_KEY is set; --text-provider chooses another",
        ),
        (
            &[],
            "voice: no provider is configured: this is the demo model",
            "text: the demo model, rules without AI, because no key is set; set OPENAI_API_KEY or GEMINI_API_KEY",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = command(folder.path());
        server
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(folders(&folder.path().join("data")))
            .envs(variables.iter().copied());
        let mut server = Running::start(&mut server);
        server.address();
        server.signal("-TERM");
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{log}");
        for line in [voice, text] {
            assert!(log.contains(line), "{line} in {log}");
        }
        assert!(!log.contains(" WARN "), "{log}");
    }
}

#[test]
fn a_port_that_another_program_has_is_said_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let run = run(command(folder.path())
        .args(["serve", "--listen", &address])
        .args(folders(&folder.path().join("data"))));
    let line = format!(
        "windlass: cannot listen on {address}: Address already in use (os error 98); \
         another program has the port: end it, or choose another one with --listen"
    );
    assert_eq!((run.code, run.problems), (1, vec![line]));
}

#[test]
fn a_data_folder_has_one_process_and_the_second_names_it_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = serve(folder.path(), &[]);
    server.address();
    let holder = format!(
        "windlass: the data folder {} is in use by process {}, which opened it at ",
        data.display(),
        server.id()
    );
    let call = ["call", "kb_search", r#"{"query": "Fram"}"#];
    for arguments in [&["serve", "--listen", "127.0.0.1:0"][..], &call] {
        let run = run(command(folder.path()).args(arguments).args(folders(&data)));
        let said = run.problems.last().unwrap();
        assert_eq!(run.code, 1, "{said}");
        assert!(said.starts_with(&holder), "{said}");
    }
    // A call that names no data folder has a store of its own.
    let folders = folders(&data);
    let data_flag = folders.iter().position(|flag| flag == "--data").unwrap();
    let mut without = folders.clone();
    without.drain(data_flag..data_flag + 2);
    fs::write(
        folder.path().join("windlass.toml"),
        "[folders]\ndata = \"own\"\n",
    )
    .unwrap();
    let run = run(command(folder.path()).args(call).args(&without));
    assert_eq!(run.code, 0, "{:?}", run.problems);
    assert!(!folder.path().join("own/windlass.db").exists());
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_store_of_an_earlier_version_is_set_aside_and_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let old = rusqlite::Connection::open(data.join("windlass.db")).unwrap();
    // As versions before the first release marked their files.
    old.execute_batch("PRAGMA application_id = 0x574E444C; CREATE TABLE grants (token BLOB)")
        .unwrap();
    drop(old);
    for expected in [1, 0] {
        let mut server = serve(folder.path(), &[]);
        server.address();
        server.signal("-TERM");
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{log}");
        let said = log.lines().filter(|line| line.contains("set aside"));
        assert_eq!(said.count(), expected, "{log}");
    }
    assert!(data.join("windlass.db.old-1").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_talks_to_a_simulator_at_its_provider_url() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.yaml");
    fs::write(
        &script,
        "settings: { speed: 0, await_playback: false }\nexchanges:\n  - when: { text: hello }\n    do:\n      - say: Good day.\n",
    )
    .unwrap();
    let mut simulator = command(folder.path());
    simulator.args(["sim", "gemini-live", "--script", "script.yaml"]);
    let mut simulator = Running::start(&mut simulator);
    let url = format!("ws://{}", simulator.address());
    let mut server = serve(folder.path(), &["--provider-url", &url]);
    let address = server.address();
    let info: Value = serde_json::from_str(&get(&address, "/api/info").body).unwrap();
    assert_eq!(
        (&info["provider"], &info["demo"]),
        (&"gemini-live".into(), &false.into())
    );
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say("hello").await;
    loop {
        let transcript = client.expect("transcript").await;
        if transcript["role"] == "assistant" && transcript["final"] == true {
            assert_eq!(transcript["text"], "Good day.");
            break;
        }
    }
    client.expect("turn_complete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_talks_to_openai_realtime_with_its_tools() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.yaml");
    fs::write(
        &script,
        "settings: { speed: 0 }\nexchanges:\n  - when: { text: hello }\n    do:\n      - say: One moment.\n      \
         - calls: [{ name: kb_search, args: { query: Fram } }, { name: nobody }]\n      - expect_response\n      \
         - say: \"Found {results.kb_search.ok} and {results.nobody.error.type}.\"\n",
    )
    .unwrap();
    let mut simulator = command(folder.path());
    simulator.args(["sim", "openai-realtime", "--script", "script.yaml"]);
    let mut simulator = Running::start(&mut simulator);
    let url = format!("ws://{}", simulator.address());
    let mut server = serve(
        folder.path(),
        &["--provider", "openai-realtime", "--provider-url", &url],
    );
    let address = server.address();
    let info: Value = serde_json::from_str(&get(&address, "/api/info").body).unwrap();
    assert_eq!(
        (&info["provider"], &info["model"]),
        (&"openai-realtime".into(), &"gpt-realtime-2.1".into())
    );
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say("hello").await;
    let mut said = String::new();
    loop {
        let transcript = client.expect("transcript").await;
        if transcript["role"] == "assistant" && transcript["final"] == true {
            said.push_str(transcript["text"].as_str().unwrap());
            break;
        }
    }
    assert_eq!(said, "One moment.Found true and NOT_FOUND.");
    client.expect("turn_complete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_provider_refuses_is_the_sessions_error_and_not_the_servers_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut simulator = command(folder.path());
    let mut simulator = Running::start(simulator.args(["sim", "gemini-live"]));
    let url = format!("ws://{}", simulator.address());
    let mut server = command(folder.path());
    server
        .args(["serve", "--listen", "127.0.0.1:0", "--provider-url", &url])
        .args(folders(&folder.path().join("data")))
        .env("GEMINI_API_KEY", "bad-key");
    let mut server = Running::start(&mut server);
    let address = server.address();
    for _ in 0..2 {
        let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
        assert_eq!(client.expect("error").await["code"], "provider_auth");
        client.expect_close().await;
    }
    assert_eq!(get(&address, "/ready").status, 200);
    server.signal("-TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0));
    assert!(!log.contains("bad-key"), "{log}");
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_change_while_the_server_runs_serve_new_sessions_only() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("own-tools");
    copy(&root().join("tools"), &tools);
    let tools_name = tools.display().to_string();
    let mut server = command(folder.path());
    server.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--watch",
        "--tools",
        &tools_name,
    ]);
    server.args([
        "--data",
        "data",
        "--kb",
        &root().join("kb").display().to_string(),
    ]);
    let mut server = Running::start(&mut server);
    let address = server.address();
    let begin = json!({"type": "start"});
    let (mut old, started) = VoiceClient::start(&address, begin.clone()).await;
    let version = started["registryVersion"].clone();

    // A broken tool changes nothing, and its repair does. What is merely doubtful is a warning beside it.
    let guide = tools.join("kb-get/guide.md");
    let text = fs::read_to_string(&guide).unwrap();
    let doubtful = tools.join("kb-search/doc.md");
    fs::write(&doubtful, "# Old").unwrap();
    fs::write(&guide, "").unwrap();
    let mut levels = server.log_until("the tools stay as they were");
    levels.retain(|line| line.contains("own-tools/") || line.contains("the tools stay"));
    let level = |of: &str| {
        let line = levels.iter().find(|line| line.contains(of));
        let line = line.unwrap_or_else(|| panic!("no line on {of} in {levels:?}"));
        ["ERROR", "WARN"]
            .into_iter()
            .find(|level| line.contains(level))
    };
    assert_eq!(level("kb-get/guide.md"), Some("ERROR"));
    assert_eq!(level("which nobody reads"), Some("WARN"));
    assert_eq!(level("the tools stay"), Some("ERROR"));
    fs::remove_file(&doubtful).unwrap();
    let (_, started) = VoiceClient::start(&address, begin.clone()).await;
    assert_eq!(started["registryVersion"], version);
    fs::write(&guide, format!("{text}\nOne line more.\n")).unwrap();
    server.expect_log("new sessions have new tools");
    server.expect_log("a session goes on with older tools");
    let (_, started) = VoiceClient::start(&address, begin.clone()).await;
    assert_ne!(started["registryVersion"], version);
    old.say("Who designed the ship Fram?").await;
    assert_eq!(old.expect("tool_call_finished").await["ok"], true);
}

/// The tools of a request to a model as its instruction names them, and their declarations.
fn tools_of(request: &Value) -> (String, Value) {
    let instruction = request["messages"][0]["content"].as_str().unwrap();
    let (_, named) = instruction.split_once("# Available Tools").unwrap();
    (named.to_owned(), request["tools"].clone())
}

#[test]
fn a_turn_of_a_chat_has_the_tools_that_it_began_with_whole() {
    let folder = tempfile::tempdir().unwrap();
    copy(&root().join("tools"), &folder.path().join("tools"));
    let model = ModelServer::start(|_| Says::Words("Very well."));
    let mut server = command(folder.path());
    server.args(["serve", "--listen", "127.0.0.1:0", "--watch"]);
    server.args(["--tools", "tools", "--data", "data"]);
    server.args(["--text-provider-url", &model.url]);
    let mut server = Running::start(&mut server);
    let address = server.address();
    let asked = |conversation: &str, message: &str| {
        let body = json!({"id": conversation, "message": message}).to_string();
        assert_eq!(post(&address, "/api/chat", body.as_bytes()).status, 200);
        tools_of(&model.seen().pop().unwrap())
    };
    asked("chat", "Hello.");

    let (guide, schema) = (
        folder.path().join("tools/kb-get/guide.md"),
        folder.path().join("tools/kb-get/schema.json"),
    );
    let text = fs::read_to_string(&guide).unwrap();
    fs::write(&guide, format!("{text}\nOne line more.\n")).unwrap();
    let mut fields: Value = serde_json::from_str(&fs::read_to_string(&schema).unwrap()).unwrap();
    fields["description"] = json!("It reads.");
    fs::write(&schema, fields.to_string()).unwrap();
    server.expect_log("new sessions have new tools");
    // The next turn has the others, all of them once both files are read.
    let both = || {
        let (named, declared) = asked("chat", "And now?");
        named.contains("One line more.") && declared.to_string().contains("It reads.")
    };
    if !both() {
        server.expect_log("new sessions have new tools");
        let (named, declared) = asked("chat", "And then?");
        assert!(named.contains("One line more."), "{named}");
        assert!(declared.to_string().contains("It reads."), "{declared}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_taken_up_again_has_the_tools_that_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    copy(&root().join("tools"), &tools);
    let kb = root().join("kb").display().to_string();
    let mut server = command(folder.path());
    server.args(["serve", "--listen", "127.0.0.1:0", "--watch"]);
    server.args(["--tools", "tools", "--data", "data", "--kb", &kb]);
    let mut server = Running::start(&mut server);
    let address = server.address();
    let begin = json!({"type": "start"});
    let (old, started) = VoiceClient::start(&address, begin.clone()).await;
    drop(old);
    let guide = tools.join("kb-get/guide.md");
    let text = fs::read_to_string(&guide).unwrap();
    fs::write(&guide, format!("{text}\nOne line more.\n")).unwrap();
    server.expect_log("new sessions have new tools");
    let resume = json!({"type": "start", "resume": started["resumeToken"]});
    let (_, resumed) = VoiceClient::start(&address, resume).await;
    assert_eq!(resumed["registryVersion"], started["registryVersion"]);
    let (_, new) = VoiceClient::start(&address, begin).await;
    assert_ne!(new["registryVersion"], started["registryVersion"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_watch_a_new_type_of_records_brings_nothing_else_that_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (tools, records) = (folder.path().join("tools"), folder.path().join("kb/public"));
    copy(&root().join("tools"), &tools);
    let write = |kind: &str| {
        let record = format!("---\ntitle: Of a {kind}\n---\nA {kind} of the expedition.\n");
        fs::create_dir_all(records.join(kind)).unwrap();
        fs::write(records.join(kind).join("one.md"), record).unwrap();
    };
    write("doc");
    let mut server = command(folder.path());
    server.args(["serve", "--listen", "127.0.0.1:0", "--tools", "tools"]);
    server.args(["--data", "data", "--kb", "kb"]);
    let mut server = Running::start(&mut server);
    let address = server.address();
    let begin = json!({"type": "start"});
    let (_, started) = VoiceClient::start(&address, begin.clone()).await;
    let version = started["registryVersion"].clone();

    let guide = tools.join("kb-get/guide.md");
    let text = fs::read_to_string(&guide).unwrap();
    fs::write(&guide, format!("{text}\nOne line more.\n")).unwrap();
    write("ship");
    server.expect_log("the tools stay as they were");
    let (_, started) = VoiceClient::start(&address, begin.clone()).await;
    assert_eq!(started["registryVersion"], version);

    // Where nothing but the base has changed, its words are taken up.
    fs::write(&guide, text).unwrap();
    write("dog");
    server.expect_log("new sessions have new tools");
    let (_, started) = VoiceClient::start(&address, begin).await;
    assert_ne!(started["registryVersion"], version);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_session_that_is_live_and_then_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = serve(folder.path(), &[]);
    let address = server.address();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say("Who designed the ship Fram?").await;
    client.expect("turn_complete").await;
    server.signal("-TERM");
    let complete = client.expect("session_complete").await;
    let transcripts = complete["transcripts"].as_array().unwrap();
    assert_eq!(transcripts[0]["text"], "Who designed the ship Fram?");
    client.expect_close().await;
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("cut off"), "{log}");
}
