//! The refusals of Chat Completions: the form of an error. Knows no request.

use super::HttpAnswer;
use serde_json::{Value, json};

/// A refusal: status, kind, code, place and message.
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: Option<&'static str>,
    pub(super) param: Option<String>,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self {
            status: 400,
            code: None,
            param: None,
            message: message.into(),
        }
    }

    pub(super) fn at(self, param: impl Into<String>) -> Self {
        Self {
            param: Some(param.into()),
            ..self
        }
    }

    pub(super) fn named(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    pub(super) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub(super) fn too_large() -> Self {
        Self::invalid("The request is too large.").with_status(413)
    }

    pub(super) fn answer(self) -> HttpAnswer {
        let body = error_body(self.status, self.code, self.param.as_deref(), &self.message);
        super::json_answer(self.status, &body)
    }
}

pub(super) fn error_body(
    status: u16,
    code: Option<&str>,
    param: Option<&str>,
    message: &str,
) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
}
