//! Turns what a capability answers into a handler's answer. Knows how to wait for it, and how the knowledge base's
//! errors are reported.

use crate::outcome::{Outcome, ready, report, without_effect};
use serde_json::json;
use std::pin::Pin;
use std::task::{Poll, Waker};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    CapabilityFuture, Context, Execution, Failure, KnowledgeError, Report,
};

/// Shapes a capability's answer. Most capabilities have it at hand, so the future is polled once here, which spares the call the cost of
/// being spawned and awaited.
pub(crate) fn answer<T, F>(mut future: CapabilityFuture<T>, shape: F) -> Execution
where
    T: Send + 'static,
    F: FnOnce(T) -> Outcome + Send + 'static,
{
    let mut task = std::task::Context::from_waker(Waker::noop());
    match Pin::as_mut(&mut future).poll(&mut task) {
        Poll::Ready(value) => ready(shape(value)),
        // Polling again registers the waker of the task that awaits it.
        Poll::Pending => Execution::Pending(Box::pin(async move {
            shape(future.await).map_err(|report| Failure::from(*report))
        })),
    }
}

/// Reports an error of the knowledge base in words for the model. The cause of an outage goes to operators only.
pub(crate) fn knowledge_report(error: KnowledgeError, context: &Context) -> Box<Report> {
    match error {
        KnowledgeError::UnknownNamespace { ref readable, .. } => Box::new(Report {
            details: Some(json!({"pointer": "/namespace", "allowed": readable})),
            ..Report::new(FailureKind::Validation, error.to_string())
        }),
        KnowledgeError::InvalidFilter(_) => Box::new(Report {
            details: Some(json!({"pointer": "/filters"})),
            ..Report::new(FailureKind::Validation, error.to_string())
        }),
        KnowledgeError::Unavailable(cause) => {
            // The caller's answer stays the same when the audit is closed.
            let _ = context.audit("knowledge_unavailable", json!({"cause": cause}));
            without_effect("the knowledge base does not answer; try again in a moment")
        }
    }
}

/// Marks the answer as external content. Fails where the session cannot be told; the texts are not used then.
pub(crate) fn mark_external(context: &Context) -> Outcome<()> {
    context
        .mark_external()
        .map_err(|closed| report(FailureKind::SessionInactive, closed.to_string()))
}
