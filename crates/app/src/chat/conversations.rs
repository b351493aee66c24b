//! The conversations that are in memory, bounded in number and in time, and the way to those that the store alone has. Knows
//! no model and no HTTP.

use super::archive::{Archive, Kept, find};
use super::conversation::Conversation;
use crate::clock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use windlass_runtime::config::Text;
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_session::event::SessionEvent;
use windlass_session::io::TokenHash;
use windlass_session::model::HistoryEntry;
use windlass_store::{Store, StoreUnavailable};
use windlass_tool::id::{ClientId, ConversationId};
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

/// How often those are looked for whose time is up.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct Conversations {
    held: Mutex<HashMap<ConversationId, Arc<Conversation>>>,
    archive: Archive,
    conversations_max: usize,
    idle_ms: u64,
}

impl Conversations {
    pub(crate) fn new(text: &Text, archive: Archive) -> Self {
        Self {
            held: Mutex::default(),
            archive,
            conversations_max: text.conversations_max.count(),
            idle_ms: text.conversation_idle_seconds.get() * 1_000,
        }
    }

    pub(crate) fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The conversation of this id that is in memory and has not been idle for too long.
    pub(crate) fn get(&self, id: &ConversationId) -> Option<Arc<Conversation>> {
        let now = clock::now_unix_ms();
        let known = self.lock().get(id).cloned();
        known.filter(|known| !known.is_forgotten(now, self.idle_ms))
    }

    /// The same, or as the store has it.
    pub(crate) async fn find(
        &self,
        id: &ConversationId,
    ) -> Result<Option<Arc<Conversation>>, StoreUnavailable> {
        if let Some(known) = self.get(id) {
            return Ok(Some(known));
        }
        let kept = self.archive.find(id).await?;
        Ok(kept.map(|kept| self.take_in(id, kept)))
    }

    /// The same without waiting for the store's thread or for whoever writes, for those who cannot.
    pub(crate) fn find_now(
        &self,
        id: &ConversationId,
        store: &dyn Store,
    ) -> Result<Option<Arc<Conversation>>, StoreUnavailable> {
        if let Some(known) = self.get(id) {
            return Ok(Some(known));
        }
        let now = clock::now_unix_ms();
        let kept = store.read(|transaction| find(transaction, id, now))?;
        Ok(kept.map(|kept| self.take_in(id, kept)))
    }

    /// The conversation in which a user was asked with the token of this hash.
    pub(crate) async fn asking(
        &self,
        id: &ConversationId,
        token_hash: &TokenHash,
    ) -> Result<Option<Arc<Conversation>>, StoreUnavailable> {
        let known = self.find(id).await?;
        Ok(known.filter(|known| known.asked(token_hash).is_some()))
    }

    fn take_in(&self, id: &ConversationId, kept: Kept) -> Arc<Conversation> {
        let archive = self.archive.clone();
        self.insert(id, || Conversation::kept(id.clone(), kept, archive))
            .0
    }

    /// The conversation of this id, which begins where there is none, and whether it is new.
    pub(crate) fn open(
        &self,
        id: &ConversationId,
        owner: Option<&ClientId>,
    ) -> (Arc<Conversation>, bool) {
        self.insert(id, || {
            Conversation::new(id.clone(), owner.cloned(), self.archive.clone())
        })
    }

    /// Those that have to go for a new one leave memory.
    fn insert(
        &self,
        id: &ConversationId,
        make: impl FnOnce() -> Conversation,
    ) -> (Arc<Conversation>, bool) {
        let now = clock::now_unix_ms();
        let mut held = self.lock();
        if let Some(known) = held.get(id)
            && !known.is_forgotten(now, self.idle_ms)
        {
            let known = known.clone();
            known.touch();
            return (known, false);
        }
        let mut gone: Vec<_> = held.remove(id).into_iter().collect();
        if held.len() >= self.conversations_max {
            gone.extend(make_room(&mut held, now, self.idle_ms));
        }
        let conversation = Arc::new(make());
        held.insert(id.clone(), conversation.clone());
        drop(held);
        leave_all(gone);
        (conversation, true)
    }

    /// Lets those go from memory whose time is up, again and again until the server is over.
    pub(crate) async fn sweep(self: Arc<Self>, mut is_over: watch::Receiver<bool>) {
        let pause = SWEEP_INTERVAL.min(Duration::from_millis(self.idle_ms));
        loop {
            tokio::select! {
                // An error says that the server is gone, too.
                _ = is_over.wait_for(|is_over| *is_over) => return,
                () = tokio::time::sleep(pause) => {}
            }
            let now = clock::now_unix_ms();
            let forgotten = |one: &Arc<Conversation>| one.is_forgotten(now, self.idle_ms);
            let gone = self
                .lock()
                .extract_if(|_, one| forgotten(one))
                .map(|(_, one)| one)
                .collect();
            leave_all(gone);
        }
    }

    /// All of them, which leave memory.
    pub(crate) fn take_all(&self) -> Vec<Arc<Conversation>> {
        self.lock().drain().map(|(_, held)| held).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<Conversation>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn leave_all(gone: Vec<Arc<Conversation>>) {
    for gone in gone {
        tokio::spawn(gone.leave());
    }
}

/// Lets those go whose time is up, and then those that rest longest: a tenth at a time, so that the search is paid for by
/// many conversations.
fn make_room(
    held: &mut HashMap<ConversationId, Arc<Conversation>>,
    now: u64,
    idle_ms: u64,
) -> Vec<Arc<Conversation>> {
    let mut times: Vec<u64> = held.values().map(|one| one.used()).collect();
    let (_, tenth, _) = times.select_nth_unstable(held.len() / 10);
    let latest_gone = *tenth;
    let leaves = |one: &Arc<Conversation>| {
        one.is_forgotten(now, idle_ms) || (one.used() <= latest_gone && !one.is_busy())
    };
    held.extract_if(|_, one| leaves(one))
        .map(|(_, one)| one)
        .collect()
}

/// Writes down what is said, in whichever mode, for the session that follows.
impl Subscriber for Conversations {
    fn event(&self, session: &SessionIdentity, _now_unix_ms: u64, event: &SessionEvent) {
        let find = || {
            let known = self.get(&session.conversation_id);
            // A voice session may bear the id of somebody else's conversation; it adds nothing to that.
            known.filter(|known| known.admits(&session.client_id))
        };
        match event {
            SessionEvent::Transcript { role, text, .. } => {
                if let Some(conversation) = find() {
                    let entry = HistoryEntry {
                        role: *role,
                        text: Sensitive(text.expose().clone()),
                    };
                    conversation.hear(session.mode, entry);
                }
            }
            // A turn by text is kept with its answer, when that is written.
            SessionEvent::TurnEnded { .. } | SessionEvent::SessionEnded { .. }
                if session.mode == Mode::Voice =>
            {
                if let Some(conversation) = find() {
                    conversation.keep_said();
                }
            }
            _ => {}
        }
    }
}
