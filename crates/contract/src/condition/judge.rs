//! Judges whether a condition holds over the facts of one call. Allocates only for numbers that have more digits than a machine's, and
//! for conditions that cannot be judged.

use super::facts::{Fact, Facts, NumberOf};
use super::{Comparison, Condition, Node, Operand, Place, Term};
use crate::number;
use crate::rights::Rights;
use serde_json::Value;
use std::cmp::Ordering;
use std::sync::Arc;

/// The reason why a condition cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjudged {
    #[error("{0} is not there")]
    Missing(String),
    #[error("{0} is not of the kind that the condition needs")]
    Kind(String),
}

impl Condition {
    /// Whether the condition holds. `&&` and `||` stop at the first operand that decides.
    ///
    /// # Errors
    ///
    /// A needed value is missing or of another kind.
    pub fn holds(&self, facts: &Facts<'_>) -> Result<bool, Unjudged> {
        holds(&self.root, facts)
    }
}

pub(super) fn holds(node: &Node, facts: &Facts<'_>) -> Result<bool, Unjudged> {
    match node {
        Node::All(parts) => {
            for part in parts {
                if !holds(part, facts)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Node::Any(parts) => {
            for part in parts {
                if holds(part, facts)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Node::Not(inner) => Ok(!holds(inner, facts)?),
        Node::Is(operand) => match value(operand, facts)? {
            Fact::Flag(flag) => Ok(flag),
            _ => Err(other_kind(operand)),
        },
        Node::Compare {
            left, how, right, ..
        } => {
            let (one, other) = (value(left, facts)?, value(right, facts)?);
            compared(one, *how, other).ok_or_else(|| other_kind(blamed(left, right)))
        }
        Node::In { item, list } => {
            let (one, among) = (value(item, facts)?, value(list, facts)?);
            is_in(one, among).ok_or_else(|| other_kind(blamed(list, item)))
        }
    }
}

/// The operand that an error names: the place if there is one, because literals are as their author wrote them.
fn blamed<'n>(one: &'n Operand, other: &'n Operand) -> &'n Operand {
    match one.term {
        Term::Place(_) => one,
        Term::Literal(_) | Term::List(_) => other,
    }
}

fn other_kind(operand: &Operand) -> Unjudged {
    Unjudged::Kind(match &operand.term {
        Term::Place(place) => place.to_string(),
        Term::Literal(_) | Term::List(_) => "a value".to_owned(),
    })
}

pub(super) fn value<'a>(operand: &'a Operand, facts: &Facts<'a>) -> Result<Fact<'a>, Unjudged> {
    let place = match &operand.term {
        Term::Literal(literal) => return Ok(Fact::of_literal(literal)),
        Term::List(items) => return Ok(Fact::Listed(items)),
        Term::Place(place) => place,
    };
    let clock = || facts.given.clock.at(facts.unix_ms);
    Ok(match place {
        Place::IsAuthenticated => Fact::Flag(facts.rights.is_signed_in()),
        Place::UserId => Fact::Text(facts.user_id),
        Place::Tenant => Fact::Text(facts.tenant),
        Place::Roles => Fact::Roles(facts.rights),
        Place::Mode => Fact::Text(facts.mode.as_str()),
        Place::Hour => Fact::Number(NumberOf::Whole(clock().hour.into())),
        Place::Weekday => Fact::Text(clock().weekday),
        Place::Value(name) => {
            let found = facts.given.values.get(name);
            let found = found.ok_or_else(|| Unjudged::Missing(place.to_string()))?;
            Fact::of(found).ok_or_else(|| other_kind(operand))?
        }
        Place::Argument(names) => {
            let found = facts.arguments.map(crate::arguments::Arguments::as_value);
            let found = found.and_then(|whole| argument(whole, names));
            match found.ok_or_else(|| Unjudged::Missing(place.to_string()))? {
                Found::Value(value) => Fact::of(value).ok_or_else(|| other_kind(operand))?,
                Found::Count(count) => Fact::Number(NumberOf::Whole(count)),
            }
        }
    })
}

enum Found<'a> {
    Value(&'a Value),
    /// The length of a list.
    Count(i64),
}

fn argument<'a>(whole: &'a Value, names: &[Arc<str>]) -> Option<Found<'a>> {
    let mut value = whole;
    for (index, name) in names.iter().enumerate() {
        value = match value {
            Value::Object(members) => members.get(&**name)?,
            Value::Array(items) if &**name == "length" && index + 1 == names.len() => {
                return i64::try_from(items.len()).ok().map(Found::Count);
            }
            _ => return None,
        };
    }
    Some(Found::Value(value))
}

/// `None` where the two cannot be compared in this way.
fn compared(left: Fact<'_>, how: Comparison, right: Fact<'_>) -> Option<bool> {
    let ordering = match (left, right) {
        (Fact::Number(left), Fact::Number(right)) => order(left, right),
        (Fact::Text(left), Fact::Text(right)) if !how.is_of_order() => left.cmp(right),
        (Fact::Flag(left), Fact::Flag(right)) if !how.is_of_order() => left.cmp(&right),
        _ => return None,
    };
    Some(how.holds(ordering))
}

fn order(left: NumberOf<'_>, right: NumberOf<'_>) -> Ordering {
    match (left, right) {
        (NumberOf::Whole(left), NumberOf::Whole(right)) => left.cmp(&right),
        (NumberOf::Written(left), NumberOf::Written(right)) => number::order(left, right),
        (NumberOf::Whole(left), NumberOf::Written(right)) => {
            number::order(&left.to_string(), right)
        }
        (NumberOf::Written(left), NumberOf::Whole(right)) => {
            number::order(left, &right.to_string())
        }
    }
}

/// `None` where the item cannot be in the list.
fn is_in(item: Fact<'_>, list: Fact<'_>) -> Option<bool> {
    let is_same = |other| compared(item, Comparison::Equal, other);
    match list {
        Fact::Listed(literals) => any(literals.iter().map(|one| is_same(Fact::of_literal(one)))),
        Fact::Items(values) => any(values.iter().map(|one| is_same(Fact::of(one)?))),
        Fact::Roles(rights) => match (item, rights) {
            (Fact::Text(_), Rights::Anonymous) => Some(false),
            (Fact::Text(text), Rights::SignedIn(roles)) => {
                Some(roles.iter().any(|role| role.as_str() == text))
            }
            _ => None,
        },
        Fact::Flag(_) | Fact::Number(_) | Fact::Text(_) => None,
    }
}

/// Whether any item is equal; `false` for an empty list.
fn any(mut each: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut is_comparable = true;
    let found = each.any(|one| {
        is_comparable &= one.is_some();
        one == Some(true)
    });
    (found || is_comparable).then_some(found)
}
