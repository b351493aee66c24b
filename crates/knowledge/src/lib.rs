//! The knowledge base: reads a folder of Markdown records, indexes them in memory and answers searches and look-ups.
//! Knows no tool, no session and no clock; what it reads it treats as hostile until it has checked it.
//!
//! `record` says what a good record is, `front_matter` and `ingest` make records of files, `catalogue` holds them with
//! their filters, `analysis` and `index` find them by words, `snippet` quotes them, and `search` is the whole behind the
//! capability that tools are given.

mod analysis;
mod catalogue;
mod date;
pub mod eval;
mod front_matter;
mod index;
mod ingest;
mod near;
mod record;
mod search;
mod snippet;

pub use index::IndexError;
pub use ingest::{FolderError, IngestLimits, IngestReport, Problem};
pub use record::{DEFAULT_NAMESPACE, RecordError};
pub use search::{KnowledgeBase, OpenError, RecordsError, Retrieval};
