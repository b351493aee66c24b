//! One service that users connect, as the configuration has it, and its authorization server. Knows no user.

use super::way_out::ServerWays;
use crate::clock;
use std::sync::Arc;
use std::time::Duration;
use windlass_config::{self as config, Config, Whole};
use windlass_runtime::fetch::FetchLimits;
use windlass_services::oauth::{OauthClient, OauthSettings};

const ANSWER_SECONDS: u64 = 10;
const ANSWER_BYTES_MAX: usize = 262_144;

/// A service, as the configuration has it.
pub(super) struct Service {
    pub(super) title: String,
    pub(super) client: OauthClient,
    /// This server's origin for browsers.
    pub(super) page_origin: Option<String>,
    pub(super) any_browser: bool,
}

impl Service {
    pub(super) fn new(config: &Config, name: &str, connection: &config::Connection) -> Self {
        warn_if_unencrypted(name, connection);
        warn_if_any_browser(name, connection);
        let of_oidc = config.access.oidc.as_ref();
        let of_oidc = of_oidc.and_then(|oidc| oidc.page_origin.as_ref());
        let origin = connection.page_origin.as_ref().or(of_oidc);
        let title = connection.title.as_ref();
        Self {
            title: title.map_or(name, |title| title.as_str()).to_owned(),
            client: client(config, connection),
            page_origin: origin.map(|origin| origin.as_str().to_owned()),
            any_browser: connection.any_browser.unwrap_or_default(),
        }
    }
}

fn client(config: &Config, connection: &config::Connection) -> OauthClient {
    let seconds = connection.answer_seconds.map_or(ANSWER_SECONDS, Whole::get);
    let timeout = Duration::from_secs(seconds);
    let ways = ServerWays {
        limits: FetchLimits {
            timeout,
            body_bytes_max: connection
                .answer_bytes_max
                .map_or(ANSWER_BYTES_MAX, Whole::count),
            proxy_resolves_names: config.handlers.proxy_resolves_names,
        },
    };
    let address = |address: &Option<config::WebAddress>| {
        address.as_ref().map(|address| address.as_str().to_owned())
    };
    let scopes = connection.scopes.iter().flatten();
    let id = connection.client_id.as_ref();
    let settings = OauthSettings {
        issuer: connection
            .issuer
            .as_ref()
            .map(|issuer| issuer.as_str().to_owned()),
        authorization_url: address(&connection.authorization_url),
        token_url: address(&connection.token_url),
        revocation_url: address(&connection.revocation_url),
        client_id: id.map_or_else(String::new, |id| id.as_str().to_owned()),
        client_secret: connection
            .client_secret
            .as_ref()
            .map(config::Secret::sensitive),
        scopes: scopes.map(|scope| scope.as_str().to_owned()).collect(),
        resource: address(&connection.resource),
        timeout_ms: seconds * 1_000,
    };
    OauthClient::new(settings, Arc::new(ways), clock::now_unix_ms)
}

fn warn_if_any_browser(name: &str, connection: &config::Connection) {
    if connection.any_browser == Some(true) {
        tracing::warn!(
            connection = name,
            "any_browser is on: a person who opens a link to connect connects their own account for the link's user; hand each link to its user alone"
        );
    }
}

fn warn_if_unencrypted(name: &str, connection: &config::Connection) {
    let issuer = connection.issuer.as_ref().map(|url| url.is_encrypted());
    let urls = [
        &connection.authorization_url,
        &connection.token_url,
        &connection.revocation_url,
    ];
    let mut urls = urls.into_iter().flatten().map(|url| url.is_encrypted());
    if issuer == Some(false) || urls.any(|is_encrypted| !is_encrypted) {
        tracing::warn!(
            connection = name,
            "tokens of this connection travel unencrypted: anybody on the way can read them"
        );
    }
}
