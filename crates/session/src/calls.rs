//! The open calls of a session and the provider messages that they came in. Knows which answers travel together, and
//! nothing of why a call was admitted.

use crate::event::DuplicateRule;
use crate::facts::{CallFacts, Delivered, HashedKey, Slot};
use crate::io::{OutcomeState, TokenHash, Wish};
use crate::model::ModelToolResponse;
use crate::policy::{Effect, EffectState, Settled, state_of};
use crate::time::Timestamp;
use std::sync::Arc;
use windlass_tool::arguments::Arguments;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, CallRef, EffectId};
use windlass_tool::kind::Scheduling;
use windlass_tool::registry::Tool;

/// A call that waits or runs.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) facts: Arc<CallFacts>,
    pub(crate) attempt: u32,
    /// Of calls that change something or need the user's consent.
    pub(crate) fingerprint: Option<[u8; 32]>,
    /// The effect of an earlier wish of the same kind that this call tries again, under its own key.
    pub(crate) kept_effect: Option<EffectId>,
    /// The effect that is reserved for it.
    pub(crate) effect_id: Option<EffectId>,
    /// That was begun before, and nobody knows how that ended.
    pub(crate) may_be_done: bool,
    /// The consent that it runs with.
    pub(crate) grant: Option<TokenHash>,
    /// An earlier wish of the same kind that may have, or has, happened.
    pub(crate) earlier: Option<Box<Earlier>>,
    /// What was known of the same wish before, where it says nothing of this one.
    pub(crate) before: Option<Box<Effect>>,
    /// How it ended, while that is being stored.
    pub(crate) concluded: Option<Box<Concluded>>,
    /// When its first attempt began.
    pub(crate) started: Option<Timestamp>,
    pub(crate) phase: Phase,
    /// Whether the model waits for it.
    pub(crate) blocks: bool,
    /// The limits that sessions share were charged for it, before it was known that the user has to be asked.
    pub(crate) is_charged: bool,
    /// False once the call was taken back: its result is recorded, and not spoken of.
    pub(crate) spoken: bool,
    /// It does not start any more, whatever the store says.
    pub(crate) is_taken_back: bool,
    /// Why it did not start although the user had approved it, each cause once.
    pub(crate) approved_in_vain: Vec<ErrorType>,
    /// Deliveries that share its answer.
    pub(crate) attached: Vec<(Slot, DuplicateRule)>,
}

/// How a call ended, before anybody is told.
#[derive(Debug)]
pub(crate) struct Concluded {
    pub(crate) response: Arc<ToolResponse>,
    pub(crate) scheduling: Option<Scheduling>,
    /// For the log: what a client or a model must not read.
    pub(crate) problem: Option<String>,
}

/// What became of an earlier wish with the same fingerprint.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    pub(crate) settled: Settled,
    pub(crate) effect_id: Option<EffectId>,
    /// What it was asked for with.
    pub(crate) wish: Wish,
    /// The user has spoken since.
    pub(crate) is_second_wish: bool,
    /// An attempt at it had not ended when its handler was asked: that it has not happened says nothing then.
    pub(crate) ran_at_lookup: bool,
}

impl Earlier {
    pub(crate) fn is_unknown(&self) -> bool {
        self.settled.response.error_type() == Some(ErrorType::OutcomeUnknown)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is not known yet what the conversation has changed before.
    Remembering,
    /// Its handler is asked what became of the earlier attempt.
    LookingUp,
    /// The shared limits are asked.
    CheckingRate,
    /// The question to the user is being stored.
    Proposing,
    /// An earlier `writes` call of the same message is not done.
    Waiting,
    /// An earlier outcome could not be stored, and that is tried again.
    AwaitingOutcomes,
    /// The store is asked.
    Reserving,
    Running,
    /// An attempt has failed, and the next one is due later.
    BackingOff,
    /// The store is told how it ended.
    Recording,
}

impl Phase {
    /// Whether it leads to a question to the user, or may: nothing is to begin before.
    pub(crate) fn may_ask(self) -> bool {
        matches!(self, Self::Proposing | Self::LookingUp)
    }
}

impl Call {
    /// Whether it waits for its turn, or leads to a question, and nobody has approved it: nothing is begun for it.
    pub(crate) fn is_stoppable(&self) -> bool {
        self.grant.is_none() && (self.phase.may_ask() || self.phase == Phase::Waiting)
    }

    /// A call that has passed no gate yet.
    pub(crate) fn new(facts: Arc<CallFacts>, blocks: bool) -> Self {
        Self {
            facts,
            attempt: 1,
            fingerprint: None,
            kept_effect: None,
            effect_id: None,
            may_be_done: false,
            grant: None,
            earlier: None,
            before: None,
            concluded: None,
            started: None,
            phase: Phase::CheckingRate,
            blocks,
            is_charged: false,
            spoken: true,
            is_taken_back: false,
            approved_in_vain: Vec::new(),
            attached: Vec::new(),
        }
    }

    /// What runs if the user approves: a call of its own that nobody waits for, with the arguments that were shown.
    pub(crate) fn for_consent(&self) -> Self {
        Self {
            fingerprint: self.fingerprint,
            kept_effect: self.kept_effect.clone(),
            earlier: self.earlier.clone(),
            is_charged: self.is_charged,
            approved_in_vain: self.approved_in_vain.clone(),
            phase: Phase::Waiting,
            ..Self::new(self.facts.clone(), false)
        }
    }

    /// What waits for the user's next word, once an approval has come to nothing.
    pub(crate) fn after_vain_approval(&self, response: &ToolResponse) -> Self {
        let mut waiting = self.for_consent();
        let cause = response.error_type();
        let known = &mut waiting.approved_in_vain;
        known.extend(cause.filter(|cause| !self.approved_in_vain.contains(cause)));
        waiting
    }

    /// Whether an earlier approval of it was charged to the shared limits, and the store then did not take it.
    pub(crate) fn has_paid_rate(&self) -> bool {
        self.grant.is_some() && self.approved_in_vain.contains(&ErrorType::Transient)
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

    /// It has certainly failed, and nobody knows whether an earlier run of the same effect has, too.
    pub(crate) fn leaves_doubt(&self, response: &ToolResponse) -> bool {
        self.may_be_done && state_of(response) == OutcomeState::Failed
    }

    /// What came of its effect, where an earlier run proved to have done it while this one was under way.
    pub(crate) fn done_meanwhile(&self) -> Option<Arc<ToolResponse>> {
        let earlier = self.earlier.as_deref();
        let its = earlier
            .filter(|earlier| earlier.effect_id.is_some() && earlier.effect_id == self.effect_id)?;
        let response = &its.settled.response;
        response.is_ok().then(|| response.clone())
    }

    /// What the ledger is told that this makes of its effect.
    pub(crate) fn outcome_state(&self, response: &ToolResponse) -> OutcomeState {
        match self.leaves_doubt(response) {
            true => OutcomeState::Unknown,
            false => state_of(response),
        }
    }

    pub(crate) fn call_ref(&self) -> CallRef {
        CallRef {
            call: self.number(),
            attempt: self.attempt,
        }
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

#[derive(Debug, Default)]
pub(crate) struct Calls {
    #[expect(
        clippy::vec_box,
        reason = "a call is handed from gate to gate, and what is handed on is a pointer"
    )]
    open: Vec<Box<Call>>,
    batches: Vec<Batch>,
    last_number: u64,
    last_batch: u64,
}

impl Calls {
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

    pub(crate) fn open(&mut self, call: Box<Call>) {
        self.open.push(call);
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.open.iter().map(Box::as_ref)
    }

    /// The call that runs for this effect, or is about to: every gate is behind it, or the user has approved it.
    pub(crate) fn at(&self, effect_id: &EffectId) -> Option<CallNumber> {
        let mut calls = self.iter();
        let call = calls.find(|call| {
            let waits_for_store = matches!(call.phase, Phase::Reserving | Phase::AwaitingOutcomes);
            let kept = call
                .kept_effect
                .as_ref()
                .filter(|_| waits_for_store || call.grant.is_some());
            call.effect_id.as_ref().or(kept) == Some(effect_id)
        });
        call.map(Call::number)
    }

    /// How many questions to the user are being stored.
    pub(crate) fn proposing(&self) -> usize {
        let proposing = |call: &&Call| call.phase == Phase::Proposing;
        self.iter().filter(proposing).count()
    }

    /// The calls for the same wish that a no may still stop.
    pub(crate) fn stoppable_like(&self, call: &Call) -> Vec<CallNumber> {
        let is_like = |other: &&Call| other.is_stoppable() && other.fingerprint == call.fingerprint;
        self.iter().filter(is_like).map(Call::number).collect()
    }

    pub(crate) fn get_mut(&mut self, number: CallNumber) -> Option<&mut Call> {
        let mut open = self.open.iter_mut().map(Box::as_mut);
        open.find(|call| call.number() == number)
    }

    /// What became of the earlier run that a call makes once more.
    pub(crate) fn note_known(&mut self, number: CallNumber, state: EffectState) {
        let call = self.get_mut(number);
        let earlier = call.and_then(|call| call.earlier.as_mut());
        if let (Some(earlier), EffectState::Settled { settled, .. }) = (earlier, state) {
            earlier.settled = settled;
        }
    }

    pub(crate) fn take(&mut self, number: CallNumber) -> Option<Box<Call>> {
        let index = self.open.iter().position(|call| call.number() == number)?;
        Some(self.open.remove(index))
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

    /// The first call that waits for the ledger.
    pub(crate) fn take_remembering(&mut self) -> Option<Box<Call>> {
        let index = self
            .open
            .iter()
            .position(|call| call.phase == Phase::Remembering)?;
        Some(self.open.remove(index))
    }

    /// Those that wait for earlier outcomes to be stored.
    pub(crate) fn awaiting_outcomes(&self) -> Vec<CallNumber> {
        let waits = |call: &&Call| call.phase == Phase::AwaitingOutcomes;
        self.iter().filter(waits).map(Call::number).collect()
    }

    /// The call whose outcome is being stored, which is this one.
    pub(crate) fn take_recording(
        &mut self,
        effect: &EffectId,
        state: OutcomeState,
    ) -> Option<Box<Call>> {
        let index = self.open.iter().position(|call| {
            let concluded = call.concluded.as_deref();
            call.phase == Phase::Recording
                && call.effect_id.as_ref() == Some(effect)
                && concluded.is_some_and(|end| call.outcome_state(&end.response) == state)
        })?;
        Some(self.open.remove(index))
    }

    /// Takes a call out if it is in this phase.
    pub(crate) fn take_in(&mut self, number: CallNumber, phase: Phase) -> Option<Box<Call>> {
        let is_in_phase = self.get_mut(number).is_some_and(|call| call.phase == phase);
        is_in_phase.then(|| self.take(number)).flatten()
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
                && call.grant.is_none()
                && call.delivered().batch == delivered.batch
                && call.number() < delivered.number
        })
    }

    /// The next `writes` call of a message that waited for its turn.
    pub(crate) fn next_waiting(&self, batch: u64) -> Option<CallNumber> {
        self.open
            .iter()
            .filter(|call| call.phase == Phase::Waiting && call.delivered().batch == batch)
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
