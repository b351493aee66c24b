//! Providers that go away, hang up or refuse, and sessions that go on without them.

use crate::support::peers::{Peer, Setting, Stage, binary, call, close_with, turn_end, voice};
use crate::support::tools::tool;
use serde_json::{Value, json};
use windlass_contract::handler::{Execution, Success};
use windlass_contract::intent::{EndAfter, Intent};
use windlass_contract::registry::Tool;

fn handle(text: &str) -> Value {
    json!({ "sessionResumptionUpdate": { "newHandle": text, "resumable": true } })
}

fn handle_of(setup: &Value) -> Option<&str> {
    setup["setup"]["sessionResumption"]["handle"].as_str()
}

async fn hear(provider: &mut Peer, text: &str) {
    let content = json!({ "serverContent": { "inputTranscription": { "text": text } } });
    provider.send(content).await;
}

async fn say(provider: &mut Peer, text: &str) {
    let content = json!({ "serverContent": { "outputTranscription": { "text": text } } });
    provider.send(content).await;
}

/// A session that has had one turn, with a handle where there is one.
async fn after_one_turn(newest: Option<&str>) -> (Stage, Peer) {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    hear(&mut provider, "Hello.").await;
    say(&mut provider, "Hi.").await;
    provider.send(turn_end()).await;
    stage.client.until("turn_complete").await;
    if let Some(newest) = newest {
        provider.send(handle(newest)).await;
    }
    (stage, provider)
}

/// The next connection, its setup accepted.
async fn next_connection(stage: &mut Stage) -> (Peer, Value) {
    let mut provider = stage.provider().await;
    let setup = provider.until("setup").await;
    provider.send(json!({ "setupComplete": {} })).await;
    (provider, setup)
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_after_its_connection_broke() {
    for code in [None, Some(1008), Some(1011)] {
        let (mut stage, mut provider) = after_one_turn(Some("h-1")).await;
        match code {
            Some(code) => {
                provider.send_raw(close_with(code, "Internal error")).await;
                let answered = provider.rest().await.pop();
                assert_eq!(answered, Some(json!({ "close": code })));
            }
            None => drop(provider),
        }
        let told = stage.client.until("reconnecting").await;
        assert_eq!(told["attempt"], 1);
        stage.client.send_raw(binary(3_200)).await;
        let (mut provider, setup) = next_connection(&mut stage).await;
        assert_eq!(handle_of(&setup), Some("h-1"), "{code:?}");
        stage.client.until("reconnected").await;
        let audio = provider.until("realtimeInput").await;
        assert!(audio["realtimeInput"]["audio"].is_object(), "{audio}");
        say(&mut provider, "Still here.").await;
        assert_eq!(
            stage.client.until("transcript").await["text"],
            "Still here."
        );
        assert!(
            stage
                .events
                .saw("ProviderConnected { generation: 2, resumed: true }")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_is_put_to_the_next_connection() {
    let (mut stage, mut provider) = after_one_turn(None).await;
    hear(&mut provider, "Who built Fram?").await;
    say(&mut provider, "Colin").await;
    stage.client.until("model_generating").await;
    drop(provider);
    let (mut provider, setup) = next_connection(&mut stage).await;
    assert_eq!(handle_of(&setup), None);
    let history = provider.until("clientContent").await;
    let text = history.to_string();
    assert!(text.contains("Hello.") && text.contains("Hi."), "{text}");
    assert!(!text.contains("Fram"), "{text}");
    let question = provider.until("realtimeInput").await;
    assert_eq!(question["realtimeInput"]["text"], "Who built Fram?");
}

#[tokio::test(start_paused = true)]
async fn an_announced_end_closes_the_old_socket_before_the_next_is_opened() {
    for answers_the_close in [true, false] {
        let (mut stage, mut provider) = after_one_turn(Some("h-1")).await;
        provider
            .send(json!({ "goAway": { "timeLeft": "50s" } }))
            .await;
        assert_eq!(provider.until("close").await["close"], 1000);
        if answers_the_close {
            // Reading on lets the other implementation answer.
            assert_eq!(provider.next().await, Value::Null);
        }
        let (mut next, setup) = next_connection(&mut stage).await;
        assert_eq!(handle_of(&setup), Some("h-1"));
        stage
            .client
            .send(json!({ "type": "text", "text": "Go on." }))
            .await;
        let typed = next.until("realtimeInput").await;
        assert_eq!(typed["realtimeInput"]["text"], "Go on.");
        drop(provider);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_after_an_announced_end_is_not_waited_for() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    hear(&mut provider, "Hello.").await;
    provider
        .send(json!({ "goAway": { "timeLeft": "10s" } }))
        .await;
    let (mut next, setup) = next_connection(&mut stage).await;
    assert_eq!(handle_of(&setup), None);
    let question = next.until("realtimeInput").await;
    assert_eq!(question["realtimeInput"]["text"], "Hello.");
    drop(provider);
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_is_refused_twice_is_followed_by_a_fresh_session() {
    for code in [Some(1007), Some(1008), Some(1011), None] {
        let (mut stage, provider) = after_one_turn(Some("h-1")).await;
        drop(provider);
        for _ in 0..2 {
            let mut refusing = stage.provider().await;
            let setup = refusing.until("setup").await;
            assert_eq!(handle_of(&setup), Some("h-1"), "{code:?}");
            match code {
                Some(code) => refusing.send_raw(close_with(code, "not found")).await,
                None => drop(refusing),
            }
        }
        let (mut provider, setup) = next_connection(&mut stage).await;
        assert_eq!(handle_of(&setup), None, "{code:?}");
        let history = provider.until("clientContent").await.to_string();
        assert!(history.contains("Hi."), "{history}");
        stage.client.until("reconnected").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_announces_the_end_of_each_connection_is_not_called_without_pause() {
    let (mut stage, mut provider) = after_one_turn(None).await;
    let began = tokio::time::Instant::now();
    let mut quarters = Vec::new();
    for _ in 0..8 {
        let leave = json!({ "goAway": { "timeLeft": "0s" } });
        provider.send(leave).await;
        assert_eq!(provider.until("close").await["close"], 1000);
        // Reading on lets the other implementation answer.
        assert_eq!(provider.next().await, Value::Null);
        provider = next_connection(&mut stage).await.0;
        quarters.push(began.elapsed().as_millis() / 250);
    }
    assert_eq!(
        quarters,
        [0, 0, 1, 3, 7, 15, 31, 71],
        "quarters of a second"
    );
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_stays_away_ends_the_session_after_so_many_attempts() {
    let (mut stage, provider) = after_one_turn(None).await;
    drop(provider);
    for _ in 0..6 {
        drop(stage.provider().await);
    }
    let error = stage.client.until("error").await;
    assert_eq!(error["code"], "provider_unavailable");
    assert_eq!(
        stage.client.rest().await.last(),
        Some(&json!({ "close": 1011 }))
    );
    stage.served.await.unwrap();
}

/// Ends the session once its farewell has been heard.
fn bye() -> Tool {
    tool("bye", |_| {
        let mut success = Success::new(json!({}));
        success.intents = vec![Intent::EndVoiceSession {
            after: EndAfter::FarewellSpoken,
            reason: None,
            closing_message: None,
            text_response: None,
        }];
        Execution::Ready(Ok(success))
    })
}

#[tokio::test(start_paused = true)]
async fn a_farewell_is_heard_to_its_end_though_its_connection_ends() {
    for is_left in [false, true] {
        let (mut stage, mut provider) = Stage::running(Setting {
            tools: vec![bye()],
            ..Setting::default()
        })
        .await;
        hear(&mut provider, "Goodbye.").await;
        provider.send(call("call-0000001", "bye", json!({}))).await;
        provider.until("toolResponse").await;
        for _ in 0..3 {
            provider.send(voice(2 * 48_000)).await;
        }
        let generated = json!({ "serverContent": { "generationComplete": true } });
        provider.send(generated).await;
        if is_left {
            let soon = json!({ "goAway": { "timeLeft": "6s" } });
            provider.send(soon).await;
        }
        stage.client.until("pcm").await;
        let began = tokio::time::Instant::now();
        if !is_left {
            drop(provider);
        }
        let (_next, _) = next_connection(&mut stage).await;
        stage.client.until("end_voice_session").await;
        // Six seconds of it, and what is waited for behind.
        assert_eq!(began.elapsed().as_millis() / 100, 75, "{is_left}");
    }
}
