//! Snapshots in a map.

use super::Tables;
use crate::{Exchange, Hash, Saved, Snapshot, Snapshots, StoreUnavailable, TIME_MAX_UNIX_MS};
use windlass_tool::id::SessionId;

impl Tables {
    fn by_token(&self, token_hash: &Hash) -> Option<&Snapshot> {
        let mut snapshots = self.snapshots.values();
        snapshots.find(|snapshot| snapshot.token_hash == *token_hash)
    }
}

impl Snapshots for Tables {
    fn save_snapshot(&mut self, snapshot: &Snapshot) -> Result<Saved, StoreUnavailable> {
        if snapshot.is_too_long(&self.limits) {
            return Ok(Saved::TooLong);
        }
        let is_taken = self
            .by_token(&snapshot.token_hash)
            .is_some_and(|other| other.session_id != snapshot.session_id);
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

    fn exchange_token(
        &mut self,
        exchange: &Exchange,
    ) -> Result<Option<Snapshot>, StoreUnavailable> {
        let Some(found) = self.snapshot(&exchange.token_hash, exchange.now_unix_ms)? else {
            return Ok(None);
        };
        if self.by_token(&exchange.new_token_hash).is_some() {
            return Ok(None);
        }
        let exchanged = Snapshot {
            token_hash: exchange.new_token_hash,
            expires_at_unix_ms: exchange.expires_at_unix_ms.min(TIME_MAX_UNIX_MS),
            ..found
        };
        self.snapshots
            .insert(exchanged.session_id.clone(), exchanged.clone());
        Ok(Some(exchanged))
    }

    fn forget_snapshot(&mut self, session_id: &SessionId) -> Result<bool, StoreUnavailable> {
        Ok(self.snapshots.remove(session_id).is_some())
    }
}
