//! Embedding services over HTTP: makes requests and reads answers, for OpenAI's protocol and for Gemini's. Owns no socket; a transport is
//! given to it.
//!
//! Sources: <https://platform.openai.com/docs/api-reference/embeddings> and
//! <https://ai.google.dev/api/embeddings#method:-models.batchembedcontents>.

use crate::embed::{EmbedError, Embedder, Model, Purpose, normalise};
use crate::hash::{hex, sha256};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::handler::CapabilityFuture;
use windlass_contract::sensitive::Sensitive;

/// Texts of one request. The limits are 100 at Gemini and 2,048 at OpenAI.
const BATCH_SIZE: usize = 64;

/// Sends requests to one service, with its key. Follows no redirects.
pub trait Transport: Send + Sync {
    /// The error is the cause of the failed transport, for operators.
    fn post(&self, request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, String>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The path below the service's address, with a leading slash.
    pub path: String,
    /// JSON.
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    pub body: Vec<u8>,
    /// The value of the header `retry-after`, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// The protocol that a service speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `POST {address}/embeddings`; the address ends with the version, as in `https://api.openai.com/v1`.
    OpenAi,
    /// `POST {address}/models/{model}:batchEmbedContents`, as in `https://generativelanguage.googleapis.com/v1beta`.
    Gemini,
}

impl Protocol {
    /// The provider's own address.
    pub fn usual_address(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
        }
    }

    /// The provider's model that suits most bases.
    pub fn usual_model(self) -> &'static str {
        match self {
            Self::OpenAi => "text-embedding-3-small",
            Self::Gemini => "gemini-embedding-001",
        }
    }

    /// The name and the value of the header that carries the key.
    pub fn authorization(self, key: &Sensitive<String>) -> (&'static str, Sensitive<String>) {
        match self {
            Self::OpenAi => (
                "authorization",
                Sensitive(format!("Bearer {}", key.expose())),
            ),
            Self::Gemini => ("x-goog-api-key", key.clone()),
        }
    }
}

/// The settings of a service.
#[derive(Clone, Debug)]
pub struct RemoteSettings {
    pub protocol: Protocol,
    pub address: String,
    pub model: String,
    /// Numbers of a vector; requests ask the service for as many.
    pub dimension: usize,
}

/// A model behind a service.
#[derive(Clone)]
pub struct RemoteModel {
    settings: Arc<RemoteSettings>,
    model: Model,
    transport: Arc<dyn Transport>,
}

impl RemoteModel {
    pub fn new(settings: RemoteSettings, transport: Arc<dyn Transport>) -> Self {
        let protocol: &[u8] = match settings.protocol {
            Protocol::OpenAi => b"openai",
            Protocol::Gemini => b"gemini",
        };
        // A service does not reveal its weights; its address and the model's name stand for them.
        let hash = sha256(&[
            protocol,
            settings.address.as_bytes(),
            settings.model.as_bytes(),
            &settings.dimension.to_le_bytes(),
        ]);
        Self {
            model: Model {
                id: settings.model.clone(),
                hash: hex(&hash),
                dimension: settings.dimension,
            },
            settings: Arc::new(settings),
            transport,
        }
    }
}

impl Embedder for RemoteModel {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(
        &self,
        texts: Vec<String>,
        purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>> {
        let settings = self.settings.clone();
        let answer = self.transport.post(settings.request(&texts, purpose));
        Box::pin(async move {
            let answer = answer.await.map_err(EmbedError::Transient)?;
            settings.read(&answer, texts.len())
        })
    }

    fn batch_size(&self) -> usize {
        BATCH_SIZE
    }
}

#[derive(Deserialize)]
struct OpenAiAnswer {
    data: Vec<OpenAiVector>,
}

#[derive(Deserialize)]
struct OpenAiVector {
    index: usize,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct GeminiAnswer {
    embeddings: Vec<GeminiVector>,
}

#[derive(Deserialize)]
struct GeminiVector {
    values: Vec<f32>,
}

impl RemoteSettings {
    fn request(&self, texts: &[String], purpose: Purpose) -> HttpRequest {
        let (path, body) = match self.protocol {
            Protocol::OpenAi => (
                "/embeddings".to_owned(),
                json!({
                    "model": self.model,
                    "input": texts,
                    "dimensions": self.dimension,
                    "encoding_format": "float",
                }),
            ),
            Protocol::Gemini => (
                format!("/models/{}:batchEmbedContents", self.model),
                json!({
                    "requests": texts
                        .iter()
                        .map(|text| self.gemini_request(text, purpose))
                        .collect::<Vec<_>>(),
                }),
            ),
        };
        HttpRequest {
            path,
            body: body.to_string().into_bytes(),
        }
    }

    fn gemini_request(&self, text: &str, purpose: Purpose) -> Value {
        json!({
            "model": format!("models/{}", self.model),
            "content": {"parts": [{"text": text}]},
            "taskType": match purpose {
                Purpose::Query => "RETRIEVAL_QUERY",
                Purpose::Passage => "RETRIEVAL_DOCUMENT",
            },
            "outputDimensionality": self.dimension,
        })
    }

    /// Reads an answer. An error body can repeat the key or the text, so only its status is reported.
    fn read(&self, answer: &HttpAnswer, count: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
        let status = answer.status;
        match status {
            200..=299 => {}
            401 | 403 => return Err(EmbedError::Auth(format!("status {status}"))),
            408 | 425 | 429 | 500..=599 => {
                let cause = format!("status {status}");
                return Err(match answer.retry_after_ms {
                    Some(after_ms) => EmbedError::Busy { cause, after_ms },
                    None => EmbedError::Transient(cause),
                });
            }
            _ => return Err(EmbedError::Permanent(format!("status {status}"))),
        }
        let unreadable = |_| EmbedError::Permanent("no vectors in its form".to_owned());
        let mut vectors: Vec<Vec<f32>> = match self.protocol {
            Protocol::OpenAi => {
                let mut answer: OpenAiAnswer =
                    serde_json::from_slice(&answer.body).map_err(unreadable)?;
                answer.data.sort_by_key(|vector| vector.index);
                // A text without a vector of its own would get another text's vector.
                let is_each_once = (0..)
                    .zip(&answer.data)
                    .all(|(place, vector): (usize, _)| vector.index == place);
                if !is_each_once {
                    return Err(EmbedError::Permanent(
                        "vectors whose indexes are not each of the texts' once".to_owned(),
                    ));
                }
                answer
                    .data
                    .into_iter()
                    .map(|vector| vector.embedding)
                    .collect()
            }
            Protocol::Gemini => {
                let answer: GeminiAnswer =
                    serde_json::from_slice(&answer.body).map_err(unreadable)?;
                answer
                    .embeddings
                    .into_iter()
                    .map(|vector| vector.values)
                    .collect()
            }
        };
        let is_whole = vectors.len() == count
            && vectors.iter().all(|vector| {
                vector.len() == self.dimension && vector.iter().all(|number| number.is_finite())
            });
        if !is_whole {
            return Err(EmbedError::Permanent(format!(
                "not {count} vectors of {} numbers",
                self.dimension
            )));
        }
        for vector in &mut vectors {
            normalise(vector);
        }
        Ok(vectors)
    }
}
