//! A model that searches the web itself, of OpenAI or of a compatible server: `POST /chat/completions`. Its answer counts only if
//! it names pages.
//!
//! Sources: <https://platform.openai.com/docs/guides/tools-web-search?api-mode=chat>, and for `citations`
//! <https://docs.perplexity.ai/docs/sonar/openai-compatibility>.

use super::{Page, SUMMARY_CHARACTERS_MAX, results};
use crate::exchange::{Asked, Endpoint, Service, reason};
use crate::plain::plain;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::handler::{
    CapabilityFuture, Freshness, Http, ServiceError, WebSearch, WebSearchAnswer, WebSearchRequest,
};

/// A model that searches.
pub struct OpenaiSearch(Arc<Model>);

struct Model {
    service: Service,
    model: String,
}

impl OpenaiSearch {
    pub const USUAL_ADDRESS: &str = "https://api.openai.com/v1";
    pub const USUAL_MODEL: &str = "gpt-4o-search-preview";

    pub fn new(http: Arc<dyn Http>, endpoint: Endpoint, model: String) -> Self {
        let service = Service {
            http,
            endpoint,
            name: format!("OpenAI {model}"),
            authorization: ("authorization", "Bearer "),
        };
        Self(Arc::new(Model { service, model }))
    }
}

impl WebSearch for OpenaiSearch {
    fn search(
        &self,
        request: WebSearchRequest,
    ) -> CapabilityFuture<Result<WebSearchAnswer, ServiceError>> {
        let model = self.0.clone();
        Box::pin(async move { model.search(&request).await })
    }
}

#[derive(Deserialize)]
struct Answer {
    choices: Vec<Choice>,
    /// Addresses from a server without annotations.
    #[serde(default)]
    citations: Vec<String>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    refusal: Option<String>,
    annotations: Option<Vec<Annotation>>,
}

/// Other types than `url_citation` have no such member.
#[derive(Deserialize)]
struct Annotation {
    url_citation: Option<UrlCitation>,
}

#[derive(Deserialize)]
struct UrlCitation {
    url: String,
    #[serde(default)]
    title: String,
}

impl Model {
    async fn search(&self, request: &WebSearchRequest) -> Result<WebSearchAnswer, ServiceError> {
        let body = json!({
            "model": self.model,
            "web_search_options": {},
            "messages": [{"role": "user", "content": question(request)}],
        });
        let asked = Asked::Post(&body);
        let body = self
            .service
            .ask("/chat/completions", asked, request.timeout_ms)
            .await?;
        let answer: Answer = self.service.read(&body)?;
        let Some(Choice { message }) = answer.choices.into_iter().next() else {
            return Err(self.service.unfit("holds no choice"));
        };
        if let Some(refusal) = message.refusal.filter(|words| !words.trim().is_empty()) {
            return Err(ServiceError::Refused(reason(&refusal)));
        }
        let annotations = message.annotations.unwrap_or_default();
        let cited = annotations
            .iter()
            .filter_map(|annotation| annotation.url_citation.as_ref());
        let cited = cited.map(|citation| Page {
            url: &citation.url,
            title: &citation.title,
            ..Page::default()
        });
        let listed = answer.citations.iter().map(|url| Page {
            url,
            ..Page::default()
        });
        let results = results(cited.chain(listed), request.results_max);
        let summary = message.content.filter(|_| !results.is_empty());
        let summary = summary.map(|words| plain(&words, SUMMARY_CHARACTERS_MAX));
        Ok(WebSearchAnswer {
            service: self.service.name.clone(),
            results,
            summary: summary.filter(|words| !words.is_empty()),
        })
    }
}

/// The question for the model. It names the age of pages, because the protocol has no field for that.
fn question(request: &WebSearchRequest) -> String {
    let age = match request.freshness {
        None => return request.query.clone(),
        Some(Freshness::Day) => "day",
        Some(Freshness::Week) => "week",
        Some(Freshness::Month) => "month",
        Some(Freshness::Year) => "year",
    };
    format!("{}\n\nUse only pages of the last {age}.", request.query)
}
