//! The store that forgets: the same rules as the durable one, in a map.

use crate::{PRUNE_INTERVAL_MS, Store, StoreUnavailable, TIME_MAX_UNIX_MS};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use windlass_tool::handler::{Block, Blocks, BlocksUnavailable};
use windlass_tool::id::UserId;

/// Keeps everything until it is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    blocks: BTreeMap<UserId, Block>,
    pruned_at_unix_ms: u64,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every change is a single insertion or removal, so a panic elsewhere leaves nothing half done.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn prune(&mut self, now_unix_ms: u64) -> usize {
        let before = self.blocks.len();
        self.blocks
            .retain(|_, block| block.until_unix_ms > now_unix_ms);
        self.pruned_at_unix_ms = now_unix_ms;
        before - self.blocks.len()
    }
}

impl Store for MemoryStore {
    fn prune(&self, now_unix_ms: u64) -> Result<usize, StoreUnavailable> {
        Ok(self.tables().prune(now_unix_ms))
    }
}

impl Blocks for MemoryStore {
    fn block(&self, mut block: Block) -> Result<(), BlocksUnavailable> {
        block.until_unix_ms = block.until_unix_ms.min(TIME_MAX_UNIX_MS);
        let mut tables = self.tables();
        let is_later = tables
            .blocks
            .get(&block.user_id)
            .is_none_or(|earlier| earlier.until_unix_ms < block.until_unix_ms);
        if is_later {
            tables.blocks.insert(block.user_id.clone(), block);
        }
        Ok(())
    }

    fn blocked(
        &self,
        user_id: &UserId,
        now_unix_ms: u64,
    ) -> Result<Option<Block>, BlocksUnavailable> {
        let mut tables = self.tables();
        if now_unix_ms.abs_diff(tables.pruned_at_unix_ms) >= PRUNE_INTERVAL_MS {
            tables.prune(now_unix_ms);
        }
        let block = tables.blocks.get(user_id);
        Ok(block
            .filter(|block| block.until_unix_ms > now_unix_ms)
            .cloned())
    }
}
