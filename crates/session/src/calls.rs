//! The open calls of a session, the provider messages that they came in, and what became of earlier deliveries. Knows which
//! answers travel together, and nothing of why a call was admitted.

use crate::event::DuplicateRule;
use crate::facts::{CallFacts, Delivered, HashedKey, Slot};
use crate::limits::Limits;
use crate::model::ModelToolResponse;
use crate::policy::{Deliveries, EffectRun};
use crate::time::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;
use windlass_store::{LegNumber, Nonce, Question, QuestionNumber};
use windlass_tool::arguments::Arguments;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::CallError;
use windlass_tool::id::{CallNumber, CallRef, EffectId};
use windlass_tool::kind::Scheduling;
use windlass_tool::registry::Tool;

/// A call that waits or runs.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) facts: Arc<CallFacts>,
    pub(crate) origin: Origin,
    pub(crate) phase: Phase,
    /// Attempts of this session's, from 1.
    pub(crate) attempt: u32,
    /// Why budgets or loop guard do not let it run; the ledger may still answer it from what was done.
    pub(crate) refusal: Option<CallError>,
    /// Its turn has been charged for it.
    pub(crate) is_charged: bool,
    /// It has waited for another attempt at its effect, and counts as a repeat already.
    pub(crate) has_waited: bool,
    /// The onset of the user turn that it belongs to.
    pub(crate) onset: Option<LegNumber>,
    /// When its first attempt began.
    pub(crate) started: Option<Timestamp>,
    /// Whether the model waits for it.
    pub(crate) blocks: bool,
    /// False once the call was taken back: its result is recorded, and not spoken of.
    pub(crate) spoken: bool,
    /// It does not start any more, whatever the ledger says.
    pub(crate) is_taken_back: bool,
    /// Deliveries that share its answer.
    pub(crate) attached: Vec<(Slot, DuplicateRule)>,
}

/// Whose call it is.
#[derive(Debug)]
pub(crate) enum Origin {
    Model,
    /// The user approved a question. No provider message waits for it.
    Approval(Box<Question>),
}

/// Where a call stands.
#[derive(Debug)]
pub(crate) enum Phase {
    /// No gate has let it wait for anything yet.
    Admission,
    /// The shared limits are asked.
    CheckingRate,
    /// An earlier `writes` call of the same message is not done.
    Waiting,
    /// The ledger is asked.
    Deciding {
        nonce: Nonce,
        effect_id: EffectId,
    },
    /// Another attempt at its effect is running.
    Attached(EffectId),
    Running(Option<EffectRun>),
    /// An attempt has failed, and the next one is due later.
    BackingOff(Option<EffectRun>),
    /// The ledger is asked for the next attempt.
    Retrying(Box<Retrying>),
    /// The ledger is told how it ended.
    Recording(Box<Concluded>),
}

/// An attempt that has failed, with what is told where there is no other.
#[derive(Debug)]
pub(crate) struct Retrying {
    pub(crate) run: EffectRun,
    pub(crate) nonce: Nonce,
}

/// How a call ended, before anybody is told.
#[derive(Debug)]
pub(crate) struct Concluded {
    pub(crate) response: Arc<ToolResponse>,
    pub(crate) run: Option<EffectRun>,
    pub(crate) scheduling: Option<Scheduling>,
    /// For the log: what a client or a model must not read.
    pub(crate) problem: Option<String>,
}

/// An attempt whose call has ended without it; its result is recorded when it comes.
#[derive(Debug)]
pub(crate) struct LateAttempt {
    pub(crate) attempt: CallRef,
    pub(crate) facts: Arc<CallFacts>,
    pub(crate) run: EffectRun,
}

/// Attempts whose results may come late; of more, the oldest is forgotten, and its lease settles it.
pub(crate) const LATE_MAX: usize = 64;

impl Call {
    /// A call that has passed no gate that needs more than itself.
    pub(crate) fn new(facts: Arc<CallFacts>, origin: Origin, blocks: bool) -> Self {
        Self {
            facts,
            origin,
            phase: Phase::Admission,
            attempt: 1,
            refusal: None,
            is_charged: false,
            has_waited: false,
            onset: None,
            started: None,
            blocks,
            spoken: true,
            is_taken_back: false,
            attached: Vec::new(),
        }
    }

    pub(crate) fn question(&self) -> Option<&Question> {
        match &self.origin {
            Origin::Approval(question) => Some(question),
            Origin::Model => None,
        }
    }

    pub(crate) fn is_approved(&self) -> bool {
        self.question().is_some()
    }

    pub(crate) fn delivered(&self) -> &Delivered {
        &self.facts.delivered
    }

    pub(crate) fn number(&self) -> CallNumber {
        self.facts.delivered.number
    }

    pub(crate) fn turn(&self) -> u64 {
        self.facts.delivered.turn
    }

    pub(crate) fn tool(&self) -> &Arc<Tool> {
        &self.facts.tool
    }

    pub(crate) fn arguments(&self) -> &Arc<Arguments> {
        self.facts.completed.arguments.expose()
    }

    /// Where its answer goes.
    pub(crate) fn slot(&self) -> Slot {
        Slot::Valid(self.facts.clone())
    }

    pub(crate) fn call_ref(&self) -> CallRef {
        CallRef {
            call: self.number(),
            attempt: self.attempt,
        }
    }

    /// The effect that it waits for, runs or has run.
    pub(crate) fn effect_id(&self) -> Option<&EffectId> {
        match &self.phase {
            Phase::Running(Some(run)) | Phase::BackingOff(Some(run)) => Some(&run.effect_id),
            Phase::Retrying(retrying) => Some(&retrying.run.effect_id),
            Phase::Recording(concluded) => concluded.run.as_ref().map(|run| &run.effect_id),
            Phase::Attached(effect_id) => Some(effect_id),
            Phase::Admission
            | Phase::CheckingRate
            | Phase::Waiting
            | Phase::Deciding { .. }
            | Phase::Running(None)
            | Phase::BackingOff(None) => None,
        }
    }

    /// Whether an attempt of it has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.started.is_some()
    }
}

#[derive(Debug)]
struct Batch {
    id: u64,
    total: usize,
    unsettled: usize,
    ready: Vec<(CallNumber, ModelToolResponse)>,
}

/// What settling one delivery releases.
#[derive(Debug, Default)]
pub(crate) struct Released {
    pub(crate) answers: Vec<ModelToolResponse>,
    /// How many calls the message had, where this was its last.
    pub(crate) complete: Option<usize>,
}

pub(crate) struct Calls {
    #[expect(
        clippy::vec_box,
        reason = "a call is handed from gate to gate, and what is handed on is a pointer"
    )]
    open: Vec<Box<Call>>,
    batches: Vec<Batch>,
    pub(crate) deliveries: Deliveries,
    late: VecDeque<LateAttempt>,
    last_number: u64,
    last_batch: u64,
    /// Nonces that were made so far.
    nonces: u64,
}

impl Calls {
    pub(crate) fn new(limits: &Limits, last_call: CallNumber) -> Self {
        Self {
            open: Vec::new(),
            batches: Vec::new(),
            deliveries: Deliveries::new(limits),
            late: VecDeque::new(),
            last_number: last_call.0,
            last_batch: 0,
            nonces: 0,
        }
    }

    /// Opens a provider message with this many calls.
    pub(crate) fn open_batch(&mut self, total: usize) -> u64 {
        self.last_batch += 1;
        let batch = Batch {
            id: self.last_batch,
            total,
            unsettled: total,
            ready: Vec::new(),
        };
        self.batches.push(batch);
        self.last_batch
    }

    pub(crate) fn next_number(&mut self) -> CallNumber {
        self.last_number = self.last_number.saturating_add(1);
        CallNumber(self.last_number)
    }

    /// Later calls get higher numbers than this one.
    pub(crate) fn number_after(&mut self, number: CallNumber) {
        self.last_number = self.last_number.max(number.0);
    }

    /// The highest number that a call had so far.
    pub(crate) fn last_number(&self) -> CallNumber {
        CallNumber(self.last_number)
    }

    /// How many commands the session has named so far.
    pub(crate) fn next_nonce(&mut self) -> u64 {
        self.nonces += 1;
        self.nonces
    }

    pub(crate) fn open(&mut self, call: Box<Call>) {
        self.open.push(call);
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.open.iter().map(Box::as_ref)
    }

    pub(crate) fn get(&self, number: CallNumber) -> Option<&Call> {
        self.iter().find(|call| call.number() == number)
    }

    pub(crate) fn get_mut(&mut self, number: CallNumber) -> Option<&mut Call> {
        let mut open = self.open.iter_mut().map(Box::as_mut);
        open.find(|call| call.number() == number)
    }

    pub(crate) fn take(&mut self, number: CallNumber) -> Option<Box<Call>> {
        let index = self.open.iter().position(|call| call.number() == number)?;
        Some(self.open.remove(index))
    }

    /// Takes a call out if its phase is one of these.
    pub(crate) fn take_in(
        &mut self,
        number: CallNumber,
        is_meant: impl Fn(&Phase) -> bool,
    ) -> Option<Box<Call>> {
        let is_in_phase = self.get(number).is_some_and(|call| is_meant(&call.phase));
        is_in_phase.then(|| self.take(number)).flatten()
    }

    /// Those that wait for another attempt at this effect.
    pub(crate) fn attached_to(&self, effect_id: &EffectId) -> Vec<CallNumber> {
        let waits = |call: &&Call| matches!(&call.phase, Phase::Attached(of) if of == effect_id);
        self.iter().filter(waits).map(Call::number).collect()
    }

    /// Whether a call of this session runs for an effect, or has it recorded.
    pub(crate) fn runs(&self, effect_id: &EffectId) -> bool {
        self.iter().any(|call| {
            !matches!(call.phase, Phase::Attached(_)) && call.effect_id() == Some(effect_id)
        })
    }

    /// Open calls that the user approved.
    pub(crate) fn approved(&self) -> usize {
        self.iter().filter(|call| call.is_approved()).count()
    }

    /// Whether a call of this session runs because this question was approved.
    pub(crate) fn answers(&self, number: QuestionNumber) -> bool {
        self.iter().any(|call| {
            let question = call.question();
            question.is_some_and(|question| question.number == number)
        })
    }

    /// The open calls that a provider's id may mean on this connection: several where it names no delivery of its own.
    pub(crate) fn by_provider_id(&self, id: &str, generation: u64) -> Vec<CallNumber> {
        self.open
            .iter()
            .filter(|call| call.delivered().is_under(id, generation))
            .map(|call| call.number())
            .collect()
    }

    /// The deliveries that came under a provider's id and have no answer yet.
    pub(crate) fn keys_of(&self, id: &str, generation: u64) -> Vec<HashedKey> {
        let attached = self.open.iter().flat_map(|call| &call.attached);
        let joined = attached.map(|(slot, _)| &**slot);
        self.open
            .iter()
            .map(|call| call.delivered())
            .chain(joined)
            .filter(|delivered| delivered.is_under(id, generation))
            .map(|delivered| delivered.key.clone())
            .collect()
    }

    pub(crate) fn any_blocks(&self) -> bool {
        self.open.iter().any(|call| call.blocks && call.spoken)
    }

    /// The connection is gone: no call blocks the next one, and answers that waited for others are not sent any more.
    pub(crate) fn leave_connection(&mut self) {
        for call in &mut self.open {
            call.blocks = false;
        }
        for batch in &mut self.batches {
            batch.ready.clear();
        }
    }

    /// Whether the answer to a delivery waits for others of its message.
    pub(crate) fn holds(&self, batch: u64, number: CallNumber) -> bool {
        let mut of_message = self.batches.iter().filter(|entry| entry.id == batch);
        of_message.any(|entry| entry.ready.iter().any(|(ready, _)| *ready == number))
    }

    /// Calls of earlier connections that ask for the same thing, and change nothing, are not spoken of any more.
    pub(crate) fn silence_like(&mut self, slot: &Slot) {
        for call in &mut self.open {
            let is_like =
                call.delivered().generation != slot.generation && slot.is_like(&call.slot());
            call.spoken &= !is_like || call.tool().writes();
        }
    }

    /// Whether a `writes` call of this message has still to be done before the given one may start.
    pub(crate) fn write_before(&self, delivered: &Delivered) -> bool {
        self.open.iter().any(|call| {
            call.tool().writes()
                && !call.is_approved()
                && call.delivered().batch == delivered.batch
                && call.number() < delivered.number
        })
    }

    /// The next `writes` call of a message that waited for its turn.
    pub(crate) fn next_waiting(&self, batch: u64) -> Option<CallNumber> {
        self.open
            .iter()
            .filter(|call| matches!(call.phase, Phase::Waiting) && call.delivered().batch == batch)
            .map(|call| call.number())
            .min()
    }

    /// The provider took a call back whose answer waits for those of its message: it is not sent any more. Whose answers
    /// these were.
    pub(crate) fn withdraw_answer(&mut self, id: &str) -> Vec<CallNumber> {
        let mut withdrawn = Vec::new();
        for batch in &mut self.batches {
            let is_under =
                |(_, answer): &(CallNumber, ModelToolResponse)| answer.id.as_deref() == Some(id);
            let answers = batch.ready.iter().filter(|ready| is_under(ready));
            withdrawn.extend(answers.map(|(call, _)| *call));
            batch.ready.retain(|ready| !is_under(ready));
        }
        withdrawn
    }

    /// An attempt runs on without its call.
    pub(crate) fn expect_late(&mut self, late: LateAttempt) {
        if self.late.len() >= LATE_MAX {
            self.late.pop_front();
        }
        self.late.push_back(late);
    }

    pub(crate) fn take_late(&mut self, attempt: CallRef) -> Option<LateAttempt> {
        let index = self.late.iter().position(|late| late.attempt == attempt)?;
        self.late.remove(index)
    }

    /// Keeps no room for calls to come.
    pub(crate) fn give_room_back(&mut self) {
        self.open.shrink_to_fit();
        self.batches.shrink_to_fit();
    }

    /// Notes that one delivery of a message is settled, with its answer if it gets one. With `together`, answers are
    /// held until the last of the message is ready, and come in the message's order.
    pub(crate) fn settle(
        &mut self,
        batch: u64,
        number: CallNumber,
        answer: Option<ModelToolResponse>,
        together: bool,
    ) -> Released {
        let Some(index) = self.batches.iter().position(|entry| entry.id == batch) else {
            return Released {
                answers: answer.into_iter().collect(),
                complete: None,
            };
        };
        let entry = &mut self.batches[index];
        entry.unsettled = entry.unsettled.saturating_sub(1);
        let is_last = entry.unsettled == 0;
        let answers = if is_last && entry.ready.is_empty() {
            // Most messages have one call, whose answer waits for no other.
            answer.map(|answer| vec![answer]).unwrap_or_default()
        } else {
            entry.ready.extend(answer.map(|answer| (number, answer)));
            if is_last || !together {
                entry.ready.sort_by_key(|(number, _)| *number);
                entry.ready.drain(..).map(|(_, answer)| answer).collect()
            } else {
                Vec::new()
            }
        };
        let complete = is_last.then(|| self.batches.remove(index).total);
        Released { answers, complete }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_tool::envelope::{Projection, ProjectionBody};

    fn answer(id: &str) -> ModelToolResponse {
        ModelToolResponse {
            id: Some(id.into()),
            name: "look".into(),
            projection: Projection {
                duration_ms: 0,
                body: ProjectionBody::Success {
                    data: None,
                    content: Vec::new(),
                    cut: None,
                    quoted: false,
                },
            },
            scheduling: None,
        }
    }

    fn ids(released: &Released) -> Vec<&str> {
        let ids = released.answers.iter().map(|answer| answer.id.as_deref());
        ids.flatten().collect()
    }

    #[test]
    fn answers_of_one_message_travel_together_in_its_order() {
        let mut calls = Calls::new(&Limits::default(), CallNumber(4));
        assert_eq!(calls.next_number(), CallNumber(5));
        calls.number_after(CallNumber(9));
        assert_eq!(calls.next_number(), CallNumber(10));
        let batch = calls.open_batch(3);
        let second = calls.settle(batch, CallNumber(2), Some(answer("b")), true);
        assert!(ids(&second).is_empty() && calls.holds(batch, CallNumber(2)));
        assert_eq!(calls.withdraw_answer("b"), [CallNumber(2)]);
        calls.settle(batch, CallNumber(3), Some(answer("c")), true);
        let last = calls.settle(batch, CallNumber(1), Some(answer("a")), true);
        assert_eq!((ids(&last), last.complete), (vec!["a", "c"], Some(3)));
    }

    #[test]
    fn an_answer_whose_message_is_forgotten_goes_out_at_once() {
        let mut calls = Calls::new(&Limits::default(), CallNumber(0));
        let released = calls.settle(7, CallNumber(1), Some(answer("a")), true);
        assert_eq!((ids(&released), released.complete), (vec!["a"], None));
    }
}
