//! The knowledge base as tools see it: requests and answers. Knows no engine.

use super::CapabilityFuture;
use crate::id::UserId;
use crate::kind::Mode;
use crate::rights::Rights;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The knowledge base as tools see it.
pub trait Knowledge: Send + Sync {
    fn search(
        &self,
        request: SearchRequest,
    ) -> CapabilityFuture<Result<SearchAnswer, KnowledgeError>>;
    /// `Ok(Err(near ids))` if no record has the id.
    fn get(
        &self,
        request: GetRequest,
    ) -> CapabilityFuture<Result<Result<Record, Vec<String>>, KnowledgeError>>;
    /// The vocabularies that `kb_search` declares.
    fn facets(&self) -> Facets;
}

/// The user who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnowledgeReader {
    pub user_id: UserId,
    pub rights: Rights,
}

impl From<UserId> for KnowledgeReader {
    /// A reader without proven rights.
    fn from(user_id: UserId) -> Self {
        Self {
            user_id,
            rights: Rights::Anonymous,
        }
    }
}

/// The record types and namespaces that occur in the knowledge base, each list sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facets {
    pub types: Vec<String>,
    pub namespaces: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SearchRequest {
    pub query: String,
    /// `None` searches the default namespace of the knowledge base.
    pub namespace: Option<String>,
    pub record_type: Option<String>,
    /// The tags; a record needs all of them.
    pub tags: Vec<String>,
    /// RFC 3339, inclusive.
    pub updated_from: Option<String>,
    /// RFC 3339, inclusive.
    pub updated_to: Option<String>,
    pub top_k: usize,
    pub snippets: bool,
    pub reader: KnowledgeReader,
    /// The mode: in voice a search may take less time.
    pub mode: Mode,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SearchAnswer {
    pub hits: Vec<Hit>,
    /// The way in which the hits were found: `lexical`, `dense` or `hybrid`.
    pub retrieval: String,
    /// The embedding model, if one was used.
    pub model: Option<String>,
    /// The reason why `retrieval` is below the best of the knowledge base: `dense_timeout` or `dense_unavailable`.
    pub degraded: Option<String>,
    /// Without hits: other namespaces that the user may read and whose records have words of the question.
    pub other_namespaces: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub record: Arc<Record>,
    /// 0 to 1, comparable within one `retrieval` and `model` only.
    pub score: f64,
    pub snippet: Option<Snippet>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snippet {
    pub text: String,
    /// Bytes into the record's body.
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GetRequest {
    pub id: String,
    pub namespace: Option<String>,
    pub reader: KnowledgeReader,
}

/// One record of the knowledge base.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    pub namespace: String,
    #[serde(rename = "type")]
    pub record_type: String,
    pub title: String,
    #[serde(default)]
    pub aliases: Vec<String>,
    pub body: String,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    pub source_type: String,
    pub source_path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<String>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnowledgeError {
    /// Lists the namespaces that the caller may see, in alphabetical order.
    #[error("there is no namespace {name:?}{}", there_are(readable))]
    UnknownNamespace { name: String, readable: Vec<String> },
    #[error("{0}")]
    InvalidFilter(String),
    #[error("the knowledge base does not answer: {0}")]
    Unavailable(String),
}

/// The most names in an error, which has to be short.
const NAMED_MAX: usize = 10;

fn there_are(names: &[String]) -> String {
    let named = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len() {
        0 => String::new(),
        1..=NAMED_MAX => format!("; use one of these: {named}"),
        count => format!("; use one of these: {named} and {} more", count - NAMED_MAX),
    }
}
