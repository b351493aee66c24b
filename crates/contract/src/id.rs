//! Identities as newtypes, so that no two of them can be confused. Minting them is the driver's business.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}", self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// One session of one user, in one mode.
    SessionId
);
text_id!(
    /// The user of a session. An anonymous user's id is the client's, which the server signed.
    UserId
);
text_id!(
    /// The chain of sessions of one user.
    ConversationId
);
text_id!(
    /// One customer of a server that serves several. All stored data belongs to one.
    TenantId
);
text_id!(
    /// One connected client program.
    ClientId
);
text_id!(
    /// One intended change in the outside world; minted by the driver before anything runs.
    EffectId
);

impl Default for TenantId {
    /// The only customer of a server for a single one.
    fn default() -> Self {
        Self::new("default")
    }
}

/// The hexadecimal digits of the time at the beginning of an effect's id.
const TIME_DIGITS: usize = 12;

impl EffectId {
    /// An id that begins with its time, so that a ledger sorts by it and old entries are found together.
    pub fn minted(now_unix_ms: u64, random: &str) -> Self {
        Self::new(format!("{now_unix_ms:0TIME_DIGITS$x}-{random}"))
    }

    /// The time when it was minted, in milliseconds since the Unix epoch: no attempt at the effect began before. `None` for an id of
    /// another form.
    pub fn minted_at_unix_ms(&self) -> Option<u64> {
        let (time, _) = self.0.split_once('-')?;
        let is_time =
            time.len() >= TIME_DIGITS && time.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_time
            .then(|| u64::from_str_radix(time, 16).ok())
            .flatten()
    }
}

/// A tool's id: `^[a-z][a-z0-9_]{0,62}$`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolId(Arc<str>);

impl ToolId {
    /// Checks the text against the rule; `None` where it fails.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let starts_well = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase());
        let goes_on_well =
            bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        (starts_well && goes_on_well && text.len() <= 63).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<ToolId> for Arc<str> {
    fn from(id: ToolId) -> Self {
        id.0
    }
}

impl<'de> Deserialize<'de> for ToolId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{text:?} is not a tool id; ids have small letters, digits and underscores, as in kb_search"
            ))
        })
    }
}

impl std::borrow::Borrow<str> for ToolId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ToolId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One call within one session, and the number of its attempt. The result of a stale attempt is recorded and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallRef {
    pub call: CallNumber,
    pub attempt: u32,
}

/// A call's number within its session, from 1, in the order the calls were delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallNumber(pub u64);

impl CallNumber {
    /// Reads the call's name as clients have it; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("call-")?;
        let number = Self(digits.parse().ok()?);
        // Each number has one spelling: no sign, no leading zero.
        (number.0 > 0 && number.to_string() == text).then_some(number)
    }
}

impl fmt::Display for CallNumber {
    /// The call's name for clients: `call-7`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "call-{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{CallNumber, ToolId};

    #[test]
    fn a_call_is_known_by_the_name_that_clients_are_told() {
        let long = format!("call-{}", "9".repeat(40));
        for (text, call) in [
            ("call-7", Some(CallNumber(7))),
            ("call-18446744073709551615", Some(CallNumber(u64::MAX))),
            ("call-18446744073709551616", None),
            ("call-0", None),
            ("call-07", None),
            ("call-+7", None),
            ("call- 7", None),
            ("Call-7", None),
            ("7", None),
            ("", None),
            (&long, None),
        ] {
            assert_eq!(CallNumber::parse(text), call, "{text}");
        }
    }

    #[test]
    fn a_tool_id_is_lower_case_snake_and_at_most_63_long() {
        for (text, good) in [
            ("kb_search", true),
            ("a", true),
            (&"a".repeat(63), true),
            (&"a".repeat(64), false),
            ("", false),
            ("1st", false),
            ("_a", false),
            ("kb-search", false),
            ("Kb", false),
            ("kb search", false),
            ("ké", false),
        ] {
            assert_eq!(ToolId::parse(text).is_some(), good, "{text:?}");
        }
    }
}
