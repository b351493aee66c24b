//! Searching the web as tools see it: what is asked, and what is found. Knows no service.

use super::{CapabilityFuture, ServiceError};
use serde::Deserialize;

/// What searches the web.
pub trait WebSearch: Send + Sync {
    /// The pages that were found, the best first.
    fn search(
        &self,
        request: WebSearchRequest,
    ) -> CapabilityFuture<Result<WebSearchAnswer, ServiceError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSearchRequest {
    pub query: String,
    pub results_max: usize,
    /// Only pages that are no older.
    pub freshness: Option<Freshness>,
    /// From now to the end of the answer.
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
    /// What a search model says by these results; none where it names no page.
    pub summary: Option<String>,
}

/// A page as the service describes it: text of strangers, without markup and of bounded length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebResult {
    /// `http://` or `https://`.
    pub url: String,
    pub title: String,
    pub snippet: Option<String>,
    /// When the page was published or changed, as the service writes it.
    pub published: Option<String>,
}

/// What a world offers in which nothing searches the web.
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
