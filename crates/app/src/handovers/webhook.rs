//! Posts tickets to the service that the configuration names, signed, under the same id each time. Knows no conversation, and not when
//! it is asked again.

use super::ticket::Ticket;
use crate::clock;
use crate::failure::Failure;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_config::Config;
use windlass_runtime::declared::SigningKey;
use windlass_runtime::fetch::{Endpoint, FetchLimits, Fetcher, Places, SystemResolver, WayOut};
use windlass_tool::envelope::rfc3339;
use windlass_tool::handler::{Http, HttpRequest, IDEMPOTENCY_KEY, Redirects};

/// How long an answer is waited for, and bytes of it.
const PATIENCE: Duration = Duration::from_secs(15);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

pub(super) struct Webhook {
    url: String,
    key: SigningKey,
    way: Arc<dyn Http>,
}

impl Webhook {
    /// The one that the configuration names.
    ///
    /// # Errors
    ///
    /// It has no secret, or one that signs nothing.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, Failure> {
        let settings = &config.escalation;
        let Some(url) = &settings.webhook else {
            return Ok(None);
        };
        let refuse =
            |problem: &str| Failure::Failed(format!("escalation.webhook_secret: {problem}"));
        let secret = settings.webhook_secret.as_ref().ok_or_else(|| {
            refuse("escalation.webhook needs it, to sign what is posted; write whsec_ and 24 to 64 random bytes in base64")
        })?;
        let key = SigningKey::parse(secret.sensitive().expose())
            .map_err(|unfit| refuse(&unfit.to_string()))?;
        let url = url.as_str().to_owned();
        let place = Endpoint::of_url(&url).ok_or_else(|| {
            Failure::Failed(
                "escalation.webhook: it names no host; write https://host/path".to_owned(),
            )
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

    /// Posts a ticket; else why it did not arrive.
    pub(super) async fn send(&self, ticket: &Ticket) -> Result<(), String> {
        let now_unix_ms = clock::now_unix_ms();
        let body = json!({
            "type": "ticket.opened",
            "timestamp": rfc3339(now_unix_ms),
            "data": ticket.json(),
        });
        let body = body.to_string().into_bytes();
        let seconds = now_unix_ms / 1_000;
        let signature = self.key.sign(&ticket.id, seconds, &body);
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", ticket.id.clone()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", signature),
            (IDEMPOTENCY_KEY, ticket.id.clone()),
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
