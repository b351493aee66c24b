//! The identity of a call's effect: its arguments in the form in which two requests are compared, by their values and not by their
//! spelling. Nothing that is shown, run or logged has this form.
//!
//! Two requests with the same exact form ask for one effect. Two with the same *near* form differ only by case, width or accents, and a
//! person has to compare them.

mod gather;
mod instant;
mod text;

use crate::arguments::Arguments;
use crate::json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
pub use text::near_text;
use text::{exact_text, of_format};

/// How the arguments of a tool's key are compared. It is stored with each effect, so that another version of the tool recognises the
/// effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeySpec {
    /// The arguments that identify the effect.
    names: Vec<String>,
    /// Whether all arguments do, also unknown ones, except those that are equal to their default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_whole: bool,
    /// The defaults; the key leaves out an argument that is equal to its own.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    defaults: Map<String, Value>,
    /// How text arguments with a format are compared, at any depth.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    compared: BTreeMap<String, Compared>,
}

/// How a value is compared: numbers always by value, texts by their format, lists in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Compared {
    /// The possible formats of its text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    formats: Vec<Format>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    members: BTreeMap<String, Compared>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    items: Option<Box<Compared>>,
}

/// A format whose texts have several spellings for one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    DateTime,
    Date,
    Time,
    Uuid,
    Email,
    Uri,
    Host,
}

/// The form to make.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closeness {
    Exact,
    Near,
}

impl KeySpec {
    /// The key of a tool with these parameters. Where `names` is empty, all arguments make the key.
    pub fn of(parameters: &Value, names: &[impl AsRef<str>], defaults: &Arguments) -> Self {
        gather::spec(parameters, names, defaults)
    }

    /// The compared arguments as JSON text: equal where two requests ask for one effect.
    pub fn exact(&self, arguments: &Arguments) -> String {
        self.form(arguments.as_map(), Closeness::Exact, false)
    }

    /// The same text without regard to case, width and accents.
    pub fn near(&self, arguments: &Arguments) -> String {
        self.form(arguments.as_map(), Closeness::Near, false)
    }

    /// Whether it is empty: the effect was stored before keys were.
    pub fn is_unknown(&self) -> bool {
        self.names.is_empty() && !self.is_whole
    }

    /// The exact form of a request to another version of the tool, as this version would have compared it. Arguments that this version
    /// did not have are left out.
    pub fn exact_of_other_version(&self, arguments: &Arguments) -> String {
        self.form(arguments.as_map(), Closeness::Exact, true)
    }

    /// A number that distinguishes the keys of two versions of a tool.
    pub fn fingerprint(&self) -> i64 {
        let text = serde_json::to_vec(self).expect("a key has text keys and plain values");
        let hash = Sha256::digest(&text);
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        i64::from_be_bytes(first)
    }

    /// How each argument of the key is compared, in words.
    pub fn words(&self) -> Vec<(&str, String)> {
        let plain = Compared::default();
        let each = self.names.iter().map(|name| {
            let compared = self.compared.get(name).unwrap_or(&plain);
            (name.as_str(), compared.words())
        });
        each.collect()
    }

    fn form(
        &self,
        arguments: &Map<String, Value>,
        closeness: Closeness,
        is_known_alone: bool,
    ) -> String {
        let plain = Compared::default();
        let mut form = Map::new();
        for (name, value) in arguments {
            let is_named = self.names.iter().any(|known| known == name);
            if !is_named && (!self.is_whole || is_known_alone) {
                continue;
            }
            let compared = self.compared.get(name).unwrap_or(&plain);
            let default = self.defaults.get(name);
            let value = compared.form(value, closeness);
            if default.is_none_or(|default| {
                json::canonical(&compared.form(default, closeness)) != json::canonical(&value)
            }) {
                form.insert(name.clone(), value);
            }
        }
        let bytes = json::canonical(&Value::Object(form));
        String::from_utf8(bytes).expect("canonical JSON is made of texts, which are UTF-8")
    }
}

impl Compared {
    fn form(&self, value: &Value, closeness: Closeness) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => {
                let text = exact_text(text);
                let mut formats = self.formats.iter();
                let text = formats
                    .find_map(|format| of_format(*format, &text))
                    .unwrap_or(text);
                match closeness {
                    Closeness::Exact => text.into(),
                    Closeness::Near => near_text(&text).into(),
                }
            }
            Value::Array(items) => {
                let plain = Self::default();
                let of_item = self.items.as_deref().unwrap_or(&plain);
                items
                    .iter()
                    .map(|item| of_item.form(item, closeness))
                    .collect()
            }
            Value::Object(members) => {
                let plain = Self::default();
                let form = members.iter().map(|(name, member)| {
                    let of_member = self.members.get(name).unwrap_or(&plain);
                    (name.clone(), of_member.form(member, closeness))
                });
                Value::Object(form.collect())
            }
        }
    }

    fn words(&self) -> String {
        let mut words: Vec<String> = self
            .formats
            .iter()
            .map(|format| format.words().to_owned())
            .collect();
        if let Some(items) = &self.items {
            words.push(format!("each item {}", items.words()));
        }
        for (name, member) in &self.members {
            words.push(format!("`{name}` {}", member.words()));
        }
        match words.is_empty() {
            true => "by value; text without regard to Unicode form, outer and repeated blanks and invisible characters".to_owned(),
            false => words.join(", "),
        }
    }
}

impl Format {
    fn words(self) -> &'static str {
        match self {
            Self::DateTime => "by instant",
            Self::Date => "as a date, without regard to case",
            Self::Time => "as a time, without regard to case",
            Self::Uuid => "as a UUID, without regard to case",
            Self::Email => "as an address whose host has no case",
            Self::Uri => "as an address whose scheme and host have no case",
            Self::Host => "as a host, without regard to case",
        }
    }
}

#[cfg(test)]
mod tests;
