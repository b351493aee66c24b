//! What turns by text take of memory: one budget in bytes for those that run, and nothing for chats that rest.

use crate::floods::{From, connected, head, said, status};
use crate::support::http::request;
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command, folders};
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MIB: u64 = 1 << 20;

fn rule(last: &Value) -> Says {
    let said = last["content"].to_string();
    match (last["role"] == "tool", said.contains("Search")) {
        (false, true) => Says::Calls("kb_search", json!({"query": "Fram"})),
        _ if said.contains("Hold") => Says::Hangs("One moment"),
        _ => Says::Words("Yes."),
    }
}

fn serve(folder: &Path, model: &ModelServer, turn_bytes_max: u64) -> Running {
    let settings = format!(
        "[text]\nprovider = \"openai\"\nurl = \"{}\"\nmodel = \"seer\"\nturn_bytes_max = {turn_bytes_max}\n\
         [models.seer]\nvision = true\n\
         [shares.address]\nturns_per_minute_max = 100000\n",
        model.url
    );
    std::fs::write(folder.join("windlass.toml"), settings).unwrap();
    let mut command = command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
        .args(folders(&folder.join("data")));
    Running::start(&mut command)
}

/// Bytes of memory of a process, now or at most.
fn memory(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1_024
}

/// A message with a picture of so many bytes, which are another's in each.
fn message(number: usize, words: &str, picture_bytes: usize) -> String {
    let mut picture = vec![7; picture_bytes];
    picture[..8].copy_from_slice(&number.to_le_bytes());
    let picture = base64_simd::STANDARD.encode_to_string(picture);
    let url = format!("data:image/png;base64,{picture}");
    let parts = json!([
        {"type": "text", "text": words}, {"type": "file", "mediaType": "image/png", "url": url}
    ]);
    let message = json!({"id": "m", "role": "user", "parts": parts});
    json!({"id": format!("chat-{number}"), "messages": [message]}).to_string()
}

async fn post(address: &str, from: From, body: &str) -> String {
    let text = format!("{}{body}", head("/api/chat", body.len()));
    said(address, from, &text).await
}

/// Posts a message; what is answered first, and the connection, on which the rest comes.
async fn begin(address: &str, from: From, body: &str) -> (String, TcpStream) {
    let mut client = connected(address, from).await;
    let text = format!("{}{body}", head("/api/chat", body.len()));
    // A server that refuses a request may not read it to its end.
    let _ = client.write_all(text.as_bytes()).await;
    let mut begun = vec![0; 16 * 1_024];
    let length = client.read(&mut begun).await.unwrap_or(0);
    let mut begun = begun[..length].to_vec();
    // A refusal is read to its end.
    if !begun.starts_with(b"HTTP/1.1 200") {
        let _ = client.read_to_end(&mut begun).await;
    }
    (String::from_utf8_lossy(&begun).into_owned(), client)
}

#[tokio::test(flavor = "multi_thread")]
async fn four_hundred_chats_with_a_picture_each_rest_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(rule);
    let mut running = serve(folder.path(), &model, 256 * MIB);
    let address = running.address();
    let ask = async |number: usize, words: &str| {
        let answer = post(&address, 2, &message(number, words, 100_000)).await;
        assert_eq!(status(&answer), "200", "{answer}");
    };
    for number in 0..40 {
        ask(number, "Search.").await;
    }
    let before = memory(running.id(), "VmRSS:");
    for number in 40..440 {
        ask(number, "Search.").await;
    }
    let after = memory(running.id(), "VmRSS:");
    // The pictures alone are 40 MB, and what was found is as much again.
    assert!(after < before + 24 * MIB, "{before} bytes, then {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_turns_stays_within_the_bytes_that_there_are_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(rule);
    let mut running = serve(folder.path(), &model, 16 * MIB);
    let address = running.address();
    let answer = post(
        &address,
        3,
        &json!({"id": "victim", "message": "Hello."}).to_string(),
    )
    .await;
    assert_eq!(status(&answer), "200", "{answer}");
    let before = memory(running.id(), "VmHWM:");
    let (mut held, mut refused) = (Vec::new(), 0);
    for number in 0..150 {
        let body = match number % 3 {
            0 => message(number, "Hold it.", 700_000),
            1 => json!({"id": format!("long-{number}"), "message": format!("Hold {}", "x".repeat(250_000))})
                .to_string(),
            _ => message(number, "Search and Hold.", 200_000),
        };
        let (answer, client) = begin(&address, 2, &body).await;
        match status(&answer) {
            "200" => held.push(client),
            "503" => {
                refused += 1;
                assert!(answer.contains("\"overloaded\""), "{answer}");
                assert!(answer.to_lowercase().contains("retry-after: "), "{answer}");
            }
            other => panic!("{other}: {answer}"),
        }
    }
    assert!(
        held.len() >= 5 && refused >= 50,
        "{} and {refused}",
        held.len()
    );
    let completion = json!({"messages": [{"role": "user", "content": "x".repeat(400_000)}]});
    let completion = completion.to_string();
    let text = format!(
        "{}{completion}",
        head("/v1/chat/completions", completion.len())
    );
    let answer = said(&address, 2, &text).await;
    assert_eq!(status(&answer), "503", "{answer}");
    assert!(answer.contains("\"overloaded\""), "{answer}");
    let peak = memory(running.id(), "VmHWM:");
    assert!(peak < before + 64 * MIB, "{before} bytes, then {peak}");
    let metrics = request(&address, "GET", "/metrics", &[]);
    let metrics: Value = serde_json::from_str(&metrics.body).unwrap();
    assert_eq!(metrics["refused"]["turn_memory"]["server"], refused + 1);
    // Whoever leaves gives back what the turn held.
    drop(held);
    loop {
        let body = message(1_000, "Hello.", 700_000);
        let answer = post(&address, 2, &body).await;
        match status(&answer) {
            "200" => break,
            "503" => tokio::task::yield_now().await,
            other => panic!("{other}: {answer}"),
        }
    }
    let answer = post(
        &address,
        3,
        &json!({"id": "victim", "message": "And?"}).to_string(),
    )
    .await;
    assert_eq!(status(&answer), "200", "{answer}");
}
