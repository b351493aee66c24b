//! Peers that take nothing or say nothing: a session never waits for one, and never grows because of one.

use crate::support::peers::{Setting, Stage, voice};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_loses_audio_first_and_then_its_session() {
    let (stage, mut provider) = Stage::running(Setting::default()).await;
    let frame = voice(48_000).to_string();
    let mut sent = 0;
    // Without a limit this would never end: the client takes nothing at all.
    while provider.try_send(Message::text(frame.clone())).await && sent < 2_000 {
        sent += 1;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(sent < 2_000);
    stage.served.await.unwrap();
    assert!(stage.events.saw("ClientLost"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanished_without_a_word_is_given_up() {
    let (stage, mut provider) = Stage::running(Setting::default()).await;
    // The client's end stays open and says nothing, not even to pings.
    let _silent = stage.client;
    assert_eq!(provider.rest().await, [json!({ "close": 1000 })]);
    stage.served.await.unwrap();
    assert!(stage.events.saw("ClientLost"));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_never_reads_costs_audio_and_not_the_session() {
    let (mut stage, _provider) = Stage::running(Setting::default()).await;
    for _ in 0..600 {
        stage
            .client
            .send_raw(Message::binary(vec![0_u8; 6_400]))
            .await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    stage.client.send(json!({ "type": "ping" })).await;
    stage.client.until("pong").await;
}
