//! The table of ended clients: one row per ended id.

use super::tables::bound;
use crate::ENDED_CLIENTS_MAX;
use rusqlite::{Connection, TransactionBehavior, params};
use windlass_contract::id::ClientId;

/// Ends a client's id. The oldest ids make room.
pub(super) fn end(connection: &mut Connection, client_id: &ClientId) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction
        .prepare_cached("INSERT OR IGNORE INTO ended_clients (client_id) VALUES (?1)")?
        .execute([client_id.as_str()])?;
    transaction
        .prepare_cached(
            "DELETE FROM ended_clients WHERE number <= (SELECT max(number) FROM ended_clients) - ?1",
        )?
        .execute(params![bound(ENDED_CLIENTS_MAX)])?;
    transaction.commit()
}

pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<ClientId>> {
    connection
        .prepare_cached("SELECT client_id FROM ended_clients ORDER BY number")?
        .query_map([], |row| Ok(ClientId::new(row.get::<_, String>(0)?)))?
        .collect()
}
