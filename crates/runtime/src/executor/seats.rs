//! The calls that wait at a time for other programs and services: a tool, a session and a tenant have a share of seats each, and
//! further calls wait for their turn. Knows no handler.

use super::threads::{ThreadLimits, Work};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use windlass_contract::id::{SessionId, TenantId, ToolId};

/// Calls of one tool that wait for a seat. A further call is refused at once.
const WAITING_MAX: usize = 1_000;

/// The seats of a process.
#[derive(Debug)]
pub(super) struct Seats {
    limits: ThreadLimits,
    state: Mutex<SeatState>,
}

#[derive(Debug, Default)]
struct SeatState {
    /// The waiting calls by tool, so that the tools take turns.
    waiting: BTreeMap<ToolId, VecDeque<Waiter>>,
    /// The tool whose turn was last.
    last: Option<ToolId>,
    of_tool: HashMap<ToolId, usize>,
    of_session: HashMap<SessionId, usize>,
    of_tenant: HashMap<TenantId, usize>,
}

#[derive(Debug)]
struct Waiter {
    work: Work,
    granted: oneshot::Sender<Seat>,
}

/// The right of a call to run. The seat is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    work: Work,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.seats.lock();
        release(&mut state.of_tool, &self.work.tool);
        release(&mut state.of_session, &self.work.session);
        release(&mut state.of_tenant, &self.work.tenant);
        let granted = self.seats.grant(&mut state);
        drop(state);
        // Seats are sent without the lock: the seat of a waiter that has left is dropped at once.
        for (waiter, seat) in granted {
            drop(waiter.send(seat));
        }
    }
}

impl Seats {
    pub(super) fn new(limits: ThreadLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, SeatState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a seat. `None` if too many calls wait already.
    pub(super) async fn take(self: &Arc<Self>, work: Work) -> Option<Seat> {
        let granted = {
            let mut state = self.lock();
            let waits = state.waiting.get(&work.tool).map_or(0, VecDeque::len);
            if waits == 0 && self.has_room(&state, &work) {
                return Some(self.seat(&mut state, work));
            }
            if waits >= WAITING_MAX {
                return None;
            }
            let (sender, granted) = oneshot::channel();
            let waiter = Waiter {
                work: work.clone(),
                granted: sender,
            };
            state
                .waiting
                .entry(work.tool)
                .or_default()
                .push_back(waiter);
            granted
        };
        granted.await.ok()
    }

    fn has_room(&self, state: &SeatState, work: &Work) -> bool {
        fn held<K: Hash + Eq>(counts: &HashMap<K, usize>, key: &K) -> usize {
            counts.get(key).copied().unwrap_or_default()
        }
        held(&state.of_tool, &work.tool) < self.limits.tool_threads_max
            && held(&state.of_session, &work.session) < self.limits.session_threads_max
            && held(&state.of_tenant, &work.tenant) < self.limits.tenant_threads_max
    }

    fn seat(self: &Arc<Self>, state: &mut SeatState, work: Work) -> Seat {
        *state.of_tool.entry(work.tool.clone()).or_default() += 1;
        *state.of_session.entry(work.session.clone()).or_default() += 1;
        *state.of_tenant.entry(work.tenant.clone()).or_default() += 1;
        Seat {
            seats: self.clone(),
            work,
        }
    }

    /// Grants free seats to waiting calls, each tool in its turn.
    fn grant(self: &Arc<Self>, state: &mut SeatState) -> Vec<(oneshot::Sender<Seat>, Seat)> {
        let mut granted = Vec::new();
        while let Some(waiter) = self.next(state) {
            if waiter.granted.is_closed() {
                continue;
            }
            let seat = self.seat(state, waiter.work);
            granted.push((waiter.granted, seat));
        }
        granted
    }

    fn next(&self, state: &mut SeatState) -> Option<Waiter> {
        let behind = match state.last.clone() {
            Some(last) => (Bound::Excluded(last), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let ready = |(tool, queue): (&ToolId, &VecDeque<Waiter>)| {
            let may_run =
                |waiter: &Waiter| waiter.granted.is_closed() || self.has_room(state, &waiter.work);
            Some((tool.clone(), queue.iter().position(may_run)?))
        };
        let (tool, position) = state
            .waiting
            .range(behind)
            .find_map(ready)
            .or_else(|| state.waiting.iter().find_map(ready))?;
        let queue = state.waiting.get_mut(&tool)?;
        let waiter = queue.remove(position);
        if queue.is_empty() {
            state.waiting.remove(&tool);
        }
        state.last = Some(tool);
        waiter
    }
}

fn release<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::time::Duration;

    fn work(tool: &str, session: &str, tenant: &str) -> Work {
        Work {
            tool: ToolId::parse(tool).unwrap(),
            session: SessionId::new(session),
            tenant: TenantId::new(tenant),
            time: Duration::from_secs(60),
        }
    }

    fn seats() -> Arc<Seats> {
        Seats::new(ThreadLimits {
            tool_threads_max: 2,
            session_threads_max: 3,
            tenant_threads_max: 4,
            ..ThreadLimits::default()
        })
    }

    #[test]
    fn a_tool_a_session_and_a_tenant_have_a_share_each() {
        for (held, next, is_free) in [
            (
                [("a", "s1", "t1"), ("a", "s2", "t2")].as_slice(),
                ("a", "s3", "t3"),
                false,
            ),
            (
                &[("a", "s1", "t1"), ("a", "s2", "t2")],
                ("b", "s1", "t1"),
                true,
            ),
            (
                &[("a", "s1", "t1"), ("b", "s1", "t1"), ("c", "s1", "t1")],
                ("d", "s1", "t1"),
                false,
            ),
            (
                &[
                    ("a", "s1", "t1"),
                    ("b", "s2", "t1"),
                    ("c", "s3", "t1"),
                    ("d", "s4", "t1"),
                ],
                ("e", "s5", "t1"),
                false,
            ),
            (
                &[
                    ("a", "s1", "t1"),
                    ("b", "s2", "t1"),
                    ("c", "s3", "t1"),
                    ("d", "s4", "t1"),
                ],
                ("e", "s5", "t2"),
                true,
            ),
        ] {
            let seats = seats();
            let take = |(tool, session, tenant): (&str, &str, &str)| {
                seats.take(work(tool, session, tenant)).now_or_never()
            };
            let mut held: Vec<Seat> = held
                .iter()
                .map(|held| take(*held).unwrap().unwrap())
                .collect();
            assert_eq!(take(next).is_some(), is_free, "{next:?}");
            // A call that has stopped waiting takes no seat when one is free.
            held.clear();
            assert!(take(next).is_some());
            assert!(seats.lock().of_tool.is_empty(), "all are free");
        }
    }

    #[tokio::test]
    async fn who_waits_has_its_turn_and_a_flood_of_one_tool_holds_up_no_other() {
        let seats = seats();
        let mut flood: Vec<_> = (0..WAITING_MAX + 2)
            .map(|number| {
                let session = format!("s{number}");
                Box::pin(seats.take(work("flood", &session, &session)))
            })
            .collect();
        let mut running = Vec::new();
        for one in &mut flood {
            if let Some(seat) = one.as_mut().now_or_never() {
                running.push(seat.unwrap());
            }
        }
        assert_eq!(running.len(), 2);
        let refused = seats.take(work("flood", "late", "late")).now_or_never();
        assert!(refused.unwrap().is_none());
        // Another tool, and the same sessions, are served meanwhile.
        drop(
            seats
                .take(work("other", "s0", "s0"))
                .now_or_never()
                .unwrap(),
        );
        running.clear();
        let third = flood[2].as_mut().now_or_never();
        assert!(third.unwrap().is_some());
    }
}
