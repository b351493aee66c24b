//! Calls that the user has approved and that take longer than a turn may: what comes of them is heard all the same.

use crate::support::text_server::{Chat, TextServer, calls, limits, model, text};
use crate::support::tools::tool;
use serde_json::json;
use std::time::Duration;
use windlass_contract::handler::{Execution, Success};
use windlass_contract::kind::SideEffects;
use windlass_contract::registry::Tool;
use windlass_runtime::text::{FinishReason, TextLimits};

/// Takes a quarter of a minute. Nobody has to wait for it.
fn order() -> Tool {
    Tool {
        side_effects: SideEffects::Writes,
        idempotent: false,
        requires_confirmation: true,
        timeout_ms: 60_000,
        ..tool("order", |_| {
            Execution::Pending(Box::pin(async {
                tokio::time::pause();
                tokio::time::sleep(Duration::from_secs(15)).await;
                tokio::time::resume();
                Ok(Success::new(json!({"ordered": true})))
            }))
        })
    }
}

#[tokio::test]
async fn an_approved_call_that_takes_longer_than_a_turn_may_is_answered() {
    let server = TextServer::start(vec![
        calls(&[("call_one_00001", "order", json!({"text": "a"}))]),
        text("You are asked."),
        text("It is ordered."),
    ])
    .await;
    let limits = TextLimits {
        turn_timeout: Duration::from_secs(10),
        ..limits()
    };
    let models = vec![model(&server.url, "fake")];
    let mut chat = Chat::with(models, vec![order()], limits, Vec::new());
    let asked = chat.say("Order it.").await;
    let question = asked.of_type("tool-approval-request").next().unwrap();
    let token = question["approvalId"].as_str().unwrap().to_owned();
    let approved = chat.approve(&token).await;
    let output = approved.of_type("tool-output-available").next();
    assert!(output.is_some(), "{:?}", approved.chunks);
    assert_eq!(approved.words(), "It is ordered.");
    assert_eq!(approved.end.reason, FinishReason::Stop);
}
