//! The memory that a turn by text holds: counted from its request on, and more as it grows. Knows no number of parties.

use super::session::TextSession;
use crate::shares::{Exceeded, Held, Holding, Standing};

/// Bytes of a turn's session, and of its reads and writes of the conversation.
const TURN_BYTES: u64 = 64 * 1024;
/// Copies of a request's content: as it came, as the model gets it, and as it was decoded.
const COPIES: u64 = 3;

/// The counted memory of a turn; `None` if nothing is counted.
#[derive(Debug, Default)]
pub struct TurnMemory(Option<Holding>);

impl TurnMemory {
    /// Memory for a request of so many bytes, if there is room for its turn.
    pub fn of_request(standing: &Standing, bytes: usize) -> Result<Self, Exceeded> {
        let held = standing.hold(Held::TurnBytes, needed(bytes))?;
        Ok(Self(held))
    }
}

fn needed(bytes: usize) -> u64 {
    TURN_BYTES + COPIES * bytes as u64
}

impl TextSession {
    /// Counts the memory that the turn holds by now.
    pub(super) fn weigh(&mut self) -> Result<(), Exceeded> {
        let bytes = needed(self.log.bytes());
        match &mut self.memory.0 {
            Some(held) => held.stretch_to(bytes),
            None => Ok(()),
        }
    }
}
