//! Outbound HTTP as tools see it: one request, one answer, and the errors. Knows no socket, and not which hosts a tool may reach.

use super::form::request_key;
use super::{CapabilityFuture, Context};
use crate::id::EffectId;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The header that names an effect to an outside API.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// The most different requests of one run that may change something.
const WRITES_MAX: usize = 4_096;

/// Requests to hosts that the configuration allows.
pub trait Http: Send + Sync {
    /// Sends one request and gives its whole answer.
    fn fetch(&self, request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, FetchError>>;

    /// The same for a watcher that sees the answer as it arrives, where the implementation can show it so.
    fn fetch_watched(
        &self,
        request: HttpRequest,
        _watcher: Arc<dyn AnswerWatcher>,
    ) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        self.fetch(request)
    }
}

/// Sees an answer while it arrives.
pub trait AnswerWatcher: Send + Sync {
    /// The answer's headers, before everything else.
    fn headers(&self, _headers: &[(String, String)]) {}

    /// The answer's status and `Content-Type`, before its body.
    fn began(&self, status: u16, content_type: Option<&str>);

    /// Bytes of the body, in their order and within the limits of the implementation.
    fn came(&self, bytes: &[u8]);
}

/// A request to a web service. `Debug` shows neither its path nor its headers and body: they carry keys and content.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    pub method: String,
    /// `http://` or `https://`.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Milliseconds from now to the end of the answer.
    pub timeout_ms: u64,
    pub redirects: Redirects,
}

/// The treatment of an answer that redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// The redirect is followed, if its target is allowed, too.
    Follow,
    /// The answer is returned as it is.
    Keep,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.url.splitn(4, '/').take(3).collect::<Vec<_>>();
        write!(
            formatter,
            "HttpRequest({} {})",
            self.method,
            place.join("/")
        )
    }
}

impl HttpRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    fn may_change(&self) -> bool {
        let reads = ["GET", "HEAD", "OPTIONS"];
        !reads
            .iter()
            .any(|method| self.method.eq_ignore_ascii_case(method))
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    /// The final address, after redirects.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Result<Vec<u8>, IncompleteBody>,
}

/// A body whose end did not arrive. The status still shows the request's outcome.
#[derive(Clone, PartialEq, Eq)]
pub struct IncompleteBody {
    pub beginning: Vec<u8>,
    pub problem: String,
}

impl fmt::Debug for IncompleteBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "IncompleteBody({})", self.problem)
    }
}

impl HttpAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

impl fmt::Debug for HttpAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HttpAnswer({})", self.status)
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut headers = headers.iter();
    let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(&found.1)
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Not allowed, or no valid request. Nothing was sent.
    #[error("{0}")]
    Refused(String),
    /// Nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The request may have arrived, and its outcome is unknown.
    #[error("{0}")]
    Unanswered(String),
}

/// The HTTP capability where outside requests are off.
pub(super) struct NoHttp;

impl Http for NoHttp {
    fn fetch(&self, _: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        let refusal = FetchError::Refused("there is no way out of this program".to_owned());
        Box::pin(std::future::ready(Err(refusal)))
    }
}

impl Context {
    /// Milliseconds until the session stops waiting for the attempt. No request begins after that.
    pub fn left_ms(&self) -> u64 {
        self.deadline_unix_ms
            .saturating_sub(self.capabilities.now_unix_ms())
    }

    /// Sends one request of this attempt, within its time. A request that may change something for an effect gets a key in the header
    /// `Idempotency-Key`, unless it sets one itself. Each such request of a run has its own key, and the same key when the run is
    /// repeated.
    pub fn fetch(
        &self,
        mut request: HttpRequest,
    ) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        let refuse = |problem: &str| -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
            let refusal = FetchError::Refused(problem.to_owned());
            Box::pin(std::future::ready(Err(refusal)))
        };
        request.timeout_ms = request.timeout_ms.min(self.left_ms());
        if request.timeout_ms == 0 {
            return refuse("the call's time is up");
        }
        if let Some(effect_id) = &self.effect_id
            && request.may_change()
            && request.header(IDEMPOTENCY_KEY).is_none()
        {
            let Some(key) = self.writes.key(effect_id, &request) else {
                return refuse("the call has made too many requests");
            };
            request.headers.push((IDEMPOTENCY_KEY.to_owned(), key));
        }
        self.capabilities.http().fetch(request)
    }
}

/// The number of equal requests made, by the hash of the request.
type Made = BTreeMap<[u8; 32], u32>;

/// The requests of one run that may change something.
#[derive(Clone, Debug)]
pub struct RunWrites(Option<Arc<Mutex<Made>>>);

impl Default for RunWrites {
    fn default() -> Self {
        Self(Some(Arc::default()))
    }
}

impl RunWrites {
    /// For a run without an effect, and so without keys.
    pub fn none() -> Self {
        Self(None)
    }

    /// The key of the next request: over the effect, the request, and the number of equal requests that the run made before.
    fn key(&self, effect_id: &EffectId, request: &HttpRequest) -> Option<String> {
        let mut hasher = Sha256::new();
        let method = request.method.to_ascii_uppercase();
        let parts = [
            method.as_bytes(),
            request.url.as_bytes(),
            request.body.as_slice(),
        ];
        for part in parts {
            hasher.update(part.len().to_be_bytes());
            hasher.update(part);
        }
        let request: [u8; 32] = hasher.finalize().into();
        let number = {
            let mut made = self
                .0
                .as_ref()?
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if made.len() >= WRITES_MAX && !made.contains_key(&request) {
                return None;
            }
            let made = made.entry(request).or_default();
            *made += 1;
            *made
        };
        Some(request_key(effect_id, &request, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_of_a_run_has_a_key_of_its_own_and_the_same_in_the_next_run() {
        let request = |url: &str, body: &str| HttpRequest {
            method: "post".to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: body.as_bytes().to_vec(),
            timeout_ms: 1,
            redirects: Redirects::Keep,
        };
        let requests = [
            request("https://a.example/", "1"),
            request("https://a.example/", "2"),
            request("https://a.example/", "1"),
            request("https://a.example/1", ""),
            HttpRequest {
                method: "PUT".to_owned(),
                ..request("https://a.example/", "1")
            },
        ];
        let keys = |effect: &str| {
            let (effect, writes) = (EffectId::new(effect), RunWrites::default());
            let keys = requests.iter().map(|request| writes.key(&effect, request));
            keys.map(Option::unwrap).collect::<Vec<_>>()
        };
        let first = keys("e-1");
        let distinct: std::collections::BTreeSet<&String> = first.iter().collect();
        assert_eq!(distinct.len(), requests.len());
        assert_eq!(keys("e-1"), first);
        assert!(keys("e-2").iter().all(|key| !first.contains(key)));
    }
}
