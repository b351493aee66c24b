//! What conditions are judged over: who the user is, the user's clock, and the values that the configuration lists. All of it is given;
//! nothing here looks at a clock.

use super::{Literal, Number, WEEKDAYS};
use crate::arguments::Arguments;
use crate::kind::Mode;
use crate::number;
use crate::rights::Rights;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Values that a configuration lists for conditions.
pub const VALUES_MAX: usize = 200;
/// Characters of one text among them, and of a value's name.
pub const TEXT_CHARACTERS_MAX: usize = 1_000;
const NAME_CHARACTERS_MAX: usize = 64;
/// Items of one list among them.
pub const LIST_ITEMS_MAX: usize = 1_000;

/// What one call or one session is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What was proven of the user.
    pub rights: &'a Rights,
    pub user_id: &'a str,
    pub tenant: &'a str,
    pub mode: Mode,
    /// Milliseconds since the Unix epoch.
    pub unix_ms: u64,
    pub given: &'a Given,
    /// The canonical arguments of a call; `None` where a tool's availability is judged.
    pub arguments: Option<&'a Arguments>,
}

/// What a session is given for conditions, once and for its whole life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// The user's.
    pub clock: LocalClock,
    pub values: Arc<Values>,
}

/// The clock of a time zone, as far from UTC as it is from each of its moments on. Without any it is UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalClock(Vec<(u64, i32)>);

/// An hour and a day somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// 0 to 23.
    pub hour: u8,
    /// In English and in small letters.
    pub weekday: &'static str,
}

impl LocalClock {
    /// Of milliseconds since the Unix epoch, each with the seconds east of UTC that hold from then on; in their order. The first holds
    /// before its moment, too.
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

/// Why a value can be none of a condition's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAValue {
    #[error("it is no text, no number, not true or false, and no list of texts or of numbers")]
    Kind,
    #[error("its text has more than {TEXT_CHARACTERS_MAX} characters")]
    TooLong,
    #[error("its list has more than {LIST_ITEMS_MAX} items")]
    TooMany,
}

/// Whether conditions can name a value so: a letter or `_`, and 63 letters, digits and `_` at most behind it, all in ASCII.
pub fn is_value_name(name: &str) -> bool {
    name.len() <= NAME_CHARACTERS_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

static NONE: Values = Values(BTreeMap::new());

impl Values {
    /// Where a configuration lists none.
    pub fn none() -> &'static Self {
        &NONE
    }

    /// Of values that were [checked](Self::check).
    pub fn new(values: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self(values.into_iter().collect())
    }

    /// # Errors
    ///
    /// What no condition could read, or is longer than it may be.
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

    /// In the order of their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The names and what kind of value each is: what a condition is checked by.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&str, &'static str)> {
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
    /// `None` for what no condition compares.
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
