//! The batches that wait for the store's thread, in the order in which they came, so that a conversation's batches stay in order.
//! Owns the queue's bounds, and the gathering time of batches without a waiting caller; commits nothing.

use super::ThreadSettings;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use windlass_driver::{Committed, may_be_gathered, must_not_be_lost};
use windlass_store::command::Command;
use windlass_store::{Batch, StoreUnavailable};

/// A batch, and the receiver of its outcome.
pub(super) struct Job {
    pub(super) batch: Batch,
    sender: oneshot::Sender<Committed>,
}

impl Job {
    pub(super) fn new(batch: Batch, sender: oneshot::Sender<Committed>) -> Self {
        Self { batch, sender }
    }

    pub(super) fn split(self) -> (Batch, oneshot::Sender<Committed>) {
        (self.batch, self.sender)
    }

    pub(super) fn answer(self, committed: Committed) {
        // The receiver may have gone.
        let _ = self.sender.send(committed);
    }

    fn all(&self, is_so: impl Fn(&Command) -> bool) -> bool {
        self.batch.commands.iter().all(is_so)
    }
}

pub(super) struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
    waiting_max: usize,
    /// Waiting batches up to which one that must not be lost is taken.
    lasting_max: usize,
    batch_max: usize,
    gathering: Duration,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    /// The time at which the jobs are to be committed; `None` without jobs.
    due: Option<Instant>,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(settings: ThreadSettings) -> Self {
        Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            waiting_max: settings.waiting_max,
            lasting_max: settings.waiting_max.saturating_add(settings.unrecorded_max),
            batch_max: settings.batch_max.max(1),
            gathering: settings.gathering,
        }
    }

    /// Takes a batch in, or returns it with the reason. Only a closed queue refuses outcomes: there are no more of them than
    /// changes that were admitted.
    pub(super) fn push(&self, job: Job) -> Result<(), (Job, StoreUnavailable)> {
        let mut state = self.lock();
        if state.is_closed {
            let cause = "it is closed already".to_owned();
            return Err((job, StoreUnavailable::Failed { cause }));
        }
        let is_outcome =
            |command: &Command| matches!(command, Command::Record(_) | Command::Abandon { .. });
        let waiting_max = match job.all(must_not_be_lost) {
            true if job.all(is_outcome) => usize::MAX,
            true => self.lasting_max,
            false => self.waiting_max,
        };
        if state.jobs.len() >= waiting_max {
            return Err((job, StoreUnavailable::Overloaded));
        }
        let now = Instant::now();
        let may_wait =
            may_be_gathered(&job.batch.commands) && state.jobs.len() + 1 < self.batch_max;
        state.jobs.push_back(job);
        let due = match may_wait {
            true => now + self.gathering,
            false => now,
        };
        // A sleeping thread is woken for the first batch, so that it looks at the time, and when the time has come.
        let wakes = state.due.is_none_or(|known| due <= now && known > now);
        state.due = Some(state.due.map_or(due, |known| known.min(due)));
        drop(state);
        if wakes {
            self.filled.notify_one();
        }
        Ok(())
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }

    /// Waits until `until` for batches to commit now. The flag is true if the queue is closed and empty.
    pub(super) fn next(&self, until: Instant) -> (Vec<Job>, bool) {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let is_due = state.is_closed || state.due.is_some_and(|due| due <= now);
            if is_due || now >= until {
                let jobs = match is_due {
                    true => state.take(self.batch_max, now),
                    false => Vec::new(),
                };
                return (jobs, state.is_closed && state.jobs.is_empty());
            }
            let wake_at = state.due.map_or(until, |due| due.min(until));
            (state, _) = self
                .filled
                .wait_timeout(state, wake_at.saturating_duration_since(now))
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A push leaves the queue whole at each of its steps, whatever panics elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn take(&mut self, batch_max: usize, now: Instant) -> Vec<Job> {
        let count = self.jobs.len().min(batch_max);
        let taken = self.jobs.drain(..count).collect();
        self.due = (!self.jobs.is_empty()).then_some(now);
        taken
    }
}
