//! Consent over sockets and a store on disk: what a client may approve, how often, and what of it outlives a session.

use crate::support::peers::{Peer, Setting, Stage, call};
use crate::support::tools::{ready, tool};
use crate::support::{ledger_over, store_settings};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use windlass_contract::handler::{
    Execution, Finding, Handler, Invocation, Lookup, LookupInvocation, OutcomeLookup, Placement,
    Success,
};
use windlass_contract::kind::{RateLimit, SideEffects};
use windlass_contract::registry::Tool;
use windlass_runtime::audit::{Audit, AuditedArguments};
use windlass_runtime::store_thread::{StoreThread, Surroundings, ThreadSettings};
use windlass_store::SqliteStore;

/// A service outside that counts what it is asked for, by its caller's key.
#[derive(Clone, Default)]
struct Shop(Arc<AtomicUsize>);

impl Shop {
    fn orders(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn order(&self, invocation: &Invocation) -> Execution {
        let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        let key = invocation.context.effect_id.as_ref();
        ready(json!({ "order": number, "key": key.map(|key| key.as_str().to_owned()) }))
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

fn store_thread(folder: &Path) -> StoreThread {
    let store = Arc::new(SqliteStore::open(folder, store_settings(1)).unwrap());
    let surroundings = Surroundings::with_audit(None);
    StoreThread::start(store, ThreadSettings::default(), surroundings).unwrap()
}

async fn asked(stage: &mut Stage, provider: &mut Peer, text: &str) -> String {
    asked_under("call-00001", stage, provider, text).await
}

async fn asked_under(id: &str, stage: &mut Stage, provider: &mut Peer, text: &str) -> String {
    provider
        .send(call(id, "order", json!({ "text": text })))
        .await;
    let question = stage.client.until("confirmation_request").await;
    assert_eq!(question["preview"], format!("Order {text}"));
    assert_eq!(question["args"], json!({ "text": text }));
    let answer = provider.until("toolResponse").await;
    let response = &answer["toolResponse"]["functionResponses"][0]["response"];
    assert_eq!(response["error"]["type"], "CONFIRMATION_REQUIRED");
    let token = question["token"].as_str().unwrap().to_owned();
    assert!(token.len() > 32 && !answer.to_string().contains(&token));
    token
}

async fn confirm(stage: &mut Stage, token: &str, approved: bool) {
    let answer = json!({ "type": "confirm", "token": token, "approved": approved });
    stage.client.send(answer).await;
}

async fn result(stage: &mut Stage) -> Value {
    stage.client.until("confirmation_result").await
}

#[tokio::test]
async fn fifty_clicks_at_once_are_one_effect_and_fifty_equal_answers() {
    let folder = tempfile::tempdir().unwrap();
    let thread = store_thread(folder.path());
    let shop = Shop::default();
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![order(&shop)],
        ledger: Some(Arc::new(thread.handle())),
        ..Setting::default()
    })
    .await;
    let token = asked(&mut stage, &mut provider, "tea").await;
    for _ in 0..50 {
        confirm(&mut stage, &token, true).await;
    }
    let first = result(&mut stage).await;
    assert_eq!(
        (&first["ok"], &first["response"]["data"]["order"]),
        (&json!(true), &json!(1))
    );
    for _ in 1..50 {
        assert_eq!(result(&mut stage).await, first);
    }
    assert_eq!(shop.orders(), 1);
}

#[tokio::test]
async fn however_often_an_approval_comes_too_soon_it_is_one_line_of_the_audit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Arc::new(Audit::open(&path, AuditedArguments::Hash).unwrap());
    let shop = Shop::default();
    let limited = Tool {
        rate_limit: Some(RateLimit {
            calls: 1,
            window_ms: 86_400_000,
        }),
        ..order(&shop)
    };
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![limited],
        watched_by: Some(audit.clone()),
        ..Setting::default()
    })
    .await;
    let tea = asked(&mut stage, &mut provider, "tea").await;
    let milk = asked_under("call-00002", &mut stage, &mut provider, "milk").await;
    confirm(&mut stage, &tea, true).await;
    assert_eq!(result(&mut stage).await["ok"], true);
    for _ in 0..200 {
        confirm(&mut stage, &milk, true).await;
        let refused = result(&mut stage).await;
        assert_eq!(refused["response"]["error"]["type"], "RATE_LIMIT");
    }
    assert_eq!(shop.orders(), 1);
    audit.close();
    let written = std::fs::read_to_string(&path).unwrap();
    let lines = written.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["callId"].clone(), line["errorType"].clone())
    });
    let expected = [
        (json!("call-1"), json!("CONFIRMATION_REQUIRED")),
        (json!("call-2"), json!("CONFIRMATION_REQUIRED")),
        (json!("call-1"), Value::Null),
        (json!("call-2"), json!("RATE_LIMIT")),
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_just_behind_the_servers_end_is_taken_and_told() {
    for approved in [false, true] {
        let shop = Shop::default();
        let (mut stage, mut provider) = Stage::running(Setting {
            tools: vec![order(&shop)],
            ..Setting::default()
        })
        .await;
        let token = asked(&mut stage, &mut provider, "tea").await;
        stage.service.shut_down();
        tokio::time::sleep(Duration::from_millis(200)).await;
        confirm(&mut stage, &token, approved).await;
        let result = result(&mut stage).await;
        assert_eq!(result["ok"], approved, "{result}");
        assert_eq!(stage.client.until("close").await["close"], 1001);
        assert_eq!(shop.orders(), usize::from(approved));
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_who_does_not_answer_holds_up_the_servers_end_for_a_second() {
    let shop = Shop::default();
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![order(&shop)],
        ..Setting::default()
    })
    .await;
    asked(&mut stage, &mut provider, "tea").await;
    let begun = tokio::time::Instant::now();
    stage.service.shut_down();
    assert_eq!(stage.client.until("close").await["close"], 1001);
    assert_eq!(begun.elapsed().as_secs(), 1);
}

#[tokio::test]
async fn tokens_that_were_never_given_approve_nothing() {
    let shop = Shop::default();
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![order(&shop)],
        ..Setting::default()
    })
    .await;
    let token = asked(&mut stage, &mut provider, "tea").await;
    for wrong in [&token[..31], "", "0123456789abcdef0123456789abcdef"] {
        confirm(&mut stage, wrong, true).await;
        let refused = result(&mut stage).await;
        assert_eq!(
            (&refused["callId"], &refused["response"]["error"]["type"]),
            (&Value::Null, &json!("CONFIRMATION_EXPIRED")),
            "{wrong:?}"
        );
    }
    assert_eq!(shop.orders(), 0);
    confirm(&mut stage, &token, false).await;
    let declined = result(&mut stage).await;
    assert_eq!(
        declined["response"]["error"]["type"],
        "CONFIRMATION_DECLINED"
    );
    confirm(&mut stage, &token, true).await;
    let declined_still = result(&mut stage).await;
    // On a slow machine it is said anew, at another time.
    let error = |result: &Value| result["response"]["error"].clone();
    assert_eq!(error(&declined_still), error(&declined));
    assert_eq!(shop.orders(), 0);
}

/// What was ordered by a process that is gone, and can still be looked up.
struct Remembering(Shop);

impl Handler for Remembering {
    fn execute(&self, invocation: Invocation) -> Execution {
        let _ = self.0.order(&invocation);
        // The service took the order, and its answer never comes.
        Execution::Pending(Box::pin(std::future::pending()))
    }

    /// The order is placed before the process can be killed.
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        Some(self)
    }
}

impl OutcomeLookup for Remembering {
    fn look_up(&self, invocation: LookupInvocation) -> Lookup {
        let found = Success::new(json!({ "found": invocation.effect_id.as_str() }));
        Lookup::Found(Finding::Happened(Box::new(found)))
    }
}

#[tokio::test]
async fn what_a_lost_session_began_is_looked_up_by_the_next_and_not_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::default();
    let setting = |process| Setting {
        tools: vec![Tool {
            requires_confirmation: false,
            handler: Arc::new(Remembering(shop.clone())),
            ..order(&shop)
        }],
        ledger: Some(ledger_over(
            SqliteStore::open(folder.path(), store_settings(process)).unwrap(),
        )),
        number: process,
        ..Setting::default()
    };
    let args = json!({ "text": "tea" });
    let (mut stage, mut provider) = Stage::running(setting(1)).await;
    provider
        .send(call("call-00001", "order", args.clone()))
        .await;
    stage.client.until("tool_call_started").await;
    // The process ends here: nothing more is heard of this session.
    stage.kill().await;

    let (_next, mut provider) = Stage::running(setting(2)).await;
    provider.send(call("call-00009", "order", args)).await;
    let answer = provider.until("toolResponse").await;
    let response = &answer["toolResponse"]["functionResponses"][0]["response"];
    assert!(
        response["output"]["data"]["found"].is_string(),
        "{response}"
    );
    assert_eq!(shop.orders(), 1);
}
