//! Declarations of a tool in each provider's form. Runs at build time only; declarations leave `behavior` out, which the codec adds by
//! model profile.

mod gemini;
pub(crate) mod kinds;
mod openai;

use crate::manifest::Readable;
use crate::problem::{NOTHING_TO_DO, Report, Severity};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use windlass_contract::json;
use windlass_contract::registry::Declarations;

/// Facts that a provider's schema cannot say, grouped by subject so that a tool's notes stay readable.
#[derive(Debug, Default)]
struct Notes {
    /// By keyword: its description, its first place, and the number of its places.
    dropped: BTreeMap<String, (String, usize)>,
    errors: Vec<(String, String, String)>,
}

impl Notes {
    fn dropped(&mut self, keyword: &str, place: &str) {
        self.dropped
            .entry(keyword.to_owned())
            .or_insert_with(|| (place.to_owned(), 0))
            .1 += 1;
    }

    fn error(&mut self, place: &str, message: impl Into<String>, cure: impl Into<String>) {
        self.errors
            .push((place.to_owned(), message.into(), cure.into()));
    }

    fn tell(self, provider: &str, report: &mut Report<'_>) {
        for (place, message, cure) in self.errors {
            report.error(&place, message, cure);
        }
        for (keyword, (place, count)) in self.dropped {
            let places = if count == 1 {
                String::new()
            } else {
                format!(" ({count} places)")
            };
            report.at_pointer(
                Severity::Note,
                &place,
                format!("{provider} cannot be told `{keyword}`{places}"),
                format!("{NOTHING_TO_DO} arguments are still checked against the whole schema"),
            );
        }
    }
}

/// The four declarations of a tool. The report gets the facts that they cannot say; `None` where one of these, or anything else about the
/// tool, is an error.
pub(crate) fn declare(manifest: &Readable, report: &mut Report<'_>) -> Option<Declarations> {
    let parameters = manifest.parameters.as_ref()?;
    let mut openai_notes = Notes::default();
    let openai_parameters = openai::parameters(parameters, &mut openai_notes);
    openai_notes.tell("OpenAI", report);

    let mut gemini_notes = Notes::default();
    let gemini_parameters = gemini::parameters(parameters, &mut gemini_notes);
    gemini_notes.tell("Gemini's native schema", report);
    if report.has_errors() {
        return None;
    }
    let id = manifest.tool_id.as_ref()?.as_str();
    let description = manifest.description.as_deref()?;
    Some(Declarations {
        openai: raw(&openai::chat(id, description, &openai_parameters)),
        openai_realtime: raw(&openai::realtime(id, description, &openai_parameters)),
        gemini_native: raw(&gemini::native(id, description, gemini_parameters)),
        gemini_json: raw(&gemini::schema_passed_through(id, description, parameters)),
    })
}

fn raw(declaration: &Value) -> Box<RawValue> {
    let text = String::from_utf8(json::canonical(declaration)).expect("JSON is text");
    RawValue::from_string(text).expect("the canonical form is JSON")
}

#[cfg(test)]
mod tests;
