//! Puts the words that a program knows in place of the enums that a tool's schema has for want of knowing them: the types and
//! namespaces of the knowledge base that is served. Knows no knowledge base.

use crate::id::ToolId;
use crate::manifest::Readable;
use serde_json::Value;
use std::collections::BTreeMap;

/// By tool.
pub type Vocabularies = BTreeMap<ToolId, Vec<Vocabulary>>;

/// The words for one of a tool's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// A JSON pointer into `parameters`. A schema that is not there, or has no `enum`, is left as it is.
    pub pointer: &'static str,
    /// Without any, the schema keeps its own.
    pub values: Vec<String>,
    /// In place of the schema's default, where it has one; one that is none of the values takes it away.
    pub default: Option<String>,
}

impl Vocabulary {
    /// Everything that makes a difference.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        let values = self.values.iter().map(String::as_str);
        [self.pointer]
            .into_iter()
            .chain(values)
            .chain(self.default.as_deref())
    }
}

pub(super) fn put_in(vocabularies: &Vocabularies, manifest: &mut Readable) {
    let (Some(id), Some(parameters)) = (&manifest.tool_id, &mut manifest.parameters) else {
        return;
    };
    for vocabulary in vocabularies.get(id).into_iter().flatten() {
        let schema = parameters
            .pointer_mut(vocabulary.pointer)
            .and_then(Value::as_object_mut)
            .filter(|schema| schema.contains_key("enum") && !vocabulary.values.is_empty());
        let Some(schema) = schema else {
            continue;
        };
        schema.insert("enum".to_owned(), vocabulary.values.clone().into());
        if schema.contains_key("default")
            && let Some(default) = &vocabulary.default
        {
            // A default that is none of the words is left to whoever gets the call.
            match vocabulary.values.contains(default) {
                true => schema.insert("default".to_owned(), default.as_str().into()),
                false => schema.remove("default"),
            };
        }
    }
}
