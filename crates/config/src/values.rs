//! Types of single values: each holds only valid values, and has the words that name them. Knows no key.

use super::key::{Kind, Leaf, Named, whole};
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::Path;
use windlass_calendar::WorkingHours;
use windlass_contract::condition::{LIST_ITEMS_MAX, TEXT_CHARACTERS_MAX, Values, is_value_name};
use windlass_contract::id::ToolId;
use windlass_contract::kind::Mode;
use windlass_contract::rights::Role;
use windlass_contract::sensitive::Sensitive;
use windlass_contract::version::Version;
use windlass_provider::gemini_live::address::{Backend, Credentials};
use windlass_provider::gemini_live::{Sensitivity, ThinkingLevel};
use windlass_provider::profile::is_row;
use windlass_provider::provider_tools::ProviderTool;
use windlass_runtime::fetch::Endpoint;
use windlass_runtime::redaction::remember;

/// A value that its key refuses. The key says which values fit.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("does not fit")]
pub struct Unfit;

impl Leaf for bool {
    const KIND: Kind = Kind::Flag;

    fn takes() -> String {
        "true or false".to_owned()
    }
}

/// A whole number within limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "u64")]
pub struct Whole<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    pub fn get(self) -> u64 {
        self.0
    }

    /// The number in the 32 bits that most limits have; a greater one becomes the greatest.
    pub fn narrow(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// The number as a count of things in memory.
    pub fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> TryFrom<u64> for Whole<MIN, MAX> {
    type Error = Unfit;

    fn try_from(number: u64) -> Result<Self, Unfit> {
        let fits = (MIN..=MAX).contains(&number);
        fits.then_some(Self(number)).ok_or(Unfit)
    }
}

impl<const MIN: u64, const MAX: u64> Leaf for Whole<MIN, MAX> {
    const KIND: Kind = Kind::Whole;

    fn takes() -> String {
        whole(MIN, MAX)
    }

    fn bounds() -> Option<(u64, u64)> {
        Some((MIN, MAX))
    }
}

/// How daring a model is, 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Temperature(f64);

impl Temperature {
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Temperature {
    type Error = Unfit;

    fn try_from(number: f64) -> Result<Self, Unfit> {
        let fits = (0.0..=2.0).contains(&number);
        fits.then_some(Self(number)).ok_or(Unfit)
    }
}

impl Leaf for Temperature {
    const KIND: Kind = Kind::Fraction;

    fn takes() -> String {
        "a number from 0 to 2".to_owned()
    }
}

/// Declares a type of text with a form: the words for the form, and the check of a text.
macro_rules! text {
    ($(#[$about:meta])* $name:ident, $takes:literal, $check:expr) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Unfit;

            fn try_from(text: String) -> Result<Self, Unfit> {
                let check: fn(&str) -> Option<String> = $check;
                check(&text).map(Self).ok_or(Unfit)
            }
        }

        impl Leaf for $name {
            fn takes() -> String {
                $takes.to_owned()
            }
        }
    };
}

text!(
    /// A name or phrase.
    Words,
    "a text of 1 to 256 printable characters",
    |text| {
        let text = text.trim();
        let fits = !text.is_empty()
            && !text.chars().any(char::is_control)
            && text.chars().count() <= 256;
        fits.then(|| text.to_owned())
    }
);

text!(
    /// A name without spaces, as model ids and regions are.
    Name,
    "a name in ASCII without spaces",
    |text| {
        let text = text.trim();
        let fits = (1..=256).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| text.to_owned())
    }
);

text!(
    /// The name of a built-in profile.
    ProfileRow,
    "the name of a model family or of a server in the tables of docs/providers.md",
    |text| is_row(text.trim()).then(|| text.trim().to_owned())
);

text!(
    /// A file or a folder.
    FilePath,
    "a path",
    |text| (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned())
);

impl Deref for FilePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        Path::new(&self.0)
    }
}

text!(
    /// A web origin as browsers send it: scheme, host, and port where it is not the usual one.
    AllowedOrigin,
    "a web origin such as https://example.org",
    |text| {
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
        is_host.then(|| format!("{scheme}://{host}"))
    }
);

text!(
    /// A host as browsers name it: a name or an address, and a port where only that one is meant.
    AllowedHost,
    "a host such as agent.example, 192.0.2.7 or [2001:db8::1]:8080, without a scheme",
    |text| {
        let host: http::uri::Authority = text.trim().to_ascii_lowercase().parse().ok()?;
        let is_plain = !host.as_str().contains(['@', '*', '%']) && !host.host().is_empty();
        let has_port = host.as_str() == host.host() || host.port_u16().is_some();
        (is_plain && has_port).then(|| host.as_str().to_owned())
    }
);

impl AllowedHost {
    /// Whether a request that names this host, and perhaps a port, means it.
    pub fn fits(&self, name: &str, port: Option<u16>) -> bool {
        match self.0.parse::<http::uri::Authority>() {
            Ok(own) => {
                own.host().eq_ignore_ascii_case(name)
                    && own.port_u16().is_none_or(|own| Some(own) == port)
            }
            Err(_) => false,
        }
    }
}

text!(
    /// The provider's address, in place of its own host.
    ProviderUrl,
    "an address such as wss://host/path, without user, query or fragment",
    |text| {
        let backend = Backend::DeveloperApi { version: None };
        let address = backend.address(None, Some(text));
        address.is_ok().then(|| text.trim().to_owned())
    }
);

text!(
    /// The address of a service over HTTP, with the path before that of every request; without a slash at its end.
    WebAddress,
    "an address such as https://host/path, without user, query or fragment",
    |text| {
        let text = text.trim().trim_end_matches('/');
        is_web_address(text).then(|| text.to_owned())
    }
);

text!(
    /// The address of an OpenID provider, as it writes it itself: with a slash at its end or without.
    IssuerAddress,
    "an address such as https://host/path, without user, query or fragment",
    |text| {
        let text = text.trim();
        is_web_address(text.trim_end_matches('/')).then(|| text.to_owned())
    }
);

fn is_web_address(text: &str) -> bool {
    let is_named = |uri: http::Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    };
    text.parse().is_ok_and(is_named) && !text.contains(['@', '?', '#'])
}

impl IssuerAddress {
    pub fn is_encrypted(&self) -> bool {
        self.0.starts_with("https:")
    }
}

impl WebAddress {
    pub fn is_encrypted(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// Whether it names more than a host.
    pub fn has_path(&self) -> bool {
        let behind_scheme = self.0.split_once("://");
        behind_scheme.is_some_and(|(_, rest)| rest.contains('/'))
    }
}

text!(
    /// A host that tools may ask, and its port where it is not the usual one.
    FetchPlace,
    "a host such as api.example.com, or a host and port such as 127.0.0.1:3000",
    |text| text.parse::<Endpoint>().ok().map(|place| place.to_string())
);

impl FetchPlace {
    pub fn get(&self) -> Endpoint {
        self.0
            .parse()
            .expect("it was written from a place when it was checked")
    }
}

text!(
    /// The name of an HTTP header, as it was written: a mistake is found in the file by it.
    HeaderLabel,
    "the name of an HTTP header",
    |text| text.parse::<http::HeaderName>().ok().map(|_| text.to_owned())
);

text!(
    /// The address of an MCP server, as it writes it itself: with a slash at its end or without, and perhaps with a query.
    McpUrl,
    "an address such as https://host/mcp, without user or fragment",
    |text| {
        let text = text.trim();
        let (place, _) = text.split_once('?').unwrap_or((text, ""));
        let is_whole: Result<http::Uri, _> = text.parse();
        (is_whole.is_ok() && is_web_address(place) && !text.contains('#')).then(|| text.to_owned())
    }
);

text!(
    /// A program, or one of its arguments.
    Argument,
    "a text",
    |text| (!text.contains('\0') && text.len() <= 4_096).then(|| text.to_owned())
);

/// The name of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct McpName(String);

/// No file of a tool could name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no MCP server can have that name; names have 1 to 64 letters, digits, hyphens and underscores"
)]
pub struct NoMcpName;

impl McpName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for McpName {
    type Error = NoMcpName;

    fn try_from(name: String) -> Result<Self, NoMcpName> {
        let fits = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        fits.then_some(Self(name)).ok_or(NoMcpName)
    }
}

text!(
    /// A scope that an authorization server can be asked for (RFC 6749, section 3.3).
    TokenScope,
    "a scope of 1 to 256 characters, without spaces, quotes and backslashes",
    |text| {
        let fits = (1..=256).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
        fits.then(|| text.to_owned())
    }
);

/// The name of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ConnectionName(String);

/// No file of a tool could name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no connection can have that name; names have 1 to 64 letters, digits, hyphens and underscores"
)]
pub struct NoConnectionName;

impl ConnectionName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Leaf for ConnectionName {
    fn takes() -> String {
        "the name of a connection, such as shop".to_owned()
    }
}

impl TryFrom<String> for ConnectionName {
    type Error = NoConnectionName;

    fn try_from(name: String) -> Result<Self, NoConnectionName> {
        let fits = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        fits.then_some(Self(name)).ok_or(NoConnectionName)
    }
}

text!(
    /// The name of an environment variable.
    VariableName,
    "the name of an environment variable, such as DATABASE_URL",
    |text| SecretName::try_from(text.to_owned()).ok().map(|name| name.0)
);

/// The name of a secret, which is the end of an environment variable's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct SecretName(String);

/// No file of a tool could name it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "no secret can have that name; names have letters, digits and underscores, and begin with no digit"
)]
pub struct NoSecretName;

impl SecretName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Leaf for SecretName {
    fn takes() -> String {
        "the name of a secret, such as SHOP_KEY".to_owned()
    }
}

impl TryFrom<String> for SecretName {
    type Error = NoSecretName;

    fn try_from(name: String) -> Result<Self, NoSecretName> {
        let fits = name.len() <= 128
            && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        fits.then_some(Self(name)).ok_or(NoSecretName)
    }
}

/// The name of a value that conditions read, as it was written; [`ValueName::is_good`] says whether one can name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct ValueName(String);

impl ValueName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_good(&self) -> bool {
        is_value_name(&self.0)
    }
}

/// A value that conditions read: a text, a number, true or false, or a list of texts or of numbers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub struct ConditionValue(serde_json::Value);

impl ConditionValue {
    pub fn get(&self) -> &serde_json::Value {
        &self.0
    }
}

impl Leaf for ConditionValue {
    const KIND: Kind = Kind::Plain;

    fn takes() -> String {
        format!(
            "a text of {TEXT_CHARACTERS_MAX} characters at most, a number, true or false, or a list of {LIST_ITEMS_MAX} texts or \
             numbers at most"
        )
    }
}

impl TryFrom<toml::Value> for ConditionValue {
    type Error = Unfit;

    fn try_from(value: toml::Value) -> Result<Self, Unfit> {
        let value = plain(value).ok_or(Unfit)?;
        Values::check(&value).map_err(|_| Unfit)?;
        Ok(Self(value))
    }
}

/// The value as JSON; `None` if JSON has no such value.
fn plain(value: toml::Value) -> Option<serde_json::Value> {
    Some(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)?.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Array(items) => {
            let items = items.into_iter().map(plain);
            items.collect::<Option<Vec<_>>>()?.into()
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}

/// A namespace that a record can be in, as the knowledge base has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct NamespaceName(String);

/// A rule for such a namespace would protect nothing.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "no record can be in a namespace of that name; names have at most 63 small letters, digits and underscores and begin \
     with a letter"
)]
pub struct NoNamespace;

impl NamespaceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NamespaceName {
    type Error = NoNamespace;

    fn try_from(name: String) -> Result<Self, NoNamespace> {
        let fits = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            && name.len() <= 63;
        fits.then_some(Self(name)).ok_or(NoNamespace)
    }
}

/// The number of a tool's version, where it is the name of a table: two spellings of one number are two tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct VersionName(Version);

impl PartialEq for VersionName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for VersionName {}

impl PartialOrd for VersionName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for VersionName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

/// A name that is no number of a version.
#[derive(Clone, Debug, thiserror::Error)]
#[error("\"{0}\" is not a semantic version; write one in quotes, as in \"1.2.0\"")]
pub struct NoVersion(String);

impl VersionName {
    pub fn get(&self) -> &Version {
        &self.0
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl TryFrom<String> for VersionName {
    type Error = NoVersion;

    fn try_from(text: String) -> Result<Self, NoVersion> {
        let version = Version::parse(&text);
        let refuse = || NoVersion(text.chars().take(64).collect());
        version.map(Self).ok_or_else(refuse)
    }
}

/// The name of an HTTP header.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Header(http::HeaderName);

impl Header {
    pub fn get(&self) -> &http::HeaderName {
        &self.0
    }
}

impl TryFrom<String> for Header {
    type Error = Unfit;

    fn try_from(text: String) -> Result<Self, Unfit> {
        text.trim().parse().map(Self).map_err(|_| Unfit)
    }
}

impl Leaf for Header {
    fn takes() -> String {
        "the name of a header such as X-Forwarded-User".to_owned()
    }
}

/// The address of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ProxyAddress(IpAddr);

impl ProxyAddress {
    pub fn get(self) -> IpAddr {
        self.0
    }
}

impl TryFrom<String> for ProxyAddress {
    type Error = Unfit;

    fn try_from(text: String) -> Result<Self, Unfit> {
        let address: IpAddr = text.trim().parse().map_err(|_| Unfit)?;
        Ok(Self(address.to_canonical()))
    }
}

impl Leaf for ProxyAddress {
    fn takes() -> String {
        "an address such as 10.0.0.1".to_owned()
    }
}

/// The name of a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct RoleName(Role);

impl RoleName {
    pub fn get(&self) -> &Role {
        &self.0
    }
}

impl TryFrom<String> for RoleName {
    type Error = Unfit;

    fn try_from(text: String) -> Result<Self, Unfit> {
        Role::parse(text.trim()).map(Self).ok_or(Unfit)
    }
}

impl Leaf for RoleName {
    fn takes() -> String {
        "a role, in letters, digits and marks out of . _ : / -".to_owned()
    }
}

/// A time zone, by its name of the IANA.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ZoneName(String);

impl ZoneName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ZoneName {
    type Error = Unfit;

    fn try_from(text: String) -> Result<Self, Unfit> {
        let is_known = windlass_calendar::zone(&text).is_some();
        is_known.then_some(Self(text)).ok_or(Unfit)
    }
}

impl Leaf for ZoneName {
    fn takes() -> String {
        "a time zone of the IANA, such as Europe/Oslo".to_owned()
    }
}

/// The name by which tools call a calendar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct CalendarName(String);

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no calendar can have that name; names have 1 to 64 printable characters")]
pub struct NoCalendarName;

impl CalendarName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CalendarName {
    type Error = NoCalendarName;

    fn try_from(name: String) -> Result<Self, NoCalendarName> {
        let is_name =
            (1..=64).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        is_name.then_some(Self(name)).ok_or(NoCalendarName)
    }
}

/// The hours in which people can be met, by day of the week.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct WorkingTimes(WorkingHours);

impl WorkingTimes {
    pub fn get(&self) -> &WorkingHours {
        &self.0
    }
}

impl TryFrom<String> for WorkingTimes {
    type Error = Unfit;

    fn try_from(text: String) -> Result<Self, Unfit> {
        text.parse().map(Self).map_err(|_| Unfit)
    }
}

impl Leaf for WorkingTimes {
    fn takes() -> String {
        "days and hours that do not overlap, such as Mon-Fri 09:00-17:00, Sat 10:00-14:00; nothing for always".to_owned()
    }
}

/// An address, or all that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct AddressRange {
    address: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Whether an address is within the range. An IPv4 address that arrives as IPv6 counts as IPv4.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl TryFrom<String> for AddressRange {
    type Error = Unfit;

    fn try_from(text: String) -> Result<Self, Unfit> {
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| Unfit)?)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| Unfit)?;
        let most = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let bits = bits.unwrap_or(most);
        (bits <= most)
            .then_some(Self { address, bits })
            .ok_or(Unfit)
    }
}

impl Leaf for AddressRange {
    fn takes() -> String {
        "an address such as 10.0.0.5, or a range such as 10.1.0.0/16".to_owned()
    }
}

/// The address at which the server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ListenAddress(SocketAddr);

impl ListenAddress {
    pub fn get(self) -> SocketAddr {
        self.0
    }

    /// The same address with another port; a port beyond the last becomes the last.
    pub fn at(self, port: u32) -> Self {
        let mut address = self.0;
        address.set_port(u16::try_from(port).unwrap_or(u16::MAX));
        Self(address)
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = Unfit;

    fn try_from(text: String) -> Result<Self, Unfit> {
        // The one name that needs no look-up.
        let text = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text,
        };
        text.parse().map(Self).map_err(|_| Unfit)
    }
}

impl Leaf for ListenAddress {
    fn takes() -> String {
        "an address and port such as 127.0.0.1:8080, or [::]:8080 for all networks".to_owned()
    }
}

/// The prefix of the names of Gemini's ephemeral tokens.
const EPHEMERAL_TOKEN_PREFIX: &str = "auth_tokens/";

/// A key or token, checked for what a header can carry. `Debug` shows none of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
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

impl TryFrom<String> for Secret {
    type Error = Unfit;

    fn try_from(text: String) -> Result<Self, Unfit> {
        let secret = Sensitive(text.trim().to_owned());
        let credentials = Credentials::ApiKey(secret.clone());
        let probe = Backend::DeveloperApi { version: None }.address(Some(&credentials), None);
        let fits = probe.is_ok() && secret.expose().len() <= 8_192;
        if fits {
            // A provider that repeats it in an error repeats it to no log.
            remember(&secret);
        }
        fits.then_some(Self(secret)).ok_or(Unfit)
    }
}

impl Leaf for Secret {
    const IS_SECRET: bool = true;

    fn takes() -> String {
        "a key or token in one line without spaces, as the provider shows it".to_owned()
    }
}

/// The names of an enumeration's values, which its `Deserialize` alone knows, taken from the error about an unknown one.
#[derive(Debug)]
struct Variants(&'static [&'static str]);

impl serde::de::Error for Variants {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }

    fn unknown_variant(_: &str, names: &'static [&'static str]) -> Self {
        Self(names)
    }
}

impl std::error::Error for Variants {}

impl fmt::Display for Variants {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "one of {}", self.0.join(", "))
    }
}

pub(super) fn one_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    match T::deserialize(StrDeserializer::<Variants>::new("")) {
        Err(Variants(names)) => names,
        Ok(_) => &[],
    }
}

/// Makes enumerations usable as values of keys.
macro_rules! choices {
    ($($type:ty),+ $(,)?) => {
        $(impl $crate::key::Leaf for $type {
            fn takes() -> String {
                format!("one of {}", Self::choices().join(", "))
            }

            fn choices() -> &'static [&'static str] {
                $crate::values::one_of::<Self>()
            }
        })+
    };
}
pub(super) use choices;

choices!(Mode, ProviderTool, Sensitivity, ThinkingLevel);

/// A model's id, with or without `models/`.
pub type ModelId = String;

impl Named for ModelId {
    const PLACEHOLDER: &str = "MODEL";
}

impl Named for ToolId {
    const PLACEHOLDER: &str = "TOOL";
}

impl Named for VersionName {
    const PLACEHOLDER: &str = "VERSION";
}

impl Leaf for Version {
    fn takes() -> String {
        "a semantic version, such as 1.2.0".to_owned()
    }
}

impl Named for CalendarName {
    const PLACEHOLDER: &str = "CALENDAR";
}

impl Named for NamespaceName {
    const PLACEHOLDER: &str = "NAMESPACE";
}

impl Named for ValueName {
    const PLACEHOLDER: &str = "NAME";
}

impl Named for SecretName {
    const PLACEHOLDER: &str = "SECRET";
}

impl Named for McpName {
    const PLACEHOLDER: &str = "SERVER";
}

impl Named for ConnectionName {
    const PLACEHOLDER: &str = "CONNECTION";
}

impl Named for HeaderLabel {
    const PLACEHOLDER: &str = "HEADER";
}
