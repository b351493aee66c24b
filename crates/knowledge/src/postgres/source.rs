//! A base in memory as a source of the database's rows. Knows no statement.

use super::ModelKey;
use super::error::PostgresError;
use super::postings::Postings;
use crate::analysis;
use crate::catalogue::Ordinal;
use crate::date::{self, DayEdge};
use crate::hash::{Hash, sha256};
use crate::manifest::ANALYSER;
use crate::search::KnowledgeBase;

/// A record in the form of its row.
pub(super) struct Row<'a> {
    pub(super) id: &'a str,
    pub(super) content: String,
    pub(super) content_hash: Hash,
    pub(super) vectors_hash: Hash,
    pub(super) updated: Option<i64>,
    pub(super) postings: Postings,
    /// Vectors in the form that the database reads.
    pub(super) vectors: Vec<String>,
}

/// The hash of a record's content together with its analysis.
pub(super) fn content_hash(content: &str) -> Hash {
    sha256(&[&ANALYSER.to_le_bytes(), content.as_bytes()])
}

/// A base in memory as a source of rows.
pub(super) struct Source<'a> {
    base: &'a KnowledgeBase,
    pub(super) model: Option<String>,
}

impl<'a> Source<'a> {
    pub(super) fn of(base: &'a KnowledgeBase) -> Self {
        let model = base.0.dense.as_ref();
        Self {
            base,
            model: model.map(|dense| ModelKey::of(dense.questions.model()).text),
        }
    }

    pub(super) fn id(&self, ordinal: Ordinal) -> &'a str {
        let record = self.base.0.catalogue.record(ordinal);
        record.map_or("", |record| record.id.as_str())
    }

    pub(super) fn content(&self, ordinal: Ordinal) -> Result<String, PostgresError> {
        let record = self.base.0.catalogue.record(ordinal);
        let text = record.map(|record| serde_json::to_string(&**record));
        Ok(text
            .expect("every ordinal below the length has a record")
            .expect("a record is text, lists and JSON, which can all be written"))
    }

    /// The vectors of a record's passages.
    pub(super) fn vectors(&self, ordinal: Ordinal) -> impl Iterator<Item = Vec<f32>> {
        let dense = self.base.0.dense.as_ref();
        dense
            .into_iter()
            .flat_map(move |dense| dense.index.of_owner(ordinal))
    }

    pub(super) fn hashes(&self, ordinal: Ordinal) -> Result<(Hash, Hash), PostgresError> {
        let content = self.content(ordinal)?;
        let content_hash = content_hash(&content);
        let mut vectors = self.model.clone().unwrap_or_default().into_bytes();
        for number in self.vectors(ordinal).flatten() {
            vectors.extend_from_slice(&number.to_le_bytes());
        }
        Ok((content_hash, sha256(&[&vectors])))
    }

    pub(super) fn row(&self, ordinal: Ordinal) -> Result<Row<'a>, PostgresError> {
        let (content_hash, vectors_hash) = self.hashes(ordinal)?;
        let record = self.base.0.catalogue.record(ordinal);
        let record = record.expect("every ordinal below the length has a record");
        Ok(Row {
            id: self.id(ordinal),
            content: self.content(ordinal)?,
            content_hash,
            vectors_hash,
            updated: record
                .last_updated
                .as_deref()
                .and_then(|text| date::parse(text, DayEdge::First)),
            postings: Postings::of(record, &mut analysis::indexing()),
            vectors: self
                .vectors(ordinal)
                .map(|vector| literal(&vector))
                .collect(),
        })
    }
}

/// A vector as pgvector reads it.
fn literal(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}
