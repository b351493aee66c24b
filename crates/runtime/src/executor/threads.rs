//! The threads for handlers that do not promise to return at once: bounded in number, shared out per tool and session, and
//! written off if a handler does not return one in its time. Knows no call and no outcome.

use super::seats::Seats;
use futures_util::FutureExt;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use windlass_contract::id::{SessionId, TenantId, ToolId};

/// Pause between the watchdog's looks for threads that are held for too long.
const WATCH_PAUSE: Duration = Duration::from_millis(100);
/// Looks without a held thread after which the watchdog's thread ends.
const IDLE_LOOKS_MAX: u32 = 100;
/// Time beyond a handler's own before its thread is written off, so that a handler that ends in time never loses it.
const GRACE: Duration = Duration::from_millis(100);

/// Limits of the threads that handlers may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLimits {
    /// Threads at a time, without written-off ones.
    pub threads_max: usize,
    /// Threads of one tool, written-off ones included.
    pub tool_threads_max: usize,
    /// Threads of one session, written-off ones included.
    pub session_threads_max: usize,
    /// Threads of all sessions of one tenant, written-off ones included.
    pub tenant_threads_max: usize,
    /// Written-off threads that others have replaced.
    pub written_off_max: usize,
}

impl Default for ThreadLimits {
    fn default() -> Self {
        Self {
            threads_max: 64,
            tool_threads_max: 16,
            session_threads_max: 8,
            tenant_threads_max: 256,
            written_off_max: 192,
        }
    }
}

/// The holders of a thread, and its time.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) tool: ToolId,
    pub(super) session: SessionId,
    pub(super) tenant: TenantId,
    pub(super) time: Duration,
}

/// Earlier calls of the tool, or of the session, hold all of its threads and do not return them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// A handler's caught panic.
pub(super) type Panic = Box<dyn std::any::Any + Send>;

/// All threads of the process for handlers, and the seats of calls that wait for other programs.
#[derive(Clone, Debug)]
pub struct HandlerThreads(Arc<Pool>, Arc<Seats>);

impl Default for HandlerThreads {
    fn default() -> Self {
        Self::new(ThreadLimits::default())
    }
}

impl HandlerThreads {
    pub fn new(limits: ThreadLimits) -> Self {
        let pool = Pool {
            limits,
            state: Mutex::default(),
        };
        Self(Arc::new(pool), Seats::new(limits))
    }

    pub(super) fn seats(&self) -> &Arc<Seats> {
        &self.1
    }

    /// Polls a future on these threads only. Call it within a runtime, whose threads for blocking work these are.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: Work,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<Running<T>, Exhausted> {
        let Self(pool, _) = self;
        if pool.is_exhausted(&work) {
            return Err(Exhausted);
        }
        let (sender, result) = oneshot::channel();
        let task = async move {
            let result = AssertUnwindSafe(future).catch_unwind().await;
            // The caller may have given the result up.
            let _ = sender.send(result);
        };
        let job = Arc::new(Job {
            pool: pool.clone(),
            runtime: Handle::current(),
            until: Instant::now() + work.time,
            work,
            state: Mutex::new(JobState::Queued(Box::pin(task))),
        });
        pool.push(job.clone());
        Ok(Running { job, result })
    }
}

/// A future on these threads. Dropping this value gives it up.
#[derive(Debug)]
pub(super) struct Running<T> {
    job: Arc<Job>,
    result: oneshot::Receiver<Result<T, Panic>>,
}

impl<T> Future for Running<T> {
    /// `None` if the future was given up.
    type Output = Option<Result<T, Panic>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(context).map(Result::ok)
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.job.give_up();
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that is polled by one thread at a time, whenever it has been woken.
struct Job {
    pool: Arc<Pool>,
    runtime: Handle,
    work: Work,
    until: Instant,
    state: Mutex<JobState>,
}

enum JobState {
    Resting(Task),
    Queued(Task),
    /// A task that the next thread drops: dropping, too, runs code of a handler.
    GivenUp(Task),
    Running {
        is_woken: bool,
        is_given_up: bool,
    },
    Over,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.work.fmt(formatter)
    }
}

impl Wake for Job {
    fn wake(self: Arc<Self>) {
        let mut state = self.lock();
        *state = match std::mem::replace(&mut *state, JobState::Over) {
            JobState::Resting(task) => {
                self.pool.push(self.clone());
                JobState::Queued(task)
            }
            JobState::Running { is_given_up, .. } => JobState::Running {
                is_woken: true,
                is_given_up,
            },
            as_it_was => as_it_was,
        };
    }
}

impl Job {
    fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_up(self: &Arc<Self>) {
        let mut state = self.lock();
        *state = match std::mem::replace(&mut *state, JobState::Over) {
            JobState::Resting(task) => {
                self.pool.push(self.clone());
                JobState::GivenUp(task)
            }
            JobState::Queued(task) => JobState::GivenUp(task),
            JobState::Running { is_woken, .. } => JobState::Running {
                is_woken,
                is_given_up: true,
            },
            as_it_was => as_it_was,
        };
    }

    /// Polls once, on a thread of its own.
    fn advance(self: &Arc<Self>) {
        let running = JobState::Running {
            is_woken: false,
            is_given_up: false,
        };
        let taken = std::mem::replace(&mut *self.lock(), running);
        let mut task = match taken {
            JobState::Queued(task) => task,
            JobState::GivenUp(task) => return self.end(task),
            JobState::Resting(_) | JobState::Running { .. } | JobState::Over => return,
        };
        let waker = Waker::from(self.clone());
        // Panics of the handler are caught within.
        if task
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            return self.end(task);
        }
        let mut state = self.lock();
        match *state {
            JobState::Running {
                is_given_up: true, ..
            } => {
                drop(state);
                self.end(task);
            }
            JobState::Running { is_woken: true, .. } => {
                *state = JobState::Queued(task);
                self.pool.push(self.clone());
            }
            _ => *state = JobState::Resting(task),
        }
    }

    /// Drops a task. A panic in that harms nothing else.
    fn end(&self, task: Task) {
        let _ = std::panic::catch_unwind(AssertUnwindSafe(move || drop(task)));
        *self.lock() = JobState::Over;
    }
}

#[derive(Debug)]
struct Pool {
    limits: ThreadLimits,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Jobs that wait for a thread, by tool, so that the tools take turns.
    queues: BTreeMap<ToolId, VecDeque<Arc<Job>>>,
    /// The tool whose turn was last.
    last: Option<ToolId>,
    held: HashMap<u64, HeldThread>,
    of_tool: HashMap<ToolId, usize>,
    of_session: HashMap<SessionId, usize>,
    of_tenant: HashMap<TenantId, usize>,
    /// Threads that work or look for work, without written-off ones.
    workers: usize,
    written_off: usize,
    next_number: u64,
    is_watched: bool,
}

#[derive(Debug)]
struct HeldThread {
    job: Arc<Job>,
    is_written_off: bool,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_exhausted(&self, work: &Work) -> bool {
        let state = self.lock();
        if state.written_off == 0 {
            return false;
        }
        let lost = |is_theirs: &dyn Fn(&Work) -> bool| {
            let held = state.held.values();
            let theirs = held.filter(|held| held.is_written_off && is_theirs(&held.job.work));
            theirs.count()
        };
        lost(&|other| other.tool == work.tool) >= self.limits.tool_threads_max
            || lost(&|other| other.session == work.session) >= self.limits.session_threads_max
            || lost(&|other| other.tenant == work.tenant) >= self.limits.tenant_threads_max
    }

    fn push(self: &Arc<Self>, job: Arc<Job>) {
        let mut state = self.lock();
        let runtime = job.runtime.clone();
        let queue = state.queues.entry(job.work.tool.clone()).or_default();
        queue.push_back(job);
        self.see_to_workers(&mut state, &runtime);
    }

    /// Starts one more thread if the limit allows it and jobs wait. The thread ends at once if no job may begin.
    fn see_to_workers(self: &Arc<Self>, state: &mut PoolState, runtime: &Handle) {
        if state.workers < self.limits.threads_max && !state.queues.is_empty() {
            state.workers += 1;
            let pool = self.clone();
            runtime.spawn_blocking(move || pool.work());
        }
    }

    /// The loop of one thread.
    fn work(self: &Arc<Self>) {
        while let Some((number, job)) = self.begin() {
            job.advance();
            if !self.end(number, &job) {
                return;
            }
        }
    }

    /// The next job that may have a thread.
    fn begin(self: &Arc<Self>) -> Option<(u64, Arc<Job>)> {
        let mut state = self.lock();
        let Some(job) = self.pick(&mut state) else {
            state.workers -= 1;
            return None;
        };
        let number = state.next_number;
        state.next_number += 1;
        *state.of_tool.entry(job.work.tool.clone()).or_default() += 1;
        *state
            .of_session
            .entry(job.work.session.clone())
            .or_default() += 1;
        *state.of_tenant.entry(job.work.tenant.clone()).or_default() += 1;
        let held = HeldThread {
            job: job.clone(),
            is_written_off: false,
        };
        state.held.insert(number, held);
        if !state.is_watched {
            state.is_watched = watch(Arc::downgrade(self));
        }
        Some((number, job))
    }

    fn pick(&self, state: &mut PoolState) -> Option<Arc<Job>> {
        let behind = match state.last.clone() {
            Some(last) => (Bound::Excluded(last), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let PoolState {
            of_tool,
            of_session,
            of_tenant,
            ..
        } = &*state;
        let may_begin = |job: &Arc<Job>| {
            let of_session = of_session.get(&job.work.session);
            let of_tenant = of_tenant.get(&job.work.tenant);
            of_session.is_none_or(|held| *held < self.limits.session_threads_max)
                && of_tenant.is_none_or(|held| *held < self.limits.tenant_threads_max)
        };
        let ready = |(tool, queue): (&ToolId, &VecDeque<Arc<Job>>)| {
            let held = of_tool.get(tool);
            if held.is_some_and(|held| *held >= self.limits.tool_threads_max) {
                return None;
            }
            let position = queue.iter().position(may_begin)?;
            Some((tool.clone(), position))
        };
        let (tool, position) = state
            .queues
            .range(behind)
            .find_map(ready)
            .or_else(|| state.queues.iter().find_map(ready))?;
        let queue = state.queues.get_mut(&tool)?;
        let job = queue.remove(position);
        if queue.is_empty() {
            state.queues.remove(&tool);
        }
        state.last = Some(tool);
        job
    }

    /// Returns the thread. The result says whether the thread may go on.
    fn end(self: &Arc<Self>, number: u64, job: &Job) -> bool {
        let mut state = self.lock();
        let held = state.held.remove(&number);
        release(&mut state.of_tool, &job.work.tool);
        release(&mut state.of_session, &job.work.session);
        release(&mut state.of_tenant, &job.work.tenant);
        let is_written_off = held.is_some_and(|held| held.is_written_off);
        if is_written_off {
            state.written_off -= 1;
            // Another thread has replaced this one; its shares are free for others now.
            self.see_to_workers(&mut state, &job.runtime);
            let Work { tool, session, .. } = &job.work;
            tracing::info!(%tool, %session, "a handler has given back the thread that was written off");
        }
        !is_written_off
    }

    /// Writes off threads that are held for too long. Returns whether any thread is held.
    fn look(self: &Arc<Self>) -> bool {
        let now = Instant::now();
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut lost = Vec::new();
        for held in state.held.values_mut() {
            let is_late = now > held.job.until + GRACE;
            if is_late && !held.is_written_off && state.written_off < self.limits.written_off_max {
                held.is_written_off = true;
                state.written_off += 1;
                state.workers -= 1;
                lost.push(held.job.clone());
            }
        }
        let is_held = !state.held.is_empty();
        for job in &lost {
            self.see_to_workers(state, &job.runtime);
        }
        drop(guard);
        for job in lost {
            let Work { tool, session, .. } = &job.work;
            tracing::warn!(
                %tool,
                %session,
                "a handler holds its thread beyond its time: the thread was written off, and another takes its place"
            );
        }
        is_held
    }
}

fn release<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Starts a thread of its own, because the runtime's threads may be the ones that hang. Returns whether it started.
fn watch(pool: Weak<Pool>) -> bool {
    let watchdog = std::thread::Builder::new().name("handler-watchdog".to_owned());
    let started = watchdog.spawn(move || {
        let mut idle_looks = 0;
        loop {
            std::thread::sleep(WATCH_PAUSE);
            let Some(pool) = pool.upgrade() else { return };
            idle_looks = if pool.look() { 0 } else { idle_looks + 1 };
            if idle_looks > IDLE_LOOKS_MAX {
                let mut state = pool.lock();
                if state.held.is_empty() {
                    state.is_watched = false;
                    return;
                }
                idle_looks = 0;
            }
        }
    });
    started.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn work(tool: &str, session: &str, time_ms: u64) -> Work {
        Work {
            tool: ToolId::parse(tool).unwrap(),
            session: SessionId::new(session),
            tenant: TenantId::default(),
            time: Duration::from_millis(time_ms),
        }
    }

    const LIMITS: ThreadLimits = ThreadLimits {
        threads_max: 4,
        tool_threads_max: 2,
        session_threads_max: 2,
        tenant_threads_max: 4,
        written_off_max: 8,
    };

    /// Blocks its thread until the sender is dropped or sends something.
    fn hang() -> (mpsc::Sender<()>, impl Future<Output = ()> + Send + 'static) {
        let (release, gate) = mpsc::channel();
        let hang = async move {
            let _ = gate.recv();
        };
        (release, hang)
    }

    #[tokio::test]
    async fn hung_handlers_starve_their_own_tool_and_session_alone() {
        let threads = HandlerThreads::new(LIMITS);
        let mut hung = Vec::new();
        for session in 0..200 {
            let (release, hang) = hang();
            let work = work("hangs", &format!("s-{session}"), 60_000);
            hung.push((release, threads.run(work, hang).unwrap()));
        }
        let other = threads.run(work("other", "s-1", 60_000), async { 7 });
        assert_eq!(other.unwrap().await.unwrap().unwrap(), 7);
        assert_eq!(
            threads.0.lock().of_tool[&ToolId::parse("hangs").unwrap()],
            2
        );
        // Once the hung calls are released, all of them have their turn.
        for (release, running) in hung {
            drop(release);
            running.await.unwrap().unwrap();
        }
        // A thread is returned after its result.
        while !threads.0.lock().held.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_thread_that_is_not_given_back_is_written_off_and_replaced() {
        let limits = ThreadLimits {
            threads_max: 2,
            ..LIMITS
        };
        let threads = HandlerThreads::new(limits);
        let mut hung = Vec::new();
        for _ in 0..2 {
            let (release, hang) = hang();
            hung.push((release, threads.run(work("hangs", "s-1", 1), hang).unwrap()));
        }
        // Both threads are held, so that this one waits for another in their place.
        let other = threads.run(work("other", "s-2", 60_000), async { 7 });
        assert_eq!(other.unwrap().await.unwrap().unwrap(), 7);
        while threads.0.lock().written_off < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            threads.run(work("hangs", "s-3", 1), async {}).err(),
            Some(Exhausted)
        );
        assert_eq!(
            threads.run(work("other", "s-1", 1), async {}).err(),
            Some(Exhausted)
        );
        for (release, running) in hung {
            drop(release);
            running.await.unwrap().unwrap();
        }
        while threads.0.lock().written_off > 0 {
            tokio::task::yield_now().await;
        }
        let again = threads.run(work("hangs", "s-1", 60_000), async { 8 });
        assert_eq!(again.unwrap().await.unwrap().unwrap(), 8);
    }

    #[tokio::test]
    async fn what_waits_holds_no_thread_and_is_dropped_where_it_is_given_up() {
        let threads = HandlerThreads::new(LIMITS);
        // The first to wait goes on first, so all are released at once.
        let (waits, mut begun) = (Arc::new(tokio::sync::Semaphore::new(0)), Vec::new());
        for _ in 0..50 {
            let waits = waits.clone();
            let waiting = async move { waits.acquire().await.unwrap().forget() };
            begun.push(threads.run(work("waits", "s-1", 60_000), waiting).unwrap());
        }
        let other = threads.run(work("waits", "s-1", 60_000), async { 7 });
        assert_eq!(other.unwrap().await.unwrap().unwrap(), 7);
        let (held, dropped) = oneshot::channel::<()>();
        let forever = async move {
            std::future::pending::<()>().await;
            drop(held);
        };
        drop(threads.run(work("waits", "s-1", 60_000), forever).unwrap());
        assert!(dropped.await.is_err());
        waits.add_permits(begun.len());
        for running in begun {
            running.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_panic_costs_no_thread() {
        let threads = HandlerThreads::new(LIMITS);
        for _ in 0..20 {
            let broken = threads.run(work("breaks", "s-1", 60_000), async { panic!("boom") });
            assert!(broken.unwrap().await.unwrap().is_err());
        }
    }
}
