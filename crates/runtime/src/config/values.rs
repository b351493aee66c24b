//! What a single value may be: newtypes that hold only what makes sense. Knows no key.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Value;
use windlass_provider::gemini_live::address::{Backend, Credentials};
use windlass_provider::gemini_live::{Sensitivity, ThinkingLevel};
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

/// What is wrong with a value and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) cause: String,
    pub(super) cure: String,
}

impl Problem {
    pub(super) fn new(cause: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            cure: cure.into(),
        }
    }
}

/// A type that a key can have.
pub(super) trait Setting: Sized {
    fn read(value: &Value) -> Result<Self, Problem>;
}

fn text(value: &Value) -> Result<&str, Problem> {
    value
        .as_str()
        .ok_or_else(|| Problem::new("is no text", "write it in quotes"))
}

impl Setting for bool {
    fn read(value: &Value) -> Result<Self, Problem> {
        value
            .as_bool()
            .ok_or_else(|| Problem::new("is neither true nor false", "write one of them"))
    }
}

/// A whole number within limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whole<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    pub fn get(self) -> u64 {
        self.0
    }

    /// As the number of 32 bits that most limits fit; a greater one is cut to the greatest.
    pub fn narrow(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// As a count of things in memory.
    pub fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> Setting for Whole<MIN, MAX> {
    fn read(value: &Value) -> Result<Self, Problem> {
        let cure = || format!("write a whole number from {MIN} to {MAX}");
        let number = value
            .as_integer()
            .ok_or_else(|| Problem::new("is no whole number", cure()))?;
        match u64::try_from(number) {
            Ok(number) if number < MIN => Err(Problem::new("is too small", cure())),
            Ok(number) if number > MAX => Err(Problem::new("is too large", cure())),
            Ok(number) => Ok(Self(number)),
            Err(_) => Err(Problem::new("is below zero", cure())),
        }
    }
}

/// How daring a model is, 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature(f64);

impl Temperature {
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Setting for Temperature {
    fn read(value: &Value) -> Result<Self, Problem> {
        let whole = value
            .as_integer()
            .and_then(|number| i32::try_from(number).ok());
        let number = value.as_float().or(whole.map(f64::from));
        match number {
            Some(number) if (0.0..=2.0).contains(&number) => Ok(Self(number)),
            Some(_) => Err(Problem::new(
                "is out of range",
                "write a number from 0 to 2",
            )),
            None => Err(Problem::new("is no number", "write a number from 0 to 2")),
        }
    }
}

/// A name or phrase without control characters, 1 to 256 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(String);

impl Words {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for Words {
    fn read(value: &Value) -> Result<Self, Problem> {
        let text = text(value)?;
        if text.trim().is_empty() {
            Err(Problem::new(
                "is empty",
                "write something, or leave the key out",
            ))
        } else if text.chars().any(char::is_control) || text.chars().count() > 256 {
            Err(Problem::new(
                "is too long or holds control characters",
                "write at most 256 printable characters",
            ))
        } else {
            Ok(Self(text.trim().to_owned()))
        }
    }
}

/// A name without spaces, as model ids and regions are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for Name {
    fn read(value: &Value) -> Result<Self, Problem> {
        let words = Words::read(value)?;
        if words.0.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(words.0))
        } else {
            Err(Problem::new(
                "holds spaces or letters beyond ASCII",
                "write it exactly as the provider does",
            ))
        }
    }
}

/// The name of an HTTP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header(http::HeaderName);

impl Header {
    pub fn get(&self) -> &http::HeaderName {
        &self.0
    }
}

impl Setting for Header {
    fn read(value: &Value) -> Result<Self, Problem> {
        text(value)?
            .trim()
            .parse()
            .map(Self)
            .map_err(|_| Problem::new("is no name of a header", "write it as in X-Forwarded-User"))
    }
}

impl Setting for PathBuf {
    fn read(value: &Value) -> Result<Self, Problem> {
        let text = text(value)?;
        if text.is_empty() || text.contains('\0') {
            return Err(Problem::new("is no path", "name a file or folder"));
        }
        Ok(Self::from(text))
    }
}

/// Where the server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(SocketAddr);

impl ListenAddress {
    pub fn get(self) -> SocketAddr {
        self.0
    }
}

impl Setting for ListenAddress {
    fn read(value: &Value) -> Result<Self, Problem> {
        let text = text(value)?;
        // The one name that needs no look-up.
        let text = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        text.parse().map(Self).map_err(|_| {
            Problem::new(
                "is no address and port",
                "write it as in 127.0.0.1:8080, or [::]:8080 for all networks",
            )
        })
    }
}

/// A web origin as browsers send it: scheme, host, and port where it is not the usual one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllowedOrigin(String);

impl AllowedOrigin {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let lower = text.trim().to_ascii_lowercase();
        let (scheme, host) = lower.split_once("://")?;
        let usual_port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return None,
        };
        let host = host.strip_suffix(usual_port).unwrap_or(host);
        let is_host = !host.is_empty()
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
        is_host.then(|| Self(format!("{scheme}://{host}")))
    }
}

impl Setting for BTreeSet<AllowedOrigin> {
    fn read(value: &Value) -> Result<Self, Problem> {
        let cure = "write a list such as [\"https://example.org\"]";
        let items = value
            .as_array()
            .ok_or_else(|| Problem::new("is no list", cure))?;
        items
            .iter()
            .map(|item| item.as_str().and_then(AllowedOrigin::parse))
            .collect::<Option<Self>>()
            .ok_or_else(|| Problem::new("holds something that is no web origin", cure))
    }
}

/// Where the provider is, in place of its own host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderUrl(String);

impl ProviderUrl {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for ProviderUrl {
    fn read(value: &Value) -> Result<Self, Problem> {
        let url = text(value)?;
        let backend = Backend::DeveloperApi { version: None };
        match backend.address(None, Some(url)) {
            Ok(_) => Ok(Self(url.trim().to_owned())),
            Err(_) => Err(Problem::new(
                "is no address of a provider",
                "write it as in wss://host/path, without user, query or fragment",
            )),
        }
    }
}

/// The address of a service over HTTP, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebAddress(String);

impl WebAddress {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for WebAddress {
    fn read(value: &Value) -> Result<Self, Problem> {
        let url = text(value)?.trim().trim_end_matches('/');
        let uri = url.parse::<http::Uri>().ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri
                    .authority()
                    .is_some_and(|host| !host.as_str().contains('@'))
                && uri.query().is_none()
        });
        match uri {
            Some(_) => Ok(Self(url.to_owned())),
            None => Err(Problem::new(
                "is no web address",
                "write it as in https://host/path, without user, query or fragment",
            )),
        }
    }
}

/// What the names of Gemini's ephemeral tokens begin with.
const EPHEMERAL_TOKEN_PREFIX: &str = "auth_tokens/";

/// A key or token, checked for what a header can carry. `Debug` shows none of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret(Sensitive<String>);

impl Secret {
    pub fn sensitive(&self) -> Sensitive<String> {
        self.0.clone()
    }

    /// Whether it is a token of Gemini's that was put in the place of a key, as Google's own SDKs take it.
    pub fn is_ephemeral_token(&self) -> bool {
        self.0.expose().starts_with(EPHEMERAL_TOKEN_PREFIX)
    }
}

impl Setting for Secret {
    fn read(value: &Value) -> Result<Self, Problem> {
        let secret = Sensitive(text(value)?.trim().to_owned());
        let credentials = Credentials::ApiKey(secret.clone());
        let probe = Backend::DeveloperApi { version: None }.address(Some(&credentials), None);
        if probe.is_err() || secret.expose().len() > 8_192 {
            return Err(Problem::new(
                "is no key or token",
                "copy it as the provider shows it, one line without spaces",
            ));
        }
        Ok(Self(secret))
    }
}

/// Reads one of several words.
pub(super) fn choice<T: Copy>(value: &Value, choices: &[(&str, T)]) -> Result<T, Problem> {
    let found = value
        .as_str()
        .and_then(|text| choices.iter().find(|(name, _)| *name == text));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        Problem::new(
            "is no choice here",
            format!("write one of {}", names.join(", ")),
        )
    })
}

macro_rules! choices {
    ($type:ty { $($name:literal => $value:expr),+ $(,)? }) => {
        impl Setting for $type {
            fn read(value: &Value) -> Result<Self, Problem> {
                $crate::config::values::choice(value, &[$(($name, $value)),+])
            }
        }
    };
}
pub(super) use choices;

choices!(Sensitivity {
    "high" => Self::High,
    "low" => Self::Low,
});
choices!(ThinkingLevel {
    "minimal" => Self::Minimal,
    "low" => Self::Low,
    "medium" => Self::Medium,
    "high" => Self::High,
});

impl Setting for Vec<Mode> {
    fn read(value: &Value) -> Result<Self, Problem> {
        let items = value
            .as_array()
            .ok_or_else(|| Problem::new("is no list", "write a list of text and voice"))?;
        items
            .iter()
            .map(|item| choice(item, &[("text", Mode::Text), ("voice", Mode::Voice)]))
            .collect()
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
