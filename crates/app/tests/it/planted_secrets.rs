//! Secrets that are planted wherever the server takes something in: none comes out where others read.

use crate::chat::echo;
use crate::support::http::{post_with, request};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command, folders};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Keys that the server is configured with, and what strangers and users send along.
const KEYS: [(&str, &str); 4] = [
    ("WINDLASS_TEXT_API_KEY", "planted-text-key-01"),
    ("WINDLASS_KNOWLEDGE_EMBEDDER_KEY", "planted-embedder-key-02"),
    ("WINDLASS_PROVIDER_API_KEY", "planted-provider-key-03"),
    (
        "WINDLASS_PROVIDER_VERTEX_ACCESS_TOKEN",
        "planted-vertex-token-04",
    ),
];
const HEADERS: [(&str, &str); 6] = [
    ("Authorization", "Bearer planted-bearer-05"),
    (
        "Cookie",
        "windlass_client=planted-cookie-06; session=planted-session-07",
    ),
    ("Idempotency-Key", "planted-idempotency-08"),
    ("X-Api-Key", "planted-api-key-09"),
    ("User-Agent", "planted-agent-10"),
    ("Referer", "https://example.org/?token=planted-referer-11"),
];
const QUERY: &str = "planted-query-12";
const WORDS: &str = "my password is planted-words-13";
const SEARCHED: &str = "planted-search-14";
const SPOKEN: &str = "planted-voice-15";
const CLAIMED: &str = "planted-body-16";
const ORIGIN: &str = "https://evil.example/?api_key=planted-origin-17";
const HOST: &str = "sk-planted-host-18.example";

/// What the model's server says to a bad key: it repeats the key.
fn rule(last: &Value) -> Says {
    let content = last["content"].to_string();
    match () {
        () if last["role"] == "user" && content.contains("Scold.") => Says::Scolds(format!(
            "Incorrect API key provided: {}. Authorization: Bearer planted-echo-19",
            KEYS[0].1
        )),
        () if last["role"] == "user" && content.contains("Look up") => {
            Says::Calls("kb_search", json!({"query": SEARCHED}))
        }
        () => echo(last),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_planted_secrets_come_out_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let model = ModelServer::start(rule);
    let mut command = command(folder.path());
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
        .args(folders(&data))
        .env("WINDLASS_TEXT_PROVIDER", "openai")
        .env("WINDLASS_TEXT_URL", &model.url)
        .env("WINDLASS_TEXT_API_KEY", KEYS[0].1)
        .env("WINDLASS_KNOWLEDGE_EMBEDDER_KEY", KEYS[1].1)
        .env("WINDLASS_PROVIDER_API_KEY", KEYS[2].1)
        .env("WINDLASS_LOG_LEVEL", "trace")
        .env("WINDLASS_JOURNAL_ENABLED", "true")
        .env("WINDLASS_SERVER_SHUTDOWN_SECONDS", "1");
    let mut running = Running::start(&mut command);
    let address = running.address();

    let ask = |body: Value| {
        let body = body.to_string();
        post_with(&address, "/api/chat", &HEADERS, body.as_bytes()).body
    };
    // What a client is told is what others read, but for its own words.
    let mut shown = vec![
        ask(json!({"id": "a", "message": "Scold."})),
        request(
            &address,
            "GET",
            &format!("/nothing?token={QUERY}"),
            &HEADERS,
        )
        .body,
        request(&address, "GET", "/", &HEADERS).body,
        request(&address, "GET", "/api/info", &[("Origin", ORIGIN)]).body,
        request(&address, "GET", "/api/info", &[("Host", HOST)]).body,
        post_with(
            &address,
            "/api/chat",
            &[],
            format!("{{\"id\": \"{CLAIMED}\", ").as_bytes(),
        )
        .body,
        post_with(
            &address,
            "/api/confirm",
            &[],
            json!({"token": CLAIMED}).to_string().as_bytes(),
        )
        .body,
    ];
    ask(json!({"id": "b", "message": WORDS}));
    ask(json!({"id": "c", "message": "Look up something."}));
    let (mut client, started) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say(SPOKEN).await;
    client.expect("turn_complete").await;
    let resume_token = started["resumeToken"].as_str().unwrap().to_owned();
    for accept in ["application/json", "text/plain"] {
        shown.push(request(&address, "GET", "/metrics", &[("Accept", accept)]).body);
    }
    running.signal("-TERM");
    let log = running.log_until(" ended");
    shown.extend(log);
    shown.push(fs::read_to_string(data.join("audit.jsonl")).unwrap());
    let configured = command_output(folder.path(), &data);
    shown.push(configured);
    let planted = ["planted-", resume_token.as_str()];
    for text in shown {
        for secret in planted {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    // A journal is there to run a session again, so that it has what was said in it. It has nothing else of these.
    let journals = files(&data.join("journal"));
    assert!(!journals.is_empty());
    for journal in journals {
        let mut journal = fs::read_to_string(journal).unwrap();
        for said in [WORDS, SEARCHED, SPOKEN] {
            journal = journal.replace(said, "");
        }
        for secret in planted {
            assert!(!journal.contains(secret), "{secret} in {journal}");
        }
    }
    for path in files(&data) {
        assert_private(&path);
    }
    assert_private(&data);
}

/// What `windlass config` prints.
fn command_output(folder: &Path, data: &Path) -> String {
    let mut command = command(folder);
    command.arg("config").args(folders(data));
    for (name, key) in &KEYS[..3] {
        command.env(name, key);
    }
    let run = crate::support::program::run(&mut command);
    run.output
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        }
        found.push(path);
    }
    found
}

/// Only its owner may read it.
fn assert_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_that_others_could_read_is_for_its_owner_alone_from_the_next_start() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for _ in 0..2 {
        let (server, address) = crate::voice::server(&data, &[("journal.enabled", "true")]).await;
        let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
        client.say("Thank you").await;
        client.expect("turn_complete").await;
        for path in files(&data) {
            assert_private(&path);
        }
        assert_private(&data);
        server.shut_down().await;
        for path in files(&data) {
            let mode = if path.is_dir() { 0o755 } else { 0o644 };
            open(&path, mode);
        }
        open(&data, 0o755);
    }
}
