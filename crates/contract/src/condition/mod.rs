//! Conditions of authors: a small language over the user, the time and the arguments of a call. A condition decides to whom a tool is
//! offered, or which calls need the user's consent. Parsed when tools are compiled, and judged over facts that are passed in; no text is
//! ever run as code. Knows no session and no clock.

mod always;
mod check;
mod facts;
mod forecast;
mod judge;
mod kind;
mod parse;
#[cfg(test)]
mod tests;

pub use always::Constant;
pub use check::{ArgumentsOf, Scope};
pub use facts::{
    Facts, Given, LIST_ITEMS_MAX, LocalClock, Moment, NotAValue, TEXT_CHARACTERS_MAX, VALUES_MAX,
    Values, is_value_name,
};
pub use forecast::{Forecast, OpenFacts};
pub use judge::Unjudged;

use crate::reference;
use crate::wording::pointer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The most bytes of a condition. A longer rule belongs into the handler.
pub const BYTES_MAX: usize = 4_000;
/// The deepest nesting of brackets and `!`.
pub const NESTING_MAX: usize = 32;

/// A parsed condition. Files hold it as its text.
#[derive(Clone)]
pub struct Condition {
    text: Arc<str>,
    root: Arc<Node>,
}

/// A problem of a condition, and its cure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at column {column} of the condition: {message}; {cure}")]
pub struct Flaw {
    /// From 1, in characters of the condition.
    pub column: usize,
    pub message: String,
    pub cure: String,
}

/// The users to whom a tool is offered besides its permissions: `availability` of its `schema.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Availability {
    pub condition: Condition,
    /// How the tool becomes available, in its author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

/// The calls of a tool that need the user's consent: `requiresConfirmation` of its `schema.json`, if that is a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsentCondition {
    pub condition: Condition,
    /// The reason why the user is asked, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Arc<str>>,
}

impl From<Condition> for ConsentCondition {
    /// The author gives no reason.
    fn from(condition: Condition) -> Self {
        Self {
            condition,
            because: None,
        }
    }
}

/// The purpose of a condition; it decides which names are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Judged before there is a call.
    Availability,
    /// Judged over a call.
    Consent,
}

impl Condition {
    /// Reads the text of a condition over a call. [`Condition::flaws`] checks its names and whether its values can be compared.
    ///
    /// # Errors
    ///
    /// The first place where the text cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, Flaw> {
        Self::parse_for(text, Purpose::Consent)
    }

    /// The same as [`Self::parse`], with cures that fit the purpose.
    ///
    /// # Errors
    ///
    /// The first place where the text cannot be parsed.
    pub fn parse_for(text: &str, purpose: Purpose) -> Result<Self, Flaw> {
        Ok(Self {
            root: Arc::new(parse::parse(text, purpose)?),
            text: text.into(),
        })
    }

    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Condition({})", self.text)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Condition {}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// An expression that holds or does not.
#[derive(Debug)]
enum Node {
    /// Stops at the first part that does not hold.
    All(Vec<Self>),
    /// Stops at the first part that holds.
    Any(Vec<Self>),
    Not(Box<Self>),
    Compare {
        left: Operand,
        how: Comparison,
        /// The operator's position in bytes.
        at: usize,
        right: Operand,
    },
    In {
        item: Operand,
        list: Operand,
    },
    /// An operand that is true or false by itself.
    Is(Operand),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Different => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// Whether it compares by order, and not for equality alone.
    fn is_of_order(self) -> bool {
        !matches!(self, Self::Equal | Self::Different)
    }
}

#[derive(Debug)]
struct Operand {
    /// The operand's position in bytes.
    at: usize,
    term: Term,
}

#[derive(Debug)]
enum Term {
    Literal(Literal),
    List(Vec<Literal>),
    Place(Place),
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Flag(bool),
    Number(Number),
    Text(Arc<str>),
}

/// A number by its exact value.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    /// The number as it was written, in the form of JSON.
    written: Arc<str>,
    /// The number as 64 bits where it fits, so that most comparisons need no digits.
    whole: Option<i64>,
}

/// The fact that a name refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    IsAuthenticated,
    UserId,
    Tenant,
    Roles,
    Mode,
    Hour,
    Weekday,
    /// `config.NAME`.
    Value(Arc<str>),
    /// `args.…`, with its members in order.
    Argument(Arc<[Arc<str>]>),
}

/// The names of single facts.
const NAMES: [(&str, Place); 7] = [
    ("user.isAuthenticated", Place::IsAuthenticated),
    ("user.id", Place::UserId),
    ("tenant", Place::Tenant),
    ("roles", Place::Roles),
    ("mode", Place::Mode),
    ("time.hour", Place::Hour),
    ("time.weekday", Place::Weekday),
];

/// The values of `time.weekday`.
const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(name) => write!(formatter, "config.{name}"),
            Self::Argument(names) => {
                formatter.write_str("args")?;
                names.iter().try_for_each(|name| {
                    let is_plain = parse::is_name(name);
                    match is_plain {
                        true => write!(formatter, ".{name}"),
                        false => write!(formatter, "[{}]", Value::from(&**name)),
                    }
                })
            }
            named => {
                let known = NAMES.iter().find(|(_, place)| place == named);
                formatter.write_str(known.map_or("", |(name, _)| name))
            }
        }
    }
}

impl Condition {
    /// Calls `visit` with every place in the condition.
    fn places<'c>(&'c self, mut visit: impl FnMut(&'c Place)) {
        let mut nodes: Vec<&Node> = vec![&*self.root];
        let mut operand = |operand: &'c Operand| {
            if let Term::Place(place) = &operand.term {
                visit(place);
            }
        };
        while let Some(node) = nodes.pop() {
            match node {
                Node::All(parts) | Node::Any(parts) => nodes.extend(parts),
                Node::Not(inner) => nodes.push(inner),
                Node::Compare { left, right, .. } => {
                    operand(left);
                    operand(right);
                }
                Node::In { item, list } => {
                    operand(item);
                    operand(list);
                }
                Node::Is(only) => operand(only),
            }
        }
    }

    /// The arguments that the condition reads, whole or in part.
    pub fn arguments(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.places(|place| {
            if let Place::Argument(path) = place {
                names.extend(path.first().map(|name| &**name));
            }
        });
        names
    }

    /// Whether the condition reads `mode`.
    pub fn reads_mode(&self) -> bool {
        self.reads(|place| *place == Place::Mode)
    }

    /// Whether the condition reads the user's clock.
    pub fn reads_time(&self) -> bool {
        self.reads(|place| matches!(place, Place::Hour | Place::Weekday))
    }

    /// Whether the condition reads an argument of these JSON pointers, or a part of one. `*` stands for every key or item.
    pub fn reads_argument(&self, pointers: &[String]) -> bool {
        !pointers.is_empty()
            && self.reads(|place| match place {
                Place::Argument(names) => {
                    let here = argument_pointer(names);
                    pointers
                        .iter()
                        .any(|pointer| reference::overlap(&here, pointer))
                }
                _ => false,
            })
    }

    fn reads(&self, is_meant: impl Fn(&Place) -> bool) -> bool {
        let mut is_read = false;
        self.places(|place| is_read |= is_meant(place));
        is_read
    }
}

/// The JSON pointer of an argument.
fn argument_pointer(names: &[Arc<str>]) -> String {
    let begin = String::new();
    names.iter().fold(begin, |here, name| pointer(&here, name))
}
