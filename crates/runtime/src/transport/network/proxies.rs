//! The proxy for each host, by the variables that other programs read, too. Opens no connection, and never shows a proxy's
//! credentials.

use crate::transport::websocket::Address;
use http::header::HeaderValue;
use std::net::IpAddr;
use std::sync::Arc;

/// Exceptions that are read; lists are written by hand.
const EXCEPTIONS_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{variable}: this is no address of a proxy: {problem}; write http://HOST:PORT or https://HOST:PORT, before the host USER:PASSWORD@ where it wants them"
)]
pub struct ProxyError {
    pub variable: &'static str,
    pub problem: String,
}

/// A proxy for HTTP.
pub(crate) struct Proxy {
    pub(crate) variable: &'static str,
    pub(crate) address: Address,
    /// The value of `Proxy-Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Proxy {
    /// The proxy's address and variable, without credentials.
    pub(crate) fn shown(&self) -> String {
        format!("{} ({})", self.address.authority, self.variable)
    }

    fn new(variable: &'static str, url: &str) -> Result<Self, ProxyError> {
        let refuse = |problem: &str| ProxyError {
            variable,
            problem: problem.to_owned(),
        };
        let url = url.trim();
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            // Other text before a :// may be a part of a password.
            let is_name =
                scheme.len() <= 20 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let shown = if is_name {
                scheme.as_str()
            } else {
                "before its ://"
            };
            return Err(refuse(&format!("the scheme {shown} is not spoken")));
        }
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // A password may hold an unescaped @.
        let (credentials, host) = match place.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, place),
        };
        let address = Address::of_schemes(&format!("{scheme}://{host}"), ["http", "https"])
            .map_err(|_| refuse("it has no host, or one that cannot be read"))?;
        if address.host.is_empty() {
            return Err(refuse("it has no host"));
        }
        let authorization = credentials.map(|credentials| {
            let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
            let pair = [&unescaped(user)[..], b":", &unescaped(password)[..]].concat();
            let basic = format!("Basic {}", base64_simd::STANDARD.encode_to_string(pair));
            let mut value =
                HeaderValue::from_str(&basic).expect("base64 has characters of headers alone");
            value.set_sensitive(true);
            value
        });
        Ok(Self {
            variable,
            address,
            authorization,
        })
    }
}

/// `%40` is an @.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = (*first == b'%')
            .then(|| std::str::from_utf8(behind.get(..2)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}

/// The proxies of plain and of secure connections, and the hosts that are reached without them.
pub(super) struct Proxies {
    plain: Option<Arc<Proxy>>,
    secure: Option<Arc<Proxy>>,
    exceptions: Vec<Exception>,
}

impl Proxies {
    pub(super) fn new(
        plain: Option<(&'static str, &str)>,
        secure: Option<(&'static str, &str)>,
        exceptions: &str,
    ) -> Result<Self, ProxyError> {
        let made = |set: Option<(&'static str, &str)>| {
            set.map(|(variable, url)| Proxy::new(variable, url).map(Arc::new))
                .transpose()
        };
        let exceptions = exceptions.split([',', ' ', '\t']);
        Ok(Self {
            plain: made(plain)?,
            secure: made(secure)?,
            exceptions: exceptions
                .filter_map(Exception::parse)
                .take(EXCEPTIONS_MAX)
                .collect(),
        })
    }

    pub(super) fn shown(&self) -> Vec<String> {
        let mut shown: Vec<_> = [&self.secure, &self.plain]
            .into_iter()
            .flatten()
            .map(|proxy| proxy.shown())
            .collect();
        shown.dedup();
        shown
    }

    /// The proxy of a host. This machine is reached directly, whatever the variables say.
    pub(super) fn of(&self, host: &str, port: u16, is_secure: bool) -> Option<Arc<Proxy>> {
        let proxy = match is_secure {
            true => self.secure.as_ref(),
            false => self.plain.as_ref(),
        }?;
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok();
        let is_here = match address {
            Some(address) => address.to_canonical().is_loopback(),
            None => host == "localhost" || host.ends_with(".localhost"),
        };
        let goes_past = |exception: &Exception| exception.has(&host, address, port);
        (!is_here && !self.exceptions.iter().any(goes_past)).then(|| proxy.clone())
    }
}

/// One item of `NO_PROXY`.
#[derive(Debug, PartialEq, Eq)]
enum Exception {
    Everything,
    Address(IpAddr, Option<u16>),
    Range(IpAddr, u8),
    /// A name with all names beneath it; or only the names beneath.
    Name {
        name: String,
        port: Option<u16>,
        itself: bool,
    },
}

impl Exception {
    fn parse(item: &str) -> Option<Self> {
        let item = item.trim().to_ascii_lowercase();
        if item == "*" {
            return Some(Self::Everything);
        }
        if let Some((address, bits)) = item.split_once('/') {
            let address: IpAddr = address.parse().ok()?;
            let bits: u8 = bits.parse().ok()?;
            let bits_max = if address.is_ipv4() { 32 } else { 128 };
            return (bits <= bits_max).then_some(Self::Range(address, bits));
        }
        if let Ok(address) = item.trim_matches(['[', ']']).parse() {
            return Some(Self::Address(address, None));
        }
        let (host, port) = match item.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (item.as_str(), None),
        };
        if let Ok(address) = host.trim_matches(['[', ']']).parse() {
            return Some(Self::Address(address, port));
        }
        let beneath = host.strip_prefix("*.").or_else(|| host.strip_prefix('.'));
        let name = beneath.unwrap_or(host).trim_end_matches('.').to_owned();
        (!name.is_empty()).then_some(Self::Name {
            name,
            port,
            itself: beneath.is_none(),
        })
    }

    fn has(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        let fits = |named: &Option<u16>| named.is_none_or(|named| named == port);
        match self {
            Self::Everything => true,
            Self::Address(known, named) => {
                fits(named)
                    && address.is_some_and(|found| found.to_canonical() == known.to_canonical())
            }
            Self::Range(base, bits) => address.is_some_and(|found| is_within(found, *base, *bits)),
            Self::Name {
                name,
                port: named,
                itself,
            } => {
                let beneath = host
                    .strip_suffix(name.as_str())
                    .is_some_and(|before| before.ends_with('.'));
                fits(named) && (beneath || (*itself && host == name))
            }
        }
    }
}

fn is_within(address: IpAddr, base: IpAddr, bits: u8) -> bool {
    match (address.to_canonical(), base) {
        (IpAddr::V4(address), IpAddr::V4(base)) => {
            let shift = 32 - u32::from(bits);
            let cut = |address: u32| address.checked_shr(shift).unwrap_or(0);
            cut(address.to_bits()) == cut(base.to_bits())
        }
        (IpAddr::V6(address), IpAddr::V6(base)) => {
            let shift = 128 - u32::from(bits);
            let cut = |address: u128| address.checked_shr(shift).unwrap_or(0);
            cut(address.to_bits()) == cut(base.to_bits())
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_read_as_other_programs_read_them() {
        let proxies = |exceptions| {
            let set = Some(("HTTPS_PROXY", "http://proxy.example:3128"));
            Proxies::new(set, set, exceptions).unwrap()
        };
        for (exceptions, host, port, goes_through) in [
            ("", "api.example.com", 443, true),
            ("", "localhost", 443, false),
            ("", "a.localhost", 443, false),
            ("", "127.8.8.8", 80, false),
            ("", "::1", 80, false),
            ("*", "api.example.com", 443, false),
            ("example.com", "example.com", 443, false),
            ("example.com", "API.Example.com.", 443, false),
            ("example.com", "badexample.com", 443, true),
            (".example.com", "example.com", 443, true),
            (".example.com", "api.example.com", 443, false),
            ("*.example.com", "api.example.com", 443, false),
            ("example.com:8443", "example.com", 443, true),
            ("example.com:8443", "example.com", 8443, false),
            ("other, example.com", "example.com", 443, false),
            ("other example.com", "example.com", 443, false),
            ("10.0.0.0/8", "10.200.1.1", 443, false),
            ("10.0.0.0/8", "11.0.0.1", 443, true),
            ("0.0.0.0/0", "11.0.0.1", 443, false),
            ("fd00::/8", "fd12::1", 443, false),
            ("10.0.0.1", "10.0.0.1", 443, false),
            ("10.0.0.1:80", "10.0.0.1", 443, true),
            ("10.0.0.0/99, a:b, :, .", "10.0.0.1", 443, true),
        ] {
            let found = proxies(exceptions).of(host, port, true);
            assert_eq!(found.is_some(), goes_through, "{exceptions:?} {host}");
        }
    }

    #[test]
    fn a_proxys_address_is_read_with_its_credentials_and_shown_without() {
        for (url, expected) in [
            ("http://proxy.example:3128", Ok(None)),
            ("proxy.example:3128", Ok(None)),
            ("https://proxy.example:3128/", Ok(None)),
            (
                "http://u:p%40ss@proxy.example:3128",
                Ok(Some("Basic dTpwQHNz")),
            ),
            (
                "http://u:p@ss@proxy.example:3128",
                Ok(Some("Basic dTpwQHNz")),
            ),
            ("socks5://u:hunter2@proxy.example:1080", Err("socks5")),
            ("user:hunter2://x@proxy.example:3128", Err("before its ://")),
            ("http://", Err("no host")),
            ("http://u:hunter2@", Err("no host")),
            ("http://a b", Err("no host")),
        ] {
            match (Proxy::new("HTTPS_PROXY", url), expected) {
                (Ok(proxy), Ok(authorization)) => {
                    let found = proxy.authorization.as_ref();
                    assert_eq!(found.map(|value| value.to_str().unwrap()), authorization);
                    assert_eq!(proxy.shown(), "proxy.example:3128 (HTTPS_PROXY)");
                }
                (Err(error), Err(part)) => {
                    let text = error.to_string();
                    assert!(
                        text.starts_with("HTTPS_PROXY: ") && text.contains(part),
                        "{text}"
                    );
                    assert!(!text.contains("hunter2"), "{text}");
                }
                (found, _) => panic!("{url}: {:?}", found.err()),
            }
        }
    }
}
