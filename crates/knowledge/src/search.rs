//! The knowledge base as tools see it: searches and look-ups over records in memory. Knows no user, no tool and no file
//! beyond the folder that it is opened with.

use crate::catalogue::{Allowed, Catalogue};
use crate::index::{IndexError, LexicalIndex, QueryTerm};
use crate::ingest::{self, FolderError, IngestLimits, IngestReport};
use crate::near;
use crate::record::{self, ID_BYTES_MAX, RecordError};
use crate::snippet;
use std::collections::HashSet;
use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use windlass_tool::handler::{
    CapabilityFuture, Facets, GetRequest, Hit, Knowledge, KnowledgeError, Record, SearchAnswer,
    SearchRequest,
};

/// Hits of one search, whatever is asked for.
const HITS_MAX: usize = 100;
/// Ids that a look-up without success suggests.
const NEAR_IDS_MAX: usize = 5;
/// The BM25 score that is halfway to certainty: a score `b` becomes `b / (b + 20)`, which keeps the order, lies in 0..1
/// and does not depend on the other hits. It is the lexical part of the hybrid score, so that both have one scale.
const BM25_HALFWAY: f64 = 20.0;

/// How records are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retrieval {
    /// By their words.
    Lexical,
    /// By what they mean.
    Dense,
    /// By both.
    Hybrid,
}

impl Retrieval {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Dense => "dense",
            Self::Hybrid => "hybrid",
        }
    }

    /// Whether a base that can do this can do the other.
    pub(crate) fn includes(self, other: Self) -> bool {
        self == other || self == Self::Hybrid
    }
}

/// Records in memory and the index over them. A clone is one more handle to the same base, which never changes.
#[derive(Clone)]
pub struct KnowledgeBase(Arc<Base>);

struct Base {
    catalogue: Catalogue,
    index: LexicalIndex,
}

/// Why a knowledge base could not be opened. Bad records are no reason; they are in the report.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Why a knowledge base could not be made of records.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    #[error("the record {id:?} is not good: its {problem}")]
    Record { id: String, problem: RecordError },
    #[error("there are two records {0:?}: give one of them another id")]
    Duplicate(String),
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl KnowledgeBase {
    /// Reads a folder's Markdown files, keeps the good records and reports the bad ones. An empty folder is an empty
    /// base.
    pub fn open(
        folder: impl AsRef<Path>,
        limits: &IngestLimits,
    ) -> Result<(Self, IngestReport), OpenError> {
        let (records, mut report) = ingest::read_folder(folder.as_ref(), limits)?;
        report.records = records.len();
        Ok((Self::index(records)?, report))
    }

    /// Makes a base of records that did not come from a folder. They go through the same checks.
    pub fn from_records(records: Vec<Record>) -> Result<Self, RecordsError> {
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
        Ok(Self::index(admitted)?)
    }

    fn index(records: Vec<Record>) -> Result<Self, IndexError> {
        let catalogue = Catalogue::new(records);
        let index = LexicalIndex::build(catalogue.records().map(AsRef::as_ref))?;
        Ok(Self(Arc::new(Base { catalogue, index })))
    }

    pub fn len(&self) -> usize {
        self.0.catalogue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The namespace that is searched where a request names none: `public`, or the first one where the base has no
    /// such namespace.
    pub fn default_namespace(&self) -> &str {
        self.0.catalogue.default_namespace()
    }

    /// The best way of finding that the base has.
    pub fn best_retrieval(&self) -> Retrieval {
        Retrieval::Lexical
    }

    pub(crate) async fn ranked_ids(
        &self,
        query: &str,
        _retrieval: Retrieval,
        count: usize,
    ) -> Result<Vec<String>, KnowledgeError> {
        let terms = self.0.index.terms(query).map_err(unavailable)?;
        let ranked = self
            .0
            .index
            .rank(&terms, &Allowed::All, count)
            .map_err(unavailable)?;
        Ok(ranked
            .into_iter()
            .filter_map(|r| Some(self.0.catalogue.record(r.ordinal)?.id.clone()))
            .collect())
    }

    /// All records, in the order of their ids.
    pub fn records(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.0.catalogue.records()
    }
}

impl Knowledge for KnowledgeBase {
    fn search(
        &self,
        request: SearchRequest,
    ) -> CapabilityFuture<Result<SearchAnswer, KnowledgeError>> {
        Box::pin(ready(self.0.search(&request)))
    }

    /// A request without a namespace finds the record in any of them, for an id is unique in the whole base.
    fn get(
        &self,
        request: GetRequest,
    ) -> CapabilityFuture<Result<Result<Record, Vec<String>>, KnowledgeError>> {
        Box::pin(ready(self.0.get(&request)))
    }

    fn facets(&self) -> Facets {
        self.0.catalogue.facets().clone()
    }
}

impl Base {
    fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, KnowledgeError> {
        let allowed = self.catalogue.allowed(request)?;
        let terms = self.index.terms(&request.query).map_err(unavailable)?;
        let ranked = self
            .index
            .rank(&terms, &allowed, request.top_k.min(HITS_MAX))
            .map_err(unavailable)?;
        let mut analyser = self.index.analyser().clone();
        let hits = ranked
            .into_iter()
            .filter_map(|ranked| {
                let record = self.catalogue.record(ranked.ordinal)?.clone();
                let bm25 = f64::from(ranked.bm25);
                let snippet = request
                    .snippets
                    .then(|| snippet::best(&record.body, &terms, &mut analyser))
                    .flatten();
                Some(Hit {
                    record,
                    score: bm25 / (bm25 + BM25_HALFWAY),
                    snippet,
                })
            })
            .collect();
        Ok(SearchAnswer {
            hits,
            retrieval: "lexical".to_owned(),
            model: None,
        })
    }

    fn get(&self, request: &GetRequest) -> Result<Result<Record, Vec<String>>, KnowledgeError> {
        let namespace = match &request.namespace {
            Some(name) => Some(self.catalogue.namespace(Some(name))?),
            None => None,
        };
        let found = self
            .catalogue
            .find(&request.id)
            .filter(|record| namespace.is_none_or(|namespace| record.namespace == namespace));
        match found {
            Some(record) => Ok(Ok(Record::clone(record))),
            None => self
                .near_ids(&request.id, namespace)
                .map(Err)
                .map_err(unavailable),
        }
    }

    /// The ids that may have been meant: first those that are spelt almost so, then those whose record has such words.
    fn near_ids(&self, id: &str, namespace: Option<&str>) -> Result<Vec<String>, IndexError> {
        let wanted = &id[..id.floor_char_boundary(ID_BYTES_MAX)];
        let wanted = wanted.trim().to_lowercase().replace([' ', '-'], "_");
        let (_, wanted_name) = wanted.split_once(':').unwrap_or(("", &wanted));
        let distance_max = (wanted.len() / 5).clamp(1, 3);
        let mut near: Vec<(usize, &str)> = self
            .catalogue
            .records()
            .filter(|record| namespace.is_none_or(|namespace| record.namespace == namespace))
            .filter_map(|record| {
                let name = record.id.split_once(':').map_or("", |(_, name)| name);
                // The right name under another type is one step away, like the slightest misspelling.
                let distance = if name == wanted_name {
                    Some(1)
                } else {
                    near::distance(wanted.as_bytes(), record.id.as_bytes(), distance_max)
                };
                Some((distance?, record.id.as_str()))
            })
            .collect();
        near.sort_unstable();
        near.truncate(NEAR_IDS_MAX);
        let mut ids: Vec<String> = near.into_iter().map(|(_, id)| id.to_owned()).collect();
        let words = wanted_name.replace(['_', '.'], " ");
        let terms: Vec<QueryTerm> = self.index.terms(&words)?;
        let allowed = namespace.map_or(Allowed::All, |name| self.catalogue.allowed_in(name));
        for ranked in self.index.rank(&terms, &allowed, NEAR_IDS_MAX)? {
            if let Some(record) = self.catalogue.record(ranked.ordinal)
                && ids.len() < NEAR_IDS_MAX
                && !ids.contains(&record.id)
            {
                ids.push(record.id.clone());
            }
        }
        Ok(ids)
    }
}

/// What the index says about itself is for the log of whoever called, not for a model.
fn unavailable(error: IndexError) -> KnowledgeError {
    KnowledgeError::Unavailable(error.to_string())
}
