//! Browsers that are on their way to an authorization server and back: each way is known by a state that is used once, belongs to one
//! browser, and ends. Knows no token and no network.

use super::vault::Slot;
use std::collections::BTreeMap;
use windlass_tool::sensitive::Sensitive;

/// How long a way may take.
pub(super) const WAY_SECONDS: u64 = 600;
/// Ways of one user, of whom the oldest gives way, and of all users.
const OF_OWNER_MAX: usize = 5;
const WAYS_MAX: usize = 10_000;

/// What has to be known again when the browser comes back.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) slot: Slot,
    pub(super) verifier: Sensitive<String>,
    pub(super) redirect: String,
    /// Whether the answer has to name its issuer.
    pub(super) names_issuer: bool,
    /// Of the secret that the browser's cookie holds.
    pub(super) browser: [u8; 32],
    pub(super) expires_unix_ms: u64,
}

/// As many are on their way as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyWays;

#[derive(Default)]
pub(super) struct Ways {
    /// By the random part of their states.
    open: BTreeMap<String, Way>,
}

impl Ways {
    pub(super) fn begin(
        &mut self,
        id: String,
        way: Way,
        now_unix_ms: u64,
    ) -> Result<(), TooManyWays> {
        let of_owner = |known: &Way| {
            known.slot.owner == way.slot.owner && known.slot.tenant == way.slot.tenant
        };
        let own = self.open.iter().filter(|(_, known)| of_owner(known));
        if own.clone().count() >= OF_OWNER_MAX {
            let oldest = own.min_by_key(|(_, known)| known.expires_unix_ms);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.open.remove(&oldest);
            }
        }
        if self.open.len() >= WAYS_MAX {
            self.open
                .retain(|_, known| now_unix_ms < known.expires_unix_ms);
        }
        if self.open.len() >= WAYS_MAX {
            return Err(TooManyWays);
        }
        self.open.insert(id, way);
        Ok(())
    }

    /// Ends a way. Whatever becomes of the browser, nobody comes back from it again.
    pub(super) fn end(&mut self, id: &str, now_unix_ms: u64) -> Option<Way> {
        let way = self.open.remove(id)?;
        (now_unix_ms < way.expires_unix_ms).then_some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_tool::id::{ClientId, TenantId};

    fn way(owner: &str, expires_unix_ms: u64) -> Way {
        Way {
            slot: Slot {
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
    fn a_way_ends_once_and_in_its_time() {
        let mut ways = Ways::default();
        ways.begin("a".to_owned(), way("ada", 10), 0).unwrap();
        ways.begin("b".to_owned(), way("ada", 10), 0).unwrap();
        assert!(ways.end("c", 5).is_none());
        assert!(ways.end("a", 9).is_some());
        assert!(ways.end("a", 9).is_none());
        assert!(ways.end("b", 10).is_none());
        assert!(ways.open.is_empty());
    }

    #[test]
    fn nobody_takes_the_room_of_others() {
        let mut ways = Ways::default();
        for number in 0..u64::try_from(OF_OWNER_MAX).unwrap() + 2 {
            let id = number.to_string();
            ways.begin(id, way("ada", 100 + number), 0).unwrap();
        }
        assert_eq!(ways.open.len(), OF_OWNER_MAX);
        assert!(ways.end("1", 0).is_none() && ways.end("2", 0).is_some());
        for number in ways.open.len()..WAYS_MAX {
            let owner = format!("user-{number}");
            ways.open.insert(owner.clone(), way(&owner, 50));
        }
        let more = ways.begin("more".to_owned(), way("more", 100), 49);
        assert_eq!(more, Err(TooManyWays));
        ways.begin("more".to_owned(), way("more", 100), 50).unwrap();
        assert_eq!(ways.open.len(), OF_OWNER_MAX);
    }
}
