//! The table of effects: its statements, and an effect as a row.

use super::key_specs;
use super::tables::{
    self, bound, from_json, json, loaded_number, loaded_time, number, odd, time, tool,
};
use crate::OwnerId;
use crate::effect::{Effect, LookupState};
use crate::id::{ConversationRef, EffectKey, EntryNumber};
use crate::log::EffectState;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row, params};
use windlass_tool::id::{ConversationId, EffectId, SessionId, TenantId, ToolId, UserId};
use windlass_tool::sensitive::Sensitive;

/// An effect's columns, in the order in which [`read`] takes them.
macro_rules! columns {
    () => {
        "effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, \
         first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, near, key_spec, task"
    };
}
pub(super) use columns;

/// A query for one conversation's effects, oldest first. `?1` and `?2` are the conversation.
macro_rules! of_conversation {
    ($index:literal, $test:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM effects ",
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
            "SELECT ",
            $crate::sqlite::effects::columns!(),
            ", tenant, conversation_id, (SELECT user_id FROM conversations
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
    let statement = concat!(
        "SELECT ",
        columns!(),
        " FROM effects INDEXED BY effects_by_near WHERE tenant = ?1 AND conversation_id = ?2 AND tool = ?3
             AND key_fingerprint <> ?4 AND parent IS NULL ORDER BY first_entry DESC LIMIT ?5"
    );
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
            "SELECT DISTINCT tenant, conversation_id, (SELECT user_id FROM conversations
                 WHERE tenant = effects.tenant AND conversation_id = effects.conversation_id)
             FROM effects INDEXED BY effects_running
             WHERE state = 'running' AND (lease_end_unix_ms <= ?1 OR owner NOT IN (?2, '')) LIMIT ?3",
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
    let newest = effect.newest_attempt();
    // Constant columns are not set again: an index is written whenever one of its columns is set.
    connection
        .prepare_cached(concat!(
            "INSERT INTO effects (",
            columns!(),
            ", key_fingerprint, owner, lease_end_unix_ms, lookup_at_unix_ms, tenant, conversation_id, task_user, task_is_sent)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
                 ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32)
             ON CONFLICT (tenant, effect_id, conversation_id) DO UPDATE SET
                 tool_version = excluded.tool_version, arguments = excluded.arguments, state = excluded.state,
                 attempts = excluded.attempts, receipt = excluded.receipt, leg = excluded.leg,
                 generation = excluded.generation, onset = excluded.onset, first_entry = excluded.first_entry,
                 last_entry = excluded.last_entry, is_heard = excluded.is_heard, lookup = excluded.lookup,
                 is_audited = excluded.is_audited, intent = excluded.intent,
                 changed_at_unix_ms = excluded.changed_at_unix_ms, owner = excluded.owner,
                 lease_end_unix_ms = excluded.lease_end_unix_ms, lookup_at_unix_ms = excluded.lookup_at_unix_ms,
                 task = excluded.task, task_user = excluded.task_user, task_is_sent = excluded.task_is_sent"
        ))?
        .execute(params![
            effect.effect_id.as_str(),
            effect.key.0,
            effect.tool.as_str(),
            effect.tool_version,
            effect.arguments.expose(),
            state_word(effect.state),
            json(&effect.attempts)?,
            effect.receipt.as_ref().map(Sensitive::expose),
            effect.parent.as_ref().map(|(parent, _)| parent.as_str()),
            effect.parent.as_ref().map(|(_, ordinal)| *ordinal),
            effect.leg.as_str(),
            number(effect.generation),
            effect.onset.map(|onset| number(onset.0)),
            number(effect.first_entry.0),
            number(effect.last_entry.0),
            effect.is_heard,
            json(&effect.lookup)?,
            effect.is_audited,
            effect.intent.expose(),
            time(effect.begun_at_unix_ms),
            time(effect.changed_at_unix_ms),
            effect.near.0,
            json(&effect.key_spec)?,
            effect.task.as_ref().map(json).transpose()?,
            effect.key_spec.fingerprint(),
            match effect.is_accepted() || effect.is_asking() {
                true => "",
                false => newest.owner.0.as_str(),
            },
            time(newest.lease_end_unix_ms),
            match effect.lookup {
                LookupState::Due { .. } => Some(0),
                LookupState::Tried { next_at_unix_ms, .. } => Some(time(next_at_unix_ms)),
                LookupState::NotHappened => None,
            },
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            effect.task.as_ref().map(|_| of.user_id.as_str()),
            effect.task.as_ref().map(|task| task.is_sent),
        ])?;
    match effect.parent {
        // Nested calls never meet the key table.
        Some(_) => Ok(()),
        None => key_specs::used(
            connection,
            &effect.tool,
            effect.key_spec.fingerprint(),
            effect.changed_at_unix_ms,
        ),
    }
}

fn select(
    connection: &Connection,
    statement: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<Effect>> {
    let mut statement = connection.prepare_cached(statement)?;
    statement.query_map(values, read)?.collect()
}

pub(super) fn select_with_conversation(
    connection: &Connection,
    statement: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<(ConversationRef, Effect)>> {
    let mut statement = connection.prepare_cached(statement)?;
    let rows = statement.query_map(values, |row| Ok((read_reference(row, 24)?, read(row)?)))?;
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

fn read(row: &Row<'_>) -> rusqlite::Result<Effect> {
    let parent: Option<String> = row.get(8)?;
    let ordinal: Option<u32> = row.get(9)?;
    let onset: Option<i64> = row.get(12)?;
    let effect = Effect {
        effect_id: EffectId::new(row.get::<_, String>(0)?),
        key: EffectKey(row.get(1)?),
        tool: tool(row, 2)?,
        tool_version: row.get(3)?,
        arguments: Sensitive(row.get(4)?),
        state: read_state(row, 5)?,
        attempts: from_json(row, 6, "attempts")?,
        receipt: row.get::<_, Option<String>>(7)?.map(Sensitive),
        parent: parent.map(EffectId::new).zip(ordinal),
        leg: SessionId::new(row.get::<_, String>(10)?),
        generation: loaded_number(row.get(11)?),
        onset: onset.map(|onset| EntryNumber(loaded_number(onset))),
        first_entry: EntryNumber(loaded_number(row.get(13)?)),
        last_entry: EntryNumber(loaded_number(row.get(14)?)),
        is_heard: row.get(15)?,
        lookup: from_json(row, 16, "lookup")?,
        is_audited: row.get(17)?,
        intent: Sensitive(row.get(18)?),
        begun_at_unix_ms: loaded_time(row.get(19)?),
        changed_at_unix_ms: loaded_time(row.get(20)?),
        near: EffectKey(row.get(21)?),
        key_spec: from_json(row, 22, "key_spec")?,
        task: match row.get_ref(23)? {
            ValueRef::Null => None,
            _ => Some(from_json(row, 23, "task")?),
        },
    };
    // Without this check, an effect without attempts would stop the program.
    match effect.attempts.is_empty() {
        true => Err(odd("attempts")),
        false => Ok(effect),
    }
}

fn state_word(state: EffectState) -> &'static str {
    match state {
        EffectState::Running => "running",
        EffectState::Done => "done",
        EffectState::NotDone => "not_done",
        EffectState::Unknown => "unknown",
    }
}

fn read_state(row: &Row<'_>, index: usize) -> rusqlite::Result<EffectState> {
    match row.get_ref(index)?.as_str()? {
        "running" => Ok(EffectState::Running),
        "done" => Ok(EffectState::Done),
        "not_done" => Ok(EffectState::NotDone),
        "unknown" => Ok(EffectState::Unknown),
        _ => Err(odd("state")),
    }
}
