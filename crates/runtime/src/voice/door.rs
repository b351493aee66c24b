//! The way back into a running session: who holds its resume token gets in, and the conversation's place is given up when the
//! session leaves it. Knows no message and no policy; how long a session waits is the core's decision.

use super::client_side::ClientSide;
use super::confirm::Answer;
use crate::caller::Caller;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use windlass_tool::id::{ClientId, ConversationId, UserId};

/// Answers to confirmation requests that wait for their session.
const ANSWERS_MAX: usize = 64;

/// Who may come in, and for which conversation.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) caller: Caller,
    pub(super) user_id: UserId,
    pub(super) conversation_id: ConversationId,
}

/// The entrance of one session.
pub(super) struct Door {
    pub(super) owner: Owner,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Option<Returning>,
    /// Answers to confirmation requests that nobody has taken yet.
    answers: VecDeque<Answer>,
    /// The session has nobody to talk to.
    is_waiting: bool,
    /// Somebody begins the conversation anew.
    is_closed: bool,
    waker: Option<Waker>,
    lease: Option<Box<dyn Send>>,
}

/// A client that has shown the session's token.
pub(super) struct Returning {
    pub(super) side: Box<ClientSide>,
    /// By which it will show itself from now on, if by any.
    pub(super) id: Option<ClientId>,
}

/// What happened at a door.
pub(super) enum Visit {
    Client(Returning),
    /// The user's answer to a confirmation request.
    Answer(Answer),
    /// The session is to end: its conversation goes on in another.
    Closed,
}

impl Door {
    pub(super) fn new(owner: Owner, lease: Box<dyn Send>) -> Arc<Self> {
        Arc::new(Self {
            owner,
            state: Mutex::new(State {
                lease: Some(lease),
                ..State::default()
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a client to the session. A client that came before it and was not seen yet is gone.
    pub(super) fn enter(&self, client: Returning) {
        let mut state = self.lock();
        state.client = Some(client);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Brings the user's answer to a confirmation request. Where too many wait, the oldest gets no result.
    pub(super) fn answer(&self, answer: Answer) {
        let mut state = self.lock();
        if state.answers.len() >= ANSWERS_MAX {
            state.answers.pop_front();
        }
        state.answers.push_back(answer);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Whether anything happened since the last question; wakes the task when something does.
    pub(super) fn visit(&self, context: &mut Context<'_>) -> Option<Visit> {
        let mut state = self.lock();
        if let Some(client) = state.client.take() {
            return Some(Visit::Client(client));
        }
        if let Some(answer) = state.answers.pop_front() {
            return Some(Visit::Answer(answer));
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

    /// Gives the conversation's place up.
    pub(super) fn release(&self) {
        // Dropped outside the lock: a lease has locks of its own.
        let lease = self.lock().lease.take();
        drop(lease);
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

/// The doors of all running sessions, by the hash of the token that opens each. A token opens once.
#[derive(Default)]
pub(super) struct Doors(Mutex<HashMap<[u8; 32], Arc<Door>>>);

impl Doors {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Door>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, token_hash: [u8; 32], door: Arc<Door>) {
        self.lock().insert(token_hash, door);
    }

    pub(super) fn shut(&self, token_hash: &[u8; 32]) {
        self.lock().remove(token_hash);
    }

    /// The door that a token opens, for this user and conversation where they are named, and for nobody else where its
    /// client has signed in. The token is used up by it; in other hands it stays what it was.
    pub(super) fn take(
        &self,
        caller: &Caller,
        token_hash: &[u8; 32],
        user_id: Option<&UserId>,
        conversation_id: Option<&str>,
    ) -> Option<Arc<Door>> {
        let doors = &mut self.lock();
        let owner = &doors.get(token_hash)?.owner;
        let is_theirs = user_id.is_none_or(|id| *id == owner.user_id)
            && conversation_id.is_none_or(|id| id == owner.conversation_id.as_str())
            && !caller.lacks_sign_in_of(&owner.caller.client_id);
        if is_theirs {
            doors.remove(token_hash)
        } else {
            None
        }
    }

    /// The door of the session that a conversation has now, where the caller has not shown to be another client.
    pub(super) fn of_conversation(
        &self,
        caller: &Caller,
        conversation_id: &ConversationId,
    ) -> Option<Arc<Door>> {
        let doors = self.lock();
        let is_theirs = |door: &&Arc<Door>| {
            door.owner.conversation_id == *conversation_id
                && !caller.is_other_than(&door.owner.caller.client_id)
        };
        doors.values().find(is_theirs).cloned()
    }

    /// Makes room for a new session of a conversation, where its own client has left the one before. Changes that one still
    /// makes stay its own until they have ended: see [`windlass_session::under_way`].
    pub(super) fn clear(
        &self,
        caller: &Caller,
        user_id: Option<&UserId>,
        conversation_id: &ConversationId,
    ) {
        let left = self.lock().values().find_map(|door| {
            let owner = &door.owner;
            let is_theirs = match user_id {
                Some(user_id) => *user_id == owner.user_id,
                // Whoever knows the conversation of a client that keeps no id may go on with it.
                None => owner.caller.keeper().is_none(),
            };
            let is_theirs = is_theirs || owner.caller.client_id == caller.client_id;
            (owner.conversation_id == *conversation_id && is_theirs).then(|| door.clone())
        });
        if let Some(door) = left.filter(|door| door.close()) {
            door.release();
        }
    }
}
