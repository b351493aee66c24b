//! Places in a script's texts that are filled in when a text is said, such as `{result.output.status}`. Knows paths and values, nothing
//! of the session.

use serde_json::Value;
use std::collections::BTreeMap;

/// The values that a place may refer to.
pub(crate) struct Scope<'a> {
    /// The latest result, as it was sent.
    pub(crate) result: Option<&'a Value>,
    /// The latest result of each tool, by its name.
    pub(crate) results: &'a BTreeMap<String, Value>,
    /// The user's input that the exchange answers.
    pub(crate) heard: &'a str,
    /// The user's earlier words in this conversation.
    pub(crate) remembered: &'a str,
}

const ROOTS: [&str; 4] = ["result", "results", "heard", "remembered"];

enum Piece<'a> {
    Text(&'a str),
    Place(&'a str),
}

/// Cuts a text at its places. `{{` and `}}` stand for the braces themselves.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(index) = rest.find(['{', '}']) {
        let (before, tail) = rest.split_at(index);
        pieces.push(Piece::Text(before));
        if tail.starts_with("{{") || tail.starts_with("}}") {
            pieces.push(Piece::Text(&tail[..1]));
            rest = &tail[2..];
            continue;
        }
        if tail.starts_with('}') {
            return Err("a } without its {; write }} for the sign itself".to_owned());
        }
        let Some(end) = tail.find('}') else {
            return Err("a { without its }; write {{ for the sign itself".to_owned());
        };
        pieces.push(Piece::Place(&tail[1..end]));
        rest = &tail[end + 1..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// Checks a text before it is used; the error is its problem.
pub(crate) fn check(text: &str) -> Result<(), String> {
    for piece in pieces(text)? {
        if let Piece::Place(path) = piece {
            let root = path.split('.').next().unwrap_or_default();
            if !ROOTS.contains(&root) {
                return Err(format!(
                    "{{{path}}} refers to nothing; a place begins with {}",
                    ROOTS.join(", ")
                ));
            }
        }
    }
    Ok(())
}

pub(crate) fn check_value(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => check(text),
        Value::Array(items) => items.iter().try_for_each(check_value),
        Value::Object(map) => map.values().try_for_each(check_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

impl Scope<'_> {
    /// The text with its places filled in. A missing value is replaced by the name of its place, so that a listener hears it.
    pub(crate) fn fill(&self, text: &str) -> String {
        let Ok(pieces) = pieces(text) else {
            return text.to_owned();
        };
        let mut filled = String::with_capacity(text.len());
        for piece in pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Place(path) => match self.find(path) {
                    Some(Value::String(text)) => filled.push_str(&text),
                    Some(value) => filled.push_str(&value.to_string()),
                    None => filled.push_str(&format!("(nothing at {path})")),
                },
            }
        }
        filled
    }

    /// A value with the places in its texts filled in; a text that is a single place becomes the value itself.
    pub(crate) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let alone = text
                    .strip_prefix('{')
                    .and_then(|rest| rest.strip_suffix('}'))
                    .filter(|path| !path.contains(['{', '}']));
                match alone.and_then(|path| self.find(path)) {
                    Some(found) => found,
                    None => Value::String(self.fill(text)),
                }
            }
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, item)| (key.clone(), self.fill_value(item)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn find(&self, path: &str) -> Option<Value> {
        let mut steps = path.split('.');
        let mut found = match steps.next()? {
            "result" => self.result?,
            "results" => self.results.get(steps.next()?)?,
            "heard" => return Some(Value::from(self.heard)),
            "remembered" => return Some(Value::from(self.remembered)),
            _ => return None,
        };
        for step in steps {
            found = match found {
                Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
                other => other.get(step)?,
            };
        }
        Some(found.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn places_are_filled_from_results_and_input() {
        let result = json!({"output": {"items": [{"title": "Fram"}], "count": 3}});
        let results = BTreeMap::from([("look".to_owned(), json!({"error": "lost"}))]);
        let scope = Scope {
            result: Some(&result),
            results: &results,
            heard: "hello",
            remembered: "a; b",
        };
        for (text, expected) in [
            ("plain", "plain"),
            ("{heard}, {remembered}!", "hello, a; b!"),
            (
                "{result.output.items.0.title} x {result.output.count}",
                "Fram x 3",
            ),
            ("{results.look.error}", "lost"),
            (
                "{{braces}} {result.nowhere}",
                "{braces} (nothing at result.nowhere)",
            ),
            (
                "{result.output.items.9.title}",
                "(nothing at result.output.items.9.title)",
            ),
        ] {
            assert_eq!(check(text), Ok(()));
            assert_eq!(scope.fill(text), expected);
        }
        assert_eq!(
            scope.fill_value(
                &json!({"n": "{result.output.count}", "t": "#{result.output.count}", "k": [true]})
            ),
            json!({"n": 3, "t": "#3", "k": [true]})
        );
    }

    #[test]
    fn a_broken_place_is_refused_with_its_cure() {
        for (text, expected) in [
            ("{open", "a { without its }; write {{ for the sign itself"),
            ("close}", "a } without its {; write }} for the sign itself"),
            (
                "{what.ever}",
                "{what.ever} refers to nothing; a place begins with result, results, heard, remembered",
            ),
        ] {
            assert_eq!(check(text), Err(expected.to_owned()));
        }
    }
}
