//! The kinds of values in conditions, and the kind of an argument by its schema. Reports nothing.

use serde_json::{Map, Value};

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Class {
    Flag,
    Number,
    Text,
    Texts,
    Numbers,
    /// A list with items of unknown kind.
    List,
    /// An object, which is itself compared with nothing.
    Object,
    /// Unknown until a call is judged.
    Any,
}

impl Class {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Texts => "a list of texts",
            Self::Numbers => "a list of numbers",
            Self::List => "a list",
            Self::Object => "an object",
            Self::Any => "any value",
        }
    }

    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Texts | Self::Numbers | Self::List)
    }
}

/// A class, and its possible texts or numbers; for a list the possible items.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) class: Class,
    /// `None` where they are not limited.
    pub(super) among: Option<Vec<Value>>,
}

impl From<Class> for Kind {
    fn from(class: Class) -> Self {
        Self { class, among: None }
    }
}

impl Kind {
    /// One of these words.
    pub(super) fn word(words: &[&str]) -> Self {
        Self {
            class: Class::Text,
            among: Some(words.iter().map(|word| Value::from(*word)).collect()),
        }
    }
}

pub(super) fn list_of(class: Class) -> Class {
    match class {
        Class::Text => Class::Texts,
        Class::Number => Class::Numbers,
        _ => Class::List,
    }
}

/// The kind of a value by the parts of its schema.
pub(super) fn one_of(parts: &[&Map<String, Value>]) -> Kind {
    let among = values_of(parts);
    let by_values = || {
        let mut classes = among.iter().flatten().map(|value| match value {
            Value::String(_) => Class::Text,
            Value::Number(_) => Class::Number,
            Value::Bool(_) => Class::Flag,
            _ => Class::Any,
        });
        let first = classes.next().unwrap_or(Class::Any);
        match classes.all(|class| class == first) {
            true => first,
            false => Class::Any,
        }
    };
    let class = match single_type(parts) {
        Some("string") => Class::Text,
        Some("number" | "integer") => Class::Number,
        Some("boolean") => Class::Flag,
        Some("object") => Class::Object,
        Some("array") => Class::List,
        _ if types(parts).is_empty() => by_values(),
        _ => Class::Any,
    };
    let is_listed = matches!(class, Class::Text | Class::Number);
    Kind {
        class,
        among: among.filter(|_| is_listed),
    }
}

/// The values that a schema lists by `enum` or `const`, without null; `None` where it lists none.
pub(super) fn values_of(parts: &[&Map<String, Value>]) -> Option<Vec<Value>> {
    let mut known: Option<Vec<Value>> = None;
    for part in parts {
        let listed = match (part.get("const"), part.get("enum")) {
            (Some(only), _) => std::slice::from_ref(only),
            (None, Some(Value::Array(several))) => several.as_slice(),
            (None, _) => continue,
        };
        // A value that two lists require is in both.
        let both = |value: &&Value| known.as_ref().is_none_or(|known| known.contains(value));
        let both = listed.iter().filter(|value| !value.is_null()).filter(both);
        known = Some(both.cloned().collect());
    }
    known
}

fn types<'s>(parts: &[&'s Map<String, Value>]) -> Vec<&'s str> {
    let said = parts.iter().filter_map(|part| part.get("type"));
    said.flat_map(|said| match said {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    })
    .collect()
}

pub(super) fn is_of(parts: &[&Map<String, Value>], kind: &str) -> bool {
    types(parts).contains(&kind)
}

/// The one type of a value besides null; `None` where several are allowed or no type is given.
pub(super) fn single_type<'s>(parts: &[&'s Map<String, Value>]) -> Option<&'s str> {
    let mut types = types(parts);
    types.retain(|kind| *kind != "null");
    types.dedup();
    match types.as_slice() {
        [only] => Some(only),
        _ => None,
    }
}
