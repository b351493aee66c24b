//! How many sessions a server holds: a slot belongs to a session, from its begin until nothing of it runs any more, and to no
//! connection.

use crate::support::peers::{Peer, Setting, Stage, call};
use crate::support::tools::tool;
use crate::support::{ledger_over, memory_store};
use serde_json::{Value, json};
use std::sync::{Arc, Weak};
use tokio::sync::Semaphore;
use windlass_contract::handler::{Execution, Success};
use windlass_contract::kind::SideEffects;
use windlass_contract::registry::Tool;
use windlass_runtime::voice::VoiceSettings;

/// A service that holds one session.
fn one() -> Setting {
    Setting {
        settings: VoiceSettings {
            sessions_max: 1,
            ..VoiceSettings::default()
        },
        ..Setting::default()
    }
}

/// That of a client of another conversation than the one of the stage.
fn start() -> Value {
    json!({ "type": "start", "conversationId": "c-2" })
}

async fn overloaded(mut client: Peer, start: Value) {
    client.send(start).await;
    assert_eq!(client.until("error").await["code"], "overloaded");
    assert_eq!(client.until("close").await["close"], 1013);
}

async fn until_gone(watched: &Weak<()>) {
    while watched.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
}

/// A change that has begun, and ends when it is let.
fn order(has_begun: &Arc<Semaphore>, may_end: &Arc<Semaphore>) -> Tool {
    let (has_begun, may_end) = (has_begun.clone(), may_end.clone());
    Tool {
        side_effects: SideEffects::Writes,
        ..tool("order", move |_| {
            has_begun.add_permits(1);
            let may_end = may_end.clone();
            Execution::Pending(Box::pin(async move {
                may_end.acquire().await.unwrap().forget();
                Ok(Success::new(json!({ "order": 1 })))
            }))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_has_its_slot_until_its_last_change_has_ended() {
    let (has_begun, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let setting = Setting {
        tools: vec![order(&has_begun, &may_end)],
        ..one()
    };
    let (mut stage, mut provider) = Stage::running(setting).await;
    overloaded(stage.another_client().await, start()).await;
    provider.send(call("call-00001", "order", json!({}))).await;
    has_begun.acquire().await.unwrap().forget();
    stage.client.send(json!({ "type": "stop" })).await;
    stage.client.until("session_complete").await;
    overloaded(stage.another_client().await, start()).await;
    may_end.add_permits(1);
    let Stage { served, .. } = &mut stage;
    served.await.unwrap();

    let mut next = stage.another_client().await;
    next.send(start()).await;
    let started = next.until("started").await;
    // Nobody was asked for those that were refused.
    assert_eq!(started["sessionId"], "s-2");
    overloaded(stage.another_client().await, start()).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_needs_no_slot() {
    let (mut stage, _provider) = Stage::running(one()).await;
    stage.lose_client().await;
    overloaded(stage.another_client().await, start()).await;
    let mut client = stage.another_client().await;
    client
        .send(json!({ "type": "start", "resume": "resume-me" }))
        .await;
    let started = client.until("started").await;
    assert_eq!(started["sessionId"], "s-1");
    // Also where it was not missed yet.
    let mut again = stage.another_client().await;
    again
        .send(json!({ "type": "start", "resume": started["resumeToken"] }))
        .await;
    assert_eq!(again.until("started").await["sessionId"], "s-1");
    assert_eq!(client.until("close").await["close"], 1000);
    overloaded(stage.another_client().await, start()).await;
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_begins_anew_gets_the_slot_that_it_has_left() {
    let (mut stage, _provider) = Stage::running(one()).await;
    stage.lose_client().await;
    overloaded(stage.another_client().await, start()).await;
    let anew = json!({ "type": "start", "conversationId": "c-1" });
    let mut client = stage.another_client().await;
    client.send(anew).await;
    assert_eq!(client.until("started").await["sessionId"], "s-2");
    // The session that waited ends for it, and gives back nothing that is the other one's by now.
    let Stage { served, .. } = &mut stage;
    served.await.unwrap();
    overloaded(stage.another_client().await, start()).await;
}

#[tokio::test]
async fn a_token_stays_good_whose_session_finds_no_slot_in_the_next_process() {
    let ledger = ledger_over(memory_store());
    let setting = |number| Setting {
        ledger: Some(ledger.clone()),
        number,
        ..one()
    };
    let (first, _provider) = Stage::running(setting(1)).await;
    first.served.abort();

    let mut stage = Stage::set(setting(2)).await;
    stage.start().await;
    let resume = json!({ "type": "start", "resume": "resume-me" });
    for _ in 0..2 {
        overloaded(stage.another_client().await, resume.clone()).await;
    }
    // A token that leads nowhere is no better for it.
    let mut stranger = stage.another_client().await;
    stranger
        .send(json!({ "type": "start", "resume": "no-such-token" }))
        .await;
    assert_eq!(stranger.until("error").await["code"], "resume_refused");
    stage.client.send(json!({ "type": "stop" })).await;
    stage.client.until("close").await;
    let client = stage.another_client().await;
    drop(std::mem::replace(&mut stage.client, client));
    let Stage { served, .. } = &mut stage;
    served.await.unwrap();
    stage.client.send(resume).await;
    let started = stage.client.until("started").await;
    assert_eq!(
        (&started["sessionId"], &started["conversationId"]),
        (&json!("s-1"), &json!("c-1"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_waits_to_begin_until_it_has_a_session_or_is_gone() {
    let stage = Stage::set(one()).await;
    let lease = Arc::new(());
    let (watched, mut first) = (Arc::downgrade(&lease), stage.client_with(lease).await);
    first.until("connected").await;
    assert!(watched.upgrade().is_some());
    first.send(start()).await;
    let started = first.until("started").await;
    assert!(watched.upgrade().is_none());

    let lease = Arc::new(());
    let (watched, refused) = (Arc::downgrade(&lease), stage.client_with(lease).await);
    overloaded(refused, start()).await;
    until_gone(&watched).await;

    let lease = Arc::new(());
    let (watched, mut back) = (Arc::downgrade(&lease), stage.client_with(lease).await);
    back.send(json!({ "type": "start", "resume": started["resumeToken"] }))
        .await;
    back.until("started").await;
    until_gone(&watched).await;
}
