//! The places that tools may reach: hosts with their ports, and the addresses that are private to this machine or its network.
//! Opens no connection.

use http::Uri;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A host, and its port if one is named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The host in small letters; an IPv6 address without brackets.
    host: String,
    port: Option<u16>,
    is_secure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a place is HOST or HOST:PORT, such as api.example.com or 127.0.0.1:3000")]
pub struct UnfitPlace;

impl Endpoint {
    /// The endpoint of a URL with `http` or `https`, without a user in it.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let is_secure = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri
            .authority()
            .filter(|found| !found.as_str().contains('@'))?;
        let host = plain_host(authority.host())?;
        Some(Self {
            host,
            port: authority.port_u16(),
            is_secure,
        })
    }

    /// The same for the text of a URL.
    pub fn of_url(url: &str) -> Option<Self> {
        Self::of(&url.parse().ok()?)
    }

    /// The named port, or the scheme's usual one.
    pub(super) fn port(&self) -> u16 {
        self.port.unwrap_or(if self.is_secure { 443 } else { 80 })
    }
}

fn plain_host(host: &str) -> Option<String> {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.');
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let is_good = !host.is_empty() && host.len() <= 253 && host.bytes().all(fits);
    is_good.then(|| host.to_ascii_lowercase())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(formatter, "[{}]", self.host)?,
            false => formatter.write_str(&self.host)?,
        }
        match self.port {
            Some(port) => write!(formatter, ":{port}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Endpoint {
    type Err = UnfitPlace;

    /// `HOST` or `HOST:PORT`; an IPv6 address in brackets, or alone.
    fn from_str(text: &str) -> Result<Self, UnfitPlace> {
        let text = text.trim();
        let (host, port) = match (text.parse::<Ipv6Addr>(), text.rsplit_once(':')) {
            (Ok(_), _) | (Err(_), None) => (text, None),
            (Err(_), Some((_, _))) if text.ends_with(']') => (text, None),
            (Err(_), Some((host, port))) => (host, Some(port.parse().map_err(|_| UnfitPlace)?)),
        };
        let is_address_6 = host.starts_with('[') && host.ends_with(']');
        if host.contains(':') && !is_address_6 && host.parse::<Ipv6Addr>().is_err() {
            return Err(UnfitPlace);
        }
        Ok(Self {
            host: plain_host(host).ok_or(UnfitPlace)?,
            port,
            is_secure: false,
        })
    }
}

/// The destinations of one way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// The endpoints that the operator lists. An address that is not public has to be listed itself.
    Listed(BTreeSet<Endpoint>),
    /// The endpoint that a tool's own file names, whatever its address: the author chose it, and no model can change it.
    Named(Endpoint),
}

impl Places {
    pub fn listed(places: impl IntoIterator<Item = Endpoint>) -> Self {
        Self::Listed(places.into_iter().collect())
    }

    pub(super) fn has(&self, place: &Endpoint) -> bool {
        match self {
            Self::Listed(listed) => listed
                .iter()
                .any(|known| known.host == place.host && fits_port(known, place)),
            Self::Named(named) => named.host == place.host && named.port() == place.port(),
        }
    }
}

/// Whether the ports agree. An entry without a port means the usual ones.
fn fits_port(known: &Endpoint, place: &Endpoint) -> bool {
    match known.port {
        Some(port) => port == place.port(),
        None => matches!(place.port(), 80 | 443),
    }
}

/// The reason why an address of a place is refused; `None` if it may be connected to.
pub(super) fn address_refusal(
    places: &Places,
    place: &Endpoint,
    address: IpAddr,
) -> Option<String> {
    let Places::Listed(listed) = places else {
        return None;
    };
    let kind = not_public(address)?;
    let is_listed = listed.iter().any(|known| {
        let is_it = known
            .host
            .parse::<IpAddr>()
            .is_ok_and(|known| known.to_canonical() == address.to_canonical())
            || (known.host == "localhost" && address.to_canonical().is_loopback());
        is_it && fits_port(known, place)
    });
    (!is_listed).then(|| {
        format!(
            "{} is at {address}, which is {kind}; list that address itself in `handlers.allow_fetch`, if tools may ask it",
            place.host
        )
    })
}

/// The kind of an address outside the public network; `None` for a public address.
fn not_public(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => not_public_4(address),
        IpAddr::V6(address) => not_public_6(address),
    }
}

fn not_public_4(address: Ipv4Addr) -> Option<&'static str> {
    let [first, second, third, _] = address.octets();
    match (first, second, third) {
        (127, _, _) => Some("this machine"),
        (0, _, _) => Some("no place to go to"),
        (10, _, _) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) | (198, 18..=19, _) => {
            Some("a private network")
        }
        (169, 254, _) => Some("a link-local address"),
        (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) | (224.., _, _) => {
            Some("no place to go to")
        }
        _ => None,
    }
}

fn not_public_6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_loopback() {
        return Some("this machine");
    }
    let [first, second, third, fourth, fifth, sixth, seventh, eighth] = address.segments();
    let inside = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        not_public_4(Ipv4Addr::new(a, b, c, d))
    };
    match first {
        0xfc00..=0xfdff => Some("a private network"),
        0xfe80..=0xfebf => Some("a link-local address"),
        0xfec0..=0xfeff => Some("a private network"),
        0xff00.. => Some("no place to go to"),
        // IPv4 addresses in IPv6 forms.
        0x0064 if second == 0xff9b => {
            inside(seventh, eighth).or((third != 0).then_some("a private network"))
        }
        0x2002 => inside(second, third),
        0 => {
            let is_old_form = [second, third, fourth, fifth, sixth] == [0; 5];
            let within = is_old_form.then(|| inside(seventh, eighth)).flatten();
            within.or(Some("no place to go to"))
        }
        // Teredo, and documentation.
        0x2001 if second == 0 || second == 0x0db8 => Some("no place to go to"),
        _ => None,
    }
}

/// The URL of a redirect's target, resolved against the place that sent it.
pub(super) fn resolved_against(base: &Uri, target: &str) -> String {
    let scheme = base.scheme_str().unwrap_or("https");
    let authority = base.authority().map_or("", |authority| authority.as_str());
    let begins_with_scheme = target.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    if begins_with_scheme {
        return target.to_owned();
    }
    if target.starts_with("//") {
        return format!("{scheme}:{target}");
    }
    if target.starts_with('/') {
        return format!("{scheme}://{authority}{target}");
    }
    let path = base.path();
    if target.starts_with('?') {
        return format!("{scheme}://{authority}{path}{target}");
    }
    let folder = &path[..=path.rfind('/').unwrap_or(0)];
    format!("{scheme}://{authority}{folder}{target}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_host_and_perhaps_a_port() {
        for (text, shown) in [
            ("api.example.com", Some("api.example.com")),
            ("API.Example.com.:8080", Some("api.example.com:8080")),
            ("127.0.0.1:3000", Some("127.0.0.1:3000")),
            ("[::1]:3000", Some("[::1]:3000")),
            ("::1", Some("[::1]")),
            ("[::1]", Some("[::1]")),
            ("", None),
            (":80", None),
            ("a:b", None),
            ("a:99999", None),
            ("https://a", None),
            ("a/b", None),
            ("user@a", None),
            ("a b", None),
        ] {
            let place = text.parse::<Endpoint>().ok().map(|place| place.to_string());
            assert_eq!(place.as_deref(), shown, "{text:?}");
        }
    }

    #[test]
    fn only_addresses_of_the_public_network_need_no_listing_of_their_own() {
        for (address, is_public) in [
            ("93.184.216.34", true),
            ("2606:4700::1111", true),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("100.64.0.1", false),
            ("169.254.169.254", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:93.184.216.34", true),
            ("::10.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b::5db8:d822", true),
            ("2002:7f00:1::", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("ff02::1", false),
            ("2001:0:1::1", false),
        ] {
            let found = not_public(address.parse().unwrap());
            assert_eq!(found.is_none(), is_public, "{address}: {found:?}");
        }
    }

    #[test]
    fn a_redirect_is_seen_from_the_place_that_gave_it() {
        let base: Uri = "https://a.example:8443/x/y?z=1".parse().unwrap();
        for (target, expected) in [
            ("https://b.example/q", "https://b.example/q"),
            ("//b.example/q", "https://b.example/q"),
            ("/q", "https://a.example:8443/q"),
            ("q?r=2", "https://a.example:8443/x/q?r=2"),
            ("?r=2", "https://a.example:8443/x/y?r=2"),
            ("file:///etc/passwd", "file:///etc/passwd"),
        ] {
            assert_eq!(resolved_against(&base, target), expected);
        }
    }
}
