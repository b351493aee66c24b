//! The table of conversations that hold text which others wrote.

use super::tables::{Tables, stored};
use crate::{Readings, StoreLimits, StoreUnavailable};
use rusqlite::{Connection, OptionalExtension, params};
use windlass_tool::id::{ConversationId, SessionId};

/// What stands in the place of a reader where there are several. No session has this id.
const SEVERAL: &str = "";

impl Readings for Tables<'_> {
    fn note_reading(
        &mut self,
        conversation_id: &ConversationId,
        session_id: &SessionId,
        now_unix_ms: u64,
    ) -> Result<(), StoreUnavailable> {
        self.step(|connection, _| {
            connection
                .prepare_cached(
                    // A clock that was set back does not make it older than it was.
                    "INSERT INTO readings (conversation_id, reader, read_at_unix_ms) VALUES (?1, ?2, ?3)
                     ON CONFLICT (conversation_id) DO UPDATE SET
                         reader = iif(reader = excluded.reader, reader, ?4),
                         read_at_unix_ms = max(read_at_unix_ms, excluded.read_at_unix_ms)",
                )?
                .execute(params![
                    conversation_id.as_str(),
                    session_id.as_str(),
                    stored(now_unix_ms),
                    SEVERAL,
                ])?;
            Ok(())
        })
    }

    fn has_read(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<bool, StoreUnavailable> {
        self.step(|connection, limits| {
            find(connection, limits, conversation_id, now_unix_ms).map(|reader| reader.is_some())
        })
    }
}

/// The session that has read something in a conversation, or [`SEVERAL`].
pub(super) fn find(
    connection: &Connection,
    limits: &StoreLimits,
    conversation_id: &ConversationId,
    now_unix_ms: u64,
) -> rusqlite::Result<Option<String>> {
    // Before that time nothing is too old.
    let end_unix_ms = now_unix_ms.checked_sub(limits.reading_ms());
    connection
        .prepare_cached(
            "SELECT reader FROM readings WHERE conversation_id = ?1 AND (read_at_unix_ms > ?2 OR EXISTS (
                 SELECT 1 FROM conversations WHERE conversation_id = ?1 AND used_at_unix_ms > ?2))",
        )?
        .query_row(
            params![conversation_id.as_str(), end_unix_ms.map_or(-1, stored)],
            |row| row.get(0),
        )
        .optional()
}
