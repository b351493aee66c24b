//! A server that is a program: its process, its lines, and which request each of them answers. Knows no tool.

use super::McpProgram;
use super::link::{AskError, Asked, UnansweredEnd};
use super::message::{Revision, Told, served, told};
use crate::redaction::Secrets;
use crate::worker::WorkerProgram;
use crate::worker::lines::{Line, Lines};
use crate::worker::log::{LineLimit, each_line};
use crate::worker::process::{Process, SecretVariable};
use crate::worker::wire::{self, Incoming};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::{Context, mend};

/// How long what belongs to a process's end may take: its status, the rest of its output, its own way to stop.
const END_GRACE: Duration = Duration::from_secs(2);
/// How much longer than it may be a line is read, to learn which request it answers.
const LONGEST: usize = 4;
/// Lines that wait for a server to read them. A server that reads none is sent no more.
const LINES_MAX: usize = 1_024;
/// Calls whose arguments are looked for in what a server writes to the log.
const RECENT_MAX: usize = 64;
/// Characters of a server's last words that are said of one that did not begin.
const LAST_WORDS_MAX: usize = 300;
/// The id of the request by which a server is asked to tell of changes. Its answer, if it ends, is nobody's. Like every id it is one that a
/// double holds, because many servers read numbers as such.
pub(super) const LISTENING: u64 = PRESENCE - 1;
/// Behind it are the ids of requests that ask whether a server is still there.
const PRESENCE: u64 = 1 << 50;

/// The values that a process is started with, beside its program.
#[derive(Clone)]
pub(super) struct ProcessKit {
    pub(super) name: Arc<str>,
    pub(super) secrets: Vec<SecretVariable>,
    /// Texts that never reach the log.
    pub(super) unlogged: Arc<Secrets>,
    pub(super) message_bytes_max: usize,
    pub(super) unanswered: Duration,
    /// Told that the list of tools is another now.
    pub(super) on_change: Arc<dyn Fn() + Send + Sync>,
}

/// One process. It is ended when this is dropped.
pub(super) struct ProcessWire {
    shared: Arc<Shared>,
}

struct Shared {
    kit: ProcessKit,
    input: mpsc::Sender<Vec<u8>>,
    open: Mutex<Open>,
    stop: Notify,
    revision: OnceLock<Revision>,
    is_asked_for_presence: AtomicBool,
}

#[derive(Default)]
struct Open {
    asked: BTreeMap<u64, Waiting>,
    /// Why nothing can be sent any more.
    end: Option<String>,
    presences: u64,
    /// The arguments of the newest calls.
    recent: VecDeque<Arc<Arguments>>,
    /// As long as there was no call whose user could be in them.
    last_words: LastWords,
}

/// The line on standard error that says best why a server has ended: the last one that names an error, and else the last one. Many
/// write a trace of the stack or their version behind it.
#[derive(Default)]
struct LastWords {
    line: String,
    names_error: bool,
}

impl LastWords {
    fn hear(&mut self, line: &str) {
        let names_error = names_error(line);
        if !line.is_empty() && (names_error || !self.names_error) {
            *self = Self {
                line: line.chars().take(LAST_WORDS_MAX).collect(),
                names_error,
            };
        }
    }
}

/// Whether a line holds a program's report of a failure: `Error: …`, `ModuleNotFoundError: …`, `error: …`, `server: error [CODE] …`,
/// `Problem: …`. An indented line belongs to another line.
fn names_error(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let is_indented = line.starts_with(char::is_whitespace);
    let reports = ["error:", "exception:", ": error ["];
    !is_indented
        && (line.starts_with("problem:") || reports.iter().any(|report| line.contains(report)))
}

struct Waiting {
    answer: oneshot::Sender<Result<Box<RawValue>, AskError>>,
    context: Option<Context>,
}

impl ProcessWire {
    /// `Err` says why there is no process.
    pub(super) async fn start(program: &McpProgram, kit: ProcessKit) -> Result<Self, String> {
        let (first, rest) = program
            .command
            .split_first()
            .ok_or("its command is empty")?;
        let started = WorkerProgram {
            program: first.into(),
            arguments: rest.iter().map(Into::into).collect(),
            folder: program.folder.clone(),
            files: Vec::new(),
            variables: program.variables.clone(),
        };
        let process = Process::start(started, kit.secrets.clone()).await;
        let mut process = process.map_err(|error| {
            format!(
                "{first} cannot be started: {error}; install it, or correct `command` and `folder`"
            )
        })?;
        let (Some(pipe), Some(output), Some(errors)) = (
            process.input.take(),
            process.output.take(),
            process.errors.take(),
        ) else {
            return Err("the process has no pipes".to_owned());
        };
        let (input, queue) = mpsc::channel(LINES_MAX);
        let lines = Lines::new(output, kit.message_bytes_max.saturating_mul(LONGEST));
        let shared = Arc::new(Shared {
            kit,
            input,
            open: Mutex::default(),
            stop: Notify::new(),
            revision: OnceLock::new(),
            is_asked_for_presence: AtomicBool::new(false),
        });
        let writer = tokio::spawn(write(pipe, queue));
        let logged = tokio::spawn(log(shared.clone(), errors));
        let serving = shared.clone();
        tokio::spawn(async move {
            serving.serve(process, lines, logged).await;
            writer.abort();
        });
        Ok(Self { shared })
    }

    pub(super) fn is_open(&self) -> bool {
        self.shared.open().end.is_none()
    }

    pub(super) fn settled(&self, revision: &Revision) {
        let _ = self.shared.revision.set(revision.clone());
    }

    /// A message without an answer.
    pub(super) fn tell(&self, line: Vec<u8>) {
        // A server that reads nothing learns nothing.
        let _ = self.shared.input.try_send(line);
    }

    pub(super) async fn ask(&self, asked: Asked) -> Result<Box<RawValue>, AskError> {
        self.shared.ask(asked).await
    }
}

impl Drop for ProcessWire {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
    }
}

/// A request that somebody waits for.
struct Unanswered<'a> {
    shared: &'a Arc<Shared>,
    id: u64,
    end: UnansweredEnd,
    is_over: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.shared.open().asked.remove(&self.id);
        if self.end == UnansweredEnd::Cancelled {
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{}}}}}\n",
                self.id
            );
            let _ = self.shared.input.try_send(line.into_bytes());
        }
        if self.end != UnansweredEnd::Ignored {
            self.shared.ask_for_presence();
        }
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        // A panic leaves at most one request without its answer, and that one has its own time.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(self: &Arc<Self>, asked: Asked) -> Result<Box<RawValue>, AskError> {
        let line = asked.text();
        let (sender, answer) = oneshot::channel();
        {
            // Held while it is sent, so that no answer comes before the request is known.
            let mut open = self.open();
            if let Some(end) = &open.end {
                return Err(AskError::NotSent(end.clone()));
            }
            if self.input.try_send(line).is_err() {
                return Err(AskError::NotSent("the server reads nothing".to_owned()));
            }
            let waiting = Waiting {
                answer: sender,
                context: asked.context,
            };
            open.asked.insert(asked.id, waiting);
            if let Some(arguments) = asked.arguments {
                open.last_words = LastWords::default();
                open.recent.push_back(arguments);
                if open.recent.len() > RECENT_MAX {
                    open.recent.pop_front();
                }
            }
        }
        let mut unanswered = Unanswered {
            shared: self,
            id: asked.id,
            end: asked.end,
            is_over: false,
        };
        let answered = timeout_at(asked.until, answer).await;
        match answered {
            Ok(answer) => {
                unanswered.is_over = true;
                let ended = || Err(AskError::Lost("the server has ended".to_owned()));
                answer.unwrap_or_else(|_| ended())
            }
            Err(_) => Err(AskError::Lost(
                "the server did not answer in time".to_owned(),
            )),
        }
    }

    /// Asks a server that has left a call without an answer whether it is still there, and ends it if it does not say so. A call
    /// that takes long harms nobody; a process that hangs would take every later call with it.
    fn ask_for_presence(self: &Arc<Self>) {
        let Some(revision) = self.revision.get() else {
            return;
        };
        if tokio::runtime::Handle::try_current().is_err()
            || self.is_asked_for_presence.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let method = match revision {
            Revision::Stateless => "server/discover",
            Revision::Handshake(_) => "ping",
        };
        let (shared, meta) = (self.clone(), revision.meta());
        tokio::spawn(async move {
            let id = {
                let mut open = shared.open();
                open.presences += 1;
                PRESENCE + open.presences
            };
            let until = Instant::now() + shared.kit.unanswered;
            let answer = match Asked::new(id, method, &json!({ "_meta": meta }), until) {
                Ok(asked) => shared.ask(asked).await,
                Err(error) => Err(error),
            };
            if let Err(AskError::Lost(_)) = answer {
                tracing::warn!(server = %shared.kit.name, "an MCP server has stopped answering, and is ended");
                shared.stop.notify_one();
            }
            shared.is_asked_for_presence.store(false, Ordering::Release);
        });
    }

    async fn serve(
        self: Arc<Self>,
        mut process: Process,
        mut lines: Lines<pipe::Receiver>,
        logged: JoinHandle<()>,
    ) {
        let mut limit = LineLimit::new();
        let mut is_stopped = false;
        let end = loop {
            tokio::select! {
                line = lines.next() => match line {
                    Line::Whole => {
                        let line = lines.take();
                        self.take(&line, &mut limit);
                        lines.give_back(line);
                    }
                    Line::TooLong => break format!(
                        "the server wrote more than {} bytes without an end of line", lines.bytes_max
                    ),
                    Line::End => match timeout(END_GRACE, &mut process.ended).await {
                        Ok(status) => break self.ended_with(status.as_deref(), logged).await,
                        Err(_) => break "the server closed its output".to_owned(),
                    },
                },
                status = &mut process.ended => {
                    // The output that it wrote before may still be read.
                    let _ = timeout(END_GRACE, async {
                        while let Line::Whole = lines.next().await {
                            let line = lines.take();
                            self.take(&line, &mut limit);
                            lines.give_back(line);
                        }
                    }).await;
                    break self.ended_with(status.as_deref(), logged).await;
                }
                () = self.stop.notified() => {
                    is_stopped = true;
                    break "the server was ended".to_owned();
                }
            }
        };
        let asked = {
            let mut open = self.open();
            open.end = Some(end.clone());
            std::mem::take(&mut open.asked)
        };
        let name = &self.kit.name;
        // The opener of a connection logs its failure, once for all attempts.
        let is_told = self.revision.get().is_none() && !asked.is_empty();
        match is_stopped {
            true => tracing::debug!(server = %name, "an MCP server was ended"),
            false if is_told => {
                tracing::debug!(server = %name, problem = end, "an MCP server did not begin");
            }
            false => {
                tracing::warn!(server = %name, calls = asked.len(), problem = end, "an MCP server broke off")
            }
        }
        for waiting in asked.into_values() {
            let _ = waiting.answer.send(Err(AskError::Lost(end.clone())));
        }
        if is_stopped {
            // The end of its input tells the server to stop by itself. The rest of it is then killed with the process.
            self.tell_end();
            let _ = timeout(END_GRACE, &mut process.ended).await;
        }
    }

    async fn ended_with(
        &self,
        status: Result<&str, &oneshot::error::RecvError>,
        logged: JoinHandle<()>,
    ) -> String {
        let status = status.unwrap_or("nobody knows how");
        // The last lines that it wrote may still be read.
        let _ = timeout(END_GRACE, logged).await;
        match &*self.open().last_words.line {
            "" => format!("the server ended ({status})"),
            words => format!("the server ended ({status}), and wrote: {words}"),
        }
    }

    /// A line of the server's standard error, without secrets and without the arguments of its calls.
    fn take_error(&self, line: &[u8]) -> String {
        let text = String::from_utf8_lossy(line);
        let text = self.kit.unlogged.without(text.trim_end());
        let mut of_calls = Secrets::default();
        let everything = [String::new()];
        let mut open = self.open();
        for arguments in &open.recent {
            of_calls.add(arguments, &everything);
        }
        let text = shown(&of_calls.without_words(&text));
        if open.recent.is_empty() {
            open.last_words.hear(&text);
        }
        text
    }

    /// Lets the writer close the input once everything is written.
    fn tell_end(&self) {
        let _ = self.input.try_send(Vec::new());
    }

    fn take(&self, line: &[u8], limit: &mut LineLimit) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let bytes_max = self.kit.message_bytes_max;
        if line.len() > bytes_max {
            let problem = format!("the server wrote a message of more than {bytes_max} bytes");
            let of = serde_json::from_slice::<OfRequest>(line).ok();
            if let Some(waiting) = of.and_then(|of| self.open().asked.remove(&of.id?)) {
                let _ = waiting.answer.send(Err(AskError::Lost(problem.clone())));
            }
            return self.warn(&problem, limit);
        }
        if let Ok(message) = wire::read(line) {
            return self.take_message(message, limit);
        }
        let mended = mend(line);
        match wire::read(mended.text.as_bytes()) {
            Ok(message) => self.take_message(message, limit),
            Err(problem) => self.warn(
                &format!("{problem}; only messages belong on standard output"),
                limit,
            ),
        }
    }

    fn take_message(&self, message: Incoming<'_>, limit: &mut LineLimit) {
        match message {
            Incoming::Answer(id, answer) => {
                let waiting = id.and_then(|id| self.open().asked.remove(&id));
                match waiting {
                    Some(waiting) => {
                        let answer = answer.map(ToOwned::to_owned).map_err(AskError::Refused);
                        let _ = waiting.answer.send(answer);
                    }
                    None if id == Some(LISTENING) => {}
                    None => self.warn(
                        "the server answers what it was not asked, or what nobody waits for any more",
                        limit,
                    ),
                }
            }
            Incoming::Request(id, method, _) => {
                let _ = self.input.try_send(wire::answer(id, &served(&method)));
            }
            Incoming::Notification(method, params) => match told(&method, params) {
                Some(Told::Progress(progress)) => {
                    let context = {
                        let open = self.open();
                        let waiting = open.asked.get(&progress.request());
                        waiting.and_then(|waiting| waiting.context.clone())
                    };
                    if let Some(context) = context {
                        progress.tell(&context);
                    }
                }
                Some(Told::ToolsChanged) => (self.kit.on_change)(),
                None => {}
            },
        }
    }

    fn warn(&self, problem: &str, limit: &mut LineLimit) {
        if let Some(left_out) = limit.take() {
            tracing::warn!(server = %self.kit.name, left_out, "{problem}");
        }
    }
}

/// A text in one line without what does not show. Quotation marks stay as they are.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\'' | '"' | '\\' => shown.push(letter),
            letter => shown.extend(letter.escape_debug()),
        }
    }
    shown
}

/// The request that a message answers which is too long to be kept.
#[derive(Deserialize)]
struct OfRequest {
    #[serde(default)]
    id: Option<u64>,
}

/// Writes lines until there are no more, or an empty one says that there will be none.
async fn write(mut pipe: pipe::Sender, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = queue.recv().await {
        if line.is_empty() || pipe.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Reads what a server says on its standard error into the log.
async fn log(shared: Arc<Shared>, errors: pipe::Receiver) {
    let mut limit = LineLimit::new();
    each_line(errors, |line| {
        let text = shared.take_error(line);
        if text.is_empty() {
            return;
        }
        if let Some(left_out) = limit.take() {
            tracing::info!(server = %shared.kit.name, left_out, "{text}");
        }
    })
    .await;
}

#[cfg(test)]
mod tests;
