//! The conversations that are in memory, bounded in number and in time, and the way to those that the store alone has. Knows
//! no model and no HTTP.

use super::conversation::Conversation;
use super::whose::{Foreign, Whose, admit};
use crate::clock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use windlass_config::Text;
use windlass_runtime::call_driver::Shared;
use windlass_runtime::caller::Caller;
use windlass_session::model::HistoryEntry;
use windlass_store::command::{Command, Reply};
use windlass_store::{Batch, ConversationRef, Store, StoreUnavailable};
use windlass_tool::id::{ConversationId, TenantId, UserId};

/// How often those are looked for whose time is up.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct Conversations {
    held: Mutex<Held>,
    shared: Shared,
    conversations_max: usize,
    idle_ms: u64,
}

/// A conversation's id is its tenant's own choice, and another's may be the same.
type Held = HashMap<(TenantId, ConversationId), Arc<Conversation>>;

/// Why a caller does not get a conversation.
#[derive(Debug)]
pub(crate) enum NoEntry {
    Foreign(Foreign),
    /// Whose it is cannot be read.
    Unavailable(StoreUnavailable),
}

impl Conversations {
    pub(crate) fn new(text: &Text, shared: Shared) -> Self {
        Self {
            held: Mutex::default(),
            shared,
            conversations_max: text.conversations_max.count(),
            idle_ms: text.conversation_idle_seconds.get() * 1_000,
        }
    }

    /// What was committed last.
    pub(crate) fn store(&self) -> &dyn Store {
        self.shared.ledger.store()
    }

    /// Has commands carried out behind everything that was asked of the conversation before.
    pub(crate) async fn commit(
        &self,
        conversation: ConversationRef,
        commands: Vec<Command>,
    ) -> Result<Vec<Reply>, StoreUnavailable> {
        let batch = Batch {
            conversation,
            commands,
        };
        self.shared.ledger.apply(batch).await
    }

    /// Before a conversation's log is read from its beginning: what waits to be written of it is written, and what a dead process
    /// had begun is settled.
    pub(crate) async fn settle(&self, conversation: &ConversationRef) {
        let settled = self.commit(conversation.clone(), vec![Command::Settle]);
        if let Err(error) = settled.await {
            tracing::warn!(%error, "a conversation is read as it was written last");
        }
    }

    /// The conversation of this id that is in memory and has not been idle for too long.
    pub(crate) fn get(&self, tenant: &TenantId, id: &ConversationId) -> Option<Arc<Conversation>> {
        let now = clock::now_unix_ms();
        let known = self.lock().get(&(tenant.clone(), id.clone())).cloned();
        known.filter(|known| !known.is_forgotten(now, self.idle_ms))
    }

    /// As the store has it, without a check of its owner.
    pub(crate) fn known(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Option<windlass_store::Conversation>, StoreUnavailable> {
        self.store().conversation(tenant, id)
    }

    /// The conversation of this id, for a caller who may name a user. A missing one begins; then `told` is the client's own
    /// account of what was said before.
    pub(crate) async fn open(
        &self,
        id: &ConversationId,
        caller: &Caller,
        named: Option<&UserId>,
        told: &[HistoryEntry],
    ) -> Result<Arc<Conversation>, NoEntry> {
        let tenant = &caller.tenant;
        if let Some(known) = self.get(tenant, id) {
            let admitted = known.whose.admits(caller, named);
            admitted.map_err(NoEntry::Foreign)?;
            known.touch();
            return Ok(known);
        }
        let known = self.known(tenant, id).map_err(NoEntry::Unavailable)?;
        let mut whose = admit(known.as_ref(), caller, named).map_err(NoEntry::Foreign)?;
        let mut told = told.to_vec();
        if known.is_some() || !self.begin(whose.reference(tenant, id)).await {
            // The store has it, perhaps since a moment ago.
            let known = self.known(tenant, id).map_err(NoEntry::Unavailable)?;
            whose = admit(known.as_ref(), caller, named).map_err(NoEntry::Foreign)?;
            told.clear();
        }
        let conversation = self.hold(tenant, id, whose, told);
        // Somebody else may have been faster.
        let admitted = conversation.whose.admits(caller, named);
        admitted.map_err(NoEntry::Foreign)?;
        Ok(conversation)
    }

    /// A conversation whose id the server has just made. Nobody else knows the id, so the store is not asked; the first session
    /// opens the conversation there.
    pub(crate) fn make(
        &self,
        id: &ConversationId,
        caller: &Caller,
        named: Option<&UserId>,
        told: &[HistoryEntry],
    ) -> Result<Arc<Conversation>, NoEntry> {
        let whose = admit(None, caller, named).map_err(NoEntry::Foreign)?;
        let reference = whose.reference(&caller.tenant, id);
        let key = (caller.tenant.clone(), id.clone());
        Ok(self.insert(key, || Conversation::new(reference, whose, told.to_vec())))
    }

    /// The conversation of this id in memory, whose it is being known. `told` is the client's own account of what was said in one that
    /// the store has nothing of.
    pub(crate) fn hold(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        whose: Whose,
        told: Vec<HistoryEntry>,
    ) -> Arc<Conversation> {
        let reference = whose.reference(tenant, id);
        self.insert((tenant.clone(), id.clone()), || {
            Conversation::new(reference, whose, told)
        })
    }

    /// What the session by voice is to answer first, once.
    pub(crate) fn take_pending_request(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Option<String> {
        self.get(tenant, id)?.take_pending_request()
    }

    /// Begins it in the store, so that it is this user's before anybody speaks in it. False where it is another's by now. Where
    /// nothing can be written, it goes on all the same; what would change anything is refused until something can.
    async fn begin(&self, reference: ConversationRef) -> bool {
        match self.commit(reference, vec![Command::Open]).await {
            Ok(replies) => !replies.contains(&Reply::Foreign),
            Err(error) => {
                tracing::warn!(%error, "a conversation begins that the store does not have");
                true
            }
        }
    }

    /// Those that have to go for a new one leave memory.
    fn insert(
        &self,
        id: (TenantId, ConversationId),
        make: impl FnOnce() -> Conversation,
    ) -> Arc<Conversation> {
        let now = clock::now_unix_ms();
        let mut held = self.lock();
        if let Some(known) = held.get(&id)
            && !known.is_forgotten(now, self.idle_ms)
        {
            let known = known.clone();
            known.touch();
            return known;
        }
        held.remove(&id);
        if held.len() >= self.conversations_max {
            make_room(&mut held, now, self.idle_ms);
        }
        let conversation = Arc::new(make());
        held.insert(id, conversation.clone());
        conversation
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
            self.lock()
                .retain(|_, one| !one.is_forgotten(now, self.idle_ms));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets those go whose time is up, and then those that rest longest: a tenth at a time, so that the search is paid for by
/// many conversations.
fn make_room(held: &mut Held, now: u64, idle_ms: u64) {
    let mut times: Vec<u64> = held.values().map(|one| one.used()).collect();
    let (_, tenth, _) = times.select_nth_unstable(held.len() / 10);
    let latest_gone = *tenth;
    let leaves = |one: &Arc<Conversation>| {
        one.is_forgotten(now, idle_ms) || (one.used() <= latest_gone && !one.is_busy())
    };
    held.retain(|_, one| !leaves(one));
}
