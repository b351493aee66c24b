//! Sessions whose process has ended, over sockets and a store on disk: who may go on with one, and with what.

use crate::support::peers::{Peer, Setting, Stage, call, turn_end};
use crate::support::tools::{ready, tool};
use crate::support::{ledger_over, memory_store, store_settings};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use windlass_contract::handler::{Execution, Invocation};
use windlass_contract::kind::SideEffects;
use windlass_contract::registry::Tool;
use windlass_runtime::ids::token_hash;
use windlass_store::command::{Command, Reply};
use windlass_store::{Batch, Presented, SqliteStore, Store};

/// A shop that processes share: what they order there, and whether it ever answers.
#[derive(Clone, Default)]
struct Shop {
    orders: Arc<AtomicUsize>,
    is_silent: bool,
}

impl Shop {
    fn orders(&self) -> usize {
        self.orders.load(Ordering::SeqCst)
    }

    fn order(&self, _: &Invocation) -> Execution {
        let number = self.orders.fetch_add(1, Ordering::SeqCst) + 1;
        match self.is_silent {
            true => Execution::Pending(Box::pin(std::future::pending())),
            false => ready(json!({ "order": number })),
        }
    }
}

/// Orders once the user has confirmed it.
fn order(shop: &Shop) -> Tool {
    let shop = shop.clone();
    Tool {
        side_effects: SideEffects::Writes,
        idempotent: false,
        requires_confirmation: true,
        confirmation_preview: Some("Order {text}".to_owned()),
        ..tool("order", move |invocation| shop.order(&invocation))
    }
}

/// Processes that follow each other over one folder.
struct Processes {
    folder: TempDir,
    shop: Shop,
    number: u32,
}

impl Processes {
    fn with(shop: Shop) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            shop,
            number: 0,
        }
    }

    /// What the next one is begun with. The one before has ended.
    fn setting(&mut self) -> Setting {
        self.number += 1;
        let store = SqliteStore::open(self.folder.path(), store_settings(self.number));
        Setting {
            tools: vec![order(&self.shop)],
            ledger: Some(ledger_over(store.unwrap())),
            number: self.number,
            ..Setting::default()
        }
    }

    async fn first(&mut self) -> (Stage, Peer) {
        Stage::running(self.setting()).await
    }

    /// The next process, in which the client shows its token.
    async fn next(&mut self) -> Stage {
        let mut stage = Stage::set(self.setting()).await;
        stage.client.send(resume("resume-me")).await;
        let started = stage.client.until("started").await;
        // It is the same session still.
        let expected = json!(["s-1", "c-1", "resume-me"]);
        let names = ["sessionId", "conversationId", "resumeToken"];
        assert_eq!(json!(names.map(|name| &started[name])), expected);
        stage
    }
}

fn resume(token: &str) -> Value {
    json!({ "type": "start", "resume": token })
}

async fn ready_provider(stage: &mut Stage) -> Peer {
    let mut provider = stage.provider().await;
    provider.until("setup").await;
    provider.send(json!({ "setupComplete": {} })).await;
    provider
}

async fn say(provider: &mut Peer, text: &str) {
    let content = json!({ "serverContent": { "outputTranscription": { "text": text } } });
    provider.send(content).await;
}

/// Everything the provider is sent until something holds a text.
async fn until_told(provider: &mut Peer, text: &str) -> Vec<String> {
    let mut told = Vec::new();
    while !told.last().is_some_and(|last: &String| last.contains(text)) {
        let message = provider.next().await;
        assert_ne!(message, Value::Null, "the connection ended before {text}");
        told.push(message.to_string());
    }
    told
}

async fn asked(stage: &mut Stage, provider: &mut Peer) -> String {
    let arguments = json!({ "text": "tea" });
    provider.send(call("call-00001", "order", arguments)).await;
    let question = stage.client.until("confirmation_request").await;
    question["token"].as_str().unwrap().to_owned()
}

async fn confirm(stage: &mut Stage, token: &str) -> Value {
    let answer = json!({ "type": "confirm", "token": token, "approved": true });
    stage.client.send(answer).await;
    stage.client.until("confirmation_result").await
}

async fn refused(stage: &Stage, client_id: &str, start: Value) {
    let mut client = stage.client_called(client_id).await;
    client.send(start).await;
    assert_eq!(client.until("error").await["code"], "resume_refused");
    assert_eq!(client.until("close").await["close"], 1008);
}

#[tokio::test]
async fn a_conversation_goes_on_with_what_was_said() {
    let mut processes = Processes::with(Shop::default());
    let (mut stage, mut provider) = processes.first().await;
    stage
        .client
        .send(json!({ "type": "text", "text": "Hello" }))
        .await;
    until_told(&mut provider, "Hello").await;
    say(&mut provider, "Good day.").await;
    provider.send(turn_end()).await;
    stage.client.until("turn_complete").await;
    let question = json!({ "type": "text", "text": "Who built the Fram?" });
    stage.client.send(question).await;
    until_told(&mut provider, "Fram").await;
    stage.kill().await;

    let mut stage = processes.next().await;
    let mut provider = ready_provider(&mut stage).await;
    let told = until_told(&mut provider, "Who built the Fram?").await;
    let history = told.iter().find(|message| message.contains("Good day."));
    assert!(history.is_some_and(|history| history.contains("Hello")));
    say(&mut provider, "Colin Archer.").await;
    provider.send(turn_end()).await;
    assert_eq!(stage.client.until("turn_complete").await["turn"], 2);
    stage.kill().await;

    // And again, with the same token.
    let mut stage = processes.next().await;
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "Colin Archer.").await;
    stage.kill().await;
}

#[tokio::test]
async fn what_was_said_in_another_session_meanwhile_is_known_to_the_one_that_goes_on() {
    let mut processes = Processes::with(Shop::default());
    let (mut stage, mut provider) = processes.first().await;
    let typed = json!({ "type": "text", "text": "Who built the Fram?" });
    stage.client.send(typed).await;
    until_told(&mut provider, "Fram").await;
    say(&mut provider, "Colin Archer.").await;
    provider.send(turn_end()).await;
    stage.client.until("turn_complete").await;
    let typed = json!({ "type": "text", "text": "When was that?" });
    stage.client.send(typed).await;
    until_told(&mut provider, "When").await;
    stage.kill().await;

    let mut stage = Stage::set(processes.setting()).await;
    let anew = json!({ "type": "start", "conversationId": "c-1" });
    stage.client.send(anew).await;
    assert_eq!(stage.client.until("started").await["sessionId"], "s-2");
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "When was that?").await;
    let typed = json!({ "type": "text", "text": "And where?" });
    stage.client.send(typed).await;
    until_told(&mut provider, "And where?").await;
    say(&mut provider, "In Larvik.").await;
    provider.send(turn_end()).await;
    stage.client.until("turn_complete").await;
    stage.client.send(json!({ "type": "stop" })).await;
    stage.client.until("close").await;
    stage.kill().await;

    let mut stage = processes.next().await;
    let mut provider = ready_provider(&mut stage).await;
    let told = until_told(&mut provider, "When was that?").await.concat();
    for said in [
        "Who built",
        "Colin Archer.",
        "And where?",
        "In Larvik.",
        "When was",
    ] {
        assert_eq!(told.matches(said).count(), 1, "{said}: {told}");
    }
    stage.kill().await;
}

/// Who shows which token and names what, and whether it is let in: the same for a session that lives and for one whose process
/// has ended.
async fn check(is_live: bool) {
    let mut processes = Processes::with(Shop::default());
    let (mut stage, _provider) = processes.first().await;
    if !is_live {
        stage.kill().await;
        stage = Stage::set(processes.setting()).await;
    }
    for (client, start) in [
        ("client-1", resume("no-such-token")),
        ("client-2", resume("no-such-token")),
        // Another known client that has got hold of the token.
        ("client-2", resume("resume-me")),
        ("user:eve", resume("resume-me")),
        (
            "client-1",
            json!({ "type": "start", "resume": "resume-me", "userId": "eve" }),
        ),
        (
            "client-1",
            json!({ "type": "start", "resume": "resume-me", "conversationId": "c-2" }),
        ),
    ] {
        refused(&stage, client, start).await;
    }
    // The token speaks for a client that shows no id, and stays what it is.
    for _ in 0..2 {
        let mut client = stage.client_without_id().await;
        client.send(resume("resume-me")).await;
        assert_eq!(client.until("started").await["sessionId"], "s-1");
    }
    let mut client = stage.another_client().await;
    let named = json!({
        "type": "start", "resume": "resume-me", "userId": "ada", "conversationId": "c-1"
    });
    client.send(named).await;
    assert_eq!(client.until("started").await["sessionId"], "s-1");
    stage.kill().await;
}

#[tokio::test]
async fn a_session_that_lives_is_taken_over_by_its_own_client_alone() {
    check(true).await;
}

#[tokio::test]
async fn a_session_whose_process_has_ended_is_taken_over_by_its_own_client_alone() {
    check(false).await;
}

#[tokio::test]
async fn no_token_speaks_for_a_user_who_has_signed_in() {
    for is_live in [true, false] {
        let mut processes = Processes::with(Shop::default());
        let mut stage = Stage::set(processes.setting()).await;
        stage.take_for_client("user:ada").await;
        stage.start().await;
        if !is_live {
            stage.kill().await;
            stage = Stage::set(processes.setting()).await;
        }
        let mut passing = stage.client_without_id().await;
        passing.send(resume("resume-me")).await;
        assert_eq!(passing.until("error").await["code"], "resume_refused");
        refused(&stage, "client-1", resume("resume-me")).await;
        let mut own = stage.client_called("user:ada").await;
        own.send(resume("resume-me")).await;
        own.until("started").await;
        stage.kill().await;
    }
}

#[tokio::test]
async fn of_two_who_show_one_token_at_once_the_later_has_the_session() {
    let mut processes = Processes::with(Shop::default());
    let (stage, _provider) = processes.first().await;
    stage.kill().await;
    let stage = Stage::set(processes.setting()).await;
    let (mut one, mut other) = (stage.another_client().await, stage.another_client().await);
    one.send(resume("resume-me")).await;
    other.send(resume("resume-me")).await;
    let started = [one.until("started").await, other.until("started").await];
    assert_eq!(started[0], started[1]);
    // One of them is sent away, and the other is in the session.
    let (away, mut back) = tokio::select! {
        message = one.next() => (message, other),
        message = other.next() => (message, one),
    };
    assert_eq!(away["close"], 1000);
    back.send(json!({ "type": "ping" })).await;
    back.until("pong").await;
    stage.kill().await;
}

#[tokio::test]
async fn a_session_that_has_ended_leaves_nothing_to_go_on_with() {
    let mut processes = Processes::with(Shop::default());
    let (mut stage, _provider) = processes.first().await;
    stage.client.send(json!({ "type": "stop" })).await;
    stage.client.until("close").await;
    refused(&stage, "client-1", resume("resume-me")).await;
    stage.kill().await;
    let stage = Stage::set(processes.setting()).await;
    refused(&stage, "client-1", resume("resume-me")).await;
    stage.kill().await;
}

#[tokio::test]
async fn a_session_that_ended_with_its_server_goes_on_in_the_next() {
    let mut processes = Processes::with(Shop::default());
    let (mut stage, mut provider) = processes.first().await;
    say(&mut provider, "Good day.").await;
    provider.send(turn_end()).await;
    while stage.client.until("transcript").await["final"] != true {}
    stage.service.shut_down();
    stage.client.until("close").await;
    stage.kill().await;
    let mut stage = processes.next().await;
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "Good day.").await;
    stage.kill().await;
}

#[tokio::test]
async fn a_session_that_another_process_speaks_for_ends_and_its_client_goes_on() {
    let store = memory_store();
    let setting = Setting {
        tools: vec![order(&Shop::default())],
        ledger: Some(ledger_over(store.clone())),
        ..Setting::default()
    };
    let (mut stage, mut provider) = Stage::running(setting).await;
    say(&mut provider, "Good day.").await;
    provider.send(turn_end()).await;
    stage.client.until("turn_complete").await;
    let resume_token = token_hash("resume-me");
    let other = store.for_another_process(store_settings(2));
    // What the session saves last is on its way.
    let (conversation, leg) = loop {
        let (conversation, leg) = other.leg(&resume_token).unwrap().unwrap();
        if !leg.body.expose().is_empty() {
            break (conversation, leg);
        }
        tokio::task::yield_now().await;
    };
    let resume_it = Command::Resume(Presented {
        resume_token,
        client_id: leg.client_id,
        user_id: conversation.user_id.clone(),
    });
    let batch = Batch {
        conversation,
        commands: vec![resume_it],
    };
    let replies = other.commit(&[batch]).unwrap();
    assert!(matches!(replies[0][0], Reply::Resumed(_)), "{replies:?}");

    let typed = json!({ "type": "text", "text": "Who built the Fram?" });
    stage.client.send(typed).await;
    assert_eq!(stage.client.until("error").await["code"], "shutting_down");
    stage.client.until("close").await;
    // The leg is with the client again, and what was said is known.
    stage.client = stage.client_called("client-1").await;
    stage.client.send(resume("resume-me")).await;
    assert_eq!(stage.client.until("started").await["sessionId"], "s-1");
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "Good day.").await;
    stage.kill().await;
}

#[tokio::test]
async fn an_open_question_is_asked_again_under_its_token() {
    let mut processes = Processes::with(Shop::default());
    let (mut stage, mut provider) = processes.first().await;
    let token = asked(&mut stage, &mut provider).await;
    stage.kill().await;

    let mut stage = processes.next().await;
    let question = stage.client.until("confirmation_request").await;
    assert_eq!(question["preview"], "Order tea");
    assert_eq!(question["token"], token);
    let result = confirm(&mut stage, &token).await;
    assert_eq!(result["response"]["data"]["order"], 1);
    assert_eq!(result["callId"], question["callId"]);
    assert_eq!(processes.shop.orders(), 1);
    stage.kill().await;
}

#[tokio::test]
async fn a_client_that_comes_back_is_asked_again_what_is_open() {
    let mut processes = Processes::with(Shop::default());
    let (mut stage, mut provider) = processes.first().await;
    let token = asked(&mut stage, &mut provider).await;
    stage.lose_client().await;
    let mut client = stage.another_client().await;
    client.send(resume("resume-me")).await;
    assert_eq!(client.until("started").await["resumeToken"], "resume-me");
    assert_eq!(client.until("confirmation_request").await["token"], token);
    stage.kill().await;
}

#[tokio::test]
async fn the_model_and_the_user_who_clicks_again_are_told_what_was_done() {
    let mut processes = Processes::with(Shop::default());
    let (mut stage, mut provider) = processes.first().await;
    let token = asked(&mut stage, &mut provider).await;
    // The model's turn goes on, so that it is not told yet.
    let result = confirm(&mut stage, &token).await;
    stage.kill().await;

    let mut stage = processes.next().await;
    let again = confirm(&mut stage, &token).await;
    assert_eq!(again["response"]["data"], result["response"]["data"]);
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "\\\"order\\\":1").await;
    assert_eq!(processes.shop.orders(), 1);
    stage.kill().await;
}

#[tokio::test]
async fn what_may_have_been_done_is_unknown_to_everybody_and_not_done_again() {
    let shop = Shop {
        is_silent: true,
        ..Shop::default()
    };
    let mut processes = Processes::with(shop);
    let (mut stage, mut provider) = processes.first().await;
    let token = asked(&mut stage, &mut provider).await;
    let answer = json!({ "type": "confirm", "token": token, "approved": true });
    stage.client.send(answer).await;
    stage.client.until("tool_call_started").await;
    stage.kill().await;

    let mut stage = processes.next().await;
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "OUTCOME_UNKNOWN").await;
    let again = confirm(&mut stage, &token).await;
    assert_eq!(again["response"]["error"]["type"], "OUTCOME_UNKNOWN");
    assert_eq!(processes.shop.orders(), 1);
    stage.kill().await;
}
