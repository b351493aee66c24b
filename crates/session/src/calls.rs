//! The open calls of a session and the provider messages that they came in. Knows which answers travel together, and
//! nothing of why a call was admitted.

use crate::event::DuplicateRule;
use crate::model::ModelToolResponse;
use crate::policy::Clamp;
use crate::time::Timestamp;
use serde_json::{Map, Value};
use std::sync::Arc;
use windlass_tool::id::{CallNumber, CallRef, EffectId};
use windlass_tool::registry::Tool;

/// Where an answer goes: one delivery of one provider message.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) number: CallNumber,
    pub(crate) batch: u64,
    pub(crate) provider_id: Option<Arc<str>>,
    /// As the model spelt it.
    pub(crate) name: Arc<str>,
    /// The delivery's identity.
    pub(crate) key: Arc<str>,
    pub(crate) arguments_hash: u64,
    pub(crate) turn: u64,
    /// The connection it came over.
    pub(crate) generation: u64,
}

/// A call that waits or runs.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) slot: Slot,
    pub(crate) attempt: u32,
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: Arc<Map<String, Value>>,
    pub(crate) defaults_applied: Vec<Arc<str>>,
    pub(crate) clamped: Option<Clamp>,
    pub(crate) fingerprint: Option<[u8; 32]>,
    pub(crate) effect_id: Option<EffectId>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) phase: Phase,
    /// Whether the model waits for it.
    pub(crate) blocks: bool,
    /// False once the call was taken back: its result is recorded, and not spoken of.
    pub(crate) spoken: bool,
    /// Deliveries that share its answer.
    pub(crate) attached: Vec<(Slot, DuplicateRule)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The shared limits are asked.
    CheckingRate,
    /// An earlier `writes` call of the same message is not done.
    Waiting,
    /// The store is asked.
    Reserving,
    Running,
}

impl Call {
    pub(crate) fn call_ref(&self) -> CallRef {
        CallRef {
            call: self.slot.number,
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
    open: Vec<Call>,
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
        self.last_number += 1;
        CallNumber(self.last_number)
    }

    pub(crate) fn open(&mut self, call: Call) {
        self.open.push(call);
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.open.iter()
    }

    pub(crate) fn get_mut(&mut self, number: CallNumber) -> Option<&mut Call> {
        self.open.iter_mut().find(|call| call.slot.number == number)
    }

    pub(crate) fn take(&mut self, number: CallNumber) -> Option<Call> {
        let index = self
            .open
            .iter()
            .position(|call| call.slot.number == number)?;
        Some(self.open.remove(index))
    }

    /// The call that answers to a provider's id on this connection.
    pub(crate) fn by_provider_id(&self, id: &str, generation: u64) -> Option<&Call> {
        self.open.iter().find(|call| {
            call.slot.generation == generation && call.slot.provider_id.as_deref() == Some(id)
        })
    }

    pub(crate) fn any_blocks(&self) -> bool {
        self.open.iter().any(|call| call.blocks && call.spoken)
    }

    pub(crate) fn any_started_write(&self) -> bool {
        self.open
            .iter()
            .any(|call| call.phase == Phase::Running && call.tool.writes())
    }

    /// Whether a `writes` call of this message has still to be done before the given one may start.
    pub(crate) fn write_before(&self, slot: &Slot) -> bool {
        self.open.iter().any(|call| {
            call.tool.writes() && call.slot.batch == slot.batch && call.slot.number < slot.number
        })
    }

    /// The next `writes` call of a message that waited for its turn.
    pub(crate) fn next_waiting(&self, batch: u64) -> Option<CallNumber> {
        self.open
            .iter()
            .filter(|call| call.phase == Phase::Waiting && call.slot.batch == batch)
            .map(|call| call.slot.number)
            .min()
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
        entry.ready.extend(answer.map(|answer| (number, answer)));
        let is_last = entry.unsettled == 0;
        let answers = if is_last || !together {
            entry.ready.sort_by_key(|(number, _)| *number);
            entry.ready.drain(..).map(|(_, answer)| answer).collect()
        } else {
            Vec::new()
        };
        let complete = is_last.then(|| self.batches.remove(index).total);
        Released { answers, complete }
    }
}
