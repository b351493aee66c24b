//! Replaces enums in a tool's schema by the program's own words, which the schema's author could not know: the types and namespaces of
//! the served knowledge base. Knows no knowledge base.

use crate::manifest::Readable;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use windlass_contract::id::ToolId;

/// By tool.
pub type Vocabularies = BTreeMap<ToolId, Vec<Vocabulary>>;

/// The words for one of a tool's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// A JSON pointer into `parameters`. A missing schema, and a schema without `enum`, stays as it is.
    pub pointer: &'static str,
    /// The words; if empty, the schema keeps its own.
    pub values: Vec<String>,
    /// The replacement of the schema's default, if it has one; a default that is none of the values removes it.
    pub default: Option<String>,
}

impl Vocabulary {
    /// All texts that make a difference.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        let values = self.values.iter().map(String::as_str);
        [self.pointer]
            .into_iter()
            .chain(values)
            .chain(self.default.as_deref())
    }
}

/// Whether the parameters have changed. An enum with the same words in another order stays, and so does the version of tools that fit the
/// base already.
pub(super) fn put_in(vocabularies: &Vocabularies, manifest: &mut Readable) -> bool {
    let (Some(id), Some(parameters)) = (&manifest.tool_id, &mut manifest.parameters) else {
        return false;
    };
    let mut is_changed = false;
    for vocabulary in vocabularies.get(id).into_iter().flatten() {
        let schema = parameters
            .pointer_mut(vocabulary.pointer)
            .and_then(Value::as_object_mut)
            .filter(|schema| schema.contains_key("enum") && !vocabulary.values.is_empty());
        let Some(schema) = schema else {
            continue;
        };
        if !has_all(schema.get("enum"), &vocabulary.values) {
            schema.insert("enum".to_owned(), vocabulary.values.clone().into());
            is_changed = true;
        }
        let is_word = |default: &String| vocabulary.values.contains(default);
        if let (Some(known), Some(default)) = (schema.get("default"), &vocabulary.default)
            && (known != default || !is_word(default))
        {
            // The handler decides about a default that is not in the list.
            match is_word(default) {
                true => schema.insert("default".to_owned(), default.as_str().into()),
                false => schema.remove("default"),
            };
            is_changed = true;
        }
    }
    is_changed
}

/// The parameters without the enums that may be replaced: the served words are not known yet.
pub(super) fn left_open<'m>(
    vocabularies: &Vocabularies,
    manifest: &'m Readable,
) -> Option<Cow<'m, Value>> {
    let parameters = manifest.parameters.as_ref()?;
    let named = manifest
        .tool_id
        .as_ref()
        .and_then(|id| vocabularies.get(id));
    let Some(named) = named else {
        return Some(Cow::Borrowed(parameters));
    };
    let mut parameters = parameters.clone();
    for vocabulary in named {
        let schema = parameters.pointer_mut(vocabulary.pointer);
        if let Some(schema) = schema.and_then(Value::as_object_mut) {
            schema.remove("enum");
        }
    }
    Some(Cow::Owned(parameters))
}

/// Whether an enum has these words and no others.
fn has_all(known: Option<&Value>, values: &[String]) -> bool {
    let known = known
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let known: BTreeSet<_> = known.iter().map(Value::as_str).collect();
    let values: BTreeSet<_> = values.iter().map(|word| Some(word.as_str())).collect();
    known == values
}
