//! Deletes expired rows from the tables, a slice at a time. Knows of each table only when a row is old.

use super::conversations::forget;
use super::key_specs;
use super::tables::{ago, bound, time};
use crate::id::{ConversationRef, OwnerId};
use crate::{ABANDONED_MS, PRUNED_ROWS_MAX, StoreLimits};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeSet;
use windlass_contract::id::{ConversationId, TenantId};

/// The times by which rows are old.
pub(super) struct Ends<'a> {
    pub(super) limits: &'a StoreLimits,
    /// The process whose sessions are live.
    pub(super) owner: &'a OwnerId,
    pub(super) now_unix_ms: u64,
}

/// A conversation by its key.
type ConversationKey = (String, String);

/// The number of conversations that are looked at for one slice.
const CONVERSATIONS_MAX: usize = 100;

/// Whether a conversation is in use, so that it stays however long it has rested: an effect runs, a task is kept, a request waits for
/// its answer, or a session is live. A session of this process is live until it says otherwise; another process's session is live until
/// its time to come back is over. `?1` is the time, `?2` the owner.
macro_rules! is_used_now {
    () => {
        "(EXISTS (SELECT 1 FROM effects INDEXED BY effects_running
              WHERE tenant = conversations.tenant AND conversation_id = conversations.conversation_id AND state = 'running')
          OR EXISTS (SELECT 1 FROM effects INDEXED BY tasks_by_conversation
              WHERE tenant = conversations.tenant AND conversation_id = conversations.conversation_id AND task_user IS NOT NULL)
          OR EXISTS (SELECT 1 FROM questions INDEXED BY questions_open
              WHERE tenant = conversations.tenant AND conversation_id = conversations.conversation_id AND state = 'open'
                  AND expires_at_unix_ms > ?1)
          OR EXISTS (SELECT 1 FROM legs
              WHERE tenant = conversations.tenant AND conversation_id = conversations.conversation_id
                  AND (expires_at_unix_ms > ?1 OR owner = ?2)))"
    };
}
pub(super) use is_used_now;

/// Whether a conversation that has rested for too long is in use.
pub(super) fn is_in_use(
    connection: &Connection,
    of: &ConversationRef,
    owner: &OwnerId,
    now_unix_ms: u64,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(concat!(
            "SELECT EXISTS (SELECT 1 FROM conversations WHERE tenant = ?3 AND conversation_id = ?4 AND ",
            is_used_now!(),
            ")"
        ))?
        .query_row(
            params![
                time(now_unix_ms),
                owner.0,
                of.tenant.as_str(),
                of.conversation_id.as_str()
            ],
            |row| row.get(0),
        )
}

/// Deletes some expired rows, at most as many as a commit may wait for. Returns how many they were; 0 if nothing is left.
pub(super) fn slice(connection: &Connection, ends: &Ends<'_>) -> rusqlite::Result<usize> {
    let mut rows = idle(connection, ends)?;
    let old = ago(ends.now_unix_ms, ends.limits.effect_ms);
    rows += named_by_deliveries(connection, &EFFECTS, old, left(rows))?;
    let old_tasks = ago(ends.now_unix_ms, ends.limits.kept_ms(true));
    rows += named_by_deliveries(connection, &TASKS, old_tasks, left(rows))?;
    rows += named_by_deliveries(connection, &QUESTIONS, old, left(rows))?;
    rows += legs(connection, ends, left(rows))?;
    // Kept as long as any effect may be met again, tasks among them.
    let longest_ms = ends.limits.effect_ms.max(ends.limits.kept_ms(true));
    key_specs::prune(connection, ago(ends.now_unix_ms, longest_ms))?;
    for (statement, end_unix_ms) in [
        (
            "DELETE FROM abandoned WHERE (tenant, conversation_id, nonce) IN (
                 SELECT tenant, conversation_id, nonce FROM abandoned WHERE at_unix_ms <= ?1 LIMIT ?2)",
            ago(ends.now_unix_ms, ABANDONED_MS),
        ),
        (
            "DELETE FROM blocks WHERE (tenant, user_id) IN (
                 SELECT tenant, user_id FROM blocks WHERE until_unix_ms <= ?1 LIMIT ?2)",
            Some(time(ends.now_unix_ms)),
        ),
    ] {
        if let Some(end_unix_ms) = end_unix_ms {
            rows += connection
                .prepare_cached(statement)?
                .execute(params![end_unix_ms, bound(left(rows))])?;
        }
    }
    Ok(rows)
}

/// The number of rows that a slice may still delete.
fn left(rows: usize) -> usize {
    PRUNED_ROWS_MAX.saturating_sub(rows)
}

/// Deletes conversations that are idle for too long. If one has more rows than a slice may delete, the next slice goes on with it.
fn idle(connection: &Connection, ends: &Ends<'_>) -> rusqlite::Result<usize> {
    let rest_ms = ends.limits.conversation_ms.max(ends.limits.effect_ms);
    match ago(ends.now_unix_ms, rest_ms) {
        Some(end_unix_ms) => {
            let unused = unused_until(connection, ends, end_unix_ms)?;
            forget_all(connection, unused)
        }
        None => Ok(0),
    }
}

fn forget_all(connection: &Connection, unused: Vec<ConversationKey>) -> rusqlite::Result<usize> {
    let mut rows = 0;
    for (tenant, conversation_id) in unused {
        if left(rows) == 0 {
            break;
        }
        let (tenant, conversation_id) =
            (TenantId::new(tenant), ConversationId::new(conversation_id));
        rows += forget(connection, &tenant, &conversation_id, left(rows))?;
    }
    Ok(rows)
}

/// Conversations that may be deleted, the ones that are idle for longest first.
const IDLE: &str = concat!(
    "SELECT tenant, conversation_id FROM conversations INDEXED BY conversations_by_use
     WHERE used_at_unix_ms <= ?3 AND NOT ",
    is_used_now!(),
    " ORDER BY used_at_unix_ms, tenant, conversation_id LIMIT ?4"
);
/// Conversations that were last used by then.
fn unused_until(
    connection: &Connection,
    ends: &Ends<'_>,
    end_unix_ms: i64,
) -> rusqlite::Result<Vec<ConversationKey>> {
    connection
        .prepare_cached(IDLE)?
        .query_map(
            params![
                time(ends.now_unix_ms),
                ends.owner.0,
                end_unix_ms,
                bound(CONVERSATIONS_MAX)
            ],
            place,
        )?
        .collect()
}

/// A table whose rows deliveries name: the queries for its old rows' conversations, the deliveries that name them, and the rows.
struct Named {
    conversations: &'static str,
    deliveries: &'static str,
    rows: &'static str,
}

/// The old effects: tasks, or all others.
macro_rules! effects_named {
    ($index:literal, $kind:literal) => {
        Named {
            conversations: concat!(
                "SELECT tenant, conversation_id FROM effects INDEXED BY ",
                $index,
                " WHERE state <> 'running' AND ",
                $kind,
                " AND changed_at_unix_ms <= ?1 LIMIT ?2"
            ),
            deliveries: concat!(
                "DELETE FROM deliveries WHERE tenant = ?1 AND conversation_id = ?2 AND (leg, id) IN (
                    SELECT leg, id FROM deliveries WHERE tenant = ?1 AND conversation_id = ?2 AND effect_id IN (
                        SELECT effect_id FROM effects INDEXED BY effects_by_near
                        WHERE tenant = ?1 AND conversation_id = ?2 AND state <> 'running' AND ",
                $kind,
                " AND changed_at_unix_ms <= ?3)
                    LIMIT ?4)"
            ),
            rows: concat!(
                "DELETE FROM effects WHERE rowid IN (
                    SELECT rowid FROM effects INDEXED BY effects_by_near
                    WHERE tenant = ?1 AND conversation_id = ?2 AND state <> 'running' AND ",
                $kind,
                " AND changed_at_unix_ms <= ?3 LIMIT ?4)"
            ),
        }
    };
}

const EFFECTS: Named = effects_named!("effects_by_change", "task_user IS NULL");
const TASKS: Named = effects_named!("tasks_by_change", "task_user IS NOT NULL");

const QUESTIONS: Named = Named {
    conversations: "SELECT tenant, conversation_id FROM questions WHERE expires_at_unix_ms <= ?1 LIMIT ?2",
    deliveries: "DELETE FROM deliveries WHERE tenant = ?1 AND conversation_id = ?2 AND (leg, id) IN (
        SELECT leg, id FROM deliveries WHERE tenant = ?1 AND conversation_id = ?2 AND question IN (
            SELECT number FROM questions WHERE tenant = ?1 AND conversation_id = ?2 AND expires_at_unix_ms <= ?3)
        LIMIT ?4)",
    rows: "DELETE FROM questions WHERE tenant = ?1 AND conversation_id = ?2 AND number IN (
        SELECT number FROM questions
        WHERE tenant = ?1 AND conversation_id = ?2 AND expires_at_unix_ms <= ?3 LIMIT ?4)",
};

/// Deletes old rows, one conversation after the other. The deliveries that name them go first, so that none names a missing row if a
/// slice ends between them.
fn named_by_deliveries(
    connection: &Connection,
    named: &Named,
    end_unix_ms: Option<i64>,
    rows_max: usize,
) -> rusqlite::Result<usize> {
    let Some(end_unix_ms) = end_unix_ms else {
        return Ok(0);
    };
    let places: BTreeSet<ConversationKey> = connection
        .prepare_cached(named.conversations)?
        .query_map(params![end_unix_ms, bound(rows_max)], place)?
        .collect::<rusqlite::Result<_>>()?;
    let mut rows = 0;
    for (tenant, conversation_id) in places {
        if rows >= rows_max {
            break;
        }
        for statement in [named.deliveries, named.rows] {
            let left = bound(rows_max - rows);
            rows += connection.prepare_cached(statement)?.execute(params![
                tenant,
                conversation_id,
                end_unix_ms,
                left
            ])?;
        }
    }
    Ok(rows)
}

/// Deletes legs. A live session of this process still speaks, whatever time its client had to come back.
fn legs(connection: &Connection, ends: &Ends<'_>, rows_max: usize) -> rusqlite::Result<usize> {
    let limits = ends.limits;
    let kept_ms = limits.conversation_ms.max(limits.effect_ms);
    let Some(end_unix_ms) = ago(ends.now_unix_ms, kept_ms) else {
        return Ok(0);
    };
    let gone: Vec<ConversationKey> = connection
        .prepare_cached(
            "DELETE FROM legs WHERE (tenant, conversation_id, leg) IN (
                 SELECT tenant, conversation_id, leg FROM legs
                 WHERE expires_at_unix_ms <= ?1 AND owner <> ?3 LIMIT ?2)
             RETURNING tenant, conversation_id",
        )?
        .query_map(params![end_unix_ms, bound(rows_max), ends.owner.0], place)?
        .collect::<rusqlite::Result<_>>()?;
    let rows = gone.len();
    let mut bodies = connection.prepare_cached(
        "DELETE FROM leg_bodies
         WHERE tenant = ?1 AND conversation_id = ?2 AND NOT EXISTS (
             SELECT 1 FROM legs WHERE tenant = leg_bodies.tenant AND conversation_id = leg_bodies.conversation_id
                 AND leg = leg_bodies.leg)",
    )?;
    for (tenant, conversation_id) in gone.into_iter().collect::<BTreeSet<ConversationKey>>() {
        bodies.execute(params![tenant, conversation_id])?;
    }
    Ok(rows)
}

fn place(row: &Row<'_>) -> rusqlite::Result<ConversationKey> {
    Ok((row.get(0)?, row.get(1)?))
}
