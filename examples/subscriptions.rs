//! A program that embeds Windlass and watches its sessions: callbacks for calls, for turns, and for an event of its own
//! tool, whose type the tool and the callback share. Owns no model: the calls are made here.
//!
//! Run it with `cargo run --example subscriptions`.

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use windlass_compile::artifact::Loaders;
use windlass_compile::handler_file::Permissions;
use windlass_compile::{Source, compile};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Blocks, Capabilities, CustomEvent, Execution, Failure, Handler, HandlerResult, Invocation,
    Knowledge, Placement, Success,
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
use windlass_runtime::direct::{DirectRequest, DirectSession};
use windlass_runtime::rate::MemoryRateLimiter;
use windlass_runtime::subscriber::Subscriber;
use windlass_runtime::subscriptions::{SessionEnd, Subscriptions};
use windlass_session::limits::Limits;
use windlass_session::model::IncomingCall;
use windlass_session::session::SessionConfig;
use windlass_store::{Epoch, MemoryStore, OwnerId, ServerKey, StoreLimits, StoreSettings};

/// 20 November 2026, 12:00 UTC.
const NOW_UNIX_MS: u64 = 1_795_176_000_000;

/// What the tool tells the program. A field that only one of the two knew would not compile.
#[derive(Serialize, Deserialize)]
struct DistanceConverted {
    nautical_miles: f64,
}

impl CustomEvent for DistanceConverted {
    const NAME: &'static str = "distance_converted";
}

struct ConvertDistance;

impl Handler for ConvertDistance {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        Execution::Ready(convert(&invocation))
    }
}

fn convert(invocation: &Invocation) -> HandlerResult {
    let value = invocation.arguments.get("value");
    let nautical_miles = value.and_then(|value| value.as_f64()).unwrap_or_default();
    invocation
        .context
        .emit_event(&DistanceConverted { nautical_miles })
        .map_err(|error| Failure::new(FailureKind::Permanent, error.to_string()))?;
    Ok(Success::new(
        json!({"value": (nautical_miles * 18.52).round() / 10.0, "unit": "kilometres"}),
    ))
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())
}

/// Makes two calls, a good one and a bad one, a turn each, and writes what the callbacks were told.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let subscriptions: Arc<dyn Subscriber> = Arc::new(subscriptions(&heard));
    let registry = Arc::new(registry()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let request = request(&registry, &subscriptions)?;
    runtime.block_on(async {
        let mut session = DirectSession::begin(request);
        let calls = [
            ("function-call-1", json!({"value": 300})),
            ("function-call-2", json!({"value": "far"})),
        ];
        for (id, arguments) in calls {
            session.user_says("How far is it?");
            let call = IncomingCall {
                id: Some(id.into()),
                name: Some("convert_distance".into()),
                arguments: Ok(arguments.as_object().cloned().unwrap_or_default().into()),
            };
            session.call(call).await;
            session.turn_ends();
        }
        session.end().await;
    });
    for line in heard
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .drain(..)
    {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The callbacks. Each keeps a line for later, because a callback must not block.
fn subscriptions(heard: &Arc<Mutex<Vec<String>>>) -> Subscriptions {
    let note = |line: String, heard: &Mutex<Vec<String>>| {
        heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    };
    let (calls, turns, converted, ends) =
        (heard.clone(), heard.clone(), heard.clone(), heard.clone());
    Subscriptions::new()
        .on_tool_call(move |_, end, record| {
            let ok = record.response.expose().is_ok();
            note(
                format!("call {} {end:?}, ok: {ok}", record.tool_name()),
                &calls,
            );
        })
        .on_turn_complete(move |_, turn| {
            let (number, calls) = (turn.turn, turn.summary.calls);
            note(format!("turn {number} is over, calls: {calls}"), &turns);
        })
        .on_custom(move |_, event: DistanceConverted| {
            let miles = event.nautical_miles;
            note(format!("converted {miles} nautical miles"), &converted);
        })
        .on::<SessionEnd>(move |occasion, reason| {
            let session = &occasion.session.session_id;
            note(format!("session {session} ended: {reason:?}"), &ends);
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
    let artifact = compilation.artifact.ok_or("the tools do not compile")?;
    let handler: Arc<dyn Handler> = Arc::new(ConvertDistance);
    Ok(artifact.into_registry(
        &BTreeMap::from([(id, handler)]),
        Loaders::default(),
        &BTreeMap::new(),
    )?)
}

/// A session that the callbacks watch.
fn request(
    registry: &Arc<Registry>,
    subscriptions: &Arc<dyn Subscriber>,
) -> Result<DirectRequest, Box<dyn Error>> {
    // A ledger that forgets: what is done here is known until the program ends.
    let store = MemoryStore::new(StoreSettings {
        key: ServerKey::new([0; 32]),
        owner: OwnerId("example".to_owned()),
        clock: Arc::new(|| NOW_UNIX_MS),
        limits: StoreLimits::default(),
    });
    Ok(DirectRequest {
        session: SessionConfig {
            session_id: SessionId::new("session-1"),
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
            subscribers: Arc::new([subscriptions.clone()]),
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
