//! The provider's connection as a session sees it: which one it is, what is under way on it, and what waits for the next.
//! Knows no policy; when there is a next one is decided in `policy/reconnect.rs`.

use crate::facts::{DeliveryKey, HashedKey, Slot};
use crate::hash::{BuildQuickHasher, bound};
use crate::model::HistoryEntry;
use crate::policy::{Reconnect, Settled};
use crate::snapshot::WaitingText;
use lru::LruCache;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::kind::Scheduling;

/// The provider's connection, and what is under way on it.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// From 1; 0 before the first.
    pub(crate) generation: u64,
    pub(crate) ready: bool,
    /// It is gone, or given up, and no other has taken its place yet.
    pub(crate) is_lost: bool,
    /// What the user typed while the provider was not ready.
    pub(crate) waiting_texts: Vec<WaitingText>,
    /// The answer under way was interrupted: until the provider ends it, what still comes of it is void.
    pub(crate) discarding: bool,
    /// The provider has said so, too: it answers what comes in from now on.
    pub(crate) is_interruption_known: bool,
    /// The provider still owes the end of an interrupted turn, which will end nothing.
    pub(crate) owes_turn_end: bool,
    pub(crate) closed_ids: ClosedIds,
    pub(crate) plan: Reconnect,
    /// What was said before, for a connection that begins afresh. Announced when it is opened, sent when it is ready.
    pub(crate) seed: Vec<HistoryEntry>,
    /// What the user asked and no connection has answered yet.
    pub(crate) unanswered: Option<String>,
    pub(crate) messages: Messages,
    /// Answers that the model has not reacted to yet.
    pub(crate) unconfirmed: Vec<Unconfirmed>,
    /// Results whose connection is gone, for the next silence.
    pub(crate) late: VecDeque<Late>,
    /// The last result that went out asks for words, and nobody was nudged for it yet.
    pub(crate) nudges_left: u32,
    /// The client was told that the provider is gone.
    pub(crate) is_told_lost: bool,
}

impl Connection {
    /// What is known of this effect now was in no answer yet: whoever hears of those has not heard of it.
    pub(crate) fn outdate(&mut self, effect_id: &EffectId) {
        let unconfirmed = self.unconfirmed.iter_mut().map(|answer| &mut answer.late);
        for answer in unconfirmed.chain(&mut self.late) {
            let of = &mut answer.settled.effect_id;
            if of.as_ref() == Some(effect_id) {
                *of = None;
            }
        }
    }
}

/// What the model produces comes in messages. An answer that went out while one was under way may have reached the model only
/// after it, so that the rest of that message says nothing about the answer (`docs/policies.md`, "When a connection ends").
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// How many have begun.
    begun: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    UnderWay,
    /// It is over, and the provider has still to end its turn: a transcript of it may trail.
    Trailing,
}

impl Messages {
    /// The model produces. Returns the number of the message that this is of.
    pub(crate) fn produced(&mut self) -> u64 {
        if self.phase != Phase::UnderWay {
            self.begun += 1;
            self.phase = Phase::UnderWay;
        }
        self.begun
    }

    /// The model calls. What these calls can follow for certain is what the message before theirs could, unless they begin one:
    /// more calls of one message may have been on their way already when the first was answered.
    pub(crate) fn called(&mut self) -> u64 {
        let goes_on = self.phase == Phase::UnderWay;
        self.produced() - u64::from(goes_on)
    }

    /// A transcript came, which may be of a message that is over: it begins one only where nothing can trail. Returns the
    /// number of the message under way.
    pub(crate) fn transcribed(&mut self) -> Option<u64> {
        (self.phase != Phase::Trailing).then(|| self.produced())
    }

    /// The message is over; with the provider's turn nothing of it is to come.
    pub(crate) fn ended(&mut self, with_turn: bool) {
        self.phase = match with_turn {
            true => Phase::Idle,
            false => Phase::Trailing,
        };
    }

    /// The first message that can follow what is sent now. A model that waits for it goes on with the message that asked.
    pub(crate) fn next(&self, is_waited_for: bool) -> u64 {
        match is_waited_for && self.phase == Phase::UnderWay {
            true => self.begun,
            false => self.begun + 1,
        }
    }
}

/// An answer of which nobody knows yet whether the model has it.
#[derive(Debug)]
pub(crate) struct Unconfirmed {
    pub(crate) late: Late,
    /// The first message of the model's that can be a reaction; none while the answer waits for others of its message.
    pub(crate) heard_from: Option<u64>,
}

/// A result that its connection may never have carried.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) slot: Slot,
    pub(crate) settled: Settled,
    /// When the model is to speak of it, where something says so.
    pub(crate) scheduling: Option<Scheduling>,
}

impl Late {
    /// Whether both say what became of one effect.
    pub(crate) fn is_of_effect(&self, settled: &Settled) -> bool {
        settled.effect_id.is_some() && self.settled.effect_id == settled.effect_id
    }

    /// Whether it is what came of the call, so that nobody who asked for the same is owed more.
    pub(crate) fn answers_whoever_asked(&self) -> bool {
        self.settled.is_outcome || self.settled.repeats.is_some()
    }

    /// Whether a model that is told this has nothing to learn from the other. Of several calls that one run answers, the model
    /// may hear on one connection what another did not carry.
    pub(crate) fn stands_for(&self, other: &Self) -> bool {
        let is_same = match (&self.settled.effect_id, &other.settled.effect_id) {
            // The same may have been wished twice, and done twice.
            (Some(own), Some(others)) => own == others,
            (Some(_), None) | (None, Some(_)) | (None, None) => {
                other.slot.generation < self.slot.generation && other.is_like(&self.slot)
            }
        };
        (is_same && self.answers_whoever_asked()) || self.settled.is_of_one_run(&other.settled)
    }

    /// Whether this call asks for the same thing.
    pub(crate) fn is_like(&self, slot: &Slot) -> bool {
        self.slot.is_like(slot)
    }
}

/// What gets no answer on this connection any more: each delivery that has had its one, and each id that was taken back. A
/// second answer under an id closes some providers' connections. An id that names no delivery of its own may come again
/// with another call, which is owed an answer of its own (`docs/policies.md`, "The same call twice").
#[derive(Debug)]
pub(crate) struct ClosedIds(LruCache<Closed, Ending, BuildQuickHasher>);

/// Why a delivery gets no answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// By the answer of this call.
    Answered(CallNumber),
    TakenBack,
}

#[derive(Debug, PartialEq, Eq)]
struct Closed {
    key: HashedKey,
    /// What the delivery came under, where that is not its key.
    unstable_id: Option<Arc<str>>,
}

impl Closed {
    fn of(id: &Arc<str>, key: &HashedKey) -> Self {
        Self {
            key: key.clone(),
            unstable_id: (!key.is_stable()).then(|| id.clone()),
        }
    }
}

impl Hash for Closed {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key.hash(hasher);
    }
}

/// Providers count their ids up, so that old ones do not come again; more than these need not be known.
const CLOSED_IDS_MAX: usize = 512;

impl Default for ClosedIds {
    fn default() -> Self {
        Self(LruCache::unbounded_with_hasher(BuildQuickHasher::default()))
    }
}

impl ClosedIds {
    /// Ends a delivery. True where it was still open.
    pub(crate) fn close(&mut self, id: &Arc<str>, key: &HashedKey, call: CallNumber) -> bool {
        self.end(Closed::of(id, key), Ending::Answered(call))
    }

    fn end(&mut self, closed: Closed, ending: Ending) -> bool {
        if self.0.contains(&closed) {
            return false;
        }
        self.0.put(closed, ending);
        bound(&mut self.0, CLOSED_IDS_MAX);
        true
    }

    /// Answers that waited for others and are not sent any more were none.
    pub(crate) fn withdraw(&mut self, calls: &[CallNumber]) {
        for (_, ending) in &mut self.0 {
            if matches!(ending, Ending::Answered(call) if calls.contains(call)) {
                *ending = Ending::TakenBack;
            }
        }
    }

    /// A call has come. Where its id names no delivery of its own, it is not the one that was taken back, though it may ask
    /// for the same: it is owed an answer.
    pub(crate) fn reopen(&mut self, id: &Arc<str>, key: &HashedKey) {
        if key.is_stable() {
            return;
        }
        let closed = Closed::of(id, key);
        if self.0.peek(&closed) == Some(&Ending::TakenBack) {
            self.0.pop(&closed);
        }
    }

    /// The provider took an id back, and with it these deliveries: none of them is answered any more. One that is not known yet
    /// may still come, where the id names it.
    pub(crate) fn close_all(&mut self, id: &Arc<str>, keys: &[HashedKey]) {
        if keys.is_empty() {
            let key = DeliveryKey::Provider(id.clone()).into();
            self.end(Closed::of(id, &key), Ending::TakenBack);
        }
        for key in keys {
            self.end(Closed::of(id, key), Ending::TakenBack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(closed: &mut ClosedIds, id: &str, key: DeliveryKey) -> bool {
        closed.close(&id.into(), &key.into(), CallNumber(1))
    }

    #[test]
    fn an_id_is_closed_once_until_many_others_came_after_it() {
        let mut closed = ClosedIds::default();
        let mut provider = |id: &str| close(&mut closed, id, DeliveryKey::Provider(id.into()));
        assert!(provider("call-number-0") && !provider("call-number-0"));
        assert!((1..CLOSED_IDS_MAX).all(|number| provider(&format!("call-number-{number}"))));
        assert!(!provider("call-number-0"));
        assert!((0..CLOSED_IDS_MAX).all(|number| provider(&format!("later-number-{number}"))));
        assert!(provider("call-number-0"));
        assert_eq!(closed.0.len(), CLOSED_IDS_MAX);
    }

    #[test]
    fn an_id_that_names_no_delivery_is_closed_for_each_of_them() {
        let mut closed = ClosedIds::default();
        let key = |hash: u8| DeliveryKey::Hash {
            turn: 1,
            hash: [hash; 8],
        };
        assert!(close(&mut closed, "fc-1", key(1)));
        assert!(close(&mut closed, "fc-1", key(2)));
        assert!(close(&mut closed, "fc-2", key(1)));
        assert!(!close(&mut closed, "fc-1", key(1)));
    }
}
