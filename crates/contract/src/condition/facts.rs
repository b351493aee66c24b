//! The facts that conditions are judged over: the user, the user's clock, and the values that the configuration lists. All of them are
//! passed in; nothing here looks at a clock.

use super::{Literal, Number, WEEKDAYS};
use crate::arguments::Arguments;
use crate::kind::Mode;
use crate::number;
use crate::rights::Rights;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most values that a configuration lists for conditions.
pub const VALUES_MAX: usize = 200;
/// The most characters of a text among them, and of a value's name.
pub const TEXT_CHARACTERS_MAX: usize = 1_000;
const NAME_CHARACTERS_MAX: usize = 64;
/// The most items of a list among them.
pub const LIST_ITEMS_MAX: usize = 1_000;

/// The facts of one call, or of one session.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The proven rights of the user.
    pub rights: &'a Rights,
    pub user_id: &'a str,
    pub tenant: &'a str,
    pub mode: Mode,
    /// Milliseconds since the Unix epoch.
    pub unix_ms: u64,
    pub given: &'a Given,
    /// The canonical arguments of a call; `None` when a tool's availability is judged.
    pub arguments: Option<&'a Arguments>,
}

/// The facts that a session gets for conditions, once and for its whole life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// The user's clock.
    pub clock: LocalClock,
    pub values: Arc<Values>,
}

/// The clock of a time zone: its offsets from UTC, and when each begins. UTC without any offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalClock(Vec<(u64, i32)>);

/// An hour and a weekday by a local clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// 0 to 23.
    pub hour: u8,
    /// In English, in lower case.
    pub weekday: &'static str,
}

impl LocalClock {
    /// Makes a clock of pairs: milliseconds since the Unix epoch, and the seconds east of UTC that hold from then on. The first pair
    /// holds before its moment, too.
    pub fn new(offsets: impl IntoIterator<Item = (u64, i32)>) -> Self {
        let mut offsets: Vec<(u64, i32)> = offsets.into_iter().collect();
        offsets.sort_by_key(|(from, _)| *from);
        Self(offsets)
    }

    pub fn at(&self, unix_ms: u64) -> Moment {
        const DAY_SECONDS: i64 = 86_400;
        let later = self.0.partition_point(|(from, _)| *from <= unix_ms);
        let offset = self.0.get(later.saturating_sub(1));
        let offset = offset.map_or(0, |(_, seconds)| i64::from(*seconds));
        let seconds = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX - DAY_SECONDS);
        let local = seconds.saturating_add(offset);
        let hour = local.rem_euclid(DAY_SECONDS) / 3_600;
        // The epoch began on a Thursday.
        let day = (local.div_euclid(DAY_SECONDS) + 3).rem_euclid(7);
        Moment {
            hour: u8::try_from(hour).unwrap_or(0),
            weekday: WEEKDAYS[usize::try_from(day).unwrap_or(0)],
        }
    }
}

/// Values that conditions read as `config.NAME`: texts, numbers, true or false, and lists of texts or of numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Values(BTreeMap<String, Value>);

/// The reason why a value cannot be used in conditions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAValue {
    #[error("it is no text, no number, not true or false, and no list of texts or of numbers")]
    Kind,
    #[error("its text has more than {TEXT_CHARACTERS_MAX} characters")]
    TooLong,
    #[error("its list has more than {LIST_ITEMS_MAX} items")]
    TooMany,
}

/// Whether a text is a valid name of a value: a letter or `_`, then up to 63 letters, digits and `_`, all in ASCII.
pub fn is_value_name(name: &str) -> bool {
    name.len() <= NAME_CHARACTERS_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

static NONE: Values = Values(BTreeMap::new());

impl Values {
    /// The values of a configuration that lists none.
    pub fn none() -> &'static Self {
        &NONE
    }

    /// Takes values that were [checked](Self::check).
    pub fn new(values: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self(values.into_iter().collect())
    }

    /// # Errors
    ///
    /// The value has a kind that no condition can read, or is too long.
    pub fn check(value: &Value) -> Result<(), NotAValue> {
        match value {
            Value::Bool(_) => Ok(()),
            Value::Number(number) => match number::problem_of(number) {
                Some(_) => Err(NotAValue::Kind),
                None => Ok(()),
            },
            Value::String(text) => match text.chars().nth(TEXT_CHARACTERS_MAX) {
                Some(_) => Err(NotAValue::TooLong),
                None => Ok(()),
            },
            Value::Array(items) if items.len() > LIST_ITEMS_MAX => Err(NotAValue::TooMany),
            Value::Array(items) => {
                let is_one_kind =
                    items.iter().all(Value::is_string) || items.iter().all(Value::is_number);
                match is_one_kind {
                    true => items.iter().try_for_each(Self::check),
                    false => Err(NotAValue::Kind),
                }
            }
            Value::Null | Value::Object(_) => Err(NotAValue::Kind),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The names in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The names and the kind of each value, for checking conditions.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.0.iter().map(|(name, value)| {
            let kind = match value {
                Value::Array(items) if items.iter().all(Value::is_string) => "texts",
                Value::Array(_) => "numbers",
                other => crate::wording::kind_of(other),
            };
            (name.as_str(), kind)
        })
    }
}

/// One value of a fact.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fact<'a> {
    Flag(bool),
    Number(NumberOf<'a>),
    Text(&'a str),
    /// The roles of a user.
    Roles(&'a Rights),
    Items(&'a [Value]),
    Listed(&'a [Literal]),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NumberOf<'a> {
    Whole(i64),
    Written(&'a str),
}

impl<'a> Fact<'a> {
    /// `None` for a value that no condition compares.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        Some(match value {
            Value::Bool(flag) => Self::Flag(*flag),
            Value::Number(number) => Self::Number(match number.as_i64() {
                Some(whole) => NumberOf::Whole(whole),
                None => NumberOf::Written(number.as_str()),
            }),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::Items(items),
            Value::Null | Value::Object(_) => return None,
        })
    }

    pub(super) fn of_literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Flag(flag) => Self::Flag(*flag),
            Literal::Number(Number {
                whole: Some(whole), ..
            }) => Self::Number(NumberOf::Whole(*whole)),
            Literal::Number(Number { written, .. }) => Self::Number(NumberOf::Written(written)),
            Literal::Text(text) => Self::Text(text),
        }
    }
}
