//! Checks the names of a condition, and whether its comparisons are possible, against the values that the configuration lists and the
//! schema of a tool's arguments. Judges no call.

use super::facts::{Values, is_value_name};
use super::kind::{Class, Kind, is_of, list_of, one_of, single_type};
use super::{Condition, Flaw, Literal, Node, Operand, Place, Term, WEEKDAYS};
use crate::kind::Mode;
use crate::wording::{brief, nearest, pointer};
use crate::{number, reference};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The names that a condition may use.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub values: &'a Values,
    pub arguments: ArgumentsOf<'a>,
}

/// Which arguments a condition may name.
#[derive(Clone, Copy, Debug)]
pub enum ArgumentsOf<'a> {
    /// None: the condition is judged before there is a call.
    Nothing,
    /// The arguments of this schema.
    Schema(&'a Value),
    /// Any: the schema could not be read, which is reported elsewhere.
    Unread,
}

impl Condition {
    /// All problems with the names and comparisons, in the order of the text.
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

    /// The arguments that the condition reads and a call may leave out.
    pub fn may_be_missing(&self, parameters: &Value) -> Vec<String> {
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

/// Whether every call has the argument: each member on its path is required, or has a default at the top.
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
                let Some(Kind { class, .. }) = self.kind(operand) else {
                    return;
                };
                if !matches!(class, Class::Flag | Class::Any) {
                    let message = format!("{} stands where true or false is needed", class.words());
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
                    self.comparison((left, &one), (right, &other), how.is_of_order(), *at);
                }
            }
            Node::In { item, list } => {
                if let (Some(one), Some(among)) = (self.kind(item), self.kind(list)) {
                    self.membership((item, &one), (list, &among));
                }
            }
        }
    }

    fn comparison(
        &mut self,
        (left, one): (&Operand, &Kind),
        (right, other): (&Operand, &Kind),
        is_of_order: bool,
        at: usize,
    ) {
        let (first, second) = (one.class, other.class);
        for (operand, class, with) in [(left, first, second), (right, second, first)] {
            if class.is_list() {
                let message = format!("{} is compared as if it were one value", class.words());
                let cure = cure_of_list(operand, with);
                return self.flaw(operand.at, message, cure);
            }
            if class == Class::Object {
                let message = "an object is compared as if it were one value";
                return self.flaw(
                    operand.at,
                    message,
                    "name a member of it, as in args.filter.type",
                );
            }
            let has_order = matches!(class, Class::Number | Class::Any);
            if is_of_order && !has_order {
                let message = format!("{} has no order", class.words());
                return self.flaw(
                    operand.at,
                    message,
                    "compare it with == or !=, or compare numbers",
                );
            }
        }
        let is_possible = first == second || first == Class::Any || second == Class::Any;
        if !is_possible {
            let message = format!(
                "{} is compared with {}, which it never is",
                first.words(),
                second.words()
            );
            let cure = match first == Class::Text || second == Class::Text {
                true => {
                    "compare values of one kind; a text stands in quotes, and a number does not"
                }
                false => "compare values of one kind",
            };
            return self.flaw(at, message, cure);
        }
        if !is_of_order {
            self.among(one, right);
            self.among(other, left);
        }
    }

    /// Reports literals that are not among the known values of the other operand.
    fn among(&mut self, kind: &Kind, with: &Operand) {
        let Some(values) = &kind.among else {
            return;
        };
        match &with.term {
            Term::Literal(literal) => self.one_value(values, literal, with.at),
            Term::List(items) => {
                items
                    .iter()
                    .for_each(|literal| self.one_value(values, literal, with.at));
            }
            Term::Place(_) => {}
        }
    }

    fn one_value(&mut self, values: &[Value], literal: &Literal, at: usize) {
        if values.iter().any(|value| is_same(literal, value)) {
            return;
        }
        let texts = values.iter().filter_map(Value::as_str);
        let (shown, near) = match literal {
            Literal::Text(text) => (format!("\"{}\"", brief(text)), nearest(text, texts)),
            Literal::Number(number) => (brief(&number.written), None),
            // No list of values holds true or false.
            Literal::Flag(_) => return,
        };
        let cure = match near {
            Some(near) => format!("did you mean \"{}\"?", brief(near)),
            None => format!("it is one of {}", listed(values)),
        };
        self.flaw(at, format!("it is never {shown}"), cure);
    }

    fn membership(&mut self, (item, one): (&Operand, &Kind), (list, among): (&Operand, &Kind)) {
        if !among.class.is_list() && among.class != Class::Any {
            let message = format!(
                "{} stands behind `in`, where a list is needed",
                among.class.words()
            );
            let cure = "write in and a list, as in (\"a\", \"b\"), roles, or a list of config";
            return self.flaw(list.at, message, cure);
        }
        if one.class.is_list() || one.class == Class::Object {
            let message = format!(
                "{} stands before `in`, where one value is needed",
                one.class.words()
            );
            return self.flaw(item.at, message, "write one value before in");
        }
        let is_possible = match among.class {
            Class::Texts => matches!(one.class, Class::Text | Class::Any),
            Class::Numbers => matches!(one.class, Class::Number | Class::Any),
            _ => true,
        };
        if !is_possible {
            let message = format!("{} is never in {}", one.class.words(), among.class.words());
            return self.flaw(item.at, message, "compare values of one kind");
        }
        self.among(one, list);
        self.among(among, item);
    }

    /// `None` where the operand's flaw was reported.
    fn kind(&mut self, operand: &Operand) -> Option<Kind> {
        let of = |literal: &Literal| match literal {
            Literal::Flag(_) => Class::Flag,
            Literal::Number(_) => Class::Number,
            Literal::Text(_) => Class::Text,
        };
        let place = match &operand.term {
            Term::Literal(literal) => return Some(of(literal).into()),
            Term::List(items) => {
                let mut classes = items.iter().map(of);
                let first = classes.next().unwrap_or(Class::Any);
                if !classes.all(|class| class == first) {
                    let message = "the list has values of several kinds";
                    self.flaw(operand.at, message, "list texts alone, or numbers alone");
                    return None;
                }
                return Some(list_of(first).into());
            }
            Term::Place(place) => place,
        };
        Some(match place {
            Place::IsAuthenticated => Class::Flag.into(),
            Place::UserId | Place::Tenant => Class::Text.into(),
            Place::Roles => Class::Texts.into(),
            Place::Mode => Kind::word(&[Mode::Text.as_str(), Mode::Voice.as_str()]),
            Place::Hour => Class::Number.into(),
            Place::Weekday => Kind::word(&WEEKDAYS),
            Place::Value(name) => self.value(name, operand.at)?.into(),
            Place::Argument(names) => return self.argument(names, operand.at),
        })
    }

    fn value(&mut self, name: &str, at: usize) -> Option<Class> {
        let values = self.scope.values;
        let Some(value) = values.get(name) else {
            let cure = match nearest(name, values.names()) {
                Some(near) => format!("did you mean config.{near}?"),
                None if !is_value_name(name) => {
                    "names under [condition_values] have letters, digits and _ alone".to_owned()
                }
                None => format!(
                    "list it under [condition_values] in windlass.toml, as in {name} = true"
                ),
            };
            let message = format!("the configuration lists no value `{}`", brief(name));
            self.flaw(at, message, cure);
            return None;
        };
        Some(match value {
            Value::Bool(_) => Class::Flag,
            Value::Number(_) => Class::Number,
            Value::String(_) => Class::Text,
            Value::Array(items) if items.is_empty() => Class::List,
            Value::Array(items) if items.iter().all(Value::is_string) => Class::Texts,
            Value::Array(_) => Class::Numbers,
            Value::Null | Value::Object(_) => Class::Any,
        })
    }

    fn argument(&mut self, names: &[Arc<str>], at: usize) -> Option<Kind> {
        let parameters = match self.scope.arguments {
            ArgumentsOf::Schema(parameters) => parameters,
            ArgumentsOf::Unread => return Some(Class::Any.into()),
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
                    return Some(Class::Number.into());
                }
                self.unknown_argument(names, (&place, name), at);
                return None;
            }
            place = here;
        }
        let parts = reference::parameter(parameters, &place).unwrap_or_default();
        if single_type(&parts) != Some("array") {
            return Some(one_of(&parts));
        }
        let items = reference::parameter(parameters, &format!("{place}/*"));
        let item = one_of(&items.unwrap_or_default());
        Some(Kind {
            class: list_of(item.class),
            among: item.among,
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

/// The cure for a list that is compared with a value of this class.
fn cure_of_list(list: &Operand, with: Class) -> String {
    match &list.term {
        Term::Place(place @ Place::Argument(_)) if with == Class::Number => {
            format!("write {place}.length for how many it has, or a number, in and {place}")
        }
        Term::Place(place) => {
            format!("write the value, in and the list, as in \"staff\" in {place}")
        }
        Term::Literal(_) | Term::List(_) => {
            "write the value, in and the list, as in \"staff\" in roles".to_owned()
        }
    }
}

fn is_same(literal: &Literal, value: &Value) -> bool {
    match (literal, value) {
        (Literal::Text(text), Value::String(known)) => **text == **known,
        (Literal::Number(number), Value::Number(known)) => {
            number::order(&number.written, known.as_str()).is_eq()
        }
        (Literal::Flag(flag), Value::Bool(known)) => flag == known,
        _ => false,
    }
}

/// The most values that a message lists; the rest is left out.
const LISTED_MAX: usize = 12;

fn listed(values: &[Value]) -> String {
    let shown = values.iter().take(LISTED_MAX).map(|value| match value {
        Value::String(text) => brief(text),
        other => brief(&other.to_string()),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match values.len().checked_sub(LISTED_MAX) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
