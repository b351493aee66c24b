//! The tables of conversations, their legs, their deliveries, and of abandoned commands.

use super::effects::read_reference;
use super::tables::{bound, from_json, json, loaded_number, loaded_time, mode, number, odd, time};
use crate::id::{ConversationRef, EffectKey, EntryNumber, Epoch, Nonce, OwnerId, QuestionNumber};
use crate::leg::{Became, Conversation, Delivery, Heading, Leg};
use crate::party::{Parties, PartyHash};
use crate::{Hash, Wanted};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_tool::id::{ClientId, ConversationId, EffectId, SessionId, TenantId, UserId};
use windlass_tool::sensitive::Sensitive;

/// A conversation's columns, in the order in which [`read_conversation`] takes them.
macro_rules! conversation_columns {
    () => {
        "conversation_id, user_id, has_external_content, last_entry, first_entry, last_question, begun_at_unix_ms,
         used_at_unix_ms, title, messages, address, beginner, standing"
    };
}

pub(super) fn find(
    connection: &Connection,
    tenant: &TenantId,
    conversation_id: &ConversationId,
) -> rusqlite::Result<Option<Conversation>> {
    connection
        .prepare_cached(concat!(
            "SELECT ",
            conversation_columns!(),
            " FROM conversations WHERE tenant = ?1 AND conversation_id = ?2"
        ))?
        .query_row(params![tenant.as_str(), conversation_id.as_str()], |row| {
            read_conversation(row, tenant)
        })
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
        .prepare_cached(concat!(
            "SELECT ",
            conversation_columns!(),
            " FROM conversations INDEXED BY conversations_by_user
             WHERE tenant = ?1 AND user_id >= ?2 AND user_id < ?3 AND (user_id = ?2 OR user_id >= ?4) AND messages > 0
                 AND (used_at_unix_ms < ?5 OR (used_at_unix_ms = ?5 AND conversation_id > ?6))
             ORDER BY used_at_unix_ms DESC, conversation_id LIMIT ?7"
        ))?
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
            |row| read_conversation(row, wanted.tenant),
        )?
        .collect()
}

fn read_conversation(row: &Row<'_>, tenant: &TenantId) -> rusqlite::Result<Conversation> {
    Ok(Conversation {
        tenant: tenant.clone(),
        conversation_id: ConversationId::new(row.get::<_, String>(0)?),
        user_id: UserId::new(row.get::<_, String>(1)?),
        parties: Parties {
            address: row.get::<_, Option<[u8; 16]>>(10)?.map(PartyHash),
            user: row.get::<_, Option<[u8; 16]>>(11)?.map(PartyHash),
        },
        has_external_content: row.get(2)?,
        last_entry: EntryNumber(loaded_number(row.get(3)?)),
        first_entry: EntryNumber(loaded_number(row.get(4)?)),
        last_question: QuestionNumber(row.get(5)?),
        begun_at_unix_ms: loaded_time(row.get(6)?),
        used_at_unix_ms: loaded_time(row.get(7)?),
        heading: Heading {
            title: row.get::<_, Option<String>>(8)?.map(Sensitive),
            messages: loaded_number(row.get(9)?),
        },
        standing: match row.get_ref(12)? {
            ValueRef::Null => Vec::new(),
            _ => from_json(row, 12, "standing")?,
        },
    })
}

pub(super) fn upsert(connection: &Connection, conversation: &Conversation) -> rusqlite::Result<()> {
    let standing = match conversation.standing.is_empty() {
        true => None,
        false => Some(json(&conversation.standing)?),
    };
    connection
        .prepare_cached(
            "INSERT INTO conversations (tenant, conversation_id, user_id, has_external_content, last_entry, first_entry,
                 last_question, begun_at_unix_ms, used_at_unix_ms, address, beginner, title, messages, standing)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT DO UPDATE SET
                 user_id = excluded.user_id, has_external_content = excluded.has_external_content,
                 last_entry = excluded.last_entry, first_entry = excluded.first_entry,
                 last_question = excluded.last_question, used_at_unix_ms = excluded.used_at_unix_ms,
                 title = excluded.title, messages = excluded.messages, standing = excluded.standing",
        )?
        .execute(params![
            conversation.tenant.as_str(),
            conversation.conversation_id.as_str(),
            conversation.user_id.as_str(),
            conversation.has_external_content,
            number(conversation.last_entry.0),
            number(conversation.first_entry.0),
            conversation.last_question.0,
            time(conversation.begun_at_unix_ms),
            time(conversation.used_at_unix_ms),
            conversation.parties.address.map(|address| address.0),
            conversation.parties.user.map(|user| user.0),
            conversation.heading.title.as_ref().map(Sensitive::expose),
            number(conversation.heading.messages),
            standing,
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
    // A body is a part of its leg, and is not counted. The rest of the log begins later.
    for statement in [
        "DELETE FROM leg_bodies WHERE tenant = ?1 AND conversation_id = ?2 AND leg NOT IN (
             SELECT leg FROM legs WHERE tenant = ?1 AND conversation_id = ?2)",
        "UPDATE conversations SET first_entry = coalesce((
             SELECT min(number) FROM entries WHERE tenant = ?1 AND conversation_id = ?2
         ), last_entry + 1) WHERE tenant = ?1 AND conversation_id = ?2",
    ] {
        connection
            .prepare_cached(statement)?
            .execute(params![tenant.as_str(), conversation_id.as_str()])?;
    }
    Ok(rows)
}

/// A leg's columns, in the order in which [`read_leg`] takes them.
macro_rules! leg_columns {
    () => {
        "leg, mode, epoch, owner, client_id, resume_token, last_number, expires_at_unix_ms, is_announced, coalesce((
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
            Ok((read_reference(row, 10)?, read_leg(row)?))
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
/// the body, which may be long, as it is.
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
                "UPDATE legs SET last_number = ?4, is_announced = ?5 WHERE tenant = ?1 AND conversation_id = ?2 AND leg = ?3",
            )?
            .execute(params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                leg.leg.as_str(),
                number(leg.last_number),
                leg.is_announced,
            ])
            .map(drop);
    }
    upsert_leg(connection, of, leg)?;
    // Without a row, the body is empty.
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
    connection
        .prepare_cached(
            "INSERT INTO legs (tenant, conversation_id, leg, mode, epoch, owner, is_announced, client_id, resume_token,
                 last_number, expires_at_unix_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT DO UPDATE SET
                 mode = excluded.mode, epoch = excluded.epoch, owner = excluded.owner,
                 is_announced = excluded.is_announced,
                 client_id = excluded.client_id, resume_token = excluded.resume_token, last_number = excluded.last_number,
                 expires_at_unix_ms = excluded.expires_at_unix_ms",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            leg.leg.as_str(),
            leg.mode.as_str(),
            leg.epoch.0,
            leg.owner.0,
            leg.is_announced,
            leg.client_id.as_str(),
            leg.resume_token,
            number(leg.last_number),
            time(leg.expires_at_unix_ms),
        ])?;
    Ok(())
}

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
        leg: SessionId::new(row.get::<_, String>(0)?),
        mode: mode(row, 1)?,
        epoch: Epoch(row.get(2)?),
        owner: OwnerId(row.get(3)?),
        client_id: ClientId::new(row.get::<_, String>(4)?),
        resume_token: row.get(5)?,
        last_number: loaded_number(row.get(6)?),
        expires_at_unix_ms: loaded_time(row.get(7)?),
        is_announced: row.get(8)?,
        body: Sensitive(row.get(9)?),
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
            "SELECT generation, key, arguments, effect_id, question FROM deliveries
             WHERE tenant = ?1 AND conversation_id = ?2 AND leg = ?3 AND id = ?4",
        )?
        .query_row(
            params![
                of.tenant.as_str(),
                of.conversation_id.as_str(),
                leg.as_str(),
                id
            ],
            |row| {
                let effect_id: Option<String> = row.get(3)?;
                let question: Option<u32> = row.get(4)?;
                Ok(Delivery {
                    leg: leg.clone(),
                    id: id.to_owned(),
                    generation: loaded_number(row.get(0)?),
                    key: EffectKey(row.get(1)?),
                    arguments: row.get(2)?,
                    became: match (effect_id, question) {
                        (Some(effect_id), None) => Became::Effect(EffectId::new(effect_id)),
                        (None, Some(question)) => Became::Question(QuestionNumber(question)),
                        _ => return Err(odd("effect_id")),
                    },
                })
            },
        )
        .optional()
}

pub(super) fn upsert_delivery(
    connection: &Connection,
    of: &ConversationRef,
    delivery: &Delivery,
) -> rusqlite::Result<()> {
    let (effect_id, question) = match &delivery.became {
        Became::Effect(effect_id) => (Some(effect_id.as_str()), None),
        Became::Question(question) => (None, Some(question.0)),
    };
    connection
        .prepare_cached(
            "INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT DO UPDATE SET
                 generation = excluded.generation, key = excluded.key, arguments = excluded.arguments,
                 effect_id = excluded.effect_id, question = excluded.question",
        )?
        .execute(params![
            of.tenant.as_str(),
            of.conversation_id.as_str(),
            delivery.leg.as_str(),
            delivery.id,
            number(delivery.generation),
            delivery.key.0,
            delivery.arguments,
            effect_id,
            question,
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
