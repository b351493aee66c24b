//! The names under which the server answers: the machine's own loopback names, the address that it listens on, and those that the
//! configuration adds. A page whose name was bound to this machine's address after it had been loaded (DNS rebinding) asks under its
//! own name, and gets nothing. A pure rule over a request's head.

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Uri};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use windlass_config::AllowedHost;

/// The rule of one server.
#[derive(Clone, Debug)]
pub(crate) struct HostRule {
    pub(crate) allowed: BTreeSet<AllowedHost>,
    /// The address at which the server listens. It is one of its names, unless it stands for every address of the machine.
    pub(crate) listens: SocketAddr,
}

/// Why a request is not for this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misdirected {
    #[error("this server does not answer under the name in Host; add it to server.allowed_hosts")]
    Foreign,
    #[error(
        "the request needs one Host header with a name, and a port where it is not the usual one"
    )]
    Unreadable,
}

impl HostRule {
    /// `Ok` is the host, with its port where one is named.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        target: &Uri,
    ) -> Result<Authority, Misdirected> {
        let mut values = headers.get_all(HOST).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(Misdirected::Unreadable);
        };
        let host = value.to_str().map_err(|_| Misdirected::Unreadable)?;
        let host: Authority = host.parse().map_err(|_| Misdirected::Unreadable)?;
        if host.as_str().contains('@') {
            return Err(Misdirected::Unreadable);
        }
        // A target that names a host of its own must not say another one than the header.
        let is_same = |target: &Authority| target.as_str().eq_ignore_ascii_case(host.as_str());
        match self.is_own(&host) && target.authority().is_none_or(is_same) {
            true => Ok(host),
            false => Err(Misdirected::Foreign),
        }
    }

    fn is_own(&self, host: &Authority) -> bool {
        let name = host.host();
        let address: Option<IpAddr> = name.trim_matches(['[', ']']).parse().ok();
        let is_listened_to = || address == Some(self.listens.ip());
        let is_unspecified = || self.listens.ip().is_unspecified();
        name.eq_ignore_ascii_case("localhost")
            || address.is_some_and(|address| address.is_loopback())
            || (is_listened_to() && !is_unspecified())
            || self
                .allowed
                .iter()
                .any(|allowed| allowed.fits(name, host.port_u16()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn check(listens: &str, hosts: &[&str], target: &str) -> Result<String, Misdirected> {
        let allowed = ["agent.example", "other.example:8443", "[2001:db8::1]"];
        let allowed = allowed.map(|host| AllowedHost::try_from(host.to_owned()).unwrap());
        let rule = HostRule {
            allowed: allowed.into(),
            listens: listens.parse().unwrap(),
        };
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
        }
        let host = rule.check(&headers, &target.parse().unwrap());
        host.map(|host| host.to_string())
    }

    #[test]
    fn a_request_is_for_this_server_only_under_a_name_of_its_own() {
        let loopback = "127.0.0.1:8080";
        for (listens, hosts, target, expected) in [
            (loopback, &["127.0.0.1:8080"][..], "/", None),
            (loopback, &["LOCALHOST:8080"], "/voice", None),
            (loopback, &["localhost"], "/", None),
            (loopback, &["[::1]:8080"], "/", None),
            (loopback, &["Agent.Example"], "/", None),
            (loopback, &["agent.example:1"], "/", None),
            (loopback, &["[2001:db8::1]:80"], "/", None),
            (loopback, &["other.example:8443"], "/", None),
            (loopback, &["localhost"], "http://localhost/", None),
            ("192.0.2.7:80", &["192.0.2.7"], "/", None),
            // A name that was bound to this address after its page had been loaded.
            (
                loopback,
                &["evil.example:8080"],
                "/",
                Some(Misdirected::Foreign),
            ),
            (
                loopback,
                &["localhost.evil.example"],
                "/",
                Some(Misdirected::Foreign),
            ),
            (loopback, &["localhost."], "/", Some(Misdirected::Foreign)),
            (
                loopback,
                &["other.example"],
                "/",
                Some(Misdirected::Foreign),
            ),
            (loopback, &["192.0.2.7"], "/", Some(Misdirected::Foreign)),
            (
                loopback,
                &["localhost"],
                "http://evil.example/",
                Some(Misdirected::Foreign),
            ),
            ("0.0.0.0:80", &["0.0.0.0"], "/", Some(Misdirected::Foreign)),
            (
                "0.0.0.0:80",
                &["192.0.2.7"],
                "/",
                Some(Misdirected::Foreign),
            ),
            (loopback, &[], "/", Some(Misdirected::Unreadable)),
            (loopback, &[""], "/", Some(Misdirected::Unreadable)),
            (
                loopback,
                &["localhost", "localhost"],
                "/",
                Some(Misdirected::Unreadable),
            ),
            (
                loopback,
                &["me@localhost"],
                "/",
                Some(Misdirected::Unreadable),
            ),
            (
                loopback,
                &["localhost/x"],
                "/",
                Some(Misdirected::Unreadable),
            ),
            (
                loopback,
                &["l\u{f6}calhost"],
                "/",
                Some(Misdirected::Unreadable),
            ),
        ] {
            let found = check(listens, hosts, target);
            assert_eq!(found.err(), expected, "{hosts:?} at {listens} for {target}");
        }
    }
}
