//! Makes a base from a folder or from records: reads, checks, indexes, embeds new passages, writes the manifest. Knows the order of these
//! steps and their reports, not how each is done.

use crate::analysis::{self, TextUse};
use crate::catalogue::Catalogue;
use crate::dense::{Dense, Questions};
use crate::embed::Embedder;
use crate::embedding;
use crate::index::{IndexError, LexicalIndex, Vocabulary};
use crate::ingest::{self, IngestReport};
use crate::manifest::{self, Manifest};
use crate::names::Names;
use crate::options::{Embedding, Observer, OpenError, Options};
use crate::record::{self, RecordError};
use crate::search::{Base, KnowledgeBase};
use crate::structured::Reading;
use crate::vectors::VectorIndex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_contract::handler::Record;

/// The folder below the data folder in which vectors and manifest lie.
const FOLDER: &str = "knowledge";
/// The reason why a knowledge base could not be made of records.
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
    /// Reads a folder of records, keeps the good ones and reports the bad ones. An empty folder gives an empty base. The base searches by
    /// words alone and is ready at once.
    pub fn open(
        folder: impl AsRef<Path>,
        options: &Options,
    ) -> Result<(Self, IngestReport), OpenError> {
        let mut words = Words::of_folder(folder, options)?;
        let report = std::mem::take(&mut words.report);
        Ok((words.with(None, options), report))
    }

    /// Makes a base of records from another source than a folder. They pass the same checks.
    pub fn from_records(records: Vec<Record>) -> Result<Self, RecordsError> {
        let records = admit_all(records)?;
        Ok(Self::of_words(records).map_err(OpenError::from)?)
    }

    /// The same as [`open`](Self::open), with a model and the other parts of the options. Passages that were embedded before, by this
    /// process or an interrupted one, are not embedded again.
    pub async fn index_folder(
        folder: impl AsRef<Path>,
        options: &Options,
        observer: &mut Observer<'_>,
    ) -> Result<(Self, IngestReport), OpenError> {
        let words = Words::of_folder(folder, options)?;
        words.into_base(options, observer).await
    }

    /// The same for records from another source than a folder.
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

/// Records that are indexed by their words. This needs no model, so a model can be loaded at the same time.
pub struct Words {
    folder: Option<PathBuf>,
    catalogue: Catalogue,
    index: LexicalIndex,
    names: Names,
    report: IngestReport,
}

impl Words {
    /// Reads a folder of records, keeps the good ones and reports the bad ones.
    pub fn of_folder(folder: impl AsRef<Path>, options: &Options) -> Result<Self, OpenError> {
        let folder = folder.as_ref();
        let (records, report) = ingest::read_folder(
            folder,
            &options.limits,
            Reading {
                access: &options.access,
                documents: options.documents.as_deref(),
            },
        )?;
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
            &mut analysis::remembering(index.analyser().clone(), TextUse::Asked),
        );
        Ok(Self {
            folder,
            catalogue,
            index,
            names,
            report,
        })
    }

    /// Gives the records their vectors, if the options name a model, and writes down what was indexed.
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

    /// The dense part of the base; `None` if passages lack all vectors, so that no answer claims a search by meaning.
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
