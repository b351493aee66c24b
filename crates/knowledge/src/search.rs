//! The knowledge base as tools see it: searches by words, by meaning and by name over records in memory. Knows no tool and no file; the
//! rights of readers are given to it.

use crate::access::Access;
use crate::catalogue::{self, Allowed, Catalogue, Ordinal};
use crate::dense::{Dense, MODEL_UNAVAILABLE, NoVector};
use crate::fusion::{CANDIDATES_MIN, Evidence, HITS_MAX, Retrieval};
use crate::index::{IndexError, LexicalIndex, Vocabulary};
use crate::names::Names;
use crate::passage;
use crate::query::{self, QueryWords, Understanding};
use crate::snippet;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use windlass_contract::handler::{
    CapabilityFuture, Facets, GetRequest, Hit, Knowledge, KnowledgeError, KnowledgeReader, Record,
    SearchAnswer, SearchRequest,
};
use windlass_contract::kind::Mode;

/// Records in memory and the indexes over them. Clones share the same base, which never changes.
#[derive(Clone)]
pub struct KnowledgeBase(pub(crate) Arc<Base>);

pub(crate) struct Base {
    pub(crate) catalogue: Catalogue,
    pub(crate) index: LexicalIndex,
    pub(crate) names: Names,
    pub(crate) dense: Option<Dense>,
    pub(crate) access: Access,
    /// Whether a model is expected and missing.
    pub(crate) embedder_is_missing: bool,
}

impl KnowledgeBase {
    pub fn len(&self) -> usize {
        self.0.catalogue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The namespace that is searched where an anonymous request names none: `public`, or, if the base has no such namespace, the first
    /// one that everybody may read.
    pub fn default_namespace(&self) -> &str {
        catalogue::default_namespace(self.0.catalogue.facets(), &self.0.access, None)
    }

    /// The best retrieval that the base has.
    pub fn best_retrieval(&self) -> Retrieval {
        match self.0.dense {
            Some(_) => Retrieval::Hybrid,
            None => Retrieval::Lexical,
        }
    }

    /// The number of vectors in the base; 0 without a model.
    pub fn vector_count(&self) -> usize {
        self.0.dense.as_ref().map_or(0, |dense| dense.index.len())
    }

    /// The id of the model that made the vectors.
    pub fn model_id(&self) -> Option<&str> {
        let dense = self.0.dense.as_ref()?;
        Some(&dense.questions.model().id)
    }

    /// All records, in the order of their ids.
    pub fn records(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.0.catalogue.records()
    }

    /// The records that a user may read, in the same order.
    pub fn readable(&self, reader: &KnowledgeReader) -> impl Iterator<Item = &Arc<Record>> {
        self.records()
            .filter(|record| self.0.access.may_read(reader, &record.namespace))
    }

    /// The ids of the best records of the whole base, by one retrieval.
    pub(crate) async fn ranked_ids(
        &self,
        query: &str,
        retrieval: Retrieval,
        count: usize,
    ) -> Result<Vec<String>, KnowledgeError> {
        let base = &self.0;
        let understanding = base.understand(query, &Allowed::All).map_err(unavailable)?;
        let vector = match (&base.dense, retrieval) {
            (None, _) | (_, Retrieval::Lexical) => None,
            (Some(dense), Retrieval::Dense | Retrieval::Hybrid) => {
                let vector = dense
                    .questions
                    .vector(&understanding.text, Mode::Text)
                    .await;
                Some(vector.map_err(|cause| match cause {
                    NoVector::Timeout => {
                        KnowledgeError::Unavailable("the model took too long".to_owned())
                    }
                    NoVector::Unavailable(cause) => KnowledgeError::Unavailable(cause.to_string()),
                })?)
            }
        };
        let ranked = base
            .rank(
                &understanding,
                vector.as_deref(),
                retrieval,
                &Allowed::All,
                count,
            )
            .map_err(unavailable)?;
        Ok(ranked
            .into_iter()
            .filter_map(|(ordinal, _)| Some(base.catalogue.record(ordinal)?.id.clone()))
            .collect())
    }
}

impl Knowledge for KnowledgeBase {
    fn search(
        &self,
        request: SearchRequest,
    ) -> CapabilityFuture<Result<SearchAnswer, KnowledgeError>> {
        let base = self.0.clone();
        Box::pin(async move { base.search(&request).await })
    }

    /// A request without a namespace finds the record in any namespace, because an id is unique in the whole base.
    fn get(
        &self,
        request: GetRequest,
    ) -> CapabilityFuture<Result<Result<Record, Vec<String>>, KnowledgeError>> {
        Box::pin(std::future::ready(self.0.get(&request)))
    }

    fn facets(&self) -> Facets {
        self.0.catalogue.facets().clone()
    }
}

impl Base {
    /// Understands a question like a base with only the words of the allowed records.
    pub(crate) fn understand(
        &self,
        query: &str,
        allowed: &Allowed,
    ) -> Result<Understanding, IndexError> {
        let asked = QueryWords::of(query, &self.index);
        query::understand(asked, &self.index, &self.names, &|term| {
            self.index.occurs(term, allowed)
        })
    }

    async fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, KnowledgeError> {
        let namespace = self.readable(request.namespace.as_deref(), &request.reader)?;
        let allowed = self.catalogue.allowed(request, vec![namespace])?;
        let understanding = self
            .understand(&request.query, &allowed)
            .map_err(unavailable)?;
        let (vector, degraded) = match &self.dense {
            // The model is asked only if records may be found.
            Some(dense) if !allowed.is_none() && !request.query.trim().is_empty() => {
                match dense
                    .questions
                    .vector(&understanding.text, request.mode)
                    .await
                {
                    Ok(vector) => (Some(vector), None),
                    Err(cause) => (None, Some(cause.as_str().to_owned())),
                }
            }
            Some(_) => (None, None),
            None => (None, self.embedder_is_missing.then(without_model)),
        };
        let retrieval = match &vector {
            Some(_) => Retrieval::Hybrid,
            None => Retrieval::Lexical,
        };
        let count = request.top_k.min(HITS_MAX);
        let ranked = self
            .rank(
                &understanding,
                vector.as_deref(),
                retrieval,
                &allowed,
                count,
            )
            .map_err(unavailable)?;
        let mut analyser = self.index.indexing().clone();
        let other_namespaces = match ranked.is_empty() {
            true => self.other_namespaces(request, namespace)?,
            false => Vec::new(),
        };
        let hits = ranked
            .into_iter()
            .filter_map(|(ordinal, score)| {
                let record = self.catalogue.record(ordinal)?.clone();
                let snippet = request
                    .snippets
                    .then(|| {
                        let closest = || self.closest_place(ordinal, vector.as_deref()?);
                        let terms = &understanding.terms;
                        snippet::best(&record.body, terms, &mut analyser, closest)
                    })
                    .flatten();
                Some(Hit {
                    record,
                    score,
                    snippet,
                })
            })
            .collect();
        Ok(SearchAnswer {
            hits,
            retrieval: retrieval.as_str().to_owned(),
            model: vector.and_then(|_| {
                let dense = self.dense.as_ref()?;
                Some(dense.questions.model().id.clone())
            }),
            degraded,
            other_namespaces,
        })
    }

    /// The other namespaces whose records have words of the question, the best first.
    fn other_namespaces(
        &self,
        request: &SearchRequest,
        searched: &str,
    ) -> Result<Vec<String>, KnowledgeError> {
        let facets = self.catalogue.facets();
        let others = catalogue::others(facets, &self.access, searched, &request.reader);
        if others.is_empty() {
            return Ok(Vec::new());
        }
        let allowed = self.catalogue.allowed(request, others)?;
        let ranked = self
            .understand(&request.query, &allowed)
            .and_then(|understood| {
                let terms = &understood.terms;
                self.index.rank(terms, &allowed, CANDIDATES_MIN)
            })
            .map_err(unavailable)?;
        let records = ranked
            .iter()
            .filter_map(|ranked| self.catalogue.record(ranked.ordinal));
        Ok(catalogue::named_namespaces(
            records.map(|record| record.namespace.as_str()),
        ))
    }

    /// The range of a record's passage that is closest to a question; `None` where the text is one passage.
    fn closest_place(&self, ordinal: Ordinal, vector: &[f32]) -> Option<Range<usize>> {
        let dense = self.dense.as_ref()?;
        let (nth, passages) = dense.index.closest_passage(vector, ordinal)?;
        let count = |text: &str| dense.questions.token_count(text);
        passage::place(self.catalogue.record(ordinal)?, nth, passages, &count)
    }

    /// The records whose whole name is the question. Hidden records must not decide which kind of match counts.
    fn bearers(&self, understanding: &Understanding, allowed: &Allowed) -> BTreeSet<Ordinal> {
        self.names
            .bearers(&understanding.asked, &understanding.sequence)
            .into_iter()
            .map(|bearers| {
                let bearers = bearers.into_iter();
                bearers.filter(|bearer| allowed.contains(*bearer))
            })
            .map(Iterator::collect::<BTreeSet<Ordinal>>)
            .find(|bearers| !bearers.is_empty())
            .unwrap_or_default()
    }

    /// The best records with their scores, the best first; equal ones by their ids.
    fn rank(
        &self,
        understanding: &Understanding,
        vector: Option<&[f32]>,
        retrieval: Retrieval,
        allowed: &Allowed,
        count: usize,
    ) -> Result<Vec<(Ordinal, f64)>, IndexError> {
        let terms = &understanding.terms;
        let named = self.bearers(understanding, allowed);
        let closeness = match (&self.dense, vector, retrieval) {
            (Some(dense), Some(vector), Retrieval::Dense | Retrieval::Hybrid) => {
                dense.index.closeness(vector, self.catalogue.len(), allowed)
            }
            _ => Vec::new(),
        };
        let mut candidates = named.clone();
        let from_each = count.max(CANDIDATES_MIN);
        let mut lexical = Vec::new();
        if retrieval != Retrieval::Dense {
            let wanted = if closeness.is_empty() {
                count
            } else {
                from_each
            };
            lexical = self.index.rank(terms, allowed, wanted)?;
            candidates.extend(lexical.iter().map(|ranked| ranked.ordinal));
        }
        candidates.extend(closest(&closeness, from_each));
        let candidates: Vec<Ordinal> = candidates.into_iter().collect();
        let is_all_scored = candidates.len() == lexical.len();
        let bm25: Vec<f32> = match retrieval {
            Retrieval::Dense => vec![0.0; candidates.len()],
            Retrieval::Lexical | Retrieval::Hybrid if is_all_scored => {
                lexical.sort_unstable_by_key(|ranked| ranked.ordinal);
                lexical.iter().map(|ranked| ranked.bm25).collect()
            }
            Retrieval::Lexical | Retrieval::Hybrid => self.index.scores(terms, &candidates)?,
        };
        let mut scored: Vec<(Ordinal, f64)> = candidates
            .into_iter()
            .zip(bm25)
            .map(|(ordinal, bm25)| {
                let cosine = closeness.get(ordinal as usize).copied().unwrap_or_default();
                let is_embedded = self
                    .dense
                    .as_ref()
                    .is_some_and(|dense| !dense.unembedded.contains(&ordinal));
                let evidence = Evidence {
                    bm25: bm25.into(),
                    cosine: is_embedded.then_some(cosine.into()),
                    is_named: named.contains(&ordinal),
                };
                (ordinal, evidence.score(retrieval))
            })
            .collect();
        scored.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        scored.truncate(count);
        Ok(scored)
    }
}

/// The closest records, in no order; of equally close ones the first. Records without any closeness are left out.
fn closest(closeness: &[f32], count: usize) -> Vec<Ordinal> {
    if count == 0 {
        return Vec::new();
    }
    let by_closeness = |left: &Ordinal, right: &Ordinal| {
        closeness[*right as usize]
            .total_cmp(&closeness[*left as usize])
            .then(left.cmp(right))
    };
    // Twice the wanted number is gathered before the worse half is dropped; from then on records below the worst kept one are skipped.
    let mut best: Vec<Ordinal> = Vec::with_capacity(2 * count);
    let mut floor = 0.0;
    for (ordinal, close) in (0..).zip(closeness) {
        if *close > floor {
            best.push(ordinal);
            if best.len() == 2 * count {
                let (_, last, _) = best.select_nth_unstable_by(count - 1, by_closeness);
                floor = closeness[*last as usize];
                best.truncate(count);
            }
        }
    }
    best.sort_unstable_by(by_closeness);
    best.truncate(count);
    best
}

/// The note of an answer that the expected model is missing.
pub(crate) fn without_model() -> String {
    MODEL_UNAVAILABLE.to_owned()
}

/// The index's error is for the caller's log, not for a model.
pub(crate) fn unavailable(error: IndexError) -> KnowledgeError {
    KnowledgeError::Unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_are_those_of_a_full_sort() {
        // Few different values, so that many are equal.
        let closeness: Vec<f32> = (0..1_000_u32)
            .map(|number| (number.wrapping_mul(2_654_435_761) >> 25) as f32 / 128.0 - 0.2)
            .collect();
        let mut sorted: Vec<Ordinal> = (0..1_000)
            .filter(|place| closeness[*place as usize] > 0.0)
            .collect();
        sorted.sort_by(|left, right| {
            closeness[*right as usize].total_cmp(&closeness[*left as usize])
        });
        for count in [0, 1, 2, 7, 50, 600, 1_000, 2_000] {
            let expected: Vec<Ordinal> = sorted.iter().copied().take(count).collect();
            assert_eq!(closest(&closeness, count), expected, "{count}");
        }
    }
}
