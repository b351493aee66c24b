//! What the other living sessions of the conversation change while this one lives: the ledger is read again, and what is news in
//! it is remembered. Knows no store and no other session; the driver sees both.

use super::Session;
use super::remembered::{LEDGER_AGAIN, is_untold};
use super::restored::tell_client;
use crate::calls::Earlier;
use crate::confirmations::{Confirmation, ConfirmationState};
use crate::deadlines::Deadline;
use crate::event::{Resolution, SessionEvent};
use crate::io::{LedgerEntry, OutcomeState, Output};
use crate::policy::EffectState;
use crate::time::Timestamp;
use std::collections::HashSet;
use std::time::Duration;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, EffectId, ToolId};
use windlass_tool::kind::Mode;

impl Session {
    /// Whether it is known what the conversation has changed, in whatever session.
    pub(crate) fn is_ledger_read(&self) -> bool {
        self.unsettled.is_ledger_read && !self.unsettled.is_ledger_old
    }

    pub(super) fn read_ledger(&mut self, out: &mut Vec<Output>) {
        self.unsettled.readings = self.unsettled.readings.saturating_add(1);
        out.push(Output::ReadLedger);
    }

    pub(super) fn on_changed_elsewhere(&mut self, out: &mut Vec<Output>) {
        self.unsettled.is_ledger_old = true;
        self.read_ledger(out);
    }

    /// The store has not said in time what was changed. Should it never do so, it is asked again.
    pub(super) fn give_up_reading(&mut self) {
        if self.unsettled.is_ledger_old {
            self.unsettled.readings = 0;
            let again = self.now + LEDGER_AGAIN;
            self.deadlines.set(Deadline::LedgerAgain, again);
        }
    }

    /// The ledger was read again: the newest entry of each wish, which is the last, is remembered where it is news. A model of a
    /// chat is told of what no other has heard, before the user's next words. By voice that would be said into whatever is
    /// spoken of, perhaps while the other session says the same: there it is the answer to whoever asks for it.
    pub(super) fn merge_ledger(&mut self, entries: Vec<LedgerEntry>, out: &mut Vec<Output>) {
        let mut wishes = HashSet::new();
        let mut newest: Vec<LedgerEntry> = entries
            .into_iter()
            .rev()
            .filter(|entry| wishes.insert(entry.fingerprint))
            .collect();
        newest.reverse();
        for mut entry in newest {
            if self.knows_better(&entry) {
                continue;
            }
            let at = entry.reserved_at_unix_ms;
            let at = at.saturating_sub(self.config.started_unix_ms);
            let at = Timestamp::default() + Duration::from_millis(at);
            entry.wish.input = self.turns.inputs_before(at);
            self.end_question_about(&entry, out);
            if self.config.mode == Mode::Text && is_untold(&entry) {
                self.unsettled.untold.push(entry.clone());
            }
            if !self.remember_behind_a_no(&entry) {
                self.remember_entry(entry);
            }
        }
        self.tell_untold(out);
        if self.unsettled.readings == 0 {
            self.unsettled.is_ledger_old = false;
            self.recall_remembering(out);
        }
    }

    /// What was done before the user said no is what their next words are about, and the no holds until then. Whether that is so.
    fn remember_behind_a_no(&mut self, entry: &LedgerEntry) -> bool {
        let before = self.state_in_ledger(entry);
        let Some(known) = self.deliveries.effect(&entry.fingerprint) else {
            return false;
        };
        let EffectState::Declined { settled, earlier } = &mut known.state else {
            return false;
        };
        let EffectState::Settled { settled: done, .. } = before else {
            return false;
        };
        if entry.reserved_at_unix_ms > settled.response.meta.timestamp {
            return false;
        }
        *earlier = Some(Box::new(Earlier {
            settled: done,
            effect_id: Some(entry.effect_id.clone()),
            wish: entry.wish,
            is_second_wish: true,
            ran_at_lookup: false,
        }));
        true
    }

    /// Whether what this session knows of a wish is as new as the ledger's newest entry of it.
    fn knows_better(&mut self, entry: &LedgerEntry) -> bool {
        let is_own = entry.wish.line == Some(self.began_unix_ms);
        let Some(known) = self.deliveries.effect(&entry.fingerprint) else {
            return false;
        };
        let is_same = known.effect_id.as_ref() == Some(&entry.effect_id);
        match &known.state {
            EffectState::Open(_) => true,
            EffectState::Asked(asked) => {
                // The user may be asked just because nobody knows how it ended.
                let is_since = entry.reserved_at_unix_ms > asked.response.meta.timestamp;
                !is_same
                    || match entry.state {
                        OutcomeState::Succeeded => false,
                        OutcomeState::Failed => true,
                        OutcomeState::Unknown => is_own || !is_since,
                    }
            }
            EffectState::Failed => is_own || (is_same && entry.state == OutcomeState::Failed),
            // The no was said to a question that named what was known to be done before it, and nothing else.
            EffectState::Declined { earlier, .. } => {
                let named = earlier
                    .as_ref()
                    .and_then(|earlier| earlier.effect_id.as_ref());
                is_own || entry.state == OutcomeState::Failed || named == Some(&entry.effect_id)
            }
            EffectState::Settled { settled, .. } if is_same => {
                let is_unknown = settled.response.error_type() == Some(ErrorType::OutcomeUnknown);
                !is_unknown || entry.state == OutcomeState::Unknown
            }
            EffectState::Settled { .. } => is_own,
        }
    }

    /// The user has approved what was approved in another session before: who approves it once more hears what came of that.
    pub(super) fn leave_question_elsewhere(
        &mut self,
        number: CallNumber,
        effect_id: &EffectId,
        tool: &ToolId,
    ) {
        if let Some(entry) = self.confirmations.by_call(number)
            && entry.question.effect_id == *effect_id
        {
            let (tool, askers) = (tool.clone(), 0);
            entry.state = ConfirmationState::Elsewhere { tool, askers };
        }
    }

    /// The user has approved the same in another session, so that nothing is left to be asked here: who answers this question
    /// hears what came of that.
    fn end_question_about(&mut self, entry: &LedgerEntry, out: &mut Vec<Output>) {
        let asked = self.confirmations.open_like(&entry.fingerprint);
        let asked = asked.filter(|question| question.effect_id == entry.effect_id);
        let Some(number) = asked.map(|question| question.call) else {
            return;
        };
        let Some((_, question)) = self.confirmations.take_open(number) else {
            return;
        };
        self.deadlines.clear(Deadline::Confirmation(number));
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(number),
            resolution: Resolution::Withdrawn,
        }));
        let state = match entry.state {
            OutcomeState::Succeeded | OutcomeState::Failed => {
                let response = self.answer_in_ledger(entry);
                // A chat's client has no place for it but the answer to a click.
                if self.config.mode == Mode::Voice {
                    tell_client(number, response.clone(), out);
                }
                ConfirmationState::Resolved(response)
            }
            OutcomeState::Unknown => ConfirmationState::Elsewhere {
                tool: entry.tool.clone(),
                askers: 0,
            },
        };
        self.confirmations.open(Confirmation { question, state });
    }
}
