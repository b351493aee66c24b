//! The table of approval requests: its statements.

use super::tables::{body, count, document, time};
use crate::document::QuestionColumns;
use crate::id::{ConversationRef, EffectKey, QuestionNumber};
use crate::question::Question;
use rusqlite::{Connection, Params, params};

/// A query for one conversation's approval requests. `?1` and `?2` are the conversation.
macro_rules! of_conversation {
    ($index:literal, $test:literal) => {
        concat!(
            "SELECT body FROM questions ",
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
    let columns = QuestionColumns::of(question);
    connection
        .prepare_cached(
            "INSERT INTO questions (tenant, conversation_id, number, key, state, is_heard, expires_at_unix_ms, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (tenant, conversation_id, number) DO UPDATE SET
                 key = excluded.key, state = excluded.state, is_heard = excluded.is_heard,
                 expires_at_unix_ms = excluded.expires_at_unix_ms, body = excluded.body",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            columns.number.0,
            columns.key.0,
            columns.state,
            columns.is_heard,
            time(columns.expires_at_unix_ms),
            body(question)?,
        ])?;
    Ok(())
}

fn select(
    connection: &Connection,
    statement: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<Question>> {
    let mut statement = connection.prepare_cached(statement)?;
    statement.query_map(values, document)?.collect()
}
