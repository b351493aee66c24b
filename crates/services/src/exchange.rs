//! One request to a service in JSON, and the meaning of its answer: a body, or an error. Knows no service's own form.

use crate::plain::plain;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Write;
use std::sync::Arc;
use windlass_contract::handler::{
    FetchError, Http, HttpAnswer, HttpRequest, Redirects, ServiceError,
};
use windlass_contract::retry_after;
use windlass_contract::sensitive::Sensitive;

/// Characters of a service's own words that are passed on.
const REASON_CHARACTERS_MAX: usize = 300;
/// The longest pause that a conversation waits for.
const RETRY_AFTER_MS_MAX: u64 = 3_600_000;

/// Codes for a key, an account or a model that the service does not take, under the status of a wrong request: OpenAI
/// (<https://platform.openai.com/docs/guides/error-codes>), Gemini (<https://ai.google.dev/gemini-api/docs/troubleshooting>) and
/// Brave.
const OF_SETUP: [&str; 7] = [
    "API_KEY_INVALID",
    "SUBSCRIPTION_TOKEN_INVALID",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_quota",
    "invalid_api_key",
    "model_not_found",
];
/// Gemini's status when it refuses every request of the account or its country.
const OF_ACCOUNT: &str = "FAILED_PRECONDITION";

/// The address of a service, and its key.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The address with the version in its path, without a slash at its end, as in `https://api.openai.com/v1`.
    pub address: String,
    /// `None` for a server that needs no key.
    pub key: Option<Sensitive<String>>,
}

/// A service with the way to it.
pub(crate) struct Service {
    pub(crate) http: Arc<dyn Http>,
    pub(crate) endpoint: Endpoint,
    /// The service's name for people.
    pub(crate) name: String,
    /// The header that carries the key, and the text before the key in it.
    pub(crate) authorization: (&'static str, &'static str),
}

pub(crate) enum Asked<'a> {
    Get,
    Post(&'a Value),
}

impl Service {
    /// The body of the answer, if the service did what the request asks.
    pub(crate) async fn ask(
        &self,
        path: &str,
        asked: Asked<'_>,
        timeout_ms: u64,
    ) -> Result<Vec<u8>, ServiceError> {
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        if let Some(key) = &self.endpoint.key {
            let (name, scheme) = self.authorization;
            headers.push((name.to_owned(), format!("{scheme}{}", key.expose())));
        }
        let (method, body) = match asked {
            Asked::Get => ("GET", Vec::new()),
            Asked::Post(body) => {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
                ("POST", body.to_string().into_bytes())
            }
        };
        let request = HttpRequest {
            method: method.to_owned(),
            url: format!("{}{path}", self.endpoint.address),
            headers,
            body,
            timeout_ms,
            // A key goes to no other place.
            redirects: Redirects::Keep,
        };
        let may_be_charged = matches!(asked, Asked::Post(_));
        let answer = self.http.fetch(request).await;
        let answer = answer.map_err(|error| self.no_answer(&error))?;
        self.judge(answer, may_be_charged)
    }

    fn no_answer(&self, error: &FetchError) -> ServiceError {
        let cause = format!("{}: {error}", self.name);
        match error {
            FetchError::Refused(_) | FetchError::Unreachable(_) => ServiceError::Unavailable(cause),
            FetchError::Unanswered(_) => ServiceError::Unanswered(cause),
        }
    }

    fn judge(&self, answer: HttpAnswer, may_be_charged: bool) -> Result<Vec<u8>, ServiceError> {
        let status = answer.status;
        let retry_after_ms = retry_after_ms(&answer);
        let body = match (answer.body, status) {
            (Ok(body), _) => body,
            (Err(incomplete), 200..=299) => {
                let cause = format!("{}: {}", self.name, incomplete.problem);
                return Err(ServiceError::Unanswered(cause));
            }
            // The status decides the outcome; the missing rest of the reason would not change it.
            (Err(incomplete), _) => incomplete.beginning,
        };
        if (200..=299).contains(&status) {
            return Ok(body);
        }
        let key = self.endpoint.key.as_ref().map(|key| key.expose().as_str());
        let told = ToldError::of(&body, key);
        let is_own = told.reason.is_some();
        let reason = told.reason.unwrap_or_else(|| format!("status {status}"));
        let cause = || format!("{} answered with status {status}: {reason}", self.name);
        Err(match status {
            // OpenAI has one status for an account without credit and for too many requests.
            400 | 422 | 429 if told.is_of_setup => ServiceError::Setup(cause()),
            429 => ServiceError::Busy { retry_after_ms },
            400 | 422 => ServiceError::Refused(reason),
            // The service itself says that it has too much to do.
            503 if is_own => ServiceError::Unavailable(cause()),
            // The service may have failed after its work, or a proxy may have given up on a request that goes on.
            408 | 500..=599 if may_be_charged => ServiceError::Unanswered(cause()),
            408 | 500..=599 => ServiceError::Unavailable(cause()),
            _ => ServiceError::Setup(cause()),
        })
    }

    /// Reads a body of the service's own form.
    pub(crate) fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ServiceError> {
        serde_json::from_slice(body).map_err(|_| self.unfit("is not of the form that it documents"))
    }

    /// An answer that is of no use. `how` follows "the answer of NAME".
    pub(crate) fn unfit(&self, how: &str) -> ServiceError {
        ServiceError::Unfit(format!("the answer of {} {how}", self.name))
    }
}

fn retry_after_ms(answer: &HttpAnswer) -> Option<u64> {
    let [wait, date] = ["retry-after", "date"].map(|name| answer.header(name));
    let wait_ms = retry_after::by_its_own_clock(wait, date)?;
    Some(wait_ms.min(RETRY_AFTER_MS_MAX))
}

/// A service's description of an error, from any of the usual places.
#[derive(Default)]
struct ToldError {
    reason: Option<String>,
    /// Whether the error is about the key, the account or the model, and not about the request.
    is_of_setup: bool,
}

impl ToldError {
    /// Reads an error. A reason that repeats the key is left out.
    fn of(body: &[u8], key: Option<&str>) -> Self {
        let Ok(body) = serde_json::from_slice::<Value>(body) else {
            return Self::default();
        };
        // OpenAI and Gemini: `error.message`; Brave: `error.detail`; Tavily: `detail.error`.
        let words = [
            "/error/message",
            "/error/detail",
            "/detail/error",
            "/error",
            "/detail",
            "/message",
        ];
        let mut words = words
            .iter()
            .filter_map(|pointer| body.pointer(pointer)?.as_str());
        let repeats_key = |words: &str| key.is_some_and(|key| words.contains(key));
        let words = words.next().filter(|words| !repeats_key(words));
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let details = body.pointer("/error/details").and_then(Value::as_array);
        let reasons = details.into_iter().flatten();
        let reasons = reasons.filter_map(|detail| detail.get("reason")?.as_str());
        let mut codes = text("/error/code").into_iter().chain(reasons);
        Self {
            reason: words.map(reason).filter(|words| !words.is_empty()),
            is_of_setup: text("/error/status") == Some(OF_ACCOUNT)
                || codes.any(|code| OF_SETUP.contains(&code)),
        }
    }
}

/// A service's own words, in the form that is passed on.
pub(crate) fn reason(words: &str) -> String {
    plain(words, REASON_CHARACTERS_MAX)
}

/// A text as a part of a query (RFC 3986, section 2).
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
