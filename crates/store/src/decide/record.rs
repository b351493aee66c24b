//! The ends of attempts: reports of processes, findings of handlers, and requests that were given up.

use super::DecisionBuilder;
use crate::command::{CalledBack, Found, FoundState, Record, Reply, ValuesEntry};
use crate::effect::{AttemptOutcome, LookupState};
use crate::id::{AttemptNumber, Nonce, QuestionNumber};
use crate::log::{EffectState, EntryEvent, LegRequest, QuestionState};
use crate::question::Question;
use crate::rows::Change;
use windlass_contract::sensitive::Sensitive;

/// The longest time that a service may take for an accepted effect.
const ACCEPTED_MAX_MS: u64 = 24 * 60 * 60 * 1_000;

impl DecisionBuilder<'_> {
    pub(super) fn record(&mut self, record: &Record) -> Reply {
        let Some(index) = self.place_of(&record.effect_id) else {
            return Reply::Missing;
        };
        let mut attempts = self.effects[index].attempts.iter();
        let Some(attempt) = attempts.find(|attempt| attempt.number == record.attempt) else {
            return Reply::Missing;
        };
        let outcome = attempt.outcome;
        // Intents for a session are no news of the effect: its service may have reported that before.
        self.pass_on(record);
        if !self.rows.has_values_entry {
            self.write_values(record.values.as_ref());
        }
        if !may_follow(outcome, record.outcome) {
            self.end_pause(index, record);
            return Reply::Recorded(Box::new(self.effects[index].clone()));
        }
        if let AttemptOutcome::Accepted { until_unix_ms } = record.outcome {
            return self.accept(index, record, until_unix_ms);
        }
        let mut attempts = self.effects[index].attempts.iter_mut();
        if let Some(attempt) = attempts.find(|attempt| attempt.number == record.attempt) {
            attempt.outcome = Some(record.outcome);
        }
        let is_newest = record.attempt == self.effects[index].newest_attempt().number;
        let kept = self.kept(record.receipt.as_ref());
        let effect = &mut self.effects[index];
        self.changed_effects.push(effect.effect_id.clone());
        let before = effect.state;
        let state = match record.outcome {
            AttemptOutcome::Succeeded => EffectState::Done,
            // The newest attempt still runs.
            _ if !is_newest && before == EffectState::Running => EffectState::Running,
            AttemptOutcome::Failed
            | AttemptOutcome::Unknown
            | AttemptOutcome::Accepted { .. }
            | AttemptOutcome::Asked { .. } => effect.state_of_attempts(),
        };
        if before == EffectState::Done {
            return Reply::Recorded(Box::new(effect.clone()));
        }
        // The end of such an attempt is not told as the end of its task.
        if is_newest
            && effect.task.is_some()
            && (before, state) == (EffectState::Running, EffectState::NotDone)
            && let Some(pause_ms) = record.next_attempt_ms
            && let Some(newest) = effect.attempts.last_mut()
        {
            newest.lease_end_unix_ms = self.now_unix_ms.saturating_add(pause_ms);
            effect.receipt = kept;
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
        Reply::Recorded(Box::new(self.effects[index].clone()))
    }

    /// No attempt follows the failed one: its task has ended with it.
    fn end_pause(&mut self, index: usize, record: &Record) {
        let effect = &self.effects[index];
        let is_newest = record.attempt == effect.newest_attempt().number;
        let is_over = record.outcome == AttemptOutcome::Failed && record.next_attempt_ms.is_none();
        if effect.is_paused() && is_newest && is_over {
            self.settle(index, EffectState::NotDone);
        }
    }

    /// Passes the intents of an approved run to the session that asked, once. Intents for a leg that is gone are rejected.
    fn pass_on(&mut self, record: &Record) {
        let asks = record.asks.as_ref();
        let Some(asks) = asks.filter(|asks| !asks.intents.is_empty()) else {
            return;
        };
        let key = record.asked_key();
        if self.rows.known_entries.iter().any(Option::is_some) {
            return;
        }
        let asks = LegRequest {
            is_rejected: self.leg.as_ref().is_none_or(|leg| leg.leg != asks.leg),
            ..asks.clone()
        };
        let leg = asks.leg.clone();
        self.write_entry(Some(&leg), None, Some(key), EntryEvent::Asked(asks));
    }

    /// Writes the values that handlers keep for the conversation from this outcome on.
    fn write_values(&mut self, values: Option<&ValuesEntry>) {
        let bytes_max = self.context.limits.entry_bytes_max;
        let Some(values) = values.filter(|values| values.said.expose().len() <= bytes_max) else {
            return;
        };
        // The user has deleted the conversation, or nothing of it is to be left.
        if self.conversation.first_entry > self.conversation.last_entry {
            return;
        }
        let event = EntryEvent::Said(values.said.clone());
        match &values.by {
            Some((leg, number)) => self.write_entry(Some(leg), Some(*number), None, event),
            None => self.log(None, event),
        };
    }

    /// A service has taken the attempt on: its lease is the service's, and its end comes by a callback.
    fn accept(&mut self, index: usize, record: &Record, until_unix_ms: u64) -> Reply {
        // The time is by the clock that accepted the effect.
        let left_ms = until_unix_ms.saturating_sub(self.context.clock_unix_ms);
        let until_unix_ms = self
            .now_unix_ms
            .saturating_add(left_ms.min(ACCEPTED_MAX_MS));
        let kept = self.kept(record.receipt.as_ref());
        let effect = &mut self.effects[index];
        let is_running = effect.state == EffectState::Running;
        if let Some(attempt) = effect.attempts.last_mut()
            && attempt.number == record.attempt
            && is_running
        {
            attempt.lease_end_unix_ms = until_unix_ms;
            attempt.outcome = Some(AttemptOutcome::Accepted { until_unix_ms });
            effect.receipt = kept;
            self.changed_effects.push(effect.effect_id.clone());
            self.is_used = true;
        }
        Reply::Recorded(Box::new(self.effects[index].clone()))
    }

    /// The service reports the end once. An end that comes before the effect was known to be accepted counts, too, and a success counts
    /// whenever it comes.
    pub(super) fn called_back(&mut self, called_back: &CalledBack) -> Reply {
        let Some(effect) = self.effects.first() else {
            return Reply::Missing;
        };
        let attempt = effect.newest_attempt();
        let is_open = match attempt.outcome {
            None | Some(AttemptOutcome::Unknown | AttemptOutcome::Asked { .. }) => true,
            Some(AttemptOutcome::Accepted { until_unix_ms }) => self.now_unix_ms < until_unix_ms,
            Some(AttemptOutcome::Succeeded | AttemptOutcome::Failed) => false,
        };
        let is_open = is_open || called_back.outcome == AttemptOutcome::Succeeded;
        if !is_open || effect.state == EffectState::Done {
            self.settle_lapsed();
            return Reply::TooLate(Box::new(self.effects[0].clone()));
        }
        self.write_values(called_back.values.as_ref());
        let effect = &self.effects[0];
        let attempt = effect.newest_attempt();
        let outcome = match called_back.outcome {
            // The message names the effect and no attempt: it may report the failure of an earlier one again.
            AttemptOutcome::Failed if attempt.number > AttemptNumber(1) => AttemptOutcome::Unknown,
            outcome => outcome,
        };
        let record = Record {
            effect_id: effect.effect_id.clone(),
            attempt: attempt.number,
            outcome,
            next_attempt_ms: None,
            receipt: called_back.receipt.clone(),
            asks: None,
            values: None,
        };
        self.record(&record)
    }

    fn kept(&self, receipt: Option<&Sensitive<String>>) -> Option<Sensitive<String>> {
        let bytes_max = self.context.limits.receipt_bytes_max;
        receipt
            .filter(|receipt| receipt.expose().len() <= bytes_max)
            .cloned()
    }

    /// Takes the finding of a handler that was asked about an unknown effect.
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
        self.write_values(found.values.as_ref());
        let effect = &mut self.effects[0];
        let landed_unix_ms = effect
            .lease_end_unix_ms()
            .saturating_add(self.context.limits.landing_ms);
        self.changed_effects.push(effect.effect_id.clone());
        let failed = match effect.lookup {
            LookupState::Due { failed } | LookupState::Tried { failed, .. } => failed,
            LookupState::NotHappened => 0,
        };
        let finding = match found.finding {
            FoundState::NotHappened if !effect.is_of_one_version() => FoundState::Unknown,
            finding => finding,
        };
        match finding {
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
            // The earlier request may still land: the handler is asked again once it cannot.
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

    /// The command of this nonce is not waited for any more.
    pub(super) fn abandon(&mut self, nonce: Nonce, question: Option<QuestionNumber>) -> Reply {
        self.is_used = true;
        self.other.push(Change::Abandoned {
            nonce,
            at_unix_ms: self.now_unix_ms,
        });
        let found = self.effects.iter().position(|effect| {
            let mut attempts = effect.attempts.iter();
            attempts.any(|attempt| attempt.nonce == nonce)
        });
        let Some(index) = found else {
            if let Some(number) = question {
                self.take_back_approval(number, |question| {
                    question.effect_id.is_none() && question.nonce == nonce
                });
            }
            return Reply::Done;
        };
        if let Some(number) = question
            && self.goes_back_to_asking(index, nonce)
        {
            let effect_id = self.effects[index].effect_id.clone();
            self.take_back_approval(number, |question| {
                question.effect_id.as_ref() == Some(&effect_id)
            });
            return Reply::Recorded(Box::new(self.effects[index].clone()));
        }
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
            if let Some(number) = question {
                let effect = &self.effects[index];
                let approved = effect.attempts.iter();
                let approved = approved.filter(|attempt| attempt.question == Some(number));
                let (is_only, effect_id) = (approved.count() == 1, effect.effect_id.clone());
                self.take_back_approval(number, |question| {
                    is_only && question.effect_id.as_ref() == Some(&effect_id)
                });
            }
        }
        Reply::Recorded(Box::new(self.effects[index].clone()))
    }

    /// An attempt that was to go on by the user's answer has not begun: the one before it asks still. Whether it is so.
    fn goes_back_to_asking(&mut self, index: usize, nonce: Nonce) -> bool {
        let attempts = &mut self.effects[index].attempts;
        let [.., before, newest] = &attempts[..] else {
            return false;
        };
        let asks = matches!(before.outcome, Some(AttemptOutcome::Asked { .. }));
        if !asks || newest.nonce != nonce || newest.outcome.is_some() {
            return false;
        }
        attempts.pop();
        self.changed_effects
            .push(self.effects[index].effect_id.clone());
        true
    }

    /// An approval that has begun nothing is not used up: its approval request is open again, unless another one took its place.
    fn take_back_approval(
        &mut self,
        number: QuestionNumber,
        has_begun_nothing: impl Fn(&Question) -> bool,
    ) {
        let mut questions = self.questions.iter();
        let is_meant = questions.any(|question| {
            question.number == number
                && question.state == QuestionState::Approved
                && has_begun_nothing(question)
        });
        let now_unix_ms = self.now_unix_ms;
        let is_replaced = self
            .questions
            .iter()
            .any(|question| question.is_open(now_unix_ms));
        if is_meant {
            self.withdraw_standing(number);
            let state = match is_replaced {
                true => QuestionState::Closed,
                false => QuestionState::Open,
            };
            self.change_question(number, state, None);
        }
    }
}

/// Whether the known outcome of an attempt may be replaced: a success always counts, doubt never replaces certainty.
fn may_follow(known: Option<AttemptOutcome>, news: AttemptOutcome) -> bool {
    match (known, news) {
        (None, _) | (Some(AttemptOutcome::Unknown), AttemptOutcome::Failed) => true,
        (
            Some(AttemptOutcome::Accepted { .. } | AttemptOutcome::Asked { .. }),
            AttemptOutcome::Failed | AttemptOutcome::Unknown,
        ) => true,
        (Some(known), AttemptOutcome::Succeeded) => known != AttemptOutcome::Succeeded,
        (
            Some(_),
            AttemptOutcome::Failed
            | AttemptOutcome::Unknown
            | AttemptOutcome::Accepted { .. }
            | AttemptOutcome::Asked { .. },
        ) => false,
    }
}
