//! What kinds of values stand in conditions, and what a schema says of the kind of an argument. Reports nothing.

use serde_json::{Map, Value};

/// What kind of value stands somewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Class {
    Flag,
    Number,
    Text,
    Texts,
    Numbers,
    /// A list of which nothing more is known.
    List,
    /// It has members, and is itself compared with nothing.
    Object,
    /// Nobody knows before a call is judged.
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

/// A class, and the texts or numbers of it that there are; of a list those that its items may be.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) class: Class,
    /// `None` where there is no end of them.
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

/// What a schema says of one value.
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
        // What has to be in two lists is in both.
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

/// The one type that a value has beside null; `None` where it may have several, or nothing says so.
pub(super) fn single_type<'s>(parts: &[&'s Map<String, Value>]) -> Option<&'s str> {
    let mut types = types(parts);
    types.retain(|kind| *kind != "null");
    types.dedup();
    match types.as_slice() {
        [only] => Some(only),
        _ => None,
    }
}
