//! The way back into a session of this process: who may take its leg over gets in, and what the session holds is given up when it
//! leaves it. Knows no message and no policy; how long a session waits is the core's decision.

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
    /// As the store has it, but for what it needs in another process.
    pub(super) leg: Leg,
    pub(super) conversation: ConversationRef,
    state: Mutex<LiveState>,
}

#[derive(Default)]
struct LiveState {
    client: Option<Box<ClientSide>>,
    /// The session has nobody to talk to.
    is_waiting: bool,
    /// Somebody begins the conversation anew.
    is_closed: bool,
    waker: Option<Waker>,
    held: Option<Held>,
}

/// What a session has while it lives.
pub(super) struct Held {
    pub(super) slot: SessionSlot,
    /// Its place among the sessions of its conversation.
    pub(super) _lease: Box<dyn Send>,
}

/// What has come for a session.
pub(super) enum Visit {
    /// A client that may take the leg over.
    Client(Box<ClientSide>),
    /// The session is to end: its conversation goes on in another.
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

    /// Brings a client to the session. A client that came before it and was not seen yet is gone.
    pub(super) fn enter(&self, client: Box<ClientSide>) {
        let mut state = self.lock();
        state.client = Some(client);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Whether anything came since the last question; wakes the task when something does.
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

    /// Whether the session has lost its client, and waits for another.
    pub(super) fn set_waiting(&self, is_waiting: bool) {
        self.lock().is_waiting = is_waiting;
    }

    /// Gives up what the session has, if it still has it. To be dropped where nothing is locked: a lease has locks of its own.
    pub(super) fn release(&self) -> Option<Held> {
        self.lock().held.take()
    }

    /// Ends a session that nobody is connected to, so that its conversation can begin anew; whether it was such a one.
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
    /// A client is about to go on with it; who waits for that hears of its end.
    Resuming(watch::Receiver<()>),
}

/// A leg's place among them, until it is dropped.
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
        // What the leg has is dropped where nothing is locked.
        drop(entries);
        drop(own);
    }
}

/// What a token leads to in this process.
pub(super) enum Known<'r> {
    Live(Arc<LiveLeg>),
    /// Another connection is about to go on with the leg. Ready when that has come about, or has not.
    Resuming(watch::Receiver<()>),
    /// Nothing: the leg is this caller's to resume, and nobody else's meanwhile.
    Free(Resuming<'r>),
}

/// The right to go on with a leg whose process has ended, until it is dropped.
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

    /// Makes room for a new session of a conversation, where its client has left the one before: what that one had is the new
    /// one's to have.
    pub(super) fn clear(&self, conversation: &ConversationRef) -> Option<Held> {
        let is_of_it = |entry: &Entry| match entry {
            Entry::Live(live) if live.conversation == *conversation => Some(live.clone()),
            Entry::Live(_) | Entry::Resuming(_) => None,
        };
        let left = self.lock().values().find_map(is_of_it);
        left.filter(|live| live.close())?.release()
    }
}
