//! What waits for the store's thread: requests that somebody waits for, and others that are gathered until it is worth a
//! flush of the disk. Owns their order and their bounds; runs none of them.

use super::StoreSettings;
use super::request::Job;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use windlass_store::StoreUnavailable;

/// Where a request stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind those that somebody waits for.
    Next,
    /// Behind everything that came before it.
    BehindAll,
    /// Among those that nobody waits for.
    Gathered,
}

pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    waiting_max: usize,
    batch_max: usize,
    gathering: Duration,
}

#[derive(Default)]
struct State {
    jobs: Vec<Box<dyn Job>>,
    gathered: Vec<Box<dyn Job>>,
    /// When those that are gathered are to be run; `None` where there are none.
    due: Option<Instant>,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(settings: StoreSettings) -> Self {
        Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            waiting_max: settings.waiting_max,
            batch_max: settings.batch_max.max(1),
            gathering: settings.gathering,
        }
    }

    /// Takes a request in, or gives it back with why not. What must not be lost is refused by a closed queue alone.
    pub(super) fn push(
        &self,
        job: Box<dyn Job>,
        place: Place,
    ) -> Result<(), (Box<dyn Job>, StoreUnavailable)> {
        let mut state = self.lock();
        if state.is_closed {
            let cause = "it is closed already".to_owned();
            return Err((job, StoreUnavailable::Failed { cause }));
        }
        let waiting = match place {
            Place::Gathered => state.gathered.len(),
            Place::Next | Place::BehindAll => state.jobs.len(),
        };
        if waiting >= self.waiting_max && job.kind().lasting().is_none() {
            return Err((job, StoreUnavailable::Overloaded));
        }
        if place == Place::Gathered {
            state.gathered.push(job);
        } else {
            state.jobs.push(job);
        }
        let wakes = match place {
            Place::Next => waiting == 0,
            Place::BehindAll => state.hurry() || waiting == 0,
            // A thread that sleeps is woken for the first of them, so that it looks at the time, and for those that are enough.
            Place::Gathered if waiting == 0 => {
                state.due = Some(Instant::now() + self.gathering);
                true
            }
            Place::Gathered => waiting + 1 == self.batch_max && state.hurry(),
        };
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

    /// Waits for requests that are to be run now, until a time. True where the queue is closed and empty.
    pub(super) fn next(&self, until: Instant) -> (Vec<Box<dyn Job>>, bool) {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let is_due = state.is_closed || state.due.is_some_and(|due| due <= now);
            if is_due || !state.jobs.is_empty() || now >= until {
                let jobs = state.take(is_due, self.batch_max);
                return (jobs, state.is_closed && state.is_empty());
            }
            let wake_at = state.due.map_or(until, |due| due.min(until));
            (state, _) = self
                .filled
                .wait_timeout(state, wake_at.saturating_duration_since(now))
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A push leaves the queue whole at each of its steps, whatever panics elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Has those that are gathered run next; true where that is news.
    fn hurry(&mut self) -> bool {
        let now = Instant::now();
        let waits = self.due.is_some_and(|due| due > now);
        if waits {
            self.due = Some(now);
        }
        waits
    }

    fn take(&mut self, takes_gathered: bool, batch_max: usize) -> Vec<Box<dyn Job>> {
        let mut taken = Vec::new();
        if takes_gathered {
            self.due = None;
            taken = std::mem::take(&mut self.gathered);
        }
        let count = self.jobs.len().min(batch_max);
        taken.extend(self.jobs.drain(..count));
        taken
    }

    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.gathered.is_empty()
    }
}
