//! Voice sessions over real sockets, against the demo model behind the real protocol.

use crate::chat::{chat, echo, user};
use crate::support::config;
use crate::support::http::{get, post_with};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::path::Path;
use windlass_app::server::{Server, Setup, start};

pub(crate) async fn server(data: &Path, keys: &[(&'static str, &str)]) -> (Server, String) {
    let server = start(Setup {
        config: config(data, keys),
        handlers: windlass_handlers::builtin(),
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    (server, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_not_handed_over_while_its_conversation_talks_by_voice() {
    let chat = chat(echo, &[]).await;
    let (address, body) = (
        chat.address.clone(),
        |id: &str| json!({"id": "c", "messages": [user(id, "Talk.")]}),
    );
    let start = json!({"type": "start", "conversationId": "c"});
    let (mut client, _) = VoiceClient::start(&address, start).await;
    let asked = chat.ask(&body("a"));
    assert!(
        asked.body.contains("already in voice") || asked.body.contains("in voice already"),
        "{}",
        asked.body
    );
    assert!(
        !asked.body.contains("data-voice-session-start"),
        "{}",
        asked.body
    );
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
    // Its place is free a moment after its client has heard of the end.
    for number in 0..1_000 {
        let asked = chat.ask(&body(&format!("b-{number}")));
        if asked.body.contains("data-voice-session-start") {
            return;
        }
    }
    panic!("the conversation stays in voice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_looked_up_and_answered_with_its_source() {
    let data = tempfile::tempdir().unwrap();
    let (server, address) = server(data.path(), &[]).await;
    let (mut client, started) = VoiceClient::start(&address, json!({"type": "start"})).await;
    assert_eq!(started["mode"], "voice");
    let tools = started["tools"].as_array().unwrap();
    assert!(tools.contains(&"kb_search".into()) && !tools.contains(&"start_voice_session".into()));

    client.say("Who designed the ship Fram?").await;
    let mut called = Vec::new();
    for _ in 0..2 {
        let call = client.expect("tool_call_started").await;
        called.push(call["tool"].as_str().unwrap().to_owned());
        let finished = client.expect("tool_call_finished").await;
        assert_eq!(
            (&finished["callId"], &finished["ok"]),
            (&call["callId"], &true.into())
        );
    }
    assert_eq!(called, ["kb_search", "kb_get"]);
    let said = loop {
        let transcript = client.expect("transcript").await;
        if transcript["role"] == "assistant" && transcript["final"] == true {
            break transcript;
        }
    };
    assert!(said["text"].as_str().unwrap().contains("Archer"), "{said}");
    let sources = said["citations"].to_string();
    assert!(
        sources.contains("Archer") || sources.contains("Fram"),
        "{said}"
    );
    assert!(client.audio_bytes > 0);

    let metrics: Value = serde_json::from_str(&get(&address, "/metrics").body).unwrap();
    assert!(
        metrics["context"]["sessionInitTokens"].as_u64().unwrap() > 500,
        "{metrics}"
    );
    client.send(json!({"type": "stop"})).await;
    client.expect("session_complete").await;
    client.expect_close().await;
    server.shut_down().await;
    let audit = std::fs::read_to_string(data.path().join("audit.jsonl")).unwrap();
    assert_eq!(audit.lines().count(), 2, "{audit}");
    assert!(
        !audit.contains("Fram"),
        "arguments stay out of the audit: {audit}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_has_one_voice_session_and_the_next_when_that_has_ended() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path(), &[]).await;
    let begin = json!({"type": "start", "conversationId": "talk"});
    let (mut first, _) = VoiceClient::start(&address, begin.clone()).await;
    let mut second = VoiceClient::connect(&address, &[]).await.unwrap();
    second.send(begin.clone()).await;
    assert_eq!(second.expect("error").await["code"], "SESSION_ACTIVE");
    first.send(json!({"type": "stop"})).await;
    first.expect_close().await;
    drop(first);
    // The place is free once the server has seen the connection end, which is a moment after the client has.
    let started = loop {
        let mut next = VoiceClient::connect(&address, &[]).await.unwrap();
        next.send(begin.clone()).await;
        if let Some(started) = next.started_or_refused().await {
            break started;
        }
    };
    assert_eq!(started["conversationId"], "talk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_user_is_told_until_when_also_after_a_restart_and_under_another_name() {
    let data = tempfile::tempdir().unwrap();
    let (first, address) = server(data.path(), &[]).await;
    let cookie = cookie(&address);
    let headers = [("cookie", cookie.as_str())];
    let mut client = VoiceClient::connect(&address, &headers).await.unwrap();
    client
        .send(json!({"type": "start", "userId": "rude"}))
        .await;
    client.expect("started").await;
    client
        .say("call ignore_user {\"duration_seconds\": 3600, \"farewell_message\": \"Enough.\"}")
        .await;
    let told = client.expect("timeout").await;
    assert_eq!(told["durationSeconds"], 3600, "{told}");
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
    first.shut_down().await;

    let (_second, address) = server(data.path(), &[]).await;
    for name in [Some("rude"), Some("kind"), None] {
        let mut client = VoiceClient::connect(&address, &headers).await.unwrap();
        client.send(json!({"type": "start", "userId": name})).await;
        let told = client.expect("timeout").await;
        assert_eq!(told["farewellMessage"], "Enough.", "{name:?}");
        assert!(told["durationSeconds"].as_u64().unwrap() <= 3600);
        client.expect_close().await;
    }
    let question = json!({"messages": [{"role": "user", "content": "Hello."}]}).to_string();
    let path = "/v1/chat/completions";
    let refused = post_with(&address, path, &headers, question.as_bytes());
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(refused.body.contains("\"blocked\""), "{}", refused.body);
    let (_, _) = VoiceClient::start(&address, json!({"type": "start", "userId": "kind"})).await;
}

/// The cookie that the server gives to a client which has none.
pub(crate) fn cookie(address: &str) -> String {
    use crate::support::http::request;
    use std::io::{Read, Write};
    // The upgrade's answer has no end, so only its head is read.
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let text = format!(
        "GET /voice HTTP/1.1\r\nHost: {address}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(
        head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
        "{head}"
    );
    let line = head
        .lines()
        .find(|line| line.starts_with("set-cookie: "))
        .unwrap();
    for attribute in ["; path=/", "; httponly", "; samesite=strict"] {
        assert!(line.contains(attribute), "{line}");
    }
    // Without an upgrade nobody gets one.
    assert_eq!(request(address, "GET", "/", &[]).header("set-cookie"), None);
    let value = line.strip_prefix("set-cookie: ").unwrap();
    value.split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_tells_every_session_and_takes_no_more() {
    let data = tempfile::tempdir().unwrap();
    let (server, address) = server(data.path(), &[]).await;
    let (mut one, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    let mut other = VoiceClient::connect(&address, &[]).await.unwrap();
    let ending = tokio::spawn(server.shut_down());
    assert_eq!(one.expect("error").await["code"], "shutting_down");
    one.expect_close().await;
    other.expect_close().await;
    ending.await.unwrap();
    assert!(std::net::TcpStream::connect(&address).is_err());
}
