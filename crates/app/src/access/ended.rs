//! Ids of anonymous clients that count no more, because their clients have ended them. In memory, so that each request can be asked
//! about; in the store, so that it holds after a restart. Knows no cookie.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};
use windlass_contract::id::ClientId;
use windlass_store::{ENDED_CLIENTS_MAX, Store, StoreUnavailable};

pub(crate) struct EndedClients {
    store: Arc<dyn Store>,
    known: RwLock<KnownEnds>,
}

#[derive(Default)]
struct KnownEnds {
    all: HashSet<ClientId>,
    /// Oldest first.
    order: VecDeque<ClientId>,
}

impl KnownEnds {
    fn note(&mut self, client_id: ClientId) {
        if !self.all.insert(client_id.clone()) {
            return;
        }
        self.order.push_back(client_id);
        if self.order.len() > ENDED_CLIENTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

impl EndedClients {
    pub(crate) fn open(store: Arc<dyn Store>) -> Result<Self, StoreUnavailable> {
        let mut known = KnownEnds::default();
        store
            .ended_clients()?
            .into_iter()
            .for_each(|client_id| known.note(client_id));
        Ok(Self {
            store,
            known: RwLock::new(known),
        })
    }

    pub(crate) fn has(&self, client_id: &ClientId) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.all.contains(client_id)
    }

    /// A client that shows the id from now on is unknown to the server.
    pub(crate) fn end(&self, client_id: ClientId) -> Result<(), StoreUnavailable> {
        self.store.end_client(&client_id)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.note(client_id);
        Ok(())
    }
}
