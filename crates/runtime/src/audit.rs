//! The audit: one JSON line per finished or refused call (`docs/operations.md`, "The audit"), and the lines that handlers add,
//! chained by their hashes. A subscriber queues the lines and a thread writes them, so that no session waits for a disk.

mod chain;
mod checkpoint;
mod file;
mod line;
mod verify;

pub use chain::Link;
pub use checkpoint::{Checkpoint, NoCheckpoint};
pub use file::{AuditPart, files_of, is_of_audit};
pub use verify::{BadRecord, Fault, Standing, Verified, VerifyError, verify, verify_against};

use crate::subscriber::{SessionIdentity, Subscriber};
use file::ChainedFile;
pub use line::ConnectionChange;
use line::{Entry, Found, Revoked, What};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use windlass_contract::id::{EffectId, SessionId, UserId};
use windlass_contract::private;
use windlass_driver::Ledger;
use windlass_session::event::SessionEvent;
use windlass_store::command::Command;
use windlass_store::{Batch, ConversationRef, Effect, StandingApproval, StoreUnavailable};

/// Lines that wait for the disk. Further lines are lost, and the loss is a line of its own.
const WAITING_MAX: usize = 10_000;
/// Time for which lines are gathered before they are written. A sleeping thread is not woken for each line.
const GATHERING: Duration = Duration::from_millis(50);
/// Pause between attempts at a disk that refuses writes.
const RETRY: Duration = Duration::from_secs(1);
/// Bytes of a file before the next one begins, by default.
const FILE_BYTES_MAX: u64 = 100_000_000;

/// The reason why the audit cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("the audit {} cannot be opened: {source}; make its folder writable or set audit.path", .path.display())]
    Unopened { path: PathBuf, source: io::Error },
    #[error(
        "the audit cannot be written to {}: the file holds something else, and is left as it is; set audit.path to a file of its own",
        .path.display()
    )]
    Foreign { path: PathBuf },
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
    /// The ledger that is notified of effects with lines.
    ledger: OnceLock<Weak<dyn Ledger>>,
    /// Whether the disk refused the last write.
    is_failing: AtomicBool,
}

#[derive(Default)]
struct QueueState {
    entries: Vec<Entry>,
    found: Vec<Found>,
    revoked: Vec<Revoked>,
    connections: Vec<ConnectionChange>,
    lost: u64,
    is_closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a call's arguments that the audit holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditedArguments {
    /// Their hash alone.
    #[default]
    Hash,
    /// The arguments too, without those that the tool marks as sensitive.
    Visible,
}

/// Settings of an audit.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    pub path: PathBuf,
    pub arguments: AuditedArguments,
    /// Bytes of a file before the next one begins.
    pub file_bytes_max: u64,
}

impl Audit {
    /// Opens the file for appending and starts the thread that writes it.
    pub fn open(path: &Path, arguments: AuditedArguments) -> Result<Self, AuditError> {
        Self::open_with(AuditSettings {
            path: path.to_owned(),
            arguments,
            file_bytes_max: FILE_BYTES_MAX,
        })
    }

    /// Opens the file with all settings.
    pub fn open_with(settings: AuditSettings) -> Result<Self, AuditError> {
        let path = &settings.path;
        let refuse = |source| AuditError::Unopened {
            path: path.clone(),
            source,
        };
        if let Some(path) = file::foreign(path).map_err(refuse)? {
            return Err(AuditError::Foreign { path });
        }
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(refuse)?;
        }
        let queue = Arc::new(Queue::default());
        let writer = Writer {
            queue: queue.clone(),
            file: ChainedFile::open(path, settings.file_bytes_max).map_err(refuse)?,
            arguments: settings.arguments,
            sequences: HashMap::new(),
            unwritten: VecDeque::new(),
            told_of: VecDeque::new(),
        };
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run())
            .map_err(refuse)?;
        Ok(Self {
            queue,
            writer: Mutex::new(Some(thread)),
        })
    }

    /// Writes the waiting lines and ends the thread. Later lines are not written.
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

    /// Whether the audit can be written. If it cannot, no change of the outside world may begin.
    pub fn admits_writes(&self) -> Result<(), StoreUnavailable> {
        if self.queue.is_failing.load(Ordering::Acquire) {
            return Err(StoreUnavailable::Failed {
                cause: "the audit cannot be written; free space where it is, or see the log"
                    .to_owned(),
            });
        }
        Ok(())
    }

    /// Sets the ledger that is notified of effects with lines. Call it once. It works as long as others hold the ledger.
    pub fn tells(&self, ledger: &Arc<dyn Ledger>) {
        if self.queue.ledger.set(Arc::downgrade(ledger)).is_err() {
            tracing::error!("the audit tells another ledger already");
        }
    }

    /// Writes down an effect's end that no session has reported, or that its outcome is unknown.
    pub fn found(
        &self,
        conversation: &ConversationRef,
        user_id: UserId,
        effect: &Effect,
        now_unix_ms: u64,
    ) {
        let found = Found {
            conversation: conversation.clone(),
            user_id,
            effect: effect.clone(),
            now_unix_ms,
        };
        self.push(|state| state.found.push(found));
    }

    /// Writes down that a user has revoked a standing approval without a report from a session of theirs.
    pub fn revoked(
        &self,
        conversation: &ConversationRef,
        user_id: UserId,
        standing: &StandingApproval,
        now_unix_ms: u64,
    ) {
        let revoked = Revoked {
            conversation: conversation.clone(),
            user_id,
            standing: standing.clone(),
            now_unix_ms,
        };
        self.push(|state| state.revoked.push(revoked));
    }

    /// Writes down that a user has connected an account, or that a connection has ended.
    pub fn connection_changed(&self, change: ConnectionChange) {
        self.push(|state| state.connections.push(change));
    }

    fn push(&self, push: impl FnOnce(&mut QueueState)) {
        let mut state = self.queue.lock();
        let waiting =
            state.entries.len() + state.found.len() + state.revoked.len() + state.connections.len();
        if state.is_closed || waiting >= WAITING_MAX {
            state.lost += 1;
            return;
        }
        push(&mut state);
        drop(state);
        if waiting == 0 {
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
        if let Some(what) = What::of(event) {
            let session = session.clone();
            self.push(|state| {
                state.entries.push(Entry {
                    session,
                    now_unix_ms,
                    is_apart: false,
                    what,
                });
            });
        }
    }

    fn event_apart(&self, leg: &SessionIdentity, now_unix_ms: u64, event: &SessionEvent) {
        if let Some(what) = What::of(event) {
            let session = leg.clone();
            self.push(|state| {
                state.entries.push(Entry {
                    session,
                    now_unix_ms,
                    is_apart: true,
                    what,
                });
            });
        }
    }
}

/// The writing thread: waits for the first line, gathers others for a moment, writes them together.
struct Writer {
    queue: Arc<Queue>,
    file: ChainedFile,
    arguments: AuditedArguments,
    /// The number of each living session's last line.
    sequences: HashMap<SessionId, u64>,
    /// Lines that the disk has not taken yet.
    unwritten: VecDeque<Value>,
    /// The effects of the newest lines. The ledger is notified only after all lines are written.
    told_of: VecDeque<(ConversationRef, EffectId)>,
}

impl Writer {
    fn run(mut self) {
        loop {
            let (batch, is_closed) = self.next_batch();
            self.number(batch);
            self.write(is_closed);
            if is_closed {
                return;
            }
        }
    }

    fn next_batch(&self) -> (QueueState, bool) {
        let is_idle = |state: &mut QueueState| {
            state.entries.is_empty()
                && state.found.is_empty()
                && state.revoked.is_empty()
                && state.connections.is_empty()
                && !state.is_closed
        };
        let filled = &self.queue.filled;
        let mut state = self.queue.lock();
        if self.unwritten.is_empty() {
            state = filled
                .wait_while(state, is_idle)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let gathering = match self.unwritten.is_empty() {
            true => GATHERING,
            false => RETRY,
        };
        let (mut state, _) = filled
            .wait_timeout_while(state, gathering, |state| !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        let is_closed = state.is_closed;
        // While the disk refuses writes the queue is left to fill, so that waiting lines stay bounded.
        let batch = if self.unwritten.is_empty() || is_closed {
            QueueState {
                entries: std::mem::take(&mut state.entries),
                found: std::mem::take(&mut state.found),
                revoked: std::mem::take(&mut state.revoked),
                connections: std::mem::take(&mut state.connections),
                lost: std::mem::take(&mut state.lost),
                is_closed,
            }
        } else {
            QueueState::default()
        };
        (batch, is_closed)
    }

    fn number(&mut self, batch: QueueState) {
        for entry in &batch.entries {
            let session = &entry.session.session_id;
            if let What::Ended = entry.what {
                self.sequences.remove(session);
                continue;
            }
            let sequence = (!entry.is_apart).then(|| {
                let sequence = self.sequences.entry(session.clone()).or_default();
                *sequence += 1;
                *sequence
            });
            let line = line::of_entry(entry, sequence, self.arguments);
            self.unwritten.extend(line);
            let told_of = entry.effect();
            self.told_of
                .extend(told_of.map(|(of, effect_id)| (of.clone(), effect_id.clone())));
        }
        for found in batch.found {
            self.unwritten.push_back(line::of_found(&found));
            self.told_of
                .push_back((found.conversation, found.effect.effect_id));
        }
        let revoked = batch.revoked.iter().map(line::of_revoked);
        self.unwritten.extend(revoked);
        let connections = batch.connections.iter().map(line::of_connection);
        self.unwritten.extend(connections);
        if batch.lost > 0 {
            self.unwritten.push_back(line::of_loss(batch.lost));
            let lines = batch.lost;
            tracing::error!(
                lines,
                "audit lines were lost, because the disk takes too little"
            );
        }
    }

    /// Notifies the ledger, after all lines are written. The ledger's sweep finds effects whose notice failed, and they get a
    /// second line.
    fn tell_ledger(&mut self) {
        let told_of = std::mem::take(&mut self.told_of);
        let ledger = self.queue.ledger.get();
        let Some(ledger) = ledger.and_then(Weak::upgrade) else {
            return;
        };
        let mut batches: Vec<(ConversationRef, Vec<EffectId>)> = Vec::new();
        for (conversation, effect_id) in told_of {
            let mut known = batches.iter_mut();
            match known.find(|(known, _)| *known == conversation) {
                Some((_, effects)) => effects.push(effect_id),
                None => batches.push((conversation, vec![effect_id])),
            }
        }
        for (conversation, effects) in batches {
            drop(ledger.apply(Batch {
                conversation,
                commands: vec![Command::Audited(effects)],
            }));
        }
    }

    fn write(&mut self, is_closed: bool) {
        if self.unwritten.is_empty() {
            return;
        }
        let was_failing = self.queue.is_failing.load(Ordering::Acquire);
        let written = self.file.append(&mut self.unwritten);
        if written.is_ok() {
            self.tell_ledger();
        }
        self.queue
            .is_failing
            .store(written.is_err(), Ordering::Release);
        match written {
            Ok(()) if was_failing => tracing::info!("the audit is written again"),
            Err(error) if !was_failing || is_closed => {
                let lines = self.unwritten.len();
                tracing::error!(%error, lines, "the audit cannot be written; no tool that writes may start");
            }
            Ok(()) | Err(_) => {}
        }
    }
}
