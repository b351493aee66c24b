//! Messages whose answer was broken off while something was being changed for them, and that are sent again, over real
//! sockets: the change is made once, and what came of it is heard.

use crate::chat::{Chat, chat_with, chunks, user, words};
use crate::support::http::{HttpAnswer, post};
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Execution, Failure, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// Changes something once it may, and counts how often it did.
struct Change {
    changes: watch::Sender<usize>,
    may_end: watch::Sender<bool>,
    /// How it ends.
    is_lost: bool,
}

struct Slow(Arc<Change>);

impl Handler for Slow {
    fn execute(&self, _: Invocation) -> Execution {
        let change = self.0.clone();
        change.changes.send_modify(|changes| *changes += 1);
        let number = *change.changes.borrow();
        Execution::Pending(Box::pin(async move {
            let mut may_end = change.may_end.subscribe();
            may_end.wait_for(|may_end| *may_end).await.unwrap();
            match change.is_lost {
                true => Err(Failure::new(FailureKind::Transient, "the line broke")),
                false => Ok(Success::new(json!({ "changes": number }))),
            }
        }))
    }
}

struct Scene {
    chat: Chat,
    change: Arc<Change>,
    _tools: tempfile::TempDir,
}

/// A chat whose model calls the tool for whatever it is told, and then has words.
async fn scene(is_lost: bool) -> Scene {
    let rule = |last: &Value| match last["content"].to_string().contains("Leave it.") {
        true => Says::Words("As you like."),
        false if last["role"] == "tool" => Says::Words("That is done."),
        false => Says::Calls("change", json!({})),
    };
    let tools = tempfile::tempdir().unwrap();
    let folder = tools.path().join("change");
    std::fs::create_dir(&folder).unwrap();
    let schema = json!({
        "toolId": "change", "version": "1.0.0", "description": "Changes something.",
        "category": "action", "sideEffects": "writes", "idempotent": false, "requiresConfirmation": false,
        "allowedModes": ["text"], "latencyBudgetMs": 1000, "timeoutMs": 60000,
        "parameters": {"type": "object", "properties": {}, "additionalProperties": false}
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# Change\n\nChanges something.\n").unwrap();
    let change = Arc::new(Change {
        changes: watch::Sender::new(0),
        may_end: watch::Sender::new(false),
        is_lost,
    });
    let handler: Arc<dyn Handler> = Arc::new(Slow(change.clone()));
    let handlers = BTreeMap::from([(ToolId::parse("change").unwrap(), handler)]);
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, handlers).await;
    Scene {
        chat,
        change,
        _tools: tools,
    }
}

fn message(text: &str) -> Value {
    json!({"id": "c", "messages": [user("a", text)]})
}

fn anew() -> Value {
    let mut body = message("Change it.");
    body["trigger"] = "regenerate-message".into();
    body
}

impl Scene {
    /// A client asks, and leaves while the change is being made. Its call is shown before it begins.
    async fn leave(&self) {
        let asked = message("Change it.");
        let stream = self.chat.read_until(&asked, "tool-input-available");
        let mut changes = self.change.changes.subscribe();
        changes.wait_for(|changes| *changes > 0).await.unwrap();
        drop(stream);
    }

    fn end_change(&self) {
        self.change.may_end.send_replace(true);
    }

    /// Asks as soon as the server has learnt that nobody reads the turn before any more; the connection that hears the answer.
    async fn ask_once_free(&self, body: &Value) -> TcpStream {
        let body = body.to_string();
        loop {
            let mut stream = TcpStream::connect(&self.chat.address).unwrap();
            let address = &self.chat.address;
            let length = body.len();
            write!(
                stream,
                "POST /api/chat HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}",
            )
            .unwrap();
            let mut head = [0; 12];
            stream.read_exact(&mut head).unwrap();
            if head != *b"HTTP/1.1 409" {
                return stream;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn changes(&self) -> usize {
        *self.change.changes.borrow()
    }

    /// What the model was told with the last request.
    fn told(&self) -> String {
        let request = self.chat.model.seen().pop().unwrap();
        request["messages"].to_string()
    }
}

/// Reads an answer until its turn waits for the change: it has opened a step, which the model has yet to fill. A change that ends
/// before that is in the model's words alone.
fn until_it_waits(stream: &mut TcpStream) {
    let mut heard = Vec::new();
    let mut byte = [0];
    while !heard.ends_with(b"start-step") {
        stream.read_exact(&mut byte).unwrap();
        heard.push(byte[0]);
    }
}

fn rest(mut stream: TcpStream) -> String {
    let mut read = String::new();
    stream.read_to_string(&mut read).unwrap();
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_again_while_its_change_is_made_hears_what_came_of_it() {
    let scene = scene(false).await;
    scene.leave().await;
    let mut first = scene.ask_once_free(&anew()).await;
    until_it_waits(&mut first);
    // Another client brings it, too, and hears the same turn.
    let address = scene.chat.address.clone();
    let second = std::thread::spawn(move || {
        let body = message("Change it.").to_string();
        post(&address, "/api/chat", body.as_bytes())
    });
    scene.end_change();
    let second = second.join().unwrap();
    assert_eq!(words(&second), "That is done.");
    assert!(!second.body.contains("abort"), "{}", second.body);
    let first = rest(first);
    assert!(first.contains("That is done."), "{first}");
    assert_eq!(scene.changes(), 1);
    let told = scene.told();
    assert_eq!(told.matches("Change it.").count(), 1, "{told}");
    assert!(told.contains("was broken off"), "{told}");
    let requests = scene.chat.model.seen();
    let taken_up = requests[1]["messages"].to_string();
    assert!(taken_up.contains(r#"{\"changes\":1}"#), "{taken_up}");
    // From then on it has its answer.
    assert_eq!(
        chunks(&scene.chat.ask(&message("Change it."))),
        chunks(&second)
    );
    assert_eq!(scene.chat.model.seen().len(), requests.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_answered_whenever_it_comes_again() {
    for round in 0..8 {
        let scene = scene(false).await;
        scene.leave().await;
        if round % 2 == 0 {
            scene.end_change();
        }
        let (address, body) = (
            scene.chat.address.clone(),
            message("Change it.").to_string(),
        );
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let (address, body) = (address.clone(), body.clone());
                std::thread::spawn(move || post(&address, "/api/chat", body.as_bytes()))
            })
            .collect();
        scene.end_change();
        let answers = clients.into_iter().map(|client| client.join().unwrap());
        let answers: Vec<HttpAnswer> = answers.collect();
        for answer in &answers {
            assert_eq!(words(answer), "That is done.", "{}", answer.body);
            assert_eq!(chunks(answer), chunks(&answers[0]));
        }
        assert_eq!(scene.changes(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_change_is_lost_is_told_so() {
    let scene = scene(true).await;
    scene.leave().await;
    let mut answer = scene.ask_once_free(&anew()).await;
    until_it_waits(&mut answer);
    scene.end_change();
    let answer = rest(answer);
    // The model asks for it once more, and the user is asked.
    assert!(
        answer.contains("nobody knows whether it happened"),
        "{answer}"
    );
    assert!(answer.contains("That is done."), "{answer}");
    assert!(scene.told().contains("OUTCOME_UNKNOWN"));
    assert_eq!(scene.changes(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_text_in_the_place_of_a_message_that_was_broken_off_is_a_new_one() {
    let scene = scene(false).await;
    scene.leave().await;
    let edited = rest(scene.ask_once_free(&message("Leave it.")).await);
    assert!(edited.contains("As you like."), "{edited}");
    let told = scene.told();
    assert!(told.contains("took back an earlier message"), "{told}");
    assert!(told.contains("Change it."), "{told}");
    assert_eq!(scene.changes(), 1);
    scene.end_change();
}
