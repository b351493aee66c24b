//! Two approval requests of one chat: one runs out while the change of the other is being made, over real sockets.

use crate::chat::{chat_with, question, user};
use crate::support::http::post;
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// Is done when it may be.
struct Change {
    has_begun: Arc<Semaphore>,
    may_end: Arc<Semaphore>,
}

impl Handler for Change {
    fn execute(&self, _: Invocation) -> Execution {
        self.has_begun.add_permits(1);
        let may_end = self.may_end.clone();
        Execution::Pending(Box::pin(async move {
            may_end.acquire().await.unwrap().forget();
            Ok(Success::new(json!({ "done": true })))
        }))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_approves_hears_of_that_though_another_question_runs_out_meanwhile() {
    let tools = tempfile::tempdir().unwrap();
    let folder = tools.path().join("change");
    std::fs::create_dir(&folder).unwrap();
    let schema = json!({
        "toolId": "change", "version": "1.0.0", "description": "Changes something.",
        "category": "action", "sideEffects": "writes", "idempotent": false, "requiresConfirmation": true,
        "allowedModes": ["text"], "latencyBudgetMs": 1000, "timeoutMs": 60000,
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "additionalProperties": false}
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# Change\n\nChanges something.\n").unwrap();
    let (has_begun, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler: Arc<dyn Handler> = Arc::new(Change {
        has_begun: has_begun.clone(),
        may_end: may_end.clone(),
    });
    let handlers = BTreeMap::from([(ToolId::parse("change").unwrap(), handler)]);
    let rule = |last: &Value| match last["role"] == "user" {
        true => Says::Calls("change", json!({ "what": last["content"].to_string() })),
        false => Says::Words("So it is."),
    };
    let keys = [
        ("folders.tools", tools.path().to_str().unwrap()),
        ("text.limits.confirmation_seconds", "4"),
    ];
    let chat = chat_with(rule, &keys, handlers).await;
    chat.ask(&json!({"id": "c", "messages": [user("a", "One.")]}));
    let asked = chat.ask(&json!({"id": "c", "messages": [user("b", "Two.")]}));
    let token = question(&asked)["token"].as_str().unwrap().to_owned();

    let body = json!({"conversationId": "c", "token": token, "approved": true}).to_string();
    let address = chat.address.clone();
    let approving = std::thread::spawn(move || post(&address, "/api/confirm", body.as_bytes()));
    has_begun.acquire().await.unwrap().forget();
    // The same answer once more, on the stream: it hears what the first one brings about, and the end of the other question.
    let part = json!({"type": "dynamic-tool", "toolName": "change", "toolCallId": "call-2",
        "state": "approval-responded", "input": {}, "approval": {"id": token, "approved": true}});
    let answered = json!({"id": "m", "role": "assistant", "parts": [part]});
    let body = json!({"id": "c", "messages": [answered]});
    let _reader = chat.read_until(&body, "CONFIRMATION_EXPIRED");
    may_end.add_permits(1);
    let approved = approving.join().unwrap();
    assert_eq!(approved.status, 200, "{}", approved.body);
    assert!(
        approved.body.contains(r#""done":true"#),
        "{}",
        approved.body
    );
}
