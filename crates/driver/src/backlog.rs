//! Batches that must not be lost and that the store did not take, kept until it takes them; and the order in which later batches are
//! committed. Pure but for the store that it is given.

use crate::ledger::must_not_be_lost;
use crate::tail::Concerned;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use windlass_store::command::{Command, Reply};
use windlass_store::{Batch, ConversationRef, Store, StoreUnavailable};

/// The number of conversations that fail alone, one after the other, before the rest is left to the next try.
const FAILURES_MAX: usize = 16;

/// Batches that wait for a store that takes them, oldest first.
pub struct Backlog {
    kept: VecDeque<Batch>,
    kept_max: usize,
    lost: usize,
}

/// The result of a batch.
pub type Committed = Result<Vec<Reply>, StoreUnavailable>;

impl Backlog {
    pub fn new(kept_max: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            kept_max: kept_max.max(1),
            lost: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// The number of batches lost since the last call, because there were too many of them.
    pub fn take_lost(&mut self) -> usize {
        std::mem::take(&mut self.lost)
    }

    /// Commits batches after the waiting ones of their conversations. If one transaction for all fails for a reason that may be one
    /// batch's own, each gets its own. `wake` is given the legs concerned by committed batches, waiting ones among them, and by the new
    /// ones that failed: a store can lose its answer after it has committed.
    pub fn commit(
        &mut self,
        store: &dyn Store,
        batches: Vec<Batch>,
        wake: &mut dyn FnMut(Concerned),
    ) -> Vec<Committed> {
        if batches.is_empty() && self.kept.is_empty() {
            return Vec::new();
        }
        let waited = self.kept.len();
        let mut all: Vec<Batch> = std::mem::take(&mut self.kept).into();
        all.extend(batches);
        let error = match try_commit(store, &all) {
            Ok(replies) => {
                wake_all(&all, &replies, wake);
                return replies.into_iter().skip(waited).map(Ok).collect();
            }
            Err(error) => error,
        };
        let batches = all.split_off(waited);
        self.kept = all.into();
        if may_be_ones_own(&error) && (batches.len() > 1 || waited > 0) {
            let committed = batches
                .into_iter()
                .map(|batch| self.commit_alone(store, batch, wake))
                .collect();
            self.retry_each(store, wake);
            return committed;
        }
        batches
            .into_iter()
            .map(|batch| {
                Concerned::perhaps(&batch).into_iter().for_each(&mut *wake);
                self.keep(batch);
                Err(error.clone())
            })
            .collect()
    }

    /// Commits a batch, and before it the waiting ones of its conversation.
    fn commit_alone(
        &mut self,
        store: &dyn Store,
        batch: Batch,
        wake: &mut dyn FnMut(Concerned),
    ) -> Committed {
        let mut all = self.waiting_of(&batch.conversation);
        all.push(batch);
        match try_commit(store, &all) {
            Ok(mut replies) => {
                wake_all(&all, &replies, wake);
                if let Some(batch) = all.last() {
                    self.kept
                        .retain(|kept| kept.conversation != batch.conversation);
                }
                Ok(replies.pop().unwrap_or_default())
            }
            Err(error) => {
                if let Some(batch) = all.pop() {
                    Concerned::perhaps(&batch).into_iter().for_each(wake);
                    self.keep(batch);
                }
                Err(error)
            }
        }
    }

    /// Tries the waiting batches, one conversation after the other, so that a batch that the store never takes holds up no other
    /// conversation.
    fn retry_each(&mut self, store: &dyn Store, wake: &mut dyn FnMut(Concerned)) {
        let mut tried: Vec<ConversationRef> = Vec::new();
        while tried.len() < FAILURES_MAX {
            let next = self
                .kept
                .iter()
                .find(|batch| !tried.contains(&batch.conversation));
            let Some(conversation) = next.map(|batch| batch.conversation.clone()) else {
                return;
            };
            let all = self.waiting_of(&conversation);
            self.kept.retain(|kept| kept.conversation != conversation);
            match try_commit(store, &all) {
                Ok(replies) => wake_all(&all, &replies, wake),
                Err(_) => {
                    // Others are tried before it the next time.
                    self.kept.extend(all);
                    tried.push(conversation);
                }
            }
        }
    }

    fn waiting_of(&self, conversation: &ConversationRef) -> Vec<Batch> {
        let waiting = self.kept.iter();
        waiting
            .filter(|kept| kept.conversation == *conversation)
            .cloned()
            .collect()
    }

    /// Keeps a batch that must not be lost. Past the limit the oldest batch without an outcome is dropped, and then the oldest outcome:
    /// its effect counts as unknown.
    fn keep(&mut self, batch: Batch) {
        if !batch.commands.iter().all(must_not_be_lost) {
            return;
        }
        if self.kept.len() >= self.kept_max {
            let is_outcome = |batch: &Batch| {
                let mut commands = batch.commands.iter();
                commands
                    .any(|command| matches!(command, Command::Record(_) | Command::Abandon { .. }))
            };
            let place = self.kept.iter().position(|kept| !is_outcome(kept));
            self.kept.remove(place.unwrap_or(0));
            self.lost += 1;
        }
        self.kept.push_back(batch);
    }
}

fn wake_all(batches: &[Batch], replies: &[Vec<Reply>], wake: &mut dyn FnMut(Concerned)) {
    for (batch, replies) in batches.iter().zip(replies) {
        Concerned::of(batch, replies)
            .into_iter()
            .for_each(&mut *wake);
    }
}

fn try_commit(store: &dyn Store, batches: &[Batch]) -> Result<Vec<Vec<Reply>>, StoreUnavailable> {
    let committed = catch_unwind(AssertUnwindSafe(|| store.commit(batches)));
    committed.unwrap_or_else(|_| {
        Err(StoreUnavailable::Failed {
            cause: "a command broke".to_owned(),
        })
    })
}

/// Whether a transaction may have failed because of one of its batches, so that the others may succeed without it.
fn may_be_ones_own(error: &StoreUnavailable) -> bool {
    match error {
        StoreUnavailable::DiskFull { .. } | StoreUnavailable::Failed { .. } => true,
        StoreUnavailable::Locked { .. }
        | StoreUnavailable::Moved { .. }
        | StoreUnavailable::Overloaded => false,
    }
}
