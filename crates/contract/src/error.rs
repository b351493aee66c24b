//! Every way a call can fail: one table with each type's code, retryability, HTTP status and the text a model reads.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind of failure that ended a call. A closed list: `docs/policies.md`, "The types of errors".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorType {
    Validation,
    NotFound,
    ModeRestricted,
    BudgetExceeded,
    LoopDetected,
    ConfirmationRequired,
    ConfirmationExpired,
    ConfirmationDeclined,
    Cancelled,
    OutcomeUnknown,
    SessionInactive,
    SessionActive,
    Transient,
    Permanent,
    RateLimit,
    Auth,
    Conflict,
    Internal,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub code: &'static str,
    pub http_status: u16,
    /// `None` where the handler decides.
    pub retryable: Option<bool>,
    /// `None` where the handler, or the state of the effect, decides.
    pub partial_side_effects: Option<bool>,
    /// The instruction for the model, if the error brings no suggestion of its own.
    pub suggestion: &'static str,
}

impl ErrorType {
    pub const ALL: [Self; 18] = [
        Self::Validation,
        Self::NotFound,
        Self::ModeRestricted,
        Self::BudgetExceeded,
        Self::LoopDetected,
        Self::ConfirmationRequired,
        Self::ConfirmationExpired,
        Self::ConfirmationDeclined,
        Self::Cancelled,
        Self::OutcomeUnknown,
        Self::SessionInactive,
        Self::SessionActive,
        Self::Transient,
        Self::Permanent,
        Self::RateLimit,
        Self::Auth,
        Self::Conflict,
        Self::Internal,
    ];

    #[rustfmt::skip]
    pub const fn facts(self) -> Facts {
        const NO: Option<bool> = Some(false);
        const YES: Option<bool> = Some(true);
        const fn row(
            code: &'static str,
            http_status: u16,
            retryable: Option<bool>,
            partial_side_effects: Option<bool>,
            suggestion: &'static str,
        ) -> Facts {
            Facts { code, http_status, retryable, partial_side_effects, suggestion }
        }
        match self {
            Self::Validation => row("VALIDATION", 400, NO, NO, "Correct the arguments that are named and call again."),
            Self::NotFound => row("NOT_FOUND", 404, NO, NO, "Say that it was not found, or look for it another way."),
            Self::ModeRestricted => row("MODE_RESTRICTED", 403, NO, NO, "This tool cannot be used here. Answer without it."),
            Self::BudgetExceeded => row("BUDGET_EXCEEDED", 429, NO, NO, "Answer the user now with what you already have."),
            Self::LoopDetected => row("LOOP_DETECTED", 429, NO, NO, "Do not repeat this call. Answer with what you have, or ask the user."),
            Self::ConfirmationRequired => row("CONFIRMATION_REQUIRED", 428, NO, NO, "The user is being asked. Nothing has been done yet; do not say that it has."),
            Self::ConfirmationExpired => row("CONFIRMATION_EXPIRED", 410, NO, NO, "The approval is no longer valid. Ask the user whether it is still wanted."),
            Self::ConfirmationDeclined => row("CONFIRMATION_DECLINED", 403, NO, NO, "The user said no. Do not try again unless the user asks."),
            Self::Cancelled => row("CANCELLED", 499, NO, None, "The call was taken back. Go on with what the user says now."),
            Self::OutcomeUnknown => row("OUTCOME_UNKNOWN", 500, NO, YES, "It may or may not have happened. Say so, and do not try again."),
            Self::SessionInactive => row("SESSION_INACTIVE", 409, NO, NO, "The session is over."),
            Self::SessionActive => row("SESSION_ACTIVE", 409, NO, NO, "A voice session is already running."),
            Self::Transient => row("TRANSIENT", 503, YES, None, "It did not work this time. Say so; the user may try again."),
            Self::Permanent => row("PERMANENT", 422, NO, None, "It cannot work. Tell the user and do not repeat the call."),
            Self::RateLimit => row("RATE_LIMIT", 429, YES, NO, "Too many calls just now. Tell the user to wait a little."),
            Self::Auth => row("AUTH", 401, None, NO, "The user has to sign in again before this can work."),
            Self::Conflict => row("CONFLICT", 409, None, None, "It conflicts with what is already there. Tell the user."),
            Self::Internal => row("INTERNAL", 500, NO, NO, "The tool failed. Say that it did not work, without guessing why."),
        }
    }

    pub fn code(self) -> &'static str {
        self.facts().code
    }
}

/// The types that a handler may report itself; the others are made by the runtime alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FailureKind {
    Validation,
    NotFound,
    SessionInactive,
    SessionActive,
    Transient,
    Permanent,
    RateLimit,
    Auth,
    Conflict,
}

impl From<FailureKind> for ErrorType {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Validation => Self::Validation,
            FailureKind::NotFound => Self::NotFound,
            FailureKind::SessionInactive => Self::SessionInactive,
            FailureKind::SessionActive => Self::SessionActive,
            FailureKind::Transient => Self::Transient,
            FailureKind::Permanent => Self::Permanent,
            FailureKind::RateLimit => Self::RateLimit,
            FailureKind::Auth => Self::Auth,
            FailureKind::Conflict => Self::Conflict,
        }
    }
}

/// A failed call's error, as clients and the audit see it. Built with [`CallError::new`], so that retryability and side
/// effects follow the table wherever the table decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallError {
    #[serde(rename = "type")]
    pub error_type: ErrorType,
    pub message: String,
    pub retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_side_effects: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_required: Option<bool>,
}

impl CallError {
    pub fn new(error_type: ErrorType, message: impl Into<String>) -> Self {
        let facts = error_type.facts();
        Self {
            error_type,
            message: message.into(),
            retryable: facts.retryable.unwrap_or(false),
            partial_side_effects: facts.partial_side_effects.filter(|partial| *partial),
            suggestion: None,
            details: None,
            retry_after_ms: None,
            max_retries: None,
            idempotency_required: None,
        }
    }

    #[must_use]
    pub fn with_suggestion(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// The suggestion the model reads: the error's own, else the table's.
    pub fn suggestion_text(&self) -> &str {
        self.suggestion
            .as_deref()
            .unwrap_or(self.error_type.facts().suggestion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_spells_each_code_as_its_serde_name() {
        for error_type in ErrorType::ALL {
            assert_eq!(serde_json::to_value(error_type).unwrap(), error_type.code());
        }
    }

    #[test]
    fn refusals_before_execution_are_never_retryable_and_leave_no_side_effects() {
        for error_type in [
            ErrorType::Validation,
            ErrorType::NotFound,
            ErrorType::ModeRestricted,
            ErrorType::BudgetExceeded,
            ErrorType::LoopDetected,
            ErrorType::ConfirmationRequired,
        ] {
            let facts = error_type.facts();
            assert_eq!(
                (facts.retryable, facts.partial_side_effects),
                (Some(false), Some(false)),
                "{error_type:?}"
            );
        }
    }
}
