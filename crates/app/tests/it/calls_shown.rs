//! What a client is shown of calls: their arguments, also where they were refused, and the beginning of what they brought;
//! never what a tool marks as sensitive.

use crate::support::config;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use windlass_app::server::{Setup, start};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// Returns what it was given; a card that is long, many times over.
struct Mirror;

const LONG: usize = 400;
const TIMES: usize = 41;

impl Handler for Mirror {
    fn execute(&self, invocation: Invocation) -> Execution {
        let mut data = invocation.arguments.to_value();
        if let Some(card) = data["card"].as_str().filter(|card| card.len() >= LONG) {
            data["card"] = card.repeat(TIMES).into();
        }
        Execution::Ready(Ok(Success::new(data)))
    }
}

fn write_tool(tools: &Path, id: &str, sensitive: &[&str]) {
    let tool = tools.join(id.replace('_', "-"));
    fs::create_dir_all(&tool).unwrap();
    let schema = json!({
        "toolId": id, "version": "1.0.0", "description": "Returns what it was given.", "category": "utility",
        "sideEffects": "none", "idempotent": true, "requiresConfirmation": false,
        "allowedModes": ["voice"], "latencyBudgetMs": 1_000, "sensitive": sensitive,
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["card"],
            "properties": {
                "card": { "type": "string", "description": "A number" },
                "note": { "type": "string", "description": "A remark" }
            }
        }
    });
    fs::write(tool.join("schema.json"), schema.to_string()).unwrap();
    fs::write(
        tool.join("guide.md"),
        "# Mirror\n\nReturns what it was given.\n",
    )
    .unwrap();
}

/// What the client is told of a call that ends so.
async fn finished(client: &mut VoiceClient, tool: &str, arguments: &Value) -> Value {
    client.say(&format!("call {tool} {arguments}")).await;
    let mut finished = client.expect("tool_call_finished").await;
    client.expect("turn_complete").await;
    for field in ["callId", "durationMs", "type"] {
        finished.as_object_mut().unwrap().remove(field);
    }
    finished
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_shown_what_refused_calls_asked_and_what_others_brought() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    write_tool(&tools, "open_mirror", &[]);
    write_tool(&tools, "closed_mirror", &["/card"]);
    let mut handlers = windlass_handlers::builtin();
    for id in ["open_mirror", "closed_mirror"] {
        handlers.insert(ToolId::parse(id).unwrap(), Arc::new(Mirror));
    }
    let server = start(Setup {
        config: config(
            &folder.path().join("data"),
            &[("folders.tools", tools.to_str().unwrap())],
        ),
        handlers,
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    let long = "é".repeat(LONG);
    let cut = format!("{{\"card\":\"{}…", "é".repeat(15_991));
    let wrong = json!({"card": 4_111, "crad": "4111"});
    for (tool, arguments, expected) in [
        (
            "open_mirror",
            json!({"card": "4111"}),
            json!({"ok": true, "result": "{\"card\":\"4111\"}"}),
        ),
        (
            "open_mirror",
            json!({"card": long}),
            json!({"ok": true, "result": cut}),
        ),
        (
            "open_mirror",
            wrong.clone(),
            json!({"ok": false, "errorType": "VALIDATION", "args": wrong}),
        ),
        (
            "closed_mirror",
            json!({"card": "4111"}),
            json!({"ok": true}),
        ),
        (
            "closed_mirror",
            wrong,
            json!({"ok": false, "errorType": "VALIDATION"}),
        ),
    ] {
        let mut expected = expected;
        expected["tool"] = tool.into();
        let mut told = finished(&mut client, tool, &arguments).await;
        // Of a tool with sensitive arguments nothing is told that may quote them.
        let message = told.as_object_mut().unwrap().remove("message");
        let is_told = tool == "open_mirror" && expected["ok"] == false;
        assert_eq!(message.is_some(), is_told, "{arguments}: {message:?}");
        if let Some(message) = message {
            assert!(message.as_str().unwrap().contains("crad"), "{message}");
        }
        assert_eq!(told, expected, "{arguments}");
    }
    server.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_fit_are_shown_without_the_sensitive_ones_where_a_budget_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    write_tool(&tools, "closed_mirror", &["/card"]);
    let mut handlers = windlass_handlers::builtin();
    handlers.insert(ToolId::parse("closed_mirror").unwrap(), Arc::new(Mirror));
    let keys = [
        ("folders.tools", tools.to_str().unwrap()),
        ("voice.limits.turn.calls_max", "0"),
    ];
    let server = start(Setup {
        config: config(&folder.path().join("data"), &keys),
        handlers,
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    let arguments = json!({"card": "4111", "note": "for the dogs"});
    assert_eq!(
        finished(&mut client, "closed_mirror", &arguments).await,
        json!({"tool": "closed_mirror", "ok": false, "errorType": "BUDGET_EXCEEDED",
            "args": {"note": "for the dogs"}})
    );
    server.shut_down().await;
}
