//! Authorizations that are pending while a browser is at the authorization server: each has a state that is used once, belongs to one
//! browser, and expires. Knows no token and no network.

use super::vault::ConnectionId;
use std::collections::BTreeMap;
use windlass_contract::sensitive::Sensitive;

/// How long an authorization may be pending.
pub(super) const PENDING_SECONDS: u64 = 600;
/// Pending authorizations of one user, whose oldest makes room, and of all users.
const OF_OWNER_MAX: usize = 5;
const PENDING_MAX: usize = 10_000;

/// An authorization request that was sent, as its response needs it.
#[derive(Clone, Debug)]
pub(super) struct PendingAuthorization {
    pub(super) connection_id: ConnectionId,
    pub(super) verifier: Sensitive<String>,
    pub(super) redirect: String,
    /// Whether the answer has to name its issuer.
    pub(super) names_issuer: bool,
    /// The digest of the secret that the browser's cookie holds.
    pub(super) browser: [u8; 32],
    pub(super) expires_unix_ms: u64,
}

/// The number of pending authorizations is at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyPending;

#[derive(Default)]
pub(super) struct PendingAuthorizations {
    /// The pending authorizations, by the random part of their states.
    open: BTreeMap<String, PendingAuthorization>,
}

impl PendingAuthorizations {
    pub(super) fn begin(
        &mut self,
        id: String,
        authorization: PendingAuthorization,
        now_unix_ms: u64,
    ) -> Result<(), TooManyPending> {
        let of_owner = |known: &PendingAuthorization| {
            known.connection_id.owner == authorization.connection_id.owner
                && known.connection_id.tenant == authorization.connection_id.tenant
        };
        let own = self.open.iter().filter(|(_, known)| of_owner(known));
        if own.clone().count() >= OF_OWNER_MAX {
            let oldest = own.min_by_key(|(_, known)| known.expires_unix_ms);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.open.remove(&oldest);
            }
        }
        if self.open.len() >= PENDING_MAX {
            self.open
                .retain(|_, known| now_unix_ms < known.expires_unix_ms);
        }
        if self.open.len() >= PENDING_MAX {
            return Err(TooManyPending);
        }
        self.open.insert(id, authorization);
        Ok(())
    }

    /// Takes an authorization out, so that no second response finds it.
    pub(super) fn end(&mut self, id: &str, now_unix_ms: u64) -> Option<PendingAuthorization> {
        let authorization = self.open.remove(id)?;
        (now_unix_ms < authorization.expires_unix_ms).then_some(authorization)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_contract::id::{ClientId, TenantId};

    fn authorization(owner: &str, expires_unix_ms: u64) -> PendingAuthorization {
        PendingAuthorization {
            connection_id: ConnectionId {
                tenant: TenantId::default(),
                owner: ClientId::new(owner),
                connection: "shop".to_owned(),
            },
            verifier: Sensitive("v".to_owned()),
            redirect: String::new(),
            names_issuer: false,
            browser: [0; 32],
            expires_unix_ms,
        }
    }

    #[test]
    fn an_authorization_ends_once_and_in_its_time() {
        let mut pending = PendingAuthorizations::default();
        pending
            .begin("a".to_owned(), authorization("ada", 10), 0)
            .unwrap();
        pending
            .begin("b".to_owned(), authorization("ada", 10), 0)
            .unwrap();
        assert!(pending.end("c", 5).is_none());
        assert!(pending.end("a", 9).is_some());
        assert!(pending.end("a", 9).is_none());
        assert!(pending.end("b", 10).is_none());
        assert!(pending.open.is_empty());
    }

    #[test]
    fn nobody_takes_the_room_of_others() {
        let mut pending = PendingAuthorizations::default();
        for number in 0..u64::try_from(OF_OWNER_MAX).unwrap() + 2 {
            let id = number.to_string();
            pending
                .begin(id, authorization("ada", 100 + number), 0)
                .unwrap();
        }
        assert_eq!(pending.open.len(), OF_OWNER_MAX);
        assert!(pending.end("1", 0).is_none() && pending.end("2", 0).is_some());
        for number in pending.open.len()..PENDING_MAX {
            let owner = format!("user-{number}");
            pending
                .open
                .insert(owner.clone(), authorization(&owner, 50));
        }
        let more = pending.begin("more".to_owned(), authorization("more", 100), 49);
        assert_eq!(more, Err(TooManyPending));
        pending
            .begin("more".to_owned(), authorization("more", 100), 50)
            .unwrap();
        assert_eq!(pending.open.len(), OF_OWNER_MAX);
    }
}
