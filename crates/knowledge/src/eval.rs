//! Measures how well the base finds the documents that people judged relevant: reads a test collection, asks its questions in every mode
//! of the base, and averages. Has no clock; the caller's clock measures the latency.

use crate::fusion::Retrieval;
use crate::record::DEFAULT_NAMESPACE;
use crate::search::KnowledgeBase;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use windlass_contract::handler::{KnowledgeError, Record};

/// The results of one question that count.
const CUT: usize = 10;
/// The most bytes of one file of a collection.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The most characters of a title, or of the text in its place.
const TITLE_CHARACTERS: usize = 240;

/// Documents, questions, and the judgements of which documents answer which question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collection {
    pub documents: Vec<Document>,
    pub questions: Vec<Question>,
    /// By question, then by document: the relevance, from 1.
    pub judgements: BTreeMap<String, BTreeMap<String, u32>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Document {
    #[serde(deserialize_with = "id")]
    pub id: String,
    #[serde(default)]
    pub title: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Question {
    #[serde(deserialize_with = "id")]
    pub id: String,
    pub text: String,
}

#[derive(Deserialize)]
struct Judgement {
    #[serde(deserialize_with = "id")]
    query: String,
    #[serde(deserialize_with = "id")]
    doc: String,
    rel: u32,
}

/// Reads an id; many collections use numbers.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Text(String),
        Number(serde_json::Number),
    }
    Ok(match Id::deserialize(deserializer)? {
        Id::Text(text) => text,
        Id::Number(number) => number.to_string(),
    })
}

/// The paths of a collection's three files, each in JSON Lines: `{id, title, text}`, `{id, text}` and `{query, doc, rel}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionFiles {
    pub corpus: PathBuf,
    pub queries: PathBuf,
    pub qrels: PathBuf,
}

/// The reason why a collection could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CollectionError {
    #[error("{} cannot be read: {cause}", .path.display())]
    Unreadable {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("{} is larger than {FILE_BYTES_MAX} bytes: use a part of it", .0.display())]
    TooLarge(PathBuf),
    #[error("{}:{line}: {cause}", .path.display())]
    Line {
        path: PathBuf,
        line: usize,
        cause: serde_json::Error,
    },
    #[error("{} has the id {id:?} twice: keep one of the two", .path.display())]
    Twice { path: PathBuf, id: String },
    #[error("none of the questions has a judgement: check that the three files belong together")]
    Unjudged,
}

/// Averages over all questions that have a judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measures {
    /// Discounted gain of the first ten, as a share of the best possible.
    #[serde(rename = "ndcg@10")]
    pub ndcg: f64,
    /// The share of the relevant documents that is among the first ten.
    #[serde(rename = "recall@10")]
    pub recall: f64,
    /// One over the rank of the first relevant document; 0 where it is not among the first ten.
    #[serde(rename = "mrr@10")]
    pub reciprocal_rank: f64,
}

/// Milliseconds of one question in the best mode that the base has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
}

/// The measurements, in the form in which they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    pub lexical: Measures,
    /// `None` without an embedding model, like `hybrid`.
    pub dense: Option<Measures>,
    pub hybrid: Option<Measures>,
    #[serde(rename = "latencyMs")]
    pub latency_ms: Latency,
}

impl Collection {
    pub fn read(files: &CollectionFiles) -> Result<Self, CollectionError> {
        let judgements: Vec<Judgement> = read_lines(&files.qrels)?;
        let mut collection = Self {
            documents: read_lines(&files.corpus)?,
            questions: read_lines(&files.queries)?,
            judgements: BTreeMap::new(),
        };
        let documents = collection.documents.iter().map(|document| &document.id);
        each_once(&files.corpus, documents)?;
        let questions = collection.questions.iter().map(|question| &question.id);
        each_once(&files.queries, questions)?;
        for Judgement { query, doc, rel } in judgements {
            if rel > 0 {
                let of_question = collection.judgements.entry(query).or_default();
                of_question.insert(doc, rel);
            }
        }
        collection
            .questions
            .retain(|question| collection.judgements.contains_key(&question.id));
        if collection.questions.is_empty() {
            return Err(CollectionError::Unjudged);
        }
        Ok(collection)
    }

    /// The documents as records, and the place of each among `documents` by its record's id.
    pub fn records(&self) -> (Vec<Record>, HashMap<String, usize>) {
        let mut places = HashMap::with_capacity(self.documents.len());
        let records = self
            .documents
            .iter()
            .enumerate()
            .map(|(place, document)| {
                // A collection's ids need not be valid record ids.
                let id = format!("doc:{place:08}");
                places.insert(id.clone(), place);
                Record {
                    id,
                    namespace: DEFAULT_NAMESPACE.to_owned(),
                    record_type: "doc".to_owned(),
                    title: title(document),
                    body: document.text.clone(),
                    source_type: "collection".to_owned(),
                    ..Record::default()
                }
            })
            .collect();
        (records, places)
    }
}

/// Asks all questions in every mode of the base. `clock_ms` gives milliseconds since any fixed moment; the base must hold the
/// collection's [`records`](Collection::records).
pub async fn evaluate(
    collection: &Collection,
    base: &KnowledgeBase,
    clock_ms: &dyn Fn() -> f64,
) -> Result<Evaluation, KnowledgeError> {
    let (_, places) = collection.records();
    let mut times_ms = Vec::with_capacity(collection.questions.len());
    let mut by_mode = BTreeMap::new();
    let best = base.best_retrieval();
    // The best mode comes first, so that its times include the first embedding of each question.
    for retrieval in [Retrieval::Hybrid, Retrieval::Dense, Retrieval::Lexical] {
        if !best.includes(retrieval) {
            continue;
        }
        let mut sum = Measures::default();
        for question in &collection.questions {
            let begun_ms = clock_ms();
            let ids = base.ranked_ids(&question.text, retrieval, CUT).await?;
            if retrieval == best {
                times_ms.push(clock_ms() - begun_ms);
            }
            let found = ids
                .iter()
                .filter_map(|id| collection.documents.get(*places.get(id)?))
                .map(|document| document.id.as_str());
            sum.add(measure(found, collection.judgements.get(&question.id)));
        }
        by_mode.insert(
            retrieval,
            sum.divided_by(collection.questions.len().max(1) as f64),
        );
    }
    Ok(Evaluation {
        lexical: by_mode
            .get(&Retrieval::Lexical)
            .copied()
            .unwrap_or_default(),
        dense: by_mode.get(&Retrieval::Dense).copied(),
        hybrid: by_mode.get(&Retrieval::Hybrid).copied(),
        latency_ms: Latency::of(times_ms),
    })
}

impl Measures {
    fn add(&mut self, other: Self) {
        self.ndcg += other.ndcg;
        self.recall += other.recall;
        self.reciprocal_rank += other.reciprocal_rank;
    }

    fn divided_by(self, count: f64) -> Self {
        Self {
            ndcg: self.ndcg / count,
            recall: self.recall / count,
            reciprocal_rank: self.reciprocal_rank / count,
        }
    }
}

impl Latency {
    /// Percentiles by the nearest rank.
    fn of(mut times_ms: Vec<f64>) -> Self {
        times_ms.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * times_ms.len() as f64).ceil() as usize;
            times_ms
                .get(rank.saturating_sub(1))
                .copied()
                .unwrap_or_default()
        };
        Self {
            p50: at(0.50),
            p99: at(0.99),
        }
    }
}

/// One question's measures: gains are the judgements themselves, discounted by the binary logarithm of the rank plus one (Järvelin and
/// Kekäläinen 2002).
fn measure<'a>(
    found: impl Iterator<Item = &'a str>,
    judged: Option<&BTreeMap<String, u32>>,
) -> Measures {
    let Some(judged) = judged.filter(|judged| !judged.is_empty()) else {
        return Measures::default();
    };
    let discounted = |rank: usize, gain: u32| f64::from(gain) / (rank as f64 + 2.0).log2();
    let mut measures = Measures::default();
    for (rank, id) in found.take(CUT).enumerate() {
        let Some(gain) = judged.get(id) else {
            continue;
        };
        measures.ndcg += discounted(rank, *gain);
        measures.recall += 1.0;
        if measures.reciprocal_rank == 0.0 {
            measures.reciprocal_rank = 1.0 / (rank as f64 + 1.0);
        }
    }
    let mut gains: Vec<u32> = judged.values().copied().collect();
    gains.sort_unstable_by(|left, right| right.cmp(left));
    let best: f64 = gains
        .iter()
        .take(CUT)
        .enumerate()
        .map(|(rank, gain)| discounted(rank, *gain))
        .sum();
    measures.ndcg /= best;
    measures.recall /= judged.len() as f64;
    measures
}

fn each_once<'a>(
    path: &Path,
    ids: impl Iterator<Item = &'a String>,
) -> Result<(), CollectionError> {
    let mut seen = HashSet::new();
    let mut ids = ids;
    match ids.find(|id| !seen.insert(*id)) {
        None => Ok(()),
        Some(id) => Err(CollectionError::Twice {
            path: path.to_owned(),
            id: id.clone(),
        }),
    }
}

fn title(document: &Document) -> String {
    let title = document.title.trim();
    if !title.is_empty() {
        return beginning(title);
    }
    match document.text.trim() {
        "" => document.id.clone(),
        text => beginning(text),
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(TITLE_CHARACTERS).collect()
}

fn read_lines<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>, CollectionError> {
    let unreadable = |cause| CollectionError::Unreadable {
        path: path.to_owned(),
        cause,
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(CollectionError::TooLarge(path.to_owned()));
    }
    text.trim_start_matches('\u{feff}')
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|cause| CollectionError::Line {
                path: path.to_owned(),
                line: index + 1,
                cause,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: &[&str], judged: &[(&str, u32)], expected: [f64; 3]) {
        let judged = judged
            .iter()
            .map(|(id, gain)| ((*id).to_owned(), *gain))
            .collect();
        let measured = measure(found.iter().copied(), Some(&judged));
        let measured = [measured.ndcg, measured.recall, measured.reciprocal_rank];
        for (measured, expected) in measured.iter().zip(expected) {
            assert!(
                (measured - expected).abs() < 1e-6,
                "{found:?} {judged:?}: {measured} is not {expected}"
            );
        }
    }

    /// The expected figures were calculated by hand.
    #[test]
    fn measures_are_those_of_the_literature() {
        check(&["a"], &[("a", 1)], [1.0, 1.0, 1.0]);
        check(&["b", "a"], &[("a", 1)], [0.630_929_754, 1.0, 0.5]);
        check(&["x", "y"], &[("a", 1)], [0.0, 0.0, 0.0]);
        check(&[], &[("a", 1)], [0.0, 0.0, 0.0]);
        check(
            &["a", "x"],
            &[("a", 1), ("b", 1)],
            [0.613_147_196, 0.5, 1.0],
        );
        // Graded: (1 + 3/log2(3)) / (3 + 1/log2(3)).
        check(&["a", "b"], &[("a", 1), ("b", 3)], [0.796_707_5, 1.0, 1.0]);
        let eleventh = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a"];
        check(&eleventh, &[("a", 1)], [0.0, 0.0, 0.0]);
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let latency = Latency::of((1..=200).rev().map(f64::from).collect());
        assert_eq!((latency.p50, latency.p99), (100.0, 198.0));
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }
}
