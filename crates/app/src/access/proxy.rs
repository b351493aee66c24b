//! A proxy that signs users in and says in a header who has: which header, and from which addresses it is believed. Knows no
//! user.

use super::is_user_name;
use http::HeaderMap;
use http::header::HeaderName;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use windlass_config::{AddressRange, Server};
use windlass_contract::id::TenantId;
use windlass_runtime::caller::{Proven, ProvenName, Validity};

pub(super) struct ProxyRule {
    header: HeaderName,
    addresses: BTreeSet<AddressRange>,
}

impl ProxyRule {
    pub(super) fn of(server: &Server) -> Option<Self> {
        let header = server.user_header.as_ref()?;
        Some(Self {
            header: header.get().clone(),
            addresses: server.proxies.clone(),
        })
    }

    /// The user whom the proxy names. Two such headers, a name of odd characters, or a header from any other address name no user.
    pub(super) fn user(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<Proven> {
        let is_proxy = |peer: IpAddr| self.addresses.iter().any(|range| range.contains(peer));
        if !peer.is_some_and(is_proxy) {
            return None;
        }
        let mut values = headers.get_all(&self.header).iter();
        let name = values.next()?.to_str().ok()?.trim();
        let is_good = is_user_name(name) && values.next().is_none();
        is_good.then(|| Proven {
            tenant: TenantId::default(),
            name: ProvenName::User(name.to_owned()),
            roles: Arc::default(),
            zone: None,
            validity: Validity::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn check(values: &[&[u8]], peer: &str, user: Option<&str>) {
        let header = HeaderName::from_static("x-forwarded-user");
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&header, HeaderValue::from_bytes(value).unwrap());
        }
        let ranges = ["127.0.0.1", "10.1.0.0/16", "fd00::/8"];
        let rule = ProxyRule {
            header,
            addresses: ranges
                .map(|range| AddressRange::try_from(range.to_owned()).unwrap())
                .into(),
        };
        let found = rule.user(&headers, Some(peer.parse().unwrap()));
        let user = user.map(|user| ProvenName::User(user.to_owned()));
        assert_eq!(found.map(|proven| proven.name), user, "{values:?} {peer}");
        assert_eq!(rule.user(&headers, None), None);
    }

    #[test]
    fn the_proxy_names_one_user_or_nobody() {
        check(&[b"ada"], "127.0.0.1", Some("ada"));
        check(
            &[b" ada@example.org "],
            "127.0.0.1",
            Some("ada@example.org"),
        );
        check(&[], "127.0.0.1", None);
        check(&[b""], "127.0.0.1", None);
        check(&[b"ada", b"eve"], "127.0.0.1", None);
        check(
            b"\xff\xfe".chunks(2).collect::<Vec<_>>().as_slice(),
            "127.0.0.1",
            None,
        );
        check(&["a".repeat(129).as_bytes()], "127.0.0.1", None);
    }

    #[test]
    fn only_a_named_address_is_believed() {
        for (peer, is_believed) in [
            ("10.1.255.7", true),
            ("::ffff:10.1.0.1", true),
            ("10.2.0.1", false),
            ("fd12::1", true),
            ("fe80::1", false),
            ("127.0.0.2", false),
            ("::1", false),
        ] {
            check(&[b"ada"], peer, is_believed.then_some("ada"));
        }
    }
}
