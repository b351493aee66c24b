//! The caller of a request by text, and its use of the server. Knows no conversation.

use windlass_runtime::caller::Caller;
use windlass_runtime::text::TurnMemory;
use windlass_store::Beginner;

/// A caller whose request begins a turn.
pub(crate) struct Asker {
    pub(crate) caller: Caller,
    /// The party whose conversations are counted.
    pub(crate) beginner: Beginner,
    /// The memory that the turn holds, as it is counted.
    pub(crate) memory: TurnMemory,
}
