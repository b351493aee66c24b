//! Google's service accounts: the key file as the console gives it, and the signed text that asks for a token
//! (<https://developers.google.com/identity/protocols/oauth2/service-account>). Opens no file.

use base64_simd::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::json;
use std::fmt;
use std::sync::Arc;

/// The scope of the token.
const SCOPE: &str = "https://www.googleapis.com/auth/calendar";
/// The longest life of a token that Google takes.
const LASTS_SECONDS: u64 = 3_600;

/// An account and its key. `Debug` shows no key.
#[derive(Clone)]
pub struct ServiceAccount {
    email: String,
    key_id: Option<String>,
    key: Arc<RsaKeyPair>,
    /// The user in whose name the account acts, if the domain's administrator has allowed that.
    subject: Option<String>,
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ServiceAccount({})", self.email)
    }
}

/// The reason why a text is no key file. Shows nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    #[error(
        "it is no key file of a service account: client_email or private_key is missing; download one as JSON"
    )]
    Form,
    #[error(
        "its private_key is no RSA key of at least 2048 bits in PKCS #8; download the file anew"
    )]
    Key,
}

#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
}

impl ServiceAccount {
    /// Reads a key file's text.
    ///
    /// # Errors
    ///
    /// The text is no key file, or its key does not sign.
    pub fn read(text: &str, subject: Option<String>) -> Result<Self, KeyFileError> {
        let file: KeyFile = serde_json::from_str(text).map_err(|_| KeyFileError::Form)?;
        let lines = file.private_key.trim();
        let base64 = lines
            .strip_prefix("-----BEGIN PRIVATE KEY-----")
            .and_then(|rest| rest.strip_suffix("-----END PRIVATE KEY-----"));
        let base64 = base64.ok_or(KeyFileError::Key)?;
        let key = base64_simd::forgiving_decode_to_vec(base64.as_bytes());
        let key = key.map_err(|_| KeyFileError::Key)?;
        let key = RsaKeyPair::from_pkcs8(&key).map_err(|_| KeyFileError::Key)?;
        Ok(Self {
            email: file.client_email,
            key_id: file.private_key_id,
            key: Arc::new(key),
            subject,
        })
    }

    /// A JSON Web Token, signed with RS256, that asks `audience` for an access token.
    pub(crate) fn assertion(
        &self,
        audience: &str,
        now_seconds: u64,
    ) -> Result<String, &'static str> {
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.key_id {
            header["kid"] = id.as_str().into();
        }
        let mut claims = json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": audience,
            "iat": now_seconds,
            "exp": now_seconds + LASTS_SECONDS,
        });
        if let Some(subject) = &self.subject {
            claims["sub"] = subject.as_str().into();
        }
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode_to_string(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        // The randomness hides the key from timing measurements; the signature is the same with any.
        let made = self.key.sign(
            &RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            signed.as_bytes(),
            &mut signature,
        );
        made.map_err(|_| "the key of the service account does not sign")?;
        Ok(format!(
            "{signed}.{}",
            URL_SAFE_NO_PAD.encode_to_string(signature)
        ))
    }
}
