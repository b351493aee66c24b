//! The due events in virtual time; events of the same moment come in the order in which they were entered.

use crate::storefront::PendingAnswer;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use windlass_contract::handler::{Finding, HandlerMessage, HandlerResult};
use windlass_contract::id::{CallRef, EffectId};
use windlass_session::io::Input;
use windlass_session::model::LostReason;

/// Something that happens by itself.
#[derive(Debug)]
pub(crate) enum Due {
    /// In the outside, even if the process that asked for it is gone.
    Land { request: usize },
    /// A service reports the end of an effect that it has accepted.
    CallBack(ServiceCall),
    /// A stopped process goes on.
    Wake { process: usize },
    /// In a process, if it lives.
    Within {
        process: usize,
        life: u32,
        what: Within,
    },
}

/// One message of a service's.
#[derive(Clone, Debug)]
pub(crate) struct ServiceCall {
    pub(crate) request: usize,
    pub(crate) result: HandlerResult,
    /// The number of times that it is sent again if it is not taken.
    pub(crate) tries_left: u32,
}

#[derive(Debug)]
pub(crate) enum Within {
    Commit,
    Answer(PendingAnswer),
    Sweep,
    /// The store deletes rows whose time is over.
    Upkeep,
    /// An unknown effect that the sweep has looked up.
    Swept {
        lookup: usize,
        finding: Finding,
    },
    /// For one session.
    Of {
        live: usize,
        what: Of,
    },
}

#[derive(Debug)]
pub(crate) enum Of {
    Hear(Input),
    /// The provider takes a new connection, or refuses it.
    Connect {
        generation: u64,
        outcome: Result<bool, LostReason>,
    },
    /// The provider closes a connection whose end it has announced.
    Close {
        generation: u64,
    },
    Say(CallRef, HandlerMessage),
    /// A handler asks the outside for its change.
    Send(CallRef),
    Return(CallRef, HandlerResult),
    LookedUp(EffectId, Finding),
}

#[derive(Default)]
pub(crate) struct Agenda {
    order: BinaryHeap<Reverse<(u64, u64)>>,
    entries: BTreeMap<u64, Due>,
    last: u64,
}

impl Agenda {
    pub(crate) fn enter(&mut self, at_us: u64, due: Due) {
        self.last += 1;
        self.order.push(Reverse((at_us, self.last)));
        self.entries.insert(self.last, due);
    }

    pub(crate) fn next_us(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((at_us, _))| *at_us)
    }

    pub(crate) fn take(&mut self) -> Option<Due> {
        let Reverse((_, number)) = self.order.pop()?;
        self.entries.remove(&number)
    }
}
