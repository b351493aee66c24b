//! Questions that are answered wherever the user is: on the socket what the chat has asked, in the chat what was asked by
//! voice, and what a server that was killed has asked. Once, and by nobody else. Real processes and sockets.

use crate::chat::{Chat, approval, chat, echo, question, user};
use crate::support::held_store::HeldStore;
use crate::support::http::{Answer, post_with};
use crate::support::program::{Running, command, folders};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};

const CONSENT: [(&str, &str); 1] = [("tools.kb_search.requires_confirmation", "true")];
const SEARCH: &str = "call kb_search {\"query\": \"Fram\"}";

type Headers<'a> = &'a [(&'a str, &'a str)];

fn post_chat(address: &str, headers: Headers<'_>, body: &Value) -> Answer {
    let body = body.to_string();
    post_with(address, "/api/chat", headers, body.as_bytes())
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

/// The id that the server gives to a browser that has none.
fn cookie(address: &str) -> String {
    let origin = format!("http://{address}");
    let met = post_chat(
        address,
        &[("Origin", &origin)],
        &json!({"message": "Hello."}),
    );
    let cookie = met.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

async fn talk(address: &str, headers: Headers<'_>, start: Value) -> VoiceClient {
    let mut client = VoiceClient::connect(address, headers).await.unwrap();
    client.send(start).await;
    client.expect("started").await;
    client
}

/// What comes of a click on a socket.
async fn click(client: &mut VoiceClient, token: &Value) -> Value {
    let click = json!({"type": "confirm", "token": token, "approved": true});
    client.send(click).await;
    client.expect("confirmation_result").await
}

async fn asked_by_voice(client: &mut VoiceClient) -> Value {
    client.say(SEARCH).await;
    client.expect("confirmation_request").await["token"].clone()
}

async fn leave(mut client: VoiceClient) {
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
}

/// How often something was searched for, by all servers of a folder.
fn searches(data: &Path) -> usize {
    let audit = fs::read_to_string(data.join("audit.jsonl")).unwrap();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ran = |line: &Value| line["toolId"] == "kb_search" && line["ok"] == true;
    lines.filter(ran).count()
}

fn asked_by_text(chat: &Chat, headers: Headers<'_>, message: &str) -> Value {
    let body = json!({"id": "c", "messages": [user(message, "Search.")]});
    question(&post_chat(&chat.address, headers, &body))["token"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_chat_has_asked_is_answered_on_the_voice_socket_of_the_same_user() {
    let chat = chat(echo, &CONSENT).await;
    let (address, mine) = (chat.address.clone(), cookie(&chat.address));
    let own = [("Cookie", mine.as_str())];
    let token = asked_by_text(&chat, &own, "a");
    // Neither in another conversation nor as another user.
    for start in [
        json!({"type": "start", "conversationId": "d"}),
        json!({"type": "start", "conversationId": "c", "userId": "eve"}),
    ] {
        let mut other = talk(&address, &own, start).await;
        let refused = click(&mut other, &token).await;
        let error = &refused["response"]["error"]["type"];
        assert_eq!(error, "CONFIRMATION_EXPIRED", "{refused}");
        leave(other).await;
    }
    let start = json!({"type": "start", "conversationId": "c"});
    let mut client = loop {
        // The place is free once the server has seen the connection end, which is a moment after the client has.
        let mut client = VoiceClient::connect(&address, &own).await.unwrap();
        client.send(start.clone()).await;
        if client.started_or_refused().await.is_some() {
            break client;
        }
    };
    let told = click(&mut client, &token).await;
    assert_eq!(
        (&told["ok"], &told["callId"]),
        (&json!(true), &Value::Null),
        "{told}"
    );
    // Once more, wherever.
    assert_eq!(
        click(&mut client, &token).await["response"]["data"],
        told["response"]["data"]
    );
    let again = confirm(&address, &own, "c", &token).unwrap();
    assert_eq!(again["data"], told["response"]["data"]);
    let streamed = json!({"id": "c", "messages": [approval(token.as_str().unwrap(), true)]});
    let streamed = post_chat(&address, &own, &streamed);
    assert!(
        streamed.body.contains("tool-output-available"),
        "{}",
        streamed.body
    );
    // The model that asked was told.
    let model = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert!(model.contains("The user approved the call"), "{model}");
    leave(client).await;
    let data = chat.close().await;
    assert_eq!(searches(data.path()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_by_voice_is_answered_in_the_chat() {
    let chat = chat(echo, &CONSENT).await;
    let (address, mine) = (chat.address.clone(), cookie(&chat.address));
    let (stranger, own) = (cookie(&chat.address), [("Cookie", mine.as_str())]);
    let theirs = [("Cookie", stranger.as_str())];
    let start = json!({"type": "start", "conversationId": "c", "userId": "ada"});
    let mut client = talk(&address, &own, start).await;
    let token = asked_by_voice(&mut client).await;
    let answer = |user: &str| {
        let messages = [approval(token.as_str().unwrap(), true)];
        json!({"id": "c", "userId": user, "messages": messages})
    };
    let foreign = post_chat(&address, &theirs, &answer("ada"));
    assert_eq!(foreign.status, 403, "{}", foreign.body);
    let other = post_chat(&address, &own, &answer("bob"));
    assert!(other.body.contains("not valid"), "{}", other.body);
    for _ in 0..2 {
        let answer = post_chat(&address, &own, &answer("ada"));
        assert!(
            answer.body.contains("tool-output-available"),
            "{}",
            answer.body
        );
    }
    // The session that asked has run it, and its client hears of it once.
    let told = client.expect("confirmation_result").await;
    assert_eq!(
        (&told["ok"], &told["callId"]),
        (&json!(true), &json!("call-1")),
        "{told}"
    );
    leave(client).await;
    let data = chat.close().await;
    assert_eq!(searches(data.path()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clicks_at_one_instant_on_both_channels_get_one_answer() {
    let chat = chat(echo, &CONSENT).await;
    let (address, mine) = (chat.address.clone(), cookie(&chat.address));
    let own = [("Cookie", mine.as_str())];
    let start = json!({"type": "start", "conversationId": "c"});
    let mut client = talk(&address, &own, start).await;
    for round in 0..8 {
        let token = match round % 2 {
            0 => asked_by_text(&chat, &own, &format!("m-{round}")),
            _ => asked_by_voice(&mut client).await,
        };
        let begin = Arc::new(Barrier::new(4));
        let posts: Vec<_> = (0..3)
            .map(|_| {
                let (begin, address) = (begin.clone(), address.clone());
                let (mine, token) = (mine.clone(), token.clone());
                std::thread::spawn(move || {
                    begin.wait();
                    confirm(&address, &[("Cookie", &mine)], "c", &token)
                })
            })
            .collect();
        begin.wait();
        let told = click(&mut client, &token).await;
        assert_eq!(told["ok"], true, "{told}");
        for post in posts {
            let answer = post.join().unwrap().unwrap();
            assert_eq!(answer["data"], told["response"]["data"]);
        }
    }
    leave(client).await;
    let data = chat.close().await;
    assert_eq!(searches(data.path()), 8);
}

fn serve(folder: &Path) -> (Running, String) {
    serve_with(folder, &["--provider", "demo"])
}

fn serve_with(folder: &Path, provider: &[&str]) -> (Running, String) {
    let consent = "[tools.kb_search]\nrequires_confirmation = true\n";
    fs::write(folder.join("windlass.toml"), consent).unwrap();
    let mut command = command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(provider)
        .args(["--text-provider", "demo"])
        .args(folders(&folder.join("data")));
    let mut running = Running::start(&mut command);
    let address = running.address();
    (running, address)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Post,
    Stream,
    Socket,
}

/// Answers on a channel; whether the call has run by then.
async fn answered(address: &str, channel: Channel, start: &Value, token: &Value) -> bool {
    match channel {
        Channel::Post => confirm(address, &[], "c", token).is_ok(),
        Channel::Stream => {
            let messages = [approval(token.as_str().unwrap(), true)];
            let body = json!({"id": "c", "userId": start["userId"], "messages": messages});
            let streamed = post_chat(address, &[], &body);
            streamed.body.contains("tool-output-available")
        }
        Channel::Socket => {
            let mut client = talk(address, &[], start.clone()).await;
            let told = click(&mut client, token).await;
            leave(client).await;
            told["ok"] == true
        }
    }
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
            let (server, address) = serve(folder.path());
            let start = json!({"type": "start", "conversationId": "c", "userId": named});
            let token = match by_voice {
                true => asked_by_voice(&mut talk(&address, &[], start.clone()).await).await,
                false => {
                    let body = json!({"id": "c", "userId": named, "message": SEARCH});
                    question(&post_chat(&address, &[], &body))["token"].clone()
                }
            };
            server.signal("-KILL");
            server.end();

            let (server, address) = serve(folder.path());
            let stranger = cookie(&address);
            let theirs = [("Cookie", stranger.as_str())];
            let expired = Err(json!("CONFIRMATION_EXPIRED"));
            assert_eq!(confirm(&address, &theirs, "c", &token), expired);
            assert_eq!(confirm(&address, &[], "d", &token), expired);
            let eve = json!({"type": "start", "conversationId": "c", "userId": "eve"});
            if named.is_some() {
                assert!(!answered(&address, Channel::Socket, &eve, &token).await);
                assert!(!answered(&address, Channel::Stream, &eve, &token).await);
            }
            let what = format!("{channel:?}, by voice: {by_voice}, {named:?}");
            for again in [channel, Channel::Post] {
                assert!(answered(&address, again, &start, &token).await, "{what}");
            }
            server.signal("-TERM");
            server.end();
            assert_eq!(searches(&folder.path().join("data")), 1, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_by_voice_is_answered_over_http_where_no_model_speaks_by_text() {
    let folder = tempfile::tempdir().unwrap();
    let mut simulator = Running::start(command(folder.path()).args(["sim", "gemini-live"]));
    let url = format!("ws://{}", simulator.address());
    let voice = ["--provider", "gemini-live", "--provider-url", url.as_str()];
    let (server, address) = serve_with(folder.path(), &voice);
    let start = json!({"type": "start", "conversationId": "c", "userId": "ada"});
    let mut client = talk(&address, &[], start).await;
    let first = asked_by_voice(&mut client).await;
    client.say("call kb_search {\"query\": \"Nansen\"}").await;
    let second = client.expect("confirmation_request").await["token"].clone();
    server.signal("-KILL");
    server.end();

    let (server, address) = serve_with(folder.path(), &voice);
    let typed = post_chat(&address, &[], &json!({"id": "c", "message": "Hello."}));
    assert_eq!(typed.status, 503, "{}", typed.body);
    let expired = Err(json!("CONFIRMATION_EXPIRED"));
    assert_eq!(confirm(&address, &[], "d", &first), expired);
    assert_eq!(confirm(&address, &[], "c", &json!("token")), expired);
    for token in [&first, &second] {
        let answer = confirm(&address, &[], "c", token).unwrap();
        assert_eq!(answer["error"], Value::Null, "{answer}");
        let again = confirm(&address, &[], "c", token).unwrap();
        assert_eq!(again["data"], answer["data"]);
    }
    server.signal("-TERM");
    server.end();
    simulator.signal("-TERM");
    simulator.end();
    assert_eq!(searches(&folder.path().join("data")), 2);
}

#[test]
fn a_server_that_ends_before_the_store_has_a_no_says_that_it_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (server, address) = serve(folder.path());
    let asked = post_chat(&address, &[], &json!({"id": "c", "message": SEARCH}));
    let no = json!({"conversationId": "c", "token": question(&asked)["token"], "approved": false});
    let held = HeldStore::take(folder.path());
    let told = post_with(&address, "/api/confirm", &[], no.to_string().as_bytes());
    let told: Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(told["response"]["meta"]["recorded"], false, "{told}");
    server.signal("-TERM");
    let (code, log) = server.end();
    held.let_go();
    assert_eq!(code, Some(0), "{log}");
    let lost = log.lines().find(|line| line.contains("is lost"));
    assert!(
        lost.is_some_and(|line| line.contains("closings=1")),
        "{log}"
    );
}
