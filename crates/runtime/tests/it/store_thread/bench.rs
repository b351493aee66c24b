//! A store's thread over a store whose disk can be full, and the requests that tests bring it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use windlass_runtime::store_thread::{StoreHandle, StoreSettings, StoreThread, Surroundings};
use windlass_store::{
    EffectState, MemoryStore, Outcome, OutcomeState, Reserve, Store, StoreUnavailable, Transaction,
};
use windlass_tool::handler::{Block, Blocks, BlocksUnavailable};
use windlass_tool::id::{ConversationId, EffectId, ToolId, UserId};
use windlass_tool::sensitive::Sensitive;

/// A store that counts its transactions, and whose disk can be full.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) store: MemoryStore,
    pub(super) transactions: AtomicUsize,
    /// It does not even answer.
    pub(super) is_full: AtomicBool,
    /// It is read, and takes no change.
    pub(super) takes_no_change: AtomicBool,
}

impl Store for Disk {
    fn transact(&self, work: &mut dyn FnMut(&mut dyn Transaction)) -> Result<(), StoreUnavailable> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(full());
        }
        if self.takes_no_change.load(Ordering::SeqCst) {
            return unchanged(work);
        }
        self.transactions.fetch_add(1, Ordering::SeqCst);
        self.store.transact(work)
    }

    fn prune(&self, now_unix_ms: u64) -> Result<usize, StoreUnavailable> {
        self.store.prune(now_unix_ms)
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

/// Runs work on a store of its own in which one effect is reserved, and fails where that one changes.
fn unchanged(work: &mut dyn FnMut(&mut dyn Transaction)) -> Result<(), StoreUnavailable> {
    let copy = MemoryStore::new();
    copy.transact(&mut |tables| {
        tables.reserve(&reserve("a")).unwrap();
    })?;
    let before = format!("{copy:?}");
    copy.transact(work)?;
    match format!("{copy:?}") == before {
        true => Ok(()),
        false => Err(full()),
    }
}

pub(super) fn full() -> StoreUnavailable {
    StoreUnavailable::DiskFull {
        cause: "a test".to_owned(),
    }
}

pub(super) fn reserve(effect: &str) -> Reserve {
    Reserve {
        effect_id: EffectId::new(effect),
        conversation_id: ConversationId::new("conversation"),
        user_id: UserId::new("alice"),
        tool: ToolId::parse("send").unwrap(),
        tool_version: "1.0.0".to_owned(),
        fingerprint: [effect.as_bytes()[0]; 32],
        grant: None,
        read_by_none_but: None,
        intent: Sensitive("{}".to_owned()),
        now_unix_ms: 1_000,
    }
}

pub(super) fn succeeded(effect: &str) -> Outcome {
    Outcome {
        effect_id: EffectId::new(effect),
        state: OutcomeState::Succeeded,
        response: None,
        now_unix_ms: 2_000,
    }
}

pub(super) struct Bench {
    pub(super) disk: Arc<Disk>,
    pub(super) thread: StoreThread,
    pub(super) abandoned: Arc<Mutex<Vec<String>>>,
    pub(super) now_unix_ms: Arc<AtomicU64>,
    pub(super) refuses_effects: Arc<AtomicBool>,
}

pub(super) fn start(settings: StoreSettings) -> Bench {
    let disk = Arc::new(Disk::default());
    let abandoned = Arc::new(Mutex::new(Vec::new()));
    let now_unix_ms = Arc::new(AtomicU64::new(1_000));
    let (told, clock) = (abandoned.clone(), now_unix_ms.clone());
    let refuses_effects = Arc::new(AtomicBool::new(false));
    let refuses = refuses_effects.clone();
    let surroundings = Surroundings {
        now_unix_ms: Box::new(move || clock.load(Ordering::SeqCst)),
        abandoned: Box::new(move |effect| told.lock().unwrap().push(effect.effect_id.to_string())),
        admits_effects: Arc::new(move || match refuses.load(Ordering::SeqCst) {
            true => Err(full()),
            false => Ok(()),
        }),
    };
    let thread = StoreThread::start(disk.clone(), settings, surroundings).unwrap();
    // The first upkeep is over when the first request is answered.
    thread.handle().ask(|_| Ok(())).wait().unwrap();
    Bench {
        disk,
        thread,
        abandoned,
        now_unix_ms,
        refuses_effects,
    }
}

/// Keeps the thread at work until the sender is dropped.
pub(super) fn occupy(handle: &StoreHandle) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    // Nobody waits for the answer; the request is carried out all the same.
    drop(handle.ask(move |_| {
        begin.send(()).unwrap();
        let _ = released.recv();
        Ok(())
    }));
    begun.recv().unwrap();
    release
}

pub(super) fn state(bench: &Bench, effect: &str) -> Option<EffectState> {
    let store: &dyn Store = &bench.disk.store;
    let found = store.ask(|tables| tables.effect(&EffectId::new(effect)));
    found.unwrap().map(|effect| effect.state)
}
