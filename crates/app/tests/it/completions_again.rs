//! Completions that are sent again under an `Idempotency-Key`, over real sockets: one turn for a key.

use crate::chat::{Chat, chat_in};
use crate::support::change::{Changes, write_tool};
use crate::support::http::{HttpAnswer, post_with};
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::sync::Arc;

struct Scene {
    chat: Chat,
    changes: Arc<Changes>,
    tools: tempfile::TempDir,
}

/// A model that makes the change that the user names, once, and says so.
fn rule(last: &Value) -> Says {
    let said = last["content"].to_string();
    match last["role"] == "user" {
        true if said.contains("Fail") => Says::Refuses,
        true if said.contains("Break") => Says::Cuts("I have"),
        true => Says::Calls("change", json!({ "what": "one" })),
        false => Says::Words("That is done."),
    }
}

async fn scene(data: tempfile::TempDir, changes: Arc<Changes>) -> Scene {
    let tools = tempfile::tempdir().unwrap();
    write_tool(tools.path(), json!({}));
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_in(data, rule, &keys, changes.handlers()).await;
    Scene {
        chat,
        changes,
        tools,
    }
}

fn body(words: &str, streams: bool) -> Value {
    let message = json!({"role": "user", "content": words});
    json!({"model": "any", "stream": streams, "messages": [message]})
}

fn post(address: &str, key: &str, body: &Value) -> HttpAnswer {
    let headers = [("Idempotency-Key", key)];
    let body = body.to_string();
    post_with(address, "/v1/chat/completions", &headers, body.as_bytes())
}

impl Scene {
    fn ask(&self, key: &str, body: &Value) -> HttpAnswer {
        post(&self.chat.address, key, body)
    }

    fn requests(&self) -> usize {
        self.chat.model.seen().len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_with_a_key_has_one_turn() {
    let scene = scene(tempfile::tempdir().unwrap(), Changes::new()).await;
    for (number, streams) in [(1, false), (2, true)] {
        let key = format!("key {streams}");
        let asked = body("Change it.", streams);
        let first = scene.ask(&key, &asked);
        assert_eq!(first.status, 200, "{}", first.body);
        assert!(first.body.contains("That is done."), "{}", first.body);
        let requests = scene.requests();
        for _ in 0..3 {
            let again = scene.ask(&key, &asked);
            assert_eq!((again.status, &again.body), (200, &first.body));
            assert_eq!(again.header("content-type"), first.header("content-type"));
        }
        let other = scene.ask(&key, &body("Change another.", streams));
        assert_eq!(other.status, 409, "{}", other.body);
        assert!(other.body.contains("use one key for one request"));
        assert_eq!(scene.requests(), requests, "streamed: {streams}");
        assert_eq!(scene.changes.made().len(), number, "streamed: {streams}");
    }
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_comes_again_while_it_runs_waits_for_the_same_turn() {
    let scene = scene(tempfile::tempdir().unwrap(), Changes::new()).await;
    for streams in [false, true] {
        scene.changes.hold();
        let made = scene.changes.made().len();
        let ask = || {
            let address = scene.chat.address.clone();
            let asked = body("Change it.", streams);
            std::thread::spawn(move || post(&address, &format!("key {streams}"), &asked))
        };
        let clients: Vec<_> = (0..4).map(|_| ask()).collect();
        scene.changes.until_begun(made + 1).await;
        scene.changes.let_go();
        let answers: Vec<String> = clients
            .into_iter()
            .map(|client| client.join().unwrap().body)
            .collect();
        assert!(answers[0].contains("That is done."), "{answers:?}");
        assert!(
            answers.iter().all(|answer| *answer == answers[0]),
            "{answers:?}"
        );
        assert_eq!(scene.changes.made().len(), made + 1);
    }
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_failed_is_tried_again() {
    let scene = scene(tempfile::tempdir().unwrap(), Changes::new()).await;
    for words in ["Fail.", "Break."] {
        for streams in [false, true] {
            let asked = body(words, streams);
            let key = format!("{words} {streams}");
            let before = scene.requests();
            scene.ask(&key, &asked);
            let first = scene.requests() - before;
            scene.ask(&key, &asked);
            assert_eq!(scene.requests(), before + 2 * first, "{key}");
        }
    }
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_recognised_by_its_key_after_a_restart() {
    let changes = Changes::new();
    let first = scene(tempfile::tempdir().unwrap(), changes.clone()).await;
    let asked = body("Change it.", false);
    assert_eq!(first.ask("key", &asked).status, 200);
    let data = first.chat.close().await;
    let second = scene(data, changes.clone()).await;
    let again = second.ask("key", &asked);
    assert_eq!(again.status, 200, "{}", again.body);
    assert_eq!(changes.made().len(), 1);
    // Another key asks for another change.
    assert_eq!(second.ask("other key", &asked).status, 200);
    assert_eq!(changes.made().len(), 2);
    second.chat.close().await;
    drop((first.tools, second.tools));
}
