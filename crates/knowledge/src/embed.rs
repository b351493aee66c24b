//! Turns texts into vectors: close vectors have close meanings. Knows no record and no index; a provider of vectors gets its network
//! access as a capability.

mod kernel;
mod local;
mod mini_lm;
mod remote;
mod safetensors;
mod wheel;
mod word_piece;

pub use local::{LocalModel, ModelError, add_model};
pub use remote::{HttpAnswer, HttpRequest, Protocol, RemoteModel, RemoteSettings, Transport};
pub use safetensors::TensorError;

use windlass_contract::handler::CapabilityFuture;

/// The model that made a vector. Vectors of two models are never mixed in one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub id: String,
    /// Hex digits that change whenever the model's vectors would.
    pub hash: String,
    pub dimension: usize,
}

/// The purpose of an embedding; some models treat the two differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    Query,
    Passage,
}

/// The reason why there are no vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// Another attempt may succeed.
    #[error("the embedding service does not answer: {0}")]
    Transient(String),
    /// The service asks for a pause of so many milliseconds, and may answer afterwards.
    #[error("the embedding service does not answer: {cause}, and asks for {} s of patience", after_ms.div_ceil(1_000))]
    Busy { cause: String, after_ms: u64 },
    #[error("the embedding service refuses the key: {0}")]
    Auth(String),
    #[error("the embedding service answered what it should not: {0}")]
    Permanent(String),
}

/// A model that is ready for use.
pub trait Embedder: Send + Sync {
    fn model(&self) -> &Model;

    /// One vector of length 1 for each text, in their order. May compute for milliseconds when polled.
    fn embed(
        &self,
        texts: Vec<String>,
        purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>>;

    /// The recommended number of texts of one request.
    fn batch_size(&self) -> usize;

    /// The number of the model's tokens in a text, exact or estimated.
    fn token_count(&self, text: &str) -> usize {
        estimated_tokens(text)
    }
}

/// Tokens by the usual ratio for English: four tokens for three words, and one for each character of a script without spaces.
pub(crate) fn estimated_tokens(text: &str) -> usize {
    let words = text.split_whitespace().count();
    let letters = text.chars().filter(|sign| !sign.is_ascii()).count();
    words.div_ceil(3) * 4 + letters / 4
}

/// Scales a vector to length 1; a zero vector stays.
pub(crate) fn normalise(vector: &mut [f32]) {
    let length = vector
        .iter()
        .map(|number| number * number)
        .sum::<f32>()
        .sqrt();
    if length > 0.0 && length.is_finite() {
        for number in vector {
            *number /= length;
        }
    }
}
