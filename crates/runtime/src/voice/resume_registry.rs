//! The way back into a session of this process: a client that may take the leg over gets in, and the session's holdings are
//! released when it leaves. Knows no message and no policy; the core decides how long a session waits.

use super::VoiceService;
use super::client_side::ClientSide;
use super::session_slot::SessionSlot;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use tokio::sync::watch;
use windlass_store::{ConversationRef, Hash, Leg};

/// A leg that is live in this process.
pub(super) struct LiveLeg {
    /// The leg as the store has it, without the state for another process.
    pub(super) leg: Leg,
    pub(super) conversation: ConversationRef,
    state: Mutex<LiveState>,
}

#[derive(Default)]
struct LiveState {
    client: Option<Box<ClientSide>>,
    /// Whether the session has no client.
    is_waiting: bool,
    /// Whether another session begins the conversation anew.
    is_closed: bool,
    waker: Option<Waker>,
    held: Option<Held>,
}

/// The holdings of a running session.
pub(super) struct Held {
    pub(super) slot: SessionSlot,
    /// The session's place among the sessions of its conversation.
    pub(super) _lease: Box<dyn Send>,
}

/// A visit to a session.
pub(super) enum Visit {
    /// A client that may take the leg over.
    Client(Box<ClientSide>),
    /// The session has to end: its conversation goes on in another.
    Closed,
}

impl LiveLeg {
    pub(super) fn new(leg: Leg, conversation: ConversationRef, held: Held) -> Arc<Self> {
        Arc::new(Self {
            leg,
            conversation,
            state: Mutex::new(LiveState {
                held: Some(held),
                ..LiveState::default()
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a client to the session. An earlier client that was not seen yet is dropped.
    pub(super) fn enter(&self, client: Box<ClientSide>) {
        let mut state = self.lock();
        state.client = Some(client);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// The visit since the last call, if there is one; wakes the task when one comes.
    pub(super) fn visit(&self, context: &mut Context<'_>) -> Option<Visit> {
        let mut state = self.lock();
        if let Some(client) = state.client.take() {
            return Some(Visit::Client(client));
        }
        if std::mem::take(&mut state.is_closed) {
            return Some(Visit::Closed);
        }
        let is_registered = state
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()));
        if !is_registered {
            state.waker = Some(context.waker().clone());
        }
        None
    }

    /// Notes whether the session has lost its client, and waits for another.
    pub(super) fn set_waiting(&self, is_waiting: bool) {
        self.lock().is_waiting = is_waiting;
    }

    /// Releases the session's holdings, if it still has them. Drop them without a lock held: a lease has locks of its own.
    pub(super) fn release(&self) -> Option<Held> {
        self.lock().held.take()
    }

    /// Ends a session without a client, so that its conversation can begin anew. Returns whether it was without one.
    fn close(&self) -> bool {
        let mut state = self.lock();
        if !state.is_waiting || state.client.is_some() {
            return false;
        }
        state.is_closed = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        true
    }
}

/// The legs of this process that can be resumed, by the hashes of their tokens.
#[derive(Default)]
pub(super) struct ResumeRegistry(Mutex<HashMap<Hash, Entry>>);

enum Entry {
    Live(Arc<LiveLeg>),
    /// A client is about to resume the leg. Other clients of the leg wait for the end of that.
    Resuming(watch::Receiver<()>),
}

/// A leg's place in the registry, until it is dropped.
pub(super) struct Registration {
    service: Arc<VoiceService>,
    live: Arc<LiveLeg>,
}

impl Registration {
    pub(super) fn new(service: &Arc<VoiceService>, live: &Arc<LiveLeg>) -> Self {
        let entry = Entry::Live(live.clone());
        let mut entries = service.resumable.lock();
        entries.insert(live.leg.resume_token, entry);
        drop(entries);
        Self {
            service: service.clone(),
            live: live.clone(),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut entries = self.service.resumable.lock();
        let token = &self.live.leg.resume_token;
        let is_own =
            |entry: &Entry| matches!(entry, Entry::Live(live) if Arc::ptr_eq(live, &self.live));
        let own = match entries.get(token).is_some_and(is_own) {
            true => entries.remove(token),
            false => None,
        };
        // The leg's holdings are dropped without a lock held.
        drop(entries);
        drop(own);
    }
}

/// The state of a token in this process.
pub(super) enum Known<'r> {
    Live(Arc<LiveLeg>),
    /// Another connection is about to resume the leg. Ready when it has succeeded or failed.
    Resuming(watch::Receiver<()>),
    /// Unknown here: this caller alone may resume the leg.
    Free(Resuming<'r>),
}

/// The right to resume a leg whose process has ended, until it is dropped.
pub(super) struct Resuming<'r> {
    registry: &'r ResumeRegistry,
    token_hash: Hash,
    _until: watch::Sender<()>,
}

impl Drop for Resuming<'_> {
    fn drop(&mut self) {
        let mut entries = self.registry.lock();
        if matches!(entries.get(&self.token_hash), Some(Entry::Resuming(_))) {
            entries.remove(&self.token_hash);
        }
    }
}

impl ResumeRegistry {
    fn lock(&self) -> MutexGuard<'_, HashMap<Hash, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, token_hash: &Hash) -> Known<'_> {
        let mut entries = self.lock();
        match entries.get(token_hash) {
            Some(Entry::Live(live)) => Known::Live(live.clone()),
            Some(Entry::Resuming(end)) => Known::Resuming(end.clone()),
            None => {
                let (until, end) = watch::channel(());
                entries.insert(*token_hash, Entry::Resuming(end));
                Known::Free(Resuming {
                    registry: self,
                    token_hash: *token_hash,
                    _until: until,
                })
            }
        }
    }

    /// Makes room for a new session of a conversation whose client has left the session before. The new session gets the old
    /// one's holdings.
    pub(super) fn clear(&self, conversation: &ConversationRef) -> Option<Held> {
        let is_of_it = |entry: &Entry| match entry {
            Entry::Live(live) if live.conversation == *conversation => Some(live.clone()),
            Entry::Live(_) | Entry::Resuming(_) => None,
        };
        let left = self.lock().values().find_map(is_of_it);
        left.filter(|live| live.close())?.release()
    }
}
