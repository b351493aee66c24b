//! `say_hello`: its schema and its guide are in tools/say-hello.

use serde_json::json;
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};

pub(crate) struct SayHello;

impl Handler for SayHello {
    /// It returns within microseconds. One that computes, or reads files, says `Apart`.
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    /// Arguments have passed schema.json, with defaults filled in.
    fn execute(&self, invocation: Invocation) -> Execution {
        let Invocation { arguments, context } = invocation;
        let query = arguments.get("query").unwrap_or_default();
        let heard = query.as_str().unwrap_or_default();
        Execution::Ready(Ok(Success::new(json!({
            "query": query,
            "answer": format!("say_hello heard: {heard}"),
            "mode": context.mode,
        }))))
    }
}
