//! What has run out leaves the tables, a slice at a time. Knows of each table only what makes a row old.

use super::tables::{bound, stored};
use crate::{PRUNED_ROWS_MAX, StoreLimits};
use rusqlite::{Connection, params};

/// Deletes some of what has run out, and returns how many rows that were; 0 when nothing is left. The entries of a
/// conversation go with it and are not counted, so that of conversations fewer go at once.
pub(super) fn slice(
    connection: &Connection,
    limits: &StoreLimits,
    now_unix_ms: u64,
) -> rusqlite::Result<usize> {
    let effects_end = now_unix_ms.checked_sub(limits.effect_ms);
    let conversations_end = now_unix_ms.checked_sub(limits.conversation_ms);
    let tables = [
        (
            "blocks",
            "until_unix_ms",
            Some(now_unix_ms),
            PRUNED_ROWS_MAX,
        ),
        (
            "effects",
            "reserved_at_unix_ms",
            effects_end,
            PRUNED_ROWS_MAX,
        ),
        (
            "grants",
            "expires_at_unix_ms",
            Some(now_unix_ms),
            PRUNED_ROWS_MAX,
        ),
        ("conversations", "used_at_unix_ms", conversations_end, 10),
        ("snapshots", "expires_at_unix_ms", Some(now_unix_ms), 100),
    ];
    let mut rows = 0;
    for (table, column, end_unix_ms, rows_max) in tables {
        let Some(end_unix_ms) = end_unix_ms else {
            continue;
        };
        // A table without row ids has its key in their place.
        let key = if table == "blocks" {
            "user_id"
        } else {
            "rowid"
        };
        let statement = format!(
            "DELETE FROM {table} WHERE {key} IN
                 (SELECT {key} FROM {table} WHERE {column} <= ?1 LIMIT ?2)"
        );
        rows += connection
            .prepare_cached(&statement)?
            .execute(params![stored(end_unix_ms), bound(rows_max)])?;
    }
    if let Some(end_unix_ms) = now_unix_ms.checked_sub(limits.reading_ms()) {
        // What was read stays for as long as it may be told again.
        rows += connection
            .prepare_cached(
                "DELETE FROM readings WHERE conversation_id IN (
                     SELECT conversation_id FROM readings WHERE read_at_unix_ms <= ?1 AND NOT EXISTS (
                         SELECT 1 FROM conversations
                         WHERE conversation_id = readings.conversation_id AND used_at_unix_ms > ?1)
                     LIMIT ?2)",
            )?
            .execute(params![stored(end_unix_ms), bound(PRUNED_ROWS_MAX)])?;
    }
    rows += connection
        .prepare_cached(
            "DELETE FROM conversations WHERE rowid IN
                 (SELECT rowid FROM conversations ORDER BY used_at_unix_ms DESC LIMIT 10 OFFSET ?1)",
        )?
        .execute([bound(limits.conversations_max)])?;
    Ok(rows)
}
