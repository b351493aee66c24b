//! Removal of secrets: from a call's arguments the values that the tool's manifest marks as sensitive, and from any text
//! everything that looks like a key or is one of this process, and everything that would steer a terminal. Knows no log and no
//! client.

mod words;

pub use words::{for_log, remember, without_secrets};

use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use windlass_contract::arguments::Arguments;
use windlass_contract::sensitive::Sensitive;

/// Replaces a text that is not shown.
const LEFT_OUT: &str = "(left out)";
/// Values that are kept for recognition.
const SECRETS_MAX: usize = 1_000;
/// Characters of a value that is looked for within texts; a shorter one is found only as a whole text.
const SECRET_CHARACTERS_MIN: usize = 4;

/// Characters of a value from which it is looked for within words and paths of a program's output.
const WORD_CHARACTERS_MIN: usize = 8;

/// The arguments without the values that the JSON pointers name. A `*` in a pointer stands for every key or item.
pub(crate) fn without_sensitive<'a>(
    arguments: &'a Arguments,
    sensitive: &[String],
) -> Cow<'a, Arguments> {
    match sensitive.is_empty() {
        true => Cow::Borrowed(arguments),
        false => Cow::Owned(arguments.parted(sensitive).0.into()),
    }
}

/// The values of sensitive arguments, recognised wherever they come again: in a tool's results, intents and messages.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    texts: BTreeSet<String>,
    /// Whether there were more values than are kept, so that every text may be one.
    is_full: bool,
}

impl Secrets {
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty() && !self.is_full
    }

    /// These texts as secrets.
    pub(crate) fn of(texts: Vec<Sensitive<String>>) -> Self {
        let mut secrets = Self::default();
        for text in texts {
            secrets.add_value(&text.into_inner().into());
        }
        secrets
    }

    /// Adds the sensitive values of one call.
    pub(crate) fn add(&mut self, arguments: &Arguments, sensitive: &[String]) {
        for value in arguments.parted(sensitive).1 {
            self.add_value(&value);
        }
    }

    fn add_value(&mut self, value: &Value) {
        let text = match value {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Array(items) => return items.iter().for_each(|item| self.add_value(item)),
            Value::Object(map) => return map.values().for_each(|value| self.add_value(value)),
            Value::Null | Value::Bool(_) => return,
        };
        self.is_full |= self.texts.len() >= SECRETS_MAX;
        if !text.is_empty() && !self.is_full {
            self.texts.insert(text);
        }
    }

    /// Puts [`LEFT_OUT`] in the place of every text that holds a secret. Returns whether there was any.
    pub(crate) fn hide(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) if self.is_in(text) => *value = LEFT_OUT.into(),
            Value::Number(number) if self.is_in(&number.to_string()) => *value = Value::Null,
            Value::Array(items) => {
                return items
                    .iter_mut()
                    .fold(false, |is_any, item| self.hide(item) | is_any);
            }
            Value::Object(map) => {
                let before = map.len();
                map.retain(|key, _| !self.is_in(key));
                let lost = map.len() < before;
                return map
                    .values_mut()
                    .fold(lost, |is_any, value| self.hide(value) | is_any);
            }
            _ => return false,
        }
        true
    }

    /// A text with [`LEFT_OUT`] in the place of every secret in it.
    pub(crate) fn without(&self, text: &str) -> String {
        if self.is_full {
            return LEFT_OUT.to_owned();
        }
        let mut shown = text.to_owned();
        // The longest secret first: a secret may be a part of another.
        let mut texts: Vec<&String> = self.texts.iter().filter(|text| is_long(text)).collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        for secret in texts {
            if shown.contains(secret.as_str()) {
                shown = shown.replace(secret.as_str(), LEFT_OUT);
            }
        }
        shown
    }

    /// The same for a program's output. A short value within a longer word or a path has nothing to do with the call, and stays.
    /// A value of digits alone is left out of paths as well, because it may be a code.
    pub(crate) fn without_words(&self, text: &str) -> String {
        if self.is_full {
            return LEFT_OUT.to_owned();
        }
        let mut shown = text.to_owned();
        let mut texts: Vec<&String> = self.texts.iter().filter(|text| is_long(text)).collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        for secret in texts {
            let is_short = secret.chars().nth(WORD_CHARACTERS_MIN - 1).is_none();
            shown = replaced(&shown, secret, is_short);
        }
        shown
    }

    /// Whether the text holds a secret. A short secret would be found in many unrelated texts, so it has to be the whole text.
    fn is_in(&self, text: &str) -> bool {
        self.is_full
            || self
                .texts
                .iter()
                .any(|secret| text == secret || (is_long(secret) && text.contains(secret.as_str())))
    }
}

/// A text with [`LEFT_OUT`] in the place of a secret. A short secret is replaced only as a separate word.
fn replaced(text: &str, secret: &str, is_short: bool) -> String {
    let is_number = secret.bytes().all(|byte| byte.is_ascii_digit());
    let joins = |side: Option<char>| {
        side.is_some_and(|side| {
            side.is_alphanumeric()
                || side == '_'
                || (!is_number && matches!(side, '/' | '\\' | '-'))
        })
    };
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(at) = rest.find(secret) {
        let (skipped, behind) = rest.split_at(at);
        let behind = &behind[secret.len()..];
        shown.push_str(skipped);
        let mut following = behind.chars();
        let next = following.next();
        // A point is part of a word if the word goes on after it, as in a file's name.
        let goes_on = next == Some('.') && !is_number && joins(following.next());
        let is_part = joins(skipped.chars().next_back().or(before)) || joins(next) || goes_on;
        shown.push_str(if is_short && is_part {
            secret
        } else {
            LEFT_OUT
        });
        before = secret.chars().next_back();
        rest = behind;
    }
    shown.push_str(rest);
    shown
}

fn is_long(secret: &str) -> bool {
    secret.chars().nth(SECRET_CHARACTERS_MIN - 1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    #[test]
    fn sensitive_arguments_are_left_out_wherever_they_lie() {
        let arguments = json!({
            "title": "Tea", "pin": 1, "a/b": 2,
            "card": {"number": 3, "name": "Ada"},
            "guests": [{"mail": "x", "name": "Bob"}, {"mail": "y"}], "codes": [7, 8]
        });
        let arguments = arguments.as_object().unwrap();
        let given = Arguments::from(arguments.clone());
        for (pointers, expected) in [
            (vec![], arguments.clone()),
            (
                vec![
                    "/pin",
                    "/a~1b",
                    "/card/number",
                    "/guests/*/mail",
                    "/codes/1",
                    "/none/x",
                ],
                json!({
                    "title": "Tea", "card": {"name": "Ada"},
                    "guests": [{"name": "Bob"}, {}], "codes": [7, null]
                })
                .as_object()
                .unwrap()
                .clone(),
            ),
            (vec![""], Map::new()),
            (vec!["/*"], Map::new()),
        ] {
            let pointers: Vec<String> = pointers.into_iter().map(str::to_owned).collect();
            assert_eq!(
                without_sensitive(&given, &pointers).to_map(),
                expected,
                "{pointers:?}"
            );
        }
    }

    #[test]
    fn short_values_garble_no_path_and_no_longer_word() {
        let values = ["tools", "main", "2048", "Reykjavik"].map(|text| text.to_owned().into());
        let secrets = Secrets::of(values.to_vec());
        for (line, shown) in [
            (
                "/srv/tools/main.py:12: TypeError in domain_main()",
                "/srv/tools/main.py:12: TypeError in domain_main()",
            ),
            ("no tools in main.", "no (left out) in (left out)."),
            ("tools tools-a 'main'", "(left out) tools-a '(left out)'"),
            (
                "code 2048, /2048/ and 120480",
                "code (left out), /(left out)/ and 120480",
            ),
            ("/x/Reykjavik.txt", "/x/(left out).txt"),
        ] {
            assert_eq!(secrets.without_words(line), shown);
        }
    }

    #[test]
    fn what_holds_a_sensitive_value_is_left_out_wherever_it_stands() {
        let mut secrets = Secrets::default();
        let value =
            json!({ "pin": 98765, "who": { "name": " Ada Byron " }, "sex": "f", "text": "tea" });
        let Value::Object(arguments) = value else {
            unreachable!("it is an object")
        };
        let sensitive = ["/pin", "/who", "/sex"].map(str::to_owned);
        assert!(secrets.is_empty());
        secrets.add(&arguments.into(), &sensitive);
        let mut shown = json!({
            "note": "for Ada Byron", "pins": [98765, 1], "Ada Byron": 1, "of": "f", "half": "tea of Ada"
        });
        assert!(secrets.hide(&mut shown));
        let left = json!({ "note": "(left out)", "pins": [null, 1], "of": "(left out)", "half": "tea of Ada" });
        assert_eq!(shown, left);
        assert!(!secrets.hide(&mut json!({ "text": "tea" })));
        assert_eq!(
            secrets.without("Ada Byron has 98765, f"),
            "(left out) has (left out), f"
        );
    }
}
