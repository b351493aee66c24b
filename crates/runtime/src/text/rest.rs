//! A text session between its turns: its running calls come to their ends, and inputs and deadlines of the meantime are handled
//! before the next message. Knows no turn, and no client: events here have no receiver.

use super::past::ENTRIES_MAX;
use super::patience::Patience;
use super::session::{TextSession, Wake};
use super::summary::Written;
use super::{Nobody, TurnMemory, TurnSink};
use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use windlass_session::client::ClientEvent;
use windlass_session::io::Input;
use windlass_session::model::RequestEvent;
use windlass_session::time::Timestamp;

impl TextSession {
    /// Whether calls run, or have something to be stored, without a turn that waits for them. Otherwise nothing falls due that
    /// could not wait for the next turn.
    pub fn is_working(&self) -> bool {
        !self.calls.is_idle() || self.core.is_working()
    }

    /// Waits for the next event of a call without a turn, or for a deadline.
    pub async fn work(&mut self) {
        let mut never = std::pin::pin!(std::future::pending());
        let until = Instant::now() + Duration::from_secs(60);
        let mut patience = Patience::new(never.as_mut(), until);
        let pending = std::pin::pin!(std::future::pending::<()>());
        self.wait(pending, &mut patience, &mut Nobody).await;
        self.expect_nothing();
    }

    /// Ends the session and waits for the changes that it has begun. Its open approval requests are not asked any more.
    pub async fn end(mut self) {
        self.settle_by(Input::Client(ClientEvent::Stop)).await;
        Box::pin(self.leave()).await;
    }

    /// Ends a session whose conversation is not continued. Its changes stay recorded.
    pub async fn end_for_good(mut self) {
        self.settle_by(Input::Client(ClientEvent::Stop)).await;
        self.calls.leave_for_good();
        Box::pin(self.calls.finish(None)).await;
    }

    /// Ends a session whose conversation goes on in another one: approval requests stay open. A summary that is being written is
    /// kept, unless the program ends first.
    pub async fn suspend(mut self, program_ends: impl Future<Output = ()>) {
        // The session's turn is over. A task may run for a day, and must hold no room that other turns need.
        self.memory = TurnMemory::default();
        self.settle_by(Input::Shutdown).await;
        let written = tokio::select! {
            biased;
            written = self.summaries.finished() => written,
            () = program_ends => None,
        };
        if let Some(written) = written {
            self.keep(&written);
        }
        Box::pin(self.leave()).await;
    }

    /// Lets running calls come to their ends. No new ones begin.
    async fn settle_by(&mut self, input: Input) {
        self.feed(input, &mut Nobody);
        self.calls.retire();
        while !self.core.is_over() {
            self.work().await;
        }
        // The next steps may wait long, for a summary or for the store.
        self.stopping.close();
    }

    async fn leave(mut self) {
        // A leg by text cannot be resumed.
        self.calls.leave();
        self.calls.finish(None).await;
    }

    /// Handles inputs and deadlines since the last turn before the new message: an expired approval request has ended when
    /// another one is answered.
    pub(super) async fn catch_up(&mut self, patience: &mut Patience<'_>, sink: &mut dyn TurnSink) {
        while let Wake::Core = self.wait(std::future::ready(()), patience, sink).await {}
        self.expect_nothing();
        let now = Timestamp::default() + self.started.elapsed();
        if self.core.next_deadline().is_some_and(|due| due <= now) {
            self.feed(Input::Tick, sink);
        }
    }

    /// Keeps a finished summary in the log of the conversation.
    pub(super) fn keep_summary(&mut self) {
        if let Some(written) = self.summaries.take_finished() {
            self.keep(&written);
        }
    }

    fn keep(&mut self, written: &Written) {
        let entries = self
            .ledger
            .store()
            .entries(&self.conversation, self.read_to, ENTRIES_MAX);
        let kept = entries.map(|entries| written.entry(self.id(), &entries));
        match kept {
            Ok(Some(entry)) => self.append(vec![entry]),
            // The session uses the summary all the same.
            Ok(None) => {}
            Err(error) => tracing::warn!(session = %self.id(), %error, "a summary is not kept"),
        }
    }

    /// Notes that no request to a model runs, and none begins before the next message.
    pub(super) fn expect_nothing(&mut self) {
        self.feed(Input::Request(RequestEvent::Ended), &mut Nobody);
    }

    /// Gives memory back between turns, which may be a day apart. The next turn makes it anew.
    pub(super) fn give_room_back(&mut self) {
        self.outputs = Vec::new();
        self.inputs = VecDeque::new();
        self.core.give_room_back();
        self.log.give_room_back();
    }
}
