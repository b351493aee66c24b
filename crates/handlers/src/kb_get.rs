//! `kb_get`: fetches one record by its id. Knows the shape of the answer in each mode; the knowledge base decides who may read the
//! record.

use crate::arguments::{read, require_active};
use crate::capability::{answer, knowledge_report};
use crate::outcome::{Outcome, ready};
use crate::record::{Field, add_field, beginning, citation, picture_part, show_pictures};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Execution, GetRequest, Handler, Invocation, Placement, Record, Report, Success,
};
use windlass_contract::kind::Mode;

pub(crate) struct KbGet;

/// Characters of a record's text in voice: about a minute and a half of speech, and with the other fields still under
/// the 1,500 characters above which a response is reported as long.
const VOICE_CHARACTERS_MAX: usize = 1_200;

/// The most near ids in an answer.
const NEAR_IDS_MAX: usize = 5;

#[derive(Deserialize)]
struct Arguments {
    id: String,
    namespace: Option<String>,
    return_fields: Option<Vec<Field>>,
}

impl Handler for KbGet {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        get(invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["id"],
            "properties": {
                "id": {"type": "string"},
                "namespace": {"type": ["string", "null"]},
                "return_fields": {"type": ["array", "null"], "items": {
                    "enum": ["snippet", "full_text", "metadata", "sources", "url"],
                }},
            },
        }))
    }
}

fn get(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    require_active(&context, "fetch a record")?;
    let arguments: Arguments = read(&arguments)?;
    let fields = arguments
        .return_fields
        .unwrap_or_else(|| match context.mode {
            Mode::Text => vec![Field::FullText, Field::Metadata, Field::Sources, Field::Url],
            Mode::Voice => vec![Field::FullText, Field::Url],
        });
    let id = arguments.id.clone();
    let request = GetRequest {
        id: arguments.id,
        namespace: arguments.namespace,
        reader: context.caller.reader(),
    };
    let knowledge = context.capabilities.knowledge();
    Ok(answer(knowledge.get(request), move |found| match found {
        Ok(Ok(record)) => {
            show_pictures(&context, std::iter::once(&record));
            Ok(Success {
                content: picture_part(&record).into_iter().collect(),
                ..Success::new(data(&record, &fields, context.mode))
            })
        }
        Ok(Err(near)) => Err(not_found(&id, near)),
        Err(error) => Err(knowledge_report(error, &context)),
    }))
}

fn data(record: &Record, fields: &[Field], mode: Mode) -> Value {
    let mut object = citation(record);
    if !record.aliases.is_empty() {
        object.insert("aliases".into(), json!(record.aliases));
    }
    if !record.tags.is_empty() {
        object.insert("tags".into(), json!(record.tags));
    }
    for field in fields {
        match field {
            Field::FullText => {
                let cut = match mode {
                    Mode::Voice => beginning(&record.body, VOICE_CHARACTERS_MAX),
                    Mode::Text => None,
                };
                if cut.is_some() {
                    object.insert("truncated".into(), true.into());
                }
                let text = cut.unwrap_or_else(|| record.body.clone());
                object.insert("full_text".into(), text.into());
            }
            Field::Snippet | Field::Metadata | Field::Sources | Field::Url => {
                add_field(&mut object, record, *field);
            }
        }
    }
    Value::Object(object)
}

fn not_found(id: &str, mut near: Vec<String>) -> Box<Report> {
    near.truncate(NEAR_IDS_MAX);
    let suggestion = if near.is_empty() {
        "Search for the record by its title or topic instead.".to_owned()
    } else {
        format!(
            "If one of these is meant, fetch it: {}. Otherwise search by title or topic.",
            near.join(", ")
        )
    };
    Box::new(Report {
        suggestion: Some(suggestion),
        details: Some(json!({"near": near})),
        ..Report::new(
            FailureKind::NotFound,
            format!("there is no record {id:?} in the knowledge base"),
        )
    })
}
