//! Where effects are reserved before anything runs. Owns the seam to a store and the store that forgets; knows no policy.

use crate::ids;
use windlass_session::io::ReservationError;
use windlass_tool::id::{ConversationId, EffectId, ToolId};

/// One intended change, before it runs.
#[derive(Clone, Copy, Debug)]
pub struct ReservationRequest<'a> {
    pub conversation_id: &'a ConversationId,
    pub tool: &'a ToolId,
    pub fingerprint: &'a [u8; 32],
    pub now_unix_ms: u64,
}

/// Stores the intention to change something and mints the effect's id.
pub trait Reservations: Send + Sync {
    /// Answers when the reservation is as durable as this store makes it.
    fn reserve(&self, request: ReservationRequest<'_>) -> Result<EffectId, ReservationError>;
}

/// Reserves nothing beyond the process's life: ids are minted, and the ledger is that of the session core.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryReservations;

impl Reservations for MemoryReservations {
    fn reserve(&self, request: ReservationRequest<'_>) -> Result<EffectId, ReservationError> {
        ids::effect_id(request.now_unix_ms).map_err(|error| ReservationError {
            problem: error.to_string(),
        })
    }
}
