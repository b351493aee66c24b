//! The table of snapshots.

use super::tables::{Tables, loaded, stored};
use crate::{Exchange, Hash, Saved, Snapshot, Snapshots, StoreUnavailable, TIME_MAX_UNIX_MS};
use rusqlite::{Connection, OptionalExtension, params};
use windlass_tool::id::{ConversationId, SessionId, UserId};
use windlass_tool::sensitive::Sensitive;

impl Snapshots for Tables<'_> {
    fn save_snapshot(&mut self, snapshot: &Snapshot) -> Result<Saved, StoreUnavailable> {
        self.step(|connection, limits| {
            if snapshot.is_too_long(limits) {
                return Ok(Saved::TooLong);
            }
            if owner(connection, &snapshot.token_hash)?
                .is_some_and(|other| other != snapshot.session_id.as_str())
            {
                return Ok(Saved::TokenTaken);
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

    fn exchange_token(
        &mut self,
        exchange: &Exchange,
    ) -> Result<Option<Snapshot>, StoreUnavailable> {
        self.step(|connection, _| {
            let Some(found) = find(connection, &exchange.token_hash, exchange.now_unix_ms)? else {
                return Ok(None);
            };
            if owner(connection, &exchange.new_token_hash)?.is_some() {
                return Ok(None);
            }
            connection
                .prepare_cached(
                    "UPDATE snapshots SET token_hash = ?2, expires_at_unix_ms = ?3 WHERE session_id = ?1",
                )?
                .execute(params![
                    found.session_id.as_str(),
                    exchange.new_token_hash,
                    stored(exchange.expires_at_unix_ms)
                ])?;
            Ok(Some(Snapshot {
                token_hash: exchange.new_token_hash,
                expires_at_unix_ms: exchange.expires_at_unix_ms.min(TIME_MAX_UNIX_MS),
                ..found
            }))
        })
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
        .prepare_cached("SELECT session_id FROM snapshots WHERE token_hash = ?1")?
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
            "SELECT session_id, conversation_id, user_id, body, expires_at_unix_ms FROM snapshots
             WHERE token_hash = ?1 AND expires_at_unix_ms > ?2",
        )?
        .query_row(params![token_hash, stored(now_unix_ms)], |row| {
            Ok(Snapshot {
                session_id: SessionId::new(row.get::<_, String>(0)?),
                conversation_id: ConversationId::new(row.get::<_, String>(1)?),
                user_id: UserId::new(row.get::<_, String>(2)?),
                token_hash: *token_hash,
                body: Sensitive(row.get(3)?),
                expires_at_unix_ms: loaded(row.get(4)?),
            })
        })
        .optional()
}

fn write(connection: &Connection, snapshot: &Snapshot) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO snapshots (session_id, conversation_id, user_id, token_hash, body, expires_at_unix_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (session_id) DO UPDATE SET
                 conversation_id = excluded.conversation_id, user_id = excluded.user_id,
                 token_hash = excluded.token_hash, body = excluded.body,
                 expires_at_unix_ms = excluded.expires_at_unix_ms",
        )?
        .execute(params![
            snapshot.session_id.as_str(),
            snapshot.conversation_id.as_str(),
            snapshot.user_id.as_str(),
            snapshot.token_hash,
            snapshot.body.expose(),
            stored(snapshot.expires_at_unix_ms),
        ])?;
    Ok(())
}
