//! A program with a handler that says that it returns at once, and never does: what a signal has to end all the same.

use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};
use windlass_contract::id::ToolId;

struct NeverReturns;

impl Handler for NeverReturns {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, _: Invocation) -> Execution {
        // The test waits for this file.
        if std::fs::write("begun", "").is_ok() {
            loop {
                std::thread::park();
            }
        }
        Execution::Ready(Ok(Success::new(json!({"returned": true}))))
    }
}

fn main() -> ExitCode {
    let mut handlers = windlass_handlers::builtin();
    if let Some(id) = ToolId::parse("sleeps") {
        handlers.insert(id, Arc::new(NeverReturns));
    }
    windlass_app::main(handlers)
}
