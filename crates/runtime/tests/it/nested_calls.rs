//! Tools that call tools, with real handlers: in place, as tasks and on threads, by voice and alone.

use crate::support::peers::{Setting, Stage, call};
use crate::support::tools::{Dropped, echo, ready, registry, tool, tool_at};
use crate::support::{StillCapabilities, session_config, shared};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::handler::{Context, Execution, Invocation, Placement, Success};
use windlass_contract::id::ClientId;
use windlass_contract::kind::{Mode, SideEffects};
use windlass_contract::registry::Tool;
use windlass_runtime::direct::{DirectRequest, call_once};
use windlass_session::event::SessionEvent;
use windlass_session::model::IncomingCall;

/// Runs a future as a handler does.
fn with<F: Future<Output = Value> + Send + 'static>(
    run: impl Fn(Arc<Context>) -> F + Send + Sync + 'static,
) -> impl Fn(Invocation) -> Execution + Send + Sync + 'static {
    move |invocation| {
        let running = run(Arc::new(invocation.context));
        Execution::Pending(Box::pin(async move { Ok(Success::new(running.await)) }))
    }
}

fn writes(tool: Tool) -> Tool {
    Tool {
        side_effects: SideEffects::Writes,
        ..tool
    }
}

/// A response as JSON, without what differs from run to run.
fn told(response: &impl serde::Serialize) -> Value {
    let mut told = serde_json::to_value(response).unwrap();
    let parent = told["meta"]["parentCallId"].take();
    told.as_object_mut().unwrap().remove("meta");
    told["parent"] = parent;
    told
}

/// Sets a table: asks how many come, and books for them twice at once.
fn dinner(placement: Placement) -> Vec<Tool> {
    let dinner = with(|context| async move {
        let echoed = context.call_tool("echo", json!({ "text": "four" })).await;
        let both = [1, 2].map(|_| context.call_tool("book", json!({ "text": "four" })));
        let [first, second] = both;
        let (first, second) = (first.await, second.await);
        let missing = context.call_tool("bok", json!({})).await;
        let wrong = context.call_tool("echo", json!(["four"])).await;
        json!([
            told(&echoed),
            told(&first),
            told(&second),
            told(&missing),
            told(&wrong)
        ])
    });
    vec![
        echo(),
        writes(tool("book", |invocation| {
            let effect_id = invocation.context.effect_id.unwrap();
            ready(json!({ "booked": effect_id.as_str().len() }))
        })),
        writes(tool_at("dinner", placement, dinner)),
    ]
}

fn is_right(answers: &Value) {
    let booked = json!({ "ok": true, "data": { "booked": 45 }, "parent": "call-1" });
    assert_eq!(
        answers[0],
        json!({ "ok": true, "data": { "said": "four" }, "parent": "call-1" })
    );
    assert_eq!(answers[1], booked, "{answers}");
    assert_eq!(answers[2], booked, "{answers}");
    assert_eq!(answers[3]["error"]["type"], "NOT_FOUND", "{answers}");
    assert_eq!(answers[4]["error"]["type"], "VALIDATION", "{answers}");
}

#[tokio::test]
async fn a_handler_calls_tools_and_has_their_whole_answers() {
    for placement in [Placement::Inline, Placement::Apart] {
        let request = DirectRequest {
            session: session_config(Mode::Text, registry(dinner(placement))),
            client_id: ClientId::new("shell"),
            capabilities: Arc::new(StillCapabilities),
            shared: shared(Vec::new()),
        };
        let call = IncomingCall {
            id: Some("call-00001".into()),
            name: Some("dinner".into()),
            arguments: Ok(serde_json::Map::new().into()),
        };
        let (response, events) = call_once(request, call).await;
        let response = serde_json::to_value(&*response).unwrap();
        assert_eq!(response["meta"]["toolId"], "dinner");
        is_right(&response["data"]);
        let ended = events.iter().filter_map(|event| match event {
            SessionEvent::CallFinished(record) | SessionEvent::CallRejected(record) => {
                Some((record.shown_name().to_owned(), record.parent().is_some()))
            }
            _ => None,
        });
        let ended: Vec<(String, bool)> = ended.collect();
        let expected = [
            ("echo", true),
            ("book", true),
            ("book", true),
            ("bok", true),
            ("echo", true),
            ("dinner", false),
        ];
        assert_eq!(
            ended,
            expected.map(|(name, nested)| (name.to_owned(), nested))
        );
    }
}

#[tokio::test]
async fn by_voice_the_model_has_one_answer_and_the_client_sees_the_parts() {
    let mut tools = dinner(Placement::Inline);
    tools.truncate(2);
    tools.push(writes(tool(
        "dinner",
        with(|context| async move {
            let echoed = context.call_tool("echo", json!({ "text": "four" })).await;
            let booked = context.call_tool("book", json!({ "text": "four" })).await;
            json!([echoed.is_ok(), booked.is_ok()])
        }),
    )));
    let setting = Setting {
        tools,
        ..Setting::default()
    };
    let (mut stage, mut provider) = Stage::running(setting).await;
    provider.send(call("call-00001", "dinner", json!({}))).await;
    let answer = provider.until("toolResponse").await;
    let answers = answer["toolResponse"]["functionResponses"]
        .as_array()
        .unwrap();
    assert_eq!(answers.len(), 1, "{answer}");
    assert_eq!(
        answers[0]["response"]["output"]["data"],
        json!([true, true]),
        "{answer}"
    );
    let mut shown = Vec::new();
    loop {
        let message = stage.client.next().await;
        let part = |name: &str| message[name].as_str().unwrap_or("-").to_owned();
        match message["type"].as_str().unwrap() {
            kind @ ("tool_call_started" | "tool_call_finished") => {
                assert!(message["result"].is_null() || message["parentCallId"].is_null());
                shown.push(format!(
                    "{kind} {} of {}",
                    part("tool"),
                    part("parentCallId")
                ));
            }
            "tools_complete" => {
                assert_eq!(message["toolCount"], 1);
                break;
            }
            _ => {}
        }
    }
    assert_eq!(
        shown,
        [
            "tool_call_started dinner of -",
            "tool_call_started echo of call-1",
            "tool_call_finished echo of call-1",
            "tool_call_started book of call-1",
            "tool_call_finished book of call-1",
            "tool_call_finished dinner of -",
        ]
    );
}

#[tokio::test]
async fn a_client_that_leaves_takes_calls_along_that_change_nothing() {
    let dropped = Dropped::default();
    let (outer, inner) = (dropped.clone(), dropped.clone());
    let waiting = tool("waiting", move |_| inner.never());
    let asking = tool("asking", move |invocation| {
        let answer = invocation.context.call_tool("waiting", json!({}));
        let Execution::Pending(never) = outer.never() else {
            unreachable!("it never ends");
        };
        Execution::Pending(Box::pin(async move {
            answer.await;
            never.await
        }))
    });
    let setting = Setting {
        tools: vec![waiting, asking],
        ..Setting::default()
    };
    let (mut stage, mut provider) = Stage::running(setting).await;
    provider.send(call("call-00001", "asking", json!({}))).await;
    while stage.client.until("tool_call_started").await["tool"] != "waiting" {}
    stage.client.send(json!({ "type": "stop" })).await;
    stage.client.rest().await;
    stage.served.await.unwrap();
    assert_eq!(dropped.count(), 2);
}
