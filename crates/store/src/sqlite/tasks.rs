//! Tasks among the effects: a user's tasks, the number of running ones, and those whose ends are still to be told. Knows no rule about
//! them.

use super::effects::{of_all, select_with_conversation};
use super::tables::{bound, count, time};
use crate::effect::Effect;
use crate::id::ConversationRef;
use crate::task::{RunningTasks, WantedTasks};
use rusqlite::{Connection, params};
use windlass_contract::id::{ConversationId, EffectId};

pub(super) fn listed(
    connection: &Connection,
    wanted: &WantedTasks<'_>,
) -> rusqlite::Result<Vec<(ConversationRef, Effect)>> {
    let user = wanted.user_id.as_str();
    // The bound after every name with this prefix. No name holds this character where a prefix ends.
    let (first, end) = match wanted.prefix {
        Some(prefix) => (prefix.to_owned(), format!("{prefix}\u{10FFFF}")),
        None => (format!("{user}\u{1}"), format!("{user}\u{1}")),
    };
    let (begun, id) = match wanted.behind {
        Some((begun, id)) => (time(begun), id.as_str()),
        None => (i64::MAX, ""),
    };
    let statement = of_all!(
        "INDEXED BY tasks_by_user",
        "tenant = ?1 AND task_user >= ?2 AND task_user < ?3 AND (task_user = ?2 OR task_user >= ?4) AND task_user IS NOT NULL
             AND (?5 IS NULL OR conversation_id = ?5) AND (?6 = 0 OR state = 'running')
             AND (begun_at_unix_ms < ?7 OR (begun_at_unix_ms = ?7 AND effect_id > ?8))
         ORDER BY begun_at_unix_ms DESC, effect_id LIMIT ?9"
    );
    let values = params![
        wanted.tenant.as_str(),
        user,
        end,
        first,
        wanted.conversation_id.map(ConversationId::as_str),
        wanted.only_running,
        begun,
        id,
        bound(wanted.tasks_max)
    ];
    select_with_conversation(connection, statement, values)
}

/// Counts running tasks. Reads an index alone, whose rows are as few as may run.
pub(super) fn running(
    connection: &Connection,
    of: &ConversationRef,
) -> rusqlite::Result<RunningTasks> {
    let of_user = connection
        .prepare_cached(
            "SELECT count(*) FROM effects INDEXED BY tasks_running
             WHERE tenant = ?1 AND task_user = ?2 AND task_user IS NOT NULL AND state = 'running'",
        )?
        .query_row(params![of.tenant.as_str(), of.user_id.as_str()], count)?;
    let of_tenant = connection
        .prepare_cached(
            "SELECT count(*) FROM effects INDEXED BY tasks_running
             WHERE tenant = ?1 AND task_user IS NOT NULL AND state = 'running'",
        )?
        .query_row(params![of.tenant.as_str()], count)?;
    Ok(RunningTasks { of_user, of_tenant })
}

pub(super) fn unsent(
    connection: &Connection,
    behind: Option<(u64, &EffectId)>,
    tasks_max: usize,
) -> rusqlite::Result<Vec<(ConversationRef, Effect)>> {
    let (changed, id) = match behind {
        Some((changed, id)) => (time(changed), id.as_str()),
        None => (-1, ""),
    };
    let statement = of_all!(
        "INDEXED BY tasks_unsent",
        "task_is_sent = 0 AND state <> 'running' AND changed_at_unix_ms >= ?1
             AND (changed_at_unix_ms > ?1 OR effect_id > ?2)
         ORDER BY changed_at_unix_ms, effect_id LIMIT ?3"
    );
    select_with_conversation(
        connection,
        statement,
        params![changed, id, bound(tasks_max)],
    )
}
