//! One call, from its sources to its answer: prepares a context, waits for the call, runs it with its timers and its requests
//! to the host, and says how it ended. Knows no other call.

use crate::code::{Code, Shim};
use crate::limits::{Limits, REQUESTS_OPEN_MAX, TIMERS_MAX};
use crate::modules::Modules;
use crate::natives;
use crate::output::Output;
use crate::place::{cut, describe};
use crate::protocol::{CallFault, HostAnswer, HostId, of_call};
use crate::sandbox::{Sandbox, Stop, Thrown, caught};
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Exception, Function, Module, Object, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Requests of one call have consecutive ids, and so many bits of them are its own.
pub(crate) const REQUEST_BITS: u32 = 16;

/// A handler's sources, as JavaScript.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) entry: String,
    pub(crate) modules: Arc<Modules>,
    pub(crate) code: Code,
}

/// A call that a context is to serve.
pub(crate) struct Job {
    /// The host's id of the call.
    pub(crate) id: HostId,
    /// The worker's own number of it.
    pub(crate) serial: u64,
    pub(crate) script: Arc<Script>,
    pub(crate) args: String,
    pub(crate) context: String,
    pub(crate) deadline: Option<Instant>,
    /// Whether the call changes something. Such a call runs to its end once it has begun, also when it was cancelled.
    pub(crate) writes: bool,
    pub(crate) messages: Receiver<ToCall>,
    pub(crate) cancelled: Arc<AtomicBool>,
}

/// A message to a running call: the host's answer to one of its requests, or its cancellation.
pub(crate) enum ToCall {
    Answer { id: u64, answer: HostAnswer },
    Cancelled,
}

/// A call's ending: the response's JSON text, or the fault and a message.
pub(crate) type Ending = Result<String, (CallFault, String)>;

/// State that the natives of a context share with the loop that runs it.
pub(crate) struct Surroundings {
    output: Output,
    limits: Limits,
    call: RefCell<Option<(HostId, u64)>>,
    tool: RefCell<String>,
    requests: Cell<u64>,
    requests_open: Cell<usize>,
    timers: RefCell<BTreeSet<(Instant, u32)>>,
    timers_made: Cell<u32>,
    console_bytes: Cell<usize>,
    /// Whether the script can notice its call's cancellation, and so may wait for that alone.
    listens: Cell<bool>,
    /// Whether the script said that its call worked. Its answer may still be on its way.
    worked: Cell<bool>,
    ending: RefCell<Option<Ending>>,
}

/// Makes a context, lets it wait for its call, and runs the call. `wait` returns the call, or `None` when no call will come. The
/// ending is handed over before the context is dropped.
pub(crate) fn serve_one(
    limits: &Limits,
    output: &Output,
    wait: impl FnOnce() -> Option<Job>,
    finish: impl FnOnce(&Job, Ending),
) {
    let broken = |error: &str| {
        (
            CallFault::Broken,
            format!("the engine could not be started: {error}"),
        )
    };
    let sandbox = match Sandbox::new(limits) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            if let Some(job) = wait() {
                finish(&job, Err(broken(&error.to_string())));
            }
            return;
        }
    };
    let surroundings = Rc::new(Surroundings::new(output.clone(), *limits));
    sandbox.context.with(|ctx| {
        let glue = caught(&ctx, surroundings.prepare(&ctx));
        let Some(job) = wait() else {
            return;
        };
        let ending = match glue {
            Ok(glue) => {
                let call = (job.id.clone(), job.serial);
                surroundings.call.replace(Some(call));
                let run = Run::new(&ctx, glue, &sandbox, &surroundings, &job);
                run.ending()
            }
            Err(thrown) => Err(broken(&thrown.message)),
        };
        finish(&job, ending);
    });
}

impl Surroundings {
    pub(crate) fn new(output: Output, limits: Limits) -> Self {
        Self {
            output,
            limits,
            call: RefCell::default(),
            tool: RefCell::default(),
            requests: Cell::new(0),
            requests_open: Cell::new(0),
            timers: RefCell::default(),
            timers_made: Cell::new(0),
            console_bytes: Cell::new(0),
            listens: Cell::new(false),
            worked: Cell::new(false),
            ending: RefCell::default(),
        }
    }

    /// Evaluates the shims. Returns the object with the functions that the loop calls.
    pub(crate) fn prepare<'js>(self: &Rc<Self>, ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
        let natives = Object::new(ctx.clone())?;
        let own = self.clone();
        let request = move |ctx: Ctx<'_>, method: String, parameters: String| {
            own.request(&method, &parameters)
                .map_err(|refusal| Exception::throw_range(&ctx, refusal))
        };
        natives.set("request", Function::new(ctx.clone(), request)?)?;
        let own = self.clone();
        let notify = move |ctx: Ctx<'_>, method: String, parameters: String| {
            own.notify(&method, &parameters)
                .map_err(|refusal| Exception::throw_range(&ctx, refusal))
        };
        natives.set("notify", Function::new(ctx.clone(), notify)?)?;
        let own = self.clone();
        let timer = move |ctx: Ctx<'_>, milliseconds: f64| {
            own.timer(milliseconds)
                .ok_or_else(|| Exception::throw_range(&ctx, "too many timers wait"))
        };
        natives.set("timer", Function::new(ctx.clone(), timer)?)?;
        let own = self.clone();
        let again = move |id: u32, milliseconds: f64| own.wait(id, milliseconds);
        natives.set("again", Function::new(ctx.clone(), again)?)?;
        let own = self.clone();
        let clear = move |id: u32| own.timers.borrow_mut().retain(|timer| timer.1 != id);
        natives.set("clear", Function::new(ctx.clone(), clear)?)?;
        let own = self.clone();
        natives.set(
            "listens",
            Function::new(ctx.clone(), move || own.listens.set(true))?,
        )?;
        let own = self.clone();
        let log = move |text: String| own.log(&text);
        natives.set("log", Function::new(ctx.clone(), log)?)?;
        let own = self.clone();
        natives.set(
            "worked",
            Function::new(ctx.clone(), move || own.worked.set(true))?,
        )?;
        let own = self.clone();
        let answer = move |text: String| own.answer(text);
        natives.set("answer", Function::new(ctx.clone(), answer)?)?;
        let own = self.clone();
        let broke = move |message: String, stack: String| {
            own.end(own.without_answer(CallFault::Broken, describe(&message, &stack)));
        };
        natives.set("broke", Function::new(ctx.clone(), broke)?)?;
        natives.set("web", Function::new(ctx.clone(), web)?)?;
        natives.set("locale", Function::new(ctx.clone(), locale)?)?;
        Shim::Core.evaluate(ctx)?.call((natives,))
    }

    fn request(&self, method: &str, parameters: &str) -> Result<u64, &'static str> {
        let call = self.call.borrow();
        let Some((call, serial)) = call.as_ref() else {
            return Err("this can be asked for within a call only");
        };
        if self.requests_open.get() >= REQUESTS_OPEN_MAX {
            return Err("too many requests wait for an answer");
        }
        let number = self.requests.get();
        if number >> REQUEST_BITS != 0 {
            return Err("the call has made too many requests");
        }
        self.expect_short(parameters)?;
        self.requests.set(number + 1);
        self.requests_open.set(self.requests_open.get() + 1);
        let id = serial << REQUEST_BITS | number;
        self.output
            .send(&of_call(Some(id), method, call, parameters));
        Ok(id)
    }

    fn notify(&self, method: &str, parameters: &str) -> Result<(), &'static str> {
        let call = self.call.borrow();
        let Some((call, _)) = call.as_ref() else {
            return Err("this can be said within a call only");
        };
        self.expect_short(parameters)?;
        self.output.send(&of_call(None, method, call, parameters));
        Ok(())
    }

    fn expect_short(&self, text: &str) -> Result<(), &'static str> {
        match text.len() <= self.limits.message_bytes_max {
            true => Ok(()),
            false => Err("the message is too long"),
        }
    }

    fn timer(&self, milliseconds: f64) -> Option<u32> {
        if self.timers.borrow().len() >= TIMERS_MAX {
            return None;
        }
        let id = self.timers_made.get() + 1;
        self.timers_made.set(id);
        self.wait(id, milliseconds);
        Some(id)
    }

    fn wait(&self, id: u32, milliseconds: f64) {
        // A day is longer than any call.
        let seconds = (milliseconds / 1_000.0).clamp(0.0, 86_400.0);
        let due = Instant::now() + Duration::from_secs_f64(seconds);
        self.timers.borrow_mut().insert((due, id));
    }

    fn log(&self, text: &str) {
        let left = self
            .limits
            .console_bytes_max
            .saturating_sub(self.console_bytes.get());
        if left == 0 {
            return;
        }
        let text = cut(text, left);
        self.console_bytes
            .set(self.console_bytes.get() + text.len().max(1));
        let tool = self.tool.borrow();
        for line in text.lines() {
            self.output.print(&format!("{tool}: {line}\n"));
        }
    }

    fn answer(&self, text: String) {
        self.end(match text.len() <= self.limits.message_bytes_max {
            true => Ok(text),
            false => self.without_answer(
                CallFault::Broken,
                format!(
                    "the answer is {} bytes long as JSON, and {} is the most",
                    text.len(),
                    self.limits.message_bytes_max
                ),
            ),
        });
    }

    /// The ending of a call without an answer to send. A script that said that its call worked has worked.
    fn without_answer(&self, fault: CallFault, problem: String) -> Ending {
        match self.worked.get() {
            true => {
                let problem = serde_json::Value::from(problem);
                Ok(format!(
                    "{{\"ok\":true,\"meta\":{{\"problem\":{problem}}}}}"
                ))
            }
            false => Err((fault, problem)),
        }
    }

    /// The first ending counts.
    fn end(&self, ending: Ending) {
        self.ending.borrow_mut().get_or_insert(ending);
    }
}

/// The shims that are evaluated when the first of their names is used.
fn web<'js>(ctx: Ctx<'js>, natives: Object<'js>) -> rquickjs::Result<Function<'js>> {
    natives::add(&ctx, &natives)?;
    Shim::Web.evaluate(&ctx)
}

/// The shim for languages and zones, evaluated in the same way.
fn locale(ctx: Ctx<'_>) -> rquickjs::Result<Function<'_>> {
    Shim::Locale.evaluate(&ctx)
}

/// The exports of a handler's entry.
pub(crate) struct Exports<'js> {
    execute: Function<'js>,
    /// The version of the response contract that the handler declares.
    pub(crate) response_version: Option<String>,
}

/// The export that declares the version.
const RESPONSE_VERSION: &str = "responseSchemaVersion";

/// A script in its context.
pub(crate) struct Run<'a, 'js> {
    ctx: &'a Ctx<'js>,
    glue: Object<'js>,
    sandbox: &'a Sandbox,
    surroundings: &'a Surroundings,
    job: &'a Job,
}

/// The reason why a script went no further.
pub(crate) enum Halt {
    Stopped(Stop),
    Threw(Thrown),
    /// Nothing is left that could go on.
    Idle,
    /// The worker ends.
    Abandoned,
}

impl<'a, 'js> Run<'a, 'js> {
    pub(crate) fn new(
        ctx: &'a Ctx<'js>,
        glue: Object<'js>,
        sandbox: &'a Sandbox,
        surroundings: &'a Surroundings,
        job: &'a Job,
    ) -> Self {
        let script = &job.script;
        sandbox.imports.open(script.modules.clone(), script.code);
        let cancelled = (!job.writes).then(|| job.cancelled.clone());
        sandbox.clock.begin(job.deadline, cancelled);
        surroundings.tool.replace(job.script.entry.clone());
        Self {
            ctx,
            glue,
            sandbox,
            surroundings,
            job,
        }
    }

    fn ending(&self) -> Ending {
        let outcome = self.run();
        let ended = self.surroundings.ending.borrow_mut().take();
        // A response counts first, then the clock's stop, whatever the script made of that.
        let halt = match (ended, self.sandbox.clock.stopped(), outcome) {
            (Some(Ok(response)), _, _) => return Ok(response),
            (_, Some(stop), _) => Halt::Stopped(stop),
            (Some(Err(fault)), None, _) => return Err(fault),
            (None, None, Err(halt)) => halt,
            (None, None, Ok(())) => Halt::Idle,
        };
        let (fault, problem) = self.fault(halt);
        self.surroundings.without_answer(fault, problem)
    }

    fn fault(&self, halt: Halt) -> (CallFault, String) {
        let entry = &self.job.script.entry;
        match halt {
            Halt::Stopped(Stop::Compute) => (
                CallFault::Stopped,
                format!(
                    "{entry}: the call computed for longer than {} ms",
                    self.surroundings.limits.compute_max.as_millis()
                ),
            ),
            Halt::Stopped(Stop::Deadline) | Halt::Abandoned => (
                CallFault::Stopped,
                format!("{entry}: the call did not end within its time"),
            ),
            Halt::Threw(thrown) => (CallFault::Broken, describe(&thrown.message, &thrown.stack)),
            Halt::Idle => (
                CallFault::Broken,
                format!(
                    "{entry}: the promise of execute can never settle: nothing is left that it waits for"
                ),
            ),
        }
    }

    fn run(&self) -> Result<(), Halt> {
        let execute = self.load()?.execute;
        let (args, context) = (self.job.args.as_str(), self.job.context.as_str());
        self.calling("start", (execute, args, context))?;
        self.go_on(|| self.surroundings.ending.borrow().is_some())
    }

    /// Evaluates the handler's modules, and returns the exports of its entry.
    pub(crate) fn load(&self) -> Result<Exports<'js>, Halt> {
        let (ctx, clock) = (self.ctx, &self.sandbox.clock);
        let entry = self.job.script.entry.as_str();
        let imports = &self.sandbox.imports;
        let loaded = clock.computing(|| imports.module(ctx, entry).and_then(Module::eval));
        let (module, evaluated) = caught(ctx, loaded).map_err(Halt::Threw)?;
        self.go_on(|| evaluated.state() != PromiseState::Pending)?;
        if let Some(Err(error)) = evaluated.result::<Value<'js>>() {
            caught::<()>(ctx, Err(error)).map_err(Halt::Threw)?;
        }
        let names = caught(ctx, module.namespace()).map_err(Halt::Threw)?;
        let execute: Value<'js> = caught(ctx, names.get("execute")).map_err(Halt::Threw)?;
        let problem = match execute.is_undefined() {
            true => "the file does not export a function `execute`",
            false => "what the file exports as `execute` is no function",
        };
        let threw = |message: &str| {
            Halt::Threw(Thrown {
                message: message.to_owned(),
                stack: String::new(),
            })
        };
        let execute = execute.into_function().ok_or_else(|| threw(problem))?;
        let version: Value<'js> = caught(ctx, names.get(RESPONSE_VERSION)).map_err(Halt::Threw)?;
        let response_version = match version.is_undefined() {
            true => None,
            false => {
                let text = version.into_string().and_then(|text| text.to_string().ok());
                let problem = "what the file exports as `responseSchemaVersion` is no text";
                Some(text.ok_or_else(|| threw(problem))?)
            }
        };
        Ok(Exports {
            execute,
            response_version,
        })
    }

    /// Calls a function of the shims.
    fn calling<A: rquickjs::function::IntoArgs<'js>>(
        &self,
        name: &str,
        arguments: A,
    ) -> Result<(), Halt> {
        let called = self.sandbox.clock.computing(|| {
            let function: Function<'js> = self.glue.get(name)?;
            function.call::<_, ()>(arguments)
        });
        caught(self.ctx, called).map_err(Halt::Threw)
    }

    /// Runs pending jobs until `is_done` holds. Between them, it waits for timers and for the host.
    fn go_on(&self, is_done: impl Fn() -> bool) -> Result<(), Halt> {
        loop {
            self.run_jobs(&is_done)?;
            if is_done() {
                return Ok(());
            }
            let due = self.surroundings.timers.borrow().first().copied();
            let surroundings = self.surroundings;
            let waits = due.is_some() || surroundings.requests_open.get() > 0;
            if !waits && !surroundings.listens.get() {
                return Err(Halt::Idle);
            }
            let clock = &self.sandbox.clock;
            let until = match (due, clock.deadline()) {
                (Some((due, _)), Some(deadline)) => Some(due.min(deadline)),
                (Some((due, _)), None) => Some(due),
                (None, deadline) => deadline,
            };
            match self.receive(until) {
                Ok(ToCall::Answer { id, answer }) => {
                    let open = self.surroundings.requests_open.get();
                    self.surroundings.requests_open.set(open.saturating_sub(1));
                    self.calling("settle", (id, answer.succeeded, answer.json))?;
                }
                Ok(ToCall::Cancelled) => {
                    if !self.job.writes {
                        clock.hurry();
                    }
                    self.calling("abort", ())?;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Halt::Abandoned),
                Err(RecvTimeoutError::Timeout) => {
                    if clock
                        .deadline()
                        .is_some_and(|deadline| Instant::now() >= deadline)
                    {
                        return Err(Halt::Stopped(Stop::Deadline));
                    }
                    self.fire()?;
                }
            }
        }
    }

    fn receive(&self, until: Option<Instant>) -> Result<ToCall, RecvTimeoutError> {
        match until {
            Some(until) => {
                let wait = until.saturating_duration_since(Instant::now());
                self.job.messages.recv_timeout(wait)
            }
            None => self
                .job
                .messages
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Fires the first timer if its time has come.
    fn fire(&self) -> Result<(), Halt> {
        let first = self.surroundings.timers.borrow().first().copied();
        match first {
            Some((due, id)) if due <= Instant::now() => {
                self.surroundings.timers.borrow_mut().remove(&(due, id));
                self.calling("fire", (id,))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn run_jobs(&self, is_done: &impl Fn() -> bool) -> Result<(), Halt> {
        let clock = &self.sandbox.clock;
        clock.computing(|| {
            while !is_done() && self.ctx.execute_pending_job() {
                // The engine itself does not ask the clock during a short job, and the short jobs may have no end.
                if clock.stops() {
                    break;
                }
            }
        });
        match clock.stopped() {
            Some(stop) => Err(Halt::Stopped(stop)),
            None => Ok(()),
        }
    }
}
