//! This project's tools for programs that speak the Model Context Protocol. Answers messages, whichever way they come; calls go the one
//! path to a handler, as sessions of one turn. Knows no socket, and no rule about effects.

mod approvals;
mod asking;
mod calls;
mod lists;
pub(crate) mod message;
pub(crate) mod reply;
mod sessions;
mod state;
pub(crate) mod stdio;
mod tasks;

pub(crate) use asking::{ShownRequest, shown_request};
pub(crate) use sessions::{Leaving, McpSession, OpenRequests, SessionLimits, Sessions};

use crate::chat::ChatHost;
use crate::chat::remote::RemoteRules;
use crate::knowledge::LiveKnowledge;
use message::{ClientCapabilities, HANDSHAKES, Request, STATELESS, TASKS};
use reply::{Failure, METHOD_NOT_FOUND, Revision, members};
use serde_json::{Map, Value, json};
use state::States;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use windlass_config::{ApprovalPlace, Config};
use windlass_contract::id::ClientId;
use windlass_runtime::caller::Caller;
use windlass_runtime::client_key::ClientKey;
use windlass_store::Beginner;

/// Where people approve calls, below the server's own address.
pub(crate) const APPROVALS: &str = "/mcp/approvals/";

/// The text on this server as a whole, for the model.
const INSTRUCTIONS: &str = "A call that changes something may need a person's approval first; then nothing has been done yet. \
    A call whose answer was lost may be sent again: what it changed is not changed twice, and the result says so.";

/// The server's side of the protocol.
pub(crate) struct McpHost {
    chat: Arc<ChatHost>,
    knowledge: Arc<LiveKnowledge>,
    states: States,
    calls: Arc<Semaphore>,
    rules: RemoteRules,
    approvals: ApprovalPlace,
    list_ttl_ms: u64,
    /// For how long a task is kept after its end.
    task_ms: u64,
    /// Characters of a result that a model is to read.
    told_characters_max: usize,
    pub(crate) message_bytes_max: usize,
    /// The address of `/mcp` as clients reach it, where the configuration says one.
    pub(crate) resource: Option<String>,
    pub(crate) sessions: Sessions,
    /// Whose program has started this one, if one has.
    starter: OnceLock<Caller>,
}

/// Who sends a message.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) caller: Caller,
    pub(crate) beginner: Beginner,
    /// The origin under which people reach this server's page, as in `https://agent.example`.
    pub(crate) page: Option<String>,
}

/// How a request is answered.
pub(crate) struct Exchange {
    pub(crate) revision: Revision,
    /// The client's capabilities for this request.
    pub(crate) client: ClientCapabilities,
    /// The way out for notifications that belong to the request, and for this server's own requests.
    pub(crate) outlet: mpsc::Sender<Value>,
    /// The session of a client that began with a handshake.
    pub(crate) session: Option<Arc<McpSession>>,
    /// Whether the client has stopped waiting for the answer.
    pub(crate) left: watch::Receiver<bool>,
}

impl McpHost {
    pub(crate) fn new(
        config: &Config,
        chat: Arc<ChatHost>,
        knowledge: Arc<LiveKnowledge>,
        key: Arc<ClientKey>,
    ) -> Self {
        let settings = &config.mcp_server;
        Self {
            told_characters_max: chat.limits.projection_characters_max,
            chat,
            knowledge,
            states: States(key),
            calls: Arc::new(Semaphore::new(settings.calls_max.count())),
            rules: RemoteRules {
                repeat_ms: settings.repeat_seconds.get().saturating_mul(1_000),
                assumes_external_content: settings.assume_external_content,
            },
            approvals: settings.approvals,
            task_ms: {
                let limits = config.store.limits(&config.shares, &config.tasks);
                limits.task_ms.max(limits.effect_ms)
            },
            list_ttl_ms: settings.list_seconds.get().saturating_mul(1_000),
            message_bytes_max: settings.message_bytes_max.count(),
            resource: settings
                .resource
                .as_ref()
                .map(|address| address.as_str().to_owned()),
            sessions: Sessions::new(SessionLimits {
                sessions_max: settings.sessions_max.count(),
                idle: Duration::from_secs(settings.session_seconds.get()),
            }),
            starter: OnceLock::new(),
        }
    }

    /// Says for whom the program asks that has started this one.
    pub(crate) fn is_started_by(&self, caller: &Caller) {
        // There is one, and it is said once.
        let _ = self.starter.set(caller.clone());
    }

    /// The person at this machine, as the user of that id: with the rights that its calls have. An approval runs the call.
    pub(crate) fn at_this_machine(&self, id: ClientId) -> Caller {
        let starter = self.starter.get();
        let starter = starter.filter(|starter| starter.client_id == id);
        starter.cloned().unwrap_or_else(|| Caller::known(id))
    }

    /// A place among the calls that may be open; `None` where there is none.
    pub(crate) fn admit(&self) -> Option<OwnedSemaphorePermit> {
        self.calls.clone().try_acquire_owned().ok()
    }

    /// The answer to a request; `None` where nobody waits for it any more.
    pub(crate) async fn answer(
        &self,
        peer: &Peer,
        exchange: Exchange,
        request: &Request,
    ) -> Option<Result<Value, Failure>> {
        let revision = exchange.revision;
        let answered = self.answer_as_it_is(peer, exchange, request).await?;
        Some(answered.map(|result| match revision {
            Revision::Stateless => signed(result),
            Revision::Handshake => result,
        }))
    }

    async fn answer_as_it_is(
        &self,
        peer: &Peer,
        exchange: Exchange,
        request: &Request,
    ) -> Option<Result<Value, Failure>> {
        let revision = exchange.revision;
        Some(match request.method.as_str() {
            "tools/call" => return self.call(peer, exchange, request).await.transpose(),
            "tools/list" => self.list_tools(peer, revision, &request.params),
            "prompts/list" => self.list_prompts(peer, revision, &request.params),
            "prompts/get" => self.prompt(peer, revision, &request.params),
            "resources/list" => self.list_resources(peer, revision, &request.params),
            "resources/templates/list" => self.list_templates(revision, &request.params),
            "resources/read" => self.read_resource(peer, revision, &request.params).await,
            "tasks/get" | "tasks/update" | "tasks/cancel" if revision == Revision::Stateless => {
                let takes_tasks = exchange.client.tasks;
                self.task(peer, takes_tasks, request).await
            }
            // The revision without sessions has given it up.
            "ping" if revision == Revision::Handshake => Ok(revision.complete(Map::new())),
            "server/discover" if revision == Revision::Stateless => Ok(self.discovered()),
            _ => Err(unknown_method()),
        })
    }

    fn discovered(&self) -> Value {
        let versions: Vec<&str> = [STATELESS].into_iter().chain(HANDSHAKES).collect();
        let result = members(json!({
            "supportedVersions": versions,
            "capabilities": {
                "tools": {}, "prompts": {}, "resources": {}, "extensions": {TASKS: {}},
            },
            "instructions": INSTRUCTIONS,
        }));
        Revision::Stateless.cacheable(result, self.list_ttl_ms)
    }
}

pub(crate) fn unknown_method() -> Failure {
    Failure::new(METHOD_NOT_FOUND, "this server does not know the method")
}

/// The version that a handshake settles on.
pub(crate) fn agreed(params: &Map<String, Value>) -> &'static str {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let known = HANDSHAKES.into_iter().find(|known| Some(*known) == wanted);
    known.unwrap_or(HANDSHAKES[0])
}

/// The answer to a handshake.
pub(crate) fn initialized(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    })
}

/// The error for a client that names a version which this server does not speak.
pub(crate) fn unsupported(requested: &str) -> Failure {
    let supported: Vec<&str> = [STATELESS].into_iter().chain(HANDSHAKES).collect();
    Failure::new(
        reply::UNSUPPORTED_VERSION,
        "this server does not speak that version of the protocol",
    )
    .with_data(json!({"supported": supported, "requested": requested}))
}

fn capabilities() -> Value {
    json!({"tools": {}, "prompts": {}, "resources": {}})
}

/// A result of the stateless revision, which says whose it is.
fn signed(mut result: Value) -> Value {
    if let Some(result) = result.as_object_mut() {
        let meta = result.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            let name = "io.modelcontextprotocol/serverInfo".to_owned();
            meta.insert(name, server_info());
        }
    }
    result
}

fn server_info() -> Value {
    json!({"name": "windlass", "title": "Windlass", "version": env!("CARGO_PKG_VERSION")})
}
