//! The one table of deadlines: each due event, and its time. Knows nothing of the consequences.

use crate::time::Timestamp;
use windlass_contract::id::{CallNumber, CallRef};
use windlass_store::QuestionNumber;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deadline {
    /// An attempt has taken as long as it may.
    Attempt(CallRef),
    /// A call has been waited for as long as anybody does.
    Wait(CallNumber),
    /// The lease of the attempt that a call waits for is over.
    Lease(CallNumber),
    /// The next attempt of a call is due.
    Retry(CallNumber),
    /// The store has taken as long as a call waits for it.
    Store(CallNumber),
    /// The user has had as long to answer as there is.
    Question(QuestionNumber),
    /// A standing approval stands no longer.
    Standing(QuestionNumber),
    /// An answer is owed, and nothing was heard.
    ProviderSilence,
    /// A result was sent, and nothing was heard.
    ResultSilence,
    /// The farewell has been played, as far as anybody can tell.
    Farewell,
    /// The provider has announced the end of its connection, and the next is opened at latest now.
    Rotation,
    /// The pause before the next connection is over.
    Reconnect,
    /// A client that was lost has not come back.
    ClientGrace,
}

/// Few entries at a time, so that a list beats a tree.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(Vec<(Timestamp, Deadline)>);

impl Deadlines {
    /// Sets or moves a deadline.
    pub(crate) fn set(&mut self, deadline: Deadline, at: Timestamp) {
        match self.0.iter_mut().find(|(_, entry)| *entry == deadline) {
            Some(entry) => entry.0 = at,
            None => self.0.push((at, deadline)),
        }
    }

    pub(crate) fn clear(&mut self, deadline: Deadline) {
        if let Some(index) = self.0.iter().position(|(_, entry)| *entry == deadline) {
            self.0.swap_remove(index);
        }
    }

    pub(crate) fn is_set(&self, deadline: Deadline) -> bool {
        self.0.iter().any(|(_, entry)| *entry == deadline)
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.0.iter().map(|(at, _)| *at).min()
    }

    /// Takes out the earliest deadline that is due; disarmed before anybody acts on it, so that a failing action cannot
    /// make it due for ever.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<Deadline> {
        let due = self.0.iter().filter(|(at, _)| *at <= now).min().copied()?;
        self.clear(due.1);
        Some(due.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_due_deadline_comes_first_and_only_once() {
        let mut deadlines = Deadlines::default();
        deadlines.set(Deadline::ProviderSilence, Timestamp(30));
        deadlines.set(Deadline::Farewell, Timestamp(10));
        deadlines.set(Deadline::ProviderSilence, Timestamp(20));
        assert_eq!(deadlines.next(), Some(Timestamp(10)));
        assert_eq!(deadlines.take_due(Timestamp(9)), None);
        assert_eq!(deadlines.take_due(Timestamp(25)), Some(Deadline::Farewell));
        assert_eq!(
            deadlines.take_due(Timestamp(25)),
            Some(Deadline::ProviderSilence)
        );
        assert_eq!(deadlines.take_due(Timestamp(25)), None);
    }
}
