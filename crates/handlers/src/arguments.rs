//! Reads validated arguments into a handler's own type. Knows no tool.

use crate::outcome::{Outcome, report};
use serde::Deserialize;
use windlass_contract::arguments::Arguments;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::Context;

/// Reads the arguments into a handler's type, borrowing their texts. Arguments that pass the schema and do not fit the type are reported
/// as the caller's mistake.
pub(crate) fn read<'a, T: Deserialize<'a>>(arguments: &'a Arguments) -> Outcome<T> {
    arguments.read().map_err(|error| {
        // The error's own words are about types of Rust, and may repeat what was said.
        let text = error.to_string();
        let missing = text
            .strip_prefix("missing field `")
            .and_then(|rest| rest.split('`').next());
        report(
            FailureKind::Validation,
            match missing {
                Some(name) => format!("`{name}` is required"),
                None => "an argument is not of the form that this tool takes, such as a whole number where one is \
                         counted"
                    .to_owned(),
            },
        )
    })
}

/// Refuses to work for a session that is over.
pub(crate) fn require_active(context: &Context, purpose: &str) -> Outcome<()> {
    if context.session.is_active {
        Ok(())
    } else {
        Err(report(
            FailureKind::SessionInactive,
            format!("cannot {purpose}: the session is over"),
        ))
    }
}

/// The text without surrounding white space; `None` where it is blank.
pub(crate) fn said(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty()).then_some(text)
}
