//! The service's refusals: a close code with a reason. Knows the wording of refusals, not when they apply.

use std::fmt;

/// RFC 6455 leaves 123 bytes of a close frame for the reason.
const REASON_BYTES_MAX: usize = 123;

/// The end of a connection, as in its close frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) reason: String,
}

impl Refusal {
    /// Code 1007: the message is malformed or this model does not take it.
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::new(1007, reason)
    }

    pub(crate) fn invalid_argument() -> Self {
        Self::invalid("Request contains an invalid argument.")
    }

    pub(crate) fn unknown_name(key: &str, path: &impl fmt::Display) -> Self {
        let path = path.to_string();
        // The name may be anything that a client sent; a close reason has no room for it.
        let shown: String = key.chars().take(60).collect();
        if path.is_empty() {
            return Self::invalid(format!(
                "Invalid JSON payload received. Unknown name \"{shown}\": Cannot find field."
            ));
        }
        Self::invalid(format!(
            "Invalid JSON payload received. Unknown name \"{shown}\" at '{path}': Cannot find field."
        ))
    }

    /// Code 1008: the operation or the entity is refused.
    pub(crate) fn policy(reason: impl Into<String>) -> Self {
        Self::new(1008, reason)
    }

    pub(crate) fn internal() -> Self {
        Self::new(1011, "Internal error occurred.")
    }

    pub(crate) fn new(code: u16, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: fitting(reason.into()),
        }
    }
}

/// Cuts a reason at a character's border to the length of a close frame.
fn fitting(mut reason: String) -> String {
    if reason.len() > REASON_BYTES_MAX {
        let mut end = REASON_BYTES_MAX;
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason.truncate(end);
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_fits_a_close_frame_and_stays_valid_text() {
        for (text, length) in [
            ("short".to_owned(), 5),
            ("x".repeat(500), 123),
            ("ø".repeat(100), 122),
        ] {
            assert_eq!(Refusal::invalid(text).reason.len(), length);
        }
    }
}
