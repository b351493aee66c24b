//! The options for making a base, its observer, and the errors of making it. Knows no step of it.

use crate::access::Access;
use crate::dense::Patience;
use crate::documents::DocumentReader;
use crate::embed::{EmbedError, Embedder};
use crate::index::IndexError;
use crate::ingest::{FolderError, IngestLimits};
use crate::machine::Machine;
use crate::manifest::ManifestError;
use crate::vector_store::VectorStoreError;
use std::path::PathBuf;
use std::sync::Arc;

/// The inputs of a base besides its records.
#[derive(Clone, Default)]
pub struct Options {
    pub limits: IngestLimits,
    /// The namespaces. A first folder with one of their names holds that namespace.
    pub access: Access,
    /// The reader of HTML pages and PDF files. Without one they are no records.
    pub documents: Option<Arc<dyn DocumentReader>>,
    pub embedder: EmbedderPresence,
    /// The data folder, which keeps vectors beyond the process; without one they are made at every start.
    pub data: Option<PathBuf>,
    /// Limits the wait for a question's vector; without one answers wait however long it takes.
    pub machine: Option<Arc<dyn Machine>>,
    pub patience: Patience,
    pub embedding: Embedding,
}

/// The model that makes vectors, if there is one.
#[derive(Clone, Default)]
pub enum EmbedderPresence {
    /// Records are found by their words alone.
    #[default]
    NotWanted,
    /// The same, but a model is expected; every answer reports that it is missing.
    Missing,
    Present(Arc<dyn Embedder>),
}

impl EmbedderPresence {
    pub(crate) fn embedder(&self) -> Option<&Arc<dyn Embedder>> {
        match self {
            Self::Present(embedder) => Some(embedder),
            Self::NotWanted | Self::Missing => None,
        }
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

/// The passages that get vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Embedding {
    /// All of them, however long that takes.
    #[default]
    All,
    /// Passages with a stored vector. Records of other passages are found by their words.
    AtHand,
}

/// The observer of the making of a base.
pub struct Observer<'a> {
    /// Milliseconds since any fixed moment.
    pub clock_ms: &'a dyn Fn() -> u64,
    pub progress: &'a mut dyn FnMut(Progress),
}

/// How far the embedding is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Passages embedded so far, without those known from before.
    pub done: usize,
    pub total: usize,
    pub per_second: f64,
    /// The remaining time at the rate so far; `None` before there is a rate.
    pub left_ms: Option<u64>,
}

/// The reason why a knowledge base could not be opened. Bad records do not prevent it; they are in the report.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Vectors(#[from] VectorStoreError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Embed(#[from] EmbedError),
}

impl Progress {
    pub(crate) fn after(done: usize, total: usize, elapsed_ms: u64) -> Self {
        let per_second = match elapsed_ms {
            0 => 0.0,
            elapsed_ms => done as f64 * 1_000.0 / elapsed_ms as f64,
        };
        Self {
            done,
            total,
            per_second,
            left_ms: (per_second > 0.0)
                .then(|| ((total - done) as f64 * 1_000.0 / per_second) as u64),
        }
    }
}
