//! A server that is full: it turns new sessions away, and nobody who comes back to their own. Real processes and sockets.

use crate::support::http::{get, post};
use crate::support::program::{Running, command, folders};
use crate::support::voice_client::VoiceClient;
use crate::voice::server;
use serde_json::{Value, json};
use std::path::Path;

const ONE_SESSION: [(&str, &str); 1] = [("server.sessions_max", "1")];

fn start() -> Value {
    json!({"type": "start"})
}

fn resume(started: &Value) -> Value {
    json!({"type": "start", "resume": started["resumeToken"]})
}

async fn overloaded(address: &str, start: Value) {
    let mut client = VoiceClient::connect(address, &[]).await.unwrap();
    client.send(start).await;
    let error = client.expect("error").await;
    assert_eq!(error["code"], "overloaded", "{error}");
    assert_eq!(client.expect_close().await, 1013);
}

/// Ends a session.
async fn stop(mut client: VoiceClient) {
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
}

/// A place is free once the server has seen its connection end, which is a moment after the client has.
async fn started_once_there_is_room(address: &str, start: &Value) -> (VoiceClient, Value) {
    loop {
        let mut client = VoiceClient::connect(address, &[]).await.unwrap();
        client.send(start.clone()).await;
        let answer = client.answer_to_start().await;
        if answer["type"] == "started" {
            return (client, answer);
        }
        assert_eq!(answer["code"], "overloaded", "{answer}");
    }
}

async fn goes_on(client: &mut VoiceClient) {
    client.say("Thank you").await;
    client.expect("turn_complete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_more_than_the_limit_is_turned_away() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path(), &ONE_SESSION).await;
    let (first, _) = VoiceClient::start(&address, start()).await;
    // A connection alone takes no place of a session.
    let waiting = VoiceClient::connect(&address, &[]).await.unwrap();
    overloaded(&address, start()).await;
    stop(first).await;
    let (_second, _) = started_once_there_is_room(&address, &start()).await;
    overloaded(&address, start()).await;
    drop(waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_lost_its_connection_comes_back_to_a_full_server() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path(), &ONE_SESSION).await;
    let (mut client, mut started) = VoiceClient::start(&address, start()).await;
    goes_on(&mut client).await;
    for is_missed in [true, false] {
        overloaded(&address, start()).await;
        let old = match is_missed {
            true => {
                drop(client);
                None
            }
            false => Some(client),
        };
        let (mut next, back) = VoiceClient::start(&address, resume(&started)).await;
        assert_eq!(back["sessionId"], started["sessionId"], "{is_missed}");
        goes_on(&mut next).await;
        if let Some(mut old) = old {
            assert_eq!(old.expect_close().await, 1000);
        }
        (client, started) = (next, back);
    }
    overloaded(&address, start()).await;
    stop(client).await;
    started_once_there_is_room(&address, &start()).await;
}

/// A server for one session, in a process of its own.
fn serve(folder: &Path) -> (Running, String) {
    let mut command = command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
        .args(["--text-provider", "demo"])
        .args(folders(&folder.join("data")))
        .env("WINDLASS_SERVER_SESSIONS_MAX", "1");
    let mut running = Running::start(&mut command);
    let address = running.address();
    (running, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_stays_good_that_comes_to_a_full_server_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (killed, address) = serve(folder.path());
    let (mut client, started) = VoiceClient::start(&address, start()).await;
    goes_on(&mut client).await;
    // The store takes one request after the other, and this one is answered.
    let nobody = json!({"conversationId": "nobody", "token": "none", "approved": true});
    let answer = post(&address, "/api/confirm", nobody.to_string().as_bytes());
    assert_eq!(answer.status, 410, "{}", answer.body);
    killed.kill();

    let (_server, address) = serve(folder.path());
    let (other, _) = VoiceClient::start(&address, start()).await;
    for _ in 0..2 {
        overloaded(&address, resume(&started)).await;
    }
    stop(other).await;
    let (mut client, next) = started_once_there_is_room(&address, &resume(&started)).await;
    assert_eq!(next["conversationId"], started["conversationId"]);
    assert_eq!(next["sessionId"], started["sessionId"]);
    goes_on(&mut client).await;
    overloaded(&address, start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voice_connection_is_one_of_http_until_its_session_begins() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path(), &[("server.connections_max", "1")]).await;
    let mut client = VoiceClient::connect(&address, &[]).await.unwrap();
    client.send(json!({"type": "ping"})).await;
    client.expect("pong").await;
    let refused = get(&address, "/health");
    assert_eq!(refused.status, 503, "the server holds one connection");
    assert_eq!(refused.header("retry-after"), Some("1"));
    client.send(start()).await;
    client.expect("started").await;
    assert_eq!(get(&address, "/health").status, 200);
}
