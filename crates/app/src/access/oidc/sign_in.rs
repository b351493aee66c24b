//! The way of a browser to the provider and back: authorization code with PKCE. A sealed cookie carries the state between the two.
//! Knows no route.

use super::fetch::FetchLimits;
use super::issuer_keys::{Discovery, discover, limits_of};
use super::{Oidc, TokenProblem};
use crate::access::tickets::{cookie, seal, unseal};
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use windlass_config as config;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::caller::Proven;
use windlass_runtime::client_key::{ClientKey, Purpose};
use windlass_runtime::ids::{self, NoRandomness};

/// The path to which the provider sends the browser back.
const CALLBACK: &str = "/auth/callback";
/// The cookie of a browser that is on its way.
pub(crate) const SIGN_IN_COOKIE: &str = "windlass_sign_in";
/// How long the way may take.
const WAY_SECONDS: u64 = 600;

/// This server as the provider knows it.
pub(super) struct SignIn {
    client_id: String,
    client_secret: Option<Sensitive<String>>,
    page_origin: Option<String>,
    scope: String,
    limits: FetchLimits,
}

/// The state that is needed when the browser comes back.
#[derive(Serialize, Deserialize)]
struct Way {
    state: String,
    verifier: String,
    nonce: String,
    redirect: String,
    expires_unix_ms: u64,
}

/// Why a browser is not signed in. The cause is for the operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignInProblem {
    #[error("no sign-in is configured: set access.oidc.client_id")]
    NotConfigured,
    #[error("the browser comes back from a way that it did not begin here, or took too long for")]
    UnknownWay,
    #[error("the provider refuses: {0}")]
    Refused(String),
    #[error("the provider cannot be asked: {0}")]
    Provider(String),
    #[error("the provider's token does not count: {0}")]
    Token(&'static str),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl SignIn {
    pub(super) fn of(config: &config::Oidc) -> Result<Option<Self>, SignInProblem> {
        let Some(client_id) = &config.client_id else {
            return Ok(None);
        };
        let more = config.scope.as_ref().map_or("", |scope| scope.as_str());
        Ok(Some(Self {
            client_id: client_id.as_str().to_owned(),
            client_secret: config.client_secret.as_ref().map(config::Secret::sensitive),
            page_origin: config
                .page_origin
                .as_ref()
                .map(|origin| origin.as_str().to_owned()),
            scope: format!("openid {more}").trim().to_owned(),
            limits: limits_of(config),
        }))
    }

    /// The headers and the form for the token endpoint.
    fn exchange(&self, code: &str, way: &Way) -> (Vec<(HeaderName, HeaderValue)>, String) {
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut headers = vec![(CONTENT_TYPE, kind)];
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &way.redirect),
            ("code_verifier", &way.verifier),
        ];
        match &self.client_secret {
            None => fields.push(("client_id", &self.client_id)),
            Some(secret) => {
                let pair = format!("{}:{}", escaped(&self.client_id), escaped(secret.expose()));
                let basic = base64_simd::STANDARD.encode_to_string(pair);
                if let Ok(mut value) = HeaderValue::from_str(&format!("Basic {basic}")) {
                    value.set_sensitive(true);
                    headers.push((AUTHORIZATION, value));
                }
            }
        }
        (headers, form(&fields))
    }
}

impl Oidc {
    pub(crate) fn offers_sign_in(&self) -> bool {
        self.sign_in.is_some()
    }

    /// The address at which a browser signs in, and the cookie that it takes along.
    pub(crate) async fn begin_sign_in(
        &self,
        key: &ClientKey,
        host: Option<&str>,
        now_unix_ms: u64,
    ) -> Result<(String, String), SignInProblem> {
        let sign_in = self.sign_in.as_ref().ok_or(SignInProblem::NotConfigured)?;
        let discovery = self.discover(sign_in).await?;
        let endpoint = discovery.authorization_endpoint.ok_or_else(|| {
            SignInProblem::Provider("it says no authorization_endpoint".to_owned())
        })?;
        let origin = match (&sign_in.page_origin, host) {
            (Some(origin), _) => origin.clone(),
            (None, Some(host)) => format!("http://{host}"),
            (None, None) => return Err(SignInProblem::UnknownWay),
        };
        let way = Way {
            state: ids::random_hex()?,
            verifier: ids::random_secret()?,
            nonce: ids::random_hex()?,
            redirect: format!("{origin}{CALLBACK}"),
            expires_unix_ms: now_unix_ms + WAY_SECONDS * 1_000,
        };
        let challenge =
            base64_simd::URL_SAFE_NO_PAD.encode_to_string(ids::digest(way.verifier.as_bytes()));
        let query = form(&[
            ("response_type", "code"),
            ("client_id", &sign_in.client_id),
            ("redirect_uri", &way.redirect),
            ("scope", &sign_in.scope),
            ("state", &way.state),
            ("nonce", &way.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let joint = if endpoint.contains('?') { '&' } else { '?' };
        let sealed = seal(key, Purpose::SignIn, &way);
        let is_secure = origin.starts_with("https://");
        // The provider's page leads back here, which `Strict` would not let the cookie come along with.
        let cookie = cookie(
            SIGN_IN_COOKIE,
            &sealed,
            "/auth",
            "Lax",
            WAY_SECONDS,
            is_secure,
        );
        Ok((format!("{endpoint}{joint}{query}"), cookie))
    }

    /// The user who has come back, and whether over HTTPS. `cookies` are those of the way.
    pub(crate) async fn end_sign_in<'c>(
        &self,
        key: &ClientKey,
        mut cookies: impl Iterator<Item = &'c str>,
        returned: &Returned,
        now_unix_ms: u64,
    ) -> Result<(Proven, bool), SignInProblem> {
        let sign_in = self.sign_in.as_ref().ok_or(SignInProblem::NotConfigured)?;
        let is_known = |way: &Way| {
            now_unix_ms < way.expires_unix_ms && returned.state.as_deref() == Some(&way.state)
        };
        let way = cookies
            .find_map(|text| unseal::<Way>(key, Purpose::SignIn, text).filter(is_known))
            .ok_or(SignInProblem::UnknownWay)?;
        if let Some(error) = &returned.error {
            let error: String = error
                .chars()
                .filter(char::is_ascii_graphic)
                .take(64)
                .collect();
            return Err(SignInProblem::Refused(error));
        }
        let code = returned.code.as_deref().ok_or(SignInProblem::UnknownWay)?;
        let endpoint = self.discover(sign_in).await?.token_endpoint;
        let endpoint = endpoint
            .ok_or_else(|| SignInProblem::Provider("it says no token_endpoint".to_owned()))?;
        let (headers, form) = sign_in.exchange(code, &way);
        let answer = sign_in.limits.post(&endpoint, headers, form).await;
        let answer = answer.map_err(SignInProblem::Provider)?;
        let token = answer.get("id_token").and_then(serde_json::Value::as_str);
        let token =
            token.ok_or_else(|| SignInProblem::Provider("it gave no id_token".to_owned()))?;
        let claims = self
            .claims_of(token, &sign_in.client_id)
            .await
            .map_err(problem_of)?;
        if claims.get("nonce").and_then(serde_json::Value::as_str) != Some(&way.nonce) {
            return Err(SignInProblem::Token("it was made for another sign-in"));
        }
        let proven = self.claims.proven(&claims).map_err(problem_of)?;
        Ok((proven, way.redirect.starts_with("https://")))
    }

    async fn discover(&self, sign_in: &SignIn) -> Result<Discovery, SignInProblem> {
        let found = discover(&self.issuer, sign_in.limits).await;
        found.map_err(SignInProblem::Provider)
    }
}

fn problem_of(problem: TokenProblem) -> SignInProblem {
    match problem {
        TokenProblem::Invalid(cause) => SignInProblem::Token(cause),
        TokenProblem::KeysUnavailable => {
            SignInProblem::Provider("its keys cannot be fetched".to_owned())
        }
    }
}

/// The query with which the provider sends the browser back.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Returned {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

/// The cookie that removes the cookie of the way.
pub(crate) fn no_way_cookie() -> String {
    cookie(SIGN_IN_COOKIE, "", "/auth", "Lax", 0, false)
}

fn form(fields: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", escaped(value)))
        .collect();
    pairs.join("&")
}

/// A text as a form or a query takes it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => write!(escaped, "%{byte:02X}").expect("a string takes every text"),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn a_form_keeps_its_fields_apart() {
        assert_eq!(escaped("openid a&b=c/ä~"), "openid%20a%26b%3Dc%2F%C3%A4~");
    }
}
