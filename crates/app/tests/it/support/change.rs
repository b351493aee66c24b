//! A tool that changes something: its folder, and a handler that writes down what it has changed, and waits where a test holds
//! it. Knows no rule that is tested.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use windlass_app::server::Handlers;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Execution, Failure, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A change of this cannot be made.
pub(crate) const FAILS: &str = "what cannot be changed";

/// Writes the tool `change`, which needs no consent unless `more`, fields of its `schema.json`, says so.
pub(crate) fn write_tool(tools: &Path, more: Value) {
    let mut schema = json!({
        "toolId": "change", "version": "1.0.0", "description": "Changes something.",
        "category": "action", "sideEffects": "writes", "idempotent": true, "requiresConfirmation": false,
        "allowedModes": ["text"], "latencyBudgetMs": 1000, "timeoutMs": 60000,
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "additionalProperties": false}
    });
    let Value::Object(more) = more else {
        panic!("fields are an object");
    };
    schema.as_object_mut().unwrap().extend(more);
    let folder = tools.join("change");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# Change\n\nChanges something.\n").unwrap();
}

/// What the handler has begun and done.
pub(crate) struct Changes {
    begun: watch::Sender<usize>,
    is_held: watch::Sender<bool>,
    made: Mutex<Vec<String>>,
}

struct Change(Arc<Changes>);

impl Handler for Change {
    fn execute(&self, invocation: Invocation) -> Execution {
        let changes = self.0.clone();
        let arguments: Value = serde_json::to_value(&*invocation.arguments).unwrap();
        let what = arguments["what"].as_str().unwrap_or_default().to_owned();
        changes.begun.send_modify(|begun| *begun += 1);
        Execution::Pending(Box::pin(async move {
            let mut is_held = changes.is_held.subscribe();
            is_held.wait_for(|is_held| !*is_held).await.unwrap();
            if what == FAILS {
                return Err(Failure::new(FailureKind::Permanent, "it cannot be changed"));
            }
            changes.made.lock().unwrap().push(what);
            Ok(Success::new(json!({ "done": true })))
        }))
    }
}

impl Changes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: watch::Sender::new(0),
            is_held: watch::Sender::new(false),
            made: Mutex::default(),
        })
    }

    pub(crate) fn handlers(self: &Arc<Self>) -> Handlers {
        let handler: Arc<dyn Handler> = Arc::new(Change(self.clone()));
        BTreeMap::from([(ToolId::parse("change").unwrap(), handler)])
    }

    /// Changes that begin take until they are let go.
    pub(crate) fn hold(&self) {
        self.is_held.send_replace(true);
    }

    pub(crate) fn let_go(&self) {
        self.is_held.send_replace(false);
    }

    /// Waits until so many have begun.
    pub(crate) async fn until_begun(&self, count: usize) {
        let mut begun = self.begun.subscribe();
        let begun = begun.wait_for(|begun| *begun >= count);
        let begun = tokio::time::timeout(PATIENCE, begun).await;
        begun.expect("nothing was begun").unwrap();
    }

    /// What was changed, in its order.
    pub(crate) fn made(&self) -> Vec<String> {
        self.made.lock().unwrap().clone()
    }
}
