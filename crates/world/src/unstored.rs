//! What the store did not take and must not be lost, until it does: the part of the store's thread in this world.

use crate::lane::session_id;
use crate::world::{World, written};
use std::collections::BTreeSet;
use windlass_session::io::{OutcomeRecord, OutcomeState, TokenHash};
use windlass_store::{Decline, Declined, Outcome, Recorded};
use windlass_tool::sensitive::Sensitive;

/// Longer answers are not kept, as in the store's own default.
const RESPONSE_BYTES_MAX: usize = 256 * 1024;

/// What the store has yet to be told.
#[derive(Default)]
pub(crate) struct Unstored {
    /// By lane.
    pub(crate) outcomes: Vec<(usize, OutcomeRecord)>,
    /// Sessions that have read what others wrote, by home and number.
    pub(crate) readings: BTreeSet<(usize, u32)>,
    /// By home.
    pub(crate) closings: Vec<(usize, Closing)>,
}

impl Unstored {
    /// The newest of an effect, until one is definite.
    pub(crate) fn keep(&mut self, index: usize, record: OutcomeRecord) {
        let mut kept = self.outcomes.iter_mut();
        match kept.find(|(_, kept)| kept.effect_id == record.effect_id) {
            Some((_, known)) if known.state != OutcomeState::Unknown => {}
            Some(known) => *known = (index, record),
            None => self.outcomes.push((index, record)),
        }
    }
}

/// Nobody may approve a question any more.
pub(crate) enum Closing {
    Declined(Decline),
    Withdrawn(TokenHash),
}

impl World {
    /// The store's thread tries again by itself what a store did not take, also after the session's end.
    pub(crate) fn record_again(&mut self) {
        let records = std::mem::take(&mut self.unstored.outcomes);
        for (index, record) in records {
            if !self.store_outcome(index, &record) {
                self.unstored.outcomes.push((index, record));
            }
        }
        self.note_readings();
        for (home, closing) in std::mem::take(&mut self.unstored.closings) {
            match closing {
                Closing::Declined(answer) => drop(self.decline(home, answer)),
                Closing::Withdrawn(token_hash) => self.withdraw(home, token_hash),
            }
        }
    }

    /// Whether the store has heard of it.
    pub(crate) fn decline(&mut self, home: usize, answer: Decline) -> bool {
        let declined = self.ask_store(|transaction| transaction.decline(&answer));
        // One whose time is up by the wall clock has nothing to decline, until that is set back.
        let is_stored = matches!(declined, Ok(Declined::Declined(_)));
        self.note_refusal(&answer.token_hash, "the user had declined it", is_stored);
        if declined.is_err() {
            self.unstored
                .closings
                .push((home, Closing::Declined(answer)));
        }
        declined.is_ok()
    }

    pub(crate) fn withdraw(&mut self, home: usize, token_hash: TokenHash) {
        let is_stored = self.tell_store(|transaction| transaction.revoke(&token_hash).map(drop));
        self.note_refusal(&token_hash, "it was withdrawn", is_stored);
        if !is_stored {
            self.unstored
                .closings
                .push((home, Closing::Withdrawn(token_hash)));
        }
    }

    pub(crate) fn note_reading(&mut self, index: usize) {
        let lane = &self.lanes[index];
        self.unstored.readings.insert((lane.home, lane.number));
        self.note_readings();
    }

    /// The store's thread tells the store before anything else what it has yet to know.
    fn note_readings(&mut self) {
        for (home, number) in std::mem::take(&mut self.unstored.readings) {
            let conversation = self.lanes[home].conversation.clone();
            let (session, now_unix_ms) = (session_id(home, number), self.unix_ms());
            let is_stored = self.tell_store(|transaction| {
                transaction.note_reading(&conversation, &session, now_unix_ms)
            });
            if !is_stored {
                self.unstored.readings.insert((home, number));
            }
        }
    }

    pub(crate) fn store_outcome(&mut self, index: usize, record: &OutcomeRecord) -> bool {
        let response = record.response.as_ref().map(Sensitive::expose);
        let text = response
            .and_then(|response| written(response))
            .filter(|text| text.expose().len() <= RESPONSE_BYTES_MAX);
        let outcome = Outcome {
            effect_id: record.effect_id.clone(),
            state: match record.state {
                OutcomeState::Succeeded => windlass_store::OutcomeState::Succeeded,
                OutcomeState::Failed => windlass_store::OutcomeState::Failed,
                OutcomeState::Unknown => windlass_store::OutcomeState::Unknown,
            },
            response: text.clone(),
            now_unix_ms: self.unix_ms(),
        };
        let recorded = self.ask_store(|transaction| transaction.record(&outcome));
        if recorded.is_ok() {
            let watch = &mut self.lanes[index].watch;
            watch.note_recorded(&record.effect_id);
        }
        if recorded == Ok(Recorded::Stored) {
            self.the_ledger_tells_the_truth(record);
            if let Some(response) = response.filter(|_| text.is_some()) {
                self.responses
                    .insert(record.effect_id.clone(), response.clone());
            }
        }
        recorded.is_ok()
    }
}
