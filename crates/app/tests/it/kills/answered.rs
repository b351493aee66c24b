//! Questions of a server that was killed are answered on every channel of the next one, once, and by nobody else.

use super::process::{CONFIRMED, Process};
use super::shop::Shop;
use crate::chat::{approval, question, user};
use crate::support::http::{HttpAnswer, post_with};
use crate::support::live_model::Models;
use crate::support::model_server::{ModelServer, Says};
use crate::support::voice_client::VoiceClient;
use crate::voice::cookie;
use serde_json::{Value, json};

type Headers<'a> = &'a [(&'a str, &'a str)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Post,
    Stream,
    Socket,
}

fn post_chat(address: &str, body: &Value) -> HttpAnswer {
    post_with(address, "/api/chat", &[], body.to_string().as_bytes())
}

/// What comes of a click over HTTP: its response, or the code of its error.
fn confirm(
    address: &str,
    headers: Headers<'_>,
    conversation: &str,
    token: &Value,
) -> Result<Value, Value> {
    let body = json!({"conversationId": conversation, "token": token, "approved": true});
    let answer = post_with(
        address,
        "/api/confirm",
        headers,
        body.to_string().as_bytes(),
    );
    let said: Value = serde_json::from_str(&answer.body).unwrap();
    match answer.status {
        200 => Ok(said["response"].clone()),
        _ => Err(said["error"]["code"].clone()),
    }
}

/// Answers on a channel; whether the call has run by then.
async fn answered(
    address: &str,
    models: &mut Models,
    channel: Channel,
    start: &Value,
    token: &Value,
) -> bool {
    match channel {
        Channel::Post => confirm(address, &[], "c", token).is_ok(),
        Channel::Stream => {
            let messages = [approval(token.as_str().unwrap(), true)];
            let body = json!({"id": "c", "userId": start["userId"], "messages": messages});
            let streamed = post_chat(address, &body);
            streamed.body.contains("tool-output-available")
        }
        Channel::Socket => {
            let mut client = VoiceClient::connect(address, &[]).await.unwrap();
            client.send(start.clone()).await;
            if client.started_or_refused().await.is_none() {
                return false;
            }
            let _peer = models.next().await;
            let click = json!({"type": "confirm", "token": token, "approved": true});
            client.send(click).await;
            let told = client.expect("confirmation_result").await;
            client.send(json!({"type": "stop"})).await;
            client.expect_close().await;
            told["ok"] == true
        }
    }
}

/// Orders where the user wants it.
fn orders(last: &Value) -> Says {
    match last["role"] == "user" && last["content"].to_string().contains("Order tea.") {
        true => Says::Calls(CONFIRMED, json!({ "item": "tea" })),
        false => Says::Words("So be it."),
    }
}

/// Has the user asked in the conversation `c`; the token.
async fn asked(address: &str, models: &mut Models, by_voice: bool, start: &Value) -> Value {
    if !by_voice {
        let body =
            json!({"id": "c", "userId": start["userId"], "messages": [user("a", "Order tea.")]});
        return question(&post_chat(address, &body))["token"].clone();
    }
    let mut client = VoiceClient::connect(address, &[]).await.unwrap();
    client.send(start.clone()).await;
    client.expect("started").await;
    let mut peer = models.next().await;
    peer.call("call-0001", CONFIRMED, json!({ "item": "tea" }))
        .await;
    client.expect("confirmation_request").await["token"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_has_asked_is_answered_on_every_channel_of_the_next() {
    let channels = [Channel::Post, Channel::Stream, Channel::Socket];
    for (channel, by_voice) in channels
        .iter()
        .flat_map(|one| [(*one, true), (*one, false)])
    {
        for named in [None, Some("ada")] {
            let folder = tempfile::tempdir().unwrap();
            let shop = Shop::open();
            let (mut models, text_model) = (Models::open().await, ModelServer::start(orders));
            let by_live = models.url.clone();
            let serve =
                || Process::start_for_both(folder.path(), &by_live, &text_model.url, &shop.address);
            let mut process = serve();
            let start = json!({"type": "start", "conversationId": "c", "userId": named});
            let token = asked(&process.address, &mut models, by_voice, &start).await;
            process.kill();

            let process = serve();
            let address = process.address.clone();
            let stranger = cookie(&address);
            let theirs = [("Cookie", stranger.as_str())];
            let expired = Err(json!("CONFIRMATION_EXPIRED"));
            assert_eq!(confirm(&address, &theirs, "c", &token), expired);
            assert_eq!(confirm(&address, &[], "d", &token), expired);
            let eve = json!({"type": "start", "conversationId": "c", "userId": "eve"});
            for way in [Channel::Socket, Channel::Stream] {
                assert!(!answered(&address, &mut models, way, &eve, &token).await);
            }
            assert_eq!(shop.orders("tea"), 0);
            let what = format!("{channel:?}, by voice: {by_voice}, {named:?}");
            for again in [channel, Channel::Post] {
                let has_run = answered(&address, &mut models, again, &start, &token).await;
                assert!(has_run, "{what}");
            }
            assert_eq!(shop.orders("tea"), 1, "{what}");
        }
    }
}
