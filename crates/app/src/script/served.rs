//! The scripts of one build of the tools, as handlers of the processes that run them.

use super::program;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use windlass_compile::artifact::{Script, ScriptLoader};
use windlass_config::Config;
use windlass_contract::handler::{Handler, Numbers};
use windlass_runtime::worker::{
    ServedTool, Worker, WorkerLimits, WorkerOptions, WorkerProgram, WorkerRequest,
};

/// How long a script may go on after its caller has left. An engine that can stop it stops it sooner.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// Requests of a call at a time, as the engine counts them too.
const REQUESTS_MAX: usize = 64;
/// Bytes of an answer's line beyond the script's own limit: the protocol's part, and each character escaped.
const LINE_BYTES_AROUND: usize = 64 * 1024;

/// Scripts that were loaded for the same registry. Their processes end with the last of its tools.
pub(crate) struct ServedScripts {
    worker: Arc<Worker>,
    sources: Arc<Mutex<Vec<WorkerRequest>>>,
}

impl ServedScripts {
    pub(crate) fn new(config: &Config) -> std::io::Result<Self> {
        let (program, arguments) = program(&config.scripts)?;
        let sources: Arc<Mutex<Vec<WorkerRequest>>> = Arc::default();
        let loaded = sources.clone();
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let calls_max = whole(config.scripts.calls_max.get());
        let worker = Worker::new(WorkerOptions {
            name: "scripts".into(),
            program: WorkerProgram {
                program: program.into(),
                arguments,
                folder: None,
                files: Vec::new(),
                variables: Vec::new(),
            },
            limits: WorkerLimits {
                children: whole(config.scripts.processes.get()),
                concurrency: calls_max,
                requests_max: REQUESTS_MAX,
                line_bytes_max: whole(config.scripts.answer_bytes_max.get()) + LINE_BYTES_AROUND,
                stuck_after: STUCK_AFTER,
                ..WorkerLimits::default()
            },
            first_requests: Box::new(move || {
                loaded
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone()
            }),
            secrets: config.unlogged(),
            granted: config.granted_secrets(),
            connections: config.granted_connections(),
        });
        Ok(Self { worker, sources })
    }

    /// Starts the processes where there is a script, so that the first call finds them ready.
    pub(crate) fn start(&self) {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if !sources.is_empty() {
            self.worker.start();
        }
    }
}

impl ScriptLoader for ServedScripts {
    fn load(&self, script: &Script<'_>) -> Result<Arc<dyn Handler>, String> {
        // Versions of one tool are run side by side.
        let name = format!("{}@{}", script.tool, script.version);
        let load = json!({"tool": name, "entry": script.entry, "modules": script.modules});
        let params = serde_json::value::to_raw_value(&load).map_err(|error| error.to_string())?;
        let request = WorkerRequest {
            method: "load".to_owned(),
            params: params.into(),
        };
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.push(request);
        Ok(self.worker.handler(ServedTool::new(name, Numbers::Doubles)))
    }
}
