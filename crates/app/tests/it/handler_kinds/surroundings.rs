//! What the kinds of handlers are run in: a session over a store in memory, a world by the machine's clock with one way out, and the
//! script engine in processes of its own.

use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use windlass_compile::artifact::{Script, ScriptLoader};
use windlass_compile::{ScriptJudge, ScriptSources, ScriptVerdict};
use windlass_contract::handler::{
    Block, Blocks, BlocksUnavailable, Capabilities, CapabilityFuture, Execution, Facets,
    GetRequest, Handler, Http, Knowledge, KnowledgeError, Numbers, Record, SearchAnswer,
    SearchRequest,
};
use windlass_contract::id::{CallNumber, ConversationId, SessionId, TenantId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_contract::rights::Rights;
use windlass_driver::DirectLedger;
use windlass_runtime::call_driver::Shared;
use windlass_runtime::fetch::{Endpoint, FetchLimits, Fetcher, Places, SystemResolver, WayOut};
use windlass_runtime::rate::MemoryRateLimiter;
use windlass_runtime::worker::{
    ServedTool, Worker, WorkerLimits, WorkerOptions, WorkerProgram, WorkerRequest,
};
use windlass_session::limits::Limits;
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};
use windlass_session::session::SessionConfig;
use windlass_store::{Epoch, MemoryStore, OwnerId, ServerKey, StoreLimits, StoreSettings};

fn now_unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// Counts futures that were dropped before they ended.
#[derive(Clone, Default)]
pub(super) struct Dropped(Arc<AtomicUsize>);

impl Dropped {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// An execution that never ends by itself.
    pub(super) fn never(&self) -> Execution {
        struct Guard(Dropped);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let guard = Guard(self.clone());
        Execution::Pending(Box::pin(async move {
            let _guard = guard;
            std::future::pending().await
        }))
    }
}

pub(super) fn fetch_limits() -> FetchLimits {
    FetchLimits {
        timeout: Duration::from_secs(10),
        body_bytes_max: 1_000,
        proxy_resolves_names: false,
    }
}

/// A world in which nothing is known, by the machine's clock, which processes look at as well.
pub(super) struct RealTime(Arc<dyn Http>);

impl RealTime {
    pub(super) fn with_a_way_to(url: &str) -> Self {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        let place: Endpoint = address.parse().unwrap();
        let resolver = Arc::new(SystemResolver);
        let fetcher = Fetcher::new(Places::listed([place]), fetch_limits(), resolver);
        Self(Arc::new(WayOut(fetcher)))
    }
}

struct Nothing;

impl Capabilities for RealTime {
    fn now_unix_ms(&self) -> u64 {
        now_unix_ms()
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        Arc::new(Nothing)
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        Arc::new(Nothing)
    }

    fn http(&self) -> Arc<dyn Http> {
        self.0.clone()
    }
}

impl Knowledge for Nothing {
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

impl Blocks for Nothing {
    fn block_all(&self, _: &[Block]) -> Result<(), BlocksUnavailable> {
        Ok(())
    }

    fn blocked(&self, _: &UserId, _: u64) -> Result<Option<Block>, BlocksUnavailable> {
        Ok(None)
    }
}

pub(super) fn shared() -> Shared {
    let store = MemoryStore::new(StoreSettings {
        key: ServerKey::new([7; 32]),
        owner: OwnerId("p-1".to_owned()),
        clock: Arc::new(now_unix_ms),
        limits: StoreLimits::default(),
    });
    Shared {
        ledger: Arc::new(DirectLedger::new(Arc::new(store))),
        rate_limiter: Arc::new(MemoryRateLimiter::default()),
        threads: Default::default(),
        subscribers: Arc::default(),
        journal: None,
    }
}

pub(super) fn session_config(mode: Mode, registry: Arc<Registry>) -> SessionConfig {
    SessionConfig {
        session_id: SessionId::new("s-1"),
        epoch: Epoch(1),
        tenant: TenantId::default(),
        user_id: UserId::new("ada"),
        rights: Rights::Anonymous,
        given: windlass_contract::condition::Given::default(),
        conversation_id: ConversationId::new("c-1"),
        mode,
        registry,
        limits: Arc::new(Limits::of(mode)),
        profile: Arc::new(ModelProfile {
            calls: CallSupport::Both,
            scheduling: true,
            declaration: DeclarationForm::GeminiNative,
            answers: AnswerBatching::Together,
            text_input: TextInput::RealtimeInput,
            history: HistoryInput::ClientContent,
            resumption: true,
            hold_microphone: false,
            thinking: Thinking::Omit,
            vision: false,
            context_tokens_max: 131_072,
        }),
        model: "model".into(),
        estimate: None,
        started_unix_ms: now_unix_ms(),
        history: Vec::new(),
        last_call: CallNumber(0),
        can_ask: true,
        can_ask_input: false,
        pending_request: None,
    }
}

/// Lets every script be built; the engine has tests of its own about those that cannot run.
#[derive(Debug)]
pub(super) struct Trusting;

impl ScriptJudge for Trusting {
    fn judge(&self, script: &ScriptSources<'_>) -> ScriptVerdict {
        ScriptVerdict {
            used: vec![script.entry.to_owned()],
            flaws: Vec::new(),
            response_version: None,
        }
    }
}

/// The engine as the program starts it, for one tool.
#[derive(Default)]
pub(super) struct Engine(Mutex<Vec<Arc<Worker>>>);

impl ScriptLoader for Engine {
    fn load(&self, script: &Script<'_>) -> Result<Arc<dyn Handler>, String> {
        let load = json!({"tool": script.tool, "entry": script.entry, "modules": script.modules});
        let load = WorkerRequest {
            method: "load".to_owned(),
            params: serde_json::value::to_raw_value(&load).unwrap().into(),
        };
        let flags = "script-worker --memory-bytes 16777216 --compute-ms 2000 --answer-bytes 1048576 --calls 8 --spares 1";
        let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
        let worker = Worker::new(WorkerOptions {
            name: "scripts".into(),
            program: WorkerProgram {
                program: program.into(),
                arguments: flags.split(' ').map(Into::into).collect(),
                folder: None,
                files: Vec::new(),
                variables: Vec::new(),
            },
            limits: WorkerLimits::default(),
            first_requests: Box::new(move || vec![load.clone()]),
            secrets: Vec::new(),
            granted: Default::default(),
            connections: Default::default(),
        });
        let handler = worker.handler(ServedTool::new(script.tool.clone(), Numbers::Doubles));
        self.0.lock().unwrap().push(worker);
        Ok(handler)
    }
}
