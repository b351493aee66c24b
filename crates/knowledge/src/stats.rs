//! The size of a base, in numbers. Knows no record's content.

use crate::search::KnowledgeBase;
use serde::Serialize;
use std::collections::BTreeMap;

/// A base in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    pub records: usize,
    pub by_namespace: BTreeMap<String, usize>,
    pub by_type: BTreeMap<String, usize>,
    /// The best retrieval that the base has.
    pub retrieval: &'static str,
    /// The model that made the vectors.
    pub model: Option<String>,
    pub vectors: usize,
}

impl KnowledgeBase {
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            records: self.len(),
            by_namespace: BTreeMap::new(),
            by_type: BTreeMap::new(),
            retrieval: self.best_retrieval().as_str(),
            model: self.model_id().map(str::to_owned),
            vectors: self.vector_count(),
        };
        for record in self.records() {
            let of_namespace = stats.by_namespace.entry(record.namespace.clone());
            *of_namespace.or_default() += 1;
            *stats.by_type.entry(record.record_type.clone()).or_default() += 1;
        }
        stats
    }
}
