//! What must survive a restart, behind one trait with two implementations: SQLite for servers, memory for tests and
//! throw-away runs. Knows durability and time limits as they are given to it; no session, no policy, no clock.

mod conversation;
mod grant;
mod ledger;
mod limits;
mod memory;
mod reading;
mod snapshot;
mod sqlite;

pub use conversation::{Appended, Conversation, Conversations, Entry, NewEntry, Opened};
pub use grant::{
    Decline, Declined, Grant, GrantRefusal, GrantState, Grants, Proposal, Proposed, Renewal,
};
pub use ledger::{
    ABANDONED_MAX, Effect, EffectState, Ledger, Outcome, OutcomeState, Recorded, Reserve,
    ReserveRefusal, Reserved, SETTLED_MAX,
};
pub use limits::StoreLimits;
pub use memory::MemoryStore;
pub use reading::Readings;
pub use snapshot::{ResumeTokens, Saved, Snapshot, Snapshots};
pub use sqlite::{DATABASE_FILE, OpenError, SqliteStore};

use std::path::PathBuf;
use windlass_tool::handler::Blocks;

/// A SHA-256.
pub type Hash = [u8; 32];

/// Everything that is kept. A capability's trait is a part of it, so that a handle of the whole serves as a handle of the
/// part.
pub trait Store: Blocks {
    /// Runs `work` in one transaction. When this returns `Ok`, all that `work` changed is durable; otherwise nothing of
    /// it ever happened, whatever its steps have returned. Nobody else sees half of it. Several requests may share one
    /// transaction, and then one flush of the disk: a refusal is a value, changes nothing, and spoils nothing for the
    /// others.
    ///
    /// `work` is not called where the store does not answer, and is called once at most.
    fn transact(&self, work: &mut dyn FnMut(&mut dyn Transaction)) -> Result<(), StoreUnavailable>;

    /// Runs `work`, which only reads, on what was committed last, without waiting for whoever writes where the store can: a
    /// conversation is found while another process holds the right to write. In SQLite a step that changes
    /// something fails.
    fn view(&self, work: &mut dyn FnMut(&mut dyn Transaction)) -> Result<(), StoreUnavailable> {
        self.transact(work)
    }

    /// Deletes what has run out by `now_unix_ms` and returns how many rows that were. It does so in small transactions,
    /// so that others are not kept waiting.
    fn prune(&self, now_unix_ms: u64) -> Result<usize, StoreUnavailable>;
}

impl dyn Store + '_ {
    /// Runs one request in a transaction of its own and returns its answer when that is durable.
    pub fn ask<T>(
        &self,
        mut request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable>,
    ) -> Result<T, StoreUnavailable> {
        let mut answer = None;
        self.transact(&mut |transaction| answer = Some(request(transaction)))?;
        answer.expect("a transaction that was committed ran its work")
    }

    /// Runs one request that only reads through [`Store::view`] and returns its answer.
    pub fn read<T>(
        &self,
        mut request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable>,
    ) -> Result<T, StoreUnavailable> {
        let mut answer = None;
        self.view(&mut |transaction| answer = Some(request(transaction)))?;
        answer.expect("a view that succeeded ran its work")
    }
}

/// All tables, within one transaction. A step that returns an error dooms the transaction.
pub trait Transaction: Ledger + Grants + Conversations + Snapshots + Readings {}

impl<T: Ledger + Grants + Conversations + Snapshots + Readings> Transaction for T {}

/// The store could not do what it was asked to. The texts are for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreUnavailable {
    #[error("the store's disk is full ({cause}); free space where the data folder is")]
    DiskFull { cause: String },
    #[error(
        "the store is locked by another process ({cause}); stop that one, or name another data folder"
    )]
    Locked { cause: String },
    #[error(
        "the store's file {} was deleted or replaced while it was in use; stop the program, put the file back if it is to \
         know what was done, and start again",
        path.display()
    )]
    Moved { path: PathBuf },
    #[error("the store has more to do than it can; try again later, or use a faster disk")]
    Overloaded,
    #[error("the store does not answer: {cause}")]
    Failed { cause: String },
}

/// How much time passes between two prunings that a store does by itself.
const PRUNE_INTERVAL_MS: u64 = 60 * 60 * 1000;

/// How many rows of a table one transaction of a pruning deletes.
const PRUNED_ROWS_MAX: usize = 1_000;

/// The latest time that is kept, in milliseconds since the Unix epoch; later ones are taken for it. SQLite's integers are
/// signed.
const TIME_MAX_UNIX_MS: u64 = i64::MAX as u64;
