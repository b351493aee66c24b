//! The number of each party's conversations, and the conversations that may go for new ones. Knows no share and no party by name.

use super::pruning::is_used_now;
use super::tables::{bound, count, time};
use crate::StoreLimits;
use crate::id::OwnerId;
use crate::party::{ConversationPlace, Crowd, Parties, PartyKind, ROOM_MAX};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};
use windlass_contract::id::{ConversationId, TenantId};

/// The asking process, and the time.
pub(super) struct Asking<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) owner: &'a OwnerId,
    pub(super) now_unix_ms: u64,
}

/// The parties without room for one more conversation.
pub(super) fn crowds(
    connection: &Connection,
    parties: &Parties,
    asking: &Asking<'_>,
    limits: &StoreLimits,
) -> rusqlite::Result<Vec<Crowd>> {
    let mut crowds = Vec::new();
    for kind in PartyKind::ALL {
        let hash = match kind {
            PartyKind::Address => parties.address,
            PartyKind::User => parties.user,
            PartyKind::Tenant => None,
        };
        let party = match (kind, hash) {
            (_, Some(hash)) => Value::Blob(hash.0.to_vec()),
            (PartyKind::Tenant, None) => Value::Text(asking.tenant.as_str().to_owned()),
            (PartyKind::Address | PartyKind::User, None) => continue,
        };
        let conversations: Option<usize> = connection
            .prepare_cached(
                "SELECT conversations FROM parties WHERE kind = ?1 AND party = CAST(?2 AS BLOB)",
            )?
            .query_row(params![kind.as_str(), party], count)
            .optional()?;
        let surplus = limits.shares.surplus(kind, conversations.unwrap_or(0));
        if surplus > 0 {
            crowds.push(Crowd {
                kind,
                surplus,
                empty: empty(connection, kind, &party, asking, surplus.min(ROOM_MAX))?,
            });
        }
    }
    Ok(crowds)
}

/// Conversations in which nothing was said or done, and in which no session is, the ones at rest longest first.
macro_rules! empty_of {
    ($index:literal, $column:literal) => {
        concat!(
            "SELECT tenant, conversation_id FROM conversations INDEXED BY ",
            $index,
            " WHERE ",
            $column,
            " = ?3 AND last_entry = 0 AND has_external_content = 0 AND NOT ",
            is_used_now!(),
            " ORDER BY used_at_unix_ms LIMIT ?4"
        )
    };
}

fn empty(
    connection: &Connection,
    kind: PartyKind,
    party: &Value,
    asking: &Asking<'_>,
    conversations_max: usize,
) -> rusqlite::Result<Vec<ConversationPlace>> {
    let statement = match kind {
        PartyKind::Address => empty_of!("conversations_empty_of_address", "address"),
        PartyKind::User => empty_of!("conversations_empty_of_beginner", "beginner"),
        PartyKind::Tenant => empty_of!("conversations_empty_of_tenant", "tenant"),
    };
    connection
        .prepare_cached(statement)?
        .query_map(
            params![
                time(asking.now_unix_ms),
                asking.owner.0,
                party,
                bound(conversations_max)
            ],
            |row| {
                Ok((
                    TenantId::new(row.get::<_, String>(0)?),
                    ConversationId::new(row.get::<_, String>(1)?),
                ))
            },
        )?
        .collect()
}
