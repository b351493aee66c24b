//! Providers that refuse, fall silent, or talk nonsense.

use crate::support::peers::{Setting, Stage, close_with, voice};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use windlass_runtime::transport::websocket::ConnectError;

fn refused(status: u16, body: &str) -> Option<ConnectError> {
    Some(ConnectError::Refused {
        host: "provider".to_owned(),
        status,
        body: body.as_bytes().to_vec().into(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_be_reached_is_named_to_the_client() {
    for (provider_refuses, code) in [
        (refused(401, ""), "provider_auth"),
        (refused(403, ""), "provider_auth"),
        (
            refused(
                400,
                r#"{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}"#,
            ),
            "provider_auth",
        ),
        (
            refused(400, "API key not valid. Please pass a valid API key."),
            "provider_auth",
        ),
        (refused(400, "no such setup"), "provider_unavailable"),
        (refused(429, ""), "provider_unavailable"),
        (refused(503, ""), "provider_unavailable"),
        (
            Some(ConnectError::Unreachable {
                host: "provider".into(),
                port: 443,
                problem: "connection refused".into(),
            }),
            "provider_unavailable",
        ),
    ] {
        let mut stage = Stage::set(Setting {
            provider_refuses,
            ..Setting::default()
        })
        .await;
        stage.start().await;
        assert_eq!(stage.client.until("error").await["code"], code);
        let said = stage.client.rest().await;
        assert_eq!(said.last(), Some(&json!({ "close": 1011 })));
        stage.served.await.unwrap();
        assert!(stage.events.saw("ProviderLost"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_before_the_setup_is_accepted_is_told_by_its_meaning() {
    for (code, reason, expected) in [
        (
            1007,
            "Request contains an invalid argument.",
            "provider_unavailable",
        ),
        (
            1008,
            "API key not valid. Please pass a valid API key.",
            "provider_auth",
        ),
        (1011, "Internal error occurred.", "provider_unavailable"),
    ] {
        let mut stage = Stage::set(Setting::default()).await;
        stage.start().await;
        let mut provider = stage.provider().await;
        provider.until("setup").await;
        provider.send_raw(close_with(code, reason)).await;
        let error = stage.client.until("error").await;
        assert_eq!(error["code"], expected, "{code} {reason}");
        stage.served.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_setup_that_is_never_answered_ends_the_session() {
    let mut stage = Stage::set(Setting::default()).await;
    stage.start().await;
    let mut provider = stage.provider().await;
    provider.until("setup").await;
    let error = stage.client.until("error").await;
    assert_eq!(error["code"], "provider_unavailable");
    assert!(
        stage
            .events
            .saw("ProviderLost { generation: 1, reason: SetupTimeout }")
    );
}

#[tokio::test(start_paused = true)]
async fn a_setup_whose_answer_cannot_be_read_is_tried_once_more() {
    let mut stage = Stage::set(Setting::default()).await;
    stage.start().await;
    for _ in 0..2 {
        let mut provider = stage.provider().await;
        provider.until("setup").await;
        provider.send_raw(Message::text("{\"setupComp")).await;
        drop(provider);
    }
    let error = stage.client.until("error").await;
    assert_eq!(error["code"], "provider_unavailable");
    stage.served.await.unwrap();
    for generation in [1, 2] {
        let lost = format!("ProviderLost {{ generation: {generation}, reason: SetupUnreadable }}");
        assert!(stage.events.saw(&lost), "{generation}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_in_the_middle_ends_the_session() {
    let (mut stage, provider) = Stage::running(Setting::default()).await;
    drop(provider);
    let error = stage.client.until("error").await;
    assert_eq!(error["code"], "provider_unavailable");
    stage.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_model_that_says_nothing_for_thirty_seconds_is_reported() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    stage
        .client
        .send(json!({ "type": "text", "text": "Hello?" }))
        .await;
    provider.until("realtimeInput").await;
    let error = stage.client.until("error").await;
    assert_eq!(error["code"], "provider_silent");
}

#[tokio::test(start_paused = true)]
async fn nonsense_from_the_provider_is_recorded_and_survived() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    for nonsense in [
        Message::text("no json"),
        Message::binary(vec![0xff, 0xfe]),
        Message::text("[]"),
        Message::text(r#"{"serverContent": 7}"#),
        Message::text(r#"{"somethingNew": {"deep": 1}}"#),
        Message::text("x".repeat(1_500_000)),
    ] {
        provider.send_raw(nonsense).await;
    }
    provider.send(voice(960)).await;
    assert_eq!(stage.client.until("pcm").await, json!({ "pcm": 960 }));
    assert!(stage.events.saw("ProviderOddity"));
}
