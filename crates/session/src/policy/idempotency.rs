//! Steps 2 and 7: who has been here before. A provider's call id names a delivery, not an effect; both are recognised,
//! each by its own rule (contract section 11).

use lru::LruCache;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::{CallNumber, EffectId, UserId};
use windlass_tool::json;
use windlass_tool::registry::Tool;

/// Provider ids shorter than this are taken for unstable (contract section 11).
const STABLE_ID_LENGTH_MIN: usize = 9;

/// What became of the deliveries and effects of a session, least recently used out first.
pub(crate) struct Deliveries {
    records: LruCache<Arc<str>, Delivery>,
    effects: LruCache<[u8; 32], Effect>,
    entries_max: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) arguments: u64,
    /// The connection it came over.
    pub(crate) generation: u64,
    pub(crate) state: DeliveryState,
}

#[derive(Clone, Debug)]
pub(crate) enum DeliveryState {
    Open(CallNumber),
    Settled(Settled),
}

/// A recorded answer.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    pub(crate) response: Arc<ToolResponse>,
    pub(crate) turn: u64,
    /// Holds text that others wrote.
    pub(crate) quoted: bool,
    /// False for refusals and retryable failures, which do not use up an id.
    pub(crate) is_outcome: bool,
    /// The connection on which the id has had its answer.
    pub(crate) answered_on: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) effect_id: Option<EffectId>,
    /// How much the user had said when it was asked for.
    pub(crate) asked_at_input: u64,
    pub(crate) state: EffectState,
}

#[derive(Clone, Debug)]
pub(crate) enum EffectState {
    Open(CallNumber),
    Settled {
        settled: Settled,
        answer_reached_model: bool,
    },
}

impl Deliveries {
    pub(crate) fn new(entries_max: usize) -> Self {
        // Unbounded ones allocate nothing until they are used; the bound is kept in `remember`.
        Self {
            records: LruCache::unbounded(),
            effects: LruCache::unbounded(),
            entries_max,
        }
    }

    pub(crate) fn find(&mut self, key: &str) -> Option<&mut Delivery> {
        self.records.get_mut(key)
    }

    pub(crate) fn remember(&mut self, key: Arc<str>, delivery: Delivery) {
        self.records.put(key, delivery);
        if self.records.len() > self.entries_max {
            self.records.pop_lru();
        }
    }

    pub(crate) fn effect(&mut self, fingerprint: &[u8; 32]) -> Option<&mut Effect> {
        self.effects.get_mut(fingerprint)
    }

    pub(crate) fn remember_effect(&mut self, fingerprint: [u8; 32], effect: Effect) {
        self.effects.put(fingerprint, effect);
        if self.effects.len() > self.entries_max {
            self.effects.pop_lru();
        }
    }

    pub(crate) fn forget_effect(&mut self, fingerprint: &[u8; 32]) {
        self.effects.pop(fingerprint);
    }
}

/// The delivery's identity: the provider's id where it can be trusted to be one, else a hash of what was asked.
pub(crate) fn delivery_key(
    id: Option<&str>,
    name: &str,
    arguments: Option<&Map<String, Value>>,
    turn: u64,
) -> Arc<str> {
    match id {
        Some(id) if id.len() >= STABLE_ID_LENGTH_MIN && !id.contains("temp") && id != name => {
            let mut key = String::with_capacity(9 + id.len());
            key.push_str("provider:");
            key.push_str(id);
            key.into()
        }
        _ => {
            let hash = json::hash(&json!({ "tool": name, "args": arguments, "turn": turn }));
            format!("hash:{turn}:{}", json::hex(&hash[..8])).into()
        }
    }
}

/// Tells equal arguments from other ones; for comparison within one session only.
pub(crate) fn arguments_hash(arguments: &Map<String, Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    arguments.hash(&mut hasher);
    hasher.finish()
}

/// The identity of a wish: tool, version, user and canonical arguments after validation, defaults and clamping.
pub(crate) fn fingerprint(tool: &Tool, user: &UserId, arguments: &Map<String, Value>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in [tool.id.as_str(), &tool.version, user.as_str()] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    hasher.update(json::canonical(&Value::Object(arguments.clone())));
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unstable_provider_id_gives_way_to_a_hash_of_the_call() {
        let arguments = json!({"b": 1, "a": 2}).as_object().unwrap().clone();
        let key = |id| delivery_key(id, "kb_search", Some(&arguments), 3);
        assert_eq!(&*key(Some("function-call-1")), "provider:function-call-1");
        let hashed = key(None);
        assert!(hashed.starts_with("hash:3:") && hashed.len() == "hash:3:".len() + 16);
        for id in ["short", "temp-1234567", "kb_search"] {
            assert_eq!(key(Some(id)), hashed, "{id}");
        }
        assert_ne!(delivery_key(None, "kb_search", Some(&arguments), 4), hashed);
    }
}
