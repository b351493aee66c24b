//! Whether the names of a condition stand for something, and whether what it compares can ever be compared: by the values that the
//! configuration lists, and by the schema of a tool's arguments. Judges no call.

use super::facts::Values;
use super::{Condition, Flaw, Literal, MODES, Node, Operand, Place, Term, WEEKDAYS};
use crate::reference;
use crate::wording::{brief, nearest, pointer};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a condition may name.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub values: &'a Values,
    pub arguments: ArgumentsOf<'a>,
}

/// Which arguments a condition may name.
#[derive(Clone, Copy, Debug)]
pub enum ArgumentsOf<'a> {
    /// None: it is judged before there is a call.
    Nothing,
    /// Those of this schema.
    Schema(&'a Value),
    /// Any, because the schema could not be read; something else says so.
    Unread,
}

/// What kind of value stands somewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Flag,
    Number,
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    Texts,
    Numbers,
    /// A list of which nothing more is known.
    List,
    /// It has members, and is itself compared with nothing.
    Object,
    /// Nobody knows before a call is judged.
    Any,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Number => "a number",
            Self::Text | Self::Word(_) => "a text",
            Self::Texts => "a list of texts",
            Self::Numbers => "a list of numbers",
            Self::List => "a list",
            Self::Object => "an object",
            Self::Any => "any value",
        }
    }

    fn is_list(self) -> bool {
        matches!(self, Self::Texts | Self::Numbers | Self::List)
    }

    fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Word(_))
    }
}

impl Condition {
    /// Everything that is wrong with its names and comparisons, in the order of the text.
    pub fn flaws(&self, scope: &Scope<'_>) -> Vec<Flaw> {
        let mut checker = Checker {
            text: &self.text,
            scope,
            flaws: Vec::new(),
        };
        checker.node(&self.root);
        let mut flaws = checker.flaws;
        flaws.sort_by_key(|flaw| flaw.column);
        flaws
    }

    /// The arguments that it reads and that a call may leave out.
    pub(crate) fn may_be_missing(&self, parameters: &Value) -> Vec<String> {
        let mut missing = Vec::new();
        self.places(|place| {
            let Place::Argument(names) = place else {
                return;
            };
            let (is_there, name) = (is_always_there(parameters, names), place.to_string());
            if !is_there && !missing.contains(&name) {
                missing.push(name);
            }
        });
        missing.sort_unstable();
        missing
    }
}

/// Whether every call has an argument: each member on the way is required, or has a default at the top.
fn is_always_there(parameters: &Value, names: &[Arc<str>]) -> bool {
    let mut place = String::new();
    for (index, name) in names.iter().enumerate() {
        let of = match index {
            0 => reference::parts(parameters, &[parameters]),
            _ => reference::parameter(parameters, &place).unwrap_or_default(),
        };
        place = pointer(&place, name);
        let is_required = of.iter().any(|part| {
            let required = part.get("required").and_then(Value::as_array);
            required.is_some_and(|required| required.iter().any(|one| one == &**name))
        });
        let parts = reference::parameter(parameters, &place);
        let is_count = parts.is_none() && &**name == "length";
        let has_default = index == 0
            && parts.is_some_and(|parts| parts.iter().any(|part| part.contains_key("default")));
        if !is_required && !has_default && !is_count {
            return false;
        }
    }
    true
}

struct Checker<'a> {
    text: &'a str,
    scope: &'a Scope<'a>,
    flaws: Vec<Flaw>,
}

impl Checker<'_> {
    fn flaw(&mut self, at: usize, message: impl Into<String>, cure: impl Into<String>) {
        let before = self.text.get(..at).unwrap_or(self.text);
        self.flaws.push(Flaw {
            column: before.chars().count() + 1,
            message: message.into(),
            cure: cure.into(),
        });
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::All(parts) | Node::Any(parts) => parts.iter().for_each(|part| self.node(part)),
            Node::Not(inner) => self.node(inner),
            Node::Is(operand) => {
                let Some(kind) = self.kind(operand) else {
                    return;
                };
                if !matches!(kind, Kind::Flag | Kind::Any) {
                    let message = format!("{} stands where true or false is needed", kind.words());
                    self.flaw(operand.at, message, "compare it, as in mode == \"voice\"");
                }
            }
            Node::Compare {
                left,
                how,
                at,
                right,
            } => {
                if let (Some(one), Some(other)) = (self.kind(left), self.kind(right)) {
                    self.comparison((left, one), (right, other), how.is_of_order(), *at);
                }
            }
            Node::In { item, list } => {
                if let (Some(one), Some(among)) = (self.kind(item), self.kind(list)) {
                    self.membership((item, one), (list, among));
                }
            }
        }
    }

    fn comparison(
        &mut self,
        (left, one): (&Operand, Kind),
        (right, other): (&Operand, Kind),
        is_of_order: bool,
        at: usize,
    ) {
        for (operand, kind) in [(left, one), (right, other)] {
            if kind.is_list() {
                let message = format!("{} is compared as if it were one value", kind.words());
                return self.flaw(
                    operand.at,
                    message,
                    "write the value, in and the list, as in \"staff\" in roles",
                );
            }
            if kind == Kind::Object {
                let message = "an object is compared as if it were one value";
                return self.flaw(
                    operand.at,
                    message,
                    "name a member of it, as in args.filter.type",
                );
            }
            let has_order = matches!(kind, Kind::Number | Kind::Any);
            if is_of_order && !has_order {
                let message = format!("{} has no order", kind.words());
                return self.flaw(
                    operand.at,
                    message,
                    "compare it with == or !=, or compare numbers",
                );
            }
        }
        let is_possible = match (one, other) {
            (Kind::Any, _) | (_, Kind::Any) => true,
            (one, other) => one == other || (one.is_text() && other.is_text()),
        };
        if !is_possible {
            let message = format!(
                "{} is compared with {}, which it never is",
                one.words(),
                other.words()
            );
            let cure = match one.is_text() || other.is_text() {
                true => {
                    "compare values of one kind; a text stands in quotes, and a number does not"
                }
                false => "compare values of one kind",
            };
            return self.flaw(at, message, cure);
        }
        self.word(one, right);
        self.word(other, left);
    }

    /// A text that one of a few words is compared with has to be one of them.
    fn word(&mut self, kind: Kind, with: &Operand) {
        let Kind::Word(words) = kind else {
            return;
        };
        match &with.term {
            Term::Literal(literal) => self.one_word(words, literal, with.at),
            Term::List(items) => {
                items
                    .iter()
                    .for_each(|literal| self.one_word(words, literal, with.at));
            }
            Term::Place(_) => {}
        }
    }

    fn one_word(&mut self, words: &[&str], literal: &Literal, at: usize) {
        if let Literal::Text(text) = literal
            && !words.contains(&&**text)
        {
            let message = format!("it is never \"{}\"", brief(text));
            let cure = match nearest(text, words.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("it is one of {}", words.join(", ")),
            };
            self.flaw(at, message, cure);
        }
    }

    fn membership(&mut self, (item, one): (&Operand, Kind), (list, among): (&Operand, Kind)) {
        if !among.is_list() && among != Kind::Any {
            let message = format!(
                "{} stands behind `in`, where a list is needed",
                among.words()
            );
            let cure = "write in and a list, as in (\"a\", \"b\"), roles, or a list of config";
            return self.flaw(list.at, message, cure);
        }
        if one.is_list() || one == Kind::Object {
            let message = format!(
                "{} stands before `in`, where one value is needed",
                one.words()
            );
            return self.flaw(item.at, message, "write one value before in");
        }
        let is_possible = match among {
            Kind::Texts => one.is_text() || one == Kind::Any,
            Kind::Numbers => matches!(one, Kind::Number | Kind::Any),
            _ => true,
        };
        if !is_possible {
            let message = format!("{} is never in {}", one.words(), among.words());
            return self.flaw(item.at, message, "compare values of one kind");
        }
        self.word(one, list);
    }

    /// `None` where that is a flaw already.
    fn kind(&mut self, operand: &Operand) -> Option<Kind> {
        let of = |literal: &Literal| match literal {
            Literal::Flag(_) => Kind::Flag,
            Literal::Number(_) => Kind::Number,
            Literal::Text(_) => Kind::Text,
        };
        Some(match &operand.term {
            Term::Literal(literal) => of(literal),
            Term::List(items) => {
                let mut kinds = items.iter().map(of);
                let first = kinds.next().unwrap_or(Kind::Any);
                if !kinds.all(|kind| kind == first) {
                    let message = "the list has values of several kinds";
                    self.flaw(operand.at, message, "list texts alone, or numbers alone");
                    return None;
                }
                match first {
                    Kind::Text => Kind::Texts,
                    Kind::Number => Kind::Numbers,
                    _ => Kind::List,
                }
            }
            Term::Place(place) => match place {
                Place::IsAuthenticated => Kind::Flag,
                Place::UserId | Place::Tenant => Kind::Text,
                Place::Roles => Kind::Texts,
                Place::Mode => Kind::Word(&MODES),
                Place::Hour => Kind::Number,
                Place::Weekday => Kind::Word(&WEEKDAYS),
                Place::Value(name) => return self.value(name, operand.at),
                Place::Argument(names) => return self.argument(names, operand.at),
            },
        })
    }

    fn value(&mut self, name: &str, at: usize) -> Option<Kind> {
        let values = self.scope.values;
        let Some(value) = values.get(name) else {
            let cure = match nearest(name, values.names()) {
                Some(near) => format!("did you mean config.{near}?"),
                None => format!(
                    "list it under [condition_values] in windlass.toml, as in {name} = true"
                ),
            };
            let message = format!("the configuration lists no value `{}`", brief(name));
            self.flaw(at, message, cure);
            return None;
        };
        Some(match value {
            Value::Bool(_) => Kind::Flag,
            Value::Number(_) => Kind::Number,
            Value::String(_) => Kind::Text,
            Value::Array(items) if items.is_empty() => Kind::List,
            Value::Array(items) if items.iter().all(Value::is_string) => Kind::Texts,
            Value::Array(_) => Kind::Numbers,
            Value::Null | Value::Object(_) => Kind::Any,
        })
    }

    fn argument(&mut self, names: &[Arc<str>], at: usize) -> Option<Kind> {
        let parameters = match self.scope.arguments {
            ArgumentsOf::Schema(parameters) => parameters,
            ArgumentsOf::Unread => return Some(Kind::Any),
            ArgumentsOf::Nothing => {
                let message = "the arguments are not known before there is a call";
                let cure = "leave args out here; requiresConfirmation may name them";
                self.flaw(at, message, cure);
                return None;
            }
        };
        let mut place = String::new();
        for (index, name) in names.iter().enumerate() {
            let here = pointer(&place, name);
            if reference::parameter(parameters, &here).is_none() {
                let of = reference::parameter(parameters, &place);
                let is_list = of.as_ref().is_some_and(|parts| is_of(parts, "array"));
                if is_list && &**name == "length" && index + 1 == names.len() {
                    return Some(Kind::Number);
                }
                self.unknown_argument(names, (&place, name), at);
                return None;
            }
            place = here;
        }
        let parts = reference::parameter(parameters, &place).unwrap_or_default();
        Some(match single_type(&parts) {
            Some("string") => Kind::Text,
            Some("number" | "integer") => Kind::Number,
            Some("boolean") => Kind::Flag,
            Some("object") => Kind::Object,
            Some("array") => {
                let items = reference::parameter(parameters, &format!("{place}/*"));
                match items.as_deref().and_then(single_type) {
                    Some("string") => Kind::Texts,
                    Some("number" | "integer") => Kind::Numbers,
                    _ => Kind::List,
                }
            }
            _ => Kind::Any,
        })
    }

    fn unknown_argument(&mut self, names: &[Arc<str>], (of, name): (&str, &str), at: usize) {
        let ArgumentsOf::Schema(parameters) = self.scope.arguments else {
            return;
        };
        let parts = match of {
            "" => reference::parts(parameters, &[parameters]),
            _ => reference::parameter(parameters, of).unwrap_or_default(),
        };
        let members = parts
            .iter()
            .filter_map(|part| part.get("properties")?.as_object());
        let members: Vec<&str> = members.flat_map(Map::keys).map(String::as_str).collect();
        let cure = match nearest(name, members.iter().copied()) {
            Some(near) => format!("did you mean `{}`?", brief(near)),
            None if members.is_empty() => "the schema names no members there".to_owned(),
            None => format!("the members there are {}", brief(&members.join(", "))),
        };
        let whole = Place::Argument(names.into()).to_string();
        self.flaw(
            at,
            format!("there is no argument `{}`", brief(&whole)),
            cure,
        );
    }
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

fn is_of(parts: &[&Map<String, Value>], kind: &str) -> bool {
    types(parts).contains(&kind)
}

/// The one type that a value has beside null; `None` where it may have several, or nothing says so.
fn single_type<'s>(parts: &[&'s Map<String, Value>]) -> Option<&'s str> {
    let mut types = types(parts);
    types.retain(|kind| *kind != "null");
    types.dedup();
    match types.as_slice() {
        [only] => Some(only),
        _ => None,
    }
}
