//! Outcomes that the disk did not take, until it does. Without them the ledger would call unknown what is known.

use std::collections::VecDeque;
use windlass_store::{Outcome, StoreUnavailable, Transaction};

pub(super) struct Unrecorded {
    outcomes: VecDeque<Outcome>,
    outcomes_max: usize,
}

impl Unrecorded {
    pub(super) fn new(outcomes_max: usize) -> Self {
        Self {
            outcomes: VecDeque::new(),
            outcomes_max,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// A session tries again, too, so that the same effect comes often; its newest outcome counts. Past the limit the oldest
    /// goes: its effect stays reserved in the ledger, and so unknown.
    pub(super) fn keep(&mut self, outcome: Outcome) {
        let mut kept = self.outcomes.iter_mut();
        if let Some(known) = kept.find(|kept| kept.effect_id == outcome.effect_id) {
            *known = outcome;
            return;
        }
        if self.outcomes.len() >= self.outcomes_max {
            self.outcomes.pop_front();
            tracing::error!("an outcome is lost; its effect counts as unknown");
        }
        self.outcomes.push_back(outcome);
    }

    /// Records all of them in a transaction, oldest first.
    pub(super) fn record(&self, transaction: &mut dyn Transaction) -> Result<(), StoreUnavailable> {
        for outcome in &self.outcomes {
            transaction.record(outcome)?;
        }
        Ok(())
    }

    /// They are stored.
    pub(super) fn clear(&mut self) {
        if !self.outcomes.is_empty() {
            tracing::info!(
                outcomes = self.outcomes.len(),
                "the store is back and has what waited"
            );
            self.outcomes.clear();
        }
    }
}
