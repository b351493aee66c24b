//! Search by meaning: the vectors of all passages, the model that made them, and the vectors of recent questions. Knows no words, and
//! records only by their numbers.

use crate::catalogue::Ordinal;
use crate::embed::{EmbedError, Embedder, Model, Purpose, normalise};
use crate::machine::Machine;
use crate::vectors::VectorIndex;
use lru::LruCache;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use windlass_contract::handler::CapabilityFuture;
use windlass_contract::kind::Mode;

/// The most questions whose vectors are kept.
const RECENT_MAX: NonZeroUsize = NonZeroUsize::new(1_000).expect("one thousand is not zero");
/// The most bytes of a kept question; longer ones are seldom asked twice.
const RECENT_BYTES_MAX: usize = 1_024;

/// How long an answer waits for its question's vector, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    pub voice_ms: u64,
    pub text_ms: u64,
}

impl Default for Patience {
    /// 25 ms in voice, which users do not notice, and 1,000 ms in text.
    fn default() -> Self {
        Self {
            voice_ms: 25,
            text_ms: 1_000,
        }
    }
}

impl Patience {
    fn of(self, mode: Mode) -> u64 {
        match mode {
            Mode::Voice => self.voice_ms,
            Mode::Text => self.text_ms,
        }
    }
}

pub(crate) struct Dense {
    pub(crate) index: VectorIndex,
    /// The records that still have no vectors and are found by words alone.
    pub(crate) unembedded: BTreeSet<Ordinal>,
    pub(crate) questions: Questions,
}

impl Dense {
    pub(crate) fn new(index: VectorIndex, records: usize, questions: Questions) -> Self {
        Self {
            unembedded: index.without_vectors(records),
            index,
            questions,
        }
    }
}

/// Makes vectors of questions, and keeps those of recent ones.
pub(crate) struct Questions {
    embedder: Arc<dyn Embedder>,
    recent: Mutex<LruCache<String, Arc<[f32]>>>,
    machine: Option<Arc<dyn Machine>>,
    patience: Patience,
}

/// The reason in answers without a vector, however long they waited.
pub(crate) const MODEL_UNAVAILABLE: &str = "dense_unavailable";

/// The reason why a question has no vector.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoVector {
    Timeout,
    Unavailable(EmbedError),
}

impl NoVector {
    /// The reason as answers give it.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Timeout => "dense_timeout",
            Self::Unavailable(_) => MODEL_UNAVAILABLE,
        }
    }
}

impl Questions {
    pub(crate) fn new(
        embedder: Arc<dyn Embedder>,
        machine: Option<Arc<dyn Machine>>,
        patience: Patience,
    ) -> Self {
        Self {
            embedder,
            recent: Mutex::new(LruCache::new(RECENT_MAX)),
            machine,
            patience,
        }
    }

    pub(crate) fn model(&self) -> &Model {
        self.embedder.model()
    }

    /// Counts tokens as for passages.
    pub(crate) fn token_count(&self, text: &str) -> usize {
        self.embedder.token_count(text)
    }

    /// The vector of a question, or the reason why there is none in time.
    pub(crate) async fn vector(&self, text: &str, mode: Mode) -> Result<Arc<[f32]>, NoVector> {
        if let Some(vector) = self.recent().get(text) {
            return Ok(vector.clone());
        }
        let embedding = self.embedder.embed(vec![text.to_owned()], Purpose::Query);
        let limit = self
            .machine
            .as_ref()
            .map(|machine| machine.after(self.patience.of(mode)));
        let vectors = match limit {
            Some(limit) => first_of(embedding, limit).await.ok_or(NoVector::Timeout)?,
            None => embedding.await,
        };
        let mut vectors = vectors.map_err(NoVector::Unavailable)?;
        let mut vector = match (vectors.pop(), vectors.is_empty()) {
            (Some(vector), true) if vector.len() == self.embedder.model().dimension => vector,
            _ => {
                return Err(NoVector::Unavailable(EmbedError::Permanent(
                    "not one vector of the model's dimension".to_owned(),
                )));
            }
        };
        normalise(&mut vector);
        let vector: Arc<[f32]> = vector.into();
        if text.len() <= RECENT_BYTES_MAX {
            self.recent().put(text.to_owned(), vector.clone());
        }
        Ok(vector)
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, LruCache<String, Arc<[f32]>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of the work, or `None` if the limit is reached first.
async fn first_of<T>(mut work: CapabilityFuture<T>, mut limit: CapabilityFuture<()>) -> Option<T> {
    poll_fn(|context| {
        if let Poll::Ready(answer) = work.as_mut().poll(context) {
            return Poll::Ready(Some(answer));
        }
        limit.as_mut().poll(context).map(|()| None)
    })
    .await
}
