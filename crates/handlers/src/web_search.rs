//! `web_search`: pages of the web for a question, as evidence to cite. Knows the shape of the answer; the service finds the pages.

use crate::arguments::{read, require_active, said};
use crate::capability::answer;
use crate::outcome::{Outcome, ready, report};
use crate::record::beginning;
use crate::service::{Task, service_report};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Execution, Freshness, Handler, Invocation, Success, WebResult, WebSearchAnswer,
    WebSearchRequest,
};
use windlass_contract::kind::Mode;

pub(crate) struct WebSearcher;

const TASK: Task = Task {
    request: "this query",
    undone: Some("nothing was searched"),
    is_charged: false,
};

/// The most characters of a spoken passage, and of a spoken summary of the service.
const VOICE_SNIPPET_MAX: usize = 300;
const VOICE_SUMMARY_MAX: usize = 600;

#[derive(Deserialize)]
struct Arguments {
    query: String,
    top_k: usize,
    freshness: Option<Freshness>,
}

impl Handler for WebSearcher {
    fn execute(&self, invocation: Invocation) -> Execution {
        search(invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["query", "top_k"],
            "properties": {
                "query": {"type": "string"},
                "top_k": {"type": "integer"},
                "freshness": {"enum": ["day", "week", "month", "year", null]},
            },
        }))
    }
}

fn search(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    require_active(&context, "search the web")?;
    let Arguments {
        query,
        top_k,
        freshness,
    } = read(&arguments)?;
    if said(&query).is_none() {
        return Err(report(FailureKind::Validation, "`query` says nothing"));
    }
    let request = WebSearchRequest {
        query,
        results_max: top_k,
        freshness,
        timeout_ms: context.left_ms(),
    };
    let service = context.capabilities.web_search();
    Ok(answer(service.search(request), move |found| match found {
        Ok(found) => Ok(Success::new(data(&found, top_k, context.mode))),
        Err(error) => Err(service_report(&error, TASK, &context)),
    }))
}

fn data(found: &WebSearchAnswer, results_max: usize, mode: Mode) -> Value {
    let results = found.results.iter().take(results_max);
    let results: Vec<Value> = results.map(|page| result(page, mode)).collect();
    let mut data = Map::new();
    // A summary without any page has no evidence.
    let summary = found.summary.as_deref().filter(|_| !results.is_empty());
    if let Some(summary) = summary {
        let cut = match mode {
            Mode::Voice => beginning(summary, VOICE_SUMMARY_MAX),
            Mode::Text => None,
        };
        let summary = cut.unwrap_or_else(|| summary.to_owned());
        data.insert("summary".into(), summary.into());
    }
    data.insert("results".into(), results.into());
    data.insert("service".into(), found.service.as_str().into());
    Value::Object(data)
}

/// A page in the form in which a record of the knowledge base is cited.
fn result(page: &WebResult, mode: Mode) -> Value {
    let cut = match (&page.snippet, mode) {
        (Some(snippet), Mode::Voice) => beginning(snippet, VOICE_SNIPPET_MAX),
        (Some(_), Mode::Text) | (None, _) => None,
    };
    json!({
        "id": page.url,
        "type": "page",
        "title": page.title,
        "source_type": "web",
        "last_updated": page.published,
        "snippet": cut.or_else(|| page.snippet.clone()),
        "url": page.url,
    })
}
