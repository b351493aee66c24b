//! Gives every passage its vector: a kept one, or a new one, made batch by batch. Knows no file format and no model.

use crate::catalogue::{Catalogue, Ordinal};
use crate::codes::Codes;
use crate::embed::{EmbedError, Embedder, Model, Purpose, normalise};
use crate::hash::{Hash, sha256};
use crate::ingest::IngestReport;
use crate::options::{Embedding, Observer, OpenError, Options, Progress};
use crate::passage;
use crate::passage_list::{ListState, PassageList};
use crate::vector_store::{VectorStore, VectorStoreError};
use crate::vectors::{Code, VectorIndex};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// The most vectors of one durable step; a power failure loses at most this many.
const COMMIT_VECTORS_MAX: usize = 500;
/// Milliseconds after which even a few vectors are written.
const COMMIT_MS: u64 = 200;
/// The most attempts at one batch of texts, and the first pause between them.
const ATTEMPTS_MAX: u32 = 4;
const FIRST_PAUSE_MS: u64 = 500;
/// The longest pause that is waited for; a service that asks for more is given up.
const PAUSE_MS_MAX: u64 = 120_000;

/// A passage's record, and the key of its vector.
struct VectorOwner {
    owner: Ordinal,
    key: Hash,
}

/// The vectors of all passages. `folder` keeps vectors beyond the process.
pub(crate) async fn embed_all(
    catalogue: &Catalogue,
    embedder: &Arc<dyn Embedder>,
    folder: Option<&Path>,
    options: &Options,
    observer: &mut Observer<'_>,
    report: &mut IngestReport,
) -> Result<VectorIndex, OpenError> {
    let model = embedder.model().clone();
    let (mut store, mut codes) = match (folder, options.embedding) {
        (Some(folder), Embedding::All) => (
            Some(VectorStore::open(folder, &model)?),
            Codes::new(model.dimension),
        ),
        (Some(folder), Embedding::AtHand) => (None, VectorStore::peek(folder, &model)?),
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
    let kept = store.as_ref().map_or(&codes, VectorStore::codes);
    let places = places(catalogue, embedder.as_ref(), folder, options, kept, report);
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
    // A folder without records may only be away for a moment, so its vectors are kept.
    if let Some(store) = store.as_mut().filter(|_| !places.is_empty()) {
        let live: HashSet<&Hash> = places.iter().map(|place| &place.key).collect();
        store.retain(&model, |key| live.contains(key))?;
    }
    Ok(index)
}

/// All passages, record by record, as they were cut before or are cut now. A process that may write stores the new cuts.
fn places(
    catalogue: &Catalogue,
    embedder: &dyn Embedder,
    folder: Option<&Path>,
    options: &Options,
    kept: &Codes,
    report: &mut IngestReport,
) -> Vec<VectorOwner> {
    let model = embedder.model();
    let list = folder.map(|folder| PassageList::read(folder, model));
    let mut texts = Vec::with_capacity(catalogue.len());
    let mut places = Vec::with_capacity(catalogue.len());
    for (owner, record) in (0..).zip(catalogue.records()) {
        // The passages of a record depend on its title and body alone.
        let text = sha256(&[record.title.as_bytes(), record.body.as_bytes()]);
        match list.as_ref().and_then(|list| list.passages(&text)) {
            Some(keys) => places.extend(keys.iter().map(|key| VectorOwner { owner, key: *key })),
            None => {
                report.cut += 1;
                for passage in passage::split(record, &|text| embedder.token_count(text)) {
                    let key = key(model, &passage);
                    places.push(VectorOwner { owner, key });
                }
            }
        }
        texts.push(text);
    }
    if let Some(list) = list {
        tell(&list, kept, report);
        if options.embedding == Embedding::All && !texts.is_empty() {
            keep_list(&list, &texts, &places, report);
        }
    }
    places
}

/// The key under which a passage's vector is kept.
fn key(model: &Model, passage: &str) -> Hash {
    sha256(&[
        model.id.as_bytes(),
        model.hash.as_bytes(),
        passage.as_bytes(),
    ])
}

/// Reports a damaged or missing list.
fn tell(list: &PassageList, kept: &Codes, report: &mut IngestReport) {
    let path = list.path.display();
    match list.state {
        ListState::Damaged => report.notices.push(format!(
            "{path} was damaged: the records are cut into passages anew"
        )),
        ListState::Missing if kept.len() > 0 && report.cut > 0 => report.notices.push(format!(
            "{path} was missing: the records are cut into passages anew"
        )),
        ListState::Missing | ListState::Whole => {}
    }
}

/// Stores the passages of the texts, if they differ from the stored list or most of that list is useless. A list that cannot be stored
/// only makes the next start slower.
fn keep_list(
    list: &PassageList,
    texts: &[Hash],
    places: &[VectorOwner],
    report: &mut IngestReport,
) {
    if report.cut == 0 && list.len() <= 2 * texts.len() {
        return;
    }
    let entries = (0..).zip(texts).map(|(owner, text)| {
        let first = places.partition_point(|place| place.owner < owner);
        let own = places[first..]
            .iter()
            .take_while(|place| place.owner == owner);
        (text, own.map(|place| place.key).collect())
    });
    if let Err(cause) = list.replace(entries) {
        report.notices.push(format!(
            "{} cannot be written: {cause}; free space, or every start takes longer",
            list.path.display()
        ));
    }
}

/// The places of passages without a vector, each text once.
fn missing(places: &[VectorOwner], kept: &Codes) -> Vec<usize> {
    let mut asked = HashSet::new();
    (0..places.len())
        .filter(|place| {
            let key = &places[*place].key;
            !kept.contains(key) && asked.insert(key)
        })
        .collect()
}

/// The passages that are still to be embedded. Each text is made only when needed, because all texts of a base are as large as the base.
struct Missing<'a> {
    catalogue: &'a Catalogue,
    places: &'a [VectorOwner],
    /// In rising order.
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

/// The destination of new vectors.
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
        // A vector's key is the hash of its embedded text, whatever the stored list claimed.
        let keys: Vec<Hash> = texts
            .iter()
            .map(|text| key(embedder.model(), text))
            .collect();
        let vectors = match embed_batch(texts, embedder, options).await {
            Ok(vectors) => vectors,
            Err(error) => {
                // Paid vectors are stored before the error is returned.
                keep.add(waiting)?;
                return Err(error.into());
            }
        };
        done += batch.len();
        for (key, mut vector) in keys.into_iter().zip(vectors) {
            normalise(&mut vector);
            waiting.push((key, Code::of(&vector)));
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

/// The pause before the next attempt; `None` for no further attempt.
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
