//! Makes a base of a folder or of records: reads, checks, indexes, has embedded what is new, writes down what was done. Knows the
//! order of these steps and what they report, not how each is done.

use crate::access::Access;
use crate::analysis;
use crate::catalogue::Catalogue;
use crate::dense::{Dense, Patience, Questions};
use crate::embed::{EmbedError, Embedder};
use crate::embedding;
use crate::index::{IndexError, LexicalIndex};
use crate::ingest::{self, FolderError, IngestLimits, IngestReport};
use crate::machine::Machine;
use crate::manifest::{self, Manifest, ManifestError};
use crate::names::Names;
use crate::query::Vocabulary;
use crate::record::{self, RecordError};
use crate::search::{Base, KnowledgeBase};
use crate::vector_store::VectorStoreError;
use crate::vectors::VectorIndex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_tool::handler::Record;

/// The folder below the data folder in which vectors and manifest lie.
const FOLDER: &str = "knowledge";
/// What a base is made with, besides its records.
#[derive(Clone, Default)]
pub struct Options {
    pub limits: IngestLimits,
    pub access: Access,
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

/// Why a knowledge base could not be made of records.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    #[error("the record {id:?} is not good: its {problem}")]
    Record { id: String, problem: RecordError },
    #[error("there are two records {0:?}: give one of them another id")]
    Duplicate(String),
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl KnowledgeBase {
    /// Reads a folder of records, keeps the good ones and reports the bad ones. An empty folder is an empty base. Finds
    /// by words alone, at once.
    pub fn open(
        folder: impl AsRef<Path>,
        limits: &IngestLimits,
    ) -> Result<(Self, IngestReport), OpenError> {
        let mut words = Words::of_folder(folder, limits)?;
        let report = std::mem::take(&mut words.report);
        Ok((words.with(None, &Options::default()), report))
    }

    /// Makes a base of records that did not come from a folder. They go through the same checks.
    pub fn from_records(records: Vec<Record>) -> Result<Self, RecordsError> {
        let records = admit_all(records)?;
        Ok(Self::of_words(records).map_err(OpenError::from)?)
    }

    /// The same as [`open`](Self::open), with a model and everything else that the options name. What was embedded
    /// before, by this process or one that was interrupted, is not embedded again.
    pub async fn index_folder(
        folder: impl AsRef<Path>,
        options: &Options,
        observer: &mut Observer<'_>,
    ) -> Result<(Self, IngestReport), OpenError> {
        let words = Words::of_folder(folder, &options.limits)?;
        words.into_base(options, observer).await
    }

    /// The same for records that did not come from a folder.
    pub async fn index_records(
        records: Vec<Record>,
        options: &Options,
        observer: &mut Observer<'_>,
    ) -> Result<(Self, IngestReport), RecordsError> {
        let words = Words::of(admit_all(records)?, IngestReport::default(), None);
        let words = words.map_err(OpenError::from)?;
        Ok(words.into_base(options, observer).await?)
    }

    fn of_words(records: Vec<Record>) -> Result<Self, IndexError> {
        let words = Words::of(records, IngestReport::default(), None)?;
        Ok(words.with(None, &Options::default()))
    }
}

/// Records that are indexed by their words, which needs no model: whoever has to load one can do so meanwhile.
pub struct Words {
    folder: Option<PathBuf>,
    catalogue: Catalogue,
    index: LexicalIndex,
    names: Names,
    report: IngestReport,
}

impl Words {
    /// Reads a folder of records, keeps the good ones and reports the bad ones.
    pub fn of_folder(folder: impl AsRef<Path>, limits: &IngestLimits) -> Result<Self, OpenError> {
        let folder = folder.as_ref();
        let (records, report) = ingest::read_folder(folder, limits)?;
        Ok(Self::of(records, report, Some(folder.to_owned()))?)
    }

    fn of(
        records: Vec<Record>,
        mut report: IngestReport,
        folder: Option<PathBuf>,
    ) -> Result<Self, IndexError> {
        report.records = records.len();
        let catalogue = Catalogue::new(records);
        let index = LexicalIndex::build(catalogue.records().map(AsRef::as_ref))?;
        let names = Names::of(
            catalogue
                .records()
                .map(|record| (&record.title, record.aliases.as_slice())),
            &mut analysis::remembering(index.analyser().clone()),
        );
        Ok(Self {
            folder,
            catalogue,
            index,
            names,
            report,
        })
    }

    /// Gives the records their vectors, where the options name a model, and writes down what was indexed.
    pub async fn into_base(
        mut self,
        options: &Options,
        observer: &mut Observer<'_>,
    ) -> Result<(KnowledgeBase, IngestReport), OpenError> {
        let mut report = std::mem::take(&mut self.report);
        let data = options.data.as_ref().map(|data| data.join(FOLDER));
        let embedder = options.embedder.embedder();
        let dense = match embedder {
            Some(embedder) => {
                let vectors = embedding::embed_all(
                    &self.catalogue,
                    embedder,
                    data.as_deref(),
                    options,
                    observer,
                    &mut report,
                );
                self.dense(vectors.await?, embedder, options, &report)
            }
            None => None,
        };
        let folder = self.folder.take();
        let base = self.with(dense, options);
        if let (Some(folder), Some(data), Embedding::All) = (&folder, &data, options.embedding) {
            let manifest = Manifest::new(folder, &base, embedder.map(AsRef::as_ref), &report);
            report.changes = manifest::replace(data, &manifest, &mut report.notices)?;
            if base.is_empty() && report.changes.removed > 0 {
                report.notices.push(
                    "the folder holds no records: the vectors of those that it held are kept"
                        .to_owned(),
                );
            }
        }
        Ok((base, report))
    }

    /// Without a single vector nothing is found by meaning, and no answer shall say that it was.
    fn dense(
        &self,
        vectors: VectorIndex,
        embedder: &Arc<dyn Embedder>,
        options: &Options,
        report: &IngestReport,
    ) -> Option<Dense> {
        (vectors.len() > 0 || report.missing == 0).then(|| {
            Dense::new(
                vectors,
                self.catalogue.len(),
                Questions::new(embedder.clone(), options.machine.clone(), options.patience),
            )
        })
    }

    fn with(self, dense: Option<Dense>, options: &Options) -> KnowledgeBase {
        KnowledgeBase(Arc::new(Base {
            catalogue: self.catalogue,
            index: self.index,
            names: self.names,
            dense,
            access: options.access.clone(),
            embedder_is_missing: options.embedder.is_missing(),
        }))
    }
}

fn admit_all(records: Vec<Record>) -> Result<Vec<Record>, RecordsError> {
    let mut ids = HashSet::with_capacity(records.len());
    let mut admitted = Vec::with_capacity(records.len());
    for candidate in records {
        let id = candidate.id.clone();
        let record = match record::admit(candidate) {
            Ok(record) => record,
            Err(problem) => return Err(RecordsError::Record { id, problem }),
        };
        if !ids.insert(id) {
            return Err(RecordsError::Duplicate(record.id));
        }
        admitted.push(record);
    }
    Ok(admitted)
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
