//! The table of blocks: one row per blocked user.

use super::SqliteStore;
use super::tables::{loaded, stored};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use windlass_tool::handler::{Block, Blocks, BlocksUnavailable};
use windlass_tool::id::UserId;

impl Blocks for SqliteStore {
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable> {
        let place = self.place.check();
        place.map_err(|error| BlocksUnavailable(error.to_string()))?;
        let mut open = self.lock();
        upsert_all(&mut open.connection, blocks).map_err(unavailable)
    }

    fn blocked(
        &self,
        user_id: &UserId,
        now_unix_ms: u64,
    ) -> Result<Option<Block>, BlocksUnavailable> {
        let block = find(&self.questions(), user_id, now_unix_ms).map_err(unavailable)?;
        self.prune_if_idle(now_unix_ms);
        Ok(block)
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
            "INSERT INTO blocks (user_id, until_unix_ms, farewell_message) VALUES (?1, ?2, ?3)
             ON CONFLICT (user_id) DO UPDATE SET
                 until_unix_ms = excluded.until_unix_ms,
                 farewell_message = excluded.farewell_message
             WHERE excluded.until_unix_ms > blocks.until_unix_ms",
        )?
        .execute(params![
            block.user_id.as_str(),
            stored(block.until_unix_ms),
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
             WHERE user_id = ?1 AND until_unix_ms > ?2",
        )?
        .query_row(params![user_id.as_str(), stored(now_unix_ms)], |row| {
            Ok(Block {
                user_id: user_id.clone(),
                until_unix_ms: loaded(row.get(0)?),
                farewell_message: row.get(1)?,
            })
        })
        .optional()
}
