//! Saves of one session: one at a time, the newest wins, and nobody waits for them. Knows no store and nothing of what is
//! saved.

use crate::effects::{Answer, SnapshotStore};
use crate::store_thread::Pending;
use std::pin::Pin;
use std::task::{Context, Poll};
use windlass_store::{Saved, Snapshot, StoreUnavailable};

#[derive(Default)]
pub(super) struct Saving {
    is_wanted: bool,
    under_way: Option<Pending<Saved>>,
}

impl Saving {
    /// What the store has is out of date.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Has a snapshot made and saved where one is wanted and none is on its way.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        store: &(impl SnapshotStore + ?Sized),
        mut make: impl FnMut() -> Option<Snapshot>,
    ) {
        loop {
            if let Some(pending) = &mut self.under_way {
                match Pin::new(pending).poll(context) {
                    Poll::Pending => return,
                    Poll::Ready(answer) => report(&answer),
                }
                self.under_way = None;
            }
            if !std::mem::take(&mut self.is_wanted) {
                return;
            }
            match make().map(|snapshot| store.save_snapshot(snapshot)) {
                None => {}
                Some(Answer::Ready(answer)) => report(&answer),
                Some(Answer::Pending(pending)) => self.under_way = Some(pending),
            }
        }
    }
}

/// The session goes on without; the next save may succeed.
fn report(answer: &Result<Saved, StoreUnavailable>) {
    match answer {
        Ok(Saved::Stored) => {}
        Ok(Saved::TooLong) => tracing::warn!(
            "a session is too long to be saved, and cannot be taken up after a restart; lower voice.limits.transcript_characters_max"
        ),
        Ok(Saved::TokenTaken) => tracing::error!("a session's token is another one's"),
        Err(error) => tracing::warn!(%error, "a session could not be saved"),
    }
}
