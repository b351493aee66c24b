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

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_the_server_named_is_shown_as_soon_as_its_id_is_known() {
    let scene = scene().await;
    for _ in 0..20 {
        let body = json!({"message": "Hello."}).to_string();
        let headers = scene.headers();
        let answer = post_with(&scene.chat.address, "/api/chat", &headers, body.as_bytes());
        let id = answer.header("x-windlass-conversation").unwrap();
        let entries = scene.shown(id)["entries"].clone();
        let said = entries.as_array().unwrap().iter();
        let said: Vec<&Value> = said.map(|entry| &entry["text"]).collect();
        assert_eq!(said, ["Hello.", "So it is."], "{entries}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_loaded_again_finds_words_calls_and_questions() {
    let scene = scene().await;
    assert_eq!(words(&scene.ask("c", &user("a", "Hello."))), "So it is.");
    let asked = question(&scene.ask("c", &user("b", "Change it.")));
    let shown = scene.shown("c");
    let entries = shown["entries"].as_array().unwrap();
    let said: Vec<(&str, &str)> = entries
        .iter()
        .filter(|entry| entry["kind"] == "words")
        .map(|entry| {
            (
                entry["role"].as_str().unwrap(),
                entry["text"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("user", "Hello."),
            ("assistant", "So it is."),
            ("user", "Change it."),
            ("assistant", "So it is."),
        ]
    );
    let calls: Vec<&Value> = entries
        .iter()
        .filter(|entry| entry["kind"] == "call")
        .collect();
    assert_eq!(calls.len(), 1, "{shown}");
    assert_eq!(calls[0]["tool"], "change");
    assert_eq!(calls[0]["ok"], false);
    assert_eq!(calls[0]["errorType"], "CONFIRMATION_REQUIRED");
    assert_eq!(calls[0]["mode"], "text");
    assert_eq!(calls[0]["args"], asked["args"]);
    let questions = shown["questions"].as_array().unwrap();
    assert_eq!(questions.len(), 1, "{shown}");
    for field in ["token", "tool", "args", "preview", "expiresAt"] {
        assert_eq!(questions[0][field], asked[field], "{field}");
    }
    assert_eq!(questions[0]["callId"], asked["toolCallId"]);

    // What comes next.
    let last = shown["lastEntry"].as_u64().unwrap();
    let next = scene.shown(&format!("c?after={last}"));
    assert_eq!(next["entries"], json!([]), "{next}");
    let body = json!({"conversationId": "c", "token": asked["token"], "approved": true});
    let body = body.to_string();
    let confirmed = post_with(
        &scene.chat.address,
        "/api/confirm",
        &scene.headers(),
        body.as_bytes(),
    );
    assert_eq!(confirmed.status, 200, "{}", confirmed.body);
    // The log has the call within a moment.
    let ran = loop {
        let next = scene.shown(&format!("c?after={last}"));
        assert_eq!(next["questions"], json!([]), "{next}");
        let entries = next["entries"].as_array().unwrap();
        if let Some(ran) = entries.iter().find(|entry| entry["kind"] == "call") {
            break ran.clone();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!((&ran["tool"], &ran["ok"]), (&json!("change"), &json!(true)));
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
    let entries = shown["entries"].as_array().unwrap().iter();
    let calls: Vec<[&Value; 2]> = entries
        .filter(|entry| entry["kind"] == "call")
        .map(|entry| [&entry["callId"], &entry["errorType"]])
        .collect();
    let id = &asked["toolCallId"];
    assert_eq!(
        calls,
        [
            [id, &json!("CONFIRMATION_REQUIRED")],
            [id, &json!("CONFIRMATION_DECLINED")]
        ]
    );
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
        assert_eq!((status, code), (403, &json!("foreign_conversation")));
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
    scene.chat.close().await;
}
