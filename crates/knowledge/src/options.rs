//! What a base is made with, who watches its making, and why it cannot be made. Knows no step of it.

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

/// What a base is made with, besides its records.
#[derive(Clone, Default)]
pub struct Options {
    pub limits: IngestLimits,
    /// A first folder of one of the names here holds that namespace.
    pub access: Access,
    /// Without one, HTML pages and PDF files are no records.
    pub documents: Option<Arc<dyn DocumentReader>>,
    pub embedder: EmbedderPresence,
    /// The data folder, in which vectors outlive the process; without one they are made at every start.
    pub data: Option<PathBuf>,
    /// Without one, answers wait for their vectors however long they take.
    pub machine: Option<Arc<dyn Machine>>,
    pub patience: Patience,
    pub embedding: Embedding,
}

/// Whether there is a model that makes vectors.
#[derive(Clone, Default)]
pub enum EmbedderPresence {
    /// Records are found by their words alone.
    #[default]
    NotWanted,
    /// The same, though there should be one, which every answer says.
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

/// Which passages get vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Embedding {
    /// All of them, however long that takes.
    #[default]
    All,
    /// Those whose vectors are kept already. The records of the others are found by their words.
    AtHand,
}

/// Who watches the making of a base.
pub struct Observer<'a> {
    /// Milliseconds since any moment.
    pub clock_ms: &'a dyn Fn() -> u64,
    pub progress: &'a mut dyn FnMut(Progress),
}

/// How far the embedding is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Passages embedded by now, those known from before not counted.
    pub done: usize,
    pub total: usize,
    pub per_second: f64,
    /// At the rate so far; `None` before there is one.
    pub left_ms: Option<u64>,
}

/// Why a knowledge base could not be opened. Bad records are no reason; they are in the report.
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
