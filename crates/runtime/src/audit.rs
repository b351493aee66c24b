//! The audit: one JSON line per finished or refused call (contract, section 16), and the lines that handlers add. A
//! subscriber that queues and a thread that writes, so that no session ever waits for a disk.

use crate::redaction::without_sensitive;
use crate::subscriber::{SessionIdentity, Subscriber};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use windlass_session::event::{CallRecord, SessionEvent};
use windlass_tool::envelope::rfc3339;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, ToolId};
use windlass_tool::intent::Intent;
use windlass_tool::json::{hash, hex};
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

/// Lines that wait for the disk; more are lost, and the loss is a line of its own.
const WAITING_MAX: usize = 10_000;
/// How long lines are gathered before they are written. A thread that slept is not woken for each of them.
const GATHERING: Duration = Duration::from_millis(50);

/// Why the audit cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the audit {} cannot be opened: {source}; make its folder writable or set audit.path", .path.display())]
pub struct AuditError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Writes the audit until it is closed or dropped.
pub struct Audit {
    queue: Arc<Queue>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
}

#[derive(Default)]
struct QueueState {
    entries: Vec<Entry>,
    lost: u64,
    is_closed: bool,
}

struct Entry {
    session: SessionIdentity,
    now_unix_ms: u64,
    what: What,
}

enum What {
    Call {
        event: &'static str,
        record: CallRecord,
    },
    Note {
        call: CallNumber,
        tool: ToolId,
        event: String,
        data: Sensitive<Value>,
    },
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a call's arguments the audit holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditedArguments {
    /// Their hash alone.
    #[default]
    Hash,
    /// The arguments too, without those that the tool marks as sensitive.
    Visible,
}

impl Audit {
    /// Opens the file for appending and starts the thread that writes it.
    pub fn open(path: &Path, arguments: AuditedArguments) -> Result<Self, AuditError> {
        let refuse = |source| AuditError {
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(refuse)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        let file = options.open(path).map_err(refuse)?;
        let queue = Arc::new(Queue::default());
        let theirs = queue.clone();
        let writer = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(&theirs, file, arguments))
            .map_err(refuse)?;
        Ok(Self {
            queue,
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Writes what waits and ends the thread. What comes later is not written.
    pub fn close(&self) {
        self.queue.lock().is_closed = true;
        self.queue.filled.notify_one();
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            tracing::error!("the audit's thread broke");
        }
    }

    fn push(&self, entry: Entry) {
        let mut state = self.queue.lock();
        if state.is_closed || state.entries.len() >= WAITING_MAX {
            state.lost += 1;
            return;
        }
        state.entries.push(entry);
        let is_first = state.entries.len() == 1;
        drop(state);
        if is_first {
            self.queue.filled.notify_one();
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

impl Subscriber for Audit {
    fn event(&self, session: &SessionIdentity, now_unix_ms: u64, event: &SessionEvent) {
        let call = |event, record: &CallRecord| What::Call {
            event,
            record: record.clone(),
        };
        let what = match event {
            SessionEvent::CallFinished(record) => call("tool_execution", record),
            SessionEvent::CallRejected(record) => call("tool_rejection", record),
            SessionEvent::CallCancelled(record) => call("tool_cancellation", record),
            SessionEvent::AuditNote {
                call,
                tool,
                event,
                data,
            } => What::Note {
                call: *call,
                tool: tool.clone(),
                event: event.clone(),
                data: data.clone(),
            },
            _ => return,
        };
        self.push(Entry {
            session: session.clone(),
            now_unix_ms,
            what,
        });
    }
}

/// The thread: waits for the first line, gathers others for a moment, writes them together.
fn write_all(queue: &Queue, file: File, arguments: AuditedArguments) {
    let mut file = BufWriter::new(file);
    let mut sequence = 0;
    loop {
        let mut state = queue
            .filled
            .wait_while(queue.lock(), |state| {
                state.entries.is_empty() && !state.is_closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        if !state.is_closed {
            let (after, _) = queue
                .filled
                .wait_timeout_while(state, GATHERING, |state| !state.is_closed)
                .unwrap_or_else(PoisonError::into_inner);
            state = after;
        }
        let entries = std::mem::take(&mut state.entries);
        let lost = std::mem::take(&mut state.lost);
        let is_closed = state.is_closed;
        drop(state);
        let written = write_batch(&mut file, &entries, lost, arguments, &mut sequence);
        if let Err(error) = written {
            tracing::error!(%error, lines = entries.len(), "the audit cannot be written");
        }
        if is_closed {
            return;
        }
    }
}

fn write_batch(
    file: &mut impl Write,
    entries: &[Entry],
    lost: u64,
    arguments: AuditedArguments,
    sequence: &mut u64,
) -> io::Result<()> {
    for entry in entries {
        *sequence += 1;
        serde_json::to_writer(&mut *file, &line(entry, *sequence, arguments))?;
        file.write_all(b"\n")?;
    }
    if lost > 0 {
        *sequence += 1;
        let event = "audit_lost";
        let loss = serde_json::json!({"event": event, "sequence": *sequence, "lines": lost});
        serde_json::to_writer(&mut *file, &loss)?;
        file.write_all(b"\n")?;
        tracing::error!(
            lines = lost,
            "audit lines were lost, because the disk is too slow"
        );
    }
    file.flush()
}

/// One line as the contract has it; a handler's own line has `data` in place of the call's outcome.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    event: &'a str,
    sequence: u64,
    timestamp: String,
    session_id: &'a str,
    user_id: &'a str,
    conversation_id: &'a str,
    mode: Mode,
    #[serde(flatten)]
    rest: Rest<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Rest<'a> {
    Call(Box<CallLine<'a>>),
    Note(NoteLine<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallLine<'a> {
    turn: u64,
    tool_id: &'a str,
    tool_version: Option<&'a str>,
    registry_version: &'a str,
    category: Option<&'static str>,
    call_id: String,
    idempotency_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect_id: Option<&'a str>,
    duration_ms: u64,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<ErrorType>,
    retry_count: u32,
    args_hash: Option<String>,
    intents: &'a [Intent],
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Cow<'a, Map<String, Value>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NoteLine<'a> {
    tool_id: &'a str,
    call_id: String,
    data: &'a Value,
}

fn line(entry: &Entry, sequence: u64, arguments: AuditedArguments) -> Line<'_> {
    let session = &entry.session;
    let (event, rest) = match &entry.what {
        What::Call { event, record } => {
            (*event, Rest::Call(Box::new(call_line(record, arguments))))
        }
        What::Note {
            call,
            tool,
            event,
            data,
        } => (
            event.as_str(),
            Rest::Note(NoteLine {
                tool_id: tool.as_str(),
                call_id: call.to_string(),
                data: data.expose(),
            }),
        ),
    };
    Line {
        event,
        sequence,
        timestamp: rfc3339(entry.now_unix_ms),
        session_id: session.session_id.as_str(),
        user_id: session.user_id.as_str(),
        conversation_id: session.conversation_id.as_str(),
        mode: session.mode,
        rest,
    }
}

fn call_line(record: &CallRecord, audited: AuditedArguments) -> CallLine<'_> {
    let response = record.response.expose();
    let arguments = record
        .arguments
        .as_ref()
        .map(|arguments| &**arguments.expose());
    let sensitive = record.tool.as_ref().map_or(&[][..], |tool| &tool.sensitive);
    CallLine {
        turn: record.turn,
        tool_id: &record.tool_name,
        tool_version: response.meta.tool_version.as_deref(),
        registry_version: &response.meta.registry_version,
        category: record.category().map(|category| category.as_str()),
        call_id: record.call.to_string(),
        idempotency_key: &record.idempotency_key,
        effect_id: record.effect_id.as_ref().map(|id| id.as_str()),
        duration_ms: response.meta.duration_ms,
        ok: response.is_ok(),
        error_type: record.error_type(),
        retry_count: response.meta.retry_count,
        args_hash: arguments.map(|arguments| hex(&hash(&Value::Object(arguments.clone())))),
        intents: &response.intents,
        arguments: match audited {
            AuditedArguments::Hash => None,
            AuditedArguments::Visible => {
                arguments.map(|arguments| without_sensitive(arguments, sensitive))
            }
        },
    }
}
