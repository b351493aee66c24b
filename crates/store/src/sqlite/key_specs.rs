//! The table of the ways in which keys of tools were compared: one row for each tool and way, however many effects it has. It shows
//! without a look at any effect whether a tool has effects that were compared in another way.

use super::tables::time;
use rusqlite::{Connection, params};
use windlass_contract::id::ToolId;

/// A row's time is at most so much older than its newest effect, so that it is seldom written.
const STALE_MS: i64 = 24 * 60 * 60 * 1_000;

/// Whether a tool has effects that were compared in another way than this.
pub(super) fn has_others(
    connection: &Connection,
    tool: &ToolId,
    fingerprint: i64,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM key_specs WHERE tool = ?1 AND key_fingerprint <> ?2)",
        )?
        .query_row(params![tool.as_str(), fingerprint], |row| row.get(0))
}

/// An effect was written that is compared in this way.
pub(super) fn used(
    connection: &Connection,
    tool: &ToolId,
    fingerprint: i64,
    at_unix_ms: u64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO key_specs (tool, key_fingerprint, used_at_unix_ms) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET used_at_unix_ms = excluded.used_at_unix_ms
                 WHERE used_at_unix_ms < excluded.used_at_unix_ms - ?4",
        )?
        .execute(params![
            tool.as_str(),
            fingerprint,
            time(at_unix_ms),
            STALE_MS
        ])?;
    Ok(())
}

/// Deletes the ways whose effects have all expired by then. A tool with an effect that still runs keeps its own. They are too few to be
/// counted.
pub(super) fn prune(connection: &Connection, end_unix_ms: Option<i64>) -> rusqlite::Result<()> {
    let Some(end_unix_ms) = end_unix_ms else {
        return Ok(());
    };
    connection
        .prepare_cached(
            "DELETE FROM key_specs WHERE used_at_unix_ms <= ?1 AND NOT EXISTS (
                 SELECT 1 FROM effects INDEXED BY effects_running WHERE state = 'running' AND tool = key_specs.tool)",
        )?
        .execute([end_unix_ms.saturating_sub(STALE_MS)])?;
    Ok(())
}
