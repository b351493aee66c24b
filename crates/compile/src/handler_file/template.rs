//! Texts with places for arguments, secrets and an effect's names in them. Knows no request.

use serde_json::{Map, Value};
use windlass_contract::reference;

/// One piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// An argument by its path, such as `order.id`.
    Argument(String),
    /// An argument in the path of an address, in a form of URI templates.
    Expansion(Expansion),
    Secret(String),
    /// A value that handlers keep for the conversation.
    State(String),
    EffectId,
    /// The effect's key.
    Key,
}

/// The form of an argument in a path, as in URI templates: `{a*}`, `{.a}`, `{;a*}`.
/// Source: RFC 6570, sections 3.2.2, 3.2.5 and 3.2.7.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expansion {
    pub(crate) argument: String,
    pub(crate) operator: Operator,
    /// Whether each item of a list, or member of an object, is written separately.
    pub(crate) explodes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Simple,
    /// `.x`
    Label,
    /// `;a=x`
    Matrix,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template(pub(crate) Vec<Piece>);

/// A value of a query or a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedTemplate {
    pub(crate) name: String,
    pub(crate) template: Template,
    pub(crate) style: ValueStyle,
}

/// The style of a value in a query or a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueStyle {
    pub(crate) form: ValueForm,
    /// Whether signs with a meaning in addresses stay unencoded, except those that would end the value.
    pub(crate) keeps_reserved: bool,
}

/// The form of a list or an object.
/// Source: <https://spec.openapis.org/oas/v3.1.0#style-values>.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// A list repeats the name; there are no objects.
    #[default]
    Plain,
    /// A list repeats the name, and an object's members stand under their own names.
    Exploded,
    /// Items in one text, or names and values of members in turn, with this separator.
    Joined(&'static str),
    /// `name[member]=value`
    Deep,
    /// The text of the value as JSON.
    Json,
}

/// The template of a body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BodyTemplate {
    /// Sent as JSON.
    Json(Node),
    /// Sent as `application/x-www-form-urlencoded`.
    Form(Vec<NamedTemplate>),
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
const STATE: &str = "state:";

impl Template {
    /// `{name}` is a place, `{{name}}` is the text `{name}`, and every other brace stands for itself; [`misspelt`] finds mistakes. An
    /// argument of the parameters takes precedence over the effect's names.
    pub(crate) fn parse(text: &str, parameters: &Value) -> Self {
        Self::parse_with(text, &|inside| {
            is_place(inside).then(|| place(inside, parameters))
        })
    }

    /// The same for a path, which may also have places such as `{;a*}`.
    pub(crate) fn parse_path(text: &str, parameters: &Value) -> Self {
        Self::parse_with(text, &|inside| match is_place(inside) {
            true => Some(place(inside, parameters)),
            false => expansion(inside).map(Piece::Expansion),
        })
    }

    fn parse_with(text: &str, read: &dyn Fn(&str) -> Option<Piece>) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            literal.push_str(&rest[..open]);
            let behind = &rest[open + 1..];
            if let Some((inside, after)) = behind
                .strip_prefix('{')
                .and_then(|doubled| doubled.split_once("}}"))
                .filter(|(inside, _)| is_place(inside) || meant_by(inside).is_some())
            {
                literal.push_str(&format!("{{{inside}}}"));
                rest = after;
                continue;
            }
            let found = behind.split_once('}');
            match found.and_then(|(inside, after)| Some((read(inside)?, after))) {
                Some((piece, after)) => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(piece);
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

    /// The only piece, if it is a place: a value of any type, or none, may then stand for the whole.
    pub(crate) fn whole(&self) -> Option<&Piece> {
        match self.0.as_slice() {
            [
                piece @ (Piece::Argument(_)
                | Piece::Secret(_)
                | Piece::State(_)
                | Piece::EffectId
                | Piece::Key),
            ] => Some(piece),
            _ => None,
        }
    }

    /// The text of a template without places.
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
    let prefixed = text.strip_prefix(SECRET).or(text.strip_prefix(STATE));
    match prefixed {
        Some(name) => is_name(name),
        None => text.len() <= 200 && text.split('.').all(is_name),
    }
}

/// A misspelt place for a secret or a conversation value, which would be sent as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misspelt {
    /// The text between the braces.
    pub(crate) written: String,
    /// The intended place, in braces.
    pub(crate) meant: String,
}

/// The misspelt places of a text: `{State:basket}`, `{state: basket}`, `{state:}`.
pub(crate) fn misspelt(text: &str) -> Vec<Misspelt> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let behind = &rest[open + 1..];
        if let Some(doubled) = behind.strip_prefix('{') {
            rest = doubled.split_once("}}").map_or(doubled, |(_, after)| after);
            continue;
        }
        let inside = behind.split_once('}').map(|(inside, _)| inside);
        found.extend(inside.and_then(|inside| {
            Some(Misspelt {
                written: inside.to_owned(),
                meant: meant_by(inside)?,
            })
        }));
        rest = behind;
    }
    found
}

/// The intended place of a text between braces. `None` for a valid place, and for any other text.
fn meant_by(inside: &str) -> Option<String> {
    let (word, name) = inside.split_once(':')?;
    let word = word.trim();
    let mut prefixes = [SECRET, STATE].into_iter();
    let prefix = prefixes.find(|prefix| prefix[..prefix.len() - 1].eq_ignore_ascii_case(word))?;
    let name = name.trim();
    let is_one_word = name
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"\"'`,:{}".contains(&byte));
    if is_place(inside) || !is_one_word {
        return None;
    }
    let whole = format!("{prefix}{name}");
    Some(match is_place(&whole) {
        true => format!("{{{whole}}}"),
        false => format!("{{{prefix}NAME}}"),
    })
}

fn place(inside: &str, parameters: &Value) -> Piece {
    if let Some(name) = inside.strip_prefix(SECRET) {
        return Piece::Secret(name.to_owned());
    }
    if let Some(key) = inside.strip_prefix(STATE) {
        return Piece::State(key.to_owned());
    }
    let is_parameter = reference::parameter(parameters, &pointer_of(inside)).is_some();
    match inside {
        EFFECT_ID if !is_parameter => Piece::EffectId,
        KEY if !is_parameter => Piece::Key,
        _ => Piece::Argument(inside.to_owned()),
    }
}

fn expansion(inside: &str) -> Option<Expansion> {
    let (operator, rest) = match inside.split_at_checked(1)? {
        (".", rest) => (Operator::Label, rest),
        (";", rest) => (Operator::Matrix, rest),
        _ => (Operator::Simple, inside),
    };
    let argument = rest.strip_suffix('*').unwrap_or(rest);
    let is_argument =
        is_place(argument) && !argument.starts_with(SECRET) && !argument.starts_with(STATE);
    is_argument.then(|| Expansion {
        argument: argument.to_owned(),
        operator,
        explodes: argument.len() < rest.len(),
    })
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

/// Whether every call has the argument: it and all its parents are required or have a default.
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
            ("{state:basket}", vec![Piece::State("basket".to_owned())]),
            ("{effectId}{key}", vec![Piece::EffectId, argument("key")]),
            ("query { a { b } }", vec![text("query { a { b } }")]),
            ("{{id}} {", vec![text("{id} {")]),
            ("{1} {a-b} {}", vec![text("{1} {a-b} {}")]),
            ("{{ x }}", vec![text("{{ x }}")]),
            ("{{state: x}}", vec![text("{state: x}")]),
        ] {
            assert_eq!(
                Template::parse(template, &parameters).0,
                pieces,
                "{template}"
            );
        }
        assert_eq!(Template::parse("{key}", &json!({})).0, [Piece::Key]);
    }

    #[test]
    fn a_place_of_a_secret_or_a_value_that_is_misspelt_is_told_what_was_meant() {
        for (template, meant) in [
            ("{State:basket}", vec!["{state:basket}"]),
            ("a {state: x} b {STATE :x}", vec!["{state:x}", "{state:x}"]),
            ("{state:}", vec!["{state:NAME}"]),
            ("{state:my-key}", vec!["{state:NAME}"]),
            ("{Secret:KEY}", vec!["{secret:KEY}"]),
            ("{state:basket} {secret:KEY} {id}", vec![]),
            ("{{state: x}} {{State:x}}", vec![]),
            ("{\"state\": \"x\"} {state: A, b: 1} {status:x}", vec![]),
        ] {
            let found = misspelt(template);
            let found: Vec<&str> = found.iter().map(|found| found.meant.as_str()).collect();
            assert_eq!(found, meant, "{template}");
        }
    }
}
