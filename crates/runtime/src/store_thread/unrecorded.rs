//! What must not be lost and the disk did not take, until it does: outcomes, without which the ledger would call unknown what
//! is known, the conversations that hold what others wrote, and the questions that nobody may approve any more.

use super::request::{Closing, Lasting, Reading};
use std::collections::VecDeque;
use windlass_store::{Outcome, OutcomeState, StoreUnavailable, Transaction};

pub(super) struct Unrecorded {
    outcomes: VecDeque<Outcome>,
    readings: VecDeque<Reading>,
    closings: VecDeque<Closing>,
    /// Of each.
    kept_max: usize,
}

impl Unrecorded {
    pub(super) fn new(kept_max: usize) -> Self {
        Self {
            outcomes: VecDeque::new(),
            readings: VecDeque::new(),
            closings: VecDeque::new(),
            kept_max,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.outcomes.is_empty() && self.readings.is_empty() && self.closings.is_empty()
    }

    pub(super) fn keep(&mut self, lasting: Lasting) {
        match lasting {
            Lasting::Outcome(outcome) => self.keep_outcome(outcome),
            Lasting::Reading(reading) => self.keep_reading(reading),
            Lasting::Closing(closing) => self.keep_closing(closing),
        }
    }

    /// A session tries again, too, so that the same effect comes often; its newest outcome counts, until one is definite. Past the limit the oldest
    /// goes: its effect stays reserved in the ledger, and so unknown.
    fn keep_outcome(&mut self, outcome: Outcome) {
        let mut kept = self.outcomes.iter_mut();
        if let Some(known) = kept.find(|kept| kept.effect_id == outcome.effect_id) {
            // A definite one is not overwritten, as in the ledger.
            if known.state == OutcomeState::Unknown {
                *known = outcome;
            }
            return;
        }
        if self.outcomes.len() >= self.kept_max {
            self.outcomes.pop_front();
            tracing::error!("an outcome is lost; its effect counts as unknown");
        }
        self.outcomes.push_back(outcome);
    }

    /// Past the limit the oldest goes: the session that said it still asks before changes, and the next of its conversation
    /// does not know.
    fn keep_reading(&mut self, reading: Reading) {
        if self.readings.len() >= self.kept_max {
            self.readings.pop_front();
            tracing::error!("it is lost that a conversation holds what others wrote");
        }
        self.readings.push_back(reading);
    }

    /// Past the limit the oldest goes: a session that begins later finds the question open until its time is up.
    fn keep_closing(&mut self, closing: Closing) {
        if self.closings.contains(&closing) {
            return;
        }
        if self.closings.len() >= self.kept_max {
            self.closings.pop_front();
            tracing::error!("it is lost that a question may not be approved any more");
        }
        self.closings.push_back(closing);
    }

    /// Records all of them in a transaction, oldest first.
    pub(super) fn record(&self, transaction: &mut dyn Transaction) -> Result<(), StoreUnavailable> {
        for outcome in &self.outcomes {
            transaction.record(outcome)?;
        }
        for reading in &self.readings {
            reading.note(transaction)?;
        }
        for closing in &self.closings {
            closing.note(transaction)?;
        }
        Ok(())
    }

    /// They are stored.
    pub(super) fn clear(&mut self) {
        if !self.is_empty() {
            tracing::info!(
                outcomes = self.outcomes.len(),
                readings = self.readings.len(),
                closings = self.closings.len(),
                "the store is back and has what waited"
            );
            self.outcomes.clear();
            self.readings.clear();
            self.closings.clear();
        }
    }
    /// Nobody will try again.
    pub(super) fn give_up(&self) {
        if !self.is_empty() {
            tracing::error!(
                outcomes = self.outcomes.len(),
                readings = self.readings.len(),
                closings = self.closings.len(),
                "what the store did not take is lost: a change without its outcome counts as unknown, and a question that was \
                 closed may be put again"
            );
        }
    }
}
