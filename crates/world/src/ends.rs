//! Certain reports of handlers while nothing failed around them: no one may doubt them afterwards. Knows no session.

use crate::judge::Rule;
use crate::mood::StoreMood;
use crate::tools;
use crate::world::World;
use windlass_contract::id::EffectId;
use windlass_store::Effect;

/// The time in which the end of an attempt is recorded if process and store are well.
const RECORDING_US: u64 = 40_000_000;
/// The least time of an attempt, of any tool.
const IN_TIME_US: u64 = 4_900_000;

/// The end of an attempt, as its handler told its session in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownEnd {
    pub(crate) at_us: u64,
    /// The session that was told.
    pub(crate) life: usize,
    is_done: bool,
}

impl World {
    /// A handler has told its session the end of an attempt. Changes that are made of others may be in doubt because of these.
    pub(crate) fn note_end(
        &mut self,
        tool: &str,
        attempt: (EffectId, windlass_store::AttemptNumber),
        (life, is_done): (usize, bool),
    ) {
        let started_us = self.judge.started.get(&attempt).copied();
        let is_in_time = started_us.is_some_and(|at_us| self.now_us - at_us < IN_TIME_US);
        let is_whole = tool != tools::TRIP && tool != tools::STAGE;
        if is_in_time && is_whole && self.mood == StoreMood::Up {
            let at_us = self.now_us;
            self.judge.ends.insert(
                attempt,
                KnownEnd {
                    at_us,
                    life,
                    is_done,
                },
            );
        }
    }

    /// The ledger has an effect as unknown. That is wrong if each of its attempts has told its end.
    pub(crate) fn is_in_doubt(&mut self, effect: &Effect) {
        let known = effect.attempts.iter().map(|attempt| {
            let attempt = (effect.effect_id.clone(), attempt.number);
            self.judge.ends.get(&attempt).copied()
        });
        let Some(ends) = known.collect::<Option<Vec<KnownEnd>>>() else {
            return;
        };
        // If one attempt has worked, the effect is done, whatever was said of the others.
        let is_done = ends.iter().any(|end| end.is_done);
        let is_recorded = ends.iter().all(|end| self.was_undisturbed(end.at_us));
        if is_recorded {
            let what = format!("{effect:?} is in doubt, done is {is_done}: {ends:?}");
            self.broken(Rule::WhatIsKnownIsNotDoubted, what);
        }
    }

    /// The session that has run an effect tells someone that its outcome is unknown.
    pub(crate) fn is_told_in_doubt(&mut self, id: usize, effect_id: &EffectId) {
        let attempts = self.judge.granted.range(attempts_of(effect_id));
        let ends = attempts.map(|attempt| self.judge.ends.get(attempt).copied());
        let Some(ends) = ends.collect::<Option<Vec<KnownEnd>>>() else {
            return;
        };
        // This session knows the run of another one only by the ledger.
        if ends.iter().any(|end| end.life != id) {
            return;
        }
        let since_us = ends.iter().map(|end| end.at_us).min();
        let is_known = since_us.is_some_and(|since_us| {
            let disturbances = self.judge.disturbances.iter();
            // A session that waits in vain for an acknowledgement reports no more than it knows.
            let mut since = disturbances.chain(&self.judge.unacknowledged);
            !since.any(|at_us| *at_us >= since_us)
        });
        if is_known && !self.had_two_owners {
            let what = format!("{effect_id} is told to be in doubt, and its handler said {ends:?}");
            self.broken(Rule::WhatIsKnownIsNotDoubted, what);
        }
    }

    pub(crate) fn was_undisturbed(&self, at_us: u64) -> bool {
        let mut disturbances = self.judge.disturbances.iter();
        !disturbances.any(|disturbance_us| (at_us..at_us + RECORDING_US).contains(disturbance_us))
    }

    /// Whether an effect that began then may have been deleted.
    pub(crate) fn may_be_forgotten(&self, started_us: u64) -> bool {
        (self.now_us - started_us) / 1_000 >= self.surely(self.limits.effect_ms)
    }
}

fn attempts_of(
    effect_id: &EffectId,
) -> std::ops::RangeInclusive<(EffectId, windlass_store::AttemptNumber)> {
    let attempt = |number| (effect_id.clone(), windlass_store::AttemptNumber(number));
    attempt(0)..=attempt(u32::MAX)
}
