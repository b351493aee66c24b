//! The cost of authenticating a request, in the form in which the benches measure it: the way of every request, without its socket.

use super::{Access, Grant, KeyChange, KeyFile, NewKey, Purpose, Showing, TicketTerms};
use crate::clock;
use crate::failure::Failure;
use futures_util::FutureExt;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use windlass_config::Config;
use windlass_runtime::client_key::ClientKey;

/// A server's entrance alone, and the headers of a program that has a key.
pub struct Entrance {
    access: Access,
    with_key: HeaderMap,
}

impl Entrance {
    /// The entrance of a server of this configuration, with one more key in its data folder.
    ///
    /// # Errors
    ///
    /// The keys cannot be written or read.
    pub fn new(config: &Config) -> Result<Self, Failure> {
        let data = &config.folders.data;
        let change = KeyChange::Add {
            key: NewKey {
                name: "bench".to_owned(),
                roles: BTreeSet::new(),
                user: None,
                tenant: None,
            },
            keys_max: config.access.keys_max.count(),
            now_unix_ms: clock::now_unix_ms(),
        };
        let key = KeyFile::of(data).change(change).map_err(Failure::of)?;
        let key = key.map(|key| key.into_inner()).unwrap_or_default();
        let client_key = Arc::new(ClientKey::open(data).map_err(Failure::of)?);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Ok(Self {
            access: Access::open(config, address, &client_key)?,
            with_key: bearer(&key),
        })
    }

    /// Whether a request with the key comes in.
    pub fn takes_key(&self) -> bool {
        self.takes(&self.with_key)
    }

    /// The headers of a request with a new ticket.
    pub fn ticket(&self) -> HeaderMap {
        let showing = showing(&self.with_key);
        let known = self.access.identify(showing).now_or_never();
        let known = known.and_then(Result::ok).flatten();
        let issued = known.and_then(|known| {
            let grant = Grant::of(&known.proven, known.key);
            let terms = TicketTerms::default();
            self.access
                .tickets
                .issue(grant, terms, clock::now_unix_ms())
                .ok()
        });
        bearer(&issued.map(|(ticket, _)| ticket).unwrap_or_default())
    }

    /// Whether a request with these headers comes in.
    pub fn takes(&self, headers: &HeaderMap) -> bool {
        let identified = self.access.identify(showing(headers)).now_or_never();
        matches!(identified, Some(Ok(Some(_))))
    }
}

fn showing(headers: &HeaderMap) -> Showing<'_> {
    Showing {
        headers,
        query: None,
        peer: None,
        purpose: Purpose::Text,
    }
}

fn bearer(shown: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {shown}"));
    value
        .into_iter()
        .map(|value| (AUTHORIZATION, value))
        .collect()
}
