//! Conversations that hold text which others wrote, in a map.

use super::{Reading, Tables, Talk};
use crate::{Readings, StoreUnavailable, TIME_MAX_UNIX_MS};
use windlass_tool::id::{ConversationId, SessionId};

impl Tables {
    /// Whether what was read is in the conversation still.
    pub(super) fn holds_reading(
        &self,
        conversation_id: &ConversationId,
        reading: &Reading,
        now_unix_ms: u64,
    ) -> bool {
        let used = self.conversations.get(conversation_id).map(Talk::used_at);
        let used = used.unwrap_or_default().max(reading.read_at_unix_ms);
        used.saturating_add(self.limits.reading_ms()) > now_unix_ms
    }

    pub(super) fn reading(
        &self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Option<&Reading> {
        let reading = self.readings.get(conversation_id)?;
        self.holds_reading(conversation_id, reading, now_unix_ms)
            .then_some(reading)
    }
}

impl Readings for Tables {
    fn note_reading(
        &mut self,
        conversation_id: &ConversationId,
        session_id: &SessionId,
        now_unix_ms: u64,
    ) -> Result<(), StoreUnavailable> {
        let now_unix_ms = now_unix_ms.min(TIME_MAX_UNIX_MS);
        let known = self.readings.get_mut(conversation_id);
        if let Some(known) = known {
            known.reader = known.reader.take().filter(|reader| reader == session_id);
            // A clock that was set back does not make it older than it was.
            known.read_at_unix_ms = known.read_at_unix_ms.max(now_unix_ms);
        } else {
            let reading = Reading {
                reader: Some(session_id.clone()),
                read_at_unix_ms: now_unix_ms,
            };
            self.readings.insert(conversation_id.clone(), reading);
        }
        Ok(())
    }

    fn has_read(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<bool, StoreUnavailable> {
        let now_unix_ms = now_unix_ms.min(TIME_MAX_UNIX_MS);
        Ok(self.reading(conversation_id, now_unix_ms).is_some())
    }
}
