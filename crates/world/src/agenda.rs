//! What is due when, in virtual time; what is due at the same moment comes in the order in which it was entered.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use windlass_session::io::Input;
use windlass_session::model::LostReason;
use windlass_tool::handler::{HandlerMessage, HandlerResult};
use windlass_tool::id::{CallRef, EffectId};

/// Something that happens by itself.
#[derive(Debug)]
pub(crate) enum Due {
    /// An answer of the driver's to one session.
    Feed {
        lane: usize,
        session: u32,
        input: Input,
    },
    /// The provider takes a new connection, or refuses it.
    Connect {
        lane: usize,
        session: u32,
        generation: u64,
        /// Whether the session was taken up.
        outcome: Result<bool, LostReason>,
    },
    /// The provider closes a connection whose end it has announced.
    Close {
        lane: usize,
        session: u32,
        generation: u64,
        /// It does not wait as long as it said.
        is_early: bool,
    },
    /// A running attempt goes on.
    Act {
        lane: usize,
        session: u32,
        call: CallRef,
        act: Act,
    },
}

/// What an attempt does next.
#[derive(Debug)]
pub(crate) enum Act {
    /// It asks the outside service for its effect, which does it or fails.
    Request {
        effect_id: EffectId,
        commits: bool,
    },
    Say(HandlerMessage),
    Return(HandlerResult),
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
