//! The addresses of an authorization server: from the configuration, and otherwise from its metadata, which are read again after
//! an hour. Metadata are a stranger's text: they lead to no address of a private network.

use super::OauthSettings;
use super::answer::{OauthError, body};
use crate::Clock;
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};
use windlass_contract::handler::{Http, HttpRequest, Redirects};

/// Milliseconds for which metadata are valid.
const GOOD_FOR_MS: u64 = 3_600_000;
/// Characters of an address.
const ADDRESS_CHARACTERS_MAX: usize = 2_048;

/// Ways out to authorization servers.
pub trait Ways: Send + Sync {
    /// The way to the host of an address alone. The host may be in a private network if the operator named it.
    ///
    /// # Errors
    ///
    /// The text is no address, or its host may not be reached. The error's text is for operators.
    fn to(&self, url: &str, is_of_operator: bool) -> Result<Arc<dyn Http>, String>;
}

/// The addresses of one authorization server.
pub(super) struct Addresses {
    pub(super) authorization: String,
    pub(super) token: String,
    pub(super) revocation: Option<String>,
    /// Whether the browser's return names the issuer.
    pub(super) names_issuer: bool,
    /// Whether the server reads the secret in the form alone.
    pub(super) wants_secret_in_form: bool,
    /// The beginnings of addresses whose host the operator has named.
    of_operator: Vec<String>,
}

impl Addresses {
    pub(super) fn is_of_operator(&self, url: &str) -> bool {
        self.of_operator.contains(&origin(url).to_owned())
    }
}

/// The source of the addresses.
pub(super) struct Source {
    named: Named,
    read: Mutex<Option<(u64, Arc<Addresses>)>>,
}

/// The addresses in the configuration.
struct Named {
    issuer: Option<String>,
    authorization: Option<String>,
    token: Option<String>,
    revocation: Option<String>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
}

impl Source {
    pub(super) fn new(settings: &OauthSettings) -> Self {
        Self {
            named: Named {
                issuer: settings.issuer.clone(),
                authorization: settings.authorization_url.clone(),
                token: settings.token_url.clone(),
                revocation: settings.revocation_url.clone(),
            },
            read: Mutex::default(),
        }
    }

    pub(super) async fn find(
        &self,
        ways: &dyn Ways,
        timeout_ms: u64,
        clock: Clock,
    ) -> Result<Arc<Addresses>, OauthError> {
        let now_unix_ms = clock();
        let known = {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            read.clone()
        };
        if let Some((until, addresses)) = known
            && now_unix_ms < until
        {
            return Ok(addresses);
        }
        let metadata = match &self.named.issuer {
            Some(issuer) => Some(ask(issuer, ways, timeout_ms).await?),
            None => None,
        };
        let addresses = Arc::new(self.named.with(metadata)?);
        let until = now_unix_ms.saturating_add(GOOD_FOR_MS);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        *read = Some((until, addresses.clone()));
        Ok(addresses)
    }
}

impl Named {
    fn with(&self, metadata: Option<Metadata>) -> Result<Addresses, OauthError> {
        let metadata = metadata.unwrap_or_default();
        let named = [
            &self.issuer,
            &self.authorization,
            &self.token,
            &self.revocation,
        ];
        let of_operator: Vec<String> = named
            .into_iter()
            .flatten()
            .map(|url| origin(url).to_owned())
            .collect();
        let said = |own: &Option<String>, said: Option<String>| match own {
            Some(own) => Some(own.clone()),
            None => said.filter(|url| is_fit(url, &of_operator)),
        };
        let lacking = |what: &str| {
            OauthError::Unavailable(format!(
                "its metadata name no {what} that can be used: an address with https, or one of the issuer's own origin"
            ))
        };
        if let Some(methods) = &metadata.code_challenge_methods_supported
            && !methods.iter().any(|method| method == "S256")
        {
            let cause = "its metadata say that it knows no PKCE with S256";
            return Err(OauthError::Unavailable(cause.to_owned()));
        }
        let authorization = said(&self.authorization, metadata.authorization_endpoint);
        let token = said(&self.token, metadata.token_endpoint);
        let methods = metadata.token_endpoint_auth_methods_supported;
        let methods = methods.unwrap_or_default();
        let has = |name: &str| methods.iter().any(|method| method == name);
        Ok(Addresses {
            authorization: authorization.ok_or_else(|| lacking("authorization_endpoint"))?,
            token: token.ok_or_else(|| lacking("token_endpoint"))?,
            revocation: said(&self.revocation, metadata.revocation_endpoint),
            names_issuer: metadata.authorization_response_iss_parameter_supported,
            wants_secret_in_form: has("client_secret_post") && !has("client_secret_basic"),
            of_operator,
        })
    }
}

/// Scheme, host and port of an address.
fn origin(url: &str) -> &str {
    let behind_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[behind_scheme..].find(['/', '?', '#']);
    end.map_or(url, |end| &url[..behind_scheme + end])
}

/// Whether requests may go to an address from metadata.
fn is_fit(url: &str, of_operator: &[String]) -> bool {
    let is_plain = url.len() <= ADDRESS_CHARACTERS_MAX
        && url.bytes().all(|byte| byte.is_ascii_graphic())
        && !url.contains(['#', '"', '<', '>', '\\']);
    let place = origin(url);
    let names_user = place.contains('@');
    let is_own = of_operator.iter().any(|own| own == place);
    is_plain && !names_user && (url.starts_with("https://") || is_own)
}

/// The two addresses of metadata, that of RFC 8414 first.
fn places(issuer: &str) -> [String; 2] {
    let host = origin(issuer);
    let path = issuer[host.len()..].trim_end_matches('/');
    [
        format!("{host}/.well-known/oauth-authorization-server{path}"),
        format!("{host}{path}/.well-known/openid-configuration"),
    ]
}

async fn ask(issuer: &str, ways: &dyn Ways, timeout_ms: u64) -> Result<Metadata, OauthError> {
    let mut problem = String::new();
    for url in places(issuer) {
        let way = ways.to(&url, true).map_err(OauthError::Unavailable)?;
        let request = HttpRequest {
            method: "GET".to_owned(),
            url: url.clone(),
            headers: vec![("accept".to_owned(), "application/json".to_owned())],
            body: Vec::new(),
            timeout_ms,
            redirects: Redirects::Keep,
        };
        let answer = way.fetch(request).await;
        let answer = answer.map_err(|error| OauthError::Unavailable(format!("{url}: {error}")))?;
        if answer.status != 200 {
            problem = format!("{url}: it answers with status {}", answer.status);
            continue;
        }
        let found = serde_json::from_slice::<Metadata>(&body(answer)?);
        let found = found.map_err(|_| {
            OauthError::Unavailable(format!("{url}: these are no metadata of an issuer"))
        })?;
        return match found.issuer == issuer {
            true => Ok(found),
            false => Err(OauthError::Unavailable(format!(
                "{url}: it is of another issuer than {issuer}; write issuer exactly as it does"
            ))),
        };
    }
    Err(OauthError::Unavailable(problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_where_the_standards_have_them() {
        for (issuer, expected) in [
            (
                "https://a.example",
                [
                    "https://a.example/.well-known/oauth-authorization-server",
                    "https://a.example/.well-known/openid-configuration",
                ],
            ),
            (
                "https://a.example:8443/t/1/",
                [
                    "https://a.example:8443/.well-known/oauth-authorization-server/t/1",
                    "https://a.example:8443/t/1/.well-known/openid-configuration",
                ],
            ),
        ] {
            assert_eq!(places(issuer), expected);
        }
    }

    #[test]
    fn metadata_lead_to_encrypted_addresses_or_to_the_issuers_own() {
        let own = ["http://127.0.0.1:9000".to_owned()];
        for (url, may) in [
            ("https://b.example/token", true),
            ("http://127.0.0.1:9000/token", true),
            ("http://127.0.0.1:9001/token", false),
            ("http://b.example/token", false),
            ("https://user@b.example/token", false),
            ("https://b.example/token#part", false),
            ("ftp://b.example/token", false),
            ("", false),
        ] {
            assert_eq!(is_fit(url, &own), may, "{url}");
        }
    }
}
