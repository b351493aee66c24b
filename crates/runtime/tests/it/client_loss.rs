//! Clients that lose their connection and come back to their session.

use crate::support::peers::{Peer, Setting, Stage, binary, call, turn_end, voice};
use crate::support::tools::{ready, tool};
use serde_json::{Value, json};
use windlass_contract::registry::Tool;

async fn running() -> (Stage, Peer) {
    Stage::running(Setting::default()).await
}

async fn say(provider: &mut Peer, text: &str) {
    let content = json!({ "serverContent": { "outputTranscription": { "text": text } } });
    provider.send(content).await;
}

fn resume(token: &str) -> Value {
    json!({ "type": "start", "resume": token })
}

async fn resumed(stage: &Stage, token: &str) -> (Peer, Value) {
    let mut client = stage.another_client().await;
    client.send(resume(token)).await;
    let started = client.until("started").await;
    (client, started)
}

async fn refused(stage: &Stage, start: Value) {
    let mut client = stage.another_client().await;
    client.send(start).await;
    assert_eq!(client.until("error").await["code"], "resume_refused");
    assert_eq!(client.until("close").await["close"], 1008);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_hears_what_it_missed_and_goes_on() {
    let (mut stage, mut provider) = running().await;
    provider.send(voice(960)).await;
    stage.client.until("pcm").await;
    stage.lose_client().await;
    say(&mut provider, "Colin Archer.").await;
    provider.send(turn_end()).await;
    stage.until_seen("TurnEnded").await;
    let (mut client, started) = resumed(&stage, "resume-me").await;
    assert_eq!(started["sessionId"], "s-1");
    assert_eq!(started["resumeToken"], "resume-me");
    assert_eq!(client.until("transcript").await["text"], "Colin Archer.");
    client.until("turn_complete").await;
    client.send_raw(binary(3_200)).await;
    provider.until("realtimeInput").await;
    provider.send(voice(960)).await;
    client.until("pcm").await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_with_its_first_start_asks_for_nothing_twice() {
    let mut stage = Stage::set(Setting::default()).await;
    let mut start = json!({
        "type": "start",
        "conversationHistory": [{ "role": "user", "content": "Which ship?" }],
        "pendingRequest": "Order tea.",
    });
    stage.client.send(start.clone()).await;
    stage.client.until("started").await;
    let mut provider = stage.provider().await;
    provider.until("setup").await;
    provider.send(json!({ "setupComplete": {} })).await;
    let asked = provider.until("realtimeInput").await;
    assert_eq!(asked["realtimeInput"]["text"], "Order tea.");
    stage.lose_client().await;
    start["resume"] = json!("resume-me");
    let mut client = stage.another_client().await;
    client.send(start).await;
    client.until("started").await;
    let typed = json!({ "type": "text", "text": "And milk." });
    client.send(typed).await;
    let next = provider.next().await;
    assert_eq!(next["realtimeInput"]["text"], "And milk.", "{next}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_is_asked_once_what_it_missed() {
    let order = Tool {
        requires_confirmation: true,
        ..tool("order", |_| ready(json!({ "order": 1 })))
    };
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![order],
        ..Setting::default()
    })
    .await;
    stage.lose_client().await;
    provider
        .send(call("call-00001", "order", json!({ "text": "tea" })))
        .await;
    stage.until_seen("ConfirmationRequested").await;
    let (mut client, _) = resumed(&stage, "resume-me").await;
    let question = client.until("confirmation_request").await;
    let answer = json!({ "type": "confirm", "token": question["token"], "approved": true });
    client.send(answer).await;
    let next = loop {
        let message = client.next().await;
        let kind = message["type"].as_str().unwrap();
        if kind.starts_with("confirmation_") {
            break message;
        }
    };
    assert_eq!(next["ok"], true, "{next}");
}

#[tokio::test(start_paused = true)]
async fn a_token_leads_back_as_often_as_its_client_is_lost() {
    let (mut stage, mut provider) = running().await;
    for _ in 0..3 {
        stage.lose_client().await;
        (stage.client, _) = resumed(&stage, "resume-me").await;
        provider.send(voice(960)).await;
        stage.client.until("pcm").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_not_missed_yet_takes_its_own_place() {
    let (mut stage, mut provider) = running().await;
    let (mut client, _) = resumed(&stage, "resume-me").await;
    assert_eq!(stage.client.until("close").await["close"], 1000);
    provider.send(voice(960)).await;
    client.until("pcm").await;
}

#[tokio::test(start_paused = true)]
async fn after_a_minute_the_session_is_over() {
    let (mut stage, _provider) = running().await;
    stage.lose_client().await;
    let Stage { served, .. } = &mut stage;
    served.await.unwrap();
    assert!(stage.events.saw("SessionEnded { reason: ClientLost }"));
    assert!(stage.lease.upgrade().is_none());
    refused(&stage, resume("resume-me")).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_start_of_a_conversation_that_was_left_frees_its_place() {
    let (mut stage, _provider) = running().await;
    let mut next = stage.another_client().await;
    stage.lose_client().await;
    next.send(json!({ "type": "start", "conversationId": "c-1" }))
        .await;
    next.until("started").await;
    assert!(stage.lease.upgrade().is_none());
    let Stage { served, .. } = &mut stage;
    served.await.unwrap();
}
