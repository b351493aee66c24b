//! What came back from a tool, however it is wrapped: a record, a list of hits, or a failure in words. Knows the
//! conventions of Gemini's function responses and of knowledge bases, no tool in particular.

use super::words::{self, Record};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Success(Value),
    /// Why not, in words.
    Failure(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) record: Record,
}

/// `output` holds a result and `error` a failure; without either the whole object is the result.
pub(super) fn read(response: &Value) -> Outcome {
    if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
        if error.get("type").and_then(Value::as_str) == Some("CONFIRMATION_REQUIRED") {
            return Outcome::Failure("it waits for your yes".to_owned());
        }
        let message = error.get("message").unwrap_or(error);
        let message = message
            .as_str()
            .map_or_else(|| message.to_string(), str::to_owned);
        return Outcome::Failure(message);
    }
    let output = response.get("output").unwrap_or(response);
    Outcome::Success(output.get("data").unwrap_or(output).clone())
}

/// The hits of a search, the best first, as searches rank them.
pub(super) fn hits(data: &Value) -> Vec<Found> {
    let lists = ["results", "items", "hits"];
    let list = lists.iter().find_map(|key| data.get(*key)).unwrap_or(data);
    let hits = list.as_array().into_iter().flatten();
    hits.map(|hit| Found {
        id: text_of(hit, &["id"]),
        record: record(hit, &Record::default()),
    })
    .collect()
}

/// A record; what it lacks comes from what was known of it before.
pub(super) fn record(data: &Value, known: &Record) -> Record {
    let or = |text: String, other: &str| {
        if text.is_empty() {
            other.to_owned()
        } else {
            text
        }
    };
    Record {
        title: or(text_of(data, &["title", "name", "id"]), &known.title),
        text: or(
            text_of(data, &["full_text", "body", "text", "content", "snippet"]),
            &known.text,
        ),
    }
}

/// The first of these fields that is a text or, as a snippet may be, an object with one.
fn text_of(value: &Value, keys: &[&str]) -> String {
    keys.iter()
        .filter_map(|key| value.get(*key))
        .find_map(|field| field.as_str().or_else(|| field.get("text")?.as_str()))
        .unwrap_or_default()
        .to_owned()
}

/// Any tool's outcome in a sentence.
pub(super) fn told(tool: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Success(data) => {
            let text = data
                .as_str()
                .map_or_else(|| data.to_string(), str::to_owned);
            words::shortened(&format!("{tool} answered: {text}"))
        }
        Outcome::Failure(problem) => words::shortened(&format!(
            "{tool} gave no result: {}",
            words::sentence(problem)
        )),
    }
}
