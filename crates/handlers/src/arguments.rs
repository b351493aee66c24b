//! Reads validated arguments into a handler's own type. Knows no tool.

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_tool::error::FailureKind;
use windlass_tool::handler::{Context, Failure};

/// The arguments as a handler's type, borrowing their texts. What the schema lets through and the type does not take is
/// the caller's mistake all the same, and is answered as one.
pub(crate) fn read<'a, T: Deserialize<'a>>(
    arguments: &'a Map<String, Value>,
) -> Result<T, Failure> {
    T::deserialize(arguments).map_err(|error| {
        Failure::new(
            FailureKind::Validation,
            format!("the arguments cannot be read: {error}"),
        )
    })
}

/// Refuses to work for a session that is over.
pub(crate) fn require_active(context: &Context, purpose: &str) -> Result<(), Failure> {
    if context.session.is_active {
        Ok(())
    } else {
        Err(Failure::new(
            FailureKind::SessionInactive,
            format!("cannot {purpose}: the session is over"),
        ))
    }
}

/// A text that says something, without the white space around it; `None` where it is blank.
pub(crate) fn said(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty()).then_some(text)
}
