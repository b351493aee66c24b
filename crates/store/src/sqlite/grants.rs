//! The table of grants.

use super::tables::{Tables, bound, loaded, odd, stored};
use crate::{
    Decline, Declined, Grant, GrantRefusal, GrantState, Grants, Hash, Proposal, Proposed, Renewal,
    Reserve, StoreUnavailable, TIME_MAX_UNIX_MS,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_tool::id::{ConversationId, EffectId, ToolId, UserId};
use windlass_tool::sensitive::Sensitive;

impl Grants for Tables<'_> {
    fn propose(&mut self, proposal: &Proposal) -> Result<Proposed, StoreUnavailable> {
        self.step(|connection, limits| {
            if proposal.is_too_long(limits) {
                return Ok(Proposed::TooLong);
            }
            if find(connection, &proposal.token_hash)?.is_some() {
                return Ok(Proposed::TokenTaken);
            }
            let open: i64 = connection
                .prepare_cached(
                    "SELECT count(*) FROM grants
                     WHERE conversation_id = ?1 AND state = 'open' AND expires_at_unix_ms > ?2",
                )?
                .query_row(
                    params![
                        proposal.conversation_id.as_str(),
                        stored(proposal.now_unix_ms)
                    ],
                    |row| row.get(0),
                )?;
            if open >= bound(limits.grants_max) {
                return Ok(Proposed::TooMany);
            }
            let mut effect_id = proposal.effect_id.clone();
            if !proposal.says_unknown {
                let (conversation, wish) = (&proposal.conversation_id, &proposal.fingerprint);
                if let Some(begun) = super::ledger::find_open(connection, conversation, wish, None)?
                {
                    return Ok(Proposed::Begun(Box::new(begun)));
                }
                effect_id = find_asked(connection, proposal)?.unwrap_or(effect_id);
            }
            insert(connection, &Grant::of(proposal, effect_id.clone()))?;
            Ok(Proposed::Stored(effect_id))
        })
    }

    fn grant(&mut self, token_hash: &Hash) -> Result<Option<Grant>, StoreUnavailable> {
        self.step(|connection, _| find(connection, token_hash))
    }

    fn open_grants(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<Vec<Grant>, StoreUnavailable> {
        self.step(|connection, _| {
            connection
                .prepare_cached(
                    "SELECT * FROM grants
                     WHERE conversation_id = ?1 AND state = 'open' AND expires_at_unix_ms > ?2
                     ORDER BY expires_at_unix_ms, token_hash",
                )?
                .query_map(params![conversation_id.as_str(), stored(now_unix_ms)], read)?
                .collect()
        })
    }

    fn grants_of(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<Vec<Grant>, StoreUnavailable> {
        self.step(|connection, _| {
            connection
                .prepare_cached(
                    "SELECT * FROM grants WHERE conversation_id = ?1 AND expires_at_unix_ms > ?2
                     ORDER BY expires_at_unix_ms, token_hash",
                )?
                .query_map(params![conversation_id.as_str(), stored(now_unix_ms)], read)?
                .collect()
        })
    }

    fn decline(&mut self, answer: &Decline) -> Result<Declined, StoreUnavailable> {
        self.step(|connection, _| {
            let Some(mut grant) = find(connection, &answer.token_hash)? else {
                return Ok(Declined::Refused(GrantRefusal::Unknown));
            };
            let effect = super::ledger::find(connection, &grant.effect_id)?;
            if let Err(refusal) = grant.may_be_declined(answer, effect.as_ref()) {
                return Ok(Declined::Refused(refusal));
            }
            grant.state = GrantState::Declined;
            set_state(connection, &grant.token_hash, grant.state)?;
            Ok(Declined::Declined(Box::new(grant)))
        })
    }

    fn renew(&mut self, renewal: &Renewal) -> Result<Option<Grant>, StoreUnavailable> {
        self.step(|connection, _| {
            let found = find(connection, &renewal.token_hash)?;
            let Some(grant) = found.filter(|grant| grant.is_open(renewal.now_unix_ms)) else {
                return Ok(None);
            };
            if find(connection, &renewal.new_token_hash)?.is_some() {
                return Ok(None);
            }
            let renewed = Grant {
                token_hash: renewal.new_token_hash,
                expires_at_unix_ms: renewal.expires_at_unix_ms.min(TIME_MAX_UNIX_MS),
                ..grant
            };
            connection
                .prepare_cached(
                    "UPDATE grants SET token_hash = ?2, expires_at_unix_ms = ?3 WHERE token_hash = ?1",
                )?
                .execute(params![
                    renewal.token_hash,
                    renewed.token_hash,
                    stored(renewed.expires_at_unix_ms)
                ])?;
            Ok(Some(renewed))
        })
    }

    fn revoke(&mut self, token_hash: &Hash) -> Result<bool, StoreUnavailable> {
        self.step(|connection, _| {
            let rows = connection
                .prepare_cached("DELETE FROM grants WHERE token_hash = ?1 AND state = 'open'")?
                .execute([token_hash])?;
            Ok(rows > 0)
        })
    }
}

pub(super) fn find(connection: &Connection, token_hash: &Hash) -> rusqlite::Result<Option<Grant>> {
    connection
        .prepare_cached("SELECT * FROM grants WHERE token_hash = ?1")?
        .query_row([token_hash], read)
        .optional()
}

/// The effect of an open question about the same wish, unless it was done or begun since.
fn find_asked(connection: &Connection, proposal: &Proposal) -> rusqlite::Result<Option<EffectId>> {
    let asked: Option<String> = connection
        .prepare_cached(
            "SELECT effect_id FROM grants
             WHERE conversation_id = ?1 AND state = 'open' AND expires_at_unix_ms > ?2 AND fingerprint = ?3
                 AND NOT EXISTS (
                     SELECT 1 FROM effects WHERE effects.effect_id = grants.effect_id AND effects.state <> 'failed'
                 )
             ORDER BY expires_at_unix_ms, token_hash LIMIT 1",
        )?
        .query_row(
            params![
                proposal.conversation_id.as_str(),
                stored(proposal.now_unix_ms),
                proposal.fingerprint
            ],
            |row| row.get(0),
        )
        .optional()?;
    Ok(asked.map(EffectId::new))
}

pub(super) fn set_state(
    connection: &Connection,
    token_hash: &Hash,
    state: GrantState,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE grants SET state = ?2 WHERE token_hash = ?1")?
        .execute(params![token_hash, state.as_str()])?;
    Ok(())
}

/// Takes back the questions that this reservation leaves behind: `Reserve::outdates`.
pub(super) fn close_outdated(connection: &Connection, request: &Reserve) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM grants
             WHERE conversation_id = ?1 AND state = 'open' AND effect_id = ?2 AND token_hash IS NOT ?3",
        )?
        .execute(params![
            request.conversation_id.as_str(),
            request.effect_id.as_str(),
            request.grant,
        ])?;
    Ok(())
}

fn insert(connection: &Connection, grant: &Grant) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO grants (token_hash, effect_id, conversation_id, user_id, tool, tool_version, fingerprint,
                                 arguments, preview, state, expires_at_unix_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            grant.token_hash,
            grant.effect_id.as_str(),
            grant.conversation_id.as_str(),
            grant.user_id.as_str(),
            grant.tool.as_str(),
            grant.tool_version,
            grant.fingerprint,
            grant.arguments.expose(),
            grant.preview.expose(),
            grant.state.as_str(),
            stored(grant.expires_at_unix_ms),
        ])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let text = |column| row.get::<_, String>(column);
    Ok(Grant {
        token_hash: row.get("token_hash")?,
        effect_id: EffectId::new(text("effect_id")?),
        conversation_id: ConversationId::new(text("conversation_id")?),
        user_id: UserId::new(text("user_id")?),
        tool: ToolId::parse(&text("tool")?).ok_or_else(|| odd("tool"))?,
        tool_version: text("tool_version")?,
        fingerprint: row.get("fingerprint")?,
        arguments: Sensitive(text("arguments")?),
        preview: Sensitive(text("preview")?),
        state: GrantState::parse(&text("state")?).ok_or_else(|| odd("state"))?,
        expires_at_unix_ms: loaded(row.get("expires_at_unix_ms")?),
    })
}
