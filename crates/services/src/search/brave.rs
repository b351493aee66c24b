//! Brave Search: `GET /web/search`.
//!
//! Sources: <https://api-dashboard.search.brave.com/api-reference/web/search/get> and
//! <https://api.search.brave.com/app/documentation/web-search/responses>.

use super::{Page, results};
use crate::exchange::{Asked, Endpoint, Service, percent_encoded};
use serde::Deserialize;
use std::sync::Arc;
use windlass_contract::handler::{
    CapabilityFuture, Freshness, Http, ServiceError, WebSearch, WebSearchAnswer, WebSearchRequest,
};

/// Results of one page.
const COUNT_MAX: usize = 20;

/// Brave's index.
pub struct Brave(Arc<Service>);

impl Brave {
    pub const USUAL_ADDRESS: &str = "https://api.search.brave.com/res/v1";

    pub fn new(http: Arc<dyn Http>, endpoint: Endpoint) -> Self {
        Self(Arc::new(Service {
            http,
            endpoint,
            name: "Brave".to_owned(),
            authorization: ("x-subscription-token", ""),
        }))
    }
}

impl WebSearch for Brave {
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
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: String,
    description: Option<String>,
    page_age: Option<String>,
}

async fn search(
    service: &Service,
    request: &WebSearchRequest,
) -> Result<WebSearchAnswer, ServiceError> {
    let mut path = format!(
        "/web/search?q={}&count={}",
        percent_encoded(&request.query),
        request.results_max.clamp(1, COUNT_MAX)
    );
    if let Some(freshness) = request.freshness {
        path.push_str(match freshness {
            Freshness::Day => "&freshness=pd",
            Freshness::Week => "&freshness=pw",
            Freshness::Month => "&freshness=pm",
            Freshness::Year => "&freshness=py",
        });
    }
    let body = service.ask(&path, Asked::Get, request.timeout_ms).await?;
    let answer: Answer = service.read(&body)?;
    // The part is missing if nothing on the web fits.
    let found = answer.web.map_or(Vec::new(), |web| web.results);
    let pages = found.iter().map(|found| Page {
        url: &found.url,
        title: &found.title,
        snippet: found.description.as_deref(),
        published: found.page_age.as_deref(),
    });
    Ok(WebSearchAnswer {
        service: service.name.clone(),
        results: results(pages, request.results_max),
        summary: None,
    })
}
