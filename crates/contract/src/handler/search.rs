//! Web search as tools see it: the request and the results. Knows no service.

use super::{CapabilityFuture, ServiceError};
use serde::Deserialize;

/// A service that searches the web.
pub trait WebSearch: Send + Sync {
    /// The pages found, the best first.
    fn search(
        &self,
        request: WebSearchRequest,
    ) -> CapabilityFuture<Result<WebSearchAnswer, ServiceError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSearchRequest {
    pub query: String,
    pub results_max: usize,
    /// The greatest age of the pages.
    pub freshness: Option<Freshness>,
    /// Milliseconds from now to the end of the answer.
    pub timeout_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    Day,
    Week,
    Month,
    Year,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSearchAnswer {
    /// The service, for people.
    pub service: String,
    pub results: Vec<WebResult>,
    /// A search model's summary of these results; `None` where it cites no page.
    pub summary: Option<String>,
}

/// A page as the service describes it: external text, without markup and of bounded length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebResult {
    /// `http://` or `https://`.
    pub url: String,
    pub title: String,
    pub snippet: Option<String>,
    /// The time when the page was published or changed, as the service writes it.
    pub published: Option<String>,
}

/// The web search where none is set up.
pub(super) struct NoWebSearch;

impl WebSearch for NoWebSearch {
    fn search(
        &self,
        _: WebSearchRequest,
    ) -> CapabilityFuture<Result<WebSearchAnswer, ServiceError>> {
        let off = ServiceError::Off("nothing here searches the web".to_owned());
        Box::pin(std::future::ready(Err(off)))
    }
}
