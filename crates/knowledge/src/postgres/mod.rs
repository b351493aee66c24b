//! The knowledge base in PostgreSQL with pgvector, for more than one machine: the same records, found in the same way, with the same
//! scores. Owns the connections and the statements; knows no tool and no file.
//!
//! Words, names and ids of the base are kept in memory as well (`lexicon`), because a question is understood before it is asked; records,
//! texts and vectors stay in the database. `connection` reaches it, `schema` defines its tables, `statement` queries it, `publish` writes
//! a base into it, `renew` renews words of an earlier version, and `engine` is the capability that tools are given.

mod connection;
mod engine;
mod error;
mod filter;
mod lexicon;
mod near;
mod postings;
mod publish;
mod renew;
mod schema;
mod source;
mod statement;
mod tls;
mod verify;

pub use connection::PostgresSettings;
pub use engine::PostgresBase;
pub use error::PostgresError;
pub use publish::{Published, publish};

use crate::embed::Model;
use crate::hash::hex;
use crate::vector_store::whole;

/// The key of a model in the database: vectors of two models are never mixed.
struct ModelKey {
    text: String,
    dimension: usize,
}

impl ModelKey {
    fn of(model: &Model) -> Self {
        Self {
            text: hex(&whole(model)),
            dimension: model.dimension,
        }
    }
}
