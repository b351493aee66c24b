//! The course of a voice session: start, audio both ways, turns, interruption, end.

use crate::support::peers::{Setting, Stage, binary, call, turn_end, voice};
use crate::support::tools::echo;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn a_client_is_greeted_and_told_what_its_session_is() {
    let mut stage = Stage::set(Setting {
        tools: vec![echo()],
        ..Setting::default()
    })
    .await;
    let connected = stage.client.next().await;
    assert_eq!(connected["type"], "connected");
    assert_eq!(connected["clientId"], "client-1");
    assert!(connected["timestamp"].as_str().unwrap().ends_with('Z'));
    stage.client.send(json!({ "type": "start" })).await;
    assert_eq!(
        stage.client.next().await,
        json!({
            "type": "started", "sessionId": "s-1", "conversationId": "c-1", "mode": "voice",
            "resumeToken": "resume-me", "registryVersion": "1.0.test0000", "tools": ["echo"]
        })
    );
    let setup = stage.provider().await.until("setup").await;
    assert_eq!(setup["setup"]["model"], "models/test");
    assert_eq!(
        setup["setup"]["tools"][0]["functionDeclarations"][0]["name"],
        "echo"
    );
}

#[tokio::test(start_paused = true)]
async fn audio_before_the_provider_is_ready_is_kept_and_comes_after_the_history() {
    let mut stage = Stage::set(Setting::default()).await;
    let history = json!([{ "role": "user", "content": "Hi" }]);
    let start = json!({ "type": "start", "conversationHistory": history });
    stage.client.send(start).await;
    stage.client.until("started").await;
    stage.client.send_raw(binary(640)).await;
    stage.client.send_raw(binary(320)).await;
    let mut provider = stage.provider().await;
    provider.until("setup").await;
    provider.send(json!({ "setupComplete": {} })).await;
    let first = provider.next().await;
    assert!(first.get("clientContent").is_some(), "{first}");
    let second = provider.next().await;
    let data = second["realtimeInput"]["audio"]["data"].as_str().unwrap();
    let pcm = base64_simd::STANDARD.decode_to_vec(data).unwrap();
    assert_eq!(pcm.len(), 960);
}

#[tokio::test(start_paused = true)]
async fn audio_passes_both_ways() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    for bytes in [640, 2, 65_536] {
        stage.client.send_raw(binary(bytes)).await;
        let message = provider.until("realtimeInput").await;
        let audio = &message["realtimeInput"]["audio"];
        assert_eq!(audio["mimeType"], "audio/pcm;rate=16000");
        let data = audio["data"].as_str().unwrap();
        assert_eq!(
            base64_simd::STANDARD.decode_to_vec(data).unwrap().len(),
            bytes
        );
    }
    provider.send(voice(960)).await;
    assert_eq!(stage.client.until("pcm").await, json!({ "pcm": 960 }));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_for_json_gets_audio_as_base64_and_may_send_it_so() {
    let mut stage = Stage::set(Setting::default()).await;
    let start = json!({ "type": "start", "audio": "json" });
    stage.client.send(start).await;
    let mut provider = stage.provider().await;
    provider.until("setup").await;
    provider.send(json!({ "setupComplete": {} })).await;
    provider.send(voice(6)).await;
    assert_eq!(
        stage.client.until("audio").await,
        json!({ "type": "audio", "data": "AAAAAAAA" })
    );
    let audio = json!({ "type": "audio", "data": "AQIDBA==" });
    stage.client.send(audio).await;
    let heard = provider.until("realtimeInput").await;
    assert_eq!(heard["realtimeInput"]["audio"]["data"], "AQIDBA==");
}

#[tokio::test(start_paused = true)]
async fn typed_text_reaches_the_model_and_its_words_reach_the_client() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    let text = json!({ "type": "text", "text": "Who built Fram?" });
    stage.client.send(text).await;
    let heard = provider.until("realtimeInput").await;
    assert_eq!(heard["realtimeInput"]["text"], "Who built Fram?");
    let words = json!({ "serverContent": { "outputTranscription": { "text": "Colin Archer." } } });
    provider.send(words).await;
    provider.send(turn_end()).await;
    let transcript = stage.client.until("transcript").await;
    assert_eq!(transcript["role"], "assistant");
    assert_eq!(transcript["text"], "Colin Archer.");
    let ended = stage.client.until("turn_complete").await;
    assert_eq!(ended, json!({ "type": "turn_complete", "turn": 1 }));
}

#[tokio::test(start_paused = true)]
async fn the_client_hears_that_the_model_generates_before_it_hears_it() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    provider.send(voice(960)).await;
    assert_eq!(stage.client.next().await["type"], "model_generating");
    assert_eq!(stage.client.next().await, json!({ "pcm": 960 }));
    provider.send(voice(480)).await;
    assert_eq!(stage.client.next().await, json!({ "pcm": 480 }));
}

#[tokio::test(start_paused = true)]
async fn after_an_interruption_nothing_of_the_old_answer_is_heard() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    provider.send(voice(960)).await;
    stage.client.until("pcm").await;
    let interrupted = json!({ "serverContent": { "interrupted": true } });
    provider.send(interrupted).await;
    stage.client.until("interrupted").await;
    provider.send(voice(1_000)).await;
    provider.send(turn_end()).await;
    provider.send(voice(2_000)).await;
    assert_eq!(stage.client.until("pcm").await, json!({ "pcm": 2_000 }));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_session_says_goodbye_to_both_sides_and_leaves_nothing() {
    let (mut stage, mut provider) = Stage::running(Setting::default()).await;
    stage.client.send(json!({ "type": "stop" })).await;
    let said: Vec<Value> = stage.client.rest().await;
    let kinds: Vec<&Value> = said.iter().map(|message| &message["type"]).collect();
    assert!(
        kinds.ends_with(&[&json!("session_complete"), &json!("stopped"), &Value::Null]),
        "{said:?}"
    );
    assert_eq!(said.last(), Some(&json!({ "close": 1000 })));
    assert_eq!(provider.rest().await, [json!({ "close": 1000 })]);
    stage.served.await.unwrap();
    assert!(stage.lease.upgrade().is_none());
    assert_eq!(stage.service.connections(), 0);
    assert!(stage.events.saw("SessionEnded"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_ends_its_session() {
    let (stage, mut provider) = Stage::running(Setting::default()).await;
    drop(stage.client);
    assert_eq!(provider.rest().await, [json!({ "close": 1000 })]);
    stage.served.await.unwrap();
    assert!(stage.events.saw("ClientLost"));
}

#[tokio::test(start_paused = true)]
async fn the_servers_shutdown_is_told_and_drained() {
    let (mut stage, _provider) = Stage::running(Setting::default()).await;
    stage.service.shut_down();
    let said = stage.client.rest().await;
    let error = said.iter().find(|message| message["type"] == "error");
    assert_eq!(error.unwrap()["code"], "shutting_down");
    assert_eq!(said.last(), Some(&json!({ "close": 1001 })));
    stage.service.drained().await;
    stage.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_in_the_middle_of_speech_leaves_the_audio_flowing() {
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![echo()],
        ..Setting::default()
    })
    .await;
    provider.send(voice(960)).await;
    provider
        .send(call("a-1234567", "echo", json!({ "text": "x" })))
        .await;
    provider.send(voice(480)).await;
    let answer = provider.until("toolResponse").await;
    let response = &answer["toolResponse"]["functionResponses"][0];
    assert_eq!(response["id"], "a-1234567");
    assert_eq!(
        response["response"]["output"]["data"],
        json!({ "said": "x" })
    );
    assert_eq!(stage.client.until("pcm").await, json!({ "pcm": 960 }));
    assert_eq!(stage.client.until("pcm").await, json!({ "pcm": 480 }));
}
