//! The store that forgets: the same rules as the durable one, in maps. It searches them from end to end, which suits tests
//! and throw-away runs.

mod conversations;
mod grants;
mod ledger;
mod readings;
mod snapshots;

use crate::conversation::{Conversation, Entry};
use crate::{
    Effect, Grant, Hash, PRUNE_INTERVAL_MS, Snapshot, Store, StoreLimits, StoreUnavailable,
    TIME_MAX_UNIX_MS, Transaction,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use windlass_tool::handler::{Block, Blocks, BlocksUnavailable};
use windlass_tool::id::{ConversationId, EffectId, SessionId, UserId};

/// Keeps everything until it is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    limits: StoreLimits,
    blocks: BTreeMap<UserId, Block>,
    effects: BTreeMap<EffectId, Effect>,
    grants: BTreeMap<Hash, Grant>,
    conversations: BTreeMap<ConversationId, Talk>,
    snapshots: BTreeMap<SessionId, Snapshot>,
    readings: BTreeMap<ConversationId, Reading>,
    pruned_at_unix_ms: u64,
}

/// What was read in a conversation.
#[derive(Debug)]
struct Reading {
    /// The only session that has read anything; `None` where several have.
    reader: Option<SessionId>,
    read_at_unix_ms: u64,
}

/// A conversation and its entries.
#[derive(Debug)]
struct Talk {
    conversation: Conversation,
    entries: VecDeque<Entry>,
    next_sequence: u64,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with_limits(limits: StoreLimits) -> Self {
        let tables = Tables {
            limits,
            ..Tables::default()
        };
        Self {
            tables: Mutex::new(tables),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every step of a transaction decides first and changes last, so a panic elsewhere leaves nothing half done.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn prune(&mut self, now_unix_ms: u64) -> usize {
        let before = self.rows();
        let limits = self.limits;
        self.blocks
            .retain(|_, block| block.until_unix_ms > now_unix_ms);
        self.effects.retain(|_, effect| {
            effect.reserved_at_unix_ms.saturating_add(limits.effect_ms) > now_unix_ms
        });
        self.grants
            .retain(|_, grant| grant.expires_at_unix_ms > now_unix_ms);
        self.conversations
            .retain(|_, talk| !talk.is_idle(now_unix_ms, &limits));
        let mut used: Vec<u64> = self.conversations.values().map(Talk::used_at).collect();
        if let Some(surplus) = used.len().checked_sub(limits.conversations_max.max(1)) {
            used.sort_unstable();
            let oldest_kept = used[surplus];
            self.conversations
                .retain(|_, talk| talk.used_at() >= oldest_kept);
        }
        self.snapshots
            .retain(|_, snapshot| snapshot.expires_at_unix_ms > now_unix_ms);
        let mut readings = std::mem::take(&mut self.readings);
        readings
            .retain(|conversation, reading| self.holds_reading(conversation, reading, now_unix_ms));
        self.readings = readings;
        self.pruned_at_unix_ms = now_unix_ms;
        before - self.rows()
    }

    /// A conversation is one row, however much was said in it.
    fn rows(&self) -> usize {
        self.blocks.len()
            + self.effects.len()
            + self.grants.len()
            + self.conversations.len()
            + self.snapshots.len()
            + self.readings.len()
    }
}

impl Talk {
    fn used_at(&self) -> u64 {
        self.conversation.used_at_unix_ms
    }

    fn is_idle(&self, now_unix_ms: u64, limits: &StoreLimits) -> bool {
        self.conversation.is_idle(now_unix_ms, limits)
    }
}

impl Store for MemoryStore {
    fn transact(&self, work: &mut dyn FnMut(&mut dyn Transaction)) -> Result<(), StoreUnavailable> {
        work(&mut *self.tables());
        Ok(())
    }

    fn prune(&self, now_unix_ms: u64) -> Result<usize, StoreUnavailable> {
        Ok(self.tables().prune(now_unix_ms))
    }
}

impl Blocks for MemoryStore {
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable> {
        let mut tables = self.tables();
        for block in blocks {
            let until_unix_ms = block.until_unix_ms.min(TIME_MAX_UNIX_MS);
            let is_later = tables
                .blocks
                .get(&block.user_id)
                .is_none_or(|earlier| earlier.until_unix_ms < until_unix_ms);
            if is_later {
                let block = Block {
                    until_unix_ms,
                    ..block.clone()
                };
                tables.blocks.insert(block.user_id.clone(), block);
            }
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
