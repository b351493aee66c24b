//! Idempotency keys of calls of other programs that run now, and what each is for. The log of a conversation has a key only once its call has
//! been committed; until then two calls at once would both find it new. Knows no protocol and no store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_contract::id::{ConversationId, TenantId};
use windlass_store::{ConversationRef, Hash};

/// The conversation of a key is named by it.
type Place = (TenantId, ConversationId);

/// As many as calls run at a time.
#[derive(Clone, Default)]
pub(crate) struct RunningKeys(Arc<Mutex<BTreeMap<Place, Running>>>);

struct Running {
    /// The hash of the tool and the arguments.
    content: Option<Hash>,
    calls: usize,
}

/// A key that is in use until this is dropped.
pub(super) struct RunningKey {
    keys: RunningKeys,
    place: Place,
}

impl RunningKeys {
    /// Says that a call runs under the key of this conversation; `None` where one with another content does.
    pub(super) fn claim(
        &self,
        conversation: &ConversationRef,
        content: Option<Hash>,
    ) -> Option<RunningKey> {
        let place = (
            conversation.tenant.clone(),
            conversation.conversation_id.clone(),
        );
        let mut running = self.lock();
        let known = running
            .entry(place.clone())
            .or_insert(Running { content, calls: 0 });
        if known.content != content {
            return None;
        }
        known.calls += 1;
        drop(running);
        Some(RunningKey {
            keys: self.clone(),
            place,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningKey {
    fn drop(&mut self) {
        let mut running = self.keys.lock();
        if let Some(known) = running.get_mut(&self.place) {
            known.calls -= 1;
            if known.calls == 0 {
                running.remove(&self.place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_contract::id::UserId;

    #[test]
    fn a_key_is_for_one_content_for_as_long_as_a_call_runs_under_it() {
        let keys = RunningKeys::default();
        let of = |id: &str| ConversationRef {
            tenant: TenantId::default(),
            conversation_id: ConversationId::new(id),
            user_id: UserId::new("ada"),
        };
        let (one, other) = (Some([1; 32]), Some([2; 32]));
        let first = keys.claim(&of("mcp-1"), one);
        let same = keys.claim(&of("mcp-1"), one);
        assert!(first.is_some() && same.is_some());
        assert!(keys.claim(&of("mcp-1"), other).is_none());
        assert!(keys.claim(&of("mcp-2"), other).is_some());
        drop(first);
        assert!(keys.claim(&of("mcp-1"), other).is_none());
        drop(same);
        assert!(keys.claim(&of("mcp-1"), other).is_some());
        assert!(keys.lock().is_empty());
    }
}
