//! Requests of a chat that are sent again under an `Idempotency-Key`, over real sockets.

use crate::chat::{Chat, approval, chat_with, chunks, question, user, words};
use crate::support::change::{Changes, write_tool};
use crate::support::http::{HttpAnswer, post_with};
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::sync::Arc;

struct Scene {
    chat: Chat,
    changes: Arc<Changes>,
    _tools: tempfile::TempDir,
}

/// A chat whose model changes what the user wants changed, with the user's consent.
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
    Scene {
        chat,
        changes,
        _tools: tools,
    }
}

impl Scene {
    fn post(&self, path: &str, key: &str, body: &Value) -> HttpAnswer {
        let headers = [("Idempotency-Key", key)];
        post_with(
            &self.chat.address,
            path,
            &headers,
            body.to_string().as_bytes(),
        )
    }

    fn requests(&self) -> usize {
        self.chat.model.seen().len()
    }
}

fn code(answer: &HttpAnswer) -> Value {
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    body["error"]["code"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_a_key_has_one_answer() {
    let scene = scene().await;
    for body in [
        json!({"id": "c", "message": "Hello."}),
        json!({"id": "c", "messages": [user("a", "Hello.")]}),
        json!({"id": "c", "trigger": "regenerate-message", "messages": [user("a", "Hello.")]}),
    ] {
        let key = body.to_string();
        let first = scene.post("/api/chat", &key, &body);
        assert_eq!(words(&first), "So it is.");
        let requests = scene.requests();
        assert_eq!(
            chunks(&scene.post("/api/chat", &key, &body)),
            chunks(&first)
        );
        let other = scene.post("/api/chat", &key, &json!({"id": "c", "message": "Bye."}));
        assert_eq!(other.status, 409, "{}", other.body);
        assert_eq!(code(&other), "idempotency_key_reused");
        assert_eq!(scene.requests(), requests);

        // Memory forgets the turn, and the log does not.
        for number in 0..9 {
            scene
                .chat
                .ask(&json!({"id": "c", "message": format!("Number {number}.")}));
        }
        let requests = scene.requests();
        assert_eq!(
            chunks(&scene.post("/api/chat", &key, &body)),
            chunks(&first)
        );
        assert_eq!(scene.requests(), requests);
    }
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_conversation_or_of_an_odd_length_is_refused() {
    let scene = scene().await;
    let long = "k".repeat(257);
    let longest = "k".repeat(256);
    for (key, body, status) in [
        (long.as_str(), json!({"id": "c", "message": "Hello."}), 400),
        (
            longest.as_str(),
            json!({"id": "c", "message": "Hello."}),
            200,
        ),
        ("", json!({"id": "c", "message": "Hello."}), 400),
        ("k", json!({"message": "Hello."}), 400),
    ] {
        let answer = scene.post("/api/chat", key, &body);
        assert_eq!(answer.status, status, "{} {}", key.len(), answer.body);
    }
    let body = json!({"conversationId": "c", "token": "none", "approved": true});
    let refused = scene.post("/api/confirm", &long, &body);
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("Idempotency-Key"), "{}", refused.body);
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_question_with_a_key_is_given_once() {
    let scene = scene().await;
    let asked = scene
        .chat
        .ask(&json!({"id": "c", "messages": [user("a", "Change it.")]}));
    let token = question(&asked)["token"].clone();
    let yes = json!({"conversationId": "c", "token": token, "approved": true});
    let no = json!({"conversationId": "c", "token": token, "approved": false});
    let first = scene.post("/api/confirm", "k", &yes);
    assert_eq!(first.status, 200, "{}", first.body);
    for _ in 0..3 {
        let again = scene.post("/api/confirm", "k", &yes);
        assert_eq!((again.status, &again.body), (200, &first.body));
    }
    let other = scene.post("/api/confirm", "k", &no);
    assert_eq!(other.status, 409, "{}", other.body);
    assert_eq!(code(&other), "idempotency_key_reused");
    // A key names the message and not the change: another one says the same.
    let under_another = scene.post("/api/confirm", "l", &yes);
    assert_eq!(under_another.status, 200, "{}", under_another.body);
    let streamed = json!({"id": "c", "messages": [approval(token.as_str().unwrap(), true)]});
    assert_eq!(scene.post("/api/chat", "m", &streamed).status, 200);
    assert_eq!(scene.changes.made(), ["one"]);
    scene.chat.close().await;
}
