//! The outcome of a condition while some of its facts are still open: user, mode and time. It is shown to authors; no call is judged by
//! it.

use super::judge::{Unjudged, holds, value};
use super::{Condition, Facts, Literal, Node, Operand, Place, Term};
use crate::rights::Rights;
use std::collections::BTreeSet;

/// The outcome of a condition as far as it is known before there is a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forecast {
    /// The outcome, for all values of the open facts.
    Known(bool),
    Unjudged(Unjudged),
    /// The names that the outcome depends on, in their order.
    DependsOn(BTreeSet<String>),
}

/// The facts that are open besides the user's id, the tenant and the time, which always are.
#[derive(Clone, Copy, Debug)]
pub struct OpenFacts {
    pub mode: bool,
    /// The user may have more roles than those of the facts.
    pub roles: bool,
}

impl Condition {
    /// The condition's outcome over these facts, some of which are open.
    pub fn forecast(&self, facts: &Facts<'_>, open: OpenFacts) -> Forecast {
        Forecaster { facts, open }.node(&self.root)
    }
}

struct Forecaster<'a> {
    facts: &'a Facts<'a>,
    open: OpenFacts,
}

impl Forecaster<'_> {
    fn node(&self, node: &Node) -> Forecast {
        match node {
            Node::All(parts) => self.joined(parts, false),
            Node::Any(parts) => self.joined(parts, true),
            Node::Not(inner) => match self.node(inner) {
                Forecast::Known(holds) => Forecast::Known(!holds),
                other => other,
            },
            Node::Is(only) => self.leaf(node, &[only]),
            Node::Compare { left, right, .. } => self.leaf(node, &[left, right]),
            Node::In { item, list } => match self.has_known_role(item, list) {
                true => Forecast::Known(true),
                false => self.leaf(node, &[item, list]),
            },
        }
    }

    /// Joins parts in their order; the first part whose outcome is `end` decides.
    fn joined(&self, parts: &[Node], end: bool) -> Forecast {
        let mut names = BTreeSet::new();
        for part in parts {
            match self.node(part) {
                Forecast::Known(holds) if holds == end => return Forecast::Known(end),
                Forecast::Known(_) => {}
                Forecast::Unjudged(problem) if names.is_empty() => {
                    return Forecast::Unjudged(problem);
                }
                // An earlier open part may decide, so that later parts are not judged.
                Forecast::Unjudged(_) => break,
                Forecast::DependsOn(more) => names.extend(more),
            }
        }
        match names.is_empty() {
            true => Forecast::Known(!end),
            false => Forecast::DependsOn(names),
        }
    }

    fn leaf(&self, node: &Node, operands: &[&Operand]) -> Forecast {
        let mut names = BTreeSet::new();
        for operand in operands {
            match &operand.term {
                Term::Place(place) if self.is_open(place) => {
                    names.insert(place.to_string());
                }
                Term::Literal(_) | Term::List(_) | Term::Place(_) => {
                    if let Err(problem) = value(operand, self.facts) {
                        return Forecast::Unjudged(problem);
                    }
                }
            }
        }
        if !names.is_empty() {
            return Forecast::DependsOn(names);
        }
        match holds(node, self.facts) {
            Ok(holds) => Forecast::Known(holds),
            Err(problem) => Forecast::Unjudged(problem),
        }
    }

    fn is_open(&self, place: &Place) -> bool {
        match place {
            Place::UserId | Place::Tenant | Place::Hour | Place::Weekday => true,
            Place::Roles => self.open.roles,
            Place::Mode => self.open.mode,
            Place::IsAuthenticated | Place::Value(_) | Place::Argument(_) => false,
        }
    }

    /// Whether a list of roles is searched for a role that the user surely has.
    fn has_known_role(&self, item: &Operand, list: &Operand) -> bool {
        let (Term::Literal(Literal::Text(wanted)), Term::Place(Place::Roles)) =
            (&item.term, &list.term)
        else {
            return false;
        };
        match self.facts.rights {
            Rights::Anonymous => false,
            Rights::SignedIn(roles) => roles.iter().any(|role| role.as_str() == &**wanted),
        }
    }
}
