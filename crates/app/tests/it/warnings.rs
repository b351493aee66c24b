//! What an operator reads in the log of what crowds a model, prompts and tools at a session's start and long responses, and of
//! pictures that nobody can be shown.

use crate::chat::echo;
use crate::support::http::post;
use crate::support::model_server::ModelServer;
use crate::support::program::{Running, command, folders};
use crate::support::root;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn serve(folder: &Path, more: &[&str]) -> Running {
    let mut command = command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(folders(&folder.join("data")))
        .args(more);
    Running::start(&mut command)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_says_what_its_prompt_takes_and_whether_that_is_too_much() {
    for (window, warns) in [(1_000, true), (131_072, false)] {
        let folder = tempfile::tempdir().unwrap();
        let rules = format!(
            "[provider]\nmodel = \"gemini-3.8-live\"\n[models.\"gemini-3.8-live\"]\ncontext_tokens_max = {window}\n"
        );
        fs::write(folder.path().join("windlass.toml"), rules).unwrap();
        let nobody = ["--provider-url", "ws://127.0.0.1:1"];
        let mut server = serve(folder.path(), &nobody);
        let address = server.address();
        let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
        client.expect("error").await;
        server.signal("-TERM");
        let (_, log) = server.end();
        let said = |words: &str| log.lines().filter(|line| line.contains(words)).count();
        assert_eq!(said("session_init_tokens="), 1, "{log}");
        let warnings = usize::from(warns);
        assert_eq!(said("over 90 % of the model's window"), warnings, "{log}");
    }
}

#[test]
fn a_tool_whose_responses_are_long_is_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(echo);
    let mut server = serve(
        folder.path(),
        &[
            "--text-provider",
            "openai",
            "--text-provider-url",
            &model.url,
        ],
    );
    let address = server.address();
    let ask = json!({"messages": [{"role": "user", "content": "Search."}]}).to_string();
    // Of fewer responses nobody can say whether they are the rule.
    for _ in 0..21 {
        let answer = post(&address, "/v1/chat/completions", ask.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    server.signal("-TERM");
    let (_, log) = server.end();
    let warned: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("the responses of a tool are long for a model to read"))
        .collect();
    assert_eq!(warned.len(), 1, "{log}");
    assert!(warned[0].contains("tool=kb_search"), "{log}");
}

#[test]
fn pictures_that_cannot_be_shown_are_named_and_the_rest_counted() {
    let folder = tempfile::tempdir().unwrap();
    let photo = |number| json!({"id": format!("photo:p-{number}"), "title": "P", "file": format!("{number}.png")});
    let photos: Vec<Value> = (0..25).map(photo).collect();
    fs::create_dir(folder.path().join("kb")).unwrap();
    let records = serde_json::to_string(&photos).unwrap();
    fs::write(folder.path().join("kb/photos.json"), records).unwrap();
    let mut command = command(folder.path());
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
        .args(["--kb", "kb", "--data", "data", "--tools"])
        .arg(root().join("tools"));
    let mut server = Running::start(&mut command);
    server.address();
    server.signal("-TERM");
    let (_, log) = server.end();
    let said = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(
        said("a record lacks something warning=photos.json:"),
        20,
        "{log}"
    );
    let rest = "more records lack something; `windlass kb index` names them untold=5";
    assert_eq!(said(rest), 1, "{log}");
}
