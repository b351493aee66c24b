//! The tables of conversations, their legs, their deliveries, and of abandoned commands.

use super::effects::read_reference;
use super::entries;
use super::tables::{body, bound, document, number, time};
use crate::document::{ConversationColumns, DeliveryColumns, LegColumns};
use crate::id::{ConversationRef, EntryNumber, Nonce, OwnerId};
use crate::leg::{Conversation, Delivery, Leg};
use crate::{Hash, Wanted};
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_contract::id::{ConversationId, EffectId, SessionId, TenantId};
use windlass_contract::sensitive::Sensitive;

pub(super) fn find(
    connection: &Connection,
    tenant: &TenantId,
    conversation_id: &ConversationId,
) -> rusqlite::Result<Option<Conversation>> {
    connection
        .prepare_cached(
            "SELECT body FROM conversations WHERE tenant = ?1 AND conversation_id = ?2",
        )?
        .query_row(params![tenant.as_str(), conversation_id.as_str()], document)
        .optional()
}

/// A user's conversations with words in them, the one that was used last first.
pub(super) fn listed(
    connection: &Connection,
    wanted: &Wanted<'_>,
) -> rusqlite::Result<Vec<Conversation>> {
    let user = wanted.user_id.as_str();
    // The bound after every name with this prefix. No name holds this character where a prefix ends.
    let (first, end) = match wanted.prefix {
        Some(prefix) => (prefix.to_owned(), format!("{prefix}\u{10FFFF}")),
        None => (format!("{user}\u{1}"), format!("{user}\u{1}")),
    };
    let (used, id) = match wanted.behind {
        Some((used, id)) => (time(used), id.as_str()),
        None => (i64::MAX, ""),
    };
    connection
        .prepare_cached(
            "SELECT body FROM conversations INDEXED BY conversations_by_user
             WHERE tenant = ?1 AND user_id >= ?2 AND user_id < ?3 AND (user_id = ?2 OR user_id >= ?4) AND messages > 0
                 AND (used_at_unix_ms < ?5 OR (used_at_unix_ms = ?5 AND conversation_id > ?6))
             ORDER BY used_at_unix_ms DESC, conversation_id LIMIT ?7",
        )?
        .query_map(
            params![
                wanted.tenant.as_str(),
                user,
                end,
                first,
                used,
                id,
                bound(wanted.conversations_max)
            ],
            document,
        )?
        .collect()
}

pub(super) fn upsert(connection: &Connection, conversation: &Conversation) -> rusqlite::Result<()> {
    let columns = ConversationColumns::of(conversation);
    connection
        .prepare_cached(
            "INSERT INTO conversations (tenant, conversation_id, user_id, address, beginner, has_external_content, last_entry,
                 messages, used_at_unix_ms, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT DO UPDATE SET
                 user_id = excluded.user_id, has_external_content = excluded.has_external_content,
                 last_entry = excluded.last_entry, messages = excluded.messages, used_at_unix_ms = excluded.used_at_unix_ms,
                 body = excluded.body",
        )?
        .execute(params![
            conversation.tenant.as_str(),
            conversation.conversation_id.as_str(),
            columns.user_id.as_str(),
            columns.address.map(|address| address.0),
            columns.beginner.map(|beginner| beginner.0),
            columns.has_external_content,
            number(columns.last_entry.0),
            number(columns.messages),
            time(columns.used_at_unix_ms),
            body(conversation)?,
        ])?;
    Ok(())
}

/// The tables of a conversation, with the columns that tell their rows apart. Effects go late: while they are there, nothing of them
/// happens twice. The conversation goes last.
const TABLES: [(&str, &str); 7] = [
    ("entries", "number"),
    ("deliveries", "leg, id"),
    ("questions", "number"),
    ("legs", "leg"),
    ("effects", "effect_id"),
    ("abandoned", "nonce"),
    ("conversations", "conversation_id"),
];

/// Deletes a conversation, or as much of it as a bound lets. Returns the number of rows.
pub(super) fn forget(
    connection: &Connection,
    tenant: &TenantId,
    conversation_id: &ConversationId,
    rows_max: usize,
) -> rusqlite::Result<usize> {
    let mut rows = 0;
    for (table, columns) in TABLES {
        if rows >= rows_max {
            break;
        }
        let of = "tenant = ?1 AND conversation_id = ?2";
        let statement = format!(
            "DELETE FROM {table} WHERE {of} AND ({columns}) IN (
                 SELECT {columns} FROM {table} WHERE {of} ORDER BY {columns} LIMIT ?3)"
        );
        rows += connection.prepare_cached(&statement)?.execute(params![
            tenant.as_str(),
            conversation_id.as_str(),
            bound(rows_max - rows)
        ])?;
    }
    // The saved state is a part of its leg, and is not counted.
    connection
        .prepare_cached(
            "DELETE FROM leg_bodies WHERE tenant = ?1 AND conversation_id = ?2 AND leg NOT IN (
                 SELECT leg FROM legs WHERE tenant = ?1 AND conversation_id = ?2)",
        )?
        .execute(params![tenant.as_str(), conversation_id.as_str()])?;
    if let Some(mut left) = find(connection, tenant, conversation_id)? {
        // The rest of the log begins later.
        let first = entries::first(connection, tenant, conversation_id)?;
        left.first_entry = first.unwrap_or(EntryNumber(left.last_entry.0 + 1));
        upsert(connection, &left)?;
    }
    Ok(rows)
}

/// The columns of a leg that [`read_leg`] takes: its body and its saved state.
macro_rules! leg_columns {
    () => {
        "body, coalesce((
             SELECT body FROM leg_bodies WHERE tenant = legs.tenant AND conversation_id = legs.conversation_id AND leg = legs.leg
         ), x'')"
    };
}

pub(super) fn leg(
    connection: &Connection,
    of: &ConversationRef,
    leg: &SessionId,
) -> rusqlite::Result<Option<Leg>> {
    connection
        .prepare_cached(concat!(
            "SELECT ",
            leg_columns!(),
            " FROM legs WHERE tenant = ?1 AND conversation_id = ?2 AND leg = ?3"
        ))?
        .query_row(
            params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                leg.as_str()
            ],
            read_leg,
        )
        .optional()
}

pub(super) fn leg_by_token(
    connection: &Connection,
    of: &ConversationRef,
    token: &Hash,
) -> rusqlite::Result<Option<Leg>> {
    connection
        .prepare_cached(concat!(
            "SELECT ",
            leg_columns!(),
            " FROM legs INDEXED BY legs_by_token
             WHERE resume_token = ?1 AND tenant = ?2 AND conversation_id = ?3 LIMIT 1"
        ))?
        .query_row(
            params![token, of.tenant.as_str(), of.conversation_id.as_str()],
            read_leg,
        )
        .optional()
}

/// The leg of a token, in any conversation.
pub(super) fn leg_of_any(
    connection: &Connection,
    token: &Hash,
) -> rusqlite::Result<Option<(ConversationRef, Leg)>> {
    connection
        .prepare_cached(concat!(
            "SELECT ",
            leg_columns!(),
            ", tenant, conversation_id, (SELECT user_id FROM conversations
                 WHERE tenant = legs.tenant AND conversation_id = legs.conversation_id)
             FROM legs INDEXED BY legs_by_token WHERE resume_token = ?1 LIMIT 1"
        ))?
        .query_row(params![token], |row| {
            Ok((read_reference(row, 2)?, read_leg(row)?))
        })
        .optional()
}

pub(super) fn has_live_leg(
    connection: &Connection,
    of: &ConversationRef,
    owner: &OwnerId,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM legs
             WHERE tenant = ?1 AND conversation_id = ?2 AND owner = ?3)",
        )?
        .query_row(
            params![of.tenant.as_str(), of.conversation_id.as_str(), owner.0],
            |row| row.get(0),
        )
}

/// Ends every leg, and deletes their saved states.
pub(super) fn end_legs(connection: &Connection, of: &ConversationRef) -> rusqlite::Result<()> {
    for statement in [
        "DELETE FROM legs WHERE tenant = ?1 AND conversation_id = ?2",
        "DELETE FROM leg_bodies WHERE tenant = ?1 AND conversation_id = ?2",
    ] {
        connection
            .prepare_cached(statement)?
            .execute(params![of.tenant.as_str(), of.conversation_id.as_str()])?;
    }
    Ok(())
}

/// Writes a leg, if the table has it in another form or not at all. Most changes are a further entry, which concerns no index and leaves
/// the saved state, which may be long, as it is.
pub(super) fn write_leg(
    connection: &Connection,
    of: &ConversationRef,
    stored: Option<&Leg>,
    leg: &Leg,
) -> rusqlite::Result<()> {
    if stored == Some(leg) {
        return Ok(());
    }
    let has_appended = stored.is_some_and(|stored| {
        let appended = Leg {
            last_number: leg.last_number,
            is_announced: leg.is_announced,
            ..stored.clone()
        };
        appended == *leg
    });
    if has_appended {
        return connection
            .prepare_cached(
                "UPDATE legs SET body = ?4 WHERE tenant = ?1 AND conversation_id = ?2 AND leg = ?3",
            )?
            .execute(params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                leg.leg.as_str(),
                body(leg)?,
            ])
            .map(drop);
    }
    upsert_leg(connection, of, leg)?;
    // Without a row, the saved state is empty.
    let is_kept = match stored {
        Some(stored) => stored.body == leg.body,
        None => leg.body.expose().is_empty(),
    };
    match is_kept {
        true => Ok(()),
        false => upsert_body(connection, of, leg),
    }
}

fn upsert_leg(connection: &Connection, of: &ConversationRef, leg: &Leg) -> rusqlite::Result<()> {
    let columns = LegColumns::of(leg);
    connection
        .prepare_cached(
            "INSERT INTO legs (tenant, conversation_id, leg, owner, resume_token, expires_at_unix_ms, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT DO UPDATE SET
                 owner = excluded.owner, resume_token = excluded.resume_token,
                 expires_at_unix_ms = excluded.expires_at_unix_ms, body = excluded.body",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            columns.leg.as_str(),
            columns.owner.0,
            columns.resume_token,
            time(columns.expires_at_unix_ms),
            body(leg)?,
        ])?;
    Ok(())
}

/// Writes the saved state of a leg.
fn upsert_body(connection: &Connection, of: &ConversationRef, leg: &Leg) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO leg_bodies (tenant, conversation_id, leg, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (tenant, conversation_id, leg) DO UPDATE SET body = excluded.body",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            leg.leg.as_str(),
            leg.body.expose(),
        ])?;
    Ok(())
}

pub(super) fn delete_leg(
    connection: &Connection,
    of: &ConversationRef,
    leg: &SessionId,
) -> rusqlite::Result<()> {
    for statement in [
        "DELETE FROM legs WHERE tenant = ?1 AND conversation_id = ?2 AND leg = ?3",
        "DELETE FROM leg_bodies WHERE tenant = ?1 AND conversation_id = ?2 AND leg = ?3",
    ] {
        connection.prepare_cached(statement)?.execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            leg.as_str()
        ])?;
    }
    Ok(())
}

/// Whether the conversation has a leg other than `but`.
pub(super) fn has_legs(
    connection: &Connection,
    of: &ConversationRef,
    but: Option<&SessionId>,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM legs WHERE tenant = ?1 AND conversation_id = ?2 AND leg IS NOT ?3)",
        )?
        .query_row(
            params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                but.map(SessionId::as_str)
            ],
            |row| row.get(0),
        )
}

fn read_leg(row: &Row<'_>) -> rusqlite::Result<Leg> {
    Ok(Leg {
        body: Sensitive(row.get(1)?),
        ..document(row)?
    })
}

pub(super) fn delivery(
    connection: &Connection,
    of: &ConversationRef,
    leg: &SessionId,
    id: &str,
) -> rusqlite::Result<Option<Delivery>> {
    connection
        .prepare_cached(
            "SELECT body FROM deliveries WHERE tenant = ?1 AND conversation_id = ?2 AND leg = ?3 AND id = ?4",
        )?
        .query_row(
            params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                leg.as_str(),
                id
            ],
            document,
        )
        .optional()
}

pub(super) fn upsert_delivery(
    connection: &Connection,
    of: &ConversationRef,
    delivery: &Delivery,
) -> rusqlite::Result<()> {
    let columns = DeliveryColumns::of(delivery);
    connection
        .prepare_cached(
            "INSERT INTO deliveries (tenant, conversation_id, leg, id, effect_id, question, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT DO UPDATE SET effect_id = excluded.effect_id, question = excluded.question, body = excluded.body",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            columns.leg.as_str(),
            columns.id,
            columns.effect_id.map(EffectId::as_str),
            columns.question.map(|question| question.0),
            body(delivery)?,
        ])?;
    Ok(())
}

pub(super) fn is_abandoned(
    connection: &Connection,
    of: &ConversationRef,
    nonce: &Nonce,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM abandoned WHERE tenant = ?1 AND conversation_id = ?2 AND nonce = ?3)",
        )?
        .query_row(
            params![of.tenant.as_str(), of.conversation_id.as_str(), nonce.0],
            |row| row.get(0),
        )
}

pub(super) fn abandon(
    connection: &Connection,
    of: &ConversationRef,
    nonce: &Nonce,
    at_unix_ms: u64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO abandoned (tenant, conversation_id, nonce, at_unix_ms) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET at_unix_ms = excluded.at_unix_ms",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            nonce.0,
            time(at_unix_ms)
        ])?;
    Ok(())
}
