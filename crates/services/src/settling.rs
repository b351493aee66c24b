//! One request to a service and whether its outcome is settled: done, refused for certain, or unknown. Knows no service, except
//! the form in which Google names the reason of a refusal.

use crate::Clock;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use windlass_contract::handler::{FetchError, Http, HttpAnswer, HttpRequest, Redirects};
use windlass_contract::retry_after;

/// The wait after an answer that asks for one without its length.
const RETRY_AFTER_MS: u64 = 10_000;
/// The longest wait that is passed on.
const RETRY_AFTER_MS_MAX: u64 = 3_600_000;
/// Characters of a service's own words that operators are shown.
const REASON_CHARACTERS_MAX: usize = 300;
/// Reasons of status 403 that mean "later" (<https://developers.google.com/workspace/calendar/api/guides/errors>).
const LATER: [&str; 4] = [
    "rateLimitExceeded",
    "userRateLimitExceeded",
    "quotaExceeded",
    "dailyLimitExceeded",
];

/// The reason why a service did not carry a request out. The texts are for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The service does not answer, and nothing was changed.
    #[error("{0}")]
    Unavailable(String),
    /// The service was asked for a change whose outcome is unknown.
    #[error("{0}")]
    Unsettled(String),
    /// The service takes no more requests for now. Nothing was changed.
    #[error("the service takes no more requests for {retry_after_ms} ms")]
    Limited { retry_after_ms: u64 },
    /// The service does not take this program's credentials. Nothing was changed.
    #[error("the service does not take the credentials: {0}")]
    Denied(String),
    /// The service says that it did nothing, and why.
    #[error("the service answered {status}: {reason}")]
    Status {
        status: u16,
        reason: String,
        /// The service's own name or number for the reason; empty if it has none.
        code: String,
    },
}

impl RequestError {
    /// The error without the service's words, which may quote the request: for requests that hold users' words.
    pub fn without_words(&self) -> String {
        match self {
            Self::Status { status, code, .. } if code.is_empty() => {
                format!("the service answered {status}")
            }
            Self::Status { status, code, .. } => format!("the service answered {status} ({code})"),
            Self::Unavailable(_) | Self::Unsettled(_) | Self::Limited { .. } | Self::Denied(_) => {
                self.to_string()
            }
        }
    }
}

/// Whether a request may change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reads,
    Changes,
}

/// A request without its token.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) kind: Kind,
}

impl Request {
    pub(crate) fn get(url: String) -> Self {
        Self {
            method: "GET",
            url,
            headers: Vec::new(),
            body: Vec::new(),
            kind: Kind::Reads,
        }
    }

    pub(crate) fn json(method: &'static str, url: String, body: &Value, kind: Kind) -> Self {
        Self {
            method,
            url,
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: body.to_string().into_bytes(),
            kind,
        }
    }

    pub(crate) fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// The way to services.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) http: Arc<dyn Http>,
    /// The time for each request, to the end of its answer.
    pub(crate) timeout_ms: u64,
    pub(crate) clock: Clock,
}

impl Exchange {
    /// The body of an answer that says that the request was carried out.
    pub(crate) async fn send(&self, request: Request) -> Result<Vec<u8>, RequestError> {
        let kind = request.kind;
        let answer = self.http.fetch(HttpRequest {
            method: request.method.to_owned(),
            url: request.url,
            headers: request.headers,
            body: request.body,
            timeout_ms: self.timeout_ms,
            redirects: Redirects::Keep,
        });
        match answer.await {
            Ok(answer) => self.judge(answer, kind),
            Err(FetchError::Refused(cause) | FetchError::Unreachable(cause)) => {
                Err(RequestError::Unavailable(cause))
            }
            Err(FetchError::Unanswered(cause)) => Err(open(kind, cause)),
        }
    }

    fn judge(&self, answer: HttpAnswer, kind: Kind) -> Result<Vec<u8>, RequestError> {
        match answer.status {
            // Without the end of the answer the outcome is unknown, and has to be looked up.
            200..=299 => answer.body.map_err(|cut| open(kind, cut.problem)),
            429 => Err(self.limited(&answer)),
            // These statuses prove that nothing happened.
            400 | 401 | 403..=405 | 409 | 410 | 412 | 413 | 415 | 422 | 501 => {
                let body = match &answer.body {
                    Ok(body) => body.as_slice(),
                    Err(cut) => cut.beginning.as_slice(),
                };
                let Reason { word, shown, code } = reason(body);
                match answer.status == 403 && LATER.contains(&word.as_str()) {
                    true => Err(self.limited(&answer)),
                    false => Err(RequestError::Status {
                        status: answer.status,
                        reason: shown,
                        code,
                    }),
                }
            }
            status => Err(open(kind, format!("the service answered {status}"))),
        }
    }

    fn limited(&self, answer: &HttpAnswer) -> RequestError {
        let now_unix_seconds = (self.clock)() / 1_000;
        let asked = answer.header("Retry-After");
        let asked = asked.and_then(|text| retry_after::wait_ms(text, Some(now_unix_seconds)));
        // By a clock that differs from ours, a future date may have passed.
        let wait_ms = asked.filter(|wait_ms| *wait_ms > 0);
        RequestError::Limited {
            retry_after_ms: wait_ms.unwrap_or(RETRY_AFTER_MS).min(RETRY_AFTER_MS_MAX),
        }
    }
}

/// The error for a request without a whole answer.
fn open(kind: Kind, cause: String) -> RequestError {
    match kind {
        Kind::Reads => RequestError::Unavailable(cause),
        Kind::Changes => RequestError::Unsettled(cause),
    }
}

/// Reads an answer as a type. An unreadable answer leaves a change open.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8], kind: Kind) -> Result<T, RequestError> {
    serde_json::from_slice(body)
        // The error's own words may quote the answer.
        .map_err(|error| {
            let place = (error.line(), error.column());
            open(
                kind,
                format!(
                    "the answer cannot be read, from line {}, column {} on",
                    place.0, place.1
                ),
            )
        })
}

/// A service's reason for a refusal.
struct Reason {
    word: String,
    /// The word and the words.
    shown: String,
    /// The word, or the number for services without words, if it is a code and no sentence.
    code: String,
}

/// Characters of a code.
const CODE_CHARACTERS_MAX: usize = 64;

/// Whether a text is a service's name for a reason. Such a name can quote nothing.
pub(crate) fn is_code(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=CODE_CHARACTERS_MAX).contains(&text.len()) && text.bytes().all(fits)
}

/// The word and the words for a refusal: `{"error": {"message", "errors": [{"reason"}]}}` of Google's APIs, `{"error",
/// "error_description"}` of OAuth (RFC 6749, section 5.2), `{"code", "message"}` of Zoom.
fn reason(body: &[u8]) -> Reason {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let word = text("/error/errors/0/reason").or_else(|| text("/error"));
    let word = word.unwrap_or_default();
    let words = [
        "/error/message",
        "/error_description",
        "/message",
        "/reason",
    ];
    let words = words.into_iter().find_map(text).unwrap_or_default();
    let shown = [word, words]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(": ");
    let shown = shown.chars().filter(|c| !c.is_control());
    let number = value.get("code").and_then(Value::as_u64);
    let code = match word {
        "" => number.map_or(String::new(), |number| number.to_string()),
        word => word.to_owned(),
    };
    Reason {
        word: word.to_owned(),
        shown: shown.take(REASON_CHARACTERS_MAX).collect(),
        code: Some(code).filter(|code| is_code(code)).unwrap_or_default(),
    }
}

/// One segment of a path, or one value of a query.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            byte => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                escaped.push('%');
                escaped.push(char::from(DIGITS[usize::from(byte >> 4)]));
                escaped.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    escaped
}

/// `name=value` of each, joined.
pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs
        .iter()
        .map(|(name, value)| format!("{name}={}", escaped(value)));
    pairs.collect::<Vec<_>>().join("&")
}
