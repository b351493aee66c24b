//! A store's thread over a store whose disk can be full.

use crate::support::ledger::{attach, batch, record, request};
use crate::support::store_settings;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use windlass_contract::handler::{Block, Blocks, BlocksUnavailable};
use windlass_contract::id::{ClientId, ConversationId, EffectId, TenantId, UserId};
use windlass_driver::Committed;
use windlass_runtime::store_thread::{StoreThread, Surroundings, ThreadSettings};
use windlass_store::command::{OpenQuestion, Reply};
use windlass_store::{
    AttemptOutcome, Batch, Beginner, Conversation, ConversationRef, Due, Effect, EffectState,
    Entry, EntryNumber, Hash, Leg, MemoryStore, OwnerId, PartyKind, Question, QuestionNumber,
    Searched, Store, StoreUnavailable, Token, Wanted, WantedTasks,
};

/// A store that counts its transactions, and whose disk can be full.
pub(super) struct Disk {
    pub(super) store: MemoryStore,
    pub(super) transactions: AtomicUsize,
    pub(super) is_full: AtomicBool,
    /// How often there is something old to delete.
    pub(super) old_steps: AtomicUsize,
    pub(super) prunings: AtomicUsize,
    /// Deleting what is old panics.
    breaks_at_old: bool,
    /// It takes nothing of this conversation.
    pub(super) refused: Mutex<Option<&'static str>>,
    /// While it is locked, every transaction waits.
    gate: Mutex<()>,
    begun: AtomicUsize,
}

impl Store for Disk {
    fn commit(&self, batches: &[Batch]) -> Result<Vec<Vec<Reply>>, StoreUnavailable> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock().unwrap());
        if self.is_full.load(Ordering::SeqCst) {
            return Err(full());
        }
        let refused = *self.refused.lock().unwrap();
        let is_refused =
            |batch: &Batch| Some(batch.conversation.conversation_id.as_str()) == refused;
        if batches.iter().any(is_refused) {
            return Err(full());
        }
        self.transactions.fetch_add(1, Ordering::SeqCst);
        let breaks = |batch: &Batch| batch.conversation.conversation_id.as_str() == "broken";
        assert!(!batches.iter().any(breaks), "a test");
        self.store.commit(batches)
    }

    fn crowded(
        &self,
        tenant: &TenantId,
        beginner: &Beginner,
    ) -> Result<Option<PartyKind>, StoreUnavailable> {
        self.store.crowded(tenant, beginner)
    }

    fn conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Option<Conversation>, StoreUnavailable> {
        self.store.conversation(tenant, conversation_id)
    }

    fn entries(
        &self,
        of: &ConversationRef,
        after: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        self.store.entries(of, after, entries_max)
    }

    fn entries_before(
        &self,
        of: &ConversationRef,
        before: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        self.store.entries_before(of, before, entries_max)
    }

    fn conversations_of(&self, wanted: &Wanted<'_>) -> Result<Vec<Conversation>, StoreUnavailable> {
        self.store.conversations_of(wanted)
    }

    fn search(
        &self,
        of: &ConversationRef,
        entries_max: usize,
        is_meant: &dyn Fn(&str) -> bool,
    ) -> Result<Searched, StoreUnavailable> {
        self.store.search(of, entries_max, is_meant)
    }

    fn entry_of_key(
        &self,
        of: &ConversationRef,
        key: &str,
    ) -> Result<Option<Entry>, StoreUnavailable> {
        self.store.entry_of_key(of, key)
    }

    fn question(
        &self,
        of: &ConversationRef,
        token: &Token,
    ) -> Result<Option<Question>, StoreUnavailable> {
        self.store.question(of, token)
    }

    fn open_questions(&self, of: &ConversationRef) -> Result<Vec<OpenQuestion>, StoreUnavailable> {
        self.store.open_questions(of)
    }

    fn question_of_number(
        &self,
        of: &ConversationRef,
        number: QuestionNumber,
    ) -> Result<Option<Question>, StoreUnavailable> {
        self.store.question_of_number(of, number)
    }

    fn effect(
        &self,
        tenant: &TenantId,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.effect(tenant, effect_id)
    }

    fn effect_of_any(
        &self,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.effect_of_any(effect_id)
    }

    fn unheard(&self, of: &ConversationRef) -> Result<Vec<Effect>, StoreUnavailable> {
        self.store.unheard(of)
    }

    fn tasks_of(
        &self,
        wanted: &WantedTasks<'_>,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.tasks_of(wanted)
    }

    fn unsent_tasks(
        &self,
        behind: Option<(u64, &EffectId)>,
        tasks_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.unsent_tasks(behind, tasks_max)
    }

    fn leg(&self, token: &Hash) -> Result<Option<(ConversationRef, Leg)>, StoreUnavailable> {
        self.store.leg(token)
    }

    fn due(&self) -> Result<Due, StoreUnavailable> {
        self.store.due()
    }

    fn unaudited(
        &self,
        effects_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.unaudited(effects_max)
    }

    fn prune(&self) -> Result<usize, StoreUnavailable> {
        self.prunings.fetch_add(1, Ordering::SeqCst);
        assert!(!self.breaks_at_old, "a test");
        let left = self.old_steps.load(Ordering::SeqCst);
        self.old_steps
            .store(left.saturating_sub(1), Ordering::SeqCst);
        Ok(left.min(1))
    }

    fn end_client(&self, client_id: &ClientId) -> Result<(), StoreUnavailable> {
        self.store.end_client(client_id)
    }

    fn ended_clients(&self) -> Result<Vec<ClientId>, StoreUnavailable> {
        self.store.ended_clients()
    }

    fn now_unix_ms(&self) -> u64 {
        self.store.now_unix_ms()
    }

    fn owner(&self) -> &OwnerId {
        self.store.owner()
    }
}

impl Blocks for Disk {
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable> {
        self.store.block_all(blocks)
    }

    fn blocked(&self, user: &UserId, now_unix_ms: u64) -> Result<Option<Block>, BlocksUnavailable> {
        self.store.blocked(user, now_unix_ms)
    }
}

pub(super) fn full() -> StoreUnavailable {
    StoreUnavailable::DiskFull {
        cause: "a test".to_owned(),
    }
}

pub(super) struct Bench {
    pub(super) disk: Arc<Disk>,
    pub(super) thread: StoreThread,
    pub(super) refuses_changes: Arc<AtomicBool>,
}

pub(super) fn start(settings: ThreadSettings) -> Bench {
    start_with_old(settings, 0)
}

pub(super) fn start_with_old(settings: ThreadSettings, old_steps: usize) -> Bench {
    start_on(settings, disk(old_steps, false))
}

/// On a store that cannot delete what is old.
pub(super) fn start_broken(settings: ThreadSettings) -> Bench {
    start_on(settings, disk(1, true))
}

fn disk(old_steps: usize, breaks_at_old: bool) -> Disk {
    Disk {
        store: MemoryStore::new(store_settings(1)),
        transactions: AtomicUsize::new(0),
        is_full: AtomicBool::new(false),
        old_steps: AtomicUsize::new(old_steps),
        prunings: AtomicUsize::new(0),
        breaks_at_old,
        refused: Mutex::new(None),
        gate: Mutex::new(()),
        begun: AtomicUsize::new(0),
    }
}

fn start_on(settings: ThreadSettings, disk: Disk) -> Bench {
    let disk = Arc::new(disk);
    let refuses_changes = Arc::new(AtomicBool::new(false));
    let refuses = refuses_changes.clone();
    let surroundings = Surroundings {
        admits_changes: Arc::new(move || match refuses.load(Ordering::SeqCst) {
            true => Err(full()),
            false => Ok(()),
        }),
    };
    let thread = StoreThread::start(disk.clone(), settings, surroundings).unwrap();
    let bench = Bench {
        disk,
        thread,
        refuses_changes,
    };
    for conversation in ["c", "d"] {
        bench.apply(attach(conversation)).unwrap();
    }
    bench
}

impl Bench {
    pub(super) fn apply(&self, batch: Batch) -> Committed {
        self.thread.handle().apply_and_wait(batch)
    }

    /// Whether an effect may begin, in a conversation.
    pub(super) fn begins(
        &self,
        conversation: &str,
        effect: &str,
    ) -> Result<bool, StoreUnavailable> {
        let replies = self.apply(batch(conversation, request(effect)))?;
        Ok(matches!(replies[..], [Reply::Run(_)]))
    }

    /// Whether it is stored that an effect was done.
    pub(super) fn ends(&self, conversation: &str, effect: &str) -> Result<bool, StoreUnavailable> {
        let replies = self.apply(batch(
            conversation,
            record(effect, 1, AttemptOutcome::Succeeded),
        ))?;
        Ok(matches!(replies[..], [Reply::Recorded(_)]))
    }

    pub(super) fn state(&self, effect: &str) -> Option<EffectState> {
        crate::support::ledger::state(&self.disk.store, effect)
    }

    /// Keeps the thread at work until what this gives is dropped.
    pub(super) fn occupy(&self) -> MutexGuard<'_, ()> {
        let held = self.disk.gate.lock().unwrap();
        let before = self.disk.begun.load(Ordering::SeqCst);
        let handle = self.thread.handle();
        // It is carried out although nobody waits for it.
        drop(windlass_driver::Ledger::apply(&handle, attach("occupied")));
        while self.disk.begun.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
        held
    }
}
