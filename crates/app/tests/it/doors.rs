//! Who may go on with a voice session and with its conversation: by an id that the server signed, by a token, or by neither.
//! Real processes and sockets.

use crate::chat::{approval, chat, echo, question};
use crate::support::held_store::database;
use crate::support::http::{post, post_with};
use crate::support::program::{Running, command, folders};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::path::Path;

/// The id that the server gives to a browser that has none.
fn cookie(address: &str) -> String {
    let origin = format!("http://{address}");
    let hello = json!({"message": "Hello."}).to_string();
    let headers = [("Origin", origin.as_str())];
    let met = post_with(address, "/api/chat", &headers, hello.as_bytes());
    let cookie = met.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

fn confirm(address: &str, headers: &[(&str, &str)], conversation: &str, token: &Value) -> Value {
    let body = json!({"conversationId": conversation, "token": token, "approved": true});
    let answer = post_with(
        address,
        "/api/confirm",
        headers,
        body.to_string().as_bytes(),
    );
    let said: Value = serde_json::from_str(&answer.body).unwrap();
    for field in ["ok", "response", "error"] {
        assert!(said.get(field).is_some(), "{field} in {said}");
    }
    assert_eq!(said["ok"], answer.status == 200, "{said}");
    said
}

/// The code of the error with which a session is refused.
async fn refused(address: &str, cookie: &str, start: Value) -> Value {
    let headers = [("Cookie", cookie)];
    let mut client = VoiceClient::connect(address, &headers).await.unwrap();
    client.send(start).await;
    let code = client.expect("error").await["code"].clone();
    client.expect_close().await;
    code
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_speaks_for_a_client_that_keeps_no_cookies() {
    let chat = chat(echo, &[("tools.kb_search.requires_confirmation", "true")]).await;
    let start = json!({"type": "start", "conversationId": "v", "userId": "ada"});
    let (mut client, _) = VoiceClient::start(&chat.address, start).await;
    client.say("call kb_search {\"query\": \"Fram\"}").await;
    let token = client.expect("confirmation_request").await["token"].clone();

    let stranger = cookie(&chat.address);
    let theirs = [("Cookie", stranger.as_str())];
    let said = confirm(&chat.address, &theirs, "v", &token);
    assert_eq!(said["error"]["code"], "CONFIRMATION_EXPIRED", "{said}");
    let made_up = confirm(&chat.address, &[], "v", &json!("made-up"));
    assert_eq!(made_up["error"]["code"], "CONFIRMATION_EXPIRED");
    let elsewhere = confirm(&chat.address, &[], "w", &token);
    assert_eq!(elsewhere["error"]["code"], "CONFIRMATION_EXPIRED");
    for _ in 0..2 {
        let said = confirm(&chat.address, &[], "v", &token);
        assert_eq!(said["ok"], true, "{said}");
        assert_eq!(said["error"], Value::Null);
    }
    assert_eq!(client.expect("confirmation_result").await["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_client_that_was_asked_answers_an_approval_request() {
    let keys = [
        ("tools.start_voice_session.requires_confirmation", "true"),
        ("server.user_header", "X-User"),
    ];
    let chat = chat(echo, &keys).await;
    let (mine, stranger) = (cookie(&chat.address), cookie(&chat.address));
    let post_chat = |headers: &[(&str, &str)], body: Value| {
        let body = body.to_string();
        post_with(&chat.address, "/api/chat", headers, body.as_bytes())
    };
    let (theirs, eve) = ([("Cookie", stranger.as_str())], [("X-User", "eve")]);
    for (conversation, asked_as) in [("programs", None), ("browsers", Some(mine.as_str()))] {
        let own: Vec<_> = asked_as
            .map(|cookie| ("Cookie", cookie))
            .into_iter()
            .collect();
        let talk = json!({"id": conversation, "userId": "ada", "message": "Talk."});
        let token = question(&post_chat(&own, talk))["token"].clone();
        for others in [&theirs[..], &eve] {
            let said = confirm(&chat.address, others, conversation, &token);
            assert_eq!(said["error"]["code"], "CONFIRMATION_EXPIRED", "{said}");
        }
        let messages = [approval(token.as_str().unwrap(), true)];
        let other = json!({"id": conversation, "userId": "bob", "messages": messages});
        let answer = post_chat(&own, other);
        assert!(answer.body.contains("not valid"), "{}", answer.body);
        // The token alone is enough of a program that shows nothing else.
        let said = confirm(&chat.address, &[], conversation, &token);
        assert_eq!(said["ok"], true, "{said}");
        let answer = post_chat(
            &own,
            json!({"id": conversation, "userId": "bob", "messages": messages}),
        );
        assert!(answer.body.contains("not valid"), "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_speaks_for_no_user_who_is_blocked_since() {
    let keys = [
        ("tools.start_voice_session.requires_confirmation", "true"),
        ("tools.kb_search.requires_confirmation", "true"),
        ("server.user_header", "X-User"),
    ];
    let chat = chat(echo, &keys).await;
    let ada = [("X-User", "ada")];
    let ask = |body: Value| {
        let body = body.to_string();
        post_with(&chat.address, "/api/chat", &ada, body.as_bytes())
    };
    let written = question(&ask(json!({"id": "t", "message": "Talk."})))["token"].clone();
    let mut client = VoiceClient::connect(&chat.address, &ada).await.unwrap();
    client
        .send(json!({"type": "start", "conversationId": "v"}))
        .await;
    client.expect("started").await;
    client.say("call kb_search {\"query\": \"Fram\"}").await;
    let spoken = client.expect("confirmation_request").await["token"].clone();

    let block = "INSERT INTO blocks SELECT DISTINCT tenant, 'user:ada', 9000000000000, 'Enough.' FROM conversations";
    database(chat.data.path()).execute(block, []).unwrap();
    for (conversation, token) in [("t", &written), ("v", &spoken)] {
        let said = confirm(&chat.address, &ada, conversation, token);
        assert_eq!(said["error"]["code"], "blocked", "{said}");
        assert_eq!(said["error"]["message"], "Enough.", "{said}");
    }
    // A caller with a token of another user learns of no block.
    let other = json!("made-up");
    for (conversation, token) in [
        ("t", &other),
        ("v", &other),
        ("t", &spoken),
        ("v", &written),
    ] {
        let said = confirm(&chat.address, &ada, conversation, token);
        assert_eq!(said["error"]["code"], "CONFIRMATION_EXPIRED", "{said}");
    }
    let messages = [approval(written.as_str().unwrap(), true)];
    let streamed = ask(json!({"id": "t", "messages": messages}));
    assert!(streamed.body.contains("Enough."), "{}", streamed.body);
    assert!(
        !streamed.body.contains("voice_session_start"),
        "{}",
        streamed.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_answer_makes_the_conversation_nobodys() {
    let chat = chat(echo, &[]).await;
    let stranger = cookie(&chat.address);
    let start = json!({"type": "start", "conversationId": "v", "userId": "ada"});
    let (mut client, _) = VoiceClient::start(&chat.address, start).await;
    client.say("Who designed the ship Fram?").await;
    client.expect("turn_complete").await;
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
    let theirs = [("Cookie", stranger.as_str())];
    let said = confirm(&chat.address, &theirs, "v", &json!("made-up"));
    assert_eq!(said["error"]["code"], "CONFIRMATION_EXPIRED", "{said}");
    let answer = chat.ask(&json!({"id": "v", "userId": "ada", "message": "Search."}));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let data = chat.close().await;
    let audit = std::fs::read_to_string(data.path().join("audit.jsonl")).unwrap();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let by_text = lines.filter(|line| line["mode"] == "text" && line["conversationId"] == "v");
    let users: Vec<Value> = by_text.map(|line| line["userId"].clone()).collect();
    assert_eq!(users, ["ada"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_speaks_for_a_user_who_has_signed_in() {
    let keys = [
        ("tools.kb_search.requires_confirmation", "true"),
        ("server.user_header", "X-User"),
    ];
    let chat = chat(echo, &keys).await;
    let (ada, eve) = ([("X-User", "ada")], [("X-User", "eve")]);
    let mut client = VoiceClient::connect(&chat.address, &ada).await.unwrap();
    client
        .send(json!({"type": "start", "conversationId": "v"}))
        .await;
    let started = client.expect("started").await;
    client.say("call kb_search {\"query\": \"Fram\"}").await;
    let by_voice = client.expect("confirmation_request").await["token"].clone();
    let search = json!({"id": "c", "message": "Search."}).to_string();
    let asked = post_with(&chat.address, "/api/chat", &ada, search.as_bytes());
    let by_text = question(&asked)["token"].clone();
    for (conversation, token) in [("v", &by_voice), ("c", &by_text)] {
        for stranger in [&[][..], &eve] {
            let said = confirm(&chat.address, stranger, conversation, token);
            assert_eq!(said["ok"], false, "{said}");
        }
        let said = confirm(&chat.address, &ada, conversation, token);
        assert_eq!(said["ok"], true, "{said}");
    }
    let resume = json!({"type": "start", "resume": started["resumeToken"]});
    for (caller, is_let_in) in [(&[][..], false), (&eve, false), (&ada, true)] {
        let mut client = VoiceClient::connect(&chat.address, caller).await.unwrap();
        client.send(resume.clone()).await;
        let answer = client.started_or_refused().await;
        assert_eq!(answer.is_some(), is_let_in, "{caller:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_program_without_cookies_are_known_to_callers_that_know_the_conversation() {
    let chat = chat(echo, &[]).await;
    let start = json!({"type": "start", "conversationId": "v"});
    let (mut client, _) = VoiceClient::start(&chat.address, start).await;
    client.say("Who designed the ship Fram?").await;
    client.expect("turn_complete").await;
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
    let body = json!({"id": "v", "message": "Where were we?"}).to_string();
    let answer = post(&chat.address, "/api/chat", body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let told = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert!(told.contains("Who designed the ship Fram?"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_holds_the_conversation_of_somebody_else() {
    let chat = chat(echo, &[]).await;
    let (owner, stranger) = (cookie(&chat.address), cookie(&chat.address));
    let start = json!({"type": "start", "conversationId": "v", "userId": "ada"});
    let mine = [("Cookie", owner.as_str())];
    let mut client = VoiceClient::connect(&chat.address, &mine).await.unwrap();
    client.send(start.clone()).await;
    client.expect("started").await;
    assert_eq!(
        refused(&chat.address, &stranger, start.clone()).await,
        "foreign_conversation"
    );
    assert_eq!(
        refused(&chat.address, &owner, start.clone()).await,
        "SESSION_ACTIVE"
    );
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
    drop(client);
    assert_eq!(
        refused(&chat.address, &stranger, start.clone()).await,
        "foreign_conversation",
        "also while nobody is in it"
    );
    // The place is free once the server has seen the connection end, which is a moment after the client has.
    loop {
        let mut client = VoiceClient::connect(&chat.address, &mine).await.unwrap();
        client.send(start.clone()).await;
        if client.started_or_refused().await.is_some() {
            break;
        }
    }
}

fn serve(folder: &Path) -> (Running, String) {
    let mut command = command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
        .args(["--text-provider", "demo"])
        .args(folders(&folder.join("data")));
    let mut running = Running::start(&mut command);
    let address = running.address();
    (running, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_process_was_killed_goes_on_by_its_token_alone() {
    for (named, again) in [
        (None, None),
        (Some("ada"), None),
        (Some("user:ada"), Some("user:ada")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (server, address) = serve(folder.path());
        let start = json!({"type": "start", "userId": named});
        let (mut client, started) = VoiceClient::start(&address, start).await;
        client.say("Who designed the ship Fram?").await;
        client.expect("turn_complete").await;
        // The store takes one request after the other, and this one is answered.
        confirm(&address, &[], "nobody", &json!("none"));
        server.signal("-KILL");
        server.end();

        let (server, address) = serve(folder.path());
        let stranger = cookie(&address);
        let mut resume = json!({"type": "start", "resume": started["resumeToken"]});
        assert_eq!(
            refused(&address, &stranger, resume.clone()).await,
            "resume_refused"
        );
        let mut client = VoiceClient::connect(&address, &[]).await.unwrap();
        let mut another = resume.clone();
        another["userId"] = "eve".into();
        client.send(another).await;
        assert_eq!(client.expect("error").await["code"], "resume_refused");
        resume["userId"] = json!(again);
        let (_client, next) = VoiceClient::start(&address, resume).await;
        assert_eq!(
            next["conversationId"], started["conversationId"],
            "{named:?}"
        );
        server.signal("-KILL");
        server.end();
    }
}
