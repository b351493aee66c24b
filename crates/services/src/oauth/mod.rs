//! One authorization server, asked for one user's consent after the other: the browser's address, the exchange of a code, and the
//! refresh and the revocation of tokens (OAuth 2.1 with PKCE, RFC 8414, RFC 8707, RFC 9207, RFC 7009). Keeps no token and knows
//! no user.

mod answer;
mod metadata;

use crate::Clock;
use crate::exchange::percent_encoded;
use crate::settling::form;
pub use answer::{Granted, OauthError};
use answer::{granted, settled};
use base64_simd::{STANDARD, URL_SAFE_NO_PAD};
pub use metadata::Ways;
use metadata::{Addresses, Source};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use windlass_contract::handler::{HttpAnswer, HttpRequest, Redirects};
use windlass_contract::sensitive::Sensitive;

/// Characters of a code that is exchanged.
const CODE_CHARACTERS_MAX: usize = 4_096;

/// An authorization server as the configuration has it.
#[derive(Clone, Debug)]
pub struct OauthSettings {
    /// The issuer, exactly as the server writes it. Its metadata supply the addresses that are not set below.
    pub issuer: Option<String>,
    pub authorization_url: Option<String>,
    pub token_url: Option<String>,
    pub revocation_url: Option<String>,
    pub client_id: String,
    pub client_secret: Option<Sensitive<String>>,
    pub scopes: Vec<String>,
    /// The service that the tokens are for.
    pub resource: Option<String>,
    /// Milliseconds of one answer.
    pub timeout_ms: u64,
}

/// The parameters with which a browser is sent to the authorization server.
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationRequest<'a> {
    pub redirect: &'a str,
    pub state: &'a str,
    /// The verifier of PKCE: 43 to 128 letters and digits that cannot be guessed. Only its hash is sent.
    pub verifier: &'a str,
}

/// One authorization server.
pub struct OauthClient {
    settings: OauthSettings,
    source: Source,
    ways: Arc<dyn Ways>,
    clock: Clock,
}

impl OauthClient {
    pub fn new(settings: OauthSettings, ways: Arc<dyn Ways>, clock: Clock) -> Self {
        Self {
            source: Source::new(&settings),
            settings,
            ways,
            clock,
        }
    }

    /// The address at which a user agrees, and whether the browser's return has to name the issuer.
    ///
    /// # Errors
    ///
    /// The server's metadata cannot be read.
    pub async fn authorization_address(
        &self,
        request: AuthorizationRequest<'_>,
    ) -> Result<(String, bool), OauthError> {
        let addresses = self.addresses().await?;
        let challenge =
            URL_SAFE_NO_PAD.encode_to_string(Sha256::digest(request.verifier.as_bytes()));
        let scope = self.settings.scopes.join(" ");
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", &self.settings.client_id),
            ("redirect_uri", request.redirect),
            ("state", request.state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        if !scope.is_empty() {
            fields.push(("scope", &scope));
        }
        fields.extend(self.resource());
        let joint = match addresses.authorization.contains('?') {
            true => '&',
            false => '?',
        };
        let address = format!("{}{joint}{}", addresses.authorization, form(&fields));
        Ok((address, addresses.names_issuer))
    }

    /// Judges the `iss` of a browser's return (RFC 9207).
    ///
    /// # Errors
    ///
    /// It names another issuer, or is missing though it is required.
    pub fn judge_issuer(&self, issuer: Option<&str>, is_required: bool) -> Result<(), OauthError> {
        match (&self.settings.issuer, issuer) {
            (Some(own), Some(issuer)) if own != issuer => Err(OauthError::OtherIssuer),
            (Some(_), None) if is_required => Err(OauthError::OtherIssuer),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    /// Exchanges the code of a browser's return.
    ///
    /// # Errors
    ///
    /// The server does not take the code, or does not answer as it should.
    pub async fn redeem(
        &self,
        code: &str,
        redirect: &str,
        verifier: &str,
    ) -> Result<Granted, OauthError> {
        if code.len() > CODE_CHARACTERS_MAX {
            return Err(OauthError::Ended);
        }
        self.grant(vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
        ])
        .await
    }

    /// A new access token. If the answer has a new refresh token, the old one is no longer of use.
    ///
    /// # Errors
    ///
    /// [`OauthError::Ended`] if the user or the server has taken the consent back.
    pub async fn refresh(&self, refresh_token: &Sensitive<String>) -> Result<Granted, OauthError> {
        self.grant(vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose()),
        ])
        .await
    }

    /// Revokes a token, if the server has an address for that.
    ///
    /// # Errors
    ///
    /// The server does not answer as it should.
    pub async fn revoke(&self, token: &Sensitive<String>) -> Result<(), OauthError> {
        let addresses = self.addresses().await?;
        let Some(url) = &addresses.revocation else {
            return Ok(());
        };
        let fields = vec![("token", token.expose().as_str())];
        let answer = self.post(url, &addresses, fields).await?;
        settled(&answer)
    }

    async fn grant(&self, mut fields: Vec<(&str, &str)>) -> Result<Granted, OauthError> {
        let addresses = self.addresses().await?;
        fields.extend(self.resource());
        let answer = self.post(&addresses.token, &addresses, fields).await?;
        granted(answer, (self.clock)())
    }

    fn resource(&self) -> Option<(&'static str, &str)> {
        let resource = self.settings.resource.as_deref();
        resource.map(|resource| ("resource", resource))
    }

    async fn addresses(&self) -> Result<Arc<Addresses>, OauthError> {
        let timeout_ms = self.settings.timeout_ms;
        let found = self.source.find(self.ways.as_ref(), timeout_ms, self.clock);
        found.await
    }

    async fn post(
        &self,
        url: &str,
        addresses: &Addresses,
        mut fields: Vec<(&str, &str)>,
    ) -> Result<HttpAnswer, OauthError> {
        let mut headers = vec![
            ("accept".to_owned(), "application/json".to_owned()),
            (
                "content-type".to_owned(),
                "application/x-www-form-urlencoded".to_owned(),
            ),
        ];
        let id = &self.settings.client_id;
        match &self.settings.client_secret {
            None => fields.push(("client_id", id)),
            Some(secret) if addresses.wants_secret_in_form => {
                fields.push(("client_id", id));
                fields.push(("client_secret", secret.expose()));
            }
            Some(secret) => {
                // The id and the secret are escaped before they are joined (RFC 6749, section 2.3.1).
                let [id, secret] = [id, secret.expose()].map(|text| percent_encoded(text));
                let basic = STANDARD.encode_to_string(format!("{id}:{secret}"));
                headers.push(("authorization".to_owned(), format!("Basic {basic}")));
            }
        }
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: url.to_owned(),
            headers,
            body: form(&fields).into_bytes(),
            timeout_ms: self.settings.timeout_ms,
            // Codes, tokens and secrets follow no redirect.
            redirects: Redirects::Keep,
        };
        let way = self.ways.to(url, addresses.is_of_operator(url));
        let answer = way.map_err(OauthError::Unavailable)?.fetch(request).await;
        answer.map_err(|error| OauthError::Unavailable(error.to_string()))
    }
}
