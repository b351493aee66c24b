//! The address that a request comes from, as far as it can be known: the socket's own, or the one that a named proxy gives.

use http::HeaderMap;
use http::header::HeaderName;
use std::collections::BTreeSet;
use std::net::IpAddr;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The caller's address, in the extensions of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The last address of the header that is no proxy's own. A client may have made up the addresses before it.
pub(crate) fn peer(socket: IpAddr, proxies: &BTreeSet<IpAddr>, headers: &HeaderMap) -> Peer {
    let socket = socket.to_canonical();
    if !proxies.contains(&socket) {
        return Peer(socket);
    }
    let mut peer = socket;
    let values = headers.get_all(FORWARDED_FOR).iter().rev();
    let texts = values.filter_map(|value| value.to_str().ok());
    for text in texts.flat_map(|text| text.rsplit(',')) {
        let Ok(address) = text.trim().trim_matches(['[', ']']).parse::<IpAddr>() else {
            break;
        };
        peer = address.to_canonical();
        if !proxies.contains(&peer) {
            break;
        }
    }
    Peer(peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn only_a_named_proxy_tells_the_address_of_its_client() {
        for (socket, forwarded, expected) in [
            ("192.0.2.1", &["198.51.100.7"][..], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("::ffff:10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            (
                "10.0.0.1",
                &["203.0.113.9, 198.51.100.7, 10.0.0.2"],
                "198.51.100.7",
            ),
            ("10.0.0.1", &["203.0.113.9", "198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["nonsense"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9, nonsense, 10.0.0.2"], "10.0.0.2"),
        ] {
            let proxies = ["10.0.0.1", "10.0.0.2"].map(|proxy| proxy.parse().unwrap());
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append(FORWARDED_FOR, HeaderValue::from_static(value));
            }
            let found = peer(socket.parse().unwrap(), &proxies.into(), &headers);
            assert_eq!(
                found,
                Peer(expected.parse().unwrap()),
                "{socket} {forwarded:?}"
            );
        }
    }
}
