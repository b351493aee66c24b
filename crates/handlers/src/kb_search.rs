//! `kb_search`: finds records and answers with evidence. Knows the shape of the answer in each mode; ranking and
//! filtering are the knowledge base's.

use crate::arguments::{read, require_active};
use crate::capability::{answer, knowledge_report};
use crate::outcome::{Outcome, ready};
use crate::record::{Field, add_field, citation, is_picture, show_pictures};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_contract::handler::{
    Execution, Handler, Hit, Invocation, Placement, SearchAnswer, SearchRequest, Success,
};
use windlass_contract::kind::Mode;

pub(crate) struct Searcher;

#[derive(Deserialize)]
struct Arguments {
    query: String,
    namespace: Option<String>,
    #[serde(default)]
    filters: Filters,
    top_k: usize,
    return_fields: Option<Vec<Field>>,
    include_snippets: bool,
}

#[derive(Default, Deserialize)]
struct Filters {
    #[serde(rename = "type")]
    record_type: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    date_range: DateRange,
}

#[derive(Default, Deserialize)]
struct DateRange {
    start: Option<String>,
    end: Option<String>,
}

impl Handler for Searcher {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        search(invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["query", "top_k", "include_snippets"],
            "properties": {
                "query": {"type": "string"},
                "namespace": {"type": ["string", "null"]},
                "filters": {"type": "object", "properties": {
                    "type": {"type": ["string", "null"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "date_range": {"type": "object", "properties": {
                        "start": {"type": ["string", "null"]}, "end": {"type": ["string", "null"]},
                    }},
                }},
                "top_k": {"type": "integer"},
                "return_fields": {"type": ["array", "null"], "items": {
                    "enum": ["snippet", "full_text", "metadata", "sources", "url"],
                }},
                "include_snippets": {"type": "boolean"},
            },
        }))
    }
}

fn search(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    require_active(&context, "search")?;
    let arguments: Arguments = read(&arguments)?;
    let shape = Shape::of(&arguments, context.mode);
    let request = SearchRequest {
        query: arguments.query,
        namespace: arguments.namespace,
        record_type: arguments.filters.record_type,
        tags: arguments.filters.tags,
        updated_from: arguments.filters.date_range.start,
        updated_to: arguments.filters.date_range.end,
        top_k: arguments.top_k,
        snippets: shape.fields.contains(&Field::Snippet),
        reader: context.caller.reader(),
        mode: context.mode,
    };
    let knowledge = context.capabilities.knowledge();
    Ok(answer(
        knowledge.search(request),
        move |found| match found {
            Ok(found) => {
                let hits = shape.listed(&found.hits);
                // Pictures before all other records are the ones asked for; later ones are not shown.
                let first = hits.iter().map(|hit| &*hit.record);
                show_pictures(&context, first.take_while(|record| is_picture(record)));
                let results = hits.iter().map(|hit| shape.result(hit)).collect();
                Ok(Success::new(shape.data(results, &found)))
            }
            Err(error) => Err(knowledge_report(error, &context)),
        },
    ))
}

/// The shape of one answer.
struct Shape {
    fields: Vec<Field>,
    results_max: usize,
    note: Option<&'static str>,
}

impl Shape {
    fn of(arguments: &Arguments, mode: Mode) -> Self {
        let mut fields = match (&arguments.return_fields, mode) {
            (Some(fields), _) => fields.clone(),
            (None, Mode::Text) => vec![Field::Snippet, Field::Metadata, Field::Url],
            // A spoken answer needs the passage; the page that shows the citations needs the link.
            (None, Mode::Voice) => vec![Field::Snippet, Field::Url],
        };
        if !arguments.include_snippets {
            fields.retain(|field| *field != Field::Snippet);
        }
        let asked = fields.len();
        if mode == Mode::Voice {
            fields.retain(|field| *field != Field::FullText);
        }
        let note = (fields.len() < asked)
            .then_some("full_text is left out in voice; fetch a single record for its text");
        Self {
            fields,
            results_max: arguments.top_k,
            note,
        }
    }

    /// The hits that the answer lists, the best first, by their exact scores: rounding makes unequal scores equal. This tool promises the
    /// order and the absence of repeats, whatever engine stands behind it.
    fn listed<'a>(&self, hits: &'a [Hit]) -> Vec<&'a Hit> {
        let mut sorted: Vec<&Hit> = hits.iter().collect();
        sorted.sort_by(|left, right| {
            (rank(right.score).total_cmp(&rank(left.score)))
                .then_with(|| left.record.id.cmp(&right.record.id))
        });
        let mut listed: Vec<&Hit> = Vec::with_capacity(hits.len().min(self.results_max));
        for hit in sorted {
            if listed.len() == self.results_max {
                break;
            }
            let is_repeat = listed
                .iter()
                .any(|earlier| earlier.record.id == hit.record.id);
            if !is_repeat {
                listed.push(hit);
            }
        }
        listed
    }

    fn data(&self, results: Vec<Value>, found: &SearchAnswer) -> Value {
        let mut data = Map::new();
        data.insert("results".into(), Value::Array(results));
        data.insert("retrieval".into(), found.retrieval.as_str().into());
        if let Some(model) = &found.model {
            data.insert("model".into(), model.as_str().into());
        }
        if let Some(reason) = &found.degraded {
            data.insert("degraded".into(), reason.as_str().into());
        }
        if !found.other_namespaces.is_empty() {
            let names = found.other_namespaces.as_slice();
            data.insert("other_namespaces".into(), names.into());
        }
        if let Some(note) = self.note {
            data.insert("note".into(), note.into());
        }
        Value::Object(data)
    }

    fn result(&self, hit: &Hit) -> Value {
        let record = &*hit.record;
        let mut object = citation(record);
        object.insert("score".into(), shown_score(hit.score).into());
        for field in &self.fields {
            match field {
                Field::Snippet => {
                    let text = hit.snippet.as_ref().map(|snippet| snippet.text.as_str());
                    object.insert("snippet".into(), text.into());
                }
                Field::FullText => {
                    object.insert("full_text".into(), record.body.as_str().into());
                }
                Field::Metadata | Field::Sources | Field::Url => {
                    add_field(&mut object, record, *field);
                }
            }
        }
        Value::Object(object)
    }
}

/// A score's value in the order of the results; a score that is no number counts as zero.
fn rank(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// A score between 0 and 1, rounded to three digits.
fn shown_score(score: f64) -> f64 {
    (rank(score).clamp(0.0, 1.0) * 1000.0).round() / 1000.0
}
