//! The knowledge base: reads a folder of records, indexes them in memory and answers searches and look-ups. Knows no tool, no session and
//! no clock; it treats input as hostile until it has checked it.
//!
//! `record` defines a good record; `front_matter`, `structured` and `ingest` make records of files (`markdown` and `slug` for files
//! without fields); `left_out` counts the files without records; `catalogue` holds the records with their filters; `analysis` and `index`
//! find them by words (`function_words` count little, `compounds` are found by their parts); `snippet` quotes them; and `search` is the
//! capability that tools are given.

mod access;
mod analysis;
mod asset;
mod build;
mod catalogue;
mod codes;
mod compounds;
mod csv_rows;
mod date;
mod dense;
mod documents;
pub mod embed;
mod embedding;
pub mod eval;
mod front_matter;
mod function_words;
mod fusion;
mod hash;
mod index;
mod ingest;
mod left_out;
mod lookup;
mod machine;
mod manifest;
mod markdown;
mod names;
mod near;
mod options;
mod passage;
mod passage_list;
mod plain_fields;
#[cfg(feature = "postgres")]
pub mod postgres;
mod query;
mod record;
mod search;
mod slug;
mod snippet;
mod sound;
mod stats;
mod structured;
mod vector_store;
mod vectors;

pub use access::{Access, Readers};
pub use asset::{Asset, AssetKind, AssetPlace, asset};
pub use build::{RecordsError, Words};
pub use dense::Patience;
#[cfg(feature = "documents")]
pub use documents::{DOCUMENT_TEXT_BYTES_MAX, read_document};
pub use documents::{Document, DocumentKind, DocumentReader};
pub use fusion::Retrieval;
pub use index::IndexError;
pub use ingest::{Changes, FolderError, IngestLimits, IngestReport, Problem};
pub use left_out::LeftOut;
pub use machine::{Machine, Offloaded};
pub use manifest::ManifestError;
pub use options::{EmbedderPresence, Embedding, Observer, OpenError, Options, Progress};
pub use record::{DEFAULT_NAMESPACE, RecordError};
pub use search::KnowledgeBase;
pub use stats::Stats;
pub use structured::records_in;
pub use vector_store::VectorStoreError;
