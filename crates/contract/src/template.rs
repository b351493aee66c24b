//! Phrases with arguments in them: a confirmation's preview and a call's status. They show only canonical arguments, never a model's
//! text, and no argument can change how the rest of the phrase is shown.

use crate::arguments::Arguments;
use crate::characters::is_unsafe_to_show;
use crate::reference;
use serde_json::Value;

/// The most characters of one argument.
const VALUE_CHARACTERS_MAX: usize = 200;
/// The most characters of a phrase.
const PHRASE_CHARACTERS_MAX: usize = 1_000;

/// Fills a template: `{title}`, `{filters.type}`, and `{attendees.length}` for the length of a list. Missing arguments are left empty;
/// control and bidirectional characters are escaped.
pub fn render(template: &str, arguments: &Arguments) -> String {
    let mut phrase = String::with_capacity(template.len() + 32);
    for piece in pieces(template) {
        match piece {
            Piece::Text(text) => phrase.push_str(text),
            Piece::Place(path) => write_value(&mut phrase, path, arguments),
        }
    }
    cut(&mut phrase, 0, PHRASE_CHARACTERS_MAX);
    phrase
}

/// The problems of a template for tools with these parameters.
pub fn problems(template: &str, parameters: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for piece in pieces(template) {
        match piece {
            Piece::Text(text) if text.contains(['{', '}']) => {
                problems.push("the template has a brace without its other half".to_owned());
            }
            Piece::Text(_) => {}
            Piece::Place(path) => {
                let pointer = format!("/{}", path.replace('.', "/"));
                let counted = path
                    .strip_suffix(".length")
                    .map(|list| format!("/{}", list.replace('.', "/")));
                let known = reference::parameter(parameters, &pointer).is_some()
                    || counted.is_some_and(|list| is_countable(parameters, &list));
                if !known {
                    problems.push(format!(
                        "the template names `{}`, which is no parameter",
                        crate::wording::brief(path)
                    ));
                }
            }
        }
    }
    problems
}

/// The JSON pointers of the arguments that a template shows, without those that it only counts.
pub fn shown(template: &str, parameters: &Value) -> Vec<String> {
    pieces(template)
        .filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Place(path) => {
                let pointer = format!("/{}", path.replace('.', "/"));
                let is_count = path.ends_with(".length")
                    && reference::parameter(parameters, &pointer).is_none();
                (!is_count).then_some(pointer)
            }
        })
        .collect()
}

fn is_countable(parameters: &Value, pointer: &str) -> bool {
    let parts = reference::parameter(parameters, pointer).unwrap_or_default();
    let says = |kind: &str| {
        parts.iter().any(|part| match part.get("type") {
            Some(Value::String(name)) => name == kind,
            Some(Value::Array(names)) => names.iter().any(|name| name == kind),
            _ => false,
        })
    };
    says("array") || says("string")
}

enum Piece<'t> {
    Text(&'t str),
    /// The text between braces.
    Place(&'t str),
}

fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let place = rest.find('{').and_then(|open| {
            let close = rest[open..].find('}')? + open;
            Some((open, close))
        });
        match place {
            Some((0, close)) => {
                let path = &rest[1..close];
                rest = &rest[close + 1..];
                Some(Piece::Place(path))
            }
            Some((open, _)) => {
                let text = &rest[..open];
                rest = &rest[open..];
                Some(Piece::Text(text))
            }
            None => Some(Piece::Text(std::mem::take(&mut rest))),
        }
    })
}

fn write_value(phrase: &mut String, path: &str, arguments: &Arguments) {
    let mut names = path.split('.');
    let mut part = names.next().and_then(|name| arguments.as_map().get(name));
    for name in names {
        part = match part {
            Some(Value::Object(members)) => members.get(name),
            Some(Value::Array(items)) if name == "length" => {
                phrase.push_str(&items.len().to_string());
                return;
            }
            Some(Value::String(text)) if name == "length" => {
                phrase.push_str(&text.chars().count().to_string());
                return;
            }
            Some(Value::Array(items)) => name
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get(index)),
            _ => None,
        };
    }
    let start = phrase.len();
    match part {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => write_text(phrase, text),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
            for (index, item) in items.iter().filter_map(Value::as_str).enumerate() {
                if index > 0 {
                    phrase.push_str(", ");
                }
                write_text(phrase, item);
                if phrase.len() - start > 4 * VALUE_CHARACTERS_MAX {
                    break;
                }
            }
        }
        Some(other) => write_text(phrase, &other.to_string()),
    }
    cut(phrase, start, VALUE_CHARACTERS_MAX);
}

/// The text, with every character escaped that could hide, move or reorder the text beside it.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars()
        .for_each(|character| push(&mut shown, character));
    shown
}

fn push(phrase: &mut String, character: char) {
    if is_unsafe_to_show(character) {
        phrase.extend(character.escape_unicode());
    } else {
        phrase.push(character);
    }
}

/// Appends a text, with every character escaped that could hide, move or reorder the text beside it.
fn write_text(phrase: &mut String, text: &str) {
    for character in text.chars().take(VALUE_CHARACTERS_MAX + 1) {
        push(phrase, character);
    }
}

/// Shortens the text from `start` on to a number of characters.
fn cut(phrase: &mut String, start: usize, characters_max: usize) {
    if phrase.len() - start <= characters_max {
        return;
    }
    if let Some((offset, _)) = phrase[start..].char_indices().nth(characters_max) {
        phrase.truncate(start + offset);
        phrase.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_fill_the_template_and_cannot_bend_it() {
        let arguments = json!({
            "title": "Tea\u{202e}evil\n{attendees.length}",
            "attendees": ["a@x.org", "b@x.org"],
            "filters": {"type": "ship"},
            "count": 3,
            "long": "é".repeat(500),
        });
        let arguments = &Arguments::from(arguments.as_object().unwrap().clone());
        for (template, expected) in [
            (
                "Create {title} now",
                "Create Tea\\u{202e}evil\\u{a}{attendees.length} now",
            ),
            (
                "{attendees.length} guests: {attendees}",
                "2 guests: a@x.org, b@x.org",
            ),
            ("{attendees.1}, {filters.type}, {count}", "b@x.org, ship, 3"),
            ("[{missing}{filters.missing.deeper}]", "[]"),
            ("{filters}", "{\"type\":\"ship\"}"),
            ("no place {open", "no place {open"),
            ("", ""),
        ] {
            assert_eq!(render(template, arguments), expected);
        }
        assert_eq!(render("{long}", arguments).chars().count(), 201);
    }

    #[test]
    fn a_template_may_only_name_parameters() {
        let parameters = json!({"type": "object", "properties": {
            "title": {"type": "string"},
            "count": {"type": "integer"},
            "attendees": {"type": "array", "items": {"$ref": "#/$defs/person"}},
        }, "$defs": {"person": {"type": "object", "properties": {"name": {"type": "string"}}}}});
        for (template, count) in [
            (
                "{title} {attendees.length} {attendees.0.name} {title.length}",
                0,
            ),
            ("{titel}", 1),
            ("{count.length}", 1),
            ("{title", 1),
            ("{}", 1),
            ("{attendees.0.age} }", 2),
        ] {
            assert_eq!(problems(template, &parameters).len(), count, "{template}");
        }
    }
}
