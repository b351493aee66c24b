//! Ways in which the answer to a question counts for nothing, over sockets and a store on disk. Each is a test of its own; all begin
//! with the same question to the user.

use crate::support::peers::{Peer, Setting, Stage, call};
use crate::support::tools::{ready, tool};
use crate::support::{ledger_over, store_settings};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_contract::kind::SideEffects;
use windlass_contract::registry::Tool;
use windlass_driver::Ledger;
use windlass_runtime::voice::VoiceSettings;
use windlass_store::SqliteStore;

/// How long a question may be answered.
const VALID: Duration = Duration::from_secs(300);

/// What was ordered, and with which tool.
type Orders = Arc<Mutex<Vec<String>>>;

/// A session in which the user is asked whether tea may be ordered, over a store that other sessions share.
struct Desk {
    _folder: tempfile::TempDir,
    ledger: Arc<dyn Ledger>,
    orders: Orders,
    stage: Stage,
    provider: Peer,
    token: String,
}

fn order(id: &'static str, version: &str, orders: &Orders) -> Tool {
    let orders = orders.clone();
    Tool {
        version: version.into(),
        side_effects: SideEffects::Writes,
        idempotent: false,
        requires_confirmation: true,
        ..tool(id, move |invocation| {
            let item = invocation.arguments.get("text").unwrap_or_default();
            let item = item.as_str().unwrap_or_default();
            orders.lock().unwrap().push(format!("{id} {item}"));
            ready(json!({ "ordered": item }))
        })
    }
}

impl Desk {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ledger = ledger_over(SqliteStore::open(folder.path(), store_settings(1)).unwrap());
        let orders = Orders::default();
        let (stage, provider) = Stage::running(setting(&ledger, &orders)).await;
        let mut desk = Self {
            _folder: folder,
            ledger,
            orders,
            stage,
            provider,
            token: String::new(),
        };
        let arguments = json!({ "text": "tea" });
        desk.token = desk.ask("call-00001", "order", arguments).await;
        desk
    }

    fn setting(&self) -> Setting {
        setting(&self.ledger, &self.orders)
    }

    /// The model asks for a change, and the user is asked for consent.
    async fn ask(&mut self, id: &str, tool: &str, arguments: Value) -> String {
        self.provider.send(call(id, tool, arguments)).await;
        let question = self.stage.client.until("confirmation_request").await;
        question["token"].as_str().unwrap().to_owned()
    }

    async fn confirm(&mut self, token: &str) -> Value {
        confirm(&mut self.stage, token).await
    }

    /// What has been ordered so far.
    fn expect_orders(&self, expected: &[&str]) {
        assert_eq!(*self.orders.lock().unwrap(), expected);
    }
}

fn setting(ledger: &Arc<dyn Ledger>, orders: &Orders) -> Setting {
    let patient = Duration::from_secs(3_600);
    Setting {
        tools: vec![
            order("order", "1.0.0", orders),
            order("send", "1.0.0", orders),
        ],
        ledger: Some(ledger.clone()),
        settings: VoiceSettings {
            client_ping_after: patient,
            client_silence_timeout: patient,
            ..VoiceSettings::default()
        },
        ..Setting::default()
    }
}

async fn confirm(stage: &mut Stage, token: &str) -> Value {
    let answer = json!({ "type": "confirm", "token": token, "approved": true });
    stage.client.send(answer).await;
    let result = stage.client.until("confirmation_result").await;
    match result["ok"].as_bool() {
        Some(true) => json!("ok"),
        _ => result["response"]["error"]["type"].clone(),
    }
}

/// Another session shows the first one's token.
async fn confirm_elsewhere(desk: &Desk, setting: Setting) -> Value {
    let (mut stage, _provider) = Stage::running(setting).await;
    let token = desk.token.clone();
    confirm(&mut stage, &token).await
}

#[tokio::test(start_paused = true)]
async fn refused_a_forged_token() {
    let mut desk = Desk::open().await;
    for forged in [
        "0123456789abcdef0123456789abcdef",
        "1.0123456789abcdef0123456789abcdef",
    ] {
        let verdict = desk.confirm(forged).await;
        assert_eq!(verdict, "CONFIRMATION_EXPIRED", "{forged}");
    }
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_truncated_token() {
    let mut desk = Desk::open().await;
    let token = desk.token[..desk.token.len() - 1].to_owned();
    assert_eq!(desk.confirm(&token).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_an_expired_token() {
    let mut desk = Desk::open().await;
    tokio::time::sleep(VALID).await;
    desk.stage.client.until("confirmation_result").await;
    let token = desk.token.clone();
    assert_eq!(desk.confirm(&token).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_consumed_token_in_other_hands() {
    let mut desk = Desk::open().await;
    let token = desk.token.clone();
    assert_eq!(desk.confirm(&token).await, "ok");
    let other = Setting {
        user: Some("eve"),
        conversation: Some("c-2"),
        ..desk.setting()
    };
    let verdict = confirm_elsewhere(&desk, other).await;
    assert_eq!(verdict, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&["order tea"]);
}

/// No refusal: the change is done, and the user is told so, without a second order.
#[tokio::test(start_paused = true)]
async fn a_used_token_gets_the_recorded_answer_in_a_session_begun_anew() {
    let mut desk = Desk::open().await;
    let token = desk.token.clone();
    assert_eq!(desk.confirm(&token).await, "ok");
    let next = Setting {
        number: 2,
        ..desk.setting()
    };
    assert_eq!(confirm_elsewhere(&desk, next).await, "ok");
    desk.expect_orders(&["order tea"]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_of_another_conversation() {
    let desk = Desk::open().await;
    let other = Setting {
        conversation: Some("c-2"),
        ..desk.setting()
    };
    let verdict = confirm_elsewhere(&desk, other).await;
    assert_eq!(verdict, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

/// Nobody else has a session of the conversation in which to show it.
#[tokio::test(start_paused = true)]
async fn refused_a_token_of_another_user() {
    let desk = Desk::open().await;
    let start = json!({ "type": "start", "conversationId": "c-1", "userId": "eve" });
    let mut eve = desk.stage.another_client().await;
    eve.send(start).await;
    assert_eq!(eve.until("error").await["code"], "foreign_conversation");
    let other = Setting {
        user: Some("eve"),
        conversation: Some("c-2"),
        ..desk.setting()
    };
    let verdict = confirm_elsewhere(&desk, other).await;
    assert_eq!(verdict, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

/// A token of one question says nothing of another one.
#[tokio::test(start_paused = true)]
async fn refused_a_token_for_another_question() {
    let mut desk = Desk::open().await;
    let tea = desk.token.clone();
    let ship = json!({ "text": "a ship" });
    let other = desk.ask("call-00002", "send", ship).await;
    let (_, mac) = tea.split_once('.').unwrap();
    let (number, _) = other.split_once('.').unwrap();
    let mixed = format!("{number}.{mac}");
    assert_eq!(desk.confirm(&mixed).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
    assert_eq!(desk.confirm(&other).await, "ok");
    desk.expect_orders(&["send a ship"]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_for_a_changed_tool_version() {
    let desk = Desk::open().await;
    let next = Setting {
        tools: vec![order("order", "2.0.0", &desk.orders)],
        number: 2,
        ..desk.setting()
    };
    let Desk {
        stage,
        token,
        orders,
        ..
    } = desk;
    stage.kill().await;
    let mut stage = Stage::set(next).await;
    let resume = json!({ "type": "start", "resume": "resume-me" });
    stage.client.send(resume).await;
    stage.client.until("confirmation_request").await;
    assert_eq!(confirm(&mut stage, &token).await, "CONFIRMATION_EXPIRED");
    assert!(orders.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn refused_a_declined_token() {
    let mut desk = Desk::open().await;
    let token = desk.token.clone();
    let no = json!({ "type": "confirm", "token": token, "approved": false });
    desk.stage.client.send(no).await;
    desk.stage.client.until("confirmation_result").await;
    assert_eq!(desk.confirm(&token).await, "CONFIRMATION_DECLINED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_in_the_arguments() {
    let mut desk = Desk::open().await;
    desk.provider.until("toolResponse").await;
    let arguments = json!({ "text": "tea", "confirmation_token": desk.token });
    desk.provider
        .send(call("call-00002", "order", arguments))
        .await;
    let answer = desk.provider.until("toolResponse").await;
    let response = &answer["toolResponse"]["functionResponses"][0]["response"];
    assert_eq!(response["error"]["type"], "VALIDATION");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn a_token_outlives_its_session_and_orders_in_the_next_one() {
    let mut desk = Desk::open().await;
    desk.stage.client.send(json!({ "type": "stop" })).await;
    desk.stage.client.until("close").await;
    let next = Setting {
        number: 2,
        ..desk.setting()
    };
    let verdict = confirm_elsewhere(&desk, next).await;
    assert_eq!(verdict, "ok");
    desk.expect_orders(&["order tea"]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_after_its_call_was_cancelled() {
    let mut desk = Desk::open().await;
    let cancelled = json!({ "toolCallCancellation": { "ids": ["call-00001"] } });
    desk.provider.send(cancelled).await;
    desk.stage.client.until("confirmation_result").await;
    let token = desk.token.clone();
    assert_eq!(desk.confirm(&token).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_before_the_question() {
    let mut desk = Desk::open().await;
    let token = desk.token.clone();
    let (_, mac) = token.split_once('.').unwrap();
    let early = format!("2.{mac}");
    assert_eq!(desk.confirm(&early).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
    assert_eq!(desk.confirm(&token).await, "ok");
    desk.expect_orders(&["order tea"]);
}

#[tokio::test(start_paused = true)]
async fn a_used_token_past_its_validity_gets_what_came_of_it_and_orders_nothing() {
    let mut desk = Desk::open().await;
    let token = desk.token.clone();
    assert_eq!(desk.confirm(&token).await, "ok");
    tokio::time::sleep(VALID).await;
    assert_eq!(desk.confirm(&token).await, "ok");
    desk.expect_orders(&["order tea"]);
}
