//! The driver between a session's core, the ledger and the handlers: it performs the core's outputs and answers those that ask. The same
//! for voice, text, `windlass call` and the simulation. Knows no socket, no thread, no clock and no asynchronous runtime.

mod backlog;
mod direct;
mod driver;
mod effects;
mod executor;
pub mod history;
mod ledger;
mod log_reader;
mod sweep;
mod tail;

pub use backlog::{Backlog, Committed};
pub use direct::DirectLedger;
pub use driver::{Driver, DriverConfig, SaidAnswer};
pub use executor::{EffectLookup, Executor, Report};
pub use ledger::{Ledger, PendingReplies, begins_change, may_be_gathered, must_not_be_lost};
pub use sweep::{DueLookup, FoundOut, Sweep, Swept};
pub use tail::{Concerned, Tail, Tails};
