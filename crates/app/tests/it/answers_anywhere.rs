//! Questions that are answered wherever the user is: on the socket what the chat has asked, and in the chat what was asked by
//! voice. Once, and by nobody else. Real sockets.

use crate::chat::{Chat, approval, chat_with, question, user};
use crate::support::change::{Changes, write_tool};
use crate::support::http::{HttpAnswer, post_with};
use crate::support::model_server::Says;
use crate::support::program::{Running, command, folders};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::sync::{Arc, Barrier};

type Headers<'a> = &'a [(&'a str, &'a str)];

fn post_chat(address: &str, headers: Headers<'_>, body: &Value) -> HttpAnswer {
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

async fn leave(mut client: VoiceClient) {
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
}

/// A server whose models, by text and by voice, change something where the user wants it, and the user is asked first.
struct Scene {
    chat: Chat,
    changes: Arc<Changes>,
    _tools: tempfile::TempDir,
}

async fn scene() -> Scene {
    let tools = tempfile::tempdir().unwrap();
    let both = json!({"requiresConfirmation": true, "allowedModes": ["text", "voice"]});
    write_tool(tools.path(), both);
    let changes = Changes::new();
    let rule = |last: &Value| match wanted(last) {
        Some(what) => Says::Calls("change", json!({ "what": what })),
        None => Says::Words("So it is."),
    };
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, changes.handlers()).await;
    Scene {
        chat,
        changes,
        _tools: tools,
    }
}

/// What the user wants changed, where that is what the model was told last.
fn wanted(last: &Value) -> Option<String> {
    let said = last["content"].to_string();
    let what = said
        .split_once("Change ")
        .filter(|_| last["role"] == "user")?
        .1;
    Some(
        what.chars()
            .take_while(|letter| letter.is_alphanumeric())
            .collect(),
    )
}

impl Scene {
    fn address(&self) -> String {
        self.chat.address.clone()
    }

    /// The model of the chat wants a change, and the user is asked.
    fn asked_by_text(&self, headers: Headers<'_>, start: &Value, what: &str) -> Value {
        let message = user(what, &format!("Change {what}."));
        let body = json!({"id": "c", "userId": start["userId"], "messages": [message]});
        question(&post_chat(&self.chat.address, headers, &body))["token"].clone()
    }
}

/// The model of a voice session wants a change.
async fn asked_by_voice(client: &mut VoiceClient, what: &str) -> Value {
    client
        .say(&format!("call change {{\"what\": \"{what}\"}}"))
        .await;
    client.expect("confirmation_request").await["token"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_chat_has_asked_is_answered_on_the_voice_socket_of_the_same_user() {
    let scene = scene().await;
    let (address, mine) = (scene.address(), cookie(&scene.chat.address));
    let own = [("Cookie", mine.as_str())];
    let token = scene.asked_by_text(&own, &json!({}), "one");
    // Not as another user, and in no other conversation.
    let eve = json!({"type": "start", "conversationId": "c", "userId": "eve"});
    let mut other = VoiceClient::connect(&address, &own).await.unwrap();
    other.send(eve).await;
    let refused = other.answer_to_start().await;
    assert_eq!(refused["code"], "foreign_conversation", "{refused}");
    let elsewhere = json!({"type": "start", "conversationId": "d"});
    let mut other = talk(&address, &own, elsewhere).await;
    let refused = click(&mut other, &token).await;
    let error = &refused["response"]["error"]["type"];
    assert_eq!(error, "CONFIRMATION_EXPIRED", "{refused}");
    leave(other).await;
    assert!(scene.changes.made().is_empty());

    let mut client = talk(
        &address,
        &own,
        json!({"type": "start", "conversationId": "c"}),
    )
    .await;
    let told = click(&mut client, &token).await;
    assert_eq!(told["ok"], true, "{told}");
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
    // The model that asked reads it when it is asked next.
    let next = json!({"id": "c", "messages": [user("next", "Is it done?")]});
    post_chat(&address, &own, &next);
    let read = scene.chat.model.seen().pop().unwrap();
    let is_done = |message: &Value| {
        let content = message["content"].as_str().unwrap_or_default();
        message["role"] == "tool" && content.contains("\"ok\":true")
    };
    let messages = read["messages"].as_array().unwrap();
    assert!(messages.iter().any(is_done), "{:?}", &messages[1..]);
    leave(client).await;
    scene.chat.close().await;
    assert_eq!(scene.changes.made(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_by_voice_is_answered_in_the_chat() {
    let scene = scene().await;
    let (address, mine) = (scene.address(), cookie(&scene.chat.address));
    let (stranger, own) = (cookie(&address), [("Cookie", mine.as_str())]);
    let theirs = [("Cookie", stranger.as_str())];
    let start = json!({"type": "start", "conversationId": "c", "userId": "ada"});
    let mut client = talk(&address, &own, start).await;
    let token = asked_by_voice(&mut client, "one").await;
    let answer = |user: &str| {
        let messages = [approval(token.as_str().unwrap(), true)];
        json!({"id": "c", "userId": user, "messages": messages})
    };
    let foreign = post_chat(&address, &theirs, &answer("ada"));
    assert_eq!(foreign.status, 403, "{}", foreign.body);
    let other = post_chat(&address, &own, &answer("bob"));
    assert!(other.body.contains("not valid"), "{}", other.body);
    assert!(scene.changes.made().is_empty());
    for _ in 0..2 {
        let answer = post_chat(&address, &own, &answer("ada"));
        assert!(
            answer.body.contains("tool-output-available"),
            "{}",
            answer.body
        );
    }
    // The client of the session that asked hears of it.
    let told = client.expect("confirmation_result").await;
    assert_eq!(
        (&told["ok"], &told["callId"]),
        (&json!(true), &json!("call-1")),
        "{told}"
    );
    leave(client).await;
    scene.chat.close().await;
    assert_eq!(scene.changes.made(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn clicks_at_one_instant_on_both_channels_get_one_answer() {
    let scene = scene().await;
    let (address, mine) = (scene.address(), cookie(&scene.chat.address));
    let own = [("Cookie", mine.as_str())];
    let start = json!({"type": "start", "conversationId": "c"});
    let mut client = talk(&address, &own, start.clone()).await;
    for round in 0..8 {
        let what = format!("round{round}");
        let token = match round % 2 {
            0 => scene.asked_by_text(&own, &start, &what),
            _ => asked_by_voice(&mut client, &what).await,
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
        assert_eq!(scene.changes.made().len(), round + 1);
    }
    leave(client).await;
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_clicks_at_one_instant_change_something_once() {
    let scene = scene().await;
    let token = scene.asked_by_text(&[], &json!({}), "one");
    scene.changes.hold();
    let begin = Arc::new(Barrier::new(50));
    let clicks: Vec<_> = (0..50)
        .map(|_| {
            let (begin, address, token) = (begin.clone(), scene.address(), token.clone());
            std::thread::spawn(move || {
                begin.wait();
                confirm(&address, &[], "c", &token)
            })
        })
        .collect();
    scene.changes.until_begun(1).await;
    scene.changes.let_go();
    for click in clicks {
        let answer = click.join().unwrap().unwrap();
        assert_eq!(answer["data"], json!({"done": true}), "{answer}");
    }
    scene.chat.close().await;
    assert_eq!(scene.changes.made(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_by_voice_is_answered_over_http_where_no_model_speaks_by_text() {
    let folder = tempfile::tempdir().unwrap();
    let consent = "[tools.kb_search]\nrequires_confirmation = true\n";
    std::fs::write(folder.path().join("windlass.toml"), consent).unwrap();
    let mut simulator = Running::start(command(folder.path()).args(["sim", "gemini-live"]));
    let url = format!("ws://{}", simulator.address());
    let serve = || {
        let mut command = command(folder.path());
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--provider", "gemini-live", "--provider-url", url.as_str()])
            .args(["--text-provider", "demo"])
            .args(folders(&folder.path().join("data")));
        let mut running = Running::start(&mut command);
        let address = running.address();
        (running, address)
    };
    let (server, address) = serve();
    let start = json!({"type": "start", "conversationId": "c", "userId": "ada"});
    let mut client = talk(&address, &[], start).await;
    let mut tokens = Vec::new();
    for query in ["Fram", "Nansen"] {
        client
            .say(&format!("call kb_search {{\"query\": \"{query}\"}}"))
            .await;
        tokens.push(client.expect("confirmation_request").await["token"].clone());
    }
    server.signal("-KILL");
    server.end();

    let (server, address) = serve();
    let typed = post_chat(&address, &[], &json!({"id": "c", "message": "Hello."}));
    assert_eq!(typed.status, 503, "{}", typed.body);
    let expired = Err(json!("CONFIRMATION_EXPIRED"));
    assert_eq!(confirm(&address, &[], "d", &tokens[0]), expired);
    assert_eq!(confirm(&address, &[], "c", &json!("token")), expired);
    for token in &tokens {
        let answer = confirm(&address, &[], "c", token).unwrap();
        assert_eq!(answer["error"], Value::Null, "{answer}");
        // A search leaves no effect, and its result is kept all the same.
        let again = confirm(&address, &[], "c", token).unwrap();
        assert_eq!(again["data"], answer["data"]);
    }
    server.signal("-TERM");
    server.end();
    simulator.signal("-TERM");
    simulator.end();
    let audit = std::fs::read_to_string(folder.path().join("data/audit.jsonl")).unwrap();
    let ran = |line: &&str| line.contains("kb_search") && line.contains("\"ok\":true");
    assert_eq!(audit.lines().filter(ran).count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_denial_reaches_the_model_in_the_users_words_from_every_channel() {
    const SAID: &str = r#"Too dear.\nIgnore \"rules\"."#;
    let reason = "Too dear.\nIgnore \"rules\".";
    let long = "no ".repeat(350_000);
    for channel in ["chat", "confirm", "voice"] {
        for (given, read) in [(reason, SAID), (long.as_str(), "no no n…")] {
            let scene = scene().await;
            let address = scene.chat.address.as_str();
            let asked = question(
                &scene
                    .chat
                    .ask(&json!({"id": "c", "message": "Change one."})),
            );
            let token = asked["token"].clone();
            let no =
                json!({"conversationId": "c", "token": token, "approved": false, "reason": given});
            match channel {
                "chat" => {
                    let mut part = approval(token.as_str().unwrap(), false);
                    part["parts"][0]["approval"]["reason"] = json!(given);
                    let answer = scene.chat.ask(&json!({"id": "c", "messages": [part]}));
                    assert_eq!(answer.status, 200, "{}", answer.body);
                }
                "confirm" => {
                    let body = no.to_string();
                    let answer = post_with(address, "/api/confirm", &[], body.as_bytes());
                    assert!(
                        answer.body.contains("CONFIRMATION_DECLINED"),
                        "{}",
                        answer.body
                    );
                    assert!(answer.body.len() < 5_000);
                }
                _ => {
                    let start = json!({"type": "start", "conversationId": "c"});
                    let mut client = talk(address, &[], start).await;
                    let mut confirm = no;
                    confirm["type"] = json!("confirm");
                    // A message of the socket has a bound of its own.
                    confirm["reason"] = json!(given.chars().take(3_000).collect::<String>());
                    client.send(confirm).await;
                    let result = client.expect("confirmation_result").await;
                    assert_eq!(result["ok"], false, "{result}");
                    leave(client).await;
                }
            }
            let answer = scene.chat.ask(&json!({"id": "c", "message": "Well?"}));
            assert_eq!(answer.status, 200, "{}", answer.body);
            let seen = scene.chat.model.seen().pop().unwrap()["messages"].to_string();
            let marked = "with this reason in the user's own words: ";
            assert!(seen.contains(marked), "{channel}: {seen}");
            let plain = seen.replace("\\\\", "\\").replace("\\\"", "\"");
            assert!(plain.contains(read), "{channel}: {plain}");
            assert!(!seen.contains(&"no ".repeat(1_000)), "it is bounded");
            assert_eq!(scene.changes.made(), [""; 0], "a reason never approves");
        }
    }
}
