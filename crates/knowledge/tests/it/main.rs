//! The knowledge base through its public entry points: opening folders, searching, looking up.

mod ingest;
mod real_base;
mod search;
mod support;
