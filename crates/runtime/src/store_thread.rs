//! The one thread that writes the store. Batches that come during a transaction share the next one, and so one flush of the disk.
//! Batches without a waiting caller are gathered for a moment first. Knows no session and no rule of the ledger.

mod queue;

use crate::audit::Audit;
use queue::{Job, Queue};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use windlass_contract::id::SessionId;
use windlass_driver::{
    Backlog, Committed, Concerned, Ledger, PendingReplies, Tail, Tails, begins_change,
};
use windlass_store::{Batch, ConversationRef, Store, StoreUnavailable};

/// Settings of the thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadSettings {
    /// Batches that wait for the disk; more are refused at once. A batch that must not be lost is not refused as long as
    /// `unrecorded_max` has room for it.
    pub waiting_max: usize,
    /// Batches that share one transaction. The more there are, the longer the first of them waits.
    pub batch_max: usize,
    /// Time for which batches without a waiting caller are gathered for one transaction and one flush. If the process is killed,
    /// the gathered batches are lost.
    pub gathering: Duration,
    /// Batches that are kept in memory because the disk did not take them.
    pub unrecorded_max: usize,
    /// Pause between attempts at those batches if no other batch brings one.
    pub retry: Duration,
    /// Pause between deletions of expired rows.
    pub upkeep: Duration,
}

/// Pause between two steps of one deletion.
const PRUNING_PAUSE: Duration = Duration::from_millis(20);

impl Default for ThreadSettings {
    fn default() -> Self {
        Self {
            waiting_max: 4_096,
            batch_max: 256,
            gathering: Duration::from_millis(50),
            unrecorded_max: 10_000,
            retry: Duration::from_secs(1),
            upkeep: Duration::from_secs(60),
        }
    }
}

/// The thread's questions to its surroundings.
#[derive(Clone)]
pub struct Surroundings {
    /// Whether changes may begin at all: they may not while they could not be audited.
    pub admits_changes: Arc<dyn Fn() -> Result<(), StoreUnavailable> + Send + Sync>,
}

impl Surroundings {
    /// The surroundings of a process that writes this audit, or none.
    pub fn with_audit(audit: Option<Arc<Audit>>) -> Self {
        Self {
            admits_changes: Arc::new(move || match &audit {
                Some(audit) => audit.admits_writes(),
                None => Ok(()),
            }),
        }
    }
}

/// Runs until it is closed or dropped.
pub struct StoreThread {
    handle: StoreHandle,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Puts batches in the thread's queue; cheap to clone.
#[derive(Clone)]
pub struct StoreHandle {
    queue: Arc<Queue>,
    store: Arc<dyn Store>,
    tails: Tails,
    surroundings: Surroundings,
}

impl StoreThread {
    pub fn start(
        store: Arc<dyn Store>,
        settings: ThreadSettings,
        surroundings: Surroundings,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new(settings));
        let tails = Tails::default();
        let worker = Worker {
            queue: queue.clone(),
            store: store.clone(),
            settings,
            tails: tails.clone(),
            backlog: Backlog::new(settings.unrecorded_max),
        };
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self {
            handle: StoreHandle {
                queue,
                store,
                tails,
                surroundings,
            },
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn handle(&self) -> StoreHandle {
        self.handle.clone()
    }

    /// Answers the waiting batches and ends the thread. Later batches are refused.
    pub fn close(&self) {
        self.handle.queue.close();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the store's thread broke");
        }
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.close();
    }
}

impl StoreHandle {
    /// The same as [`Ledger::apply`], for a thread that may block.
    pub fn apply_and_wait(&self, batch: Batch) -> Committed {
        let answer = self.push(batch).blocking_recv();
        answer.unwrap_or_else(|_| Err(gone()))
    }

    fn push(&self, batch: Batch) -> oneshot::Receiver<Committed> {
        let (sender, receiver) = oneshot::channel();
        let job = Job::new(batch, sender);
        let admitted = match job.batch.commands.iter().any(begins_change) {
            true => (self.surroundings.admits_changes)(),
            false => Ok(()),
        };
        let pushed = match admitted {
            Ok(()) => self.queue.push(job),
            Err(error) => Err((job, error)),
        };
        if let Err((job, error)) = pushed {
            job.answer(Err(error));
        }
        receiver
    }
}

impl Ledger for StoreHandle {
    fn apply(&self, batch: Batch) -> PendingReplies {
        let answer = self.push(batch);
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(gone())) })
    }

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn tail(&self, conversation: &ConversationRef, leg: &SessionId) -> Tail {
        self.tails.listen(conversation, leg)
    }

    fn is_live(&self, conversation: &ConversationRef, leg: &SessionId) -> bool {
        self.tails.is_live(conversation, leg)
    }
}

fn gone() -> StoreUnavailable {
    StoreUnavailable::Failed {
        cause: "its thread has ended".to_owned(),
    }
}

struct Worker {
    queue: Arc<Queue>,
    store: Arc<dyn Store>,
    settings: ThreadSettings,
    tails: Tails,
    backlog: Backlog,
}

impl Worker {
    fn run(mut self) {
        let mut upkeep_at = self.upkeep();
        loop {
            let wake_at = match self.backlog.is_empty() {
                true => upkeep_at,
                false => upkeep_at.min(Instant::now() + self.settings.retry),
            };
            let (jobs, is_closed) = self.queue.next(wake_at);
            self.commit(jobs);
            if is_closed {
                return self.give_up();
            }
            if Instant::now() >= upkeep_at {
                upkeep_at = self.upkeep();
            }
        }
    }

    fn commit(&mut self, jobs: Vec<Job>) {
        if jobs.is_empty() && self.backlog.is_empty() {
            return;
        }
        let waited = self.backlog.len();
        let (batches, senders): (Vec<Batch>, Vec<_>) = jobs.into_iter().map(Job::split).unzip();
        let mut concerned = Vec::new();
        let mut wake = |one: Concerned| concerned.push(one);
        let committed = self.backlog.commit(&*self.store, batches, &mut wake);
        self.report(waited, &committed);
        // The caller gets the answer before the log's readers are woken.
        for (sender, committed) in senders.into_iter().zip(committed) {
            // The caller may have gone.
            let _ = sender.send(committed);
        }
        for concerned in concerned {
            self.tails.wake(&concerned);
        }
    }

    fn report(&mut self, waited: usize, committed: &[Committed]) {
        let mut failed = committed.iter().filter_map(|one| one.as_ref().err());
        if let Some(error) = failed.next() {
            let batches = 1 + failed.count();
            tracing::error!(%error, batches, "the store failed");
        }
        let lost = self.backlog.take_lost();
        if lost > 0 {
            tracing::error!(
                lost,
                "what the store did not take is lost, because too much of it waits; a change without its outcome counts as unknown"
            );
        }
        if waited > 0 && self.backlog.is_empty() {
            tracing::info!(batches = waited, "the store is back and has what waited");
        }
    }

    fn give_up(&self) {
        if !self.backlog.is_empty() {
            tracing::error!(
                batches = self.backlog.len(),
                "what the store did not take is lost: a change without its outcome counts as unknown"
            );
        }
    }

    /// Deletes a few expired rows. Returns the time of the next deletion: soon if there are more rows, so that a long downtime is
    /// made up for between the batches that come.
    fn upkeep(&self) -> Instant {
        // A panic in there delays the deletion of old rows, and costs no conversation its store.
        let pruned = catch_unwind(AssertUnwindSafe(|| self.store.prune()));
        let pause = match pruned {
            Ok(Ok(0)) => self.settings.upkeep,
            Ok(Ok(_)) => PRUNING_PAUSE,
            Ok(Err(error)) => {
                tracing::warn!(%error, "what has run out cannot be deleted");
                self.settings.upkeep
            }
            Err(_) => {
                tracing::error!("deleting what has run out broke");
                self.settings.upkeep
            }
        };
        Instant::now() + pause
    }
}
