//! What all tests here share: a world, tools, sessions, and the two peers of a voice session.

pub(crate) mod ledger;
pub(crate) mod peers;
pub(crate) mod text_server;
pub(crate) mod tools;

use std::sync::{Arc, Mutex};
use windlass_contract::handler::{
    Block, Blocks, BlocksUnavailable, Capabilities, CapabilityFuture, Facets, GetRequest,
    Knowledge, KnowledgeError, Record, SearchAnswer, SearchRequest,
};
use windlass_contract::id::{CallNumber, ConversationId, SessionId, TenantId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_driver::{DirectLedger, Ledger};
use windlass_runtime::call_driver::Shared;
use windlass_runtime::rate::MemoryRateLimiter;
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_session::event::SessionEvent;
use windlass_session::limits::Limits;
use windlass_session::session::SessionConfig;
use windlass_store::{
    ConversationRef, Epoch, MemoryStore, OwnerId, ServerKey, Store, StoreLimits, StoreSettings,
};

/// 2023-11-14T22:13:20Z.
pub(crate) const NOW_UNIX_MS: u64 = 1_700_000_000_000;

/// A world in which it is always the same moment and nothing is known.
pub(crate) struct StillCapabilities;

impl Capabilities for StillCapabilities {
    fn now_unix_ms(&self) -> u64 {
        NOW_UNIX_MS
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        Arc::new(Self)
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        Arc::new(Self)
    }
}

impl Knowledge for StillCapabilities {
    fn search(&self, _: SearchRequest) -> CapabilityFuture<Result<SearchAnswer, KnowledgeError>> {
        Box::pin(async { Err(KnowledgeError::Unavailable("nothing is known".into())) })
    }

    fn get(
        &self,
        _: GetRequest,
    ) -> CapabilityFuture<Result<Result<Record, Vec<String>>, KnowledgeError>> {
        Box::pin(async { Ok(Err(Vec::new())) })
    }

    fn facets(&self) -> Facets {
        Facets::default()
    }
}

impl Blocks for StillCapabilities {
    fn block_all(&self, _: &[Block]) -> Result<(), BlocksUnavailable> {
        Ok(())
    }

    fn blocked(&self, _: &UserId, _: u64) -> Result<Option<Block>, BlocksUnavailable> {
        Ok(None)
    }
}

/// Keeps the names of all events.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    /// Whether an event was seen whose debug form begins so.
    pub(crate) fn saw(&self, beginning: &str) -> bool {
        let events = self.0.lock().unwrap();
        events.iter().any(|event| event.starts_with(beginning))
    }
}

impl Subscriber for Recorder {
    fn event(&self, _: &SessionIdentity, _: u64, event: &SessionEvent) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }
}

/// What the store of one process is opened with, of those that share a store. Its time is that of the test.
pub(crate) fn store_settings(process: u32) -> StoreSettings {
    let begun = tokio::time::Instant::now();
    StoreSettings {
        key: ServerKey::new([7; 32]),
        owner: OwnerId(format!("p-{process}")),
        clock: Arc::new(move || NOW_UNIX_MS + u64::try_from(begun.elapsed().as_millis()).unwrap()),
        limits: StoreLimits::default(),
    }
}

pub(crate) fn memory_store() -> MemoryStore {
    MemoryStore::new(store_settings(1))
}

pub(crate) fn ledger_over(store: impl Store + 'static) -> Arc<dyn Ledger> {
    Arc::new(DirectLedger::new(Arc::new(store)))
}

pub(crate) fn shared(subscribers: Vec<Arc<dyn Subscriber>>) -> Shared {
    shared_over(ledger_over(memory_store()), subscribers)
}

pub(crate) fn shared_over(
    ledger: Arc<dyn Ledger>,
    subscribers: Vec<Arc<dyn Subscriber>>,
) -> Shared {
    Shared {
        ledger,
        rate_limiter: Arc::new(MemoryRateLimiter::default()),
        threads: Default::default(),
        subscribers: subscribers.into(),
        journal: None,
    }
}

pub(crate) fn session_config(mode: Mode, registry: Arc<Registry>) -> SessionConfig {
    SessionConfig {
        session_id: SessionId::new("s-1"),
        epoch: Epoch(1),
        tenant: TenantId::default(),
        user_id: UserId::new("ada"),
        rights: windlass_contract::rights::Rights::Anonymous,
        given: windlass_contract::condition::Given::default(),
        conversation_id: ConversationId::new("c-1"),
        mode,
        registry,
        limits: Arc::new(Limits::of(mode)),
        profile: Arc::new(tools::profile()),
        model: "model".into(),
        estimate: None,
        started_unix_ms: NOW_UNIX_MS,
        history: Vec::new(),
        last_call: CallNumber(0),
        can_ask: true,
        can_ask_input: false,
        pending_request: None,
    }
}

/// The conversation of such a session, as the ledger has it.
pub(crate) fn conversation_of(session: &SessionConfig) -> ConversationRef {
    ConversationRef {
        tenant: session.tenant.clone(),
        conversation_id: session.conversation_id.clone(),
        user_id: session.user_id.clone(),
    }
}
