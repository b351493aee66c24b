//! Embedding services over HTTP: the connection that the knowledge base's requests travel on. Knows no vector.

use crate::failure::Failure;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use std::sync::Arc;
use std::time::Duration;
use windlass_config::Config;
use windlass_contract::handler::CapabilityFuture;
use windlass_contract::retry_after;
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::embed::{
    Embedder, HttpAnswer, HttpRequest, Protocol, RemoteModel, RemoteSettings, Transport,
};
use windlass_runtime::transport::http::{HttpClient, HttpLimits};

/// Bytes of an answer: the numbers of the largest batch of the longest vectors fit in.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Numbers of a vector that both providers' models can be asked for.
const USUAL_DIMENSION: usize = 768;
/// The time from a request to the head of its answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of opening a named service.
pub(super) enum Opened {
    Service(Arc<dyn Embedder>),
    /// It cannot be asked without the key that this variable holds.
    NoKey(&'static str),
}

/// The service that the configuration names.
pub(super) fn open(config: &Config, protocol: Protocol) -> Result<Opened, Failure> {
    let knowledge = &config.knowledge;
    let address = match (&knowledge.embedder_url, &knowledge.embedder_key) {
        (Some(address), _) => address.as_str(),
        (None, Some(_)) => protocol.usual_address(),
        (None, None) => {
            return Ok(Opened::NoKey(match protocol {
                Protocol::OpenAi => "OPENAI_API_KEY",
                Protocol::Gemini => "GEMINI_API_KEY",
            }));
        }
    };
    let key = knowledge.embedder_key.as_ref().map(|key| key.sensitive());
    let settings = RemoteSettings {
        protocol,
        address: address.to_owned(),
        model: knowledge
            .embedder_model
            .as_ref()
            .map_or(protocol.usual_model(), |model| model.as_str())
            .to_owned(),
        dimension: knowledge
            .embedder_dimension
            .map_or(USUAL_DIMENSION, |dimension| dimension.count()),
    };
    let service = Service::new(address, protocol, key.as_ref())?;
    let model = RemoteModel::new(settings, Arc::new(service));
    Ok(Opened::Service(Arc::new(model)))
}

struct Service(Arc<HttpClient>);

impl Service {
    fn new(
        address: &str,
        protocol: Protocol,
        key: Option<&Sensitive<String>>,
    ) -> Result<Self, Failure> {
        let json = HeaderValue::from_static("application/json");
        let mut headers = vec![(header::CONTENT_TYPE, json)];
        if let Some(key) = key {
            let (name, value) = protocol.authorization(key);
            let mut value = HeaderValue::from_str(value.expose())
                .expect("the configuration takes no key that a header cannot carry");
            value.set_sensitive(true);
            headers.push((HeaderName::from_static(name), value));
        }
        let limits = HttpLimits {
            head_timeout: HEAD_TIMEOUT,
            ..HttpLimits::default()
        };
        HttpClient::new(address, headers, limits)
            .map(Self)
            .map_err(Failure::of)
    }
}

impl Transport for Service {
    fn post(&self, request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, String>> {
        let client = self.0.clone();
        Box::pin(async move {
            let posted = client.post(&request.path, Bytes::from(request.body)).await;
            let mut answer = posted.map_err(|error| error.to_string())?;
            let [wait, date] = [header::RETRY_AFTER, header::DATE]
                .map(|name| answer.headers.get(name)?.to_str().ok());
            let retry_after_ms = retry_after::by_its_own_clock(wait, date);
            let mut body = Vec::new();
            while let Some(piece) = answer.body.next().await {
                let piece = piece.map_err(|error| error.to_string())?;
                if body.len() + piece.len() > ANSWER_BYTES_MAX {
                    return Err(format!("it answered more than {ANSWER_BYTES_MAX} bytes"));
                }
                body.extend_from_slice(&piece);
            }
            Ok(HttpAnswer {
                status: answer.status,
                body,
                retry_after_ms,
            })
        })
    }
}
