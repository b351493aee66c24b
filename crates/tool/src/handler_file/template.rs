//! Texts with places for arguments, secrets and an effect's names in them. Knows no request.

use crate::reference;
use serde_json::{Map, Value};

/// What stands in one piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// The path of an argument, such as `order.id`.
    Argument(String),
    Secret(String),
    EffectId,
    /// The effect's key.
    Key,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template(pub(crate) Vec<Piece>);

/// What a body is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BodyTemplate {
    /// Sent as JSON.
    Json(Node),
    /// Sent as `application/x-www-form-urlencoded`.
    Form(Vec<(String, Template)>),
    /// Sent as it is.
    Text(Template),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Value(Value),
    Text(Template),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

const EFFECT_ID: &str = "effectId";
const KEY: &str = "key";
const SECRET: &str = "secret:";

impl Template {
    /// `{name}` is a place, `{{name}}` is the text `{name}`, and every other brace is itself. An argument that a parameter names
    /// wins over the effect's names.
    pub(crate) fn parse(text: &str, parameters: &Value) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            literal.push_str(&rest[..open]);
            let behind = &rest[open + 1..];
            if let Some((inside, after)) = behind
                .strip_prefix('{')
                .and_then(|doubled| doubled.split_once("}}"))
                .filter(|(inside, _)| is_place(inside))
            {
                literal.push_str(&format!("{{{inside}}}"));
                rest = after;
                continue;
            }
            match behind
                .split_once('}')
                .filter(|(inside, _)| is_place(inside))
            {
                Some((inside, after)) => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(place(inside, parameters));
                    rest = after;
                }
                None => {
                    literal.push('{');
                    rest = behind;
                }
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Self(pieces)
    }

    /// The only piece, where it is no text: then a value of another type, or none, may stand for all of it.
    pub(crate) fn whole(&self) -> Option<&Piece> {
        match self.0.as_slice() {
            [piece @ (Piece::Argument(_) | Piece::Secret(_) | Piece::EffectId | Piece::Key)] => {
                Some(piece)
            }
            _ => None,
        }
    }

    /// The text, where it has no place.
    pub(crate) fn constant(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }
}

fn is_place(text: &str) -> bool {
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        bytes
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match text.strip_prefix(SECRET) {
        Some(name) => is_name(name),
        None => text.len() <= 200 && text.split('.').all(is_name),
    }
}

fn place(inside: &str, parameters: &Value) -> Piece {
    if let Some(name) = inside.strip_prefix(SECRET) {
        return Piece::Secret(name.to_owned());
    }
    let is_parameter = reference::parameter(parameters, &pointer_of(inside)).is_some();
    match inside {
        EFFECT_ID if !is_parameter => Piece::EffectId,
        KEY if !is_parameter => Piece::Key,
        _ => Piece::Argument(inside.to_owned()),
    }
}

/// The JSON pointer of an argument's path.
pub(crate) fn pointer_of(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// The value at a path of the arguments.
pub(crate) fn argument<'a>(arguments: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let mut value = arguments.get(names.next()?)?;
    for name in names {
        value = value.as_object()?.get(name)?;
    }
    Some(value)
}

/// Whether every call has the argument: it is required or has a default, and so is everything that it lies in.
pub(crate) fn is_sure(parameters: &Value, path: &str) -> bool {
    let mut parent = String::new();
    for name in path.split('.') {
        let here = format!("{parent}/{name}");
        let of_parent = match parent.is_empty() {
            true => Some(reference::parts(parameters, &[parameters])),
            false => reference::parameter(parameters, &parent),
        };
        let is_required = of_parent.is_some_and(|parts| {
            parts.iter().any(|part| {
                let names = part.get("required").and_then(Value::as_array);
                names
                    .into_iter()
                    .flatten()
                    .any(|required| required.as_str() == Some(name))
            })
        });
        let has_default = reference::parameter(parameters, &here)
            .is_some_and(|parts| parts.iter().any(|part| part.contains_key("default")));
        if !is_required && !has_default {
            return false;
        }
        parent = here;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn braces_around_names_are_places_and_all_others_are_themselves() {
        let parameters = json!({"properties": {"key": {}, "order": {"properties": {"id": {}}}}});
        let text = |text: &str| Piece::Text(text.to_owned());
        let argument = |path: &str| Piece::Argument(path.to_owned());
        for (template, pieces) in [
            ("", vec![]),
            ("plain", vec![text("plain")]),
            ("{id}", vec![argument("id")]),
            (
                "a{order.id}b",
                vec![text("a"), argument("order.id"), text("b")],
            ),
            (
                "{secret:SHOP_KEY}",
                vec![Piece::Secret("SHOP_KEY".to_owned())],
            ),
            ("{effectId}{key}", vec![Piece::EffectId, argument("key")]),
            ("query { a { b } }", vec![text("query { a { b } }")]),
            ("{{id}} {", vec![text("{id} {")]),
            ("{1} {a-b} {}", vec![text("{1} {a-b} {}")]),
            ("{{ x }}", vec![text("{{ x }}")]),
        ] {
            assert_eq!(
                Template::parse(template, &parameters).0,
                pieces,
                "{template}"
            );
        }
        assert_eq!(Template::parse("{key}", &json!({})).0, [Piece::Key]);
    }
}
