//! A failed call: the report of its handler, or the fact that the handler broke.

use super::even_null;
use crate::error::FailureKind;
use crate::input::InputRequest;
use crate::intent::Intent;
use crate::sensitive::Sensitive;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The failure of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub cause: Cause,
    pub intents: Vec<Intent>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Cause {
    /// The handler reports the error.
    Reported(Box<Report>),
    /// The handler broke: it panicked, threw an exception that is no error of ours, or answered rubbish. The text is for the log; models
    /// and clients never read it.
    Broken(String),
}

/// A failure that a handler reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub kind: FailureKind,
    pub message: String,
    /// Used where the type leaves it to the handler; a missing value is false, but true for TRANSIENT and RATE_LIMIT.
    pub retryable: Option<bool>,
    pub partial_side_effects: Option<bool>,
    pub suggestion: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "even_null"
    )]
    pub details: Option<Value>,
    /// Milliseconds.
    pub retry_after_ms: Option<u64>,
    pub max_retries: Option<u32>,
    pub idempotency_required: Option<bool>,
    /// The run goes on once the user has answered this. Where nobody can be asked, it has failed as the rest says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<Sensitive<InputRequest>>>,
}

impl Report {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: None,
            partial_side_effects: None,
            suggestion: None,
            details: None,
            retry_after_ms: None,
            max_retries: None,
            idempotency_required: None,
            input: None,
        }
    }
}

impl From<Report> for Failure {
    fn from(report: Report) -> Self {
        Self {
            cause: Cause::Reported(Box::new(report)),
            intents: Vec::new(),
        }
    }
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Report::new(kind, message).into()
    }
}
