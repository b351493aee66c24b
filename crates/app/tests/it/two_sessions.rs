//! A chat and a voice session of one conversation in one process: what the one changes is not done again by the other. Over real
//! sockets.

use crate::chat::{Chat, approval, chat_with, question, user, words};
use crate::support::http::{HttpAnswer, post_with};
use crate::support::live_model::{Models, Peer};
use crate::support::model_server::Says;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

const ADA: [(&str, &str); 1] = [("X-Test-User", "ada")];

/// Counts how often it changes something.
struct Change(Arc<AtomicUsize>);

impl Handler for Change {
    fn execute(&self, _: Invocation) -> Execution {
        let changes = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Execution::Ready(Ok(Success::new(json!({ "changes": changes }))))
    }
}

struct Scene {
    chat: Chat,
    models: Models,
    changes: Arc<AtomicUsize>,
    _tools: tempfile::TempDir,
}

/// A conversation of Ada's by text, whose model calls the tool where it is asked to change something or whether it worked.
async fn scene(requires_confirmation: bool) -> Scene {
    let tools = tempfile::tempdir().unwrap();
    let folder = tools.path().join("change");
    std::fs::create_dir(&folder).unwrap();
    let schema = json!({
        "toolId": "change", "version": "1.0.0", "description": "Changes something.",
        "category": "action", "sideEffects": "writes", "idempotent": false,
        "requiresConfirmation": requires_confirmation,
        "allowedModes": ["text", "voice"], "latencyBudgetMs": 1000,
        "parameters": {"type": "object", "properties": {}, "additionalProperties": false}
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# Change\n\nChanges something.\n").unwrap();
    let changes = Arc::new(AtomicUsize::new(0));
    let handler: Arc<dyn Handler> = Arc::new(Change(changes.clone()));
    let handlers = BTreeMap::from([(ToolId::parse("change").unwrap(), handler)]);
    let rule = |last: &Value| {
        let said = last["content"].to_string();
        let wishes = said.contains("Change it.") || said.contains("Did it work?");
        match last["role"] == "user" && wishes {
            true => Says::Calls("change", json!({})),
            false => Says::Words("So it is."),
        }
    };
    let models = Models::open().await;
    let keys = [
        ("folders.tools", tools.path().to_str().unwrap()),
        ("provider.kind", "gemini-live"),
        ("provider.url", models.url.as_str()),
        ("server.user_header", ADA[0].0),
    ];
    let chat = chat_with(rule, &keys, handlers).await;
    let scene = Scene {
        chat,
        models,
        changes,
        _tools: tools,
    };
    assert_eq!(words(&scene.ask(&[user("a", "Hello.")])), "So it is.");
    scene
}

impl Scene {
    fn ask(&self, messages: &[Value]) -> HttpAnswer {
        let body = json!({"id": "c", "messages": messages}).to_string();
        post_with(&self.chat.address, "/api/chat", &ADA, body.as_bytes())
    }

    async fn talk(&mut self) -> (VoiceClient, Peer) {
        let mut client = VoiceClient::connect(&self.chat.address, &ADA)
            .await
            .unwrap();
        let start = json!({"type": "start", "conversationId": "c"});
        client.send(start).await;
        client.expect("started").await;
        (client, self.models.next().await)
    }

    fn changes(&self) -> usize {
        self.changes.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_by_voice_and_not_spoken_of_is_told_in_the_chat_and_not_done_again() {
    let mut scene = scene(false).await;
    let (mut client, mut peer) = scene.talk().await;
    peer.call("call-00001", "change", json!({})).await;
    let answer = peer.answer("call-00001").await;
    assert_eq!(answer["output"]["data"]["changes"], 1, "{answer}");
    // The client leaves before the model has said a word.
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
    // The session by voice comes to its end a moment after its client has left.
    for round in 0.. {
        assert!(round < 1_000, "the model is never told");
        let message = format!("Hello once more, {round}.");
        scene.ask(&[user(&format!("b-{round}"), &message)]);
        let told = scene.chat.model.seen().pop().unwrap()["messages"].to_string();
        if let Some(news) = told.find("you have not heard what came of it") {
            let said = told.find(&message);
            assert!(
                Some(news) < said,
                "the model knew before it was asked: {told}"
            );
            break;
        }
    }
    assert_eq!(words(&scene.ask(&[user("c", "Did it work?")])), "So it is.");
    assert_eq!(scene.changes(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_in_the_chat_is_not_done_again_by_voice_without_a_word_of_the_user() {
    let mut scene = scene(false).await;
    let (_client, mut peer) = scene.talk().await;
    assert_eq!(words(&scene.ask(&[user("b", "Change it.")])), "So it is.");
    peer.call("call-00001", "change", json!({})).await;
    let answer = peer.answer("call-00001").await;
    assert_eq!(answer["output"]["data"]["changes"], 1, "{answer}");
    assert_eq!(scene.changes(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_that_both_ask_about_happens_once_though_both_questions_are_approved() {
    let mut scene = scene(true).await;
    let (mut client, mut peer) = scene.talk().await;
    let asked = scene.ask(&[user("b", "Change it.")]);
    let by_text = question(&asked)["token"].as_str().unwrap().to_owned();
    peer.call("call-00001", "change", json!({})).await;
    let by_voice = client.expect("confirmation_request").await["token"].clone();
    let click = json!({"type": "confirm", "token": by_voice, "approved": true});
    client.send(click).await;
    let told = client.expect("confirmation_result").await;
    assert_eq!(told["response"]["data"]["changes"], 1, "{told}");
    let answer = scene.ask(&[approval(&by_text, true)]);
    assert!(answer.body.contains(r#""changes":1"#), "{}", answer.body);
    assert_eq!(scene.changes(), 1);
}
