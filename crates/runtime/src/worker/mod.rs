//! Workers: long-living child processes that run handlers and speak JSON-RPC 2.0, a message a line, on their standard input and
//! output. One host serves an author's own program and the program's own script engine alike. Owns the processes; knows no
//! tool's work, and nothing above a [`Handler`] knows that there is a process.

mod capabilities;
mod child;
pub(crate) mod lines;
pub(crate) mod log;
mod pool;
pub(crate) mod process;
pub(crate) mod wire;

use crate::redaction::Secrets;
use child::Serving;
use pool::{Call, Pool};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use windlass_compile::program::ProgramFile;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    ContextForm, Execution, Handler, HandlerResult, Invocation, Numbers, Placement,
};
use windlass_contract::id::ToolId;
use windlass_contract::sensitive::Sensitive;
pub use wire::RpcError;

/// The program of a worker's children.
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// The folder in which they run; `None` for the server's own.
    pub folder: Option<PathBuf>,
    /// The program's files, in its folder. No child is started after one of them has changed.
    pub files: Vec<ProgramFile>,
    /// Variables of the server that the children get besides [`USUAL_VARIABLES`].
    pub variables: Vec<String>,
}

/// The variables that every child gets if they are set: programs need them to run and to reach the network. The only secret that
/// they may hold is a proxy's credentials.
pub const USUAL_VARIABLES: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
];

/// Limits of processes and calls, and the host's timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Processes that serve. Calls go to the first that has room; the others stand ready in case it has a call that does not end.
    pub children: usize,
    /// Calls in one process at a time.
    pub concurrency: usize,
    /// Calls that wait for room.
    pub waiting_max: usize,
    /// Requests within a call at a time.
    pub requests_max: usize,
    /// Bytes of one line. A longer line is read only for its call and its success. A process that writes four times as much
    /// without an end is ended.
    pub line_bytes_max: usize,
    /// Time for a process to answer the requests before its first call.
    pub start_timeout: Duration,
    /// Time for which a call may go on in its process after its deadline, or after its caller has left. Then it is given up: its
    /// process gets no further calls, and is ended when the others have ended.
    pub stuck_after: Duration,
    /// The pause before the next process after one has ended. It doubles while processes end without having answered.
    pub pause_min: Duration,
    pub pause_max: Duration,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        Self {
            children: 1,
            concurrency: 4,
            waiting_max: 1_000,
            requests_max: 32,
            line_bytes_max: 8 << 20,
            start_timeout: Duration::from_secs(30),
            stuck_after: Duration::from_secs(5),
            pause_min: Duration::from_millis(100),
            pause_max: Duration::from_secs(30),
        }
    }
}

/// Access tokens of users that are remembered to keep them out of the log.
const GIVEN_MAX: usize = 256;

/// A request that each process answers before its first call, such as `load`.
#[derive(Clone, Debug)]
pub struct WorkerRequest {
    pub method: String,
    pub params: Arc<serde_json::value::RawValue>,
}

/// The parts of a worker.
pub struct WorkerOptions {
    /// The worker's name, for the log.
    pub name: Arc<str>,
    pub program: WorkerProgram,
    pub limits: WorkerLimits,
    /// The requests for a new process. Called whenever a process is started.
    pub first_requests: Box<dyn Fn() -> Vec<WorkerRequest> + Send + Sync>,
    /// Texts that never reach the log, besides arguments of calls.
    pub secrets: Vec<Sensitive<String>>,
    /// Secrets that tools may ask for.
    pub granted: Grants,
    /// Connections for whose access tokens tools may ask.
    pub connections: ConnectionGrants,
}

/// The connections whose access tokens each tool's code may have in plain text, each of the call's own user.
pub type ConnectionGrants = BTreeMap<ToolId, BTreeSet<String>>;

/// The secrets that each tool's code may have in plain text, by their names.
pub type Grants = BTreeMap<ToolId, BTreeMap<String, Sensitive<String>>>;

/// Processes that serve calls. They end with the last handle to the worker.
pub struct Worker {
    shared: Arc<Shared>,
}

/// The reason why a call never reached a process. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotStarted {
    #[error("too many calls of this tool wait already")]
    Busy,
    #[error("the tool's program does not run at the moment")]
    Broken(Duration),
    #[error("the call's time was over before it began")]
    Late,
    #[error("the tools were exchanged, and this one has ended")]
    Closed,
}

impl NotStarted {
    fn facts(self) -> (FailureKind, Option<Duration>) {
        match self {
            Self::Busy | Self::Late | Self::Closed => (FailureKind::Transient, None),
            Self::Broken(pause) => (FailureKind::Transient, Some(pause)),
        }
    }
}

struct Shared {
    name: Arc<str>,
    program: WorkerProgram,
    limits: WorkerLimits,
    first_requests: Box<dyn Fn() -> Vec<WorkerRequest> + Send + Sync>,
    secrets: Secrets,
    granted: Grants,
    connections: ConnectionGrants,
    /// The latest access tokens that calls got. No log shows them.
    given: Mutex<VecDeque<Sensitive<String>>>,
    pool: Mutex<Pool>,
}

impl Worker {
    /// Makes a worker. No process is started before the first call, or [`Self::start`].
    pub fn new(options: WorkerOptions) -> Arc<Self> {
        let WorkerOptions {
            name,
            program,
            limits,
            first_requests,
            mut secrets,
            granted,
            connections,
        } = options;
        secrets.extend(granted.values().flat_map(BTreeMap::values).cloned());
        Arc::new(Self {
            shared: Arc::new(Shared {
                name,
                program,
                limits,
                first_requests,
                secrets: Secrets::of(secrets),
                granted,
                connections,
                given: Mutex::default(),
                pool: Mutex::new(Pool::new(limits)),
            }),
        })
    }

    /// The handler of one tool that these processes serve.
    pub fn handler(self: &Arc<Self>, served: ServedTool) -> Arc<dyn Handler> {
        Arc::new(WorkerHandler {
            worker: self.clone(),
            served,
        })
    }

    /// Starts the processes, so that the first call finds them ready. Needs a tokio runtime.
    pub fn start(&self) {
        self.shared.assign();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.pool().close();
    }
}

impl Shared {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        // A panic leaves at most one call without its answer, and that call has its own deadline.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a call's token, so that it is recognised in the program's output.
    fn note_given(&self, token: Sensitive<String>) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if given.contains(&token) {
            return;
        }
        if given.len() >= GIVEN_MAX {
            given.pop_front();
        }
        given.push_back(token);
    }

    /// Gives waiting calls to children, and starts missing children.
    fn assign(self: &Arc<Self>) {
        let now = Instant::now();
        let (seeds, pause) = {
            let mut pool = self.pool();
            let seeds = pool.assign(now);
            (seeds, pool.has_waiting().then(|| pool.pause(now)))
        };
        for seed in seeds {
            tokio::spawn(Serving::new(self.clone(), seed).run());
        }
        if let Some(pause) = pause.filter(|pause| !pause.is_zero()) {
            let shared = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                shared.assign();
            });
        }
    }
}

/// One tool of a worker.
#[derive(Clone, Debug)]
pub struct ServedTool {
    /// The worker's name for the tool: its id, or another name for each of its versions if there are several.
    pub name: Arc<str>,
    /// The time of a call, if it is less than the tool's.
    pub timeout: Option<Duration>,
    /// The numbers of the worker's language.
    pub numbers: Numbers,
}

impl ServedTool {
    /// A tool whose calls have all of the tool's time.
    pub fn new(name: impl Into<Arc<str>>, numbers: Numbers) -> Self {
        Self {
            name: name.into(),
            timeout: None,
            numbers,
        }
    }
}

struct WorkerHandler {
    worker: Arc<Worker>,
    served: ServedTool,
}

#[derive(Serialize)]
struct Execute<'a> {
    tool: &'a str,
    args: &'a windlass_contract::arguments::Arguments,
    context: ContextForm<'a>,
}

impl Handler for WorkerHandler {
    /// The handler only waits for the worker's process.
    fn placement(&self) -> Placement {
        Placement::Elsewhere
    }

    fn numbers(&self) -> Numbers {
        self.served.numbers
    }

    fn execute(&self, mut invocation: Invocation) -> Execution {
        if let Some(timeout) = self.served.timeout {
            let context = &mut invocation.context;
            let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            let latest = context
                .capabilities
                .now_unix_ms()
                .saturating_add(timeout_ms);
            context.deadline_unix_ms = context.deadline_unix_ms.min(latest);
        }
        let params = Execute {
            tool: &self.served.name,
            args: &invocation.arguments,
            context: ContextForm::of(&invocation.context),
        };
        match wire::tail("execute", &params) {
            Ok(tail) => {
                let worker = self.worker.clone();
                Execution::Pending(Box::pin(run(worker, tail, invocation)))
            }
            Err(error) => Execution::Ready(Err(pool::broken(&format!(
                "the arguments are no JSON: {error}"
            )))),
        }
    }
}

/// A call whose caller still waits.
struct Waited<'a> {
    shared: &'a Arc<Shared>,
    id: u64,
    is_over: bool,
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.pool().abandon(self.id, Instant::now());
        }
    }
}

async fn run(worker: Arc<Worker>, tail: Vec<u8>, invocation: Invocation) -> HandlerResult {
    let Invocation { arguments, context } = invocation;
    let cancellation = context.cancellation.clone();
    let now = Instant::now();
    let deadline = now + Duration::from_millis(context.left_ms());
    let (sender, mut answer) = oneshot::channel();
    let call = Call {
        context,
        arguments,
        answer: sender,
        deadline,
    };
    let id = worker.shared.pool().submit(tail, call, now);
    let mut waited = Waited {
        shared: &worker.shared,
        id,
        is_over: false,
    };
    worker.shared.assign();
    let time_is_up = tokio::time::sleep_until(deadline);
    // A call that has not begun ends before its caller stops waiting.
    let begins_by = tokio::time::sleep_until(now + deadline.saturating_duration_since(now) * 7 / 8);
    tokio::pin!(time_is_up, begins_by);
    let (mut is_taken_back, mut has_waited) = (false, false);
    loop {
        tokio::select! {
            biased;
            result = &mut answer => {
                waited.is_over = true;
                return result.unwrap_or_else(|_| Err(pool::broken("the worker has ended")));
            }
            () = &mut begins_by, if !has_waited => {
                has_waited = true;
                worker.shared.pool().refuse_waiting(id);
                continue;
            }
            () = cancellation.cancelled(), if !is_taken_back => {}
            () = &mut time_is_up, if !is_taken_back => {}
        }
        // The call may still end in its own way. A change that it has begun is recorded then.
        is_taken_back = true;
        worker.shared.pool().take_back(id);
    }
}
