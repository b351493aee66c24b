//! The one thread that writes the store. Requests that come while it is at work share the next transaction, so that they
//! share one flush of the disk, too; what nobody waits for is gathered for a moment first. Owns what must not be lost and could
//! not be stored yet; knows no session.

mod queue;
mod request;
mod unrecorded;

pub use request::{Closing, Pending, Reading};

use crate::audit::Audit;
use queue::{Place, Queue};
use request::{Job, Kind, Lasting, Request, Unawaited};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unrecorded::Unrecorded;
use windlass_session::under_way::UnderWay;
use windlass_store::{
    Effect, Outcome, Recorded, Reserve, Reserved, Store, StoreUnavailable, Transaction,
};

/// How the thread works.
#[derive(Clone, Copy, Debug)]
pub struct StoreSettings {
    /// Requests that wait for the disk; more are refused at once. Outcomes never are: there are no more of them than changes
    /// that were let start. Neither is it that a conversation holds what others wrote, which each session says once.
    pub waiting_max: usize,
    /// Requests that share one transaction. The more there are, the longer the first of them waits.
    pub batch_max: usize,
    /// How long requests that nobody waits for are gathered, for one transaction and one flush: as much is lost of them where
    /// the process is killed.
    pub gathering: Duration,
    /// Outcomes that are kept in memory because the disk did not take them, and conversations of which it is known in memory alone
    /// that they hold what others wrote.
    pub unrecorded_max: usize,
    /// How often those are tried again where no request does it.
    pub retry: Duration,
    /// How often what has run out is deleted, and what was abandoned is marked as unknown.
    pub upkeep: Duration,
    /// A reserved effect without an outcome is abandoned after this time: longer than any handler may run.
    pub abandoned_after: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            waiting_max: 4_096,
            batch_max: 256,
            gathering: Duration::from_millis(50),
            unrecorded_max: 10_000,
            retry: Duration::from_secs(1),
            upkeep: Duration::from_secs(60),
            abandoned_after: Duration::from_secs(15 * 60),
        }
    }
}

/// What the thread asks of its surroundings.
pub struct Surroundings {
    /// Milliseconds since the Unix epoch.
    pub now_unix_ms: Box<dyn Fn() -> u64 + Send>,
    /// Hears of effects of which nothing was ever heard again, once each.
    pub abandoned: Box<dyn Fn(&Effect) + Send>,
    /// Whether effects may be reserved at all: not where they could not be written down.
    pub admits_effects: Arc<dyn Fn() -> Result<(), StoreUnavailable> + Send + Sync>,
}

impl Surroundings {
    /// Those of a process that writes this audit, or none.
    pub fn with_audit(now_unix_ms: fn() -> u64, audit: Option<Arc<Audit>>) -> Self {
        let told = audit.clone();
        Self {
            now_unix_ms: Box::new(now_unix_ms),
            abandoned: Box::new(move |effect| {
                if let Some(audit) = &told {
                    audit.abandoned(effect);
                }
            }),
            admits_effects: Arc::new(move || match &audit {
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

/// Puts requests in the thread's queue; cheap to clone.
#[derive(Clone)]
pub struct StoreHandle {
    queue: Arc<Queue>,
    store: Arc<dyn Store>,
    under_way: UnderWay,
    admits_effects: Arc<dyn Fn() -> Result<(), StoreUnavailable> + Send + Sync>,
}

impl StoreThread {
    pub fn start(
        store: Arc<dyn Store>,
        settings: StoreSettings,
        surroundings: Surroundings,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new(settings));
        let admits_effects = surroundings.admits_effects.clone();
        let worker = Worker {
            queue: queue.clone(),
            store: store.clone(),
            settings,
            surroundings,
            unrecorded: Unrecorded::new(settings.unrecorded_max),
        };
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self {
            handle: StoreHandle {
                queue,
                store,
                under_way: UnderWay::default(),
                admits_effects,
            },
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn handle(&self) -> StoreHandle {
        self.handle.clone()
    }

    /// Answers what waits and ends the thread. What is asked later is refused.
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
    /// Which sessions of this process are at which effects.
    pub fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Asks for anything. It is carried out even if nobody waits for the answer. What was left to [`Self::ask_later`] before
    /// may come after it.
    pub fn ask<T: Send + 'static>(
        &self,
        request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable> + Send + 'static,
    ) -> Pending<T> {
        let (job, pending) = Request::new(request, Kind::Plain);
        self.push(Box::new(job), Place::Next);
        pending
    }

    /// The same behind everything that was asked before, so that it finds what [`Self::ask_later`] was left.
    pub fn ask_behind_all<T: Send + 'static>(
        &self,
        request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable> + Send + 'static,
    ) -> Pending<T> {
        let (job, pending) = Request::new(request, Kind::Plain);
        self.push(Box::new(job), Place::BehindAll);
        pending
    }

    /// Reads what was written last, at once, on the task of whoever asks: for those who can do with that where the thread
    /// cannot answer because nothing can be written.
    pub fn read<T>(
        &self,
        request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable>,
    ) -> Result<T, StoreUnavailable> {
        self.store.read(request)
    }

    /// Has something written that nobody waits for, within [`StoreSettings::gathering`], together with others. Where it is not,
    /// the log says so.
    pub fn ask_later(
        &self,
        request: impl FnMut(&mut dyn Transaction) -> Result<(), StoreUnavailable> + Send + 'static,
    ) {
        self.push(Box::new(Unawaited(request)), Place::Gathered);
    }

    /// Reserves an effect. Nothing may start before this has answered that it is reserved.
    pub fn reserve(&self, request: Reserve) -> Pending<Reserved> {
        if let Err(error) = (self.admits_effects)() {
            return Pending::refused(error);
        }
        let (job, pending) = Request::new(
            move |transaction: &mut dyn Transaction| transaction.reserve(&request),
            Kind::Reservation,
        );
        self.push(Box::new(job), Place::Next);
        pending
    }

    /// Records an outcome. Where the disk does not take it, this answers with the error, and the outcome is kept in
    /// memory and stored together with whatever is stored next; so no effect is reserved before it.
    pub fn record(&self, outcome: Outcome) -> Pending<Recorded> {
        let recorded = outcome.clone();
        let (job, pending) = Request::new(
            move |transaction: &mut dyn Transaction| transaction.record(&recorded),
            Kind::Lasting(Lasting::Outcome(outcome)),
        );
        self.push(Box::new(job), Place::Next);
        pending
    }

    /// Notes that nobody may approve a question any more. Where the disk does not take it, it is kept as an outcome is.
    pub fn close_question(&self, closing: Closing) -> Pending<()> {
        let closed = closing.clone();
        let (job, pending) = Request::new(
            move |transaction: &mut dyn Transaction| closed.note(transaction),
            Kind::Lasting(Lasting::Closing(closing)),
        );
        self.push(Box::new(job), Place::Next);
        pending
    }

    /// Notes that a conversation holds what others wrote. Where the disk does not take it, it is kept as an outcome is.
    pub fn note_reading(&self, reading: Reading) -> Pending<()> {
        let noted = reading.clone();
        let (job, pending) = Request::new(
            move |transaction: &mut dyn Transaction| noted.note(transaction),
            Kind::Lasting(Lasting::Reading(reading)),
        );
        self.push(Box::new(job), Place::Next);
        pending
    }

    fn push(&self, job: Box<dyn Job>, place: Place) {
        if let Err((job, refusal)) = self.queue.push(job, place) {
            job.answer(Err(refusal));
        }
    }
}

struct Worker {
    queue: Arc<Queue>,
    store: Arc<dyn Store>,
    settings: StoreSettings,
    surroundings: Surroundings,
    unrecorded: Unrecorded,
}

impl Worker {
    fn run(mut self) {
        self.upkeep();
        let mut upkeep_at = Instant::now() + self.settings.upkeep;
        loop {
            let wake_at = match self.unrecorded.is_empty() {
                true => upkeep_at,
                false => upkeep_at.min(Instant::now() + self.settings.retry),
            };
            let (jobs, is_closed) = self.queue.next(wake_at);
            if !jobs.is_empty() || !self.unrecorded.is_empty() {
                self.commit(jobs);
            }
            if is_closed {
                return self.unrecorded.give_up();
            }
            if Instant::now() >= upkeep_at {
                self.upkeep();
                upkeep_at = Instant::now() + self.settings.upkeep;
            }
        }
    }

    /// Runs requests in one transaction, and before them what is still to be recorded. Where that fails for a reason that
    /// may be one request's own, each gets a transaction of its own: whoever only reads needs no space on the disk.
    fn commit(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        let waits = !self.unrecorded.is_empty();
        let committed = self.transact(&mut jobs, Before::Unrecorded);
        match committed {
            Err(error) if may_be_ones_own(&error) && (jobs.len() > 1 || waits) => {
                tracing::error!(%error, requests = jobs.len(), "the store failed; each request is tried alone");
                for mut job in jobs {
                    let committed = self.transact_alone(&mut job);
                    self.answer(job, committed);
                }
            }
            committed => {
                if let Err(error) = &committed {
                    tracing::error!(%error, requests = jobs.len(), "the store failed");
                }
                for job in jobs {
                    self.answer(job, committed.clone());
                }
            }
        }
    }

    /// A disk that does not take what is still to be recorded stops whatever may start a change, and nothing else.
    fn transact_alone(&mut self, job: &mut Box<dyn Job>) -> Result<(), StoreUnavailable> {
        let alone = std::slice::from_mut(job);
        let committed = self.transact(alone, Before::Unrecorded);
        let may_go_alone = !matches!(alone[0].kind(), Kind::Reservation);
        let is_held_up = !self.unrecorded.is_empty();
        match &committed {
            Err(error) if may_go_alone && is_held_up && may_be_ones_own(error) => {
                self.transact(alone, Before::Nothing)
            }
            Ok(()) | Err(_) => committed,
        }
    }

    fn transact(
        &mut self,
        jobs: &mut [Box<dyn Job>],
        before: Before,
    ) -> Result<(), StoreUnavailable> {
        let (store, unrecorded) = (&self.store, &self.unrecorded);
        let committed = catch_unwind(AssertUnwindSafe(|| {
            store.transact(&mut |transaction| {
                let recorded = match before {
                    Before::Unrecorded => unrecorded.record(transaction),
                    Before::Nothing => Ok(()),
                };
                if recorded.is_ok() {
                    jobs.iter_mut().for_each(|job| job.run(transaction));
                }
            })
        }));
        let committed = committed.unwrap_or_else(|_| {
            Err(StoreUnavailable::Failed {
                cause: "a request broke".to_owned(),
            })
        });
        if let (Ok(()), Before::Unrecorded) = (&committed, before) {
            self.unrecorded.clear();
        }
        committed
    }

    fn answer(&mut self, job: Box<dyn Job>, committed: Result<(), StoreUnavailable>) {
        if committed.is_err()
            && let Some(lasting) = job.kind().lasting()
        {
            self.unrecorded.keep(lasting.clone());
        }
        job.answer(committed);
    }

    fn upkeep(&self) {
        let now_unix_ms = (self.surroundings.now_unix_ms)();
        let abandoned_ms =
            u64::try_from(self.settings.abandoned_after.as_millis()).unwrap_or(u64::MAX);
        let abandoned = self.store.ask(|transaction| {
            transaction.abandon(now_unix_ms.saturating_sub(abandoned_ms), now_unix_ms)
        });
        match abandoned {
            Ok(effects) => effects.iter().for_each(&self.surroundings.abandoned),
            Err(error) => tracing::warn!(%error, "abandoned effects cannot be looked for"),
        }
        if let Err(error) = self.store.prune(now_unix_ms) {
            tracing::warn!(%error, "what has run out cannot be deleted");
        }
    }
}

/// What a transaction begins with.
#[derive(Clone, Copy)]
enum Before {
    Unrecorded,
    Nothing,
}

/// Whether a transaction may have failed for the sake of one of its requests, so that others may fare better without it.
fn may_be_ones_own(error: &StoreUnavailable) -> bool {
    match error {
        StoreUnavailable::DiskFull { .. } | StoreUnavailable::Failed { .. } => true,
        StoreUnavailable::Locked { .. }
        | StoreUnavailable::Moved { .. }
        | StoreUnavailable::Overloaded => false,
    }
}
