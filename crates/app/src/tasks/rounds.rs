//! The order in which ends of tasks are posted, and when again: a refused end holds up no other. Pure: time comes in, and nothing is
//! posted here.

use crate::handovers::pause_after;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use windlass_contract::id::EffectId;

/// Ends of one round. The next round goes on after them, and begins anew after the last end.
pub(super) const LOOKED_AT_MAX: usize = 256;
/// Refused ends that one round posts again. The rest has its turn after the other ends.
const AGAIN_MAX: usize = 8;
/// Refused ends whose pauses are kept. For one more, the next due one is forgotten and tried anew without its pause.
const TRIED_MAX: usize = 4_096;

/// An end by its place in the list of all, which is by time and id.
pub(super) type Place = (u64, EffectId);

/// The state of the rounds.
#[derive(Default)]
pub(super) struct Rounds {
    behind: Option<Place>,
    tried: BTreeMap<EffectId, Tried>,
    /// How often the list has begun anew.
    cycle: u64,
}

/// The failed attempts to post an end.
#[derive(Clone, Copy, Debug)]
struct Tried {
    attempts: u32,
    again_at: Instant,
    seen_in: u64,
}

impl Rounds {
    /// The end after which the next round looks.
    pub(super) fn behind(&self) -> Option<Place> {
        self.behind.clone()
    }

    /// The ends to post now, as positions in `found`: those that were never posted, and then a few of those whose pause was over first.
    pub(super) fn due(&mut self, found: &[Place], now: Instant) -> Vec<usize> {
        let (mut new, mut again) = (Vec::new(), Vec::new());
        for (index, (_, id)) in found.iter().enumerate() {
            let again_at = self.tried.get_mut(id).map(|tried| {
                tried.seen_in = self.cycle;
                tried.again_at
            });
            match again_at {
                None => new.push(index),
                Some(again_at) if again_at <= now => again.push((again_at, index)),
                Some(_) => {}
            }
        }
        again.sort_unstable();
        let again = again.into_iter().take(AGAIN_MAX);
        new.extend(again.map(|(_, index)| index));
        self.behind = found
            .last()
            .filter(|_| found.len() >= LOOKED_AT_MAX)
            .cloned();
        if self.behind.is_none() {
            // Ends that are no longer in the list are forgotten.
            let cycle = self.cycle;
            self.tried.retain(|_, tried| tried.seen_in == cycle);
            self.cycle += 1;
        }
        new
    }

    pub(super) fn taken(&mut self, id: &EffectId) {
        self.tried.remove(id);
    }

    /// Notes a refusal. Returns the pause before the next attempt.
    pub(super) fn refused(&mut self, id: &EffectId, now: Instant) -> Duration {
        let attempts = self.tried.get(id).map_or(0, |tried| tried.attempts);
        let pause = pause_after(attempts);
        if attempts == 0 && self.tried.len() >= TRIED_MAX {
            let next = self.tried.iter().min_by_key(|(_, tried)| tried.again_at);
            let next = next.map(|(id, _)| id.clone());
            next.map(|next| self.tried.remove(&next));
        }
        let tried = Tried {
            attempts: attempts.saturating_add(1),
            again_at: now + pause,
            seen_in: self.cycle,
        };
        self.tried.insert(id.clone(), tried);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_secs(1);

    /// A list of ends. Some of them are always refused.
    struct Scene {
        rounds: Rounds,
        list: Vec<Place>,
        now: Instant,
        posted: Vec<EffectId>,
    }

    impl Scene {
        fn new(refused: u64) -> Self {
            let list = (0..refused).map(|number| (number, EffectId::new(format!("bad-{number}"))));
            Self {
                rounds: Rounds::default(),
                list: list.collect(),
                now: Instant::now(),
                posted: Vec::new(),
            }
        }

        fn round(&mut self) {
            let behind = self.rounds.behind();
            let found = self
                .list
                .iter()
                .filter(|place| Some(*place) > behind.as_ref());
            let found: Vec<Place> = found.take(LOOKED_AT_MAX).cloned().collect();
            for index in self.rounds.due(&found, self.now) {
                let (_, id) = &found[index];
                self.posted.push(id.clone());
                if id.as_str().starts_with("bad") {
                    self.rounds.refused(id, self.now);
                } else {
                    self.rounds.taken(id);
                    self.list.retain(|(_, known)| known != id);
                }
            }
            self.now += ROUND;
        }
    }

    #[test]
    fn ends_that_are_refused_hold_up_no_other_one() {
        for refused in [0, 1, 7, 256, 257, 1_000, 6_000] {
            let mut scene = Scene::new(refused);
            (0..100).for_each(|_| scene.round());
            let good = EffectId::new("good");
            scene.list.push((u64::MAX, good.clone()));
            let pages = refused / LOOKED_AT_MAX as u64 + 1;
            // It may come right behind where the rounds are.
            (0..2 * pages).for_each(|_| scene.round());
            assert!(scene.posted.contains(&good), "{refused}");
            assert!(scene.rounds.tried.len() <= TRIED_MAX);
        }
    }

    #[test]
    fn a_refused_end_is_posted_again_after_growing_pauses() {
        let mut scene = Scene::new(1);
        (0..30).for_each(|_| scene.round());
        // At 0, 1, 5 and 21 seconds.
        assert_eq!(scene.posted.len(), 4);
        scene.list.clear();
        scene.round();
        scene.round();
        assert!(scene.rounds.tried.is_empty());
    }
}
