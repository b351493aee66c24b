//! The audit's lines, as a direct session causes them.

use crate::support::peers::{Setting, Stage, call};
use crate::support::tools::{echo, ready, registry, tool};
use crate::support::{StillCapabilities, session_config, shared};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::handler::{Execution, Success};
use windlass_contract::id::ClientId;
use windlass_contract::intent::Intent;
use windlass_contract::json::{hash, hex};
use windlass_contract::kind::{Mode, SideEffects};
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_contract::validate::Validator;
use windlass_runtime::audit::{Audit, AuditedArguments};
use windlass_runtime::direct::{DirectRequest, call_once};
use windlass_session::model::IncomingCall;

/// The lines that one call of a tool leaves.
async fn lines(name: &str, arguments: Value, audited: AuditedArguments) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/audit.jsonl");
    let audit = Arc::new(Audit::open(&path, audited).unwrap());
    let noting = tool("noting", |invocation| {
        let context = invocation.context;
        context.audit("looked_up", json!({ "rows": 3 })).unwrap();
        ready(json!({}))
    });
    let telling = tool("telling", |invocation| {
        let pin = invocation.arguments.to_value()["pin"].clone();
        let text = pin.as_str().unwrap_or_default().to_owned();
        let said = json!({ "pin": pin, "note": format!("for {text}"), "rows": 3 });
        invocation
            .context
            .audit(format!("knew {text}"), said)
            .unwrap();
        let long = json!({ "long": "ab\"".repeat(40_000) });
        invocation.context.audit("e".repeat(300), long).unwrap();
        ready(json!({}))
    });
    let leaving = tool("leaving", |invocation| {
        let pin = invocation.arguments.to_value()["pin"].to_string();
        let message = format!("Bye, {pin}.");
        Execution::Ready(Ok(Success {
            intents: vec![Intent::SetPendingMessage { message }],
            ..Success::new(json!({}))
        }))
    });
    let keeping = Tool {
        state: [(
            "basket".into(),
            Validator::compile(&json!({ "type": "string" })).unwrap(),
        )]
        .into(),
        ..tool("keeping", |invocation| {
            let pin = invocation.arguments.to_value()["pin"].clone();
            let set = |key: &str, value: Value| Intent::SetState {
                key: key.to_owned(),
                value: Sensitive(value),
            };
            Execution::Ready(Ok(Success {
                intents: vec![
                    set("basket", pin.clone()),
                    set("basket", json!(7)),
                    set("cellar", pin.clone()),
                    set(pin.as_str().unwrap_or_default(), json!(null)),
                    set("basket", json!(null)),
                ],
                ..Success::new(json!({}))
            }))
        })
    };
    let request = DirectRequest {
        session: session_config(
            Mode::Voice,
            registry(vec![echo(), noting, telling, leaving, keeping]),
        ),
        client_id: ClientId::new("shell"),
        capabilities: Arc::new(StillCapabilities),
        shared: shared(vec![audit.clone()]),
    };
    let call = IncomingCall {
        id: Some("delivery-1".into()),
        name: Some(name.into()),
        arguments: Ok(arguments.as_object().unwrap().clone().into()),
    };
    call_once(request, call).await;
    audit.close();
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_finished_call_is_one_line_with_a_hash_in_place_of_its_arguments() {
    let arguments = json!({ "text": "tea", "pin": "1234" });
    let lines = lines("echo", arguments.clone(), AuditedArguments::Hash).await;
    let mut line = lines[0].clone();
    let key = line["idempotencyKey"].take();
    for chained in ["hash", "previousHash"] {
        assert!(line.as_object_mut().unwrap().remove(chained).is_some());
    }
    assert!(key.as_str().unwrap().contains("delivery-1"), "{key}");
    assert_eq!(
        (lines.len(), line),
        (
            1,
            json!({
                "event": "tool_execution", "sequence": 1, "timestamp": "2023-11-14T22:13:20.000Z",
                "sessionId": "s-1", "userId": "ada", "conversationId": "c-1", "mode": "voice",
                "turn": 1, "toolId": "echo", "toolVersion": "1.0.0",
                "registryVersion": "1.0.test0000", "category": "utility", "callId": "call-1",
                "idempotencyKey": null, "durationMs": 0, "ok": true, "retryCount": 0,
                "argsHash": hex(&hash(&arguments)), "intents": []
            })
        )
    );
}

#[tokio::test(start_paused = true)]
async fn arguments_are_written_only_where_configured_and_never_the_sensitive_ones() {
    let arguments = json!({ "text": "tea", "pin": "1234" });
    let lines = lines("echo", arguments, AuditedArguments::Visible).await;
    assert_eq!(lines[0]["arguments"], json!({ "text": "tea" }));
}

#[tokio::test(start_paused = true)]
async fn no_intent_says_what_a_tool_marks_as_sensitive() {
    let lines = lines(
        "leaving",
        json!({ "pin": "98765" }),
        AuditedArguments::Visible,
    )
    .await;
    let intents = json!([{ "type": "SET_PENDING_MESSAGE", "message": "(left out)" }]);
    assert_eq!(lines[0]["intents"], intents, "{}", lines[0]);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_set_is_a_line_with_its_size_and_a_rejected_one_with_its_cause() {
    let arguments = json!({ "pin": "98765" });
    let lines = lines("keeping", arguments, AuditedArguments::Visible).await;
    let text = serde_json::to_string(&lines).unwrap();
    assert!(!text.contains("98765"), "{text}");
    let said: Vec<Value> = lines[1..]
        .iter()
        .map(|line| {
            assert_eq!(
                (&line["toolId"], &line["callId"]),
                (&json!("keeping"), &json!("call-1"))
            );
            json!([
                line["event"],
                line["sequence"],
                line["key"],
                line["bytes"],
                line["problem"]
            ])
        })
        .collect();
    let (changed, rejected) = ("tool_state_changed", "tool_intent_rejected");
    let undeclared = "which no tool declares; name it under `state` in the schema.json of the tool";
    assert_eq!(
        said,
        [
            json!([changed, 2, "basket", 7, null]),
            json!([
                rejected,
                3,
                "basket",
                null,
                "SET_STATE of basket: it must be a string"
            ]),
            json!([
                rejected,
                4,
                "cellar",
                null,
                format!("SET_STATE of \"cellar\", {undeclared}")
            ]),
            json!([
                rejected,
                5,
                "(no name)",
                null,
                format!("SET_STATE of \"(no name)\", {undeclared}")
            ]),
            json!([changed, 6, "basket", null, null]),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_a_line_too() {
    let arguments = json!({ "odd": 1 });
    let of = hex(&hash(&arguments));
    let lines = lines("nothing_like_it", arguments, AuditedArguments::Hash).await;
    assert_eq!(lines[0]["argsHash"], of);
    assert_eq!(lines[0]["event"], "tool_rejection");
    assert_eq!(lines[0]["errorType"], "NOT_FOUND");
    assert_eq!(lines[0]["toolVersion"], Value::Null);
    let lines = self::lines(&"n".repeat(5_000), json!({}), AuditedArguments::Hash).await;
    assert_eq!(lines[0]["toolId"], "n".repeat(64));
}

#[tokio::test(start_paused = true)]
async fn a_handlers_own_lines_come_in_their_place() {
    let lines = lines("noting", json!({}), AuditedArguments::Hash).await;
    assert_eq!(lines[0]["event"], "looked_up");
    assert_eq!(lines[0]["data"], json!({ "rows": 3 }));
    assert_eq!(lines[1]["event"], "tool_execution");
    assert_eq!(lines[1]["sequence"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_that_gets_the_answer_of_the_call_before_is_no_line_whatever_id_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Arc::new(Audit::open(&path, AuditedArguments::Hash).unwrap());
    let writing = Tool {
        side_effects: SideEffects::Writes,
        ..echo()
    };
    let (stage, mut provider) = Stage::running(Setting {
        tools: vec![writing],
        watched_by: Some(audit.clone()),
        ..Setting::default()
    })
    .await;
    let wish = |id: &str| call(id, "echo", json!({ "text": "tea" }));
    provider.send(wish("call-00001")).await;
    provider.until("toolResponse").await;
    for (id, number, rule) in [
        ("call-00001", 2, "SameDelivery"),
        ("call-00002", 3, "SameEffectFinished"),
    ] {
        provider.send(wish(id)).await;
        let repeat = format!("CallDeduplicated {{ call: CallNumber({number}), rule: {rule}");
        stage.until_seen(&repeat).await;
    }
    audit.close();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["event"].clone(), line["callId"].clone())
    });
    let expected = [(json!("tool_execution"), json!("call-1"))];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_handlers_own_lines_say_nothing_that_its_tool_marks_as_sensitive() {
    let arguments = json!({ "pin": "98765" });
    let lines = lines("telling", arguments, AuditedArguments::Visible).await;
    assert_eq!(lines[0]["event"], "(left out)");
    let data = json!({ "pin": "(left out)", "note": "(left out)", "rows": 3 });
    assert_eq!(lines[0]["data"], data);
    assert!(!format!("{lines:?}").contains("98765"));
}

#[tokio::test(start_paused = true)]
async fn what_is_long_of_a_handlers_own_lines_is_cut() {
    let lines = lines("telling", json!({ "pin": "98765" }), AuditedArguments::Hash).await;
    assert_eq!(lines[1]["event"], "e".repeat(256));
    let data = &lines[1]["data"];
    assert_eq!(data["cut"], true);
    let beginning = data["beginning"].as_str().unwrap();
    assert_eq!(beginning.chars().count(), 65_536);
    assert!(
        beginning.starts_with("{\"long\":\"ab\\\"ab"),
        "{}",
        &beginning[..40]
    );
}

#[test]
fn a_path_that_cannot_be_written_is_named_with_its_cure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Audit::open(&file.join("audit.jsonl"), AuditedArguments::Hash)
        .err()
        .unwrap()
        .to_string();
    assert!(error.starts_with("the audit "), "{error}");
    assert!(
        error.ends_with("make its folder writable or set audit.path"),
        "{error}"
    );
}
