//! How attempts end: what a process reports, what a handler finds out, and what was given up.

use super::Step;
use crate::command::{CalledBack, Found, FoundState, Record, Refusal, Reply, Run};
use crate::effect::{Attempt, AttemptOutcome, LookupState};
use crate::id::{AttemptNumber, Nonce};
use crate::log::{EffectState, EntryEvent};
use crate::rows::Change;
use windlass_tool::sensitive::Sensitive;

/// The longest that a service may take for what it has accepted.
const ACCEPTED_MAX_MS: u64 = 24 * 60 * 60 * 1_000;

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
        if let AttemptOutcome::Accepted { until_unix_ms } = record.outcome {
            return self.accept(index, record, until_unix_ms);
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
            AttemptOutcome::Failed | AttemptOutcome::Unknown | AttemptOutcome::Accepted { .. } => {
                effect.state_of_attempts()
            }
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

    /// A service has taken the attempt on: its lease is the service's, and its end comes by a callback.
    fn accept(&mut self, index: usize, record: &Record, until_unix_ms: u64) -> Reply {
        let latest_unix_ms = self.now_unix_ms.saturating_add(ACCEPTED_MAX_MS);
        let kept = self.kept(record.receipt.as_ref());
        let effect = &mut self.effects[index];
        let is_running = effect.state == EffectState::Running;
        if let Some(attempt) = effect.attempts.last_mut()
            && attempt.number == record.attempt
            && is_running
        {
            let until_unix_ms = until_unix_ms.min(latest_unix_ms);
            attempt.lease_end_unix_ms = until_unix_ms;
            attempt.outcome = Some(AttemptOutcome::Accepted { until_unix_ms });
            effect.receipt = kept;
            self.changed_effects.push(effect.effect_id.clone());
            self.is_used = true;
        }
        Reply::Recorded(Box::new(self.effects[index].clone()))
    }

    /// The service tells the end once. What comes before it was known to have accepted the effect counts, too.
    pub(super) fn called_back(&mut self, called_back: &CalledBack) -> Reply {
        let Some(effect) = self.effects.first() else {
            return Reply::Missing;
        };
        let attempt = effect.newest_attempt();
        let is_open = match attempt.outcome {
            None | Some(AttemptOutcome::Unknown) => true,
            Some(AttemptOutcome::Accepted { until_unix_ms }) => self.now_unix_ms < until_unix_ms,
            Some(AttemptOutcome::Succeeded | AttemptOutcome::Failed) => false,
        };
        if !is_open || effect.state == EffectState::Done {
            self.settle_lapsed();
            return Reply::TooLate(Box::new(self.effects[0].clone()));
        }
        let outcome = match called_back.outcome {
            // The message names the effect and no attempt: it may tell once more how an earlier one failed.
            AttemptOutcome::Failed if attempt.number > AttemptNumber(1) => AttemptOutcome::Unknown,
            outcome => outcome,
        };
        let record = Record {
            effect_id: effect.effect_id.clone(),
            attempt: attempt.number,
            outcome,
            receipt: called_back.receipt.clone(),
            asks: None,
        };
        self.record(&record)
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
            && newest.outcome.is_none()
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
                    next_at_unix_ms: landed_unix_ms,
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
        self.is_used = true;
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
            effect.lookup = LookupState::NONE;
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
        (
            Some(AttemptOutcome::Accepted { .. }),
            AttemptOutcome::Failed | AttemptOutcome::Unknown,
        ) => true,
        (Some(known), AttemptOutcome::Succeeded) => known != AttemptOutcome::Succeeded,
        (
            Some(_),
            AttemptOutcome::Failed | AttemptOutcome::Unknown | AttemptOutcome::Accepted { .. },
        ) => false,
    }
}
