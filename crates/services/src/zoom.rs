//! Zoom's meetings over its server-to-server OAuth. Makes them and nothing else.

use crate::Clock;
use crate::conference::{Conferences, Meeting, checked};
use crate::settling::{Exchange, Kind, Request, RequestError, read};
use crate::tokens::{Grant, Tokens};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::handler::{CapabilityFuture, Http};
use windlass_contract::sensitive::Sensitive;

/// Characters of a topic (<https://developers.zoom.us/docs/api/meetings/>, "Create a meeting").
const TOPIC_CHARACTERS_MAX: usize = 200;
/// A scheduled meeting that does not recur.
const SCHEDULED: u8 = 2;

#[derive(Clone, Debug)]
pub struct ZoomSettings {
    /// The address of the API, such as `https://api.zoom.us/v2`.
    pub url: String,
    /// The address of the token endpoint, such as `https://zoom.us/oauth/token`.
    pub token_url: String,
    pub account_id: String,
    pub client_id: String,
    pub client_secret: Sensitive<String>,
    pub timeout_ms: u64,
}

/// The meetings of the account's owner.
pub struct Zoom(Arc<Account>);

struct Account {
    tokens: Tokens,
    url: String,
}

#[derive(Deserialize)]
struct Made {
    join_url: String,
}

impl Zoom {
    pub fn new(settings: ZoomSettings, http: Arc<dyn Http>, clock: Clock) -> Self {
        let exchange = Exchange {
            http,
            timeout_ms: settings.timeout_ms,
            clock,
        };
        let grant = Grant::ZoomAccount {
            account_id: settings.account_id,
            client_id: settings.client_id,
            client_secret: settings.client_secret,
        };
        Self(Arc::new(Account {
            tokens: Tokens::new(exchange, settings.token_url, grant),
            url: settings.url,
        }))
    }
}

impl Conferences for Zoom {
    fn make(&self, meeting: Meeting) -> CapabilityFuture<Result<String, RequestError>> {
        let account = self.0.clone();
        Box::pin(async move { account.make(&meeting).await })
    }
}

impl Account {
    async fn make(&self, meeting: &Meeting) -> Result<String, RequestError> {
        let topic: String = meeting.title.chars().take(TOPIC_CHARACTERS_MAX).collect();
        let minutes = meeting.end.duration_since(meeting.start).as_mins().max(1);
        let body = json!({
            "topic": topic,
            "type": SCHEDULED,
            "start_time": meeting.start.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "duration": minutes,
        });
        let url = format!("{}/users/me/meetings", self.url);
        let request = Request::json("POST", url, &body, Kind::Changes);
        let answer = self.tokens.send(request).await?;
        // The answer's `start_url` makes its visitor the host, so it is passed on to no one.
        let made: Made = read(&answer, Kind::Changes)?;
        checked(&made.join_url)
            .ok_or_else(|| RequestError::Unsettled("the service gave no link".to_owned()))
    }
}
