//! Makes a base of a folder or of records: reads, checks, cuts into passages, embeds what is new, indexes. Knows the
//! order of these steps and what they report, not how each is done.

use crate::access::Access;
use crate::analysis;
use crate::catalogue::{Catalogue, Ordinal};
use crate::codes::Codes;
use crate::dense::{Dense, Patience, Questions};
use crate::embed::{EmbedError, Embedder, Purpose, normalise};
use crate::hash::{Hash, sha256};
use crate::index::{IndexError, LexicalIndex};
use crate::ingest::{self, FolderError, IngestLimits, IngestReport};
use crate::machine::Machine;
use crate::manifest::{self, Manifest, ManifestError};
use crate::names::Names;
use crate::passage;
use crate::query::Vocabulary;
use crate::record::{self, RecordError};
use crate::search::{Base, KnowledgeBase};
use crate::vector_store::{VectorStore, VectorStoreError};
use crate::vectors::{Code, VectorIndex};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_tool::handler::Record;

/// The folder below the data folder in which vectors and manifest lie.
const FOLDER: &str = "knowledge";
/// Vectors that are kept in one durable step, at most; this many are lost at worst when the power fails.
const COMMIT_VECTORS_MAX: usize = 500;
/// Milliseconds after which vectors are kept however few they are.
const COMMIT_MS: u64 = 200;
/// Attempts at one batch of texts, and what lies between them.
const ATTEMPTS_MAX: u32 = 4;
const FIRST_PAUSE_MS: u64 = 500;
/// A service that wants to be left alone for longer is not waited for.
const PAUSE_MS_MAX: u64 = 120_000;

/// What a base is made with, besides its records.
#[derive(Clone, Default)]
pub struct Options {
    pub limits: IngestLimits,
    pub access: Access,
    /// Without one, records are found by their words alone.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// The data folder, in which vectors outlive the process; without one they are made at every start.
    pub data: Option<PathBuf>,
    /// Without one, answers wait for their vectors however long they take.
    pub machine: Option<Arc<dyn Machine>>,
    pub patience: Patience,
    pub embedding: Embedding,
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
        let (records, mut report) = ingest::read_folder(folder.as_ref(), limits)?;
        report.records = records.len();
        Ok((Self::of_words(records, Access::default())?, report))
    }

    /// Makes a base of records that did not come from a folder. They go through the same checks.
    pub fn from_records(records: Vec<Record>) -> Result<Self, RecordsError> {
        let records = admit_all(records)?;
        Ok(Self::of_words(records, Access::default()).map_err(OpenError::from)?)
    }

    /// The same as [`open`](Self::open), with a model and everything else that the options name. What was embedded
    /// before, by this process or one that was interrupted, is not embedded again.
    pub async fn index_folder(
        folder: impl AsRef<Path>,
        options: &Options,
        observer: &mut Observer<'_>,
    ) -> Result<(Self, IngestReport), OpenError> {
        let folder = folder.as_ref();
        let (records, mut report) = ingest::read_folder(folder, &options.limits)?;
        report.records = records.len();
        let base = Self::index(records, options, observer, &mut report).await?;
        if let (Some(data), Embedding::All) = (&options.data, options.embedding) {
            let manifest = Manifest::new(folder, &base, options.embedder.as_deref(), &report);
            report.changes = manifest::replace(&data.join(FOLDER), &manifest, &mut report.notices)?;
            if base.is_empty() && report.changes.removed > 0 {
                report.notices.push(
                    "the folder holds no records: the vectors of those that it held are kept"
                        .to_owned(),
                );
            }
        }
        Ok((base, report))
    }

    /// The same for records that did not come from a folder.
    pub async fn index_records(
        records: Vec<Record>,
        options: &Options,
        observer: &mut Observer<'_>,
    ) -> Result<(Self, IngestReport), RecordsError> {
        let records = admit_all(records)?;
        let mut report = IngestReport {
            records: records.len(),
            ..IngestReport::default()
        };
        let base = Self::index(records, options, observer, &mut report).await?;
        Ok((base, report))
    }

    async fn index(
        records: Vec<Record>,
        options: &Options,
        observer: &mut Observer<'_>,
        report: &mut IngestReport,
    ) -> Result<Self, OpenError> {
        let access = options.access.clone();
        let Some(embedder) = &options.embedder else {
            return Ok(Self::of_words(records, access)?);
        };
        let (catalogue, index, names) = by_words(records)?;
        let vectors = embed_all(&catalogue, embedder, options, observer, report).await?;
        // Without a single vector nothing is found by meaning, and no answer shall say that it was.
        let dense = (vectors.len() > 0 || report.missing == 0).then(|| {
            Dense::new(
                vectors,
                catalogue.len(),
                Questions::new(embedder.clone(), options.machine.clone(), options.patience),
            )
        });
        Ok(Self(Arc::new(Base {
            catalogue,
            index,
            names,
            dense,
            access,
        })))
    }

    fn of_words(records: Vec<Record>, access: Access) -> Result<Self, IndexError> {
        let (catalogue, index, names) = by_words(records)?;
        Ok(Self(Arc::new(Base {
            catalogue,
            index,
            names,
            dense: None,
            access,
        })))
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

fn by_words(records: Vec<Record>) -> Result<(Catalogue, LexicalIndex, Names), IndexError> {
    let catalogue = Catalogue::new(records);
    let index = LexicalIndex::build(catalogue.records().map(AsRef::as_ref))?;
    let names = Names::of(
        catalogue
            .records()
            .map(|record| (&record.title, record.aliases.as_slice())),
        &mut analysis::remembering(index.analyser().clone()),
    );
    Ok((catalogue, index, names))
}

/// A passage's owner and what its vector is kept under.
struct Place {
    owner: Ordinal,
    key: Hash,
}

/// The vectors of all passages: those that are kept already, and the others newly made.
async fn embed_all(
    catalogue: &Catalogue,
    embedder: &Arc<dyn Embedder>,
    options: &Options,
    observer: &mut Observer<'_>,
    report: &mut IngestReport,
) -> Result<VectorIndex, OpenError> {
    let model = embedder.model().clone();
    let (mut store, mut codes) = match (&options.data, options.embedding) {
        (Some(data), Embedding::All) => (
            Some(VectorStore::open(&data.join(FOLDER), &model)?),
            Codes::new(model.dimension),
        ),
        (Some(data), Embedding::AtHand) => (None, VectorStore::peek(&data.join(FOLDER), &model)?),
        (None, _) => (None, Codes::new(model.dimension)),
    };
    if let Some(spoilt) = store
        .as_ref()
        .map(|store| store.spoilt)
        .filter(|spoilt| *spoilt > 0)
    {
        report.notices.push(format!(
            "{spoilt} kept vectors were damaged or cut off and are made anew"
        ));
    }
    let places = places(catalogue, embedder.as_ref());
    let kept = store.as_ref().map_or(&codes, VectorStore::codes);
    let mut missing = missing(&places, kept);
    report.passages = places.len();
    if options.embedding == Embedding::AtHand {
        report.missing = missing.len();
        missing.clear();
    }
    report.embedded = missing.len();
    let missing = Missing {
        catalogue,
        places: &places,
        missing,
    };
    let keep = match store.as_mut() {
        Some(store) => Keep::Store(store),
        None => {
            codes.reserve(missing.missing.len());
            Keep::Here(&mut codes)
        }
    };
    embed_missing(missing, embedder, options, observer, keep).await?;
    let mut index = VectorIndex::with_capacity(model.dimension, places.len());
    let kept = store.as_ref().map_or(&codes, VectorStore::codes);
    for place in &places {
        if let Some(code) = kept.get(&place.key) {
            index.push(place.owner, code);
        }
    }
    // Without a single record the folder may be away for a moment, and its vectors may not be.
    if let Some(store) = store.as_mut().filter(|_| !places.is_empty()) {
        let live: HashSet<&Hash> = places.iter().map(|place| &place.key).collect();
        store.retain(&model, |key| live.contains(key))?;
    }
    Ok(index)
}

/// All passages, those of a record one after another.
fn places(catalogue: &Catalogue, embedder: &dyn Embedder) -> Vec<Place> {
    let model = embedder.model();
    let mut places = Vec::with_capacity(catalogue.len());
    for (owner, record) in (0..).zip(catalogue.records()) {
        for text in passage::split(record, &|text| embedder.token_count(text)) {
            let key = sha256(&[model.id.as_bytes(), model.hash.as_bytes(), text.as_bytes()]);
            places.push(Place { owner, key });
        }
    }
    places
}

/// The places of passages that have no vector, each text once.
fn missing(places: &[Place], kept: &Codes) -> Vec<usize> {
    let mut asked = HashSet::new();
    (0..places.len())
        .filter(|place| {
            let key = &places[*place].key;
            !kept.contains(key) && asked.insert(key)
        })
        .collect()
}

/// The passages that are still to be embedded. Their texts are made when it is their turn, for those of a whole base are
/// as large as the base.
struct Missing<'a> {
    catalogue: &'a Catalogue,
    places: &'a [Place],
    /// Rising.
    missing: Vec<usize>,
}

impl Missing<'_> {
    /// The texts of some of the passages.
    fn texts(&self, batch: &[usize], embedder: &dyn Embedder) -> Vec<String> {
        let mut texts = Vec::with_capacity(batch.len());
        let mut current: Option<(Ordinal, Vec<String>)> = None;
        for place in batch {
            let owner = self.places[*place].owner;
            let passages = match &mut current {
                Some((of, passages)) if *of == owner => passages,
                current => {
                    let passages = self
                        .catalogue
                        .record(owner)
                        .map_or_else(Vec::new, |record| {
                            passage::split(record, &|text| embedder.token_count(text))
                        });
                    &mut current.insert((owner, passages)).1
                }
            };
            let first = self.places.partition_point(|other| other.owner < owner);
            texts.push(
                passages
                    .get_mut(place - first)
                    .map(std::mem::take)
                    .unwrap_or_default(),
            );
        }
        texts
    }
}

/// Where new vectors go.
enum Keep<'a> {
    Store(&'a mut VectorStore),
    Here(&'a mut Codes),
}

impl Keep<'_> {
    fn add(&mut self, added: Vec<(Hash, Code)>) -> Result<(), VectorStoreError> {
        match self {
            Self::Store(store) => store.add(added),
            Self::Here(codes) => {
                for (key, code) in &added {
                    codes.insert(*key, code.lent());
                }
                Ok(())
            }
        }
    }
}

/// Embeds texts batch by batch.
async fn embed_missing(
    missing: Missing<'_>,
    embedder: &Arc<dyn Embedder>,
    options: &Options,
    observer: &mut Observer<'_>,
    mut keep: Keep<'_>,
) -> Result<(), OpenError> {
    let total = missing.missing.len();
    let begun_ms = (observer.clock_ms)();
    let mut committed_ms = begun_ms;
    let mut waiting: Vec<(Hash, Code)> = Vec::new();
    let mut done = 0;
    for batch in missing.missing.chunks(embedder.batch_size().max(1)) {
        let texts = missing.texts(batch, embedder.as_ref());
        let vectors = match embed_batch(texts, embedder, options).await {
            Ok(vectors) => vectors,
            Err(error) => {
                // What was paid for is kept before the error is told.
                keep.add(waiting)?;
                return Err(error.into());
            }
        };
        done += batch.len();
        for (place, mut vector) in batch.iter().zip(vectors) {
            normalise(&mut vector);
            waiting.push((missing.places[*place].key, Code::of(&vector)));
        }
        let now_ms = (observer.clock_ms)();
        let is_due = now_ms.saturating_sub(committed_ms) >= COMMIT_MS;
        if waiting.len() >= COMMIT_VECTORS_MAX || is_due || done == total {
            keep.add(std::mem::take(&mut waiting))?;
            committed_ms = now_ms;
        }
        (observer.progress)(Progress::after(
            done,
            total,
            now_ms.saturating_sub(begun_ms),
        ));
    }
    Ok(())
}

async fn embed_batch(
    texts: Vec<String>,
    embedder: &Arc<dyn Embedder>,
    options: &Options,
) -> Result<Vec<Vec<f32>>, EmbedError> {
    let dimension = embedder.model().dimension;
    let count = texts.len();
    let mut attempt = 1;
    loop {
        match embedder.embed(texts.clone(), Purpose::Passage).await {
            Ok(vectors) => {
                let is_good = vectors.len() == count
                    && vectors.iter().all(|vector| vector.len() == dimension);
                return is_good.then_some(vectors).ok_or_else(|| {
                    EmbedError::Permanent(format!(
                        "not one vector of {dimension} numbers for each of {count} texts"
                    ))
                });
            }
            Err(error) => {
                let pause_ms = pause_ms(&error, attempt);
                let (Some(pause_ms), Some(machine)) = (pause_ms, &options.machine) else {
                    return Err(error);
                };
                machine.after(pause_ms).await;
                attempt += 1;
            }
        }
    }
}

/// How long to wait before the next attempt; `None` where there is to be none.
fn pause_ms(error: &EmbedError, attempt: u32) -> Option<u64> {
    if attempt >= ATTEMPTS_MAX {
        return None;
    }
    let own_ms = FIRST_PAUSE_MS << (attempt - 1);
    match error {
        EmbedError::Transient(_) => Some(own_ms),
        EmbedError::Busy { after_ms, .. } => {
            (*after_ms <= PAUSE_MS_MAX).then_some(own_ms.max(*after_ms))
        }
        EmbedError::Auth(_) | EmbedError::Permanent(_) => None,
    }
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
