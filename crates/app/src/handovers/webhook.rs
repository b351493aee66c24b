//! Posts events to the service that the configuration names, signed, under the same id each time. Knows no conversation, and not when a
//! post is repeated.

use crate::clock;
use crate::failure::Failure;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_config::{Config, Secret, WebAddress};
use windlass_contract::envelope::rfc3339;
use windlass_contract::handler::{Http, HttpRequest, IDEMPOTENCY_KEY, Redirects};
use windlass_runtime::declared::SigningKey;
use windlass_runtime::fetch::{Endpoint, FetchLimits, Fetcher, Places, SystemResolver, WayOut};

/// How long an answer is waited for, and bytes of it.
const PATIENCE: Duration = Duration::from_secs(15);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

pub(crate) struct Webhook {
    url: String,
    key: SigningKey,
    way: Arc<dyn Http>,
}

/// The configuration of a webhook.
pub(crate) struct WebhookSettings<'a> {
    /// The part of the configuration.
    pub(crate) section: &'static str,
    pub(crate) address: Option<&'a WebAddress>,
    pub(crate) secret: Option<&'a Secret>,
}

/// One thing that happened.
pub(crate) struct Posted {
    /// The same id for each attempt to post it.
    pub(crate) id: String,
    pub(crate) kind: &'static str,
    pub(crate) data: Value,
}

impl Webhook {
    /// The configured webhook.
    ///
    /// # Errors
    ///
    /// It has no secret, or a secret that cannot sign.
    pub(crate) fn of(
        config: &Config,
        settings: WebhookSettings<'_>,
    ) -> Result<Option<Self>, Failure> {
        let section = settings.section;
        let Some(url) = settings.address else {
            return Ok(None);
        };
        let refuse =
            |problem: &str| Failure::Failed(format!("{section}.webhook_secret: {problem}"));
        let secret = settings.secret.ok_or_else(|| {
            refuse(&format!("{section}.webhook needs it, to sign what is posted; write whsec_ and 24 to 64 random bytes in base64"))
        })?;
        let key = SigningKey::parse(secret.sensitive().expose())
            .map_err(|unfit| refuse(&unfit.to_string()))?;
        let url = url.as_str().to_owned();
        let place = Endpoint::of_url(&url).ok_or_else(|| {
            Failure::Failed(format!(
                "{section}.webhook: it names no host; write https://host/path"
            ))
        })?;
        let limits = FetchLimits {
            timeout: PATIENCE,
            body_bytes_max: ANSWER_BYTES_MAX,
            proxy_resolves_names: config.handlers.proxy_resolves_names,
        };
        // The operator chose it, and no model can change it.
        let fetcher = Fetcher::new(Places::Named(place), limits, Arc::new(SystemResolver));
        Ok(Some(Self {
            url,
            key,
            way: Arc::new(WayOut(fetcher)),
        }))
    }

    /// Posts an event. The error says why it did not arrive.
    pub(crate) async fn send(&self, posted: Posted) -> Result<(), String> {
        let Posted { id, kind, data } = posted;
        let now_unix_ms = clock::now_unix_ms();
        let body = json!({
            "type": kind,
            "timestamp": rfc3339(now_unix_ms),
            "data": data,
        });
        let body = body.to_string().into_bytes();
        let seconds = now_unix_ms / 1_000;
        let signature = self.key.sign(&id, seconds, &body);
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id.clone()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", signature),
            (IDEMPOTENCY_KEY, id),
        ];
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: self.url.clone(),
            headers: headers
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            body,
            timeout_ms: u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX),
            redirects: Redirects::Keep,
        };
        match self.way.fetch(request).await {
            Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
            Ok(answer) => Err(format!("it answered {}", answer.status)),
            Err(error) => Err(error.to_string()),
        }
    }
}
