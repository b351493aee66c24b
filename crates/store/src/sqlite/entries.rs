//! The table of the log: its statements, and an entry as a row.

use super::tables::{bound, from_json, json, loaded_number, loaded_time, number, time};
use crate::Searched;
use crate::id::{ConversationRef, EntryNumber, LegNumber};
use crate::log::{Entry, EntryEvent, SaidWords};
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_contract::id::{ConversationId, SessionId, TenantId};
use windlass_contract::sensitive::Sensitive;

/// The newest entries after one, oldest first.
pub(super) fn newest(
    connection: &Connection,
    of: &ConversationRef,
    after: EntryNumber,
    entries_max: usize,
) -> rusqlite::Result<Vec<Entry>> {
    let newest_first: rusqlite::Result<Vec<Entry>> = connection
        .prepare_cached(
            "SELECT number, at_unix_ms, leg, leg_number, key, event FROM entries
             WHERE tenant = ?1 AND conversation_id = ?2 AND number > ?3 ORDER BY number DESC LIMIT ?4",
        )?
        .query_map(
            params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                time(after.0),
                bound(entries_max)
            ],
            read,
        )?
        .collect();
    let mut entries = newest_first?;
    entries.reverse();
    Ok(entries)
}

/// The newest entries before one, oldest first.
pub(super) fn before(
    connection: &Connection,
    of: &ConversationRef,
    before: EntryNumber,
    entries_max: usize,
) -> rusqlite::Result<Vec<Entry>> {
    let newest_first: rusqlite::Result<Vec<Entry>> = connection
        .prepare_cached(
            "SELECT number, at_unix_ms, leg, leg_number, key, event FROM entries
             WHERE tenant = ?1 AND conversation_id = ?2 AND number < ?3 ORDER BY number DESC LIMIT ?4",
        )?
        .query_map(
            params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                time(before.0),
                bound(entries_max)
            ],
            read,
        )?
        .collect();
    let mut entries = newest_first?;
    entries.reverse();
    Ok(entries)
}

/// The oldest entry that is kept.
pub(super) fn first(
    connection: &Connection,
    tenant: &TenantId,
    conversation_id: &ConversationId,
) -> rusqlite::Result<Option<EntryNumber>> {
    let first: Option<i64> = connection
        .prepare_cached(
            "SELECT min(number) FROM entries WHERE tenant = ?1 AND conversation_id = ?2",
        )?
        .query_row(params![tenant.as_str(), conversation_id.as_str()], |row| {
            row.get(0)
        })?;
    Ok(first.map(|first| EntryNumber(loaded_number(first))))
}

/// Looks for words in the newest entries, one after the other.
pub(super) fn search(
    connection: &Connection,
    of: &ConversationRef,
    entries_max: usize,
    is_meant: &dyn Fn(&str) -> bool,
) -> rusqlite::Result<Searched> {
    let mut statement = connection.prepare_cached(
        "SELECT event FROM entries
         WHERE tenant = ?1 AND conversation_id = ?2 ORDER BY number DESC LIMIT ?3",
    )?;
    let mut rows = statement.query(params![
        of.tenant.as_str(),
        of.conversation_id.as_str(),
        bound(entries_max)
    ])?;
    let mut searched = Searched::default();
    while let Some(row) = rows.next()? {
        searched.entries += 1;
        let said = row.get_ref(0)?.as_str()?.strip_prefix(SAID);
        if said
            .and_then(SaidWords::of)
            .is_some_and(|words| is_meant(&words.text))
        {
            searched.is_found = true;
            break;
        }
    }
    Ok(searched)
}

/// Entries of a leg, newest first, because the entries in question are among the newest: the onset of the turn that speaks, or entries
/// that a leg sends again. An index would be written with every entry.
pub(super) fn of_leg(
    connection: &Connection,
    of: &ConversationRef,
    leg: &SessionId,
    leg_number: LegNumber,
) -> rusqlite::Result<Option<EntryNumber>> {
    connection
        .prepare_cached(
            "SELECT number FROM entries NOT INDEXED
             WHERE tenant = ?1 AND conversation_id = ?2 AND leg = ?3 AND leg_number = ?4
             ORDER BY number DESC LIMIT 1",
        )?
        .query_row(
            params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                leg.as_str(),
                number(leg_number.0)
            ],
            |row| Ok(EntryNumber(loaded_number(row.get(0)?))),
        )
        .optional()
}

pub(super) fn number_of_key(
    connection: &Connection,
    of: &ConversationRef,
    key: &str,
) -> rusqlite::Result<Option<EntryNumber>> {
    connection
        .prepare_cached(
            "SELECT number FROM entries INDEXED BY entries_by_key
             WHERE tenant = ?1 AND conversation_id = ?2 AND key = ?3 AND key IS NOT NULL ORDER BY number DESC LIMIT 1",
        )?
        .query_row(
            params![of.tenant.as_str(), of.conversation_id.as_str(), key],
            |row| Ok(EntryNumber(loaded_number(row.get(0)?))),
        )
        .optional()
}

pub(super) fn of_key(
    connection: &Connection,
    of: &ConversationRef,
    key: &str,
) -> rusqlite::Result<Option<Entry>> {
    connection
        .prepare_cached(
            "SELECT number, at_unix_ms, leg, leg_number, key, event FROM entries INDEXED BY entries_by_key
             WHERE tenant = ?1 AND conversation_id = ?2 AND key = ?3 AND key IS NOT NULL ORDER BY number DESC LIMIT 1",
        )?
        .query_row(
            params![of.tenant.as_str(), of.conversation_id.as_str(), key],
            read,
        )
        .optional()
}

pub(super) fn insert(
    connection: &Connection,
    of: &ConversationRef,
    entry: &Entry,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            number(entry.number.0),
            time(entry.at_unix_ms),
            entry.leg.as_ref().map(SessionId::as_str),
            entry.leg_number.map(|leg_number| number(leg_number.0)),
            entry.key,
            event_text(&entry.event)?,
        ])?;
    Ok(())
}

/// Deletes the entries before one, to make room.
pub(super) fn trim(
    connection: &Connection,
    of: &ConversationRef,
    first: EntryNumber,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM entries WHERE tenant = ?1 AND conversation_id = ?2 AND number < ?3",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            number(first.0)
        ])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let leg_number: Option<i64> = row.get(3)?;
    Ok(Entry {
        number: EntryNumber(loaded_number(row.get(0)?)),
        at_unix_ms: loaded_time(row.get(1)?),
        leg: row.get::<_, Option<String>>(2)?.map(SessionId::new),
        leg_number: leg_number.map(|number| LegNumber(loaded_number(number))),
        key: row.get(4)?,
        event: event(row)?,
    })
}

/// The mark before the text of a session's entry. No JSON begins with it, which is the form of all other entries.
const SAID: char = '=';

/// A session's entry is text already, and the largest part of a log: as a JSON string it would be half as long again.
fn event_text(event: &EntryEvent) -> rusqlite::Result<String> {
    match event {
        EntryEvent::Said(text) => Ok(format!("{SAID}{}", text.expose())),
        other => json(other),
    }
}

fn event(row: &Row<'_>) -> rusqlite::Result<EntryEvent> {
    const COLUMN: usize = 5;
    match row.get_ref(COLUMN)?.as_str()?.strip_prefix(SAID) {
        Some(text) => Ok(EntryEvent::Said(Sensitive(text.to_owned()))),
        None => from_json(row, COLUMN, "event"),
    }
}
