//! The return type of this crate's functions, and how it becomes a handler's answer. A report is boxed, so that a success does not carry
//! the size of a failure from function to function.

use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Execution, Failure, Report, Success};

pub(crate) type Outcome<T = Success> = Result<T, Box<Report>>;

pub(crate) fn report(kind: FailureKind, message: impl Into<String>) -> Box<Report> {
    Box::new(Report::new(kind, message))
}

/// A failure that may be tried again, because it left nothing behind.
pub(crate) fn without_effect(message: impl Into<String>) -> Box<Report> {
    Box::new(Report {
        partial_side_effects: Some(false),
        ..Report::new(FailureKind::Transient, message)
    })
}

pub(crate) fn ready(outcome: Outcome) -> Execution {
    Execution::Ready(outcome.map_err(|report| Failure::from(*report)))
}
