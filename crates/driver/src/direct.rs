//! A ledger that commits at once, on the caller's thread: for one session at a time, for tests and for simulations. Starts no thread.

use crate::backlog::Backlog;
use crate::ledger::{Ledger, PendingReplies};
use crate::tail::{Tail, Tails};
use std::sync::{Arc, Mutex, PoisonError};
use windlass_contract::id::SessionId;
use windlass_store::{Batch, ConversationRef, Store, StoreUnavailable};

/// The number of batches that are kept if the store takes none.
const KEPT_MAX: usize = 10_000;

pub struct DirectLedger {
    store: Arc<dyn Store>,
    backlog: Mutex<Backlog>,
    tails: Tails,
}

impl DirectLedger {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            backlog: Mutex::new(Backlog::new(KEPT_MAX)),
            tails: Tails::default(),
        }
    }
}

impl Ledger for DirectLedger {
    fn apply(&self, batch: Batch) -> PendingReplies {
        let mut backlog = self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wake = |concerned| self.tails.wake(&concerned);
        let mut committed = backlog.commit(&*self.store, vec![batch], &mut wake);
        let committed = committed.pop().unwrap_or_else(|| {
            Err(StoreUnavailable::Failed {
                cause: "nothing was committed".to_owned(),
            })
        });
        Box::pin(std::future::ready(committed))
    }

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn tail(&self, conversation: &ConversationRef, leg: &SessionId) -> Tail {
        self.tails.listen(conversation, leg)
    }

    fn is_live(&self, conversation: &ConversationRef, leg: &SessionId) -> bool {
        self.tails.is_live(conversation, leg)
    }
}
