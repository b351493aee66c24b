//! Sessions whose process has ended, over sockets and a store on disk: who may go on with one, and with what.

use crate::support::peers::{Peer, Setting, Stage, call, turn_end};
use crate::support::tools::{ready, tool};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass_runtime::effects::DirectStore;
use windlass_session::model::{HistoryEntry, Role};
use windlass_store::SqliteStore;
use windlass_tool::handler::{Execution, Invocation};
use windlass_tool::kind::SideEffects;
use windlass_tool::registry::Tool;
use windlass_tool::sensitive::Sensitive;

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

/// Processes that follow each other over one store.
struct Processes {
    store: Arc<SqliteStore>,
    shop: Shop,
    number: u32,
}

impl Processes {
    fn over(folder: &Path, shop: Shop) -> Self {
        Self {
            store: Arc::new(SqliteStore::open(folder).unwrap()),
            shop,
            number: 0,
        }
    }

    fn setting(&mut self) -> Setting {
        self.number += 1;
        Setting {
            tools: vec![order(&self.shop)],
            store: Some(Arc::new(DirectStore::new(self.store.clone()))),
            number: self.number,
            ..Setting::default()
        }
    }

    async fn first(&mut self) -> (Stage, Peer) {
        Stage::running(self.setting()).await
    }

    /// The next process, in which the client shows its token.
    async fn next(&mut self, token: &str) -> (Stage, Value) {
        let mut stage = Stage::set(self.setting()).await;
        stage.client.send(resume(token)).await;
        let started = stage.client.until("started").await;
        assert_eq!(started["conversationId"], "c-1");
        assert_ne!(started["resumeToken"], token);
        (stage, started)
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

/// The process ends: nothing more is heard of its session.
fn kill(stage: Stage) {
    stage.served.abort();
}

#[tokio::test]
async fn a_conversation_goes_on_with_what_was_said_and_its_open_question() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Processes::over(folder.path(), Shop::default());
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
    kill(stage);

    let (mut stage, started) = processes.next("resume-me").await;
    assert_eq!(started["sessionId"], "s-2");
    let mut provider = ready_provider(&mut stage).await;
    let told = until_told(&mut provider, "Who built the Fram?").await;
    let history = told.iter().find(|message| message.contains("Good day."));
    assert!(history.is_some_and(|history| history.contains("Hello")));
    say(&mut provider, "Colin Archer.").await;
    provider.send(turn_end()).await;
    assert_eq!(stage.client.until("turn_complete").await["turn"], 2);
    kill(stage);

    // And again, with the token of the second process.
    let (mut stage, _) = processes.next("resume-me-2").await;
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "Colin Archer.").await;
}

#[tokio::test]
async fn what_was_chatted_before_the_session_went_on_is_known_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Processes::over(folder.path(), Shop::default());
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
    kill(stage);

    let entry = |role, text: &str| HistoryEntry {
        role,
        text: Sensitive(text.to_owned()),
    };
    let account = vec![
        entry(Role::User, "Who built the Fram?"),
        entry(Role::Assistant, "Colin Archer."),
        entry(Role::User, "When was that?"),
        entry(Role::User, "And where?"),
        entry(Role::Assistant, "In Larvik."),
    ];
    let setting = processes.setting();
    let mut stage = Stage::set(Setting { account, ..setting }).await;
    stage.client.send(resume("resume-me")).await;
    stage.client.until("started").await;
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
    kill(stage);

    // It is the session's own now, and stays so in the next process.
    let (mut stage, _) = processes.next("resume-me-2").await;
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "In Larvik.").await;
}

#[tokio::test]
async fn a_token_opens_once_and_for_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Processes::over(folder.path(), Shop::default());
    let (stage, _provider) = processes.first().await;
    refused(&stage, "client-2", resume("no-such-token")).await;
    kill(stage);
    let stage = Stage::set(processes.setting()).await;
    refused(&stage, "client-2", resume("resume-me")).await;
    for start in [
        resume("no-such-token"),
        json!({ "type": "start", "resume": "resume-me", "userId": "eve" }),
        json!({ "type": "start", "resume": "resume-me", "conversationId": "c-2" }),
    ] {
        refused(&stage, "client-1", start).await;
    }
    let mut client = stage.client_without_id().await;
    client.send(resume("resume-me")).await;
    client.until("started").await;
    refused(&stage, "client-1", resume("resume-me")).await;
}

#[tokio::test]
async fn a_browser_that_came_without_its_cookie_goes_on_with_its_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Processes::over(folder.path(), Shop::default());
    let (stage, _provider) = processes.first().await;
    let mut browser = stage.browser_given("client-2").await;
    browser.send(resume("resume-me")).await;
    let mut token = browser.until("started").await["resumeToken"].clone();
    kill(stage);
    // From one process to the next, and to another.
    for _ in 0..2 {
        let mut stage = Stage::set(processes.setting()).await;
        let shown = token.as_str().unwrap();
        refused(&stage, "client-3", resume(shown)).await;
        stage.take_for_client("client-2").await;
        stage.client.send(resume(shown)).await;
        token = stage.client.until("started").await["resumeToken"].clone();
        kill(stage);
    }
    let stage = Stage::set(processes.setting()).await;
    let mut first = stage.another_client().await;
    first.send(resume(token.as_str().unwrap())).await;
    first.until("started").await;
}

#[tokio::test]
async fn a_session_that_lives_is_not_taken_from_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Processes::over(folder.path(), Shop::default());
    let (stage, _provider) = processes.first().await;
    let mut client = stage.another_client().await;
    client.send(resume("resume-me")).await;
    let started = client.until("started").await;
    assert_eq!(started["sessionId"], "s-1");
    refused(&stage, "client-1", resume("resume-me")).await;
}

#[tokio::test]
async fn a_session_that_has_ended_leaves_nothing_to_go_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Processes::over(folder.path(), Shop::default());
    let (mut stage, _provider) = processes.first().await;
    stage.client.send(json!({ "type": "stop" })).await;
    stage.client.until("close").await;
    kill(stage);
    let stage = Stage::set(processes.setting()).await;
    refused(&stage, "client-1", resume("resume-me")).await;
}

#[tokio::test]
async fn a_session_that_ended_with_its_server_goes_on_in_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Processes::over(folder.path(), Shop::default());
    let (mut stage, mut provider) = processes.first().await;
    say(&mut provider, "Good day.").await;
    provider.send(turn_end()).await;
    while stage.client.until("transcript").await["final"] != true {}
    stage.service.shut_down();
    stage.client.until("close").await;
    let (mut stage, _) = processes.next("resume-me").await;
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "Good day.").await;
}

#[tokio::test]
async fn an_open_question_gets_a_new_token_and_the_old_one_dies() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Processes::over(folder.path(), Shop::default());
    let (mut stage, mut provider) = processes.first().await;
    let old = asked(&mut stage, &mut provider).await;
    kill(stage);

    let (mut stage, _) = processes.next("resume-me").await;
    let question = stage.client.until("confirmation_request").await;
    assert_eq!(question["preview"], "Order tea");
    let refused = confirm(&mut stage, &old).await;
    assert_eq!(refused["response"]["error"]["type"], "CONFIRMATION_EXPIRED");
    assert_eq!(processes.shop.orders(), 0);
    let result = confirm(&mut stage, question["token"].as_str().unwrap()).await;
    assert_eq!(result["response"]["data"]["order"], 1);
    assert_eq!(result["callId"], question["callId"]);
    assert_eq!(processes.shop.orders(), 1);
}

#[tokio::test]
async fn what_was_done_is_told_to_the_model_and_to_whoever_clicks_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = Processes::over(folder.path(), Shop::default());
    let (mut stage, mut provider) = processes.first().await;
    let token = asked(&mut stage, &mut provider).await;
    // The model's turn goes on, so that it is not told yet.
    let result = confirm(&mut stage, &token).await;
    kill(stage);

    let (mut stage, _) = processes.next("resume-me").await;
    let again = confirm(&mut stage, &token).await;
    assert_eq!(again["response"]["data"], result["response"]["data"]);
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "\\\"order\\\":1").await;
    assert_eq!(processes.shop.orders(), 1);
}

#[tokio::test]
async fn what_may_have_been_done_is_unknown_to_everybody_and_not_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop {
        is_silent: true,
        ..Shop::default()
    };
    let mut processes = Processes::over(folder.path(), shop);
    let (mut stage, mut provider) = processes.first().await;
    let token = asked(&mut stage, &mut provider).await;
    let answer = json!({ "type": "confirm", "token": token, "approved": true });
    stage.client.send(answer).await;
    stage.client.until("tool_call_started").await;
    kill(stage);

    let (mut stage, _) = processes.next("resume-me").await;
    let result = stage.client.until("confirmation_result").await;
    assert_eq!(result["response"]["error"]["type"], "OUTCOME_UNKNOWN");
    let mut provider = ready_provider(&mut stage).await;
    until_told(&mut provider, "OUTCOME_UNKNOWN").await;
    let again = confirm(&mut stage, &token).await;
    assert_eq!(again["response"]["error"]["type"], "OUTCOME_UNKNOWN");
    assert_eq!(processes.shop.orders(), 1);
}
