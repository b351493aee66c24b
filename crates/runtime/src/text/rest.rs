//! A text session between its turns: what has begun comes to its end, and what has come or fallen due meanwhile is dealt with
//! before anything else is said. Knows no turn, and no client: nobody waits for what happens here.

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
    /// Whether calls have begun, or have something to be stored, for which no turn waits. Else nothing falls due that could
    /// not wait for the next turn.
    pub fn is_working(&self) -> bool {
        !self.calls.is_idle() || self.core.is_working()
    }

    /// Waits for the next thing that a call without a turn brings, or for a deadline.
    pub async fn work(&mut self) {
        let mut never = std::pin::pin!(std::future::pending());
        let until = Instant::now() + Duration::from_secs(60);
        let mut patience = Patience::new(never.as_mut(), until);
        let pending = std::pin::pin!(std::future::pending::<()>());
        self.wait(pending, &mut patience, &mut Nobody).await;
        self.expect_nothing();
    }

    /// Ends the session and waits for the changes that it has begun. Nobody asks any more what it has asked.
    pub async fn end(mut self) {
        self.settle_by(Input::Client(ClientEvent::Stop)).await;
        Box::pin(self.leave()).await;
    }

    /// The same for a session whose conversation nobody comes back to. What it has done stays known.
    pub async fn end_for_good(mut self) {
        self.settle_by(Input::Client(ClientEvent::Stop)).await;
        self.calls.leave_for_good();
        Box::pin(self.calls.finish(None)).await;
    }

    /// The same for a session whose conversation goes on in another one: what the user was asked stays open. A summary that is being
    /// written is kept, unless the program ends before it is.
    pub async fn suspend(mut self, program_ends: impl Future<Output = ()>) {
        // Its turn is over. A task may run for a day, and holds no room that other turns need.
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

    /// What has begun comes to its end, and nothing else begins.
    async fn settle_by(&mut self, input: Input) {
        self.feed(input, &mut Nobody);
        self.calls.retire();
        while !self.core.is_over() {
            self.work().await;
        }
        // What follows may wait long, for a summary or for the store.
        self.stopping.close();
    }

    async fn leave(mut self) {
        // Nobody can go on with a leg by text.
        self.calls.leave();
        self.calls.finish(None).await;
    }

    /// What has come since the last turn, and what has fallen due, comes before what is said now: a question whose time is up
    /// has ended when another one is answered.
    pub(super) async fn catch_up(&mut self, patience: &mut Patience<'_>, sink: &mut dyn TurnSink) {
        while let Wake::Core = self.wait(std::future::ready(()), patience, sink).await {}
        self.expect_nothing();
        let now = Timestamp::default() + self.started.elapsed();
        if self.core.next_deadline().is_some_and(|due| due <= now) {
            self.feed(Input::Tick, sink);
        }
    }

    /// Keeps a summary that has been written in the log of the conversation.
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
            // The session goes on with it all the same.
            Ok(None) => {}
            Err(error) => tracing::warn!(session = %self.id(), %error, "a summary is not kept"),
        }
    }

    /// No request to a model is running, and none begins before something is said.
    pub(super) fn expect_nothing(&mut self) {
        self.feed(Input::Request(RequestEvent::Ended), &mut Nobody);
    }

    /// Between turns, which may be a day apart, nothing is held that the next one makes anew.
    pub(super) fn give_room_back(&mut self) {
        self.outputs = Vec::new();
        self.inputs = VecDeque::new();
        self.core.give_room_back();
        self.log.give_room_back();
    }
}
