//! What has run out leaves the tables, a slice at a time. Knows of each table only what makes a row old.

use super::conversations::forget;
use super::tables::{ago, bound, count, time};
use crate::{ABANDONED_MS, PRUNED_ROWS_MAX, StoreLimits};
use rusqlite::{Connection, params};
use std::collections::BTreeSet;
use windlass_tool::id::{ConversationId, TenantId};

/// By which time something is old.
pub(super) struct Ends<'a> {
    pub(super) limits: &'a StoreLimits,
    pub(super) now_unix_ms: u64,
    /// Blocks are set by the machine's clock.
    pub(super) clock_unix_ms: u64,
}

/// A conversation by its key.
type Place = (String, String);

/// How many conversations are looked at for one slice.
const CONVERSATIONS_MAX: usize = 100;

/// Whether a conversation may not be deleted, however long it has rested. `?1` is the time.
macro_rules! is_in_use {
    () => {
        "(EXISTS (SELECT 1 FROM effects INDEXED BY effects_running
              WHERE tenant = conversations.tenant AND conversation_id = conversations.conversation_id AND state = 'running')
          OR EXISTS (SELECT 1 FROM legs
              WHERE tenant = conversations.tenant AND conversation_id = conversations.conversation_id
                  AND state = 'live' AND expires_at_unix_ms > ?1))"
    };
}

/// Deletes some of what has run out, and gives how many rows that were; 0 where nothing is left.
pub(super) fn slice(connection: &Connection, ends: &Ends<'_>) -> rusqlite::Result<usize> {
    let mut rows = conversations(connection, ends)?;
    rows += effects(connection, ends)?;
    rows += questions(connection, ends)?;
    rows += legs(connection, ends)?;
    rows += delete(
        connection,
        "DELETE FROM abandoned WHERE (tenant, conversation_id, nonce) IN (
             SELECT tenant, conversation_id, nonce FROM abandoned WHERE at_unix_ms <= ?1 LIMIT ?2)",
        ago(ends.now_unix_ms, ABANDONED_MS),
    )?;
    rows += delete(
        connection,
        "DELETE FROM blocks WHERE (tenant, user_id) IN (
             SELECT tenant, user_id FROM blocks WHERE until_unix_ms <= ?1 LIMIT ?2)",
        Some(time(ends.clock_unix_ms)),
    )?;
    Ok(rows)
}

fn delete(
    connection: &Connection,
    statement: &str,
    end_unix_ms: Option<i64>,
) -> rusqlite::Result<usize> {
    let Some(end_unix_ms) = end_unix_ms else {
        return Ok(0);
    };
    connection
        .prepare_cached(statement)?
        .execute(params![end_unix_ms, bound(PRUNED_ROWS_MAX)])
}

/// Those that are idle for too long, and those that are idle for longest where there are too many.
fn conversations(connection: &Connection, ends: &Ends<'_>) -> rusqlite::Result<usize> {
    let limits = ends.limits;
    let mut unused = Vec::new();
    let rest_ms = limits.conversation_ms.max(limits.effect_ms);
    if let Some(end_unix_ms) = ago(ends.now_unix_ms, rest_ms) {
        unused = unused_until(connection, ends, end_unix_ms, CONVERSATIONS_MAX)?;
    }
    if unused.is_empty() {
        let kept: usize = connection
            .prepare_cached("SELECT count(*) FROM conversations")?
            .query_row([], count)?;
        let surplus = kept.saturating_sub(limits.conversations_max.max(1));
        if surplus > 0 {
            let conversations_max = surplus.min(CONVERSATIONS_MAX);
            unused = unused_until(connection, ends, i64::MAX, conversations_max)?;
        }
    }
    let mut rows = 0;
    for (tenant, conversation_id) in unused {
        let tenant = TenantId::new(tenant);
        rows += forget(connection, &tenant, &ConversationId::new(conversation_id))?;
        if rows >= PRUNED_ROWS_MAX {
            break;
        }
    }
    Ok(rows)
}

/// Conversations that were last used by then and may be deleted, those that are idle for longest first.
fn unused_until(
    connection: &Connection,
    ends: &Ends<'_>,
    end_unix_ms: i64,
    conversations_max: usize,
) -> rusqlite::Result<Vec<Place>> {
    connection
        .prepare_cached(concat!(
            "SELECT tenant, conversation_id FROM conversations INDEXED BY conversations_by_use
             WHERE used_at_unix_ms <= ?2 AND NOT ",
            is_in_use!(),
            " ORDER BY used_at_unix_ms, tenant, conversation_id LIMIT ?3"
        ))?
        .query_map(
            params![
                time(ends.now_unix_ms),
                end_unix_ms,
                bound(conversations_max)
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?
        .collect()
}

fn effects(connection: &Connection, ends: &Ends<'_>) -> rusqlite::Result<usize> {
    let gone = delete_naming(
        connection,
        "DELETE FROM effects WHERE rowid IN (
             SELECT rowid FROM effects INDEXED BY effects_by_change
             WHERE state <> 'running' AND changed_at_unix_ms <= ?1 LIMIT ?2)
         RETURNING tenant, conversation_id",
        ago(ends.now_unix_ms, ends.limits.effect_ms),
    )?;
    let rows = gone.len();
    let statement = "DELETE FROM deliveries
         WHERE tenant = ?1 AND conversation_id = ?2 AND effect_id IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM effects WHERE tenant = deliveries.tenant AND effect_id = deliveries.effect_id
                 AND conversation_id = deliveries.conversation_id)";
    Ok(rows + delete_of(connection, statement, gone)?)
}

fn questions(connection: &Connection, ends: &Ends<'_>) -> rusqlite::Result<usize> {
    let gone = delete_naming(
        connection,
        "DELETE FROM questions WHERE rowid IN (SELECT rowid FROM questions WHERE expires_at_unix_ms <= ?1 LIMIT ?2)
         RETURNING tenant, conversation_id",
        ago(ends.now_unix_ms, ends.limits.effect_ms),
    )?;
    let rows = gone.len();
    let statement = "DELETE FROM deliveries
         WHERE tenant = ?1 AND conversation_id = ?2 AND question IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM questions WHERE tenant = deliveries.tenant AND conversation_id = deliveries.conversation_id
                 AND number = deliveries.question)";
    Ok(rows + delete_of(connection, statement, gone)?)
}

fn legs(connection: &Connection, ends: &Ends<'_>) -> rusqlite::Result<usize> {
    let limits = ends.limits;
    let gone = delete_naming(
        connection,
        "DELETE FROM legs WHERE (tenant, conversation_id, leg) IN (
             SELECT tenant, conversation_id, leg FROM legs WHERE expires_at_unix_ms <= ?1 LIMIT ?2)
         RETURNING tenant, conversation_id",
        ago(
            ends.now_unix_ms,
            limits.conversation_ms.max(limits.effect_ms),
        ),
    )?;
    let rows = gone.len();
    let statement = "DELETE FROM leg_bodies
         WHERE tenant = ?1 AND conversation_id = ?2 AND NOT EXISTS (
             SELECT 1 FROM legs WHERE tenant = leg_bodies.tenant AND conversation_id = leg_bodies.conversation_id
                 AND leg = leg_bodies.leg)";
    delete_of(connection, statement, gone)?;
    Ok(rows)
}

/// Deletes a slice of a table; gives the conversation of each row.
fn delete_naming(
    connection: &Connection,
    statement: &str,
    end_unix_ms: Option<i64>,
) -> rusqlite::Result<Vec<Place>> {
    let Some(end_unix_ms) = end_unix_ms else {
        return Ok(Vec::new());
    };
    connection
        .prepare_cached(statement)?
        .query_map(params![end_unix_ms, bound(PRUNED_ROWS_MAX)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect()
}

/// Deletes what nothing leads to any more in conversations.
fn delete_of(
    connection: &Connection,
    statement: &str,
    places: Vec<Place>,
) -> rusqlite::Result<usize> {
    let mut rows = 0;
    let mut statement = connection.prepare_cached(statement)?;
    for (tenant, conversation_id) in places.into_iter().collect::<BTreeSet<Place>>() {
        rows += statement.execute(params![tenant, conversation_id])?;
    }
    Ok(rows)
}
