//! Access tokens of OAuth 2: obtained by one of three grants, kept until shortly before they end, and obtained once more when a
//! service no longer takes one. Knows no service.

use crate::service_account::ServiceAccount;
use crate::settling::{Exchange, Kind, Request, RequestError, form, read};
use base64_simd::STANDARD;
use serde::Deserialize;
use std::sync::{Mutex, PoisonError};
use windlass_contract::sensitive::Sensitive;

/// Milliseconds before its end from which a token is not used: the request takes a while to arrive.
const MARGIN_MS: u64 = 60_000;
/// The life of a token without a stated end (RFC 6749, section 5.1, only recommends to state it).
const LASTS_SECONDS: u64 = 300;
/// Bytes of a token.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The grant by which a token is obtained.
#[derive(Clone, Debug)]
pub enum Grant {
    /// A user's consent, given once (RFC 6749, section 6).
    Refresh {
        client_id: String,
        client_secret: Sensitive<String>,
        refresh_token: Sensitive<String>,
    },
    /// The key of a service account (RFC 7523, section 2.1).
    ServiceAccount(Box<ServiceAccount>),
    /// Zoom's server-to-server grant
    /// (<https://developers.zoom.us/docs/internal-apps/s2s-oauth/>).
    ZoomAccount {
        account_id: String,
        client_id: String,
        client_secret: Sensitive<String>,
    },
}

/// Tokens of one service.
pub(crate) struct Tokens {
    exchange: Exchange,
    url: String,
    grant: Grant,
    known: Mutex<Option<Known>>,
}

#[derive(Clone)]
struct Known {
    token: Sensitive<String>,
    until_unix_ms: u64,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<u64>,
}

impl Tokens {
    /// `url` is the address of the token endpoint.
    pub(crate) fn new(exchange: Exchange, url: String, grant: Grant) -> Self {
        Self {
            exchange,
            url,
            grant,
            known: Mutex::default(),
        }
    }

    /// Sends the request with a token. If the service does not take the token, it is sent once more with a new one.
    pub(crate) async fn send(&self, request: Request) -> Result<Vec<u8>, RequestError> {
        let token = self.token().await?;
        let first = self.exchange.send(with(request.clone(), &token)).await;
        match first {
            Err(RequestError::Status { status: 401, .. }) => {
                self.forget(&token);
                let token = self.token().await?;
                let again = self.exchange.send(with(request, &token)).await;
                again.map_err(|error| match error {
                    RequestError::Status {
                        status: 401,
                        reason,
                        ..
                    } => RequestError::Denied(reason),
                    error => error,
                })
            }
            first => first,
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<Known>> {
        // Each change is one step, so that a panic elsewhere leaves the state whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, token: &Sensitive<String>) {
        self.known().take_if(|known| known.token == *token);
    }

    async fn token(&self) -> Result<Sensitive<String>, RequestError> {
        let now = (self.exchange.clock)();
        let known = self.known().clone();
        if let Some(known) = known.filter(|known| known.until_unix_ms > now) {
            return Ok(known.token);
        }
        let request = self.request(now)?;
        // A failed request for a token has changed nothing.
        let body = self.exchange.send(request).await;
        let body = body.map_err(|error| match error {
            RequestError::Status { .. } => RequestError::Denied(error.to_string()),
            error => error,
        })?;
        let granted: Granted = read(&body, Kind::Reads)?;
        let fits = |byte: u8| byte.is_ascii_graphic();
        let token = granted.access_token;
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !token.bytes().all(fits) {
            let cause = "the service gave a token that no header can carry";
            return Err(RequestError::Unavailable(cause.to_owned()));
        }
        let lasts_ms = granted
            .expires_in
            .unwrap_or(LASTS_SECONDS)
            .saturating_mul(1_000);
        let known = Known {
            token: Sensitive(token),
            until_unix_ms: now.saturating_add(lasts_ms.saturating_sub(MARGIN_MS)),
        };
        let token = known.token.clone();
        *self.known() = Some(known);
        Ok(token)
    }

    fn request(&self, now_unix_ms: u64) -> Result<Request, RequestError> {
        let mut headers = vec![(
            "Content-Type".to_owned(),
            "application/x-www-form-urlencoded".to_owned(),
        )];
        let body = match &self.grant {
            Grant::Refresh {
                client_id,
                client_secret,
                refresh_token,
            } => form(&[
                ("grant_type", "refresh_token"),
                ("client_id", client_id),
                ("client_secret", client_secret.expose()),
                ("refresh_token", refresh_token.expose()),
            ]),
            Grant::ServiceAccount(account) => {
                let assertion = account.assertion(&self.url, now_unix_ms / 1_000);
                let assertion =
                    assertion.map_err(|cause| RequestError::Unavailable(cause.into()))?;
                form(&[
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", &assertion),
                ])
            }
            Grant::ZoomAccount {
                account_id,
                client_id,
                client_secret,
            } => {
                let pair = format!("{client_id}:{}", client_secret.expose());
                let basic = STANDARD.encode_to_string(pair);
                headers.push(("Authorization".to_owned(), format!("Basic {basic}")));
                form(&[
                    ("grant_type", "account_credentials"),
                    ("account_id", account_id),
                ])
            }
        };
        Ok(Request {
            method: "POST",
            url: self.url.clone(),
            headers,
            body: body.into_bytes(),
            kind: Kind::Reads,
        })
    }
}

fn with(request: Request, token: &Sensitive<String>) -> Request {
    request.with_header("Authorization", format!("Bearer {}", token.expose()))
}
