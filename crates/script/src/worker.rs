//! The worker's loop: reads the host's lines, keeps the sources of its tools, and gives each call a thread with a context that
//! was made ready before. Knows a call only by its id.

use crate::call::{Ending, Job, REQUEST_BITS, Script, ToCall, serve_one};
use crate::code::Code;
use crate::judge::judge;
use crate::limits::{
    CANCEL_GRACE, JUDGE_MAX, LINE_BYTES_MAX, Limits, SCRIPTS_MAX, THREAD_STACK_BYTES,
};
use crate::modules::Modules;
use crate::output::Output;
use crate::protocol::{
    self, CallFault, Execute, HostId, HostMessage, Load, answered, refused, unknown_method,
};
use crate::sandbox::Sandbox;
use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The reason why the loop ended before its input did.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("the host's lines cannot be read: {0}")]
    Input(#[from] io::Error),
    #[error("a line of the host is longer than {LINE_BYTES_MAX} bytes")]
    LongLine,
    #[error("a line of the host is none of the protocol: {0}")]
    Line(#[from] serde_json::Error),
    #[error("a line of the host is not UTF-8")]
    Encoding,
}

/// Serves calls until the input ends. Calls that still run then are abandoned with the process.
pub fn serve(
    input: impl BufRead,
    output: impl Write + Send + 'static,
    console: impl Write + Send + 'static,
    limits: Limits,
) -> Result<(), WorkerError> {
    let mut worker = Worker {
        threads: Arc::new(Threads {
            limits,
            output: Output::new(output, console),
            state: Mutex::new(PoolState {
                is_open: true,
                spares: Vec::new(),
                running: HashMap::new(),
            }),
        }),
        scripts: HashMap::new(),
        serial: 0,
    };
    for _ in 0..limits.spares {
        Threads::start(&worker.threads, None);
    }
    let mut input = input;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input)
            .take(LINE_BYTES_MAX as u64 + 1)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            worker.threads.abandon();
            return Ok(());
        }
        if read > LINE_BYTES_MAX {
            return Err(WorkerError::LongLine);
        }
        let text = str::from_utf8(&line).map_err(|_| WorkerError::Encoding)?;
        worker.take(protocol::read(text)?);
    }
}

struct Worker {
    threads: Arc<Threads>,
    /// The scripts, by the host's name for a version of a tool.
    scripts: HashMap<String, Arc<Script>>,
    /// The serial number of the last call.
    serial: u64,
}

impl Worker {
    fn take(&mut self, message: HostMessage<'_>) {
        match message {
            HostMessage::Load { id, load } => self.load(&id, load),
            HostMessage::Judge { id, load } => self.judge(id, load),
            HostMessage::Execute { id, execute } => self.execute(id, &execute),
            HostMessage::Cancel { id } => self.threads.cancel(&id),
            HostMessage::Answer { id, answer } => {
                let calls = self.threads.state();
                if let Some(call) = calls.running.get(&(id >> REQUEST_BITS)) {
                    let _ = call.messages.send(ToCall::Answer { id, answer });
                }
            }
            HostMessage::Unknown { id, method } => {
                self.threads.output.send(&unknown_method(&id, &method));
            }
            HostMessage::Ignored => {}
        }
    }

    fn load(&mut self, id: &HostId, load: Load<'_>) {
        let output = &self.threads.output;
        if self.scripts.len() >= SCRIPTS_MAX {
            let full = format!("{SCRIPTS_MAX} tools are loaded already");
            return output.send(&refused(id, CallFault::Refused, &full));
        }
        let modules = Arc::new(load.modules);
        let script = Script {
            code: code_of(&load.entry, &modules),
            entry: load.entry,
            modules,
        };
        self.scripts
            .insert(load.tool.into_owned(), Arc::new(script));
        output.send(&answered(id, "{}"));
    }

    /// Judges a handler on a thread of its own, so that a handler that hangs in it holds up nothing else.
    fn judge(&self, id: HostId, load: Load<'_>) {
        let (output, entry) = (self.threads.output.clone(), load.entry);
        let modules: Arc<Modules> = Arc::new(load.modules);
        let judge = move || {
            let verdict = judge(&entry, &modules);
            output.send(&protocol::verdict(&id, &verdict));
        };
        let thread = thread::Builder::new().stack_size(THREAD_STACK_BYTES);
        // Without a thread there is no verdict. The host's own deadline notices that.
        let _ = thread.spawn(judge);
    }

    fn execute(&mut self, id: HostId, execute: &Execute<'_>) {
        let Some(script) = self.scripts.get(&*execute.tool) else {
            let unknown = format!("the tool {} is not loaded", execute.tool);
            return self
                .threads
                .output
                .send(&refused(&id, CallFault::Refused, &unknown));
        };
        self.serial += 1;
        let (sender, messages) = channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let context = execute.context.get();
        let facts: Facts = serde_json::from_str(context).unwrap_or_default();
        let job = Job {
            id: id.clone(),
            serial: self.serial,
            script: script.clone(),
            args: execute.args.get().to_owned(),
            deadline: facts.deadline(),
            writes: facts.effect_id.is_some() && !facts.read_only,
            context: context.to_owned(),
            messages,
            cancelled: cancelled.clone(),
        };
        let call = OpenCall {
            id,
            messages: sender,
            cancelled,
        };
        Threads::run(&self.threads, call, job);
    }
}

/// The fields of a call's context that the worker itself reads.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Facts {
    deadline: Option<u64>,
    effect_id: Option<String>,
    read_only: bool,
}

impl Facts {
    /// The time at which the call is stopped: a little after the host stops waiting, by the machine's clock, on which host and
    /// worker agree. The host is the one to say that the call's time was up.
    fn deadline(&self) -> Option<Instant> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let left = Duration::from_millis(self.deadline?).saturating_sub(now);
        Instant::now().checked_add(left.saturating_add(CANCEL_GRACE))
    }
}

/// The threads that run calls, one each.
struct Threads {
    limits: Limits,
    output: Output,
    state: Mutex<PoolState>,
}

struct PoolState {
    /// Whether the input is still open.
    is_open: bool,
    /// Threads with a context that waits for its call.
    spares: Vec<Sender<Job>>,
    /// The calls that run, by their serial number.
    running: HashMap<u64, OpenCall>,
}

/// A call that has no answer yet.
struct OpenCall {
    id: HostId,
    messages: Sender<ToCall>,
    cancelled: Arc<AtomicBool>,
}

impl Threads {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(threads: &Arc<Self>, call: OpenCall, job: Job) {
        let mut state = threads.state();
        if state.running.len() >= threads.limits.calls_max {
            let full = format!("{} calls run already", threads.limits.calls_max);
            return threads
                .output
                .send(&refused(&call.id, CallFault::Refused, &full));
        }
        state.running.insert(job.serial, call);
        let mut job = job;
        while let Some(spare) = state.spares.pop() {
            match spare.send(job) {
                Ok(()) => return,
                Err(unsent) => job = unsent.0,
            }
        }
        drop(state);
        Self::start(threads, Some(job));
    }

    /// Starts a thread, with a call or as a spare.
    fn start(threads: &Arc<Self>, job: Option<Job>) {
        let serial = job.as_ref().map(|job| job.serial);
        let own = threads.clone();
        let thread = thread::Builder::new().stack_size(THREAD_STACK_BYTES);
        let started = thread.spawn(move || {
            let mut next = job;
            while next.is_some() || own.needs_spare() {
                serve_one(
                    &own.limits,
                    &own.output,
                    || next.take().or_else(|| own.wait()),
                    |job, ending| own.answer(job.serial, ending),
                );
            }
        });
        if let (Err(error), Some(serial)) = (started, serial) {
            threads.answer(
                serial,
                Err((
                    CallFault::Refused,
                    format!("there is no thread for the call: {error}"),
                )),
            );
        }
    }

    fn needs_spare(&self) -> bool {
        let state = self.state();
        state.is_open && state.spares.len() < self.limits.spares
    }

    /// The next call, for a context that is ready. `None` if enough other contexts wait.
    fn wait(&self) -> Option<Job> {
        let (sender, receiver) = channel();
        {
            let mut state = self.state();
            if !state.is_open || state.spares.len() >= self.limits.spares {
                return None;
            }
            state.spares.push(sender);
        }
        receiver.recv().ok()
    }

    fn answer(&self, serial: u64, ending: Ending) {
        let Some(call) = self.state().running.remove(&serial) else {
            return;
        };
        self.output.send(&match ending {
            Ok(response) => answered(&call.id, &response),
            Err((fault, message)) => {
                // The host keeps the texts of errors to itself, because they may quote a user. Its log takes this output, without
                // the arguments of calls.
                self.output.print(&format!("{message}\n"));
                refused(&call.id, fault, &message)
            }
        });
    }

    fn cancel(&self, id: &HostId) {
        let state = self.state();
        if let Some(call) = state.running.values().find(|call| call.id == *id) {
            call.cancelled.store(true, Ordering::Release);
            let _ = call.messages.send(ToCall::Cancelled);
        }
    }

    /// Drops every waiting context and every running call.
    fn abandon(&self) {
        let mut state = self.state();
        state.is_open = false;
        state.spares.clear();
        state.running.clear();
    }
}

/// Reads a script and its imports. A file that cannot be read is left out, and its calls report the error.
fn code_of(entry: &str, modules: &Arc<Modules>) -> Code {
    let Ok(sandbox) = Sandbox::new(&Limits::default()) else {
        return Code::default();
    };
    sandbox.imports.open(modules.clone(), Code::default());
    sandbox.imports.gather();
    sandbox.clock.begin(Some(Instant::now() + JUDGE_MAX), None);
    sandbox.context.with(|ctx| {
        if sandbox.imports.module(&ctx, entry).is_err() {
            // Nothing may stay pending in the context.
            drop(ctx.catch());
        }
    });
    Code::keep(sandbox.imports.gathered())
}
