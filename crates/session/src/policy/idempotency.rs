//! Step 2: recognises a provider message that came before. A provider's call id names a delivery, not an effect; effects are the
//! ledger's (`docs/policies.md`, "The same call twice").

use super::arguments;
use crate::facts::{CallRequest, DeliveryKey, HashedKey};
use crate::hash::{BuildQuickHasher, bound};
use crate::limits::Limits;
use lru::LruCache;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::id::{CallNumber, EffectId};
use windlass_contract::json;
use windlass_contract::kind::Reach;
use windlass_contract::registry::Tool;

/// Provider ids shorter than this, in characters, are taken for unstable (`docs/policies.md`, "The same call twice").
const STABLE_ID_LENGTH_MIN: usize = 9;

/// Whether a provider's call id reliably names one delivery: the same id is then the same call, and has one answer on a connection.
pub fn names_delivery(id: &str, tool: &str) -> bool {
    is_long(id) && !id.contains("temp") && *id != *tool
}

fn is_long(id: &str) -> bool {
    id.len() >= STABLE_ID_LENGTH_MIN && id.chars().nth(STABLE_ID_LENGTH_MIN - 1).is_some()
}

/// The states of a session's deliveries, least recently used out first.
pub(crate) struct Deliveries {
    records: LruCache<HashedKey, Delivery, BuildQuickHasher>,
    records_max: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) call_request: CallRequest,
    pub(crate) state: DeliveryState,
}

impl Delivery {
    /// Whether a call under this delivery's id asks for the same. `tool` is the tool that it names.
    pub(crate) fn is_repeated_by(
        &self,
        name: &str,
        tool: Option<&Tool>,
        arguments: &Arguments,
        top_k_max: i64,
    ) -> bool {
        let asks_the_same = match (self.call_request.completed(), tool) {
            (None, _) => self.call_request.as_it_came() == Some(arguments),
            (Some(_), None) => false,
            (Some(before), Some(tool)) => {
                arguments::complete(tool, arguments.clone(), top_k_max).0 == *before
            }
        };
        asks_the_same && *self.call_request.name == *name
    }
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
    /// The answer holds external content.
    pub(crate) quoted: bool,
    /// False for refusals and retryable failures, which do not use up an id.
    pub(crate) is_outcome: bool,
    /// The connection on which the id has had its answer.
    pub(crate) answered_on: Option<u64>,
    /// The effect that has this outcome.
    pub(crate) effect_id: Option<EffectId>,
    /// The answer as it was recorded, if this one says that it comes from the record.
    pub(crate) repeats: Option<Arc<ToolResponse>>,
    /// The note for the model beside it: nothing further was done.
    pub(crate) note: Option<Arc<str>>,
}

impl Settled {
    /// An answer that reports no effect.
    pub(crate) fn refusal(response: Arc<ToolResponse>, turn: u64) -> Self {
        Self {
            response,
            turn,
            quoted: false,
            is_outcome: false,
            answered_on: None,
            effect_id: None,
            repeats: None,
            note: None,
        }
    }

    /// How an effect ended.
    pub(crate) fn outcome(
        response: Arc<ToolResponse>,
        turn: u64,
        reach: Reach,
        effect_id: Option<EffectId>,
    ) -> Self {
        Self {
            quoted: reach == Reach::External,
            is_outcome: true,
            effect_id,
            ..Self::refusal(response, turn)
        }
    }

    /// Whether both are the outcome of one run.
    pub(crate) fn is_of_one_run(&self, other: &Self) -> bool {
        let recorded = |settled: &Self| {
            let recorded = settled.repeats.as_ref().unwrap_or(&settled.response);
            Arc::as_ptr(recorded)
        };
        std::ptr::eq(recorded(self), recorded(other))
    }
}

impl Deliveries {
    pub(crate) fn new(limits: &Limits) -> Self {
        // An unbounded one allocates nothing until it is used; it is bounded when it is full.
        Self {
            records: LruCache::unbounded_with_hasher(BuildQuickHasher::default()),
            records_max: limits.recorded_responses_max,
        }
    }

    /// The number of recorded deliveries.
    pub(crate) fn recorded(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn find(&mut self, key: &HashedKey) -> Option<&mut Delivery> {
        self.records.get_mut(key)
    }

    pub(crate) fn remember(&mut self, call_request: CallRequest, state: DeliveryState) {
        self.records.put(
            call_request.key.clone(),
            Delivery {
                call_request,
                state,
            },
        );
        bound(&mut self.records, self.records_max);
    }

    /// Gives the record of an open delivery its answer, or records both if the open one was forgotten.
    pub(crate) fn settle(&mut self, call_request: CallRequest, settled: Settled) {
        let state = DeliveryState::Settled(settled);
        match self.find(&call_request.key) {
            Some(delivery) if matches!(delivery.state, DeliveryState::Open(number) if number == call_request.number) =>
            {
                delivery.state = state;
            }
            Some(_) | None => self.remember(call_request, state),
        }
    }
}

/// The delivery's identity: the provider's id if it is reliable, otherwise a hash of the request, with the id beside it.
pub(crate) fn delivery_key(
    id: Option<Arc<str>>,
    name: &str,
    arguments: Option<&Arguments>,
    turn: u64,
) -> (HashedKey, Option<Arc<str>>) {
    match id {
        Some(id) if names_delivery(&id, name) => (DeliveryKey::Provider(id).into(), None),
        unstable_id => {
            let hash = json::hash(&json!({ "tool": name, "args": arguments, "turn": turn }));
            let mut first = [0; 8];
            first.copy_from_slice(&hash[..8]);
            (DeliveryKey::Hash { turn, hash: first }.into(), unstable_id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unstable_provider_id_gives_way_to_a_hash_of_the_call() {
        let arguments = json!({"b": 1, "a": 2}).as_object().unwrap().clone().into();
        let key = |id: Option<&str>| {
            let (key, rest) = delivery_key(id.map(Arc::from), "kb_search", Some(&arguments), 3);
            assert_eq!(rest.as_deref(), id.filter(|_| !key.is_stable()));
            key.to_string()
        };
        assert_eq!(key(Some("function-call-1")), "provider:function-call-1");
        let hashed = key(None);
        assert!(hashed.starts_with("hash:3:") && hashed.len() == "hash:3:".len() + 16);
        for id in ["short", "temp-1234567", "kb_search", "kürzer-é"] {
            assert_eq!(key(Some(id)), hashed, "{id}");
        }
        let (later, _) = delivery_key(None, "kb_search", Some(&arguments), 4);
        assert_ne!(later.to_string(), hashed);
    }
}
