//! The assignment of calls to a worker's children, the waiting calls, and the times at which a child is started, drained or
//! ended. Knows no process: lines go into queues, and children to start are returned.

use super::wire::{self, RpcError};
use super::{NotStarted, WorkerLimits};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::{Cause, Context, Failure, HandlerResult, Report};

/// Ended calls of a child whose arguments are still looked for in its log lines.
const RECENT_MAX: usize = 16;
/// Lines that wait for a child to read them. A child that reads none is ended.
const LINES_MAX: usize = 4_096;
/// The longest pause before a new child that calls wait for; in a longer one they fail at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// The end of a child.
pub(super) enum End {
    /// The server ended it.
    Stopped,
    /// The process could not be started.
    NotStarted(String),
    Failed(String),
}

/// A call on its way to a child, or in one.
pub(super) struct Call {
    pub(super) context: Context,
    pub(super) arguments: Arc<Arguments>,
    pub(super) answer: oneshot::Sender<HandlerResult>,
    /// The time at which the call's time is up.
    pub(super) deadline: Instant,
}

impl Call {
    fn fail(self, failure: Failure) {
        // The caller may have gone.
        let _ = self.answer.send(Err(failure));
    }
}

struct Waiting {
    id: u64,
    tail: Vec<u8>,
    call: Call,
}

struct OpenCall {
    call: Call,
    is_cancelled: bool,
    gives_up: Instant,
    requests: Vec<AbortHandle>,
}

impl OpenCall {
    fn end(self, result: HandlerResult) {
        self.requests.iter().for_each(AbortHandle::abort);
        let _ = self.call.answer.send(result);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready,
    /// The child has a call that does not end. It gets no further calls, and is ended when the others have ended.
    Draining,
}

struct Child {
    number: u64,
    phase: Phase,
    has_answered: bool,
    input: mpsc::Sender<Vec<u8>>,
    calls: BTreeMap<u64, OpenCall>,
    /// The server's requests that are no calls.
    requests: BTreeMap<u64, oneshot::Sender<Result<Box<RawValue>, RpcError>>>,
    recent: VecDeque<Arc<Arguments>>,
    /// The time at which the child's task looks for calls that do not end.
    looks_at: Option<Instant>,
    signals: Arc<Signals>,
}

/// The signals that wake a child's task.
#[derive(Default)]
pub(super) struct Signals {
    /// An earlier time to look for calls that do not end.
    pub(super) alarm: Notify,
    pub(super) stop: Notify,
}

/// A child that is to be started.
pub(super) struct Seed {
    pub(super) number: u64,
    pub(super) input: mpsc::Receiver<Vec<u8>>,
    pub(super) signals: Arc<Signals>,
}

pub(super) struct Pool {
    limits: WorkerLimits,
    children: Vec<Child>,
    waiting: VecDeque<Waiting>,
    last_id: u64,
    last_child: u64,
    /// Children in a row that ended before they had answered anything.
    failures: u32,
    /// The time before which no child is started.
    not_before: Option<Instant>,
    is_closed: bool,
}

impl Pool {
    pub(super) fn new(limits: WorkerLimits) -> Self {
        Self {
            limits,
            children: Vec::new(),
            waiting: VecDeque::new(),
            last_id: 0,
            last_child: 0,
            failures: 0,
            not_before: None,
            is_closed: false,
        }
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Takes a call on; [`Self::assign`] finds it a child.
    pub(super) fn submit(&mut self, tail: Vec<u8>, call: Call, now: Instant) -> u64 {
        let id = self.new_id();
        let refusal = if self.is_closed {
            Some(NotStarted::Closed)
        } else if self.waiting.len() >= self.limits.waiting_max {
            Some(NotStarted::Busy)
        } else if self.pause(now) > PATIENCE && self.living() == 0 {
            Some(NotStarted::Broken(self.pause(now)))
        } else {
            None
        };
        match refusal {
            Some(refusal) => call.fail(refusal.failure()),
            None => self.waiting.push_back(Waiting { id, tail, call }),
        }
        id
    }

    /// The time for which no child may be started.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        let until = self.not_before.unwrap_or(now);
        until.saturating_duration_since(now)
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn living(&self) -> usize {
        let living = |child: &&Child| child.phase != Phase::Draining;
        self.children.iter().filter(living).count()
    }

    /// Gives waiting calls to children that have room, the first one first, so that the others stay free as long as they can.
    /// Returns the children that are to be started now.
    pub(super) fn assign(&mut self, now: Instant) -> Vec<Seed> {
        let concurrency = self.limits.concurrency;
        let has_room = |child: &&mut Child| {
            child.phase == Phase::Ready
                && child.calls.len() < concurrency
                && !child.input.is_closed()
        };
        while !self.waiting.is_empty() {
            let Some(child) = self.children.iter_mut().find(has_room) else {
                break;
            };
            let Some(Waiting { id, tail, call }) = self.waiting.pop_front() else {
                break;
            };
            if call.deadline <= now || call.context.cancellation.is_cancelled() {
                call.fail(NotStarted::Late.failure());
                continue;
            }
            match child.input.try_send(wire::request(id, &tail)) {
                Ok(()) => child.open(id, call, self.limits.stuck_after),
                Err(_) => {
                    child.phase = Phase::Draining;
                    child.signals.stop.notify_one();
                    self.waiting.push_front(Waiting { id, tail, call });
                }
            }
        }
        self.seeds(now)
    }

    fn seeds(&mut self, now: Instant) -> Vec<Seed> {
        let mut seeds = Vec::new();
        if self.is_closed || !self.pause(now).is_zero() {
            return seeds;
        }
        while self.living() < self.limits.children {
            self.last_child += 1;
            let (sender, receiver) = mpsc::channel(LINES_MAX);
            let signals: Arc<Signals> = Arc::default();
            self.children.push(Child {
                number: self.last_child,
                phase: Phase::Starting,
                has_answered: false,
                input: sender,
                calls: BTreeMap::new(),
                requests: BTreeMap::new(),
                recent: VecDeque::new(),
                looks_at: None,
                signals: signals.clone(),
            });
            seeds.push(Seed {
                number: self.last_child,
                input: receiver,
                signals,
            });
        }
        seeds
    }

    fn child(&mut self, number: u64) -> Option<&mut Child> {
        self.children
            .iter_mut()
            .find(|child| child.number == number)
    }

    /// Sends a request that is no call to one child. `None` if the child is gone, or reads nothing.
    pub(super) fn request(
        &mut self,
        number: u64,
        tail: &[u8],
    ) -> Option<oneshot::Receiver<Result<Box<RawValue>, RpcError>>> {
        let id = self.new_id();
        let child = self.child(number)?;
        let (sender, receiver) = oneshot::channel();
        child.input.try_send(wire::request(id, tail)).ok()?;
        child.requests.insert(id, sender);
        Some(receiver)
    }

    /// Notes that the child may get calls.
    pub(super) fn ready(&mut self, number: u64) {
        if let Some(child) = self.child(number)
            && child.phase == Phase::Starting
        {
            child.phase = Phase::Ready;
        }
    }

    /// Puts a line into a child's queue. A child whose queue is full does not read, and is ended.
    pub(super) fn send(&mut self, number: u64, line: Vec<u8>) {
        if let Some(child) = self.child(number)
            && child.input.try_send(line).is_err()
        {
            child.signals.stop.notify_one();
        }
    }

    /// Takes a child's answer. Returns false for an answer without an open request.
    pub(super) fn answered(
        &mut self,
        number: u64,
        id: u64,
        answer: Result<&RawValue, RpcError>,
        read: impl FnOnce(Result<&RawValue, RpcError>) -> HandlerResult,
    ) -> bool {
        let Some(child) = self.child(number) else {
            return false;
        };
        if let Some(request) = child.requests.remove(&id) {
            let _ = request.send(answer.map(ToOwned::to_owned));
            return true;
        }
        match child.calls.contains_key(&id) {
            true => self.settled(number, id, read(answer)),
            false => false,
        }
    }

    /// Ends a call of a child with the child's result. Returns false if the child has no such call.
    pub(super) fn settled(&mut self, number: u64, id: u64, result: HandlerResult) -> bool {
        let Some(child) = self.child(number) else {
            return false;
        };
        let Some(open) = child.calls.remove(&id) else {
            return false;
        };
        child.has_answered = true;
        child.recent.push_back(open.call.arguments.clone());
        if child.recent.len() > RECENT_MAX {
            child.recent.pop_front();
        }
        open.end(result);
        if child.phase == Phase::Draining && child.calls.is_empty() {
            child.signals.stop.notify_one();
        }
        self.failures = 0;
        true
    }

    /// The call that a child has open, if it has only one.
    pub(super) fn only_call(&mut self, number: u64) -> Option<u64> {
        let mut calls = self.child(number)?.calls.keys();
        calls.next().copied().filter(|_| calls.next().is_none())
    }

    /// The context of an open call of a child, for requests within it.
    pub(super) fn context(&mut self, number: u64, id: u64) -> Option<Context> {
        let open = self.child(number)?.calls.get(&id)?;
        Some(open.call.context.clone())
    }

    /// Notes a request within a call, so that it ends with the call. Returns false if the call has ended already.
    pub(super) fn add_request(&mut self, number: u64, id: u64, request: AbortHandle) -> bool {
        let open = self
            .child(number)
            .and_then(|child| child.calls.get_mut(&id));
        let Some(open) = open else {
            return false;
        };
        open.requests.retain(|request| !request.is_finished());
        open.requests.push(request);
        true
    }

    /// The number of open requests within a call.
    pub(super) fn requests_of(&mut self, number: u64, id: u64) -> usize {
        let open = self.child(number).and_then(|child| child.calls.get(&id));
        let running = |request: &&AbortHandle| !request.is_finished();
        open.map_or(0, |open| open.requests.iter().filter(running).count())
    }

    /// Cancels a call that is no longer needed, or whose time is up. A waiting call is not begun. A running call gets the
    /// cancellation, and may end in its own way.
    pub(super) fn take_back(&mut self, id: u64) {
        if self.refuse_waiting(id) {
            return;
        }
        for child in &mut self.children {
            if let Some(open) = child.calls.get_mut(&id) {
                if !std::mem::replace(&mut open.is_cancelled, true) {
                    // A child that reads nothing ends when the call's time is up.
                    let _ = child.input.try_send(wire::cancel(id));
                }
                return;
            }
        }
    }

    /// Refuses a call that still waits for room. Returns false if it has begun or ended.
    pub(super) fn refuse_waiting(&mut self, id: u64) -> bool {
        let position = self.waiting.iter().position(|waiting| waiting.id == id);
        let Some(waiting) = position.and_then(|position| self.waiting.remove(position)) else {
            return false;
        };
        waiting.call.fail(NotStarted::Late.failure());
        true
    }

    /// Gives up waiting for a call. The call keeps its place in the child until it has ended there.
    pub(super) fn abandon(&mut self, id: u64, now: Instant) {
        self.take_back(id);
        let gives_up = now + self.limits.stuck_after;
        for child in &mut self.children {
            if let Some(open) = child.calls.get_mut(&id) {
                open.gives_up = open.gives_up.min(gives_up);
                open.requests.iter().for_each(AbortHandle::abort);
                let gives_up = open.gives_up;
                child.look_at(gives_up);
                return;
            }
        }
    }

    /// Gives up the calls of a child that did not end in time, and drains the child. Returns the time of the next look.
    pub(super) fn give_up(&mut self, number: u64, now: Instant) -> Option<Instant> {
        let child = self.child(number)?;
        let stuck: Vec<u64> = child
            .calls
            .iter()
            .filter_map(|(id, open)| (open.gives_up <= now).then_some(*id))
            .collect();
        for id in &stuck {
            if let Some(open) = child.calls.remove(id) {
                open.end(Err(broken("the worker did not answer in time")));
            }
        }
        if !stuck.is_empty() {
            child.phase = Phase::Draining;
        }
        if child.phase == Phase::Draining && child.calls.is_empty() {
            child.signals.stop.notify_one();
        }
        child.looks_at = child.calls.values().map(|open| open.gives_up).min();
        let next = child.looks_at;
        self.bound_draining();
        next
    }

    /// Ends the oldest draining child if more children drain than serve.
    fn bound_draining(&mut self) {
        let is_draining = |child: &&Child| child.phase == Phase::Draining;
        let draining = self.children.iter().filter(is_draining).count();
        if draining > self.limits.children
            && let Some(oldest) = self.children.iter().find(is_draining)
        {
            oldest.signals.stop.notify_one();
        }
    }

    /// The arguments of a child's open and recent calls.
    pub(super) fn arguments(&mut self, number: u64) -> Vec<Arc<Arguments>> {
        let Some(child) = self.child(number) else {
            return Vec::new();
        };
        let open = child.calls.values().map(|open| &open.call.arguments);
        open.chain(&child.recent).cloned().collect()
    }

    /// Notes that a child has ended, or could not be started. Its calls end with it.
    pub(super) fn gone(&mut self, number: u64, end: &End, now: Instant) {
        let Some(position) = self
            .children
            .iter()
            .position(|child| child.number == number)
        else {
            return;
        };
        let child = self.children.remove(position);
        let problem = match end {
            End::Stopped => "the worker was ended",
            End::NotStarted(problem) | End::Failed(problem) => problem,
        };
        for open in child.calls.into_values() {
            open.end(Err(broken(problem)));
        }
        if child.phase == Phase::Draining {
            return;
        }
        self.failures = match child.has_answered {
            true => 1,
            false => self.failures.saturating_add(1),
        };
        let doublings = (self.failures - 1).min(16);
        let pause = (self.limits.pause_min * (1 << doublings)).min(self.limits.pause_max);
        self.not_before = Some(now + pause);
        let is_hopeless = pause > PATIENCE || matches!(end, End::NotStarted(_));
        if is_hopeless && self.living() == 0 {
            for waiting in std::mem::take(&mut self.waiting) {
                waiting.call.fail(NotStarted::Broken(pause).failure());
            }
        }
    }

    /// Ends all children and calls.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        for waiting in std::mem::take(&mut self.waiting) {
            waiting.call.fail(NotStarted::Closed.failure());
        }
        for child in &self.children {
            child.signals.stop.notify_one();
        }
    }
}

impl Child {
    fn open(&mut self, id: u64, call: Call, stuck_after: Duration) {
        let gives_up = call.deadline + stuck_after;
        self.calls.insert(
            id,
            OpenCall {
                call,
                is_cancelled: false,
                gives_up,
                requests: Vec::new(),
            },
        );
        self.look_at(gives_up);
    }

    fn look_at(&mut self, time: Instant) {
        if self.looks_at.is_none_or(|looks_at| time < looks_at) {
            self.looks_at = Some(time);
            self.signals.alarm.notify_one();
        }
    }
}

impl NotStarted {
    /// The failure of a call of which nothing was done. The ledger may record that.
    pub(super) fn failure(&self) -> Failure {
        let (kind, retry_after) = self.facts();
        Report {
            partial_side_effects: Some(false),
            retry_after_ms: retry_after
                .map(|pause| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)),
            ..Report::new(kind, self.to_string())
        }
        .into()
    }
}

/// The failure of a call whose worker broke. The outcome of its work is unknown.
pub(super) fn broken(problem: &str) -> Failure {
    Failure {
        cause: Cause::Broken(problem.to_owned()),
        intents: Vec::new(),
    }
}
