//! Questions of a chat that are asked again before they were answered, over real sockets: each answer of the server holds the
//! question that its reader is to answer, and there is one at a time.

use crate::chat::{Chat, chat_with, chunks, question, user, words};
use crate::support::change::{Changes, write_tool};
use crate::support::http::Answer;
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
    fn approve(&self, request: &Value) -> Answer {
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
async fn each_answer_in_which_the_model_asks_again_holds_the_question() {
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
        let second = question(&answer);
        let begins = |chunk: &Value| {
            chunk["type"] == "tool-input-available" && chunk["toolCallId"] == second["toolCallId"]
        };
        assert!(chunks(&answer).iter().any(begins), "{}", answer.body);
        // The question has one token at a time.
        let dead = scene.approve(&first);
        assert!(dead.body.contains("not valid"), "{}", dead.body);
        assert!(scene.changes.made().is_empty());
        let done = scene.approve(&second);
        assert_eq!(words(&done), "That is done.");
        assert_eq!(scene.changes.made(), ["one"]);
        scene.chat.close().await;
    }
}
