//! The table of approval requests: its statements, and a request as a row.

use super::tables::{
    count, from_json, json, loaded_number, loaded_time, mode, number, odd, time, tool,
};
use crate::id::{ConversationRef, EffectKey, EntryNumber, Nonce, QuestionNumber};
use crate::log::QuestionState;
use crate::question::Question;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row, params};
use windlass_tool::id::{EffectId, SessionId, UserId};
use windlass_tool::sensitive::Sensitive;

/// An approval request's columns, in the order in which [`read`] takes them.
macro_rules! columns {
    () => {
        "number, key, tool, tool_version, handler_hash, arguments, preview, hazards, mode, user_id, leg, generation, onset, call, nonce, state, \
         effect_id, last_entry, is_heard, asked_at_unix_ms, expires_at_unix_ms, near, reason, because, clock, input"
    };
}

/// A query for one conversation's approval requests. `?1` and `?2` are the conversation.
macro_rules! of_conversation {
    ($index:literal, $test:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM questions ",
            $index,
            " WHERE tenant = ?1 AND conversation_id = ?2 AND ",
            $test
        )
    };
}

pub(super) fn find(
    connection: &Connection,
    of: &ConversationRef,
    question: QuestionNumber,
) -> rusqlite::Result<Option<Question>> {
    let found = select(
        connection,
        of_conversation!("", "number = ?3"),
        params![of.tenant.as_str(), of.conversation_id.as_str(), question.0],
    )?;
    Ok(found.into_iter().next())
}

pub(super) fn of_key(
    connection: &Connection,
    of: &ConversationRef,
    key: &EffectKey,
) -> rusqlite::Result<Vec<Question>> {
    select(
        connection,
        of_conversation!("INDEXED BY questions_by_key", "key = ?3 ORDER BY number"),
        params![of.tenant.as_str(), of.conversation_id.as_str(), key.0],
    )
}

/// The approval requests that wait for their answer, oldest first.
pub(super) fn open(
    connection: &Connection,
    of: &ConversationRef,
    now_unix_ms: u64,
) -> rusqlite::Result<Vec<Question>> {
    let statement = of_conversation!(
        "INDEXED BY questions_open",
        "state = 'open' AND expires_at_unix_ms > ?3 ORDER BY number"
    );
    select(
        connection,
        statement,
        params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            time(now_unix_ms)
        ],
    )
}

/// The approval requests that are open, even if their time is up, or answered without the model having heard; oldest first.
pub(super) fn pending(
    connection: &Connection,
    of: &ConversationRef,
) -> rusqlite::Result<Vec<Question>> {
    let values = params![of.tenant.as_str(), of.conversation_id.as_str()];
    let mut pending = select(
        connection,
        of_conversation!("INDEXED BY questions_open", "state = 'open'"),
        values,
    )?;
    pending.extend(select(
        connection,
        of_conversation!(
            "INDEXED BY questions_unheard",
            "is_heard = 0 AND state <> 'open'"
        ),
        values,
    )?);
    pending.sort_by_key(|question| question.number);
    Ok(pending)
}

/// The number of approval requests that wait for their answer. Reads the index alone.
pub(super) fn count_open(
    connection: &Connection,
    of: &ConversationRef,
    now_unix_ms: u64,
) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "SELECT count(*) FROM questions INDEXED BY questions_open
             WHERE tenant = ?1 AND conversation_id = ?2 AND state = 'open' AND expires_at_unix_ms > ?3",
        )?
        .query_row(
            params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                time(now_unix_ms)
            ],
            count,
        )
}

pub(super) fn upsert(
    connection: &Connection,
    of: &ConversationRef,
    question: &Question,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(concat!(
            "INSERT INTO questions (",
            columns!(),
            ", tenant, conversation_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28)
             ON CONFLICT (tenant, conversation_id, number) DO UPDATE SET
                 key = excluded.key, tool = excluded.tool, tool_version = excluded.tool_version,
                 handler_hash = excluded.handler_hash, arguments = excluded.arguments, preview = excluded.preview,
                 hazards = excluded.hazards, mode = excluded.mode, user_id = excluded.user_id, leg = excluded.leg,
                 generation = excluded.generation, onset = excluded.onset,
                 call = excluded.call, nonce = excluded.nonce, state = excluded.state, effect_id = excluded.effect_id,
                 last_entry = excluded.last_entry, is_heard = excluded.is_heard,
                 asked_at_unix_ms = excluded.asked_at_unix_ms, expires_at_unix_ms = excluded.expires_at_unix_ms,
                 near = excluded.near, reason = excluded.reason, because = excluded.because,
                 clock = excluded.clock, input = excluded.input"
        ))?
        .execute(params![
            question.number.0,
            question.key.0,
            question.tool.as_str(),
            question.tool_version,
            question.handler_hash,
            question.arguments.expose(),
            question.preview.expose(),
            json(&question.hazards)?,
            question.mode.as_str(),
            question.user_id.as_str(),
            question.leg.as_str(),
            number(question.generation),
            question.onset.map(|onset| number(onset.0)),
            number(question.call),
            question.nonce.0,
            state_word(question.state),
            question.effect_id.as_ref().map(EffectId::as_str),
            number(question.last_entry.0),
            question.is_heard,
            time(question.asked_at_unix_ms),
            time(question.expires_at_unix_ms),
            question.near.0,
            question.reason.as_ref().map(|reason| reason.expose().as_str()),
            question.because,
            question.clock.as_ref().map(json).transpose()?,
            question.input.as_ref().map(json).transpose()?,
            of.tenant.as_str(),
            of.conversation_id.as_str(),
        ])?;
    Ok(())
}

fn select(
    connection: &Connection,
    statement: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<Question>> {
    let mut statement = connection.prepare_cached(statement)?;
    statement.query_map(values, read)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Question> {
    let onset: Option<i64> = row.get(12)?;
    Ok(Question {
        number: QuestionNumber(row.get(0)?),
        key: EffectKey(row.get(1)?),
        tool: tool(row, 2)?,
        tool_version: row.get(3)?,
        handler_hash: row.get(4)?,
        arguments: Sensitive(row.get(5)?),
        preview: Sensitive(row.get(6)?),
        hazards: from_json(row, 7, "hazards")?,
        mode: mode(row, 8)?,
        user_id: UserId::new(row.get::<_, String>(9)?),
        leg: SessionId::new(row.get::<_, String>(10)?),
        generation: loaded_number(row.get(11)?),
        onset: onset.map(|onset| EntryNumber(loaded_number(onset))),
        call: loaded_number(row.get(13)?),
        nonce: Nonce(row.get(14)?),
        state: read_state(row, 15)?,
        effect_id: row.get::<_, Option<String>>(16)?.map(EffectId::new),
        last_entry: EntryNumber(loaded_number(row.get(17)?)),
        is_heard: row.get(18)?,
        asked_at_unix_ms: loaded_time(row.get(19)?),
        expires_at_unix_ms: loaded_time(row.get(20)?),
        near: EffectKey(row.get(21)?),
        reason: row.get::<_, Option<String>>(22)?.map(Sensitive),
        because: row.get(23)?,
        clock: match row.get_ref(24)? {
            ValueRef::Null => None,
            _ => Some(from_json(row, 24, "clock")?),
        },
        input: match row.get_ref(25)? {
            ValueRef::Null => None,
            _ => Some(Box::new(from_json(row, 25, "input")?)),
        },
    })
}

fn state_word(state: QuestionState) -> &'static str {
    match state {
        QuestionState::Open => "open",
        QuestionState::Approved => "approved",
        QuestionState::Denied => "denied",
        QuestionState::Closed => "closed",
    }
}

fn read_state(row: &Row<'_>, index: usize) -> rusqlite::Result<QuestionState> {
    match row.get_ref(index)?.as_str()? {
        "open" => Ok(QuestionState::Open),
        "approved" => Ok(QuestionState::Approved),
        "denied" => Ok(QuestionState::Denied),
        "closed" => Ok(QuestionState::Closed),
        _ => Err(odd("state")),
    }
}
