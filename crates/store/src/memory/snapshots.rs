//! Snapshots in a map.

use super::Tables;
use crate::{Hash, Saved, Snapshot, Snapshots, StoreUnavailable, TIME_MAX_UNIX_MS};
use windlass_tool::id::SessionId;

impl Tables {
    fn by_token(&self, token_hash: &Hash) -> Option<&Snapshot> {
        let mut snapshots = self.snapshots.values();
        snapshots.find(|snapshot| snapshot.tokens.iter().any(|own| own == token_hash))
    }
}

impl Snapshots for Tables {
    fn save_snapshot(&mut self, snapshot: &Snapshot) -> Result<Saved, StoreUnavailable> {
        if snapshot.is_too_long(&self.limits) {
            return Ok(Saved::TooLong);
        }
        let is_taken = snapshot.tokens.iter().any(|token_hash| {
            self.by_token(token_hash)
                .is_some_and(|other| other.session_id != snapshot.session_id)
        });
        if is_taken {
            return Ok(Saved::TokenTaken);
        }
        let mut kept = snapshot.clone();
        kept.expires_at_unix_ms = kept.expires_at_unix_ms.min(TIME_MAX_UNIX_MS);
        self.snapshots.insert(kept.session_id.clone(), kept);
        Ok(Saved::Stored)
    }

    fn snapshot(
        &mut self,
        token_hash: &Hash,
        now_unix_ms: u64,
    ) -> Result<Option<Snapshot>, StoreUnavailable> {
        let found = self.by_token(token_hash);
        Ok(found
            .filter(|snapshot| snapshot.expires_at_unix_ms > now_unix_ms)
            .cloned())
    }

    fn forget_snapshot(&mut self, session_id: &SessionId) -> Result<bool, StoreUnavailable> {
        Ok(self.snapshots.remove(session_id).is_some())
    }
}
