//! What nobody should send, over real sockets: the session goes on, the sender is told, and the operator reads it in the log
//! without a word of the content.

use crate::support::program::{Running, command, folders};
use crate::support::provider_peer::Provider;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// Stands for what a model or a user has said.
const CONTENT: &str = "frozen-in";

fn text(message: &Value) -> Message {
    Message::text(message.to_string())
}

/// Messages that are none of the protocol's, some of them of the same kind.
fn odd_messages() -> Vec<Message> {
    let half = format!("{{\"serverContent\": {{\"outputTranscription\": {{\"text\": \"{CONTENT}");
    vec![
        Message::text(CONTENT),
        Message::text(format!("{CONTENT} {CONTENT}")),
        Message::text(half),
        Message::text(""),
        Message::text("[]"),
        Message::text("null"),
        Message::binary(vec![0xff, 0xfe, 0]),
        text(&json!({})),
        text(&json!({"novelty": {"words": CONTENT}})),
        text(&json!({"novelty": {"words": CONTENT}})),
        text(&json!({"serverContent": CONTENT})),
        text(&json!({"serverContent": {"modelTurn": {"parts": CONTENT}}})),
        text(&json!({"serverContent": {"modelTurn": {"parts": [
            {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "no base64!"}}]}}})),
        text(&json!({"toolCallCancellation": {"ids": ["nobody"]}})),
        text(&json!({"setupComplete": {}})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_messages_of_a_provider_end_no_session_and_are_logged_once_a_kind() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Provider::open().await;
    let mut server = command(folder.path());
    server
        .args(["serve", "--listen", "127.0.0.1:0", "--provider-url"])
        .arg(&provider.url)
        .args(folders(&folder.path().join("data")));
    let mut server = Running::start(&mut server);
    let address = server.address();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    let mut peer = provider.accept().await;
    peer.until(&["setup"]).await;
    peer.send(&json!({"setupComplete": {}})).await;
    client.say("Hello.").await;
    peer.until(&["realtimeInput", "clientContent"]).await;
    for (number, odd) in odd_messages().into_iter().enumerate() {
        peer.send_raw(odd).await;
        // A sound message behind it is understood.
        let words = format!("word-{number}");
        peer.send(&json!({"serverContent": {"outputTranscription": {"text": words}}}))
            .await;
        loop {
            let piece = client.expect("transcript").await;
            if piece["text"] == words.as_str() {
                break;
            }
        }
    }
    peer.send(&json!({"goAway": {"timeLeft": "50s"}})).await;
    peer.send(&json!({"serverContent": {"turnComplete": true}}))
        .await;
    client.expect("turn_complete").await;
    server.signal("-TERM");
    client.expect("session_complete").await;
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains(CONTENT), "{log}");
    let said = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(said("it is no JSON"), 1, "{log}");
    assert_eq!(said("no UTF-8"), 1, "{log}");
    assert_eq!(said("novelty"), 1, "{log}");
    assert_eq!(said("no base64"), 1, "{log}");
    assert_eq!(
        said("the provider announced the connection's end"),
        1,
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_messages_of_a_client_are_answered_with_errors_until_there_are_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = command(folder.path());
    server
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(folders(&folder.path().join("data")));
    let mut server = Running::start(&mut server);
    let address = server.address();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    let before = [
        (json!(CONTENT), "bad_message"),
        (json!([]), "bad_message"),
        (json!({"text": CONTENT}), "bad_message"),
        (json!({"type": "text"}), "bad_message"),
        (json!({"type": "text", "text": 5}), "bad_message"),
        (json!({"type": "fly"}), "unknown_type"),
        (json!({"type": "audio", "data": "no base64!"}), "bad_audio"),
        (
            json!({"type": "text", "text": "a".repeat(1 << 20)}),
            "too_large",
        ),
    ];
    let mut codes = Vec::new();
    for (message, _) in &before {
        client.send(message.clone()).await;
        codes.push(client.expect("error").await["code"].clone());
    }
    let expected: Vec<&str> = before.iter().map(|(_, code)| *code).collect();
    assert_eq!(codes, expected);
    client.say("Who designed the ship Fram?").await;
    client.expect("tool_call_finished").await;

    let (mut endless, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    for _ in 0..20 {
        endless.send(json!(CONTENT)).await;
    }
    assert_eq!(endless.expect_close().await, 1008);
    // The next client is served.
    let (mut next, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    next.say("Who designed the ship Fram?").await;
    next.expect("tool_call_finished").await;
    server.signal("-TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains(CONTENT), "{log}");
}
