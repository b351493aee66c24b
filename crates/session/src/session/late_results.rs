//! Results that outlive the connection on which they were asked for: kept, told as text once neither side speaks, or given
//! up for the answer to a call that asks for the same again (`docs/policies.md`, "When a connection ends").

use super::{Lifecycle, Session};
use crate::connection::{Late, Unconfirmed};
use crate::event::SessionEvent;
use crate::facts::{Delivered, Slot};
use crate::io::Output;
use crate::model::{CallSupport, ModelCommand, ModelToolResponse};
use crate::policy::Settled;
use std::collections::VecDeque;
use windlass_tool::envelope;
use windlass_tool::error::ErrorType;
use windlass_tool::id::CallNumber;
use windlass_tool::kind::Scheduling;

/// What a model is told that has said nothing to a result.
const NUDGE: &str = "The result of your tool call has arrived. Please go on.";

impl Session {
    /// Whether a delivery can be answered on the connection that it came over.
    pub(super) fn is_here(&self, delivered: &Delivered) -> bool {
        delivered.generation == self.connection.generation && !self.connection.is_lost
    }

    /// Keeps a result whose connection is gone. A silent one asks for no words, and text would make some.
    pub(super) fn keep_late(
        &mut self,
        slot: &Slot,
        settled: &Settled,
        scheduling: Option<Scheduling>,
        out: &mut Vec<Output>,
    ) {
        let late = &mut self.connection.late;
        let is_kept = late.iter().any(|late| late.settled.is_of_one_run(settled));
        let is_lost = has_bug!(self, LosesLateResults);
        if is_kept || is_lost || scheduling == Some(Scheduling::Silent) {
            return;
        }
        let newest = Late {
            slot: slot.clone(),
            settled: settled.clone(),
            scheduling,
        };
        // Several calls may have been answered with one effect, which the model is told of once.
        if let Some(known) = late.iter_mut().find(|late| late.is_of_effect(settled)) {
            *known = newest;
            return;
        }
        late.push_back(newest);
        if late.len() > self.config.limits.open_calls_max {
            // Refusals make room for what was done.
            let refusal = late.iter().position(|late| !late.settled.is_outcome);
            if let Some(dropped) = late.remove(refusal.unwrap_or(0)) {
                let call = dropped.slot.number;
                out.push(Output::Event(SessionEvent::LateResultDropped { call }));
            }
        }
    }

    /// The model has not reacted to these answers, so that nobody knows whether it has them.
    pub(super) fn keep_unconfirmed(&mut self, out: &mut Vec<Output>) {
        for Unconfirmed { late, .. } in std::mem::take(&mut self.connection.unconfirmed) {
            if !late.settled.is_outcome && !self.leaves_user_waiting(&late) {
                continue;
            }
            if let Some(effect_id) = &late.settled.effect_id {
                self.deliveries.note_reach(effect_id, false);
                self.unsettled.forget_telling(effect_id);
            }
            self.keep_late(&late.slot, &late.settled, late.scheduling, out);
        }
    }

    /// Whether a refusal is the last that came of what the user asked: its turn is over, so that nothing is asked again. What
    /// the user is being asked, and calls that were taken back, are told of in other ways.
    fn leaves_user_waiting(&mut self, late: &Late) -> bool {
        let is_told_otherwise = matches!(
            late.settled.response.error_type(),
            Some(
                ErrorType::Cancelled | ErrorType::ConfirmationRequired | ErrorType::OutcomeUnknown
            )
        );
        let number = late.slot.turn;
        let is_last = self.turns.current().is_none() && number == self.turns.last_number();
        let turn = self.turns.get_mut(number);
        let is_wound_up = turn.is_some_and(|turn| turn.summary.wound_up);
        is_last && !is_wound_up && !is_told_otherwise
    }

    /// An answer went out, or waits for others of its message: it counts as heard once the model reacts to it.
    pub(super) fn await_reaction(&mut self, late: Late) {
        let is_held = self.calls.holds(late.slot.batch, late.slot.number);
        if !is_held {
            self.supersede(&late);
        }
        let heard_from = (!is_held).then(|| self.heard_from(&late.slot));
        let unconfirmed = &mut self.connection.unconfirmed;
        // A delivery that came again has been answered again; what it brought is not to be told twice.
        unconfirmed.retain(|answer| answer.late.slot.key != late.slot.key);
        if late.settled.effect_id.is_some() {
            // What is known of an effect now stands for what was said of it before. Of answers that wait for others, one may go
            // out and the other not.
            unconfirmed
                .retain(|answer| answer.heard_from.is_none() || !answer.late.is_like(&late.slot));
        }
        if unconfirmed.len() >= self.config.limits.open_calls_max.max(1) {
            // Refusals make room for what was done.
            let mut known = unconfirmed.iter();
            let refusal = known.position(|answer| !answer.late.settled.is_outcome);
            let forgotten = unconfirmed.remove(refusal.unwrap_or(0));
            // Nobody will know any more when it goes out.
            if forgotten.heard_from.is_none() {
                self.supersede(&forgotten.late);
            }
        }
        let unconfirmed = &mut self.connection.unconfirmed;
        unconfirmed.push(Unconfirmed { late, heard_from });
    }

    /// The answers of a message that waited for each other have gone out.
    pub(super) fn await_reactions(&mut self, slot: &Slot) {
        if self.connection.unconfirmed.is_empty() {
            return;
        }
        // Of one message the model may wait for some calls and not for others.
        let mut unconfirmed = std::mem::take(&mut self.connection.unconfirmed);
        for answer in &mut unconfirmed {
            let Delivered { batch, number, .. } = *answer.late.slot;
            if batch == slot.batch
                && answer.heard_from.is_none()
                && !self.calls.holds(batch, number)
            {
                self.supersede(&answer.late);
                answer.heard_from = Some(self.heard_from(&answer.late.slot));
            }
        }
        self.connection.unconfirmed = unconfirmed;
    }

    /// Answers that waited for others of their message, and whose calls were taken back: nobody is to hear of them.
    pub(super) fn forget_withdrawn(&mut self, calls: &[CallNumber]) {
        let unconfirmed = &mut self.connection.unconfirmed;
        unconfirmed.retain(|answer| !calls.contains(&answer.late.slot.number));
    }

    /// The first message of the model's that can follow the answer to this call, if it goes out now.
    pub(super) fn heard_from(&self, slot: &Slot) -> u64 {
        self.connection.messages.next(self.waits_for(&slot.name))
    }

    /// Whether the model says nothing before it has the answer to a call of this name.
    pub(super) fn waits_for(&self, name: &str) -> bool {
        match self.config.profile.calls {
            CallSupport::BlockingOnly => true,
            CallSupport::NonBlockingOnly => false,
            CallSupport::Both => {
                let tool = self.config.registry.get(name);
                tool.is_some_and(|tool| self.blocks(tool))
            }
        }
    }

    /// The model has produced something in this message: what it can follow has arrived. What was done and told is told in
    /// the ledger, too, and not before: after a crash the model may have to hear it again.
    pub(super) fn confirm_answers(&mut self, message: u64, out: &mut Vec<Output>) {
        self.confirm_notices(message, out);
        if self.connection.unconfirmed.is_empty() {
            return;
        }
        self.connection.unconfirmed.retain(|answer| {
            let is_heard = answer.heard_from.is_some_and(|from| from <= message);
            if let (true, Some(effect_id)) = (is_heard, &answer.late.settled.effect_id) {
                let effect_id = effect_id.clone();
                out.push(Output::MarkAnswered { effect_id });
            }
            !is_heard
        });
    }

    /// The model asked again and has its answer: what was asked on an earlier connection is not spoken of any more.
    fn supersede(&mut self, told: &Late) {
        self.connection.late.retain(|late| !told.stands_for(late));
        if told.answers_whoever_asked() {
            self.calls.silence_like(&told.slot);
        }
    }

    /// Tells the model what came too late for its connection, once neither side speaks.
    pub(super) fn deliver_late(&mut self, out: &mut Vec<Output>) {
        let is_silent = self.connection.ready
            && self.turns.current().is_none()
            && self.lifecycle == Lifecycle::Running;
        if self.connection.late.is_empty() || !is_silent {
            return;
        }
        let unconfirmed = &self.connection.unconfirmed;
        // What an answer says that waits for others of its message is told with those, or not at all.
        let is_held = |late: &Late| {
            let mut held = unconfirmed
                .iter()
                .filter(|answer| answer.heard_from.is_none());
            held.any(|answer| answer.late.stands_for(late))
        };
        let late = std::mem::take(&mut self.connection.late);
        let (kept, late): (VecDeque<Late>, VecDeque<Late>) = late.into_iter().partition(is_held);
        self.connection.late = kept;
        if late.is_empty() {
            return;
        }
        let characters_max = self.config.limits.projection_characters_max;
        let heard_from = self.connection.messages.next(false);
        let mut responses = Vec::with_capacity(late.len());
        for told in late {
            let Late { slot, settled, .. } = &told;
            if let Some(effect_id) = settled.effect_id.clone() {
                self.tell_in_this_turn(effect_id);
            }
            self.note_reading(settled, out);
            self.turns.expect_continuation(slot.turn);
            responses.push(ModelToolResponse {
                id: None,
                name: slot.name.clone(),
                projection: envelope::project(&settled.response, settled.quoted, characters_max),
                scheduling: None,
            });
            if has_bug!(self, TellsLateResultsTwice) {
                self.connection.late.push_back(told.clone());
            }
            self.connection.unconfirmed.push(Unconfirmed {
                late: told,
                heard_from: Some(heard_from),
            });
        }
        out.push(Output::SendModel(ModelCommand::LateResults(responses)));
        self.connection.plan.said();
        self.expect_answer();
    }

    /// Asks a model for words that was given a result and says nothing, where the configuration wants that.
    pub(super) fn nudge(&mut self, out: &mut Vec<Output>) {
        if self.connection.nudges_left == 0 || !self.connection.ready {
            return;
        }
        self.connection.nudges_left -= 1;
        out.push(Output::SendModel(ModelCommand::UserText(
            NUDGE.to_owned().into(),
        )));
        self.expect_answer();
    }
}
