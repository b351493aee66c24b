//! Turns that are asked for once more, over real sockets: an answer to a question that was answered, and a message whose turn
//! came to nothing.

use crate::chat::{Chat, approval, chat, chat_with, chunks, echo, question, user, words};
use crate::support::http::{HttpAnswer, post};
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

const CONSENT: [(&str, &str); 1] = [("tools.start_voice_session.requires_confirmation", "true")];

fn types(answer: &HttpAnswer) -> Vec<String> {
    let chunks = chunks(answer);
    let kinds = chunks.iter().map(|chunk| chunk["type"].as_str().unwrap());
    kinds.map(str::to_owned).collect()
}

/// The token of what the user is asked in a new conversation.
fn asked(chat: &Chat, conversation: &str) -> String {
    let asked = chat.ask(&json!({"id": conversation, "messages": [user("a", "Talk.")]}));
    question(&asked)["token"].as_str().unwrap().to_owned()
}

fn approve(chat: &Chat, conversation: &str, token: &str, approved: bool) -> HttpAnswer {
    chat.ask(&json!({"id": conversation, "messages": [approval(token, approved)]}))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_question_that_comes_again_gets_what_came_of_it() {
    let chat = chat(echo, &CONSENT).await;
    for (conversation, approved, part) in [
        ("yes", true, "tool-output-available"),
        ("no", false, "tool-output-denied"),
    ] {
        let token = asked(&chat, conversation);
        let first = approve(&chat, conversation, &token, approved);
        assert_eq!(types(&first)[0], "start", "{}", first.body);
        assert!(types(&first).contains(&part.to_owned()), "{}", first.body);
        let end = chunks(&first).pop().unwrap();
        assert_eq!(end["messageMetadata"]["turn"], 1, "{end}");
        let requests = chat.model.seen().len();
        for again in [approved, !approved] {
            let repeated = approve(&chat, conversation, &token, again);
            assert_eq!(chunks(&repeated), chunks(&first));
        }
        assert_eq!(chat.model.seen().len(), requests);

        // Memory forgets the turn, and the log does not.
        for number in 0..9 {
            let message = user(&format!("m-{number}"), "Who?");
            chat.ask(&json!({"id": conversation, "messages": [message]}));
        }
        let late = approve(&chat, conversation, &token, approved);
        assert_eq!(chunks(&late), chunks(&first));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_at_the_same_instant_get_the_same_answer() {
    let chat = chat(echo, &CONSENT).await;
    for round in 0..10 {
        let conversation = format!("c-{round}");
        let token = asked(&chat, &conversation);
        let requests = chat.model.seen().len();
        let start = Arc::new(Barrier::new(3));
        let askers: Vec<_> = (0..3)
            .map(|_| {
                let body = json!({"id": conversation, "messages": [approval(&token, true)]});
                let (start, address) = (start.clone(), chat.address.clone());
                std::thread::spawn(move || {
                    start.wait();
                    post(&address, "/api/chat", body.to_string().as_bytes())
                })
            })
            .collect();
        let answers = askers.into_iter().map(|asker| asker.join().unwrap());
        let answers: Vec<HttpAnswer> = answers.collect();
        for answer in &answers {
            assert_eq!((answer.status, chunks(answer)), (200, chunks(&answers[0])));
            assert!(answer.body.contains("tool-output-available"));
        }
        assert_eq!(chat.model.seen().len(), requests + 1, "one turn");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_approved_without_a_stream_is_heard_on_one() {
    let chat = chat(echo, &CONSENT).await;
    let token = asked(&chat, "c");
    let body = json!({"conversationId": "c", "token": token, "approved": true}).to_string();
    let done = post(&chat.address, "/api/confirm", body.as_bytes());
    assert_eq!(done.status, 200, "{}", done.body);
    let answer = approve(&chat, "c", &token, true);
    assert_eq!(types(&answer)[0], "start");
    assert!(
        answer.body.contains("tool-output-available"),
        "{}",
        answer.body
    );
    assert!(!words(&answer).is_empty(), "{}", answer.body);
}

/// Says what a rule says until something has been asked so often, and then that all is well.
fn well_after(count: usize, says: impl Fn() -> Says + Send + Sync) -> impl Fn(&Value) -> Says {
    let asked = AtomicUsize::new(0);
    move |_: &Value| match asked.fetch_add(1, Ordering::SeqCst) < count {
        true => says(),
        false => Says::Words("All is well."),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_turn_failed_is_answered_when_it_is_sent_again() {
    let chat = chat(well_after(1, || Says::Refuses), &[]).await;
    let body = json!({"id": "c", "messages": [user("a", "How is it?")]});
    let failed = chat.ask(&body);
    assert!(
        types(&failed).contains(&"error".to_owned()),
        "{}",
        failed.body
    );
    assert_eq!(chunks(&failed).pop().unwrap()["finishReason"], "error");
    let answer = chat.ask(&body);
    assert_eq!(words(&answer), "All is well.");
    let told = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert_eq!(told.matches("How is it?").count(), 1, "{told}");
    assert_eq!(
        chunks(&chat.ask(&body)),
        chunks(&answer),
        "and is known from then on"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_edited_is_answered_anew() {
    let capital = |last: &Value| match last["content"].to_string().contains("Sweden") {
        true => Says::Words("Stockholm."),
        false => Says::Words("Oslo."),
    };
    let chat = chat(capital, &[]).await;
    let asked = |country: &str| {
        let message = user("a", &format!("What is the capital of {country}?"));
        json!({"id": "c", "messages": [message], "messageId": "a"})
    };
    assert_eq!(words(&chat.ask(&asked("Norway"))), "Oslo.");
    let edited = chat.ask(&asked("Sweden"));
    assert_eq!(words(&edited), "Stockholm.");
    let told = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert!(told.contains("took back an earlier message"), "{told}");
    // The newest text of an id is the one that is known by it.
    assert_eq!(chunks(&chat.ask(&asked("Sweden"))), chunks(&edited));
    assert_eq!(chat.model.seen().len(), 2);
    assert_eq!(words(&chat.ask(&asked("Norway"))), "Oslo.");
    assert_eq!(chat.model.seen().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_to_be_answered_otherwise_is_no_interruption() {
    let chat = chat(echo, &[]).await;
    let mut body = json!({"id": "c", "messages": [user("a", "Who?")]});
    chat.ask(&body);
    body["trigger"] = "regenerate-message".into();
    assert_eq!(words(&chat.ask(&body)), "It is me.");
    let told = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert!(told.contains("wants another answer"), "{told}");
    assert!(!told.contains("interrupted"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_client_left_is_answered_when_it_is_sent_again() {
    let chat = chat(well_after(1, || Says::Hangs("One moment")), &[]).await;
    let body = json!({"id": "c", "messages": [user("a", "How is it?")]});
    drop(chat.read_until(&body, "One moment"));
    // The server learns in its own time that nobody reads any more. Until then the message would be heard along with the turn
    // that hangs, so that another one asks whether the turn is over.
    let other = json!({"id": "c", "messages": [user("b", "And now?")]});
    let mut busy = chat.ask(&other);
    for _ in 0..100 {
        if busy.status != 409 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        busy = chat.ask(&other);
    }
    assert_eq!(busy.status, 200, "{}", busy.body);
    assert_eq!(words(&chat.ask(&body)), "All is well.");
}

/// Counts how often it changes something.
struct Change(Arc<AtomicUsize>);

impl Handler for Change {
    fn execute(&self, _: Invocation) -> Execution {
        let changes = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Execution::Ready(Ok(Success::new(json!({ "changes": changes }))))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_changed_something_before_it_failed_is_answered_and_changes_it_once() {
    let tools = tempfile::tempdir().unwrap();
    let folder = tools.path().join("change");
    std::fs::create_dir(&folder).unwrap();
    let schema = json!({
        "toolId": "change", "version": "1.0.0", "description": "Changes something.",
        "category": "action", "sideEffects": "writes", "idempotent": false, "requiresConfirmation": false,
        "allowedModes": ["text"], "latencyBudgetMs": 1000,
        "parameters": {"type": "object", "properties": {}, "additionalProperties": false}
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# Change\n\nChanges something.\n").unwrap();
    let changes = Arc::new(AtomicUsize::new(0));
    let handler: Arc<dyn Handler> = Arc::new(Change(changes.clone()));
    let handlers = BTreeMap::from([(ToolId::parse("change").unwrap(), handler)]);
    let answers = AtomicUsize::new(0);
    let rule = move |last: &Value| match last["role"] == "tool" {
        true if answers.fetch_add(1, Ordering::SeqCst) == 0 => Says::Refuses,
        true => Says::Words("It is changed."),
        false => Says::Calls("change", json!({})),
    };
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, handlers).await;
    let body = json!({"id": "c", "messages": [user("a", "Change it.")]});
    let failed = chat.ask(&body);
    assert!(
        failed.body.contains("tool-output-available"),
        "{}",
        failed.body
    );
    assert_eq!(chunks(&failed).pop().unwrap()["finishReason"], "error");
    let answer = chat.ask(&body);
    assert_eq!(words(&answer), "It is changed.");
    let told = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert_eq!(told.matches("Change it.").count(), 1, "{told}");
    // As the result of the call, as what no answer has spoken of, and in answer to the second call.
    assert_eq!(told.matches(r#"{\"changes\":1}"#).count(), 3, "{told}");
    assert_eq!(changes.load(Ordering::SeqCst), 1);
}
