//! Sessions of clients that begin with a handshake, and the requests that are open in each: a client may take one back, and answers
//! what it is asked meanwhile. Owns the bounds of both; knows no method.

use super::message::{Answer, Elicitation, RequestId};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use windlass_contract::id::{ClientId, TenantId};
use windlass_runtime::caller::Caller;
use windlass_runtime::ids::{self, NoRandomness};

/// Requests of one client that may be open at a time.
const OPEN_MAX: usize = 256;

/// How many sessions there may be, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    pub(crate) sessions_max: usize,
    /// Without a request.
    pub(crate) idle: Duration,
}

/// Whose a session is.
type Owner = (TenantId, ClientId);

/// A client's answer; `None` for an error.
type Given = Option<Map<String, Value>>;

/// The sessions of one server, by their ids.
pub(crate) struct Sessions {
    held: Mutex<BTreeMap<String, Arc<McpSession>>>,
    limits: SessionLimits,
}

/// One of them.
pub(crate) struct McpSession {
    owner: Owner,
    pub(crate) elicitation: Elicitation,
    used: Mutex<Instant>,
    pub(crate) open: OpenRequests,
    /// This server's open requests, and the channel for each answer.
    asked: Mutex<BTreeMap<RequestId, oneshot::Sender<Given>>>,
    next: AtomicU64,
}

/// The requests of one client that are open.
#[derive(Default)]
pub(crate) struct OpenRequests(Mutex<BTreeMap<RequestId, watch::Sender<bool>>>);

/// Says that nobody waits for an answer any more, at the latest when it is dropped.
pub(crate) struct Leaving(watch::Sender<bool>);

impl Leaving {
    pub(crate) fn new() -> (Self, watch::Receiver<bool>) {
        let (leaving, left) = watch::channel(false);
        (Self(leaving), left)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

impl OpenRequests {
    /// Opens a request; `None` where its id is in use, or as many are open as may be.
    pub(crate) fn open(&self, id: &RequestId, leaving: &Leaving) -> Option<()> {
        let mut open = lock(&self.0);
        if open.len() >= OPEN_MAX || open.contains_key(id) {
            return None;
        }
        open.insert(id.clone(), leaving.0.clone());
        Some(())
    }

    pub(crate) fn close(&self, id: &RequestId) {
        lock(&self.0).remove(id);
    }

    /// The client takes a request back. Its id stays in use until what was begun for it is over.
    pub(crate) fn cancel(&self, params: &Map<String, Value>) {
        let id = params.get("requestId").and_then(RequestId::read);
        if let Some(leaving) = id.and_then(|id| lock(&self.0).get(&id).cloned()) {
            leaving.send_replace(true);
        }
    }

    /// Whether nothing is open.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// The client has stopped waiting for all of them.
    pub(crate) fn cancel_all(&self) {
        for leaving in std::mem::take(&mut *lock(&self.0)).into_values() {
            leaving.send_replace(true);
        }
    }
}

impl McpSession {
    pub(crate) fn new(caller: &Caller, elicitation: Elicitation) -> Self {
        Self {
            owner: owner(caller),
            elicitation,
            used: Mutex::new(Instant::now()),
            open: OpenRequests::default(),
            asked: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    /// Has the client asked something: the id under which it answers, and where the answer comes.
    pub(super) fn asks(&self) -> (RequestId, oneshot::Receiver<Given>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = RequestId::Text(format!("windlass-{number}"));
        let (sender, receiver) = oneshot::channel();
        let mut asked = lock(&self.asked);
        // Requests whose receiver is gone are forgotten.
        asked.retain(|_, waiting| !waiting.is_closed());
        asked.insert(id.clone(), sender);
        (id, receiver)
    }

    /// Takes the client's answer. Returns whether the client was asked this, and the asker still waits.
    pub(crate) fn answered(&self, answer: Answer) -> bool {
        let waiting = lock(&self.asked).remove(&answer.id);
        waiting.is_some_and(|waiting| waiting.send(answer.result).is_ok())
    }

    /// Nothing comes from the client any more, so that nobody waits for its answers.
    pub(super) fn hears_nothing_more(&self) {
        lock(&self.asked).clear();
    }

    fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    fn quiet_since(&self) -> Instant {
        *lock(&self.used)
    }
}

impl Sessions {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        Self {
            held: Mutex::default(),
            limits,
        }
    }

    /// Begins a session, and gives its id.
    pub(crate) fn begin(&self, session: McpSession) -> Result<String, NoRandomness> {
        let id = ids::random_secret()?;
        let mut held = lock(&self.held);
        self.forget_idle(&mut held);
        if held.len() >= self.limits.sessions_max {
            make_room(&mut held, &session.owner);
        }
        held.insert(id.clone(), Arc::new(session));
        Ok(id)
    }

    /// The session of this id, if it is the caller's.
    pub(crate) fn find(&self, id: &str, caller: &Caller) -> Option<Arc<McpSession>> {
        let mut held = lock(&self.held);
        self.forget_idle(&mut held);
        let session = held.get(id).filter(|held| held.owner == owner(caller))?;
        session.touch();
        Some(session.clone())
    }

    /// Ends a session. Whether it was the caller's.
    pub(crate) fn end(&self, id: &str, caller: &Caller) -> bool {
        let Some(session) = self.find(id, caller) else {
            return false;
        };
        lock(&self.held).remove(id);
        session.open.cancel_all();
        true
    }

    fn forget_idle(&self, held: &mut BTreeMap<String, Arc<McpSession>>) {
        let idle = self.limits.idle;
        held.retain(|_, session| {
            session.quiet_since().elapsed() < idle || !session.open.is_empty()
        });
    }
}

/// Takes away the quietest session of whoever has the most; of many, of the one who wants another.
fn make_room(held: &mut BTreeMap<String, Arc<McpSession>>, wants: &Owner) {
    let mut counts: BTreeMap<&Owner, usize> = BTreeMap::new();
    for session in held.values() {
        *counts.entry(&session.owner).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(owner, count)| (*count, *owner == wants));
    let Some(owner) = most.map(|(owner, _)| owner.clone()) else {
        return;
    };
    let of_owner = held.iter().filter(|(_, session)| session.owner == owner);
    let quietest = of_owner.min_by_key(|(_, session)| session.quiet_since());
    if let Some(id) = quietest.map(|(id, _)| id.clone())
        && let Some(session) = held.remove(&id)
    {
        session.open.cancel_all();
    }
}

fn owner(caller: &Caller) -> Owner {
    (caller.tenant.clone(), caller.client_id.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(id: &str) -> Caller {
        Caller::known(ClientId::new(id))
    }

    fn sessions(sessions_max: usize, idle: Duration) -> Sessions {
        Sessions::new(SessionLimits { sessions_max, idle })
    }

    fn begin(sessions: &Sessions, id: &str) -> String {
        let session = McpSession::new(&caller(id), Elicitation::default());
        sessions.begin(session).unwrap()
    }

    #[tokio::test]
    async fn a_session_is_its_callers_alone_and_one_more_costs_whoever_has_the_most() {
        let sessions = sessions(3, Duration::from_secs(60));
        let ada = begin(&sessions, "ada");
        let eve: Vec<String> = (0..3).map(|_| begin(&sessions, "eve")).collect();
        assert!(sessions.find(&ada, &caller("ada")).is_some());
        assert!(sessions.find(&ada, &caller("eve")).is_none());
        assert!(
            sessions.find(&eve[0], &caller("eve")).is_none(),
            "it was the quietest"
        );
        assert!(sessions.find(&eve[2], &caller("eve")).is_some());
        assert!(!sessions.end(&ada, &caller("eve")));
        assert!(sessions.end(&ada, &caller("ada")));
        assert!(sessions.find(&ada, &caller("ada")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_forgotten_when_it_is_quiet_for_too_long() {
        let sessions = sessions(3, Duration::from_secs(60));
        let id = begin(&sessions, "ada");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(sessions.find(&id, &caller("ada")).is_some());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(sessions.find(&id, &caller("ada")).is_none());
    }

    #[test]
    fn a_request_is_taken_back_by_its_id_and_an_id_is_used_once_at_a_time() {
        let open = OpenRequests::default();
        let id = RequestId::Number(7);
        let (leaving, left) = Leaving::new();
        assert!(open.open(&id, &leaving).is_some());
        assert!(open.open(&id, &leaving).is_none());
        let params = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        open.cancel(&params(r#"{"requestId":8}"#));
        assert!(!*left.borrow());
        open.cancel(&params(r#"{"requestId":7}"#));
        assert!(*left.borrow());
        assert!(open.open(&id, &leaving).is_none(), "it still runs");
        open.close(&id);
        assert!(open.is_empty() && open.open(&id, &leaving).is_some());
    }
}
