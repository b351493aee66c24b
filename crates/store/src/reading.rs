//! Conversations that hold text which others wrote: what a model has read in one of their sessions may be in the context of
//! each that follows. Does not know what was read.

use crate::StoreUnavailable;
use windlass_tool::id::{ConversationId, SessionId};

/// In which conversations a model has read what others wrote. Kept for as long as the conversation is, and no less long after it
/// was read than an effect.
pub trait Readings {
    /// Notes that the model of a session of this conversation has read such text.
    fn note_reading(
        &mut self,
        conversation_id: &ConversationId,
        session_id: &SessionId,
        now_unix_ms: u64,
    ) -> Result<(), StoreUnavailable>;

    fn has_read(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<bool, StoreUnavailable>;
}
