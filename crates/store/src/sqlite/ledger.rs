//! The table of effects.

use super::tables::{Tables, bound, loaded, odd, stored};
use super::{grants, readings};
use crate::ledger::{Found, decide, may_follow};
use crate::{
    ABANDONED_MAX, Effect, EffectState, GrantState, Hash, Ledger, Outcome, Recorded, Reserve,
    Reserved, SETTLED_MAX, StoreUnavailable,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_tool::id::{ConversationId, EffectId, ToolId, UserId};
use windlass_tool::sensitive::Sensitive;

impl Ledger for Tables<'_> {
    fn reserve(&mut self, request: &Reserve) -> Result<Reserved, StoreUnavailable> {
        self.step(|connection, limits| {
            let found = Found {
                grant: match &request.grant {
                    Some(token_hash) => grants::find(connection, token_hash)?,
                    None => None,
                },
                same_effect: find(connection, &request.effect_id)?,
                open_wish: find_open(
                    connection,
                    &request.conversation_id,
                    &request.fingerprint,
                    Some(&request.effect_id),
                )?,
                effects: count(connection, &request.conversation_id, limits.effects_max)?,
                is_read: match &request.read_by_none_but {
                    Some(session) => {
                        let (conversation, now) = (&request.conversation_id, request.now_unix_ms);
                        let reader = readings::find(connection, limits, conversation, now)?;
                        reader.is_some_and(|reader| reader != session.as_str())
                    }
                    None => false,
                },
            };
            let outdates_questions = request.outdates_questions(found.same_effect.as_ref());
            let verdict = decide(request, found, limits.effects_max);
            if verdict.may_start() {
                if outdates_questions {
                    grants::close_outdated(connection, request)?;
                }
                if let Some(token_hash) = &request.grant {
                    grants::set_state(connection, token_hash, GrantState::Consumed)?;
                }
                write(connection, &Effect::begun(request))?;
            }
            Ok(verdict)
        })
    }

    fn record(&mut self, outcome: &Outcome) -> Result<Recorded, StoreUnavailable> {
        self.step(|connection, limits| {
            let Some(effect) = find(connection, &outcome.effect_id)? else {
                return Ok(Recorded::Missing);
            };
            if !may_follow(effect.state) {
                return Ok(Recorded::Kept(Box::new(effect)));
            }
            let response = outcome.kept_response(limits.response_bytes_max);
            connection
                .prepare_cached(
                    // Whoever was told that it is unknown has not been told how it ended.
                    "UPDATE effects SET is_answered = is_answered AND state = ?2, state = ?2, response = ?3,
                         changed_at_unix_ms = ?4
                     WHERE effect_id = ?1",
                )?
                .execute(params![
                    outcome.effect_id.as_str(),
                    EffectState::from(outcome.state).as_str(),
                    response.map(Sensitive::expose),
                    stored(outcome.now_unix_ms),
                ])?;
            Ok(Recorded::Stored)
        })
    }

    fn mark_answered(&mut self, effect_id: &EffectId) -> Result<bool, StoreUnavailable> {
        self.step(|connection, _| {
            let rows = connection
                .prepare_cached("UPDATE effects SET is_answered = 1 WHERE effect_id = ?1")?
                .execute([effect_id.as_str()])?;
            Ok(rows > 0)
        })
    }

    fn effect(&mut self, effect_id: &EffectId) -> Result<Option<Effect>, StoreUnavailable> {
        self.step(|connection, _| find(connection, effect_id))
    }

    fn effects_of(
        &mut self,
        conversation_id: &ConversationId,
        since_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        self.step(|connection, _| {
            connection
                .prepare_cached(
                    "SELECT * FROM effects WHERE conversation_id = ?1 AND changed_at_unix_ms >= ?2
                     ORDER BY reserved_at_unix_ms, effect_id",
                )?
                .query_map(
                    params![conversation_id.as_str(), stored(since_unix_ms)],
                    read,
                )?
                .collect()
        })
    }

    fn settled(&mut self, behind: Option<&Effect>) -> Result<Vec<Effect>, StoreUnavailable> {
        let bounds =
            "reserved_at_unix_ms <= ?1 AND (reserved_at_unix_ms < ?1 OR effect_id < ?2) AND";
        let statement = format!(
            "SELECT effect_id, conversation_id, user_id, tool, tool_version, fingerprint, state, NULL AS response,
                 is_answered, intent, reserved_at_unix_ms, changed_at_unix_ms
             FROM effects WHERE {} state <> 'reserved'
             ORDER BY reserved_at_unix_ms DESC, effect_id DESC LIMIT {SETTLED_MAX}",
            if behind.is_some() { bounds } else { "" },
        );
        self.step(|connection, _| {
            let mut statement = connection.prepare_cached(&statement)?;
            match behind {
                None => statement.query_map([], read)?.collect(),
                Some(effect) => {
                    let reserved_at = stored(effect.reserved_at_unix_ms);
                    let place = params![reserved_at, effect.effect_id.as_str()];
                    statement.query_map(place, read)?.collect()
                }
            }
        })
    }

    fn abandon(
        &mut self,
        reserved_before_unix_ms: u64,
        now_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        self.step(|connection, _| {
            connection
                .prepare_cached(
                    "UPDATE effects SET state = 'unknown', changed_at_unix_ms = ?2 WHERE rowid IN (
                         SELECT rowid FROM effects WHERE state = 'reserved' AND reserved_at_unix_ms < ?1 LIMIT ?3
                     ) RETURNING *",
                )?
                .query_map(
                    params![
                        stored(reserved_before_unix_ms),
                        stored(now_unix_ms),
                        bound(ABANDONED_MAX)
                    ],
                    read,
                )?
                .collect()
        })
    }
}

pub(super) fn find(
    connection: &Connection,
    effect_id: &EffectId,
) -> rusqlite::Result<Option<Effect>> {
    connection
        .prepare_cached("SELECT * FROM effects WHERE effect_id = ?1")?
        .query_row([effect_id.as_str()], read)
        .optional()
}

/// An effect of this wish that has no definite outcome, and is not this one.
pub(super) fn find_open(
    connection: &Connection,
    conversation_id: &ConversationId,
    fingerprint: &Hash,
    but_for: Option<&EffectId>,
) -> rusqlite::Result<Option<Effect>> {
    connection
        .prepare_cached(
            "SELECT * FROM effects
             WHERE conversation_id = ?1 AND fingerprint = ?2 AND state IN ('reserved', 'unknown')
                 AND effect_id IS NOT ?3
             LIMIT 1",
        )?
        .query_row(
            params![
                conversation_id.as_str(),
                fingerprint,
                but_for.map(EffectId::as_str)
            ],
            read,
        )
        .optional()
}

/// How many effects a conversation has, as far as the bound.
fn count(
    connection: &Connection,
    conversation_id: &ConversationId,
    effects_max: usize,
) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM effects WHERE conversation_id = ?1 LIMIT ?2)",
        )?
        .query_row(
            params![conversation_id.as_str(), bound(effects_max)],
            |row| row.get(0),
        )
        .map(|rows| usize::try_from(loaded(rows)).unwrap_or(usize::MAX))
}

fn write(connection: &Connection, effect: &Effect) -> rusqlite::Result<()> {
    let statement = "
        INSERT INTO effects (effect_id, conversation_id, user_id, tool, tool_version, fingerprint, state, response,
                             is_answered, intent, reserved_at_unix_ms, changed_at_unix_ms)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
        ON CONFLICT (effect_id) DO UPDATE SET
            state = excluded.state, response = excluded.response, is_answered = excluded.is_answered,
            intent = excluded.intent, reserved_at_unix_ms = excluded.reserved_at_unix_ms,
            changed_at_unix_ms = excluded.changed_at_unix_ms";
    connection.prepare_cached(statement)?.execute(params![
        effect.effect_id.as_str(),
        effect.conversation_id.as_str(),
        effect.user_id.as_str(),
        effect.tool.as_str(),
        effect.tool_version,
        effect.fingerprint,
        effect.state.as_str(),
        effect.response.as_ref().map(Sensitive::expose),
        effect.is_answered,
        effect.intent.expose(),
        stored(effect.reserved_at_unix_ms),
        stored(effect.changed_at_unix_ms),
    ])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Effect> {
    let text = |column| row.get::<_, String>(column);
    Ok(Effect {
        effect_id: EffectId::new(text("effect_id")?),
        conversation_id: ConversationId::new(text("conversation_id")?),
        user_id: UserId::new(text("user_id")?),
        tool: ToolId::parse(&text("tool")?).ok_or_else(|| odd("tool"))?,
        tool_version: text("tool_version")?,
        fingerprint: row.get("fingerprint")?,
        state: EffectState::parse(&text("state")?).ok_or_else(|| odd("state"))?,
        response: row.get::<_, Option<String>>("response")?.map(Sensitive),
        is_answered: row.get("is_answered")?,
        intent: Sensitive(text("intent")?),
        reserved_at_unix_ms: loaded(row.get("reserved_at_unix_ms")?),
        changed_at_unix_ms: loaded(row.get("changed_at_unix_ms")?),
    })
}
