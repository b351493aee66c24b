//! What clients may not send, and what that costs them: an error with its code, and only in the end the session.

use crate::support::peers::{Setting, Stage, binary, no_text};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message;
use windlass_runtime::metrics::Metrics;
use windlass_runtime::voice::Refusal;
use windlass_session::client::ErrorCode;

/// Sends one bad message and expects the error, and that the connection goes on.
async fn check(stage: &mut Stage, bad: Message, code: &str) {
    stage.client.send_raw(bad).await;
    let error = stage.client.until("error").await;
    assert_eq!(error["code"], code, "{error}");
    assert!(!error["message"].as_str().unwrap().is_empty());
    stage.client.send(json!({ "type": "ping" })).await;
    let pong = stage.client.until("pong").await;
    assert!(pong["timestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_bad_message_before_start_is_answered_and_survived() {
    let mut stage = Stage::set(Setting::default()).await;
    for (bad, code) in [
        (Message::text("hello"), "bad_message"),
        (Message::text(r#"{"type":"fly"}"#), "unknown_type"),
        (binary(640), "not_started"),
        (
            Message::text(r#"{"type":"audio","data":"AAAA"}"#),
            "not_started",
        ),
        (
            Message::text(r#"{"type":"text","text":"hi"}"#),
            "not_started",
        ),
        (Message::text("x".repeat((1 << 20) + 1)), "too_large"),
        (binary(64 * 1024 + 1), "too_large"),
    ] {
        check(&mut stage, bad, code).await;
    }
    stage.start().await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_message_in_a_session_is_answered_and_survived() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    for (bad, code) in [
        (Message::text("{"), "bad_message"),
        (Message::text(r#"{"type":"fly"}"#), "unknown_type"),
        (Message::text(r#"["text","Hello."]"#), "bad_message"),
        (Message::text("null"), "bad_message"),
        (Message::text(r#"{"type":"text"}"#), "bad_message"),
        (Message::text(r#"{"type":"text","text":7}"#), "bad_message"),
        (Message::text(r#"{"type":"confirm"}"#), "bad_message"),
        (Message::text(r#"{"type":"start"}"#), "SESSION_ACTIVE"),
        (binary(641), "bad_audio"),
        (binary(64 * 1024 + 1), "too_large"),
        (Message::text("x".repeat((1 << 20) + 1)), "too_large"),
        (
            Message::text(r#"{"type":"audio","data":"%%"}"#),
            "bad_audio",
        ),
        (
            Message::text(r#"{"type":"image","mimeType":"image/png","data":"AQ=="}"#),
            "unsupported",
        ),
    ] {
        check(&mut stage, bad, code).await;
    }
    stage.client.send_raw(binary(640)).await;
    provider.until("realtimeInput").await;
}

#[tokio::test(start_paused = true)]
async fn twenty_bad_messages_end_the_connection() {
    let (mut stage, _provider) = Stage::running(Setting::default()).await;
    for _ in 0..20 {
        stage.client.send_raw(Message::text("no")).await;
    }
    let said = stage.client.rest().await;
    let errors = said.iter().filter(|message| message["type"] == "error");
    assert_eq!(errors.count(), 20);
    assert_eq!(said.last(), Some(&json!({ "close": 1008 })));
    stage.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn audio_at_twenty_times_real_time_is_dropped_with_one_error() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    let reader = tokio::spawn(async move {
        let mut bytes = 0;
        while let Some(data) = provider.next().await["realtimeInput"]["audio"]["data"].as_str() {
            bytes += data.len() / 4 * 3;
        }
        bytes
    });
    // Sixteen seconds of audio at once.
    for _ in 0..16 {
        stage.client.send_raw(binary(32_000)).await;
    }
    let error = stage.client.until("error").await;
    assert_eq!(error["code"], "audio_overflow");
    stage.client.send(json!({ "type": "stop" })).await;
    let said: Vec<Value> = stage.client.rest().await;
    assert!(said.iter().all(|message| message["type"] != "error"));
    stage.served.await.unwrap();
    let passed = reader.await.unwrap();
    assert!(passed <= 5 * 32_000 + 640, "{passed}");
}

/// Four times real time is let through, as docs/voice-protocol.md says.
#[tokio::test(start_paused = true)]
async fn audio_that_stays_at_twenty_times_real_time_passes_at_four_times() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    let reader = tokio::spawn(async move {
        let mut bytes = 0;
        while let Some(data) = provider.next().await["realtimeInput"]["audio"]["data"].as_str() {
            bytes += data.len() / 4 * 3;
        }
        bytes
    });
    // Ten seconds. Two seconds of audio come in each of them.
    for _ in 0..100 {
        for _ in 0..2 {
            stage.client.send_raw(binary(32_000)).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    stage.client.send(json!({ "type": "stop" })).await;
    let said: Vec<Value> = stage.client.rest().await;
    let errors = said.iter().filter(|message| message["type"] == "error");
    let codes: Vec<&Value> = errors.map(|error| &error["code"]).collect();
    assert_eq!(codes, ["audio_overflow"]);
    stage.served.await.unwrap();
    let passed = reader.await.unwrap();
    let allowed = (5 + 4 * 10) * 32_000;
    assert!(passed <= allowed + 640, "{passed}");
    assert!(passed + 2 * 32_000 >= allowed, "{passed}");
}

#[tokio::test(start_paused = true)]
async fn dropped_audio_is_counted_while_the_session_goes_on_and_all_of_it_once() {
    let metrics = Arc::new(Metrics::default());
    let (mut stage, _provider) = Stage::running(Setting {
        watched_by: Some(metrics.clone()),
        ..Setting::default()
    })
    .await;
    for _ in 0..16 {
        stage.client.send_raw(binary(32_000)).await;
    }
    stage.client.until("error").await;
    let counted = |kind: &str| metrics.json()["audio"][kind].as_u64().unwrap();
    assert!(counted("microphoneOverflowBytes") > 0);
    stage.client.send(json!({ "type": "stop" })).await;
    stage.client.rest().await;
    stage.served.await.unwrap();
    let all = counted("microphoneBytes") + counted("microphoneOverflowBytes");
    assert_eq!(all, 16 * 32_000);
}

#[tokio::test(start_paused = true)]
async fn a_text_message_that_is_not_utf8_ends_the_connection() {
    let mut stage = Stage::set(Setting::default()).await;
    stage.client.send_raw(no_text()).await;
    let said = stage.client.rest().await;
    assert_eq!(said.last(), Some(&json!({ "close": 1007 })));
    stage.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_no_start_is_sent_away() {
    let mut stage = Stage::set(Setting::default()).await;
    let said = stage.client.rest().await;
    assert_eq!(said[1]["code"], "not_started");
    assert_eq!(said.last(), Some(&json!({ "close": 1008 })));
    stage.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_blocked_user_is_told_until_when() {
    let mut stage = Stage::set(Setting {
        host_refuses: Some(Refusal::Blocked {
            now_unix_ms: 1_000_000,
            until_unix_ms: 1_059_500,
            farewell_message: "Come back later.".into(),
        }),
        ..Setting::default()
    })
    .await;
    stage.client.send(json!({ "type": "start" })).await;
    assert_eq!(
        stage.client.until("timeout").await,
        json!({
            "type": "timeout", "durationSeconds": 60, "timeoutUntil": 1_059_500,
            "farewellMessage": "Come back later."
        })
    );
    assert_eq!(stage.client.rest().await, [json!({ "close": 1000 })]);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_in_voice_already_is_refused() {
    let mut stage = Stage::set(Setting {
        host_refuses: Some(Refusal::Error {
            code: ErrorCode::SessionActive,
            message: "the conversation is in a voice session already".into(),
        }),
        ..Setting::default()
    })
    .await;
    stage.client.send(json!({ "type": "start" })).await;
    assert_eq!(stage.client.until("error").await["code"], "SESSION_ACTIVE");
    assert_eq!(stage.client.rest().await, [json!({ "close": 1008 })]);
}
