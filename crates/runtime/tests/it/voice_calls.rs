//! Calls of a running voice session: what the client is told, what handlers may do, and what a broken one costs.

use crate::support::peers::{Peer, Setting, Stage, call};
use crate::support::tools::{Dropped, echo, ready, tool, tool_at};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_contract::handler::{Execution, Placement, Success};
use windlass_contract::kind::SideEffects;
use windlass_contract::registry::Tool;

/// The response that the provider gets to one call.
async fn answer(provider: &mut Peer, id: &str, name: &str, args: Value) -> Value {
    provider.send(call(id, name, args)).await;
    let answer = provider.until("toolResponse").await;
    let response = &answer["toolResponse"]["functionResponses"][0];
    assert_eq!(response["id"], id);
    response["response"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_shown_to_the_client_without_its_sensitive_arguments() {
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![echo()],
        ..Setting::default()
    })
    .await;
    let args = json!({ "text": "tea", "pin": "1234" });
    let response = answer(&mut provider, "call-00001", "echo", args).await;
    assert_eq!(response["output"]["data"], json!({ "said": "tea" }));
    assert_eq!(
        stage.client.until("tool_call_started").await,
        json!({
            "type": "tool_call_started", "callId": "call-1", "tool": "echo",
            "args": { "text": "tea" }, "status": "Echoing tea"
        })
    );
    assert_eq!(
        stage.client.until("tool_call_finished").await,
        json!({
            "type": "tool_call_finished", "callId": "call-1", "tool": "echo", "ok": true,
            "durationMs": 0
        })
    );
    let complete = stage.client.until("tools_complete").await;
    assert_eq!(complete["toolCount"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_shown_with_its_error_type() {
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![echo()],
        ..Setting::default()
    })
    .await;
    let response = answer(&mut provider, "call-00001", "ecco", json!({})).await;
    assert_eq!(response["error"]["type"], "NOT_FOUND");
    let finished = stage.client.until("tool_call_finished").await;
    assert_eq!(
        (&finished["tool"], &finished["errorType"]),
        (&json!("ecco"), &json!("NOT_FOUND"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_of_a_call_is_not_shown_and_costs_no_session() {
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![echo()],
        ..Setting::default()
    })
    .await;
    let long = json!({ "text": "x".repeat(20_000) });
    answer(&mut provider, "call-00001", "echo", long).await;
    let started = stage.client.until("tool_call_started").await;
    assert_eq!(
        (started.get("args"), &started["argsOmitted"]),
        (None, &json!(true))
    );
    let long = json!({ "texd": "x".repeat(600_000) });
    let name = "n".repeat(5_000);
    let response = answer(&mut provider, "call-00002", &name, long).await;
    assert_eq!(response["error"]["type"], "NOT_FOUND");
    stage.client.until("tool_call_finished").await;
    let told = stage.client.until("tool_call_finished").await;
    let message = told["message"].as_str().unwrap();
    assert!(
        message.starts_with("there is no tool \"nnn") && message.len() < 200,
        "{message}"
    );
    assert_eq!(
        told,
        json!({
            "type": "tool_call_finished", "callId": "call-2", "tool": "n".repeat(64), "ok": false,
            "durationMs": 0, "errorType": "NOT_FOUND", "message": message, "argsOmitted": true
        })
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_says_comes_before_its_result_and_in_its_order() {
    for placement in [Placement::Inline, Placement::Apart] {
        let chatty = tool_at("chatty", placement, |invocation| {
            let context = invocation.context;
            for step in 1..=3_u8 {
                context
                    .progress(format!("step {step}"), Some(f64::from(step) / 4.0))
                    .unwrap();
            }
            context
                .send_message(json!({ "type": "note", "n": 1 }))
                .unwrap();
            ready(json!({ "done": true }))
        });
        let (mut stage, mut provider) = Stage::running(Setting {
            tools: vec![chatty],
            ..Setting::default()
        })
        .await;
        answer(&mut provider, "call-00001", "chatty", json!({})).await;
        stage.client.until("tool_call_started").await;
        for step in 1..=3 {
            let progress = stage.client.next().await;
            assert_eq!(progress["message"], format!("step {step}"), "{placement:?}");
        }
        let note = stage.client.next().await;
        let own = json!({ "type": "note", "n": 1 });
        assert_eq!(note, json!({ "type": "custom", "message": own }));
        let finished = stage.client.next().await;
        assert_eq!(finished["type"], "tool_call_finished");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_is_dropped_at_its_timeout() {
    let dropped = Dropped::default();
    let never = dropped.clone();
    let (_stage, mut provider) = Stage::running(Setting {
        tools: vec![tool("never", move |_| never.never())],
        ..Setting::default()
    })
    .await;
    let response = answer(&mut provider, "call-00001", "never", json!({})).await;
    assert_eq!(response["error"]["type"], "TRANSIENT");
    tokio::task::yield_now().await;
    assert_eq!(dropped.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_provider_takes_back_is_dropped() {
    let dropped = Dropped::default();
    let never = dropped.clone();
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![tool("never", move |_| never.never())],
        ..Setting::default()
    })
    .await;
    provider.send(call("call-00001", "never", json!({}))).await;
    stage.client.until("tool_call_started").await;
    let cancellation = json!({ "toolCallCancellation": { "ids": ["call-00001"] } });
    provider.send(cancellation).await;
    let finished = stage.client.until("tool_call_finished").await;
    assert_eq!(finished["errorType"], "CANCELLED");
    tokio::task::yield_now().await;
    assert_eq!(dropped.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_user_stops_is_dropped_and_the_model_reads_why() {
    let dropped = Dropped::default();
    let never = dropped.clone();
    let begun = Tool {
        // Pieces of a tool that has any are not shown.
        sensitive: Vec::new(),
        ..tool("begun", move |invocation| {
            invocation.context.output("one").unwrap();
            never.never()
        })
    };
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![begun],
        ..Setting::default()
    })
    .await;
    provider.send(call("call-00001", "begun", json!({}))).await;
    assert_eq!(
        stage.client.until("tool_output").await,
        json!({ "type": "tool_output", "callId": "call-1", "sequence": 1, "data": "one" })
    );
    let stop = json!({ "type": "cancel", "callId": "call-1" });
    for (wanted, outcome) in [
        (json!({ "type": "cancel", "callId": "call-2" }), "unknown"),
        (stop.clone(), "stopped"),
        (stop, "ended"),
    ] {
        stage.client.send(wanted).await;
        let result = stage.client.until("cancel_result").await;
        assert_eq!(result["outcome"], outcome, "{result}");
    }
    let malformed = json!({ "type": "cancel", "callId": "1" });
    stage.client.send(malformed).await;
    assert_eq!(stage.client.until("error").await["code"], "bad_message");
    let answer = provider.until("toolResponse").await;
    let error = &answer["toolResponse"]["functionResponses"][0]["response"]["error"];
    assert_eq!(error["type"], "CANCELLED", "{answer}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("the user stopped begun"), "{message}");
    tokio::task::yield_now().await;
    assert_eq!(dropped.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_drops_its_reads_and_lets_its_writes_end() {
    let dropped = Dropped::default();
    let never = dropped.clone();
    let written = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writing = written.clone();
    let write = Tool {
        side_effects: SideEffects::Writes,
        ..tool("write", move |_| {
            let writing = writing.clone();
            Execution::Pending(Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(3)).await;
                writing.store(true, std::sync::atomic::Ordering::SeqCst);
                Ok(Success::new(json!({})))
            }))
        })
    };
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![tool("never", move |_| never.never()), write],
        ..Setting::default()
    })
    .await;
    provider.send(call("call-00001", "never", json!({}))).await;
    provider.send(call("call-00002", "write", json!({}))).await;
    stage.client.until("tool_call_started").await;
    stage.client.until("tool_call_started").await;
    drop(stage.client);
    stage.served.await.unwrap();
    assert_eq!(dropped.count(), 1);
    assert!(written.load(std::sync::atomic::Ordering::SeqCst));
    assert!(stage.lease.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_end_holds_the_shutdown_up_for_thirty_seconds_at_most() {
    let dropped = Dropped::default();
    let never = dropped.clone();
    let write = Tool {
        side_effects: SideEffects::Writes,
        timeout_ms: 60_000,
        ..tool("write", move |_| never.never())
    };
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![write],
        ..Setting::default()
    })
    .await;
    provider.send(call("call-00001", "write", json!({}))).await;
    stage.client.until("tool_call_started").await;
    stage.service.shut_down();
    let begin = tokio::time::Instant::now();
    let said = stage.client.rest().await;
    assert_eq!(said.last(), Some(&json!({ "close": 1001 })));
    stage.served.await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 30);
    assert_eq!(dropped.count(), 1);
    assert!(stage.events.saw("SessionEnded"));
}
