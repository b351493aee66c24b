//! Changes that a service has accepted, or that take longer than anybody waits, by voice: the model and the client hear that they are
//! at work, and then how they ended.

use crate::support::ledger_over;
use crate::support::memory_store;
use crate::support::peers::{Setting, Stage, call, turn_end};
use crate::support::tools::tool;
use serde_json::json;
use std::sync::Mutex;
use tokio::sync::mpsc;
use windlass_contract::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_contract::handler::{Execution, Success};
use windlass_contract::id::EffectId;
use windlass_contract::kind::SideEffects;
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{CalledBack, Command};
use windlass_store::{AttemptOutcome, Batch};

fn order() -> Tool {
    Tool {
        side_effects: SideEffects::Writes,
        idempotent: false,
        ..tool("order", |invocation| {
            let context = invocation.context;
            Execution::Ready(Ok(Success {
                accepted_until_unix_ms: Some(context.capabilities.now_unix_ms() + 3_600_000),
                ..Success::new(json!({"status": "accepted", "backgroundTaskId": context.effect_id}))
            }))
        })
    }
}

/// The answer with which the service calls back.
fn told() -> Sensitive<String> {
    let response = ToolResponse {
        outcome: Outcome::Success {
            data: Some(json!({"table": "by the window"}).into()),
            content: Vec::new(),
        },
        intents: Vec::new(),
        meta: meta_without_tool("order", "1.0.test0000".into(), 1),
    };
    Sensitive(serde_json::to_string(&response).unwrap())
}

/// A change that says how far it is as often as it is sent a word, and ends with the sender.
fn export(words: mpsc::UnboundedReceiver<&'static str>) -> Tool {
    let words = Mutex::new(Some(words));
    Tool {
        side_effects: SideEffects::Writes,
        idempotent: false,
        timeout_ms: 600_000,
        ..tool("export", move |invocation| {
            let mut words = words.lock().unwrap().take().expect("it runs once");
            Execution::Pending(Box::pin(async move {
                while let Some(word) = words.recv().await {
                    invocation.context.progress(word, None).unwrap();
                }
                Ok(Success::new(json!({"rows": 7})))
            }))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_takes_minutes_is_at_work_over_a_reconnect_and_told_on_the_next_connection() {
    let (sender, words) = mpsc::unbounded_channel();
    let setting = Setting {
        tools: vec![export(words)],
        ..Setting::default()
    };
    let (mut stage, mut provider) = Stage::running(setting).await;
    provider.send(call("call-00001", "export", json!({}))).await;
    let answer = provider.until("toolResponse").await;
    let data = &answer["toolResponse"]["functionResponses"][0]["response"]["output"]["data"];
    assert_eq!(
        (&data["status"], &data["state"]),
        (&json!("accepted"), &json!("running")),
        "{answer}"
    );
    let finished = stage.client.until("tool_call_finished").await;
    assert_eq!(finished["accepted"], true, "{finished}");
    provider.send(turn_end()).await;
    stage.client.until("turn_complete").await;
    drop(provider);
    stage.client.until("reconnecting").await;
    let mut provider = stage.provider().await;
    provider.until("setup").await;
    sender.send("half way").unwrap();
    let progress = stage.client.until("tool_progress").await;
    assert_eq!(
        (&progress["callId"], &progress["message"]),
        (&json!("call-1"), &json!("half way")),
        "{progress}"
    );
    drop(sender);
    let finished = stage.client.until("tool_call_finished").await;
    assert_eq!(
        (&finished["callId"], &finished["ok"], &finished["accepted"]),
        (&json!("call-1"), &json!(true), &json!(null)),
        "{finished}"
    );
    provider.send(json!({ "setupComplete": {} })).await;
    while !provider.next().await.to_string().contains("rows") {}
}

#[tokio::test]
async fn by_voice_model_and_client_hear_of_both() {
    let ledger = ledger_over(memory_store());
    let setting = Setting {
        tools: vec![order()],
        ledger: Some(ledger.clone()),
        ..Setting::default()
    };
    let (mut stage, mut provider) = Stage::running(setting).await;
    provider.send(call("call-00001", "order", json!({}))).await;
    let answer = provider.until("toolResponse").await;
    let data = &answer["toolResponse"]["functionResponses"][0]["response"]["output"]["data"];
    assert_eq!(data["status"], "accepted", "{answer}");
    let effect_id = EffectId::new(data["backgroundTaskId"].as_str().unwrap());
    let finished = stage.client.until("tool_call_finished").await;
    assert_eq!(finished["accepted"], true, "{finished}");
    provider.send(turn_end()).await;
    stage.client.until("turn_complete").await;
    let found = ledger.store().effect_of_any(&effect_id).unwrap();
    let replies = ledger.apply(Batch {
        conversation: found.unwrap().0,
        commands: vec![Command::CalledBack(Box::new(CalledBack {
            effect_id,
            outcome: AttemptOutcome::Succeeded,
            receipt: Some(told()),
            values: None,
        }))],
    });
    replies.await.unwrap();
    let finished = stage.client.until("tool_call_finished").await;
    assert_eq!(
        (&finished["callId"], &finished["ok"], &finished["accepted"]),
        (&json!("call-1"), &json!(true), &json!(null)),
        "{finished}"
    );
    while !provider.next().await.to_string().contains("by the window") {}
}
