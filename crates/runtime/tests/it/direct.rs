//! Calls without sockets, through the same pipeline.

use crate::support::tools::{Dropped, echo, ready, registry, tool};
use crate::support::{StillCapabilities, session_config, shared};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use windlass_contract::id::ClientId;
use windlass_contract::kind::{Mode, RateLimit, SideEffects};
use windlass_contract::registry::Tool;
use windlass_runtime::direct::{DirectRequest, DirectSession, call_once};
use windlass_session::event::SessionEvent;
use windlass_session::model::IncomingCall;

fn request(tools: Vec<Tool>) -> DirectRequest {
    DirectRequest {
        session: session_config(Mode::Voice, registry(tools)),
        client_id: ClientId::new("shell"),
        capabilities: Arc::new(StillCapabilities),
        shared: shared(Vec::new()),
    }
}

fn incoming(id: &str, name: &str, arguments: Value) -> IncomingCall {
    IncomingCall {
        id: Some(id.into()),
        name: Some(name.into()),
        arguments: Ok(arguments
            .as_object()
            .cloned()
            .unwrap_or_else(Map::new)
            .into()),
    }
}

#[tokio::test(start_paused = true)]
async fn one_call_runs_through_the_whole_pipeline() {
    let dropped = Dropped::default();
    let tools = || {
        let never = dropped.clone();
        vec![
            echo(),
            Tool {
                side_effects: SideEffects::Writes,
                ..tool("write", |invocation| {
                    ready(json!({ "effect": invocation.context.effect_id.is_some() }))
                })
            },
            Tool {
                requires_confirmation: true,
                side_effects: SideEffects::Writes,
                ..tool("pay", |_| ready(json!({})))
            },
            tool("never", move |_| never.never()),
        ]
    };
    for (name, arguments, expected) in [
        ("echo", json!({ "text": "hi" }), Ok(json!({ "said": "hi" }))),
        ("echo", json!({ "loud": true }), Err("VALIDATION")),
        ("ecco", json!({}), Err("NOT_FOUND")),
        ("write", json!({}), Ok(json!({ "effect": true }))),
        ("pay", json!({}), Err("CONFIRMATION_REQUIRED")),
        ("never", json!({}), Err("TRANSIENT")),
    ] {
        let call = incoming("call-00001", name, arguments);
        let (response, events) = call_once(request(tools()), call).await;
        let response = serde_json::to_value(&*response).unwrap();
        match expected {
            Ok(data) => assert_eq!(response["data"], data, "{name}: {response}"),
            Err(error) => assert_eq!(response["error"]["type"], error, "{name}: {response}"),
        }
        assert!(matches!(events.first(), Some(SessionEvent::SessionStarted)));
        assert!(matches!(
            events.last(),
            Some(SessionEvent::SessionEnded { .. })
        ));
    }
    assert_eq!(dropped.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_charged_over_the_sessions_of_a_user() {
    let limited = || Tool {
        rate_limit: Some(RateLimit {
            calls: 1,
            window_ms: 60_000,
        }),
        ..echo()
    };
    let first = request(vec![limited()]);
    let shared = first.shared.clone();
    let call = || incoming("call-00001", "echo", json!({}));
    let (response, _) = call_once(first, call()).await;
    assert!(response.is_ok());
    let second = DirectRequest {
        shared,
        ..request(vec![limited()])
    };
    let (response, _) = call_once(second, call()).await;
    let error = response.error().unwrap();
    assert_eq!(error.error_type.code(), "RATE_LIMIT");
    assert_eq!(error.retry_after_ms, Some(60_000));
}

#[tokio::test(start_paused = true)]
async fn a_session_answers_many_calls_with_budgets_for_each_turn() {
    let mut session = DirectSession::begin(request(vec![echo()]));
    for turn in 0..3 {
        session.user_says("again");
        for number in 0..2 {
            let id = format!("call-{turn}-{number}-long");
            let call = incoming(&id, "echo", json!({ "text": format!("{turn}{number}") }));
            assert!(session.call(call).await.is_ok());
        }
        session.turn_ends();
    }
    session.end().await;
}
