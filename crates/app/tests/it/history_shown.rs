//! What the ledger has of a conversation and of its changes, for the client whose they are, over real sockets.

use crate::chat::{Chat, chat_with, question, user, words};
use crate::support::change::{Changes, write_tool};
use crate::support::http::{HttpAnswer, post_with, request};
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

struct Scene {
    chat: Chat,
    changes: Arc<Changes>,
    _tools: tempfile::TempDir,
    /// Of a browser.
    cookie: String,
}

async fn scene() -> Scene {
    let rule = |last: &Value| match last["content"].to_string() {
        said if last["role"] == "user" && said.contains("Change it.") => {
            Says::Calls("change", json!({ "what": "one" }))
        }
        _ => Says::Words("So it is."),
    };
    let tools = tempfile::tempdir().unwrap();
    write_tool(tools.path(), json!({"requiresConfirmation": true}));
    let changes = Changes::new();
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, changes.handlers()).await;
    let cookie = crate::voice::cookie(&chat.address);
    Scene {
        chat,
        changes,
        _tools: tools,
        cookie,
    }
}

impl Scene {
    fn headers(&self) -> [(&'static str, &str); 1] {
        [("Cookie", self.cookie.as_str())]
    }

    fn ask(&self, conversation: &str, message: &Value) -> HttpAnswer {
        let body = json!({"id": conversation, "messages": [message]});
        let body = body.to_string();
        post_with(
            &self.chat.address,
            "/api/chat",
            &self.headers(),
            body.as_bytes(),
        )
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let answer = request(&self.chat.address, "GET", path, headers);
        let body = serde_json::from_str(&answer.body);
        (answer.status, body.unwrap_or_default())
    }

    /// The conversation as its client is shown it.
    fn shown(&self, conversation: &str) -> Value {
        let (status, shown) = self.get(
            &format!("/api/conversations/{conversation}"),
            &self.headers(),
        );
        assert_eq!(status, 200, "{shown}");
        shown
    }
}

/// The texts of all messages, in their order.
fn texts(shown: &Value) -> Vec<&str> {
    let messages = shown["messages"].as_array().unwrap().iter();
    let parts = messages.flat_map(|message| message["parts"].as_array().unwrap());
    let texts = parts.filter(|part| part["type"] == "text");
    texts.map(|part| part["text"].as_str().unwrap()).collect()
}

/// The one call.
fn call(shown: &Value) -> &Value {
    let messages = shown["messages"].as_array().unwrap().iter();
    let parts = messages.flat_map(|message| message["parts"].as_array().unwrap());
    let mut calls = parts.filter(|part| part["type"] == "dynamic-tool");
    let call = calls.next().unwrap();
    assert_eq!(calls.next(), None, "{shown}");
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_the_server_named_is_shown_as_soon_as_its_id_is_known() {
    let scene = scene().await;
    for _ in 0..20 {
        let body = json!({"message": "Hello."}).to_string();
        let headers = scene.headers();
        let answer = post_with(&scene.chat.address, "/api/chat", &headers, body.as_bytes());
        let id = answer.header("x-windlass-conversation").unwrap();
        assert_eq!(texts(&scene.shown(id)), ["Hello.", "So it is."]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_loaded_again_finds_words_calls_and_questions() {
    let scene = scene().await;
    assert_eq!(words(&scene.ask("c", &user("a", "Hello."))), "So it is.");
    let asked = question(&scene.ask("c", &user("b", "Change it.")));
    let shown = scene.shown("c");
    assert_eq!(
        texts(&shown),
        ["Hello.", "So it is.", "Change it.", "So it is."]
    );
    let ids: Vec<&Value> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!((ids[0], ids[2]), (&json!("a"), &json!("b")));
    let call = call(&shown);
    assert_eq!(call["toolName"], "change");
    assert_eq!(call["state"], "approval-requested");
    assert_eq!(call["approval"], json!({"id": asked["token"]}));
    assert_eq!(call["input"], asked["args"]);
    assert_eq!(call["toolCallId"], asked["toolCallId"]);
    assert_eq!(shown["running"], false);
    assert_eq!(shown["title"], "Hello.");
    let questions = shown["questions"].as_array().unwrap();
    assert_eq!(questions.len(), 1, "{shown}");
    for field in ["token", "tool", "args", "preview", "expiresAt"] {
        assert_eq!(questions[0][field], asked[field], "{field}");
    }
    assert_eq!(questions[0]["callId"], asked["toolCallId"]);

    let body = json!({"conversationId": "c", "token": asked["token"], "approved": true});
    let body = body.to_string();
    let confirmed = post_with(
        &scene.chat.address,
        "/api/confirm",
        &scene.headers(),
        body.as_bytes(),
    );
    assert_eq!(confirmed.status, 200, "{}", confirmed.body);
    // The answer to the click comes before the end of the turn that it has begun.
    let mut shown = scene.shown("c");
    while shown["running"] == true {
        shown = scene.shown("c");
    }
    assert_eq!(shown["questions"], json!([]), "{shown}");
    let call = self::call(&shown);
    assert_eq!(call["state"], "output-available", "{call}");
    assert_eq!(call["input"], asked["args"]);
    assert_eq!(scene.changes.made(), ["one"]);
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_declined_is_shown_as_declined() {
    let scene = scene().await;
    let asked = question(&scene.ask("c", &user("b", "Change it.")));
    let body = json!({"conversationId": "c", "token": asked["token"], "approved": false});
    let body = body.to_string();
    post_with(
        &scene.chat.address,
        "/api/confirm",
        &scene.headers(),
        body.as_bytes(),
    );
    let shown = scene.shown("c");
    let call = call(&shown);
    assert_eq!(call["toolCallId"], asked["toolCallId"]);
    assert_eq!(call["state"], "output-denied");
    assert_eq!(call["approval"]["approved"], false);
    assert_eq!(scene.changes.made(), Vec::<String>::new());
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_and_its_effects_are_shown_to_its_client_alone() {
    let scene = scene().await;
    let asked = question(&scene.ask("c", &user("b", "Change it.")));
    let body = json!({"conversationId": "c", "token": asked["token"], "approved": true});
    let body = body.to_string();
    let confirmed = post_with(
        &scene.chat.address,
        "/api/confirm",
        &scene.headers(),
        body.as_bytes(),
    );
    assert_eq!(confirmed.status, 200, "{}", confirmed.body);
    let audit = scene.chat.data.path().join("audit.jsonl");
    let effect = loop {
        let text = std::fs::read_to_string(&audit).unwrap_or_default();
        let mut lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let found = lines.find_map(|line| line["effectId"].as_str().map(str::to_owned));
        if let Some(effect) = found {
            break effect;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let path = format!("/api/effects/{effect}");
    let (status, shown) = scene.get(&path, &scene.headers());
    assert_eq!(status, 200, "{shown}");
    assert_eq!(
        (&shown["state"], &shown["tool"], &shown["attempts"]),
        (&json!("done"), &json!("change"), &json!(1)),
        "{shown}"
    );
    assert!(shown["receipt"].is_object(), "{shown}");
    let stranger = crate::voice::cookie(&scene.chat.address);
    let theirs = [("Cookie", stranger.as_str())];
    for headers in [&theirs[..], &[]] {
        let (status, error) = scene.get(&path, headers);
        assert_eq!(
            (status, &error["error"]["code"]),
            (404, &json!("unknown_effect"))
        );
        let (status, error) = scene.get("/api/conversations/c", headers);
        let code = &error["error"]["code"];
        assert_eq!((status, code), (404, &json!("unknown_conversation")));
    }
    for (path, code) in [
        ("/api/effects/e-1", "unknown_effect"),
        ("/api/conversations/nobody", "unknown_conversation"),
    ] {
        let (status, error) = scene.get(path, &scene.headers());
        assert_eq!((status, &error["error"]["code"]), (404, &json!(code)));
    }
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_knows_a_conversation_of_nobodys_sees_no_token() {
    let scene = scene().await;
    let body = json!({"id": "c", "messages": [user("b", "Change it.")]});
    question(&scene.chat.ask(&body));
    let (status, shown) = scene.get("/api/conversations/c", &[]);
    assert_eq!(status, 200, "{shown}");
    let asked = &shown["questions"][0];
    assert_eq!(asked["tool"], "change");
    assert_eq!(asked.get("token"), None, "{asked}");
    let call = call(&shown);
    assert_eq!(call["state"], "output-error");
    assert_eq!(call.get("approval"), None, "{call}");
    scene.chat.close().await;
}
