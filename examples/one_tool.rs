//! One tool from its directory to its answer: `examples/tools/convert-distance` is compiled, its handler is registered, and
//! two calls pass the whole pipeline. Owns no model: the calls are made here, as `windlass call` makes them.
//!
//! Run it with `cargo run --example one_tool`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use windlass_compile::artifact::Loaders;
use windlass_compile::handler_file::Permissions;
use windlass_compile::{Source, compile};
use windlass_contract::arguments::Arguments;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Blocks, Capabilities, Execution, Failure, Handler, HandlerResult, Invocation, Knowledge,
    Placement, Success,
};
use windlass_contract::id::{
    CallNumber, ClientId, ConversationId, SessionId, TenantId, ToolId, UserId,
};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_driver::DirectLedger;
use windlass_knowledge::KnowledgeBase;
use windlass_provider::profile::{self, GEMINI_LIVE_MODEL};
use windlass_runtime::call_driver::Shared;
use windlass_runtime::direct::{DirectRequest, call_once};
use windlass_runtime::rate::MemoryRateLimiter;
use windlass_session::limits::Limits;
use windlass_session::model::IncomingCall;
use windlass_session::session::SessionConfig;
use windlass_store::{Epoch, MemoryStore, OwnerId, ServerKey, StoreLimits, StoreSettings};

/// Since 1929, a nautical mile is this long (First International Extraordinary Hydrographic Conference, Monaco).
const KILOMETRES_PER_NAUTICAL_MILE: f64 = 1.852;

/// 20 November 2026, 12:00 UTC.
const NOW_UNIX_MS: u64 = 1_795_176_000_000;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())
}

/// Makes two calls and writes the answer of each, which is what a client and the audit see of it.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let registry = Arc::new(registry()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    for arguments in [json!({"value": 300}), json!({"value": -1, "unit": "mile"})] {
        writeln!(out, "convert_distance {arguments}")?;
        let call = IncomingCall {
            id: Some("function-call-1".into()),
            name: Some("convert_distance".into()),
            arguments: Ok(object(arguments)),
        };
        let (response, _) = runtime.block_on(call_once(request(&registry)?, call));
        writeln!(out, "{}\n", serde_json::to_string_pretty(&*response)?)?;
    }
    Ok(())
}

/// The tool's code. Its arguments satisfy the schema by now, and have their defaults.
struct ConvertDistance;

impl Handler for ConvertDistance {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        Execution::Ready(convert(&invocation.arguments))
    }
}

/// The arguments as the schema has them.
#[derive(Deserialize)]
struct Distance<'a> {
    value: f64,
    to: &'a str,
}

/// What the model reads.
#[derive(Serialize)]
struct Converted<'a> {
    value: f64,
    unit: &'a str,
}

fn convert(arguments: &Arguments) -> HandlerResult {
    let Distance { value, to } = arguments
        .read()
        .map_err(|error| Failure::new(FailureKind::Validation, error.to_string()))?;
    let converted = match to {
        "kilometres" => value * KILOMETRES_PER_NAUTICAL_MILE,
        "nautical_miles" => value / KILOMETRES_PER_NAUTICAL_MILE,
        other => {
            let message = format!("there is no unit {other:?}");
            return Err(Failure::new(FailureKind::Validation, message));
        }
    };
    let rounded = (converted * 10.0).round() / 10.0;
    Success::of(&Converted {
        value: rounded,
        unit: to,
    })
}

/// Compiles the directory and joins the tool with its handler.
fn registry() -> Result<Registry, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let id = ToolId::parse("convert_distance").ok_or("the id breaks the rule for ids")?;
    let compilation = compile(&Source {
        tools: &root.join("examples/tools"),
        artifact: &root.join("data/tool_registry.json"),
        builtin: &BTreeMap::from([(id.clone(), None)]),
        build_timestamp: "2026-11-20T12:00:00Z",
        vocabularies: &BTreeMap::new(),
        values: windlass_contract::condition::Values::none(),
        permissions: &Permissions::default(),
        judge: None,
    });
    let artifact = compilation.artifact.ok_or_else(|| {
        let problems: Vec<String> = compilation
            .problems
            .iter()
            .map(ToString::to_string)
            .collect();
        problems.join("\n")
    })?;
    let handler: Arc<dyn Handler> = Arc::new(ConvertDistance);
    let handlers = BTreeMap::from([(id, handler)]);
    Ok(artifact.into_registry(&handlers, Loaders::default(), &BTreeMap::new())?)
}

/// A session for one call.
fn request(registry: &Arc<Registry>) -> Result<DirectRequest, Box<dyn Error>> {
    // A ledger that forgets: what is done here is known until the program ends.
    let store = MemoryStore::new(StoreSettings {
        key: ServerKey::new([0; 32]),
        owner: OwnerId("example".to_owned()),
        clock: Arc::new(|| NOW_UNIX_MS),
        limits: StoreLimits::default(),
    });
    Ok(DirectRequest {
        session: SessionConfig {
            session_id: SessionId::new("session"),
            epoch: Epoch(1),
            tenant: TenantId::default(),
            user_id: UserId::new("user"),
            rights: windlass_contract::rights::Rights::Anonymous,
            given: windlass_contract::condition::Given::default(),
            conversation_id: ConversationId::new("conversation"),
            mode: Mode::Voice,
            registry: registry.clone(),
            limits: Arc::new(Limits::of(Mode::Voice)),
            profile: Arc::new(profile::gemini_live(GEMINI_LIVE_MODEL).profile.model),
            model: "model".into(),
            estimate: None,
            started_unix_ms: NOW_UNIX_MS,
            history: Vec::new(),
            last_call: CallNumber(0),
            can_ask: false,
            can_ask_input: false,
            pending_request: None,
        },
        client_id: ClientId::new("client"),
        capabilities: Arc::new(Memory {
            knowledge: Arc::new(KnowledgeBase::from_records(Vec::new())?),
            blocks: Arc::new(store.clone()),
        }),
        shared: Shared {
            ledger: Arc::new(DirectLedger::new(Arc::new(store))),
            rate_limiter: Arc::new(MemoryRateLimiter::default()),
            threads: Default::default(),
            subscribers: Arc::new([]),
            journal: None,
        },
    })
}

/// What tools may ask for. This one asks for nothing.
struct Memory {
    knowledge: Arc<KnowledgeBase>,
    blocks: Arc<MemoryStore>,
}

impl Capabilities for Memory {
    fn now_unix_ms(&self) -> u64 {
        NOW_UNIX_MS
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        self.knowledge.clone()
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        self.blocks.clone()
    }
}

fn object(value: Value) -> Arguments {
    match value {
        Value::Object(map) => map.into(),
        _ => Arguments::none(),
    }
}
