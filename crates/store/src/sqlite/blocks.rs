//! The table of blocks: one row per blocked user.

use super::SqliteStore;
use super::tables::{loaded_time, time};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use windlass_contract::handler::{Block, Blocks, BlocksUnavailable};
use windlass_contract::id::{TenantId, UserId};

impl Blocks for SqliteStore {
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable> {
        let place = self.place.check();
        place.map_err(|error| BlocksUnavailable(error.to_string()))?;
        upsert_all(&mut self.writer(), blocks).map_err(unavailable)
    }

    fn blocked(
        &self,
        user_id: &UserId,
        now_unix_ms: u64,
    ) -> Result<Option<Block>, BlocksUnavailable> {
        find(&self.reader(), user_id, now_unix_ms).map_err(unavailable)
    }
}

fn unavailable(error: rusqlite::Error) -> BlocksUnavailable {
    BlocksUnavailable(error.to_string())
}

fn upsert_all(connection: &mut Connection, blocks: &[Block]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for block in blocks {
        upsert(&transaction, block)?;
    }
    transaction.commit()
}

fn upsert(connection: &Connection, block: &Block) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO blocks (tenant, user_id, until_unix_ms, farewell_message) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET
                 until_unix_ms = excluded.until_unix_ms,
                 farewell_message = excluded.farewell_message
             WHERE excluded.until_unix_ms > blocks.until_unix_ms",
        )?
        .execute(params![
            TenantId::default().as_str(),
            block.user_id.as_str(),
            time(block.until_unix_ms),
            block.farewell_message,
        ])?;
    Ok(())
}

fn find(
    connection: &Connection,
    user_id: &UserId,
    now_unix_ms: u64,
) -> rusqlite::Result<Option<Block>> {
    connection
        .prepare_cached(
            "SELECT until_unix_ms, farewell_message FROM blocks
             WHERE tenant = ?1 AND user_id = ?2 AND until_unix_ms > ?3",
        )?
        .query_row(
            params![
                TenantId::default().as_str(),
                user_id.as_str(),
                time(now_unix_ms)
            ],
            |row| {
                Ok(Block {
                    user_id: user_id.clone(),
                    until_unix_ms: loaded_time(row.get(0)?),
                    farewell_message: row.get(1)?,
                })
            },
        )
        .optional()
}
