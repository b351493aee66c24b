//! Steps 2 and 7: who has been here before. A provider's call id names a delivery, not an effect; both are recognised,
//! each by its own rule (`docs/policies.md`, "The same call twice").

use super::arguments;
use crate::calls::{Call, Earlier};
use crate::facts::{DeliveryKey, HashedKey, Slot};
use crate::hash::{BuildQuickHasher, bound};
use crate::io::Wish;
use crate::limits::Limits;
use lru::LruCache;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use windlass_tool::arguments::Arguments;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, EffectId, UserId};
use windlass_tool::json;
use windlass_tool::kind::Reach;
use windlass_tool::registry::Tool;

/// Provider ids shorter than this, in characters, are taken for unstable (`docs/policies.md`, "The same call twice").
const STABLE_ID_LENGTH_MIN: usize = 9;

/// However few answers are kept, what one wish has changed is known until the next: what is forgotten before would be done twice.
const EFFECTS_MIN: usize = 64;
/// Turns that may pass without a word of the user's, as over a reconnect.
const TURNS_OF_A_WISH: usize = 4;

/// Whether a provider's call id can be trusted to name one delivery: the same id is the same call then, and has one answer on
/// a connection.
pub fn names_delivery(id: &str, tool: &str) -> bool {
    is_long(id) && !id.contains("temp") && *id != *tool
}

fn is_long(id: &str) -> bool {
    id.len() >= STABLE_ID_LENGTH_MIN && id.chars().nth(STABLE_ID_LENGTH_MIN - 1).is_some()
}

/// What became of the deliveries and effects of a session, least recently used out first.
pub(crate) struct Deliveries {
    records: LruCache<HashedKey, Delivery, BuildQuickHasher>,
    effects: LruCache<[u8; 32], Effect, BuildQuickHasher>,
    records_max: usize,
    effects_max: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) slot: Slot,
    pub(crate) state: DeliveryState,
}

impl Delivery {
    /// Whether a call under this delivery's id asks for the same. `tool` is the one that it names.
    pub(crate) fn is_repeated_by(
        &self,
        name: &str,
        tool: Option<&Tool>,
        arguments: &Arguments,
        top_k_max: i64,
    ) -> bool {
        let asks_the_same = match (self.slot.completed(), tool) {
            (None, _) => self.slot.as_it_came() == Some(arguments),
            (Some(_), None) => false,
            (Some(before), Some(tool)) => {
                arguments::complete(tool, arguments.clone(), top_k_max).0 == *before
            }
        };
        asks_the_same && *self.slot.name == *name
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
    /// Holds text that others wrote.
    pub(crate) quoted: bool,
    /// False for refusals and retryable failures, which do not use up an id.
    pub(crate) is_outcome: bool,
    /// The connection on which the id has had its answer.
    pub(crate) answered_on: Option<u64>,
    /// The effect whose outcome this is.
    pub(crate) effect_id: Option<EffectId>,
    /// The answer as it was recorded, where this one says that it is from the record.
    pub(crate) repeats: Option<Arc<ToolResponse>>,
}

impl Settled {
    /// An answer that says nothing of any effect.
    pub(crate) fn refusal(response: Arc<ToolResponse>, turn: u64) -> Self {
        Self {
            response,
            turn,
            quoted: false,
            is_outcome: false,
            answered_on: None,
            effect_id: None,
            repeats: None,
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

    /// Whether both are the end of one run.
    pub(crate) fn is_of_one_run(&self, other: &Self) -> bool {
        let recorded = |settled: &Self| {
            let recorded = settled.repeats.as_ref().unwrap_or(&settled.response);
            Arc::as_ptr(recorded)
        };
        std::ptr::eq(recorded(self), recorded(other))
    }

    /// Whether it tells of the effect what this state does.
    pub(crate) fn says_the_same(&self, effect_id: &EffectId, state: &EffectState) -> bool {
        let EffectState::Settled { settled, .. } = state else {
            return false;
        };
        self.effect_id.as_ref() == Some(effect_id)
            && self.response.error_type() == settled.response.error_type()
    }
}

impl Earlier {
    /// How this effect ended, where it is what was done before, and that is known.
    pub(crate) fn end_of(&self, effect_id: &EffectId) -> Option<Arc<ToolResponse>> {
        let is_known = self.effect_id.as_ref() == Some(effect_id) && !self.is_unknown();
        is_known.then(|| self.settled.response.clone())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) effect_id: Option<EffectId>,
    /// What it was asked for with.
    pub(crate) wish: Wish,
    pub(crate) state: EffectState,
}

impl Effect {
    /// Whether this call waits or runs for it.
    pub(crate) fn is_open_as(&self, number: CallNumber) -> bool {
        matches!(self.state, EffectState::Open(open) if open == number)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum EffectState {
    /// A call that waits or runs.
    Open(CallNumber),
    /// The user is being asked; what the model was answered meanwhile.
    Asked(Settled),
    Settled {
        settled: Settled,
        answer_reached_model: bool,
    },
    /// It has not happened, and the same wish may try again under the same id.
    Failed,
    /// The user said no, whatever had been done before.
    Declined {
        settled: Settled,
        earlier: Option<Box<Earlier>>,
    },
}

impl EffectState {
    /// What came of it, where it is known to have been done.
    pub(crate) fn done(&self) -> Option<Arc<ToolResponse>> {
        match self {
            Self::Settled { settled, .. } => Some(settled.response.clone()),
            Self::Open(_) | Self::Asked(_) | Self::Failed | Self::Declined { .. } => None,
        }
        .filter(|response| response.is_ok())
    }
}

impl Deliveries {
    pub(crate) fn new(limits: &Limits) -> Self {
        let calls_max = usize::try_from(limits.turn.calls_max).unwrap_or(usize::MAX);
        let effects_min = calls_max.saturating_mul(TURNS_OF_A_WISH).max(EFFECTS_MIN);
        // Unbounded ones allocate nothing until they are used; they are bounded when they are full.
        Self {
            records: LruCache::unbounded_with_hasher(BuildQuickHasher::default()),
            effects: LruCache::unbounded_with_hasher(BuildQuickHasher::default()),
            records_max: limits.recorded_responses_max,
            effects_max: limits.recorded_responses_max.max(effects_min),
        }
    }

    /// How many deliveries are on record.
    pub(crate) fn recorded(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn find(&mut self, key: &HashedKey) -> Option<&mut Delivery> {
        self.records.get_mut(key)
    }

    pub(crate) fn remember(&mut self, slot: Slot, state: DeliveryState) {
        self.records.put(slot.key.clone(), Delivery { slot, state });
        bound(&mut self.records, self.records_max);
    }

    /// Gives the record of an open delivery its answer, or records both where the open one was forgotten.
    pub(crate) fn settle(&mut self, call: &Call, settled: Settled) {
        let delivered = call.delivered();
        let state = DeliveryState::Settled(settled);
        match self.find(&delivered.key) {
            Some(delivery) if matches!(delivery.state, DeliveryState::Open(number) if number == delivered.number) =>
            {
                delivery.state = state;
            }
            Some(_) | None => self.remember(call.slot(), state),
        }
    }

    pub(crate) fn effect(&mut self, fingerprint: &[u8; 32]) -> Option<&mut Effect> {
        self.effects.get_mut(fingerprint)
    }

    pub(crate) fn remember_effect(&mut self, fingerprint: [u8; 32], effect: Effect) {
        self.effects.put(fingerprint, effect);
        bound(&mut self.effects, self.effects_max);
    }

    /// Whether the model has this effect's answer, where it is known better than when it was recorded.
    pub(crate) fn note_reach(&mut self, effect_id: &EffectId, reached: bool) {
        for (_, effect) in self.effects.iter_mut() {
            if let EffectState::Settled {
                answer_reached_model,
                ..
            } = &mut effect.state
                && effect.effect_id.as_ref() == Some(effect_id)
            {
                *answer_reached_model = reached;
            }
        }
    }

    /// The effects that ended with answers of this kind.
    pub(crate) fn settled_with(
        &self,
        is_meant: impl Fn(&Effect, &Settled) -> bool,
    ) -> Vec<EffectId> {
        let effects = self.effects.iter().map(|(_, effect)| effect);
        let meant = effects.filter(|effect| match &effect.state {
            EffectState::Settled { settled, .. } => is_meant(effect, settled),
            EffectState::Open(_)
            | EffectState::Asked(_)
            | EffectState::Failed
            | EffectState::Declined { .. } => false,
        });
        meant
            .filter_map(|effect| effect.effect_id.clone())
            .collect()
    }

    /// How an effect ended, where that is known.
    pub(crate) fn end_of(&self, effect_id: &EffectId) -> Option<Arc<ToolResponse>> {
        let is_its = |effect: &Effect| effect.effect_id.as_ref() == Some(effect_id);
        let end = self
            .effects
            .iter()
            .find_map(|(_, effect)| match &effect.state {
                EffectState::Settled { settled, .. } => {
                    is_its(effect).then(|| settled.response.clone())
                }
                EffectState::Declined { earlier, .. } => earlier.as_deref()?.end_of(effect_id),
                EffectState::Open(_) | EffectState::Asked(_) | EffectState::Failed => None,
            });
        end.filter(|end| end.error_type() != Some(ErrorType::OutcomeUnknown))
    }

    /// Whether the model has an answer that says this of the effect, which it may just have been told.
    pub(crate) fn has_answered(
        &self,
        effect_id: &EffectId,
        state: &EffectState,
        is_just_told: bool,
    ) -> bool {
        self.effects.iter().any(|(_, effect)| match &effect.state {
            EffectState::Settled {
                settled,
                answer_reached_model,
            } => (*answer_reached_model || is_just_told) && settled.says_the_same(effect_id, state),
            EffectState::Open(_)
            | EffectState::Asked(_)
            | EffectState::Failed
            | EffectState::Declined { .. } => false,
        })
    }

    /// A call that was kept back and has become another's repeat has no record of its own: its id is told by what it asks.
    pub(crate) fn forget_open(&mut self, key: &HashedKey, call: CallNumber) {
        let record = self.records.peek(key);
        if record
            .is_some_and(|record| matches!(record.state, DeliveryState::Open(open) if open == call))
        {
            self.records.pop(key);
        }
    }

    pub(crate) fn forget_effect(&mut self, fingerprint: &[u8; 32]) {
        self.effects.pop(fingerprint);
    }
}

/// The delivery's identity: the provider's id where it can be trusted to be one, else a hash of what was asked, and the
/// id beside it.
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

/// The identity of a wish: tool, version, user and canonical arguments after validation, defaults and clamping.
pub(crate) fn fingerprint(tool: &Tool, user: &UserId, arguments: &Arguments) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in [tool.id.as_str(), &tool.version, user.as_str()] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    hasher.update(json::canonical(&arguments.to_value()));
    hasher.finalize().into()
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
