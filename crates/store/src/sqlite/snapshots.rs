//! The table of snapshots.

use super::tables::{Tables, loaded, stored};
use crate::{Hash, ResumeTokens, Saved, Snapshot, Snapshots, StoreUnavailable};
use rusqlite::{Connection, OptionalExtension, params};
use windlass_tool::id::{ConversationId, SessionId, UserId};
use windlass_tool::sensitive::Sensitive;

impl Snapshots for Tables<'_> {
    fn save_snapshot(&mut self, snapshot: &Snapshot) -> Result<Saved, StoreUnavailable> {
        self.step(|connection, limits| {
            if snapshot.is_too_long(limits) {
                return Ok(Saved::TooLong);
            }
            for token_hash in snapshot.tokens.iter() {
                let owner = owner(connection, token_hash)?;
                if owner.is_some_and(|other| other != snapshot.session_id.as_str()) {
                    return Ok(Saved::TokenTaken);
                }
            }
            write(connection, snapshot)?;
            Ok(Saved::Stored)
        })
    }

    fn snapshot(
        &mut self,
        token_hash: &Hash,
        now_unix_ms: u64,
    ) -> Result<Option<Snapshot>, StoreUnavailable> {
        self.step(|connection, _| find(connection, token_hash, now_unix_ms))
    }

    fn forget_snapshot(&mut self, session_id: &SessionId) -> Result<bool, StoreUnavailable> {
        self.step(|connection, _| {
            let rows = connection
                .prepare_cached("DELETE FROM snapshots WHERE session_id = ?1")?
                .execute([session_id.as_str()])?;
            Ok(rows > 0)
        })
    }
}

/// The session that has a token, also where its snapshot has run out.
fn owner(connection: &Connection, token_hash: &Hash) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached(
            "SELECT session_id FROM snapshots
             WHERE token_hash = ?1 OR next_token_hash = ?1 OR previous_token_hash = ?1",
        )?
        .query_row([token_hash], |row| row.get(0))
        .optional()
}

fn find(
    connection: &Connection,
    token_hash: &Hash,
    now_unix_ms: u64,
) -> rusqlite::Result<Option<Snapshot>> {
    connection
        .prepare_cached(
            "SELECT session_id, conversation_id, user_id, body, expires_at_unix_ms,
                 token_hash, next_token_hash, previous_token_hash
             FROM snapshots
             WHERE (token_hash = ?1 OR next_token_hash = ?1 OR previous_token_hash = ?1)
                 AND expires_at_unix_ms > ?2",
        )?
        .query_row(params![token_hash, stored(now_unix_ms)], |row| {
            Ok(Snapshot {
                session_id: SessionId::new(row.get::<_, String>(0)?),
                conversation_id: ConversationId::new(row.get::<_, String>(1)?),
                user_id: UserId::new(row.get::<_, String>(2)?),
                tokens: ResumeTokens {
                    current: row.get(5)?,
                    next: row.get(6)?,
                    previous: row.get(7)?,
                },
                body: Sensitive(row.get(3)?),
                expires_at_unix_ms: loaded(row.get(4)?),
            })
        })
        .optional()
}

fn write(connection: &Connection, snapshot: &Snapshot) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO snapshots (session_id, conversation_id, user_id, token_hash, next_token_hash,
                                    previous_token_hash, body, expires_at_unix_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (session_id) DO UPDATE SET
                 conversation_id = excluded.conversation_id, user_id = excluded.user_id,
                 token_hash = excluded.token_hash, next_token_hash = excluded.next_token_hash,
                 previous_token_hash = excluded.previous_token_hash, body = excluded.body,
                 expires_at_unix_ms = excluded.expires_at_unix_ms",
        )?
        .execute(params![
            snapshot.session_id.as_str(),
            snapshot.conversation_id.as_str(),
            snapshot.user_id.as_str(),
            snapshot.tokens.current,
            snapshot.tokens.next,
            snapshot.tokens.previous,
            snapshot.body.expose(),
            stored(snapshot.expires_at_unix_ms),
        ])?;
    Ok(())
}
