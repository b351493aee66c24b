//! The conversations in memory, bounded in bytes and in time, and the way to those that only the store has. Knows no model and no HTTP.

use super::conversation::Conversation;
use super::owner::{ConversationOwner, Foreign, admit};
use crate::clock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use windlass_config::Text;
use windlass_contract::id::{ConversationId, TenantId, UserId};
use windlass_runtime::call_driver::Shared;
use windlass_runtime::caller::Caller;
use windlass_runtime::text::Past;
use windlass_session::model::HistoryEntry;
use windlass_store::command::{Command, Reply};
use windlass_store::{
    Batch, Beginner, ConversationRef, EntryNumber, PartyKind, Store, StoreUnavailable,
};

/// How often expired conversations are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct Conversations {
    held: Mutex<Held>,
    shared: Shared,
    resting_bytes_max: usize,
    idle_ms: u64,
}

#[derive(Default)]
struct Held {
    conversations: HashMap<Place, Known>,
    /// Bytes of all conversations, as last counted.
    bytes: usize,
}

/// A conversation's id is its tenant's own choice, and another's may be the same.
type Place = (TenantId, ConversationId);

struct Known {
    conversation: Arc<Conversation>,
    /// Bytes at the last count: at its beginning, or after its last turn.
    bytes: usize,
}

/// Why a caller does not get a conversation.
#[derive(Debug)]
pub(crate) enum NoEntry {
    Foreign(Foreign),
    /// It would be a new one, and the party has as many as its share.
    Crowded(PartyKind),
    /// Its owner cannot be read.
    Unavailable(StoreUnavailable),
}

/// A conversation that a caller may enter.
pub(crate) struct Entered {
    pub(crate) conversation: Arc<Conversation>,
    /// The content of its log, where that is known without reading it: the conversation begins with this request.
    pub(crate) past: Option<Past>,
}

/// The store's answer to a conversation that begins.
enum Begun {
    /// It is there, and its log is empty.
    Empty,
    /// It has entries, or the store cannot say.
    Unknown,
    Foreign,
}

impl Conversations {
    pub(crate) fn new(text: &Text, shared: Shared) -> Self {
        Self {
            held: Mutex::default(),
            shared,
            resting_bytes_max: text.resting_bytes_max.count(),
            idle_ms: text.conversation_idle_seconds.get() * 1_000,
        }
    }

    /// The store, as of the last commit.
    pub(crate) fn store(&self) -> &dyn Store {
        self.shared.ledger.store()
    }

    /// Has commands carried out after everything that was asked of the conversation before.
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

    /// Prepares a conversation's log for a reading from its beginning: waiting entries are written, and the calls of a dead process are
    /// settled.
    pub(crate) async fn settle(&self, conversation: &ConversationRef) {
        let settled = self.commit(conversation.clone(), vec![Command::Settle]);
        if let Err(error) = settled.await {
            tracing::warn!(%error, "a conversation is read as it was written last");
        }
    }

    /// The conversation of this id that is in memory and has not been idle for too long.
    pub(crate) fn get(&self, tenant: &TenantId, id: &ConversationId) -> Option<Arc<Conversation>> {
        let now = clock::now_unix_ms();
        let place = (tenant.clone(), id.clone());
        let held = self.lock();
        let known = held.conversations.get(&place);
        let known = known.map(|known| known.conversation.clone());
        known.filter(|known| !known.is_forgotten(now, self.idle_ms))
    }

    /// The conversation in the store, without a check of its owner.
    pub(crate) fn known(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Option<windlass_store::Conversation>, StoreUnavailable> {
        self.store().conversation(tenant, id)
    }

    /// The conversation of this id, for a caller who may name a user. A missing one begins; then `told` is the client's own account of
    /// the earlier conversation.
    pub(crate) async fn open(
        &self,
        id: &ConversationId,
        caller: &Caller,
        named: Option<&UserId>,
        told: &[HistoryEntry],
        beginner: &Beginner,
    ) -> Result<Entered, NoEntry> {
        let tenant = &caller.tenant;
        if let Some(known) = self.get(tenant, id) {
            let admitted = known.whose.admits(caller, named);
            admitted.map_err(NoEntry::Foreign)?;
            known.touch();
            return Ok(Entered {
                conversation: known,
                past: None,
            });
        }
        let known = self.known(tenant, id).map_err(NoEntry::Unavailable)?;
        let mut whose = admit(known.as_ref(), caller, named).map_err(NoEntry::Foreign)?;
        let mut told = told.to_vec();
        let begun = match known {
            Some(_) => None,
            None => Some(self.begin(whose.reference(tenant, id), beginner).await?),
        };
        if let None | Some(Begun::Foreign) = begun {
            // The store has it, perhaps since a moment ago.
            let known = self.known(tenant, id).map_err(NoEntry::Unavailable)?;
            whose = admit(known.as_ref(), caller, named).map_err(NoEntry::Foreign)?;
            told.clear();
        }
        let conversation = self.hold(tenant, id, whose, told);
        // Another request may have been faster.
        let admitted = conversation.whose.admits(caller, named);
        admitted.map_err(NoEntry::Foreign)?;
        Ok(Entered {
            conversation,
            past: matches!(begun, Some(Begun::Empty)).then(Past::begun),
        })
    }

    /// Makes a conversation whose id the server has just made. No other session knows the id, so the store is not asked; the first
    /// session opens the conversation there.
    pub(crate) fn make(
        &self,
        id: &ConversationId,
        caller: &Caller,
        named: Option<&UserId>,
        told: &[HistoryEntry],
    ) -> Result<Entered, NoEntry> {
        let whose = admit(None, caller, named).map_err(NoEntry::Foreign)?;
        let reference = whose.reference(&caller.tenant, id);
        let key = (caller.tenant.clone(), id.clone());
        Ok(Entered {
            conversation: self.insert(key, || Conversation::new(reference, whose, told.to_vec())),
            past: Some(Past::none()),
        })
    }

    /// The conversation of this id in memory; its owner is known. `told` is the client's own account of a conversation that the store
    /// does not have.
    pub(crate) fn hold(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        whose: ConversationOwner,
        told: Vec<HistoryEntry>,
    ) -> Arc<Conversation> {
        let reference = whose.reference(tenant, id);
        self.insert((tenant.clone(), id.clone()), || {
            Conversation::new(reference, whose, told)
        })
    }

    /// Takes the request that the session by voice has to answer first.
    pub(crate) fn take_pending_request(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Option<String> {
        self.get(tenant, id)?.take_pending_request()
    }

    /// Begins it in the store, so that it belongs to this user before its first entry. If the store fails, the conversation goes on
    /// without it; changes are refused until the store writes again.
    async fn begin(
        &self,
        reference: ConversationRef,
        beginner: &Beginner,
    ) -> Result<Begun, NoEntry> {
        let open = Command::Open(beginner.clone());
        match self.commit(reference, vec![open]).await.as_deref() {
            Ok([Reply::Crowded(kind), ..]) => Err(NoEntry::Crowded(*kind)),
            Ok([Reply::Opened(opened), ..]) if opened.last_entry == EntryNumber(0) => {
                Ok(Begun::Empty)
            }
            Ok(replies) if replies.contains(&Reply::Foreign) => Ok(Begun::Foreign),
            Ok(_) => Ok(Begun::Unknown),
            Err(error) => {
                tracing::warn!(%error, "a conversation begins that the store does not have");
                Ok(Begun::Unknown)
            }
        }
    }

    fn insert(&self, place: Place, make: impl FnOnce() -> Conversation) -> Arc<Conversation> {
        let now = clock::now_unix_ms();
        let mut held = self.lock();
        if let Some(Known { conversation, .. }) = held.conversations.get(&place)
            && !conversation.is_forgotten(now, self.idle_ms)
        {
            let known = conversation.clone();
            known.touch();
            return known;
        }
        let conversation = Arc::new(make());
        held.put(place, conversation.clone());
        held.make_room(self.resting_bytes_max, &conversation);
        conversation
    }

    /// A turn of a conversation is over: its memory is counted from now on. If all conversations take too much, those that have rested
    /// longest leave memory.
    pub(crate) fn comes_to_rest(&self, conversation: &Arc<Conversation>) {
        let reference = &conversation.reference;
        let place = (reference.tenant.clone(), reference.conversation_id.clone());
        let mut held = self.lock();
        let known = held.conversations.get(&place);
        // Another conversation may have taken its place.
        if known.is_some_and(|known| Arc::ptr_eq(&known.conversation, conversation)) {
            held.put(place, conversation.clone());
            held.make_room(self.resting_bytes_max, conversation);
        }
    }

    /// Lets expired conversations go from memory, again and again until the server is over.
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
                .retain(|one| !one.is_forgotten(now, self.idle_ms));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn put(&mut self, place: Place, conversation: Arc<Conversation>) {
        let bytes = conversation.bytes();
        self.bytes += bytes;
        let known = Known {
            conversation,
            bytes,
        };
        if let Some(before) = self.conversations.insert(place, known) {
            self.bytes -= before.bytes;
        }
    }

    fn retain(&mut self, stays: impl Fn(&Conversation) -> bool) {
        let bytes = &mut self.bytes;
        self.conversations.retain(|_, known| {
            let stays = stays(&known.conversation);
            if !stays {
                *bytes -= known.bytes;
            }
            stays
        });
    }

    /// Lets those go that have rested longest, where all take too much: a tenth more than necessary, so that many conversations share
    /// the cost of the search. Never the newest, which its turn may still need.
    fn make_room(&mut self, bytes_max: usize, newest: &Arc<Conversation>) {
        if self.bytes <= bytes_max {
            return;
        }
        let resting = self.conversations.values();
        let resting = resting.filter(|known| {
            !Arc::ptr_eq(&known.conversation, newest) && known.conversation.rests()
        });
        let mut times: Vec<(u64, usize)> = resting
            .map(|known| (known.conversation.used(), known.bytes))
            .collect();
        times.sort_unstable();
        let mut surplus = self.bytes.saturating_sub(bytes_max - bytes_max / 10);
        let mut latest_gone = None;
        for (used, bytes) in times {
            if surplus == 0 {
                break;
            }
            surplus = surplus.saturating_sub(bytes);
            latest_gone = Some(used);
        }
        if let Some(latest_gone) = latest_gone {
            self.retain(|one| {
                one.used() > latest_gone || !one.rests() || std::ptr::eq(one, &**newest)
            });
        }
    }
}
