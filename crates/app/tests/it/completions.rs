//! Completions that change something, over real sockets: what was begun is done and written down, even if the client leaves.

use crate::chat::{Chat, chat, chat_with};
use crate::processes::copy;
use crate::support::change::{Changes, write_tool};
use crate::support::http::{get, post};
use crate::support::model_server::Says;
use crate::support::root;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

struct Scene {
    chat: Chat,
    changes: Arc<Changes>,
    _tools: tempfile::TempDir,
}

/// A server in the middle of a change that a completion has begun, and the completion's client.
async fn in_the_middle(streams: bool, connections_max: &str) -> (Scene, TcpStream) {
    let rule = |last: &Value| match last["role"] == "tool" {
        true => Says::Words("That is done."),
        false => Says::Calls("change", json!({ "what": "one" })),
    };
    let tools = tempfile::tempdir().unwrap();
    write_tool(tools.path(), json!({}));
    let changes = Changes::new();
    changes.hold();
    let keys = [
        ("folders.tools", tools.path().to_str().unwrap()),
        ("server.connections_max", connections_max),
        ("server.shutdown_seconds", "600"),
    ];
    let chat = chat_with(rule, &keys, changes.handlers()).await;
    let message = json!({"role": "user", "content": "Change it."});
    let body = json!({"model": "any", "stream": streams, "messages": [message]}).to_string();
    let mut client = TcpStream::connect(&chat.address).unwrap();
    let (address, length) = (&chat.address, body.len());
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost";
    write!(
        client,
        "{head}: {address}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    changes.until_begun(1).await;
    let scene = Scene {
        chat,
        changes,
        _tools: tools,
    };
    (scene, client)
}

/// Whether the call's one line in the audit says that it went well.
fn is_recorded(data: &Path) -> bool {
    let audit = std::fs::read_to_string(data.join("audit.jsonl")).unwrap_or_default();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls: Vec<Value> = lines.filter(|line| line["toolId"] == "change").collect();
    assert!(calls.len() <= 1, "{calls:?}");
    calls.first().is_some_and(|call| call["ok"] == true)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_ends_and_is_recorded_though_the_client_of_its_completion_has_left() {
    for streams in [false, true] {
        let (scene, client) = in_the_middle(streams, "1").await;
        drop(client);
        // There is place for another connection once the server has seen that one end.
        while get(&scene.chat.address, "/health").status != 200 {}
        scene.changes.let_go();
        let data = scene.chat.close().await;
        assert_eq!(scene.changes.made(), ["one"], "streamed: {streams}");
        assert!(is_recorded(data.path()), "streamed: {streams}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_waits_for_the_changes_of_completions() {
    for (streams, leaves) in [(false, false), (true, false), (false, true), (true, true)] {
        let (scene, client) = in_the_middle(streams, "100").await;
        let listens = (!leaves).then_some(client);
        let address = scene.chat.address.clone();
        let closing = tokio::spawn(scene.chat.close());
        while get(&address, "/ready").status != 503 {}
        // It goes on to answer, as nothing but the change keeps it.
        for _ in 0..100 {
            assert_eq!(get(&address, "/ready").status, 503);
        }
        scene.changes.let_go();
        let data = closing.await.unwrap();
        drop(listens);
        assert!(
            is_recorded(data.path()),
            "streamed: {streams}, left: {leaves}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_beside_what_others_wrote_is_refused_where_nobody_can_be_asked() {
    let rule = |last: &Value| match last["role"] == "tool" {
        true if last["content"]
            .to_string()
            .contains("CONFIRMATION_REQUIRED") =>
        {
            Says::Words("That cannot be done here.")
        }
        true => Says::Calls("change", json!({ "what": "one" })),
        false => Says::Calls("kb_search", json!({ "query": "Fram" })),
    };
    let tools = tempfile::tempdir().unwrap();
    copy(
        &root().join("tools/kb-search"),
        &tools.path().join("kb-search"),
    );
    write_tool(tools.path(), json!({}));
    let changes = Changes::new();
    let handlers = windlass_handlers::builtin().into_iter();
    let handlers = handlers.chain(changes.handlers()).collect();
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, handlers).await;
    let message = json!({"role": "user", "content": "Change it."});
    let body = json!({"model": "any", "messages": [message]}).to_string();
    let answer = post(&chat.address, "/v1/chat/completions", body.as_bytes());
    assert!(answer.body.contains("cannot be done"), "{}", answer.body);
    let told = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert!(told.contains("nobody can be asked here"), "{told}");
    assert!(!told.contains("is being asked"), "{told}");
    assert!(changes.made().is_empty());
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_models_provider_keeps_its_status() {
    let chat = chat(|_| Says::Refuses, &[]).await;
    for streams in [false, true] {
        let message = json!({"role": "user", "content": "Who?"});
        let body = json!({"model": "any", "stream": streams, "messages": [message]}).to_string();
        let answer = post(&chat.address, "/v1/chat/completions", body.as_bytes());
        assert_eq!(answer.status, 400, "streamed: {streams}");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains("refused the request"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_completion_cannot_have_is_refused_in_so_many_words() {
    let chat = chat(|_| Says::Words("Hello."), &[]).await;
    let function = json!({"type": "function", "function": {"name": "look"}});
    for (key, value, said) in [
        ("tools", json!([function]), Some("leave tools out")),
        (
            "functions",
            json!([{"name": "look"}]),
            Some("leave tools out"),
        ),
        (
            "tool_choice",
            json!("required"),
            Some("leave tool_choice out"),
        ),
        (
            "response_format",
            json!({"type": "json_object"}),
            Some("response_format"),
        ),
        ("tools", json!([]), None),
        ("tools", json!(null), None),
        ("tool_choice", json!("auto"), None),
        ("response_format", json!({"type": "text"}), None),
    ] {
        let mut body = json!({"messages": [{"role": "user", "content": "Who?"}]});
        body[key] = value.clone();
        let body = body.to_string();
        let answer = post(&chat.address, "/v1/chat/completions", body.as_bytes());
        assert_eq!(
            answer.status,
            if said.is_some() { 400 } else { 200 },
            "{key} {value}"
        );
        assert!(
            answer.body.contains(said.unwrap_or("Hello.")),
            "{}",
            answer.body
        );
    }
    let models: Value = serde_json::from_str(&get(&chat.address, "/v1/models").body).unwrap();
    let id = models["data"][0]["id"].as_str().unwrap();
    assert!(!id.contains(' '), "{id}");
    let model = get(&chat.address, &format!("/v1/models/{id}"));
    let model: Value = serde_json::from_str(&model.body).unwrap();
    assert_eq!(model, models["data"][0]);
    assert_eq!(get(&chat.address, "/v1/models/another").status, 404);
}
