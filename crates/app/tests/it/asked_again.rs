//! Questions of a chat that the model asks again before they were answered, over real sockets: the user is asked once, and the
//! answer counts whenever it is given.

use crate::chat::{Chat, chat_with, chunks, question, user, words};
use crate::support::change::{Changes, write_tool};
use crate::support::http::HttpAnswer;
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::sync::Arc;

struct Scene {
    chat: Chat,
    changes: Arc<Changes>,
    _tools: tempfile::TempDir,
}

/// A chat whose model calls the tool for whatever the user says, and is to be asked first.
async fn scene() -> Scene {
    let rule = |last: &Value| match last["content"].to_string() {
        said if said.contains("approved") => Says::Words("That is done."),
        _ if last["role"] == "tool" => Says::Words("You are asked."),
        _ => Says::Calls("change", json!({ "what": "one" })),
    };
    let tools = tempfile::tempdir().unwrap();
    write_tool(tools.path(), json!({"requiresConfirmation": true}));
    let changes = Changes::new();
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, changes.handlers()).await;
    Scene {
        chat,
        changes,
        _tools: tools,
    }
}

impl Scene {
    fn approve(&self, request: &Value) -> HttpAnswer {
        let part = json!({"type": "dynamic-tool", "toolName": "change", "toolCallId": request["toolCallId"],
            "state": "approval-responded", "input": {}, "approval": {"id": request["token"], "approved": true}});
        let messages = [json!({"id": "m", "role": "assistant", "parts": [part]})];
        self.chat.ask(&json!({"id": "c", "messages": messages}))
    }
}

fn message(id: &str, text: &str) -> Value {
    json!({"id": "c", "messages": [user(id, text)]})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_asks_again_is_the_question_that_is_open() {
    let anew = || {
        let mut body = message("a", "Change it.");
        body["trigger"] = "regenerate-message".into();
        body
    };
    for again in [
        anew(),
        message("b", "Please change it now."),
        message("a", "Change it after all."),
    ] {
        let scene = scene().await;
        let first = question(&scene.chat.ask(&message("a", "Change it.")));
        let answer = scene.chat.ask(&again);
        assert_eq!(words(&answer), "You are asked.");
        // It is shown where the user looks now, and it is the same request.
        let chunks = chunks(&answer);
        let mut asks = chunks
            .iter()
            .filter(|chunk| chunk["type"] == "tool-approval-request");
        let shown = asks.next().map(|chunk| &chunk["approvalId"]);
        assert_eq!(shown, Some(&first["token"]), "{}", answer.body);
        assert_eq!(asks.next(), None, "{}", answer.body);
        let done = scene.approve(&first);
        assert_eq!(words(&done), "That is done.");
        assert_eq!(scene.changes.made(), ["one"]);
        scene.chat.close().await;
    }
}
