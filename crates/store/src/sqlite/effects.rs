//! The table of effects: its statements.

use super::key_specs;
use super::tables::{self, body, bound, document, number, time};
use crate::OwnerId;
use crate::document::EffectColumns;
use crate::effect::Effect;
use crate::id::{ConversationRef, EffectKey};
use rusqlite::{Connection, Params, Row, params};
use windlass_contract::id::{ConversationId, EffectId, TenantId, ToolId, UserId};

/// A query for one conversation's effects, oldest first. `?1` and `?2` are the conversation.
macro_rules! of_conversation {
    ($index:literal, $test:literal) => {
        concat!(
            "SELECT body FROM effects ",
            $index,
            " WHERE tenant = ?1 AND conversation_id = ?2 AND ",
            $test,
            " ORDER BY first_entry"
        )
    };
}

/// A query for effects of any conversation.
macro_rules! of_all {
    ($index:literal, $test:literal) => {
        concat!(
            "SELECT body, tenant, conversation_id, (SELECT user_id FROM conversations
                 WHERE tenant = effects.tenant AND conversation_id = effects.conversation_id)
             FROM effects ",
            $index,
            " WHERE ",
            $test
        )
    };
}
pub(super) use of_all;

/// Effects of the looser key, including those of the exact key.
pub(super) fn near(
    connection: &Connection,
    of: &ConversationRef,
    near: &EffectKey,
) -> rusqlite::Result<Vec<Effect>> {
    // Nested calls never meet the key table.
    let statement = of_conversation!("INDEXED BY effects_by_near", "near = ?3 AND parent IS NULL");
    select(
        connection,
        statement,
        params![of.tenant.as_str(), of.conversation_id.as_str(), near.0],
    )
}

/// Effects of a tool whose keys were compared in another way.
pub(super) struct OtherSpecs<'a> {
    pub(super) tool: &'a ToolId,
    pub(super) fingerprint: i64,
    pub(super) effects_max: usize,
}

/// The newest, oldest first. Reads all effects of the conversation, but only if the file has such effects at all: in the days after a
/// new version of a tool compares other arguments.
pub(super) fn of_other_specs(
    connection: &Connection,
    of: &ConversationRef,
    other: &OtherSpecs<'_>,
) -> rusqlite::Result<Vec<Effect>> {
    if !key_specs::has_others(connection, other.tool, other.fingerprint)? {
        return Ok(Vec::new());
    }
    let statement = "SELECT body FROM effects INDEXED BY effects_by_near
         WHERE tenant = ?1 AND conversation_id = ?2 AND tool = ?3 AND key_fingerprint <> ?4 AND parent IS NULL
         ORDER BY first_entry DESC LIMIT ?5";
    let values = params![
        of.tenant.as_str(),
        of.conversation_id.as_str(),
        other.tool.as_str(),
        other.fingerprint,
        bound(other.effects_max)
    ];
    let mut effects = select(connection, statement, values)?;
    effects.reverse();
    Ok(effects)
}

pub(super) fn find(
    connection: &Connection,
    of: &ConversationRef,
    effect_id: &EffectId,
) -> rusqlite::Result<Option<Effect>> {
    let found = select(
        connection,
        of_conversation!("", "effect_id = ?3"),
        params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            effect_id.as_str()
        ],
    )?;
    Ok(found.into_iter().next())
}

pub(super) fn children(
    connection: &Connection,
    of: &ConversationRef,
    parent: &EffectId,
    ordinal: u32,
) -> rusqlite::Result<Vec<Effect>> {
    let statement = of_conversation!(
        "INDEXED BY effects_by_parent",
        "parent = ?3 AND ordinal = ?4"
    );
    select(
        connection,
        statement,
        params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            parent.as_str(),
            ordinal
        ],
    )
}

pub(super) fn running(
    connection: &Connection,
    of: &ConversationRef,
) -> rusqlite::Result<Vec<Effect>> {
    let statement = of_conversation!("INDEXED BY effects_running", "state = 'running'");
    select(
        connection,
        statement,
        params![of.tenant.as_str(), of.conversation_id.as_str()],
    )
}

pub(super) fn unheard(
    connection: &Connection,
    of: &ConversationRef,
    tool: Option<&ToolId>,
) -> rusqlite::Result<Vec<Effect>> {
    let statement = of_conversation!(
        "INDEXED BY effects_unheard",
        "is_heard = 0 AND state <> 'running' AND (?3 IS NULL OR tool = ?3)"
    );
    select(
        connection,
        statement,
        params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            tool.map(ToolId::as_str)
        ],
    )
}

/// Effects of one tool since a time. Reads all effects of the conversation: it is called when a user answers.
pub(super) fn begun_since(
    connection: &Connection,
    of: &ConversationRef,
    tool: &ToolId,
    at_unix_ms: u64,
) -> rusqlite::Result<Vec<Effect>> {
    let statement = of_conversation!(
        "INDEXED BY effects_by_near",
        "tool = ?3 AND begun_at_unix_ms >= ?4"
    );
    select(
        connection,
        statement,
        params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            tool.as_str(),
            time(at_unix_ms)
        ],
    )
}

/// The number of a conversation's effects. Reads the index alone.
pub(super) fn count(connection: &Connection, of: &ConversationRef) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "SELECT count(*) FROM effects INDEXED BY effects_by_near WHERE tenant = ?1 AND conversation_id = ?2",
        )?
        .query_row(
            params![of.tenant.as_str(), of.conversation_id.as_str()],
            tables::count,
        )
}

/// An effect of any conversation of a tenant.
pub(super) fn find_of_tenant(
    connection: &Connection,
    tenant: &TenantId,
    effect_id: &EffectId,
) -> rusqlite::Result<Option<(ConversationRef, Effect)>> {
    let statement = of_all!("", "tenant = ?1 AND effect_id = ?2 LIMIT 1");
    let found = select_with_conversation(
        connection,
        statement,
        params![tenant.as_str(), effect_id.as_str()],
    )?;
    Ok(found.into_iter().next())
}

/// An effect of any tenant. The key begins with the tenant, so the effect is looked for under each; there are few.
pub(super) fn find_of_any(
    connection: &Connection,
    effect_id: &EffectId,
) -> rusqlite::Result<Option<(ConversationRef, Effect)>> {
    let mut next =
        connection.prepare_cached("SELECT min(tenant) FROM effects WHERE tenant > ?1")?;
    let mut tenant = String::new();
    loop {
        let Some(found) = next.query_row([&tenant], |row| row.get::<_, Option<String>>(0))? else {
            return Ok(None);
        };
        let effect = find_of_tenant(connection, &TenantId::new(found.as_str()), effect_id)?;
        if effect.is_some() {
            return Ok(effect);
        }
        tenant = found;
    }
}

pub(super) fn unaudited(
    connection: &Connection,
    effects_max: usize,
) -> rusqlite::Result<Vec<(ConversationRef, Effect)>> {
    let statement = of_all!(
        "INDEXED BY effects_unaudited",
        "is_audited = 0 AND state <> 'running' ORDER BY changed_at_unix_ms LIMIT ?1"
    );
    select_with_conversation(connection, statement, [bound(effects_max)])
}

/// Unknown effects whose handlers are due for a lookup.
pub(super) fn lookups(
    connection: &Connection,
    now_unix_ms: u64,
    effects_max: usize,
) -> rusqlite::Result<Vec<(ConversationRef, Effect)>> {
    let statement = of_all!(
        "INDEXED BY effects_unknown",
        "state = 'unknown' AND lookup_at_unix_ms <= ?1 ORDER BY lookup_at_unix_ms LIMIT ?2"
    );
    select_with_conversation(
        connection,
        statement,
        params![time(now_unix_ms), bound(effects_max)],
    )
}

/// Conversations with attempts whose lease is over, or whose process is dead.
pub(super) fn lapsed(
    connection: &Connection,
    owner: &OwnerId,
    now_unix_ms: u64,
    conversations_max: usize,
) -> rusqlite::Result<Vec<ConversationRef>> {
    connection
        .prepare_cached(
            "SELECT tenant, conversation_id, (SELECT user_id FROM conversations
                 WHERE tenant = effects.tenant AND conversation_id = effects.conversation_id)
             FROM effects INDEXED BY effects_running
             WHERE state = 'running' AND (lease_end_unix_ms <= ?1 OR (owner <> ?2 AND owner <> ''))
             GROUP BY tenant, conversation_id LIMIT ?3",
        )?
        .query_map(
            params![time(now_unix_ms), owner.0, bound(conversations_max)],
            |row| read_reference(row, 0),
        )?
        .collect()
}

pub(super) fn upsert(
    connection: &Connection,
    of: &ConversationRef,
    effect: &Effect,
) -> rusqlite::Result<()> {
    let columns = EffectColumns::of(effect, &of.user_id);
    // Constant columns are not set again: an index is written whenever one of its columns is set.
    connection
        .prepare_cached(
            "INSERT INTO effects (tenant, conversation_id, effect_id, near, parent, ordinal, tool, key_fingerprint, state,
                 first_entry, is_heard, is_audited, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms,
                 lookup_at_unix_ms, task_user, task_is_sent, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
             ON CONFLICT (tenant, effect_id, conversation_id) DO UPDATE SET
                 state = excluded.state, first_entry = excluded.first_entry, is_heard = excluded.is_heard,
                 is_audited = excluded.is_audited, changed_at_unix_ms = excluded.changed_at_unix_ms, owner = excluded.owner,
                 lease_end_unix_ms = excluded.lease_end_unix_ms, lookup_at_unix_ms = excluded.lookup_at_unix_ms,
                 task_user = excluded.task_user, task_is_sent = excluded.task_is_sent, body = excluded.body",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            columns.effect_id.as_str(),
            columns.near.0,
            columns.parent.map(EffectId::as_str),
            columns.ordinal,
            columns.tool.as_str(),
            columns.key_fingerprint,
            columns.state,
            number(columns.first_entry.0),
            columns.is_heard,
            columns.is_audited,
            time(columns.begun_at_unix_ms),
            time(columns.changed_at_unix_ms),
            columns.owner,
            time(columns.lease_end_unix_ms),
            columns.lookup_at_unix_ms.map(time),
            columns.task_user.map(UserId::as_str),
            columns.task_is_sent,
            body(effect)?,
        ])?;
    match effect.parent {
        // Nested calls never meet the key table.
        Some(_) => Ok(()),
        None => key_specs::used(
            connection,
            columns.tool,
            columns.key_fingerprint,
            columns.changed_at_unix_ms,
        ),
    }
}

fn select(
    connection: &Connection,
    statement: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<Effect>> {
    let mut statement = connection.prepare_cached(statement)?;
    statement.query_map(values, document)?.collect()
}

pub(super) fn select_with_conversation(
    connection: &Connection,
    statement: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<(ConversationRef, Effect)>> {
    let mut statement = connection.prepare_cached(statement)?;
    let rows = statement.query_map(values, |row| Ok((read_reference(row, 1)?, document(row)?)))?;
    rows.collect()
}

/// The three columns of a conversation, from a column onward.
pub(super) fn read_reference(row: &Row<'_>, from: usize) -> rusqlite::Result<ConversationRef> {
    Ok(ConversationRef {
        tenant: TenantId::new(row.get::<_, String>(from)?),
        conversation_id: ConversationId::new(row.get::<_, String>(from + 1)?),
        user_id: UserId::new(row.get::<_, String>(from + 2)?),
    })
}
