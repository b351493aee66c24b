//! Chats whose server is killed when a change is made and nobody has heard of it: the model of the next server is told.

use super::process::{PLAIN, Process};
use super::shop::{Patience, Shop};
use crate::chat::{question, user, words};
use crate::chat_lasting::until_chunk;
use crate::support::http::{HttpAnswer, post};
use crate::support::model_server::{ModelServer, Says};
use serde_json::{Value, json};

/// How the notice of a change begins that no answer spoke of.
const NOTICE: &str = "order was called earlier in this conversation";

fn ask(process: &Process, message: Value) -> HttpAnswer {
    let body = json!({"id": "c", "userId": "ada", "messages": [message]});
    post(&process.address, "/api/chat", body.to_string().as_bytes())
}

/// What the model was asked with last.
fn told(model: &ModelServer) -> String {
    model.seen().pop().unwrap()["messages"].to_string()
}

/// A model that has an order made, and says no more than the beginning of a sentence about it.
fn breaks_off(last: &Value) -> Says {
    if last["role"] == "tool" {
        return Says::Hangs("I have");
    }
    match last["content"].to_string().contains("Order tea.") {
        true => Says::Calls(PLAIN, json!({"item": "tea"})),
        false => Says::Words("Yes."),
    }
}

#[test]
fn a_change_that_no_answer_spoke_of_is_told_after_a_kill_and_once() {
    for is_first in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let shop = Shop::open();
        let model = ModelServer::start(breaks_off);
        let mut process = Process::start_to_chat(folder.path(), &model.url, &shop.address);
        if !is_first {
            assert_eq!(words(&ask(&process, user("a", "Hello."))), "Yes.");
        }
        let wish = json!({"id": "c", "userId": "ada", "messages": [user("b", "Order tea.")]});
        let listening = until_chunk(&process.address, &wish, |chunk| chunk["delta"] == "I have");
        process.kill();
        drop(listening);

        let model = ModelServer::start(|_: &Value| Says::Words("It was ordered."));
        let mut process = Process::start_to_chat(folder.path(), &model.url, &shop.address);
        assert_eq!(
            words(&ask(&process, user("d", "Did it work?"))),
            "It was ordered."
        );
        let heard = told(&model);
        assert_eq!(heard.matches(NOTICE).count(), 1, "{is_first}: {heard}");
        assert!(heard.contains("receipt"), "{is_first}: {heard}");
        let before = heard.find(NOTICE) < heard.find("Did it work?");
        assert!(before, "{is_first}: {heard}");
        ask(&process, user("e", "Good."));
        assert_eq!(told(&model).matches(NOTICE).count(), 0, "{is_first}");
        process.kill();

        // What was said of it is in the history now.
        let process = Process::start_to_chat(folder.path(), &model.url, &shop.address);
        ask(&process, user("f", "Are you there?"));
        let heard = told(&model);
        assert_eq!(heard.matches(NOTICE).count(), 0, "{is_first}: {heard}");
        assert!(heard.contains("It was ordered."), "{is_first}: {heard}");
        assert_eq!(shop.orders("tea"), 1);
    }
}

#[test]
fn a_wish_that_is_repeated_after_a_kill_is_not_carried_out_twice() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::open();
    let model = ModelServer::start(breaks_off);
    let mut process = Process::start_to_chat(folder.path(), &model.url, &shop.address);
    let wish = json!({"id": "c", "userId": "ada", "messages": [user("b", "Order tea.")]});
    let listening = until_chunk(&process.address, &wish, |chunk| chunk["delta"] == "I have");
    process.kill();
    drop(listening);

    let model = ModelServer::start(|last: &Value| match last["role"] == "tool" {
        true => Says::Words("It is ordered."),
        false => Says::Calls(PLAIN, json!({"item": "tea"})),
    });
    let process = Process::start_to_chat(folder.path(), &model.url, &shop.address);
    // The user writes it once more, in a message of its own.
    assert_eq!(
        words(&ask(&process, user("c", "Order tea."))),
        "It is ordered."
    );
    assert!(told(&model).contains("receipt"));
    assert_eq!(shop.orders("tea"), 1);
    // By now the model has said what came of it: this may be another order, and the user is asked.
    let asked = question(&ask(&process, user("d", "And once more.")));
    assert_eq!(shop.orders("tea"), 1);
    assert!(asked["warning"].is_string(), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_which_nobody_knows_is_told_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::open();
    let model = ModelServer::start(breaks_off);
    let mut process = Process::start_to_chat(folder.path(), &model.url, &shop.address);
    shop.be(Patience::IsSilent);
    let wish = json!({"id": "c", "userId": "ada", "messages": [user("b", "Order tea.")]});
    let is_call = |chunk: &Value| chunk["type"] == "tool-input-available";
    let listening = until_chunk(&process.address, &wish, is_call);
    shop.until_asked("tea").await;
    process.kill();
    drop(listening);
    shop.be(Patience::Answers);

    let model = ModelServer::start(|_: &Value| Says::Words("I cannot tell."));
    let process = Process::start_to_chat(folder.path(), &model.url, &shop.address);
    ask(&process, user("d", "Did it work?"));
    let heard = told(&model);
    assert!(heard.contains(NOTICE), "{heard}");
    assert!(heard.contains("OUTCOME_UNKNOWN"), "{heard}");
}
