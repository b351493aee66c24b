//! The public keys of an issuer: fetched when they are needed, kept for their time, and fetched anew for an unknown key id no
//! oftener than the configuration says. Knows no claim.

use super::fetch::FetchLimits;
use arc_swap::ArcSwapOption;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass_config::{self as config, Whole};

/// Keys of one issuer that are looked at.
const KEYS_MAX: usize = 64;
/// How long after a failure the next attempt may be made.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// How many times their time keys are believed that cannot be fetched anew.
const STALE_TIMES: u32 = 2;

/// Why there is no key for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyProblem {
    Unknown,
    OtherAlgorithm,
    /// They cannot be fetched now.
    Unavailable,
}

/// The metadata that an issuer publishes.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Discovery {
    issuer: String,
    jwks_uri: String,
    #[serde(default)]
    pub(super) authorization_endpoint: Option<String>,
    #[serde(default)]
    pub(super) token_endpoint: Option<String>,
}

/// Reads the metadata that an issuer publishes.
pub(super) async fn discover(issuer: &str, limits: FetchLimits) -> Result<Discovery, String> {
    let place = issuer.trim_end_matches('/');
    let url = format!("{place}/.well-known/openid-configuration");
    let document = limits.get(&url).await?;
    let found: Discovery = serde_json::from_value(document)
        .map_err(|error| format!("{url}: it does not say where the keys are: {error}"))?;
    match found.issuer == issuer {
        true => Ok(found),
        false => Err(format!(
            "{url}: it is of the issuer \"{}\", and access.oidc.issuer is \"{issuer}\"; write it exactly so",
            found.issuer
        )),
    }
}

pub(super) fn limits_of(config: &config::Oidc) -> FetchLimits {
    FetchLimits {
        patience: Duration::from_secs(config.answer_seconds.map_or(5, Whole::get)),
        bytes_max: config.answer_bytes_max.map_or(262_144, Whole::count),
    }
}

pub(super) struct IssuerKeys {
    source: Arc<Source>,
    good_for: Duration,
    pause: Duration,
    known: ArcSwapOption<Known>,
    /// When the last attempt began, and whether it brought keys. The holder makes the next.
    last: Mutex<Option<Attempt>>,
}

#[derive(Clone, Copy)]
struct Attempt {
    at: Instant,
    is_good: bool,
}

struct Source {
    issuer: String,
    keys_url: Option<String>,
    limits: FetchLimits,
}

struct Known {
    keys: Vec<IssuerKey>,
    fetched: Instant,
}

struct IssuerKey {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

impl IssuerKeys {
    pub(super) fn new(config: &config::Oidc) -> Self {
        let seconds = |seconds: u64| Duration::from_secs(seconds);
        Self {
            source: Arc::new(Source {
                issuer: config.issuer.as_str().to_owned(),
                keys_url: config.keys_url.as_ref().map(|url| url.as_str().to_owned()),
                limits: limits_of(config),
            }),
            good_for: seconds(config.keys_seconds.map_or(3_600, Whole::get)),
            pause: seconds(config.refetch_seconds.map_or(60, Whole::get)),
            known: ArcSwapOption::empty(),
            last: Mutex::default(),
        }
    }

    /// The key of a token's header.
    pub(super) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, KeyProblem> {
        if let Some(known) = self.fresh()
            && let Some(found) = known.find(id, algorithm)
        {
            return found;
        }
        self.fetch_in_time(id, algorithm).await;
        match self.known.load_full() {
            Some(known) if known.fetched.elapsed() < self.good_for * STALE_TIMES => known
                .find(id, algorithm)
                .unwrap_or(Err(KeyProblem::Unknown)),
            _ => Err(KeyProblem::Unavailable),
        }
    }

    fn fresh(&self) -> Option<Arc<Known>> {
        let known = self.known.load_full()?;
        (known.fetched.elapsed() < self.good_for).then_some(known)
    }

    /// Fetches the keys, unless another task has just done so.
    async fn fetch_in_time(&self, id: Option<&str>, algorithm: Algorithm) {
        let mut last = self.last.lock().await;
        // Another task has fetched them while this one waited.
        if self
            .fresh()
            .is_some_and(|known| known.find(id, algorithm).is_some())
        {
            return;
        }
        let is_early = last.is_some_and(|last| {
            let pause = match last.is_good {
                true => self.pause,
                false => self.pause.min(PAUSE_AFTER_FAILURE),
            };
            last.at.elapsed() < pause
        });
        if is_early {
            return;
        }
        let at = Instant::now();
        // A caller that leaves must not begin the next attempt's time anew.
        *last = Some(Attempt { at, is_good: false });
        let source = self.source.clone();
        let fetched = tokio::spawn(async move { source.fetch().await }).await;
        let is_good = match fetched {
            Ok(Ok(keys)) => {
                let fetched = Instant::now();
                self.known.store(Some(Arc::new(Known { keys, fetched })));
                true
            }
            Ok(Err(cause)) => {
                tracing::error!(cause, "the keys of the token's issuer cannot be fetched");
                false
            }
            // The program ends.
            Err(_) => false,
        };
        *last = Some(Attempt { at, is_good });
    }
}

impl Source {
    async fn fetch(&self) -> Result<Vec<IssuerKey>, String> {
        let url = match &self.keys_url {
            Some(url) => url.clone(),
            None => discover(&self.issuer, self.limits).await?.jwks_uri,
        };
        let document = self.limits.get(&url).await?;
        let keys = document.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or_else(|| format!("{url}: there are no keys"))?;
        // A key that cannot be read is skipped: it is not meant for us.
        let keys = keys.iter().take(KEYS_MAX).filter_map(IssuerKey::of);
        Ok(keys.collect())
    }
}

impl Known {
    /// `None` where there is no such key. Without an id a token is of the one key that there is.
    fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Option<Result<DecodingKey, KeyProblem>> {
        let key = match (id, &self.keys[..]) {
            (Some(id), keys) => keys.iter().find(|key| key.id.as_deref() == Some(id))?,
            (None, [only]) => only,
            (None, _) => return None,
        };
        let is_other = key.algorithm.is_some_and(|own| own != algorithm);
        Some(match is_other {
            true => Err(KeyProblem::OtherAlgorithm),
            false => Ok(key.key.clone()),
        })
    }
}

impl IssuerKey {
    fn of(document: &Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(document.clone()).ok()?;
        let is_for_signatures = matches!(
            jwk.common.public_key_use,
            None | Some(PublicKeyUse::Signature)
        );
        let algorithm = match jwk.common.key_algorithm {
            Some(own) => Some(own.to_string().parse().ok()?),
            None => None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        // A secret among public keys is no secret.
        let is_public = key.family() != AlgorithmFamily::Hmac;
        (is_for_signatures && is_public).then(|| Self {
            id: jwk.common.key_id,
            algorithm,
            key,
        })
    }
}
