//! What a session knows of effects whose last word is not said or not stored. Knows no call's way through the gates.

use crate::io::{LedgerEntry, OutcomeRecord, OutcomeState, Output};
use std::collections::VecDeque;
use std::sync::Arc;
use windlass_tool::id::{CallNumber, CallRef, EffectId};
use windlass_tool::registry::Tool;

/// Attempts whose late result is waited for; the oldest make room, and stay unknown.
pub(super) const LATE_MAX: usize = 32;

/// Effects of which the last word is not said or not stored.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// Outcomes that could not be stored. As long as there is one, no change starts.
    pub(super) unrecorded: Vec<OutcomeRecord>,
    /// How many of them the store has been told once more and has not answered.
    pub(super) recording_again: usize,
    pub(super) late: VecDeque<Started>,
    /// Outcomes for which no call waits, until the store has answered.
    storing: VecDeque<OutcomeRecord>,
    /// Effects that were reserved too late for their call, while another one was about to begin them.
    left: VecDeque<EffectId>,
    /// Calls whose reservation the store owes an answer that nobody waits for: a call may ask once more before that comes.
    overdue: VecDeque<CallNumber>,
    /// It is known what earlier sessions of the conversation did.
    pub(super) is_ledger_read: bool,
    /// Another session has changed something since.
    pub(super) is_ledger_old: bool,
    /// How often it was asked for and has not come.
    pub(super) readings: u32,
    /// What earlier sessions did and no model has heard of, until this one's can.
    pub(super) untold: Vec<LedgerEntry>,
    /// Changes that other sessions are at, and the calls under which it is awaited what becomes of them.
    pub(super) awaited: Vec<Awaited>,
    /// Effects of which the model has been told, until it has had a turn to make something of it.
    pub(super) just_told: Vec<EffectId>,
    /// The same of a question that was put again: what came of it so far the model may not know.
    pub(super) put_again: Vec<EffectId>,
}

impl Unsettled {
    /// What has yet to be stored, once more.
    pub(super) fn records(&self) -> impl Iterator<Item = Output> {
        let records = self.unrecorded.iter().cloned();
        records.map(Output::RecordOutcome)
    }

    /// A session begins by having the ledger read.
    pub(super) fn of_new_session() -> Self {
        Self {
            readings: 1,
            ..Self::default()
        }
    }

    /// Whoever was to hear of this outcome has, or asks for it later.
    pub(super) fn await_storing(&mut self, record: OutcomeRecord) {
        if self.storing.len() >= LATE_MAX {
            self.storing.pop_front();
        }
        self.storing.push_back(record);
    }

    /// The outcome of this effect, and in this state, for which no call waits.
    pub(super) fn take_storing(
        &mut self,
        effect_id: &EffectId,
        state: OutcomeState,
    ) -> Option<OutcomeRecord> {
        let mut storing = self.storing.iter();
        let index =
            storing.position(|record| record.effect_id == *effect_id && record.state == state)?;
        self.storing.remove(index)
    }

    /// Nothing is to be stored or told any more of an earlier run that did not do this, or of which that is not known. How many
    /// outcomes were to be stored again.
    pub(super) fn forget_undone(&mut self, effect_id: &EffectId) -> usize {
        let is_its = |record: &OutcomeRecord| {
            record.effect_id == *effect_id && record.state != OutcomeState::Succeeded
        };
        self.untold.retain(|entry| entry.effect_id != *effect_id);
        self.storing.retain(|record| !is_its(record));
        let before = self.unrecorded.len();
        self.unrecorded.retain(|record| !is_its(record));
        before - self.unrecorded.len()
    }

    /// Nobody waits any longer for the store's answer to this call's reservation.
    pub(super) fn give_up_reservation(&mut self, call: CallNumber) {
        if self.overdue.len() >= LATE_MAX {
            self.overdue.pop_front();
        }
        self.overdue.push_back(call);
    }

    /// Whether the answer to a reservation of this call is one that nobody waits for. They come in their order.
    pub(super) fn take_overdue(&mut self, call: CallNumber) -> bool {
        let index = self.overdue.iter().position(|overdue| *overdue == call);
        index.is_some_and(|index| self.overdue.remove(index).is_some())
    }

    /// This effect is reserved, and runs only if the call that is about to begin it does.
    pub(super) fn leave(&mut self, effect_id: EffectId) {
        if self.left.len() >= LATE_MAX {
            self.left.pop_front();
        }
        self.left.push_back(effect_id);
    }

    /// Whether it was left so, until now.
    pub(super) fn take_left(&mut self, effect_id: &EffectId) -> bool {
        let before = self.left.len();
        self.left.retain(|left| left != effect_id);
        self.left.len() < before
    }

    /// Nobody knows whether the model has been told of this effect.
    pub(super) fn forget_telling(&mut self, effect_id: &EffectId) {
        self.just_told.retain(|told| told != effect_id);
        self.put_again.retain(|told| told != effect_id);
    }

    /// An attempt that was given up may still end.
    pub(super) fn expect_late(&mut self, started: Started) {
        if self.late.len() >= LATE_MAX {
            self.late.pop_front();
        }
        self.late.push_back(started);
    }
}

#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) call: CallNumber,
    pub(super) effect_id: EffectId,
    /// The store could not say what became of it when it was over.
    pub(super) is_unanswered: bool,
}

/// A change that was started, and how it ended is not known.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) attempt: CallRef,
    pub(super) tool: Arc<Tool>,
    pub(super) turn: u64,
    pub(super) fingerprint: Option<[u8; 32]>,
    pub(super) effect_id: EffectId,
    /// Another run of the same effect may have done it, or may do it yet, whatever becomes of this one.
    pub(super) is_one_of_several: bool,
}
