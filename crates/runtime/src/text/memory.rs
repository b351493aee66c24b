//! What a turn by text holds of memory: counted from its request on, and more as it grows. Knows no number of parties.

use super::session::TextSession;
use crate::shares::{Exceeded, Held, Holding, Standing};

/// A turn holds its session, and what it reads and writes of its conversation.
const TURN_BYTES: u64 = 64 * 1024;
/// What came with a request is held as it came, as the model is told it, and as it was decoded.
const COPIES: u64 = 3;

/// The memory that a turn is counted with; nothing where nobody counts.
#[derive(Debug, Default)]
pub struct TurnMemory(Option<Holding>);

impl TurnMemory {
    /// For a request of so many bytes, if there is room for its turn.
    pub fn of_request(standing: &Standing, bytes: usize) -> Result<Self, Exceeded> {
        let held = standing.hold(Held::TurnBytes, needed(bytes))?;
        Ok(Self(held))
    }
}

fn needed(bytes: usize) -> u64 {
    TURN_BYTES + COPIES * bytes as u64
}

impl TextSession {
    /// Counts what the turn holds by now.
    pub(super) fn weigh(&mut self) -> Result<(), Exceeded> {
        let bytes = needed(self.log.bytes());
        match &mut self.memory.0 {
            Some(held) => held.stretch_to(bytes),
            None => Ok(()),
        }
    }
}
