//! Tavily: `POST /search`.
//!
//! Source: <https://docs.tavily.com/documentation/api-reference/endpoint/search>.

use super::{Page, results};
use crate::exchange::{Asked, Endpoint, Service};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::handler::{
    CapabilityFuture, Freshness, Http, ServiceError, WebSearch, WebSearchAnswer, WebSearchRequest,
};

/// Results that may be requested.
const RESULTS_MAX: usize = 20;

/// Tavily's search.
pub struct Tavily(Arc<Service>);

impl Tavily {
    pub const USUAL_ADDRESS: &str = "https://api.tavily.com";

    pub fn new(http: Arc<dyn Http>, endpoint: Endpoint) -> Self {
        Self(Arc::new(Service {
            http,
            endpoint,
            name: "Tavily".to_owned(),
            authorization: ("authorization", "Bearer "),
        }))
    }
}

impl WebSearch for Tavily {
    fn search(
        &self,
        request: WebSearchRequest,
    ) -> CapabilityFuture<Result<WebSearchAnswer, ServiceError>> {
        let service = self.0.clone();
        Box::pin(async move { search(&service, &request).await })
    }
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: String,
    content: Option<String>,
    published_date: Option<String>,
}

async fn search(
    service: &Service,
    request: &WebSearchRequest,
) -> Result<WebSearchAnswer, ServiceError> {
    let mut body = json!({
        "query": request.query,
        "max_results": request.results_max.clamp(1, RESULTS_MAX),
        "search_depth": "basic",
    });
    if let Some(freshness) = request.freshness {
        body["time_range"] = match freshness {
            Freshness::Day => "day",
            Freshness::Week => "week",
            Freshness::Month => "month",
            Freshness::Year => "year",
        }
        .into();
    }
    let asked = Asked::Post(&body);
    let body = service.ask("/search", asked, request.timeout_ms).await?;
    let answer: Answer = service.read(&body)?;
    let pages = answer.results.iter().map(|found| Page {
        url: &found.url,
        title: &found.title,
        snippet: found.content.as_deref(),
        published: found.published_date.as_deref(),
    });
    Ok(WebSearchAnswer {
        service: service.name.clone(),
        results: results(pages, request.results_max),
        summary: None,
    })
}
