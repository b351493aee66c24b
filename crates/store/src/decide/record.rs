//! How attempts end: what a process reports, what a handler finds out, and what was given up.

use super::Step;
use crate::command::{Found, FoundState, Record, Refusal, Reply, Run};
use crate::effect::{Attempt, AttemptOutcome, LookupState};
use crate::id::{AttemptNumber, Nonce};
use crate::log::{EffectState, EntryEvent};
use crate::rows::Change;
use windlass_tool::sensitive::Sensitive;

impl Step<'_> {
    pub(super) fn record(&mut self, record: &Record) -> Reply {
        let Some(index) = self.place_of(&record.effect_id) else {
            return Reply::Missing;
        };
        let mut attempts = self.effects[index].attempts.iter_mut();
        let Some(attempt) = attempts.find(|attempt| attempt.number == record.attempt) else {
            return Reply::Missing;
        };
        if !may_follow(attempt.outcome, record.outcome) {
            return Reply::Recorded(Box::new(self.effects[index].clone()));
        }
        attempt.outcome = Some(record.outcome);
        let is_newest = record.attempt == self.effects[index].newest_attempt().number;
        let kept = self.kept(record.receipt.as_ref());
        let effect = &mut self.effects[index];
        self.changed_effects.push(effect.effect_id.clone());
        let before = effect.state;
        let state = match record.outcome {
            AttemptOutcome::Succeeded => EffectState::Done,
            // The newest attempt still runs.
            _ if !is_newest && before == EffectState::Running => EffectState::Running,
            AttemptOutcome::Failed | AttemptOutcome::Unknown => effect.state_of_attempts(),
        };
        if before == EffectState::Done {
            return Reply::Recorded(Box::new(effect.clone()));
        }
        if state == EffectState::Done || is_newest {
            effect.receipt = kept;
        }
        if state != before {
            effect.lookup = LookupState::NONE;
            self.settle(index, state);
        } else if state == EffectState::NotDone {
            // The attempts have failed for certain; before, only a lookup had found nothing.
            effect.lookup = LookupState::NONE;
        }
        if let Some(asks) = record.asks.clone().filter(|asks| !asks.intents.is_empty()) {
            let leg = asks.leg.clone();
            self.log(Some(&leg), EntryEvent::Asked(asks));
        }
        Reply::Recorded(Box::new(self.effects[index].clone()))
    }

    fn kept(&self, receipt: Option<&Sensitive<String>>) -> Option<Sensitive<String>> {
        let bytes_max = self.context.limits.receipt_bytes_max;
        receipt
            .filter(|receipt| receipt.expose().len() <= bytes_max)
            .cloned()
    }

    pub(super) fn retry(&mut self, number: AttemptNumber, nonce: Nonce, lease_ms: u64) -> Reply {
        let now_unix_ms = self.now_unix_ms;
        let owner = self.context.owner.clone();
        let Some(effect) = self.effects.first_mut() else {
            return Reply::Missing;
        };
        let newest = effect.newest_attempt().clone();
        let run = |number, lease_end_unix_ms, effect_id| {
            Reply::Run(Box::new(Run {
                effect_id: Some(effect_id),
                attempt: number,
                lease_end_unix_ms,
                question: None,
            }))
        };
        if newest.nonce == nonce {
            return run(
                newest.number,
                newest.lease_end_unix_ms,
                effect.effect_id.clone(),
            );
        }
        if self.rows.is_abandoned {
            return Reply::Refused(Refusal::Abandoned);
        }
        let is_its = newest.number == number
            && newest.owner == owner
            && effect.state == EffectState::Running;
        if !is_its {
            return Reply::Recorded(Box::new(effect.clone()));
        }
        let lease_end_unix_ms = now_unix_ms.saturating_add(lease_ms);
        if let Some(attempt) = effect.attempts.last_mut() {
            attempt.outcome = Some(AttemptOutcome::Failed);
        }
        let next = AttemptNumber(number.0.saturating_add(1));
        effect.attempts.push(Attempt {
            number: next,
            nonce,
            owner,
            lease_end_unix_ms,
            question: newest.question,
            outcome: None,
        });
        let effect_id = effect.effect_id.clone();
        self.changed_effects.push(effect_id.clone());
        self.is_used = true;
        run(next, lease_end_unix_ms, effect_id)
    }

    /// What a handler found out about an effect that is unknown still.
    pub(super) fn found(&mut self, found: &Found) -> Reply {
        let Some(effect) = self.effects.first_mut() else {
            return Reply::Missing;
        };
        // A positive finding counts in every state, a negative one only while the effect is unknown.
        let is_news = match found.finding {
            FoundState::Happened => effect.state != EffectState::Done,
            FoundState::NotHappened | FoundState::Unknown => effect.state == EffectState::Unknown,
        };
        if !is_news {
            return Reply::Recorded(Box::new(effect.clone()));
        }
        let landed_unix_ms = effect
            .lease_end_unix_ms()
            .saturating_add(self.context.limits.landing_ms);
        self.changed_effects.push(effect.effect_id.clone());
        let failed = match effect.lookup {
            LookupState::Due { failed } | LookupState::Tried { failed, .. } => failed,
            LookupState::NotHappened => 0,
        };
        match found.finding {
            FoundState::Happened => {
                let kept = self.kept(found.receipt.as_ref());
                self.effects[0].receipt = kept;
                self.effects[0].lookup = LookupState::NONE;
                self.settle(0, EffectState::Done);
            }
            FoundState::NotHappened if found.began_unix_ms >= landed_unix_ms => {
                effect.receipt = None;
                effect.lookup = LookupState::NotHappened;
                self.settle(0, EffectState::NotDone);
            }
            // What was sent may still arrive: the handler is asked again once it cannot.
            FoundState::NotHappened => {
                effect.lookup = LookupState::Tried {
                    failed,
                    next_at_unix_ms: landed_unix_ms.max(self.now_unix_ms + 1),
                };
            }
            FoundState::Unknown => {
                effect.lookup = LookupState::Tried {
                    failed: failed + 1,
                    next_at_unix_ms: self.now_unix_ms + super::pause_ms(failed + 1),
                };
            }
        }
        Reply::Recorded(Box::new(self.effects[0].clone()))
    }

    /// Nobody waits for what this nonce began.
    pub(super) fn abandon(&mut self, nonce: Nonce) -> Reply {
        let found = self.effects.iter().position(|effect| {
            let mut attempts = effect.attempts.iter();
            attempts.any(|attempt| attempt.nonce == nonce)
        });
        self.other.push(Change::Abandoned {
            nonce,
            at_unix_ms: self.now_unix_ms,
        });
        let Some(index) = found else {
            return Reply::Done;
        };
        let effect = &mut self.effects[index];
        let mut attempts = effect.attempts.iter_mut();
        if let Some(attempt) = attempts.find(|attempt| attempt.nonce == nonce)
            && attempt.outcome.is_none()
        {
            attempt.outcome = Some(AttemptOutcome::Failed);
            let state = effect.state_of_attempts();
            self.changed_effects.push(effect.effect_id.clone());
            if effect.state != EffectState::Done {
                effect.lookup = LookupState::NONE;
            }
            if effect.state != EffectState::Done && effect.state != state {
                self.settle(index, state);
            }
        }
        Reply::Recorded(Box::new(self.effects[index].clone()))
    }
}

/// Whether what is known of an attempt may be replaced: a success always counts, doubt never replaces certainty.
fn may_follow(known: Option<AttemptOutcome>, news: AttemptOutcome) -> bool {
    match (known, news) {
        (None, _) | (Some(AttemptOutcome::Unknown), AttemptOutcome::Failed) => true,
        (Some(known), AttemptOutcome::Succeeded) => known != AttemptOutcome::Succeeded,
        (Some(_), AttemptOutcome::Failed | AttemptOutcome::Unknown) => false,
    }
}
