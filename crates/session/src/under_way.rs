//! Which session of a process is at which effect, so that no two are at one: the ledger alone cannot tell a change that is
//! still being made from one whose process has ended. Knows no store and no handler.

use crate::news::{Conversations, Membership};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use windlass_tool::id::{ConversationId, EffectId, SessionId};

/// The effects that sessions of this process are at: from the wish to reserve one until its outcome is stored and no attempt
/// at it runs any more, and while a handler is asked what became of it. Whoever shares a store shares this.
#[derive(Clone, Debug, Default)]
pub struct UnderWay {
    held: Arc<Mutex<BTreeMap<EffectId, Holder>>>,
    conversations: Conversations,
    #[cfg(feature = "planted-bugs")]
    bug: Option<crate::planted::PlantedBug>,
}

#[derive(Debug)]
struct Holder {
    session: SessionId,
    claims: usize,
    /// Who waits for the last claim to be dropped.
    wakers: Vec<Waker>,
}

/// Keeps other sessions from an effect until it, and every clone of it, is dropped.
#[derive(Debug)]
pub struct Claim {
    under_way: UnderWay,
    effect_id: EffectId,
}

impl UnderWay {
    /// A session may claim an effect as often as it likes. `None` where another session is at it.
    pub fn claim(&self, effect_id: &EffectId, session: &SessionId) -> Option<Claim> {
        if self.is_refused_by_chance() {
            return None;
        }
        let mut held = self.lock();
        if let Some(holder) = held.get_mut(effect_id) {
            if holder.session != *session && !self.is_shared() {
                return None;
            }
            holder.claims += 1;
        } else {
            let holder = Holder {
                session: session.clone(),
                claims: 1,
                wakers: Vec::new(),
            };
            held.insert(effect_id.clone(), holder);
        }
        drop(held);
        Some(Claim {
            under_way: self.clone(),
            effect_id: effect_id.clone(),
        })
    }

    /// Ends when no session is at the effect, which may be at once.
    pub fn free(&self, effect_id: &EffectId) -> Free {
        Free {
            under_way: self.clone(),
            effect_id: effect_id.clone(),
        }
    }

    pub fn is_free(&self, effect_id: &EffectId) -> bool {
        !self.lock().contains_key(effect_id)
    }

    /// From now on a session is of this conversation, and hears that another one has changed something.
    pub fn join(&self, conversation_id: &ConversationId) -> Membership {
        self.conversations.join(conversation_id)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<EffectId, Holder>> {
        // A claim is one step, so that a panic elsewhere leaves the map whole.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "planted-bugs")]
    fn is_shared(&self) -> bool {
        self.bug == Some(crate::planted::PlantedBug::SharesEffects)
    }

    #[cfg(not(feature = "planted-bugs"))]
    fn is_shared(&self) -> bool {
        false
    }

    #[cfg(feature = "planted-bugs")]
    fn is_refused_by_chance(&self) -> bool {
        self.bug == Some(crate::planted::PlantedBug::ClaimsByChance)
            && crate::planted::chance().is_multiple_of(2)
    }

    #[cfg(not(feature = "planted-bugs"))]
    fn is_refused_by_chance(&self) -> bool {
        false
    }

    /// One with or without a bug.
    #[cfg(feature = "planted-bugs")]
    pub fn with_bug(bug: Option<crate::planted::PlantedBug>) -> Self {
        Self {
            bug,
            ..Self::default()
        }
    }
}

/// Waits until no session is at an effect.
#[derive(Debug)]
pub struct Free {
    under_way: UnderWay,
    effect_id: EffectId,
}

impl Future for Free {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut held = self.under_way.lock();
        let Some(holder) = held.get_mut(&self.effect_id) else {
            return Poll::Ready(());
        };
        let waker = context.waker();
        if !holder.wakers.iter().any(|known| known.will_wake(waker)) {
            holder.wakers.push(waker.clone());
        }
        Poll::Pending
    }
}

impl Claim {
    pub fn effect_id(&self) -> &EffectId {
        &self.effect_id
    }
}

impl Clone for Claim {
    fn clone(&self) -> Self {
        if let Some(holder) = self.under_way.lock().get_mut(&self.effect_id) {
            holder.claims += 1;
        }
        Self {
            under_way: self.under_way.clone(),
            effect_id: self.effect_id.clone(),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut held = self.under_way.lock();
        let last = held.get_mut(&self.effect_id).and_then(|holder| {
            holder.claims -= 1;
            (holder.claims == 0).then(|| std::mem::take(&mut holder.wakers))
        });
        let Some(wakers) = last else { return };
        held.remove(&self.effect_id);
        drop(held);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[test]
    fn an_effect_is_one_sessions_until_its_last_claim_is_dropped() {
        let under_way = UnderWay::default();
        let claim = |effect: &str, session: &str| {
            under_way.claim(&EffectId::new(effect), &SessionId::new(session))
        };
        let first = claim("e-1", "s-1").unwrap();
        let again = claim("e-1", "s-1").unwrap();
        let cloned = first.clone();
        assert!(claim("e-2", "s-2").is_some());
        for claim_of_first in [first, again, cloned] {
            assert!(claim("e-1", "s-2").is_none());
            drop(claim_of_first);
        }
        assert!(claim("e-1", "s-2").is_some());
        assert!(under_way.lock().is_empty());
    }

    #[test]
    fn whoever_waits_for_an_effect_is_woken_by_the_last_claim_alone() {
        let under_way = UnderWay::default();
        let effect_id = EffectId::new("e-1");
        let claim = under_way.claim(&effect_id, &SessionId::new("s-1")).unwrap();
        let again = claim.clone();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut free = std::pin::pin!(under_way.free(&effect_id));
        for _ in 0..2 {
            assert!(free.as_mut().poll(&mut context).is_pending());
        }
        drop(claim);
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        drop(again);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(free.as_mut().poll(&mut context).is_ready());
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}
