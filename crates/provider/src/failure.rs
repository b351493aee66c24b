//! The reason why a request to a model failed, read from its server's answer: one type for every provider, so that retries and
//! fallbacks of text, and the meaning of a live connection's refusal, are decided in one place. Decides nothing itself, knows no
//! clock, and lets no secret through.

mod hidden;
mod retry_after;

use serde_json::Value;
use std::fmt;
use std::time::Duration;

pub(crate) use retry_after::protobuf_duration;

/// One failed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class}{}{}: {message}", status_text(*.status), code_text(.code.as_deref()))]
pub struct Failure {
    /// The answer's status, or the status that an error in the middle of a stream names.
    pub status: Option<u16>,
    pub class: FailureClass,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// The wait that the server asks for.
    pub retry_after: Option<Duration>,
    /// The server's own name for the error.
    pub code: Option<String>,
    /// The field of the request that the server objects to, in the server's notation. A request without an optional field, such
    /// as that of a prompt cache, may succeed.
    pub param: Option<String>,
    /// The server's words, shortened, on one line, and with everything that looks like a credential left out. They may
    /// quote names from the request.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// The server will not take such a request.
    InvalidRequest,
    /// The conversation does not fit the model's window.
    ContextTooLong,
    /// The key is wrong, or may not do this.
    Auth,
    /// No such model, address or cached content.
    NotFound,
    /// Too many requests just now.
    RateLimited,
    /// The paid quota is used up; waiting does not help.
    QuotaExhausted,
    Conflict,
    Cancelled,
    Timeout,
    /// The server has too much to do; worth a longer wait.
    Overloaded,
    ServerFault,
    /// The connection to the server cannot be made: its certificate is not trusted, or a proxy refuses.
    NoWay,
    /// The answer does not follow the protocol.
    Protocol,
}

impl FailureClass {
    /// The class of an answer that refuses a request, or the upgrade to a live connection: by its status, and its body, which
    /// need not be JSON and may be cut short.
    pub fn of_refusal(status: u16, body: &[u8]) -> Self {
        Said::of_body(body).class(Some(status))
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::InvalidRequest => "the provider refused the request",
            Self::ContextTooLong => "the conversation is too long for the model",
            Self::Auth => "the provider refused the key",
            Self::NotFound => "the provider knows no such model or address",
            Self::RateLimited => "the provider is asked too often",
            Self::QuotaExhausted => "the provider's quota is used up",
            Self::Conflict => "the provider reports a conflict",
            Self::Cancelled => "the provider cancelled the request",
            Self::Timeout => "the provider took too long",
            Self::Overloaded => "the provider is overloaded",
            Self::ServerFault => "the provider failed",
            Self::NoWay => "the provider cannot be connected to",
            Self::Protocol => "the provider's answer is not its protocol",
        })
    }
}

fn status_text(status: Option<u16>) -> String {
    status.map_or(String::new(), |status| format!(" (status {status})"))
}

fn code_text(code: Option<&str>) -> String {
    code.map_or(String::new(), |code| format!(" [{code}]"))
}

/// The retry information in an answer's status line and headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseHead<'a> {
    pub status: u16,
    /// `x-should-retry`.
    pub should_retry: Option<&'a str>,
    /// `retry-after-ms`.
    pub retry_after_ms: Option<&'a str>,
    /// `retry-after`: seconds, or a date.
    pub retry_after: Option<&'a str>,
    /// The current time in seconds since the Unix epoch. The wait until a date is counted from it.
    pub now_unix_seconds: u64,
}

/// The rule that says which statuses are worth a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryRule {
    /// The set of the official Python client.
    Gemini,
    /// The rule of both official clients.
    Openai,
}

impl RetryRule {
    fn retries(self, status: u16) -> bool {
        match self {
            Self::Gemini => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Openai => matches!(status, 408 | 409 | 429) || status >= 500,
        }
    }
}

impl Failure {
    /// An answer outside the protocol. The text names the problem, never the content.
    pub(crate) fn protocol(problem: impl Into<String>, retryable: bool) -> Self {
        Self {
            status: None,
            class: FailureClass::Protocol,
            retryable,
            retry_after: None,
            code: None,
            param: None,
            message: problem.into(),
        }
    }

    /// A refused request: its status and headers, and its body, which need not be JSON.
    pub(crate) fn of_response(head: &ResponseHead<'_>, body: &[u8], rule: RetryRule) -> Self {
        let mut failure = Self::classified(Some(head.status), Said::of_body(body), rule);
        if failure.message.is_empty() {
            "the answer holds no error in JSON".clone_into(&mut failure.message);
        }
        match head.should_retry.map(str::trim) {
            Some("true") => failure.retryable = true,
            Some("false") => failure.retryable = false,
            Some(_) | None => {}
        }
        failure.retry_after = retry_after::of_headers(head).or(failure.retry_after);
        failure
    }

    /// An error in the middle of a stream, or in an answer of status 200. `None` if the value is no error.
    pub(crate) fn of_error(body: &Value, rule: RetryRule) -> Option<Self> {
        let said = Said::of(body)?;
        let status = said.status;
        Some(Self::classified(status, said, rule))
    }

    fn classified(status: Option<u16>, said: Said, rule: RetryRule) -> Self {
        let class = said.class(status);
        let retryable = match class {
            FailureClass::QuotaExhausted
            | FailureClass::Auth
            | FailureClass::ContextTooLong
            | FailureClass::NoWay
            | FailureClass::Cancelled => false,
            FailureClass::InvalidRequest
            | FailureClass::NotFound
            | FailureClass::RateLimited
            | FailureClass::Conflict
            | FailureClass::Timeout
            | FailureClass::Overloaded
            | FailureClass::ServerFault
            | FailureClass::Protocol => match status {
                Some(status) => rule.retries(status),
                None => !matches!(class, FailureClass::InvalidRequest | FailureClass::NotFound),
            },
        };
        Self {
            status,
            class,
            retryable,
            retry_after: said.retry_after,
            code: said.code,
            param: said.param,
            message: said.message,
        }
    }
}

/// The contents of an error object, in the forms that servers use.
#[derive(Debug, Default)]
struct Said {
    status: Option<u16>,
    code: Option<String>,
    param: Option<String>,
    message: String,
    retry_after: Option<Duration>,
    /// Every name and word of the error in lower case, for telling kinds apart.
    words: String,
}

/// Characters of a server's words that are kept.
const MESSAGE_CHARACTERS_MAX: usize = 300;
const NAME_CHARACTERS_MAX: usize = 120;

impl Said {
    /// Reads a body. If it is no JSON error, or was cut short, only its words are kept, for telling kinds apart.
    fn of_body(body: &[u8]) -> Self {
        let error = serde_json::from_slice(body).ok();
        error
            .and_then(|error| Self::of(&error))
            .unwrap_or_else(|| Self {
                words: String::from_utf8_lossy(body).to_lowercase(),
                ..Self::default()
            })
    }

    /// Reads `{"error": {…}}`, `{"error": "…"}`, a list of such (the Gemini compatibility layer), `{"object": "error", …}`
    /// (Mistral) and `{"detail": …}` (FastAPI servers).
    fn of(body: &Value) -> Option<Self> {
        let body = match body {
            Value::Array(items) => items.first()?,
            other => other,
        };
        let error = match body.get("error") {
            None | Some(Value::Null | Value::Bool(false)) => {
                let is_error = body.get("object").is_some_and(|kind| kind == "error")
                    || body.get("detail").is_some();
                return is_error.then(|| Self::of_object(body));
            }
            Some(error) => error,
        };
        Some(match error {
            Value::String(text) => Self {
                message: hidden::printable(text, MESSAGE_CHARACTERS_MAX),
                words: text.to_lowercase(),
                ..Self::default()
            },
            object => Self::of_object(object),
        })
    }

    fn of_object(error: &Value) -> Self {
        let text = |key: &str| error.get(key).and_then(Value::as_str);
        let number = error
            .get("code")
            .and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        let status = number
            .and_then(|number| u16::try_from(number).ok())
            .filter(|status| (400..600).contains(status));
        let named = |key: &str| text(key).filter(|name| name.parse::<u64>().is_err());
        let details = || {
            error
                .get("details")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        let reason = details().find_map(|detail| detail.get("reason")?.as_str());
        let code = reason
            .or_else(|| named("code"))
            .or_else(|| named("status"))
            .or_else(|| named("type"));
        let message = match error.get("message").or_else(|| error.get("detail")) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let retry_after = details()
            .find_map(|detail| detail.get("retryDelay")?.as_str())
            .and_then(protobuf_duration);
        let mut words = message.to_lowercase();
        for name in [code, text("type"), text("status")].into_iter().flatten() {
            words.push(' ');
            words.push_str(&name.to_lowercase());
        }
        Self {
            status,
            code: code.map(|code| hidden::printable(code, NAME_CHARACTERS_MAX)),
            param: text("param").map(|param| hidden::printable(param, NAME_CHARACTERS_MAX)),
            message: hidden::printable(&message, MESSAGE_CHARACTERS_MAX),
            retry_after,
            words,
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.words.contains(word))
    }

    /// The words decide if one status stands for several problems, or if there is no status.
    fn class(&self, status: Option<u16>) -> FailureClass {
        const QUOTA: [&str; 4] = [
            "insufficient_quota",
            // The daily quota of Gemini's Interactions.
            "quota_exceeded",
            "credit_balance_exhausted",
            "billing_hard_limit",
        ];
        const KEY: [&str; 6] = [
            "api_key_invalid",
            "invalid_api_key",
            "api key not valid",
            "api key expired",
            // xAI sends this with status 400.
            "incorrect api key",
            "authentication_error",
        ];
        const LENGTH: [&str; 5] = [
            "context_length_exceeded",
            "maximum context length",
            "exceeds the maximum number of tokens",
            "prompt is too long",
            "exceeds the available context size",
        ];
        if self.says(&QUOTA) {
            return FailureClass::QuotaExhausted;
        }
        match status {
            Some(400 | 413 | 422 | 500) if self.says(&LENGTH) => FailureClass::ContextTooLong,
            Some(400) if self.says(&KEY) => FailureClass::Auth,
            Some(401 | 403) => FailureClass::Auth,
            Some(402) => FailureClass::QuotaExhausted,
            Some(404) => FailureClass::NotFound,
            Some(408 | 504) => FailureClass::Timeout,
            Some(409) => FailureClass::Conflict,
            Some(429) => FailureClass::RateLimited,
            Some(499) => FailureClass::Cancelled,
            Some(503 | 529) => FailureClass::Overloaded,
            Some(status) if status >= 500 => FailureClass::ServerFault,
            Some(_) => FailureClass::InvalidRequest,
            None if self.says(&LENGTH) => FailureClass::ContextTooLong,
            None if self.says(&KEY) || self.says(&["unauthenticated", "permission_denied"]) => {
                FailureClass::Auth
            }
            None if self.says(&[
                "rate_limit",
                "rate limit",
                "resource_exhausted",
                "slow_down",
            ]) =>
            {
                FailureClass::RateLimited
            }
            None if self.says(&["overloaded", "unavailable"]) => FailureClass::Overloaded,
            None if self.says(&["timeout", "timed out", "deadline_exceeded"]) => {
                FailureClass::Timeout
            }
            None if self.says(&["invalid_request", "invalid_argument", "failed_precondition"]) => {
                FailureClass::InvalidRequest
            }
            None => FailureClass::ServerFault,
        }
    }
}

/// A server's own text, made fit for a log.
pub(crate) fn printable(text: &str) -> String {
    hidden::printable(text, NAME_CHARACTERS_MAX)
}
