//! Servers that are called for each user with the user's own access token: one connection a user, those that were used last. Knows no
//! message.

use super::server::McpServer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use windlass_contract::id::ClientId;
use windlass_contract::sensitive::Sensitive;

/// Users whose connections are kept; the one that was not used for longest gives way.
const USERS_MAX: usize = 1_000;

/// The access token that requests of a connection carry; none where it is no user's.
#[derive(Clone, Default)]
pub(super) struct UserToken(Arc<Mutex<Option<Sensitive<String>>>>);

impl UserToken {
    pub(super) fn get(&self) -> Option<Sensitive<String>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set(&self, token: Sensitive<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }
}

/// The connections of users.
#[derive(Default)]
pub(super) struct Users(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Each with the number of its last use.
    servers: BTreeMap<ClientId, (u64, Arc<McpServer>)>,
    uses: u64,
}

impl Users {
    /// That of a user, made where there is none.
    pub(super) fn of(
        &self,
        user: &ClientId,
        make: impl FnOnce() -> Arc<McpServer>,
    ) -> Arc<McpServer> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.uses += 1;
        let uses = known.uses;
        if let Some((used, server)) = known.servers.get_mut(user) {
            *used = uses;
            return server.clone();
        }
        if known.servers.len() >= USERS_MAX {
            let oldest = known.servers.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(user, _)| user.clone()) {
                known.servers.remove(&oldest);
            }
        }
        let server = make();
        known.servers.insert(user.clone(), (uses, server.clone()));
        server
    }
}
