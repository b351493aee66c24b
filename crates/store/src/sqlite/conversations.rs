//! The tables of conversations and of their entries.

use super::tables::{Tables, bound, loaded, stored};
use crate::{
    Appended, Conversation, Conversations, Entry, NewEntry, Opened, StoreLimits, StoreUnavailable,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_tool::id::{ConversationId, UserId};
use windlass_tool::sensitive::Sensitive;

impl Conversations for Tables<'_> {
    fn open_conversation(
        &mut self,
        conversation_id: &ConversationId,
        user_id: &UserId,
        now_unix_ms: u64,
    ) -> Result<Opened, StoreUnavailable> {
        self.step(|connection, limits| {
            match find(connection, limits, conversation_id, now_unix_ms)? {
                Some(known) if known.user_id != *user_id => return Ok(Opened::Foreign),
                Some(known) => {
                    use_at(connection, conversation_id, now_unix_ms)?;
                    return Ok(Opened::Continued(known));
                }
                None => {}
            }
            // One that was idle for too long goes with all its entries.
            connection
                .prepare_cached("DELETE FROM conversations WHERE conversation_id = ?1")?
                .execute([conversation_id.as_str()])?;
            connection
                .prepare_cached(
                    "INSERT INTO conversations (conversation_id, user_id, begun_at_unix_ms, used_at_unix_ms, next_sequence)
                     VALUES (?1, ?2, ?3, ?3, 1)",
                )?
                .execute(params![
                    conversation_id.as_str(),
                    user_id.as_str(),
                    stored(now_unix_ms)
                ])?;
            Ok(Opened::Begun)
        })
    }

    fn conversation(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<Option<Conversation>, StoreUnavailable> {
        self.step(|connection, limits| find(connection, limits, conversation_id, now_unix_ms))
    }

    fn append(
        &mut self,
        conversation_id: &ConversationId,
        entries: &[NewEntry],
        now_unix_ms: u64,
    ) -> Result<Appended, StoreUnavailable> {
        self.step(|connection, limits| {
            if entries.iter().any(|entry| entry.is_too_long(limits)) {
                return Ok(Appended::TooLong);
            }
            let next_sequence: Option<i64> = connection
                .prepare_cached(
                    "SELECT next_sequence FROM conversations WHERE conversation_id = ?1",
                )?
                .query_row([conversation_id.as_str()], |row| row.get(0))
                .optional()?;
            let Some(mut next_sequence) = next_sequence else {
                return Ok(Appended::Missing);
            };
            let mut sequences = Vec::with_capacity(entries.len());
            for entry in entries {
                let key = entry.key.as_deref();
                if let Some(known) = key
                    .map(|key| find_entry(connection, conversation_id, key))
                    .transpose()?
                    .flatten()
                {
                    sequences.push(known.sequence);
                    continue;
                }
                insert(connection, conversation_id, next_sequence, entry)?;
                sequences.push(loaded(next_sequence));
                next_sequence += 1;
            }
            trim(connection, limits, conversation_id, next_sequence)?;
            use_at(connection, conversation_id, now_unix_ms)?;
            Ok(Appended::Stored(sequences))
        })
    }

    fn entries(
        &mut self,
        conversation_id: &ConversationId,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        self.step(|connection, _| {
            let newest_first: rusqlite::Result<Vec<Entry>> = connection
                .prepare_cached(
                    "SELECT sequence, key, body FROM entries WHERE conversation_id = ?1
                     ORDER BY sequence DESC LIMIT ?2",
                )?
                .query_map(params![conversation_id.as_str(), bound(entries_max)], read)?
                .collect();
            let mut entries = newest_first?;
            entries.reverse();
            Ok(entries)
        })
    }

    fn entry(
        &mut self,
        conversation_id: &ConversationId,
        key: &str,
    ) -> Result<Option<Entry>, StoreUnavailable> {
        self.step(|connection, _| find_entry(connection, conversation_id, key))
    }
}

/// A conversation that is not idle for too long.
fn find(
    connection: &Connection,
    limits: &StoreLimits,
    conversation_id: &ConversationId,
    now_unix_ms: u64,
) -> rusqlite::Result<Option<Conversation>> {
    let found = connection
        .prepare_cached(
            "SELECT user_id, begun_at_unix_ms, used_at_unix_ms FROM conversations WHERE conversation_id = ?1",
        )?
        .query_row([conversation_id.as_str()], |row| {
            Ok(Conversation {
                conversation_id: conversation_id.clone(),
                user_id: UserId::new(row.get::<_, String>(0)?),
                begun_at_unix_ms: loaded(row.get(1)?),
                used_at_unix_ms: loaded(row.get(2)?),
            })
        })
        .optional()?;
    Ok(found.filter(|known| !known.is_idle(now_unix_ms, limits)))
}

/// A clock that was set back does not make a conversation older than it was.
fn use_at(
    connection: &Connection,
    conversation_id: &ConversationId,
    now_unix_ms: u64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE conversations SET used_at_unix_ms = max(used_at_unix_ms, ?2) WHERE conversation_id = ?1",
        )?
        .execute(params![conversation_id.as_str(), stored(now_unix_ms)])?;
    Ok(())
}

fn insert(
    connection: &Connection,
    conversation_id: &ConversationId,
    sequence: i64,
    entry: &NewEntry,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO entries (conversation_id, sequence, key, body) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            conversation_id.as_str(),
            sequence,
            entry.key,
            entry.body.expose()
        ])?;
    Ok(())
}

/// Notes how far a conversation has come and has its oldest entries make room.
fn trim(
    connection: &Connection,
    limits: &StoreLimits,
    conversation_id: &ConversationId,
    next_sequence: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE conversations SET next_sequence = ?2 WHERE conversation_id = ?1")?
        .execute(params![conversation_id.as_str(), next_sequence])?;
    connection
        .prepare_cached("DELETE FROM entries WHERE conversation_id = ?1 AND sequence < ?2")?
        .execute(params![
            conversation_id.as_str(),
            next_sequence.saturating_sub(bound(limits.entries_max))
        ])?;
    Ok(())
}

fn find_entry(
    connection: &Connection,
    conversation_id: &ConversationId,
    key: &str,
) -> rusqlite::Result<Option<Entry>> {
    connection
        .prepare_cached(
            "SELECT sequence, key, body FROM entries WHERE conversation_id = ?1 AND key = ?2",
        )?
        .query_row(params![conversation_id.as_str(), key], read)
        .optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        sequence: loaded(row.get(0)?),
        key: row.get(1)?,
        body: Sensitive(row.get(2)?),
    })
}
