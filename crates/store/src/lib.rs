//! What must survive a restart, behind one trait with two implementations: SQLite for servers, memory for tests and
//! throw-away runs. Knows durability and time limits as they are given to it; no session, no policy, no clock.

mod memory;
mod sqlite;

pub use memory::MemoryStore;
pub use sqlite::{DATABASE_FILE, OpenError, SqliteStore};

use windlass_tool::handler::Blocks;

/// Everything that is kept. A capability's trait is a part of it, so that a handle of the whole serves as a handle of the
/// part.
pub trait Store: Blocks {
    /// Deletes what has run out by `now_unix_ms` and returns how many rows that were. Stores also do so by themselves
    /// from time to time, when they are asked something that tells them the time.
    fn prune(&self, now_unix_ms: u64) -> Result<usize, StoreUnavailable>;
}

/// The store could not do what it was asked to. The text is for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store does not answer: {0}")]
pub struct StoreUnavailable(pub String);

/// How much time passes between two prunings that a store does by itself.
const PRUNE_INTERVAL_MS: u64 = 60 * 60 * 1000;

/// The latest time that is kept, in milliseconds since the Unix epoch; later ones are taken for it. SQLite's integers are
/// signed.
const TIME_MAX_UNIX_MS: u64 = i64::MAX as u64;
