//! The web pages that may send requests to this server: its own, and those that the configuration names. A pure rule over the headers
//! of a request whose host is a name of this server's own.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use std::collections::BTreeSet;
use windlass_config::AllowedOrigin;

/// The rule of one server.
#[derive(Clone, Debug)]
pub(crate) struct OriginRule {
    pub(crate) allowed: BTreeSet<AllowedOrigin>,
    /// Whether the server listens on a loopback address.
    pub(crate) is_loopback: bool,
}

/// Why a page may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error(
        "pages of this origin may not ask this server for anything; add it to server.allowed_origins"
    )]
    Foreign,
    #[error("the request has no Origin, which only a server on a loopback address accepts")]
    Missing,
    #[error("the request has more than one Origin or Host, or one that cannot be read")]
    Unreadable,
}

impl OriginRule {
    /// `Ok` says whether the page came over HTTPS.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<bool, Refused> {
        let Some(origin) = only(headers, &ORIGIN)? else {
            return if self.is_loopback {
                Ok(false)
            } else {
                Err(Refused::Missing)
            };
        };
        let origin = origin.to_ascii_lowercase();
        let is_secure = origin.starts_with("https://");
        if self
            .allowed
            .iter()
            .any(|allowed| allowed.as_str() == origin)
        {
            return Ok(is_secure);
        }
        only(headers, &HOST)?.ok_or(Refused::Unreadable)?;
        match is_own(headers) {
            true => Ok(is_secure),
            false => Err(Refused::Foreign),
        }
    }
}

/// Whether the page that sends a request is one of this server's own. The host is a name of this server's own: that was judged
/// before (`hosts`).
pub(crate) fn is_own(headers: &HeaderMap) -> bool {
    let (Ok(Some(origin)), Ok(Some(host))) = (only(headers, &ORIGIN), only(headers, &HOST)) else {
        return false;
    };
    let origin = origin.to_ascii_lowercase();
    origin
        .split_once("://")
        .filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
        .is_some_and(|(_, own)| own == host.to_ascii_lowercase())
}

fn only<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> Result<Option<&'h str>, Refused> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Refused::Unreadable),
        (Some(_), Some(_)) => Err(Refused::Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn own_pages_and_listed_origins_pass_and_foreign_ones_do_not() {
        let (foreign, missing) = (Err(Refused::Foreign), Err(Refused::Missing));
        for (is_loopback, origin, host, expected) in [
            (true, "", "127.0.0.1:8080", Ok(false)),
            (false, "", "example.org", missing),
            (true, "http://127.0.0.1:8080", "127.0.0.1:8080", Ok(false)),
            (true, "http://localhost:8080", "localhost:8080", Ok(false)),
            (true, "http://[::1]:8080", "[::1]:8080", Ok(false)),
            (true, "http://127.0.0.1:8081", "127.0.0.1:8080", foreign),
            (true, "http://evil.example", "127.0.0.1:8080", foreign),
            (true, "ftp://127.0.0.1:8080", "127.0.0.1:8080", foreign),
            (true, "null", "127.0.0.1:8080", foreign),
            (false, "https://agent.example", "agent.example", Ok(true)),
            (false, "https://AGENT.example", "agent.EXAMPLE", Ok(true)),
            (false, "https://evil.example", "agent.example", foreign),
            (false, "null", "agent.example", foreign),
            (false, "https://friend.example", "agent.example", Ok(true)),
            (true, "https://friend.example", "127.0.0.1:8080", Ok(true)),
        ] {
            let config = windlass_config::Loaded::load(&windlass_config::Sources {
                working_directory: "/nowhere".into(),
                flags: vec![windlass_config::Flag {
                    name: "--test",
                    key: "server.allowed_origins",
                    value: "https://friend.example".to_owned(),
                }],
                ..Default::default()
            });
            let rule = OriginRule {
                allowed: config.unwrap().config.server.allowed_origins,
                is_loopback,
            };
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            if !origin.is_empty() {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(rule.check(&headers), expected, "{origin} at {host}");
            headers.append(ORIGIN, HeaderValue::from_static(origin));
            headers.append(ORIGIN, HeaderValue::from_static("https://friend.example"));
            assert_eq!(rule.check(&headers), Err(Refused::Unreadable));
        }
    }
}
