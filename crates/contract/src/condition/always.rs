//! Finds conditions that come to the same for all facts, as when an author wrote `!=` twice instead of once. Tries every case that the
//! condition itself tells apart, and gives no answer where these are too many. Judges no call.

use super::argument_pointer;
use super::check::ArgumentsOf;
use super::kind::{is_of, single_type, values_of};
use super::{Comparison, Condition, Literal, Node, Operand, Place, Term, WEEKDAYS};
use crate::kind::Mode;
use crate::{number, reference};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most cases that are tried.
const CASES_MAX: usize = 4_096;

/// The constant outcome of a condition. A missing argument, or one of another kind, is no case: the condition cannot be judged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    Holds,
    Never,
}

impl Condition {
    /// The condition's constant outcome in sessions of these modes, for any user, time, arguments and values of the configuration; `None`
    /// where it varies, or where the cases are too many. A condition with [flaws](Condition::flaws) has no answer.
    pub fn constant(&self, arguments: ArgumentsOf<'_>, modes: &[Mode]) -> Option<Constant> {
        let mut cases = Cases::default();
        cases.gather(&self.root);
        let cases = cases.drawn(arguments, modes)?;
        let count = cases.iter().try_fold(1_usize, |count, case| {
            let count = count.checked_mul(case.samples.len())?;
            (count <= CASES_MAX).then_some(count)
        })?;
        let mut holds = None;
        for number in 0..count {
            let drawn = Drawn::of(&cases, number);
            if drawn.is_impossible() {
                continue;
            }
            let here = drawn.node(&self.root);
            if holds.is_some_and(|before| before != here) {
                return None;
            }
            holds = Some(here);
        }
        Some(match holds? {
            true => Constant::Holds,
            false => Constant::Never,
        })
    }
}

/// The subject of a comparison's case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// A value that is compared with literals of the condition.
    Place(String),
    /// A role that a user may have.
    Role(Arc<str>),
    /// A comparison with an unknown meaning.
    Opaque(String),
}

/// The values that a subject is compared with.
#[derive(Debug)]
enum Asked<'c> {
    Flag,
    Texts(Vec<&'c str>),
    /// In the form of JSON.
    Numbers(Vec<&'c str>),
    /// Values of several kinds.
    Mixed,
}

#[derive(Debug, Default)]
struct Cases<'c> {
    subjects: BTreeMap<Subject, (Option<&'c Place>, Asked<'c>)>,
}

/// One subject, and its possible values.
#[derive(Debug)]
struct Case<'c> {
    subject: Subject,
    samples: Vec<Sample>,
    /// The sorted numbers that samples lie on or between.
    points: Vec<&'c str>,
}

/// A possible value of a subject.
#[derive(Clone, Debug, PartialEq)]
enum Sample {
    Flag(bool),
    /// `None` is any text that the condition does not name.
    Text(Option<Arc<str>>),
    /// Twice the index of the next point; one more for the point itself.
    Number(usize),
}

/// A single comparison: its subject, and the values that it is compared with.
enum Leaf<'c> {
    Constant(bool),
    Flag(&'c Place),
    /// The place stands before the operator.
    One(&'c Place, Comparison, &'c Literal),
    Among(&'c Place, &'c [Literal]),
    Role(&'c Arc<str>),
    Opaque(String),
}

impl<'c> Leaf<'c> {
    /// `None` for a node that joins others.
    fn of(node: &'c Node) -> Option<Self> {
        Some(match node {
            Node::All(_) | Node::Any(_) | Node::Not(_) => return None,
            Node::Is(operand) => match &operand.term {
                Term::Literal(Literal::Flag(flag)) => Self::Constant(*flag),
                Term::Place(place) => Self::Flag(place),
                Term::Literal(_) | Term::List(_) => Self::Opaque(name_of(node)),
            },
            Node::Compare {
                left, how, right, ..
            } => match (&left.term, &right.term) {
                (Term::Place(place), Term::Literal(literal)) => Self::One(place, *how, literal),
                (Term::Literal(literal), Term::Place(place)) => {
                    Self::One(place, how.turned(), literal)
                }
                (Term::Literal(left), Term::Literal(right)) => {
                    Self::Constant(ordered(left, right).is_some_and(|order| how.holds(order)))
                }
                _ => Self::Opaque(name_of(node)),
            },
            Node::In { item, list } => match (&item.term, &list.term) {
                (Term::Place(place), Term::List(among)) => Self::Among(place, among),
                (Term::Literal(Literal::Text(role)), Term::Place(Place::Roles)) => Self::Role(role),
                (Term::Literal(one), Term::List(among)) => {
                    let is_same = |other| ordered(one, other).is_some_and(Ordering::is_eq);
                    Self::Constant(among.iter().any(is_same))
                }
                _ => Self::Opaque(name_of(node)),
            },
        })
    }
}

/// A name for an opaque comparison: the same operator with the same operands is one case.
fn name_of(node: &Node) -> String {
    let shown = |operand: &Operand| match &operand.term {
        Term::Place(place) => place.to_string(),
        Term::Literal(literal) => format!("{literal:?}"),
        Term::List(literals) => format!("{literals:?}"),
    };
    match node {
        Node::Compare {
            left, how, right, ..
        } => format!("{} {how:?} {}", shown(left), shown(right)),
        Node::In { item, list } => format!("{} in {}", shown(item), shown(list)),
        Node::Is(only) => shown(only),
        Node::All(_) | Node::Any(_) | Node::Not(_) => String::new(),
    }
}

/// `None` where two values cannot be compared.
fn ordered(left: &Literal, right: &Literal) -> Option<Ordering> {
    match (left, right) {
        (Literal::Flag(left), Literal::Flag(right)) => Some(left.cmp(right)),
        (Literal::Text(left), Literal::Text(right)) => Some(left.cmp(right)),
        (Literal::Number(left), Literal::Number(right)) => {
            Some(number::order(&left.written, &right.written))
        }
        _ => None,
    }
}

impl Comparison {
    /// The same comparison with its operands exchanged.
    fn turned(self) -> Self {
        match self {
            Self::Equal | Self::Different => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }
}

impl<'c> Cases<'c> {
    fn gather(&mut self, node: &'c Node) {
        match node {
            Node::All(parts) | Node::Any(parts) => parts.iter().for_each(|part| self.gather(part)),
            Node::Not(inner) => self.gather(inner),
            Node::Is(_) | Node::Compare { .. } | Node::In { .. } => match Leaf::of(node) {
                None | Some(Leaf::Constant(_)) => {}
                Some(Leaf::Flag(place)) => self.note(place, &[]),
                Some(Leaf::One(place, _, literal)) => {
                    self.note(place, std::slice::from_ref(literal));
                }
                Some(Leaf::Among(place, literals)) => self.note(place, literals),
                Some(Leaf::Role(role)) => {
                    let subject = Subject::Role(role.clone());
                    self.subjects.insert(subject, (None, Asked::Flag));
                }
                Some(Leaf::Opaque(name)) => {
                    let subject = Subject::Opaque(name);
                    self.subjects.insert(subject, (None, Asked::Flag));
                }
            },
        }
    }

    /// Notes that a place is compared with these literals; with none, the place is a flag.
    fn note(&mut self, place: &'c Place, with: &'c [Literal]) {
        let subject = Subject::Place(place.to_string());
        let asked = Asked::of(with);
        match self.subjects.get_mut(&subject) {
            None => {
                self.subjects.insert(subject, (Some(place), asked));
            }
            Some((_, known)) => known.join(asked),
        }
    }

    /// `None` where too little is known of a compared value.
    fn drawn(self, arguments: ArgumentsOf<'_>, modes: &[Mode]) -> Option<Vec<Case<'c>>> {
        let cases = self.subjects.into_iter().map(|(subject, (place, asked))| {
            let flags = vec![Sample::Flag(true), Sample::Flag(false)];
            let (samples, points) = match asked {
                Asked::Flag => (flags, Vec::new()),
                Asked::Mixed => return None,
                Asked::Texts(named) => {
                    let words = place.and_then(|place| words_of(place, arguments, modes));
                    (texts(&named, words), Vec::new())
                }
                Asked::Numbers(points) => {
                    let range =
                        place.map_or_else(Range::default, |place| Range::of(place, arguments));
                    numbers(points, &range)
                }
            };
            Some(Case {
                subject,
                samples,
                points,
            })
        });
        cases.collect()
    }
}

impl<'c> Asked<'c> {
    fn of(with: &'c [Literal]) -> Self {
        let mut all = with.iter().map(|literal| match literal {
            Literal::Flag(_) => Self::Flag,
            Literal::Text(text) => Self::Texts(vec![text]),
            Literal::Number(number) => Self::Numbers(vec![&number.written]),
        });
        let mut asked = all.next().unwrap_or(Self::Flag);
        all.for_each(|more| asked.join(more));
        asked
    }

    fn join(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::Flag, Self::Flag) => {}
            (Self::Texts(known), Self::Texts(more))
            | (Self::Numbers(known), Self::Numbers(more)) => {
                known.extend(more);
            }
            _ => *self = Self::Mixed,
        }
    }
}

/// The texts that a place can be; `None` where they are not limited.
fn words_of(place: &Place, arguments: ArgumentsOf<'_>, modes: &[Mode]) -> Option<Vec<Arc<str>>> {
    match (place, arguments) {
        (Place::Mode, _) => Some(modes.iter().map(|mode| mode.as_str().into()).collect()),
        (Place::Weekday, _) => Some(WEEKDAYS.iter().map(|day| Arc::from(*day)).collect()),
        (Place::Argument(names), ArgumentsOf::Schema(schema)) => {
            let parts = reference::parameter(schema, &argument_pointer(names))?;
            let listed = values_of(&parts)?;
            Some(
                listed
                    .iter()
                    .filter_map(Value::as_str)
                    .map(Arc::from)
                    .collect(),
            )
        }
        _ => None,
    }
}

fn texts(named: &[&str], words: Option<Vec<Arc<str>>>) -> Vec<Sample> {
    if let Some(words) = words {
        return words
            .into_iter()
            .map(|word| Sample::Text(Some(word)))
            .collect();
    }
    let mut named = named.to_vec();
    named.sort_unstable();
    named.dedup();
    let named = named
        .into_iter()
        .map(|text| Sample::Text(Some(text.into())));
    named.chain([Sample::Text(None)]).collect()
}

/// The numbers that a place can be.
#[derive(Debug, Default)]
struct Range {
    is_whole: bool,
    least: Option<Value>,
    greatest: Option<Value>,
    /// The only values that are possible.
    listed: Option<Vec<Value>>,
}

impl Range {
    fn of(place: &Place, arguments: ArgumentsOf<'_>) -> Self {
        match (place, arguments) {
            (Place::Hour, _) => Self {
                is_whole: true,
                least: Some(0.into()),
                greatest: Some(23.into()),
                listed: None,
            },
            (Place::Argument(names), ArgumentsOf::Schema(schema)) => {
                Self::of_argument(&argument_pointer(names), schema)
            }
            _ => Self::default(),
        }
    }

    fn of_argument(place: &str, schema: &Value) -> Self {
        let Some(parts) = reference::parameter(schema, place) else {
            // The length of a list.
            let list = place.rsplit_once('/').map(|(list, _)| list);
            let list = list.and_then(|list| reference::parameter(schema, list));
            return match list.filter(|parts| is_of(parts, "array")) {
                Some(_) => Self {
                    is_whole: true,
                    least: Some(0.into()),
                    ..Self::default()
                },
                None => Self::default(),
            };
        };
        let bound = |name: &str| {
            let mut named = parts.iter().filter_map(|part| part.get(name));
            named.find(|bound| bound.is_number()).cloned()
        };
        Self {
            is_whole: single_type(&parts) == Some("integer"),
            least: bound("minimum"),
            greatest: bound("maximum"),
            listed: values_of(&parts),
        }
    }
}

/// The points of a place, and its possible samples: each point, and the gaps before, between and behind the points.
fn numbers<'c>(mut points: Vec<&'c str>, range: &Range) -> (Vec<Sample>, Vec<&'c str>) {
    points.sort_by(|left, right| number::order(left, right));
    points.dedup_by(|left, right| number::order(left, right).is_eq());
    let order = |point: &str, bound: &Value| match bound {
        Value::Number(bound) => number::order(point, bound.as_str()),
        _ => Ordering::Equal,
    };
    let least = |point: &str| range.least.as_ref().map(|bound| order(point, bound));
    let greatest = |point: &str| range.greatest.as_ref().map(|bound| order(point, bound));
    let is_there = |index: &usize| {
        let (next, is_point) = (index / 2, index % 2 == 1);
        if is_point {
            let point = points[next];
            let is_listed = |value: &Value| order(point, value).is_eq() && value.is_number();
            return least(point) != Some(Ordering::Less)
                && greatest(point) != Some(Ordering::Greater)
                && range
                    .listed
                    .as_ref()
                    .is_none_or(|all| all.iter().any(is_listed));
        }
        let before = next.checked_sub(1).map(|before| points[before]);
        let behind = points.get(next).copied();
        // Numbers beyond a bound are impossible, and so are whole numbers between neighbours.
        let is_beyond = behind
            .is_some_and(|behind| matches!(least(behind), Some(Ordering::Less | Ordering::Equal)))
            || before.is_some_and(|before| {
                matches!(greatest(before), Some(Ordering::Greater | Ordering::Equal))
            });
        let are_neighbours = range.is_whole
            && before.zip(behind).is_some_and(|(before, behind)| {
                let whole = |point: &str| point.parse::<i64>().ok();
                let step = whole(before).zip(whole(behind));
                step.is_some_and(|(before, behind)| before.checked_add(1) == Some(behind))
            });
        let is_listed = |value: &Value| {
            let is_behind = before.is_none_or(|before| order(before, value).is_lt());
            let is_before = behind.is_none_or(|behind| order(behind, value).is_gt());
            value.is_number() && is_behind && is_before
        };
        let may_be = range
            .listed
            .as_ref()
            .is_none_or(|all| all.iter().any(is_listed));
        !is_beyond && !are_neighbours && may_be
    };
    let samples = (0..=2 * points.len()).filter(is_there);
    (samples.map(Sample::Number).collect(), points)
}

/// One combination: a sample for each subject.
struct Drawn<'a, 'c> {
    cases: BTreeMap<&'a Subject, (&'a Sample, &'a [&'c str])>,
}

impl<'a, 'c> Drawn<'a, 'c> {
    /// The combination with this number.
    fn of(cases: &'a [Case<'c>], mut number: usize) -> Self {
        let drawn = cases.iter().map(|case| {
            let sample = &case.samples[number % case.samples.len()];
            number /= case.samples.len();
            (&case.subject, (sample, case.points.as_slice()))
        });
        Self {
            cases: drawn.collect(),
        }
    }

    /// Whether the user has a role without being signed in.
    fn is_impossible(&self) -> bool {
        let signed_in = Subject::Place(Place::IsAuthenticated.to_string());
        let is_anonymous = self
            .cases
            .get(&signed_in)
            .is_some_and(|(sample, _)| **sample == Sample::Flag(false));
        let has_role = |(subject, (sample, _)): (&&Subject, &(&Sample, &[&str]))| {
            matches!(subject, Subject::Role(_)) && **sample == Sample::Flag(true)
        };
        is_anonymous && self.cases.iter().any(has_role)
    }

    fn node(&self, node: &Node) -> bool {
        match node {
            Node::All(parts) => parts.iter().all(|part| self.node(part)),
            Node::Any(parts) => parts.iter().any(|part| self.node(part)),
            Node::Not(inner) => !self.node(inner),
            Node::Is(_) | Node::Compare { .. } | Node::In { .. } => match Leaf::of(node) {
                None => false,
                Some(Leaf::Constant(holds)) => holds,
                Some(Leaf::Flag(place)) => self.is_true(&Subject::Place(place.to_string())),
                Some(Leaf::Role(role)) => self.is_true(&Subject::Role(role.clone())),
                Some(Leaf::Opaque(name)) => self.is_true(&Subject::Opaque(name)),
                Some(Leaf::One(place, how, literal)) => self
                    .order(place, literal)
                    .map_or(how == Comparison::Different, |order| how.holds(order)),
                Some(Leaf::Among(place, literals)) => literals
                    .iter()
                    .any(|literal| self.order(place, literal).is_some_and(Ordering::is_eq)),
            },
        }
    }

    fn is_true(&self, subject: &Subject) -> bool {
        self.cases
            .get(subject)
            .is_some_and(|(sample, _)| **sample == Sample::Flag(true))
    }

    /// How the place stands to a value; `None` where it is another text.
    fn order(&self, place: &Place, literal: &Literal) -> Option<Ordering> {
        let subject = Subject::Place(place.to_string());
        let (sample, points) = self.cases.get(&subject)?;
        match (sample, literal) {
            (Sample::Flag(one), Literal::Flag(other)) => Some(one.cmp(other)),
            (Sample::Text(text), Literal::Text(other)) => text.as_ref().map(|text| text.cmp(other)),
            (Sample::Number(index), Literal::Number(other)) => {
                let is_it = |point: &&str| number::order(point, &other.written).is_eq();
                let at = points.iter().position(is_it)?;
                Some(index.cmp(&(2 * at + 1)))
            }
            _ => None,
        }
    }
}
