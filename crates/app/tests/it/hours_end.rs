//! The end that OpenAI Realtime puts to each session: another one goes on in its place, and the client hears of a pause.

use crate::support::config;
use crate::support::live_provider::{ANSWER, HOUR_IS_OVER, LiveProvider, Speaks};
use crate::support::voice_client::VoiceClient;
use serde_json::json;
use windlass_app::server::{Setup, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_hour_is_over_goes_on_in_another_that_knows_what_was_said() {
    let mut provider = LiveProvider::start(Speaks::OpenaiRealtime).await;
    let data = tempfile::tempdir().unwrap();
    let url = provider.url.clone();
    let keys = [
        ("provider.kind", "openai-realtime"),
        ("provider.url", url.as_str()),
        ("provider.api_key", "test"),
        ("provider.model", "gpt-realtime"),
    ];
    let server = start(Setup {
        config: config(data.path(), &keys),
        handlers: windlass_handlers::builtin(),
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say("I was aboard the Fram.").await;
    client.expect("turn_complete").await;
    client.say(HOUR_IS_OVER).await;
    client.expect("reconnecting").await;
    client.expect("reconnected").await;
    client.say("Where was I?").await;
    let mut second = Vec::new();
    loop {
        let (connection, message) = provider.next().await;
        if connection == 1 {
            continue;
        }
        second.push(message.to_string());
        if second
            .last()
            .is_some_and(|last| last.contains("Where was I?"))
        {
            break;
        }
    }
    assert!(second[0].contains("session.update"), "{second:?}");
    let told = |words: &str| second.iter().position(|message| message.contains(words));
    let order = [
        "What follows is the earlier conversation, as context only.",
        "I was aboard the Fram.",
        ANSWER,
        HOUR_IS_OVER,
        "response.create",
        "Where was I?",
    ]
    .map(told);
    assert!(order[0].is_some() && order.is_sorted(), "{second:?}");
    client.send(json!({"type": "stop"})).await;
    client.expect("session_complete").await;
    client.expect_close().await;
    server.shut_down().await;
}
