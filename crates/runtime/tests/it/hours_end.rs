//! A session of OpenAI Realtime before its hour is over: it moves to another connection at a quiet moment and takes along
//! what was said.

use crate::support::peers::{Live, Peer, Setting, Stage};
use serde_json::{Value, json};

async fn set_up(provider: &mut Peer) {
    provider.until("session.update").await;
    let updated = json!({"type": "session.updated", "session": {"id": "s"}});
    provider.send(updated).await;
}

async fn answer(provider: &mut Peer, words: &str) {
    let item = json!({"id": "item_1", "type": "message", "role": "assistant",
        "content": [{"type": "output_audio", "transcript": words}]});
    for event in [
        json!({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}),
        json!({"type": "response.output_audio_transcript.delta", "response_id": "r", "item_id": "item_1",
            "output_index": 0, "content_index": 0, "delta": words}),
        json!({"type": "response.output_item.done", "response_id": "r", "item": item}),
        json!({"type": "response.done", "response": {"id": "r", "status": "completed", "output": [item]}}),
    ] {
        provider.send(event).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_moves_before_its_hour_is_over_and_knows_what_was_said() {
    let mut stage = Stage::set(Setting {
        live: Live::Openai,
        ..Setting::default()
    })
    .await;
    stage.start().await;
    let mut first = stage.provider().await;
    set_up(&mut first).await;
    stage
        .client
        .send(json!({"type": "text", "text": "I was aboard the Fram."}))
        .await;
    first.until("response.create").await;
    answer(&mut first, "A fine ship.").await;
    stage.client.until("turn_complete").await;
    let began = tokio::time::Instant::now();

    let mut second = stage.provider_while_listening().await;
    let minutes = began.elapsed().as_secs() / 60;
    assert!((54..58).contains(&minutes), "after {minutes} minutes");
    assert_eq!(first.rest().await.last(), Some(&json!({"close": 1000})));
    set_up(&mut second).await;
    let mut seeded = Vec::new();
    while seeded.len() < 3 {
        let item = second.until("conversation.item.create").await;
        seeded.push(item["item"]["content"][0]["text"].clone());
    }
    assert!(seeded[0].as_str().unwrap().contains("as context only"));
    let told: Vec<Value> = vec!["I was aboard the Fram.".into(), "A fine ship.".into()];
    assert_eq!(seeded[1..], told);
    stage
        .client
        .send(json!({"type": "text", "text": "Where was I?"}))
        .await;
    second.until("response.create").await;
}
