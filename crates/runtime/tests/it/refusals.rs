//! Sixteen ways in which a confirmation counts for nothing, over sockets and a store on disk. Each is a test of its own; all
//! begin with the same question to the user.

use crate::support::peers::{Peer, Setting, Stage, call};
use crate::support::tools::{ready, tool};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_runtime::effects::{Answer, DirectStore, EffectStore, Work};
use windlass_runtime::ids::token_hash;
use windlass_runtime::voice::VoiceSettings;
use windlass_store::{Proposal, Proposed, SqliteStore};
use windlass_tool::id::{EffectId, ToolId};
use windlass_tool::kind::SideEffects;
use windlass_tool::registry::Tool;
use windlass_tool::sensitive::Sensitive;

/// How long a question may be answered.
const VALID: Duration = Duration::from_secs(300);

/// What was ordered, and with which tool.
type Orders = Arc<Mutex<Vec<String>>>;

/// A session in which the user is asked whether tea may be ordered, over a store that other sessions share.
struct Desk {
    _folder: tempfile::TempDir,
    store: Arc<dyn EffectStore>,
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
        let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
        let store: Arc<dyn EffectStore> = Arc::new(DirectStore::new(store));
        let orders = Orders::default();
        let (stage, provider) = Stage::running(setting(&store, &orders)).await;
        let mut desk = Self {
            _folder: folder,
            store,
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
        setting(&self.store, &self.orders)
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

    /// Changes what the store has of the question, and has it under a token.
    fn rebind(&self, token: &str, change: impl Fn(&mut Proposal) + Send + 'static) {
        let (own, token_hash) = (token_hash(&self.token), token_hash(token));
        let work: Work = Box::new(move |tables| {
            let grant = tables.grant(&own)?.expect("the question is in the store");
            let mut proposal = Proposal {
                token_hash,
                effect_id: grant.effect_id,
                conversation_id: grant.conversation_id,
                user_id: grant.user_id,
                tool: grant.tool,
                tool_version: grant.tool_version,
                fingerprint: grant.fingerprint,
                arguments: grant.arguments,
                preview: grant.preview,
                // It stands for itself.
                says_unknown: true,
                expires_at_unix_ms: grant.expires_at_unix_ms,
                now_unix_ms: grant.expires_at_unix_ms - 1,
            };
            change(&mut proposal);
            tables.revoke(&token_hash)?;
            let asked = Proposed::Stored(proposal.effect_id.clone());
            assert_eq!(tables.propose(&proposal)?, asked);
            Ok(None)
        });
        match self.store.ask(work) {
            Answer::Ready(answer) => assert!(answer.unwrap().is_none()),
            Answer::Pending(_) => panic!("this store answers where it stands"),
        }
    }

    /// What has been ordered so far.
    fn expect_orders(&self, expected: &[&str]) {
        assert_eq!(*self.orders.lock().unwrap(), expected);
    }
}

fn setting(store: &Arc<dyn EffectStore>, orders: &Orders) -> Setting {
    let patient = Duration::from_secs(3_600);
    Setting {
        tools: vec![
            order("order", "1.0.0", orders),
            order("send", "1.0.0", orders),
        ],
        store: Some(store.clone()),
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
    let verdict = desk.confirm("0123456789abcdef0123456789abcdef").await;
    assert_eq!(verdict, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_truncated_token() {
    let mut desk = Desk::open().await;
    let token = desk.token[..31].to_owned();
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

/// No refusal: what it was given for has been done, and whoever did it is told so, without a second order.
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
    let eve = Setting {
        number: 3,
        user: Some("eve"),
        ..desk.setting()
    };
    assert_eq!(confirm_elsewhere(&desk, eve).await, "CONFIRMATION_EXPIRED");
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

#[tokio::test(start_paused = true)]
async fn refused_a_token_of_another_user() {
    let desk = Desk::open().await;
    let other = Setting {
        user: Some("eve"),
        ..desk.setting()
    };
    let verdict = confirm_elsewhere(&desk, other).await;
    assert_eq!(verdict, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_for_another_tool() {
    let mut desk = Desk::open().await;
    let token = desk.token.clone();
    desk.rebind(&token, |proposal| {
        proposal.tool = ToolId::parse("send").unwrap();
    });
    assert_eq!(desk.confirm(&token).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_for_changed_arguments() {
    let mut desk = Desk::open().await;
    let token = desk.token.clone();
    desk.rebind(&token, |proposal| {
        proposal.arguments = Sensitive("{\"text\":\"a ship\"}".to_owned());
        proposal.fingerprint = [7; 32];
    });
    assert_eq!(desk.confirm(&token).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_for_a_changed_tool_version() {
    let desk = Desk::open().await;
    let next = Setting {
        tools: vec![order("order", "2.0.0", &desk.orders)],
        number: 2,
        ..desk.setting()
    };
    desk.stage.served.abort();
    let mut stage = Stage::set(next).await;
    let resume = json!({ "type": "start", "resume": "resume-me" });
    stage.client.send(resume).await;
    let told = stage.client.until("confirmation_result").await;
    assert_eq!(told["response"]["error"]["type"], "CONFIRMATION_EXPIRED");
    assert_eq!(
        confirm(&mut stage, &desk.token).await,
        "CONFIRMATION_EXPIRED"
    );
    assert!(desk.orders.lock().unwrap().is_empty());
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
async fn refused_a_token_after_the_end_of_its_session() {
    let mut desk = Desk::open().await;
    desk.stage.client.send(json!({ "type": "stop" })).await;
    desk.stage.client.until("close").await;
    let next = Setting {
        number: 2,
        ..desk.setting()
    };
    let verdict = confirm_elsewhere(&desk, next).await;
    assert_eq!(verdict, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_after_its_call_was_cancelled() {
    let mut desk = Desk::open().await;
    let cancelled = json!({ "toolCallCancellation": { "ids": ["call-00001"] } });
    desk.provider.send(cancelled).await;
    desk.stage.client.until("confirmation_result").await;
    let token = desk.token.clone();
    assert_eq!(desk.confirm(&token).await, "CANCELLED");
    desk.expect_orders(&[]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_token_before_the_question() {
    let mut desk = Desk::open().await;
    let early = "00000000000000000000000000000000";
    // The store has it already, for this user and conversation, and an effect of which nobody has been asked.
    desk.rebind(early, |proposal| {
        proposal.effect_id = EffectId::new("early");
    });
    assert_eq!(desk.confirm(early).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
    let token = desk.token.clone();
    assert_eq!(desk.confirm(&token).await, "ok");
    desk.expect_orders(&["order tea"]);
}

#[tokio::test(start_paused = true)]
async fn refused_an_old_token_after_a_resume() {
    let mut desk = Desk::open().await;
    desk.stage.lose_client().await;
    let mut client = desk.stage.another_client().await;
    client
        .send(json!({ "type": "start", "resume": "resume-me" }))
        .await;
    let question = client.until("confirmation_request").await;
    desk.stage.client = client;
    let (old, new) = (desk.token.clone(), question["token"].as_str().unwrap());
    assert_eq!(desk.confirm(&old).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&[]);
    assert_eq!(desk.confirm(new).await, "ok");
    desk.expect_orders(&["order tea"]);
}

#[tokio::test(start_paused = true)]
async fn refused_a_used_token_past_its_validity() {
    let mut desk = Desk::open().await;
    let token = desk.token.clone();
    assert_eq!(desk.confirm(&token).await, "ok");
    tokio::time::sleep(VALID).await;
    assert_eq!(desk.confirm(&token).await, "CONFIRMATION_EXPIRED");
    desk.expect_orders(&["order tea"]);
}
