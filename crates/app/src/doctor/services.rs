//! Tries each key against its service, with the cheapest request: the service's facts about the model. Starts no session, asks no
//! model, and shows no key.

use super::built_in_services::{calendar, images, search};
use super::{Finding, Verdict};
use crate::provider::{self, Choice};
use crate::text_provider;
use http::header::{AUTHORIZATION, DATE, HeaderName, HeaderValue};
use std::time::{Duration, Instant};
use windlass_config::{Config, EmbedderKind, Secret, TextProvider};
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::embed::Protocol;
use windlass_provider::openai_realtime::address::BASE_URL as OPENAI_URL;
use windlass_runtime::transport::http::{HttpClient, HttpError, HttpLimits, HttpResponse};
use windlass_runtime::transport::websocket::ConnectError;

const GEMINI_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
const GEMINI_VERSION: &str = "/v1beta";
const GEMINI_KEY_HEADER: &str = "x-goog-api-key";
/// Bytes of a refusal that are read.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// A slower answer to so small a request is reported.
const SLOW: Duration = Duration::from_secs(3);
/// The findings about the services, and the time by their clocks.
pub(super) struct Asked {
    pub(super) findings: Vec<Finding>,
    pub(super) clocks: Vec<ServiceClock>,
}

/// The time in a service's answer, and ours when it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceClock {
    pub(super) host: String,
    pub(super) theirs_seconds: i64,
    pub(super) ours_seconds: i64,
}

/// The protocol of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    Openai,
    Google,
}

impl Vendor {
    fn variable(self) -> &'static str {
        match self {
            Self::Openai => "OPENAI_API_KEY",
            Self::Google => "GEMINI_API_KEY",
        }
    }

    fn keys_page(self) -> &'static str {
        match self {
            Self::Openai => "https://platform.openai.com/api-keys",
            Self::Google => "https://aistudio.google.com/apikey",
        }
    }
}

/// A service that is asked about one model.
pub(super) struct Service {
    pub(super) check: &'static str,
    pub(super) vendor: Vendor,
    /// With `http://` or `https://`.
    pub(super) base: String,
    /// Whether the configuration names the address.
    pub(super) is_own: bool,
    pub(super) model: String,
    /// The flag or key that chooses another model.
    pub(super) model_key: &'static str,
    pub(super) key: Option<Sensitive<String>>,
    /// The source of the key, in words that follow "because".
    pub(super) reason: String,
}

/// Either there is a service to be asked, or all is said already.
pub(super) enum Plan {
    Ask(Box<Service>),
    Said(Finding),
}

pub(super) async fn ask_all(config: &Config, patience: Duration) -> Asked {
    let plans = [
        Some(voice(config)),
        Some(text(config)),
        Some(knowledge(config)),
        images(config),
        search(config),
    ];
    let plans = plans.into_iter().flatten();
    let answers = futures_util::future::join_all(plans.map(|plan| carry_out(plan, patience)));
    let (answers, calendar) = tokio::join!(answers, calendar(config, patience));
    let (mut findings, clocks): (Vec<Finding>, Vec<Option<ServiceClock>>) =
        answers.into_iter().unzip();
    findings.extend(calendar);
    Asked {
        findings,
        clocks: clocks.into_iter().flatten().collect(),
    }
}

fn voice(config: &Config) -> Plan {
    const CHECK: &str = "voice";
    let provider = &config.provider;
    let choice = match Choice::of(provider) {
        Ok(choice) => choice,
        Err(failure) => {
            let cure = "set the key, or leave provider.kind out";
            let what = failure.line().unwrap_or_default();
            return Plan::Said(Finding::wrong(CHECK, what, cure));
        }
    };
    let vendor = match choice {
        Choice::Demo => {
            return Plan::Said(Finding::note(
                CHECK,
                format!(
                    "the demo model, rules without AI, because {}",
                    config.reasons.voice
                ),
                "set OPENAI_API_KEY or GEMINI_API_KEY for a real one",
            ));
        }
        Choice::OpenaiRealtime | Choice::GptLive => Vendor::Openai,
        Choice::GeminiLive => Vendor::Google,
    };
    let untried = |what: &str| {
        let cure = "begin a voice session on the page to see whether it is right";
        Plan::Said(Finding::note(CHECK, what, cure))
    };
    if provider.vertex.is_some() {
        return untried("Vertex AI: its token was not tried");
    }
    let is_token = provider
        .api_key
        .as_ref()
        .is_some_and(Secret::is_ephemeral_token);
    if provider.ephemeral_token.is_some() || is_token {
        return untried("an ephemeral token, which was not tried: it may be good for one session");
    }
    let own = provider.url.as_ref().map(|url| over_http(url.as_str()));
    if own
        .as_deref()
        .is_some_and(|url| url.contains("/voice-live/"))
    {
        return untried("Azure Voice Live: its key was not tried");
    }
    Plan::Ask(Box::new(Service {
        check: CHECK,
        vendor,
        is_own: own.is_some(),
        base: match (own, vendor) {
            (Some(url), Vendor::Openai) => with_path(&url, "/v1"),
            // Sessions and such requests have different paths.
            (Some(url), Vendor::Google) => format!("{}{GEMINI_VERSION}", origin_of(&url)),
            (None, Vendor::Openai) => OPENAI_URL.to_owned(),
            (None, Vendor::Google) => GEMINI_URL.to_owned(),
        },
        model: provider::model_of(config).to_owned(),
        model_key: "--model",
        key: provider.api_key.as_ref().map(Secret::sensitive),
        reason: config.reasons.voice.clone(),
    }))
}

fn text(config: &Config) -> Plan {
    const CHECK: &str = "text";
    let text = &config.text;
    let vendor = match config.text_provider {
        TextProvider::Openai => Vendor::Openai,
        TextProvider::Gemini => Vendor::Google,
        TextProvider::Demo => {
            // Rules do not answer in the place of a model that is paid for.
            let what = match Choice::of(&config.provider) {
                Ok(Choice::Demo) => "the demo model, rules without AI",
                Ok(Choice::GeminiLive | Choice::OpenaiRealtime | Choice::GptLive) | Err(_) => {
                    "nobody answers by text"
                }
            };
            return Plan::Said(Finding::note(
                CHECK,
                what,
                "set OPENAI_API_KEY or GEMINI_API_KEY, or text.url for a server of your own",
            ));
        }
    };
    if text.api_key.is_none() && text.url.is_none() {
        if config.provider.vertex.is_some() {
            let cure = "send a message on the page to see whether it is right";
            return Plan::Said(Finding::note(
                CHECK,
                "Vertex AI: its token was not tried",
                cure,
            ));
        }
        return Plan::Said(Finding::wrong(
            CHECK,
            format!("{} has no key", text_provider::name(config.text_provider)),
            format!("set {}", vendor.variable()),
        ));
    }
    let own = text.url.as_ref().map(|url| url.as_str().to_owned());
    Plan::Ask(Box::new(Service {
        check: CHECK,
        vendor,
        is_own: own.is_some(),
        base: match (own, vendor) {
            (Some(url), Vendor::Openai) => url,
            (Some(url), Vendor::Google) => with_path(&url, GEMINI_VERSION),
            (None, Vendor::Openai) => OPENAI_URL.to_owned(),
            (None, Vendor::Google) => GEMINI_URL.to_owned(),
        },
        model: text_provider::model_name(config),
        model_key: "--text-model",
        key: text.api_key.as_ref().map(Secret::sensitive),
        reason: config.reasons.text.clone(),
    }))
}

/// The plan for the embedder, where it is a service.
fn knowledge(config: &Config) -> Plan {
    const CHECK: &str = "embedder";
    let knowledge = &config.knowledge;
    let (vendor, protocol) = match knowledge.embedder {
        EmbedderKind::OpenAi => (Vendor::Openai, Protocol::OpenAi),
        EmbedderKind::Gemini => (Vendor::Google, Protocol::Gemini),
        EmbedderKind::Auto | EmbedderKind::None | EmbedderKind::Local => {
            return Plan::Said(Finding::good(CHECK, "no service is asked"));
        }
    };
    let own = knowledge.embedder_url.as_ref();
    if own.is_none() && knowledge.embedder_key.is_none() {
        return Plan::Said(Finding::wrong(
            CHECK,
            "the embedding service has no key",
            format!("set {}, or knowledge.embedder_url", vendor.variable()),
        ));
    }
    let model = knowledge.embedder_model.as_ref();
    Plan::Ask(Box::new(Service {
        check: CHECK,
        vendor,
        is_own: own.is_some(),
        base: own
            .map_or(protocol.usual_address(), |url| url.as_str())
            .to_owned(),
        model: model
            .map_or(protocol.usual_model(), |model| model.as_str())
            .to_owned(),
        model_key: "knowledge.embedder_model",
        key: knowledge.embedder_key.as_ref().map(Secret::sensitive),
        reason: "knowledge.embedder is set".to_owned(),
    }))
}

/// The HTTP address of the server behind a WebSocket address, without the query.
fn over_http(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let url = match url.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        Some(_) | None => url.to_owned(),
    };
    let url = url.trim_end_matches('/');
    url.strip_suffix("/realtime").unwrap_or(url).to_owned()
}

fn origin_of(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    &url[..end]
}

/// An address without a path gets this one.
fn with_path(url: &str, path: &str) -> String {
    match origin_of(url) == url.trim_end_matches('/') {
        true => format!("{}{path}", url.trim_end_matches('/')),
        false => url.to_owned(),
    }
}

async fn carry_out(plan: Plan, patience: Duration) -> (Finding, Option<ServiceClock>) {
    let service = match plan {
        Plan::Ask(service) => service,
        Plan::Said(finding) => return (finding, None),
    };
    let client = match service.client(patience) {
        Ok(client) => client,
        Err(what) => {
            let cure = format!("set {} anew", service.vendor.variable());
            return (Finding::wrong(service.check, what, cure), None);
        }
    };
    let id = service
        .model
        .strip_prefix("models/")
        .unwrap_or(&service.model);
    let begun = Instant::now();
    match client.get(&format!("/models/{id}")).await {
        Ok(answer) => {
            let clock = service.clock(&answer);
            (service.judge(answer, begun.elapsed()).await, clock)
        }
        Err(error) => (service.unreachable(&error), None),
    }
}

impl Service {
    fn client(&self, patience: Duration) -> Result<std::sync::Arc<HttpClient>, String> {
        let limits = HttpLimits {
            connect_timeout: patience,
            head_timeout: patience,
            idle_timeout: patience,
            ..HttpLimits::default()
        };
        let headers = match &self.key {
            None => Vec::new(),
            Some(key) => {
                let (name, text) = match self.vendor {
                    Vendor::Openai => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                    Vendor::Google => (
                        HeaderName::from_static(GEMINI_KEY_HEADER),
                        key.expose().clone(),
                    ),
                };
                let mut value = HeaderValue::from_str(&text)
                    .map_err(|_| "the key holds characters that no header can carry".to_owned())?;
                value.set_sensitive(true);
                vec![(name, value)]
            }
        };
        HttpClient::new(&self.base, headers, limits).map_err(|error| error.to_string())
    }

    fn host(&self) -> &str {
        let origin = origin_of(&self.base);
        origin.split_once("://").map_or(origin, |(_, host)| host)
    }

    fn clock(&self, answer: &HttpResponse) -> Option<ServiceClock> {
        let date = answer.headers.get(DATE)?.to_str().ok()?;
        let theirs = jiff::fmt::rfc2822::parse(date).ok()?;
        Some(ServiceClock {
            host: self.host().to_owned(),
            theirs_seconds: theirs.timestamp().as_second(),
            ours_seconds: jiff::Timestamp::now().as_second(),
        })
    }

    async fn judge(&self, answer: HttpResponse, took: Duration) -> Finding {
        let (host, model) = (self.host(), &self.model);
        let status = answer.status;
        let took_ms = took.as_millis();
        let wrong = |what: String, cure: String| Finding::wrong(self.check, what, cure);
        // Google uses 400 where others use 401.
        let is_key_refused = match status {
            401 | 403 => true,
            400 => {
                let body = answer.body.read_up_to(BODY_BYTES_MAX).await;
                let body = String::from_utf8_lossy(&body).to_ascii_lowercase();
                body.contains("api_key_invalid") || body.contains("api key not valid")
            }
            _ => false,
        };
        if is_key_refused {
            return wrong(
                format!(
                    "{host} refuses the key (HTTP status {status}); it is used because {}",
                    self.reason
                ),
                format!(
                    "make a key at {} and set {}",
                    self.vendor.keys_page(),
                    self.vendor.variable()
                ),
            );
        }
        match status {
            200..=299 if took > SLOW => Finding::note(
                self.check,
                format!("{host} knows the key and {model}, but took {took_ms} ms to say so"),
                "look at the network between here and there; voice needs answers in a tenth of a second",
            ),
            200..=299 => Finding::good(
                self.check,
                format!(
                    "{host} knows the key and {model} ({took_ms} ms), because {}",
                    self.reason
                ),
            ),
            404 | 405 if self.is_own => Finding::note(
                self.check,
                format!("{host} answers ({took_ms} ms), and does not say whether it has {model}"),
                "nothing, if it is a server that lists no models; begin a session to see",
            ),
            404 => wrong(
                format!("{host} takes the key and has no model {model} for it"),
                format!("name another model with {}", self.model_key),
            ),
            429 => wrong(
                format!("{host} has no room for this key now (HTTP status 429)"),
                "look at the limits and the billing of the key's account".to_owned(),
            ),
            500..=599 => wrong(
                format!("{host} is in trouble (HTTP status {status})"),
                "try again later; the service's status page says more".to_owned(),
            ),
            _ => wrong(
                format!("{host} answers with HTTP status {status}"),
                "look whether the address is that of the service's API".to_owned(),
            ),
        }
    }

    /// The finding about a service that gives no answer, with the fix.
    fn unreachable(&self, error: &HttpError) -> Finding {
        let own = match self.is_own {
            true => "start that server, or correct its address",
            false => "look whether this machine reaches the internet",
        };
        let cure = match error {
            HttpError::Connect(ConnectError::Tls { .. }) => {
                "name the authority that signs it with tls.ca_file, or take it into the system's"
                    .to_owned()
            }
            HttpError::Connect(ConnectError::Proxy { .. } | ConnectError::ProxyRefused { .. }) => {
                format!(
                    "correct the proxy's variable, or name {} in NO_PROXY where it is reached directly",
                    self.host()
                )
            }
            HttpError::Connect(ConnectError::Name { .. }) => {
                format!(
                    "{own}, whether its DNS answers, and whether a proxy is needed (HTTPS_PROXY)"
                )
            }
            HttpError::Silent { .. } | HttpError::Connect(ConnectError::Timeout { .. }) => {
                format!("{own}; where it is only slow, give it more time with --timeout")
            }
            HttpError::Connect(
                ConnectError::Address { .. }
                | ConnectError::Unreachable { .. }
                | ConnectError::Refused { .. }
                | ConnectError::Upgrade { .. },
            )
            | HttpError::Broken { .. }
            | HttpError::Path { .. } => own.to_owned(),
        };
        Finding {
            check: self.check,
            verdict: Verdict::Wrong,
            what: error.to_string(),
            cure: Some(cure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sessions_address_leads_to_the_server_that_can_be_asked() {
        for (url, expected) in [
            ("ws://127.0.0.1:9", "http://127.0.0.1:9/v1"),
            ("wss://host/v1/realtime?model=x", "https://host/v1"),
            ("https://host/openai/v1/", "https://host/openai/v1"),
        ] {
            assert_eq!(with_path(&over_http(url), "/v1"), expected, "{url}");
        }
        assert_eq!(origin_of("https://host:1/a/b"), "https://host:1");
        assert_eq!(origin_of("https://host"), "https://host");
    }
}
