//! The rest of a voice session that has ended while tasks of it run: it brings their progress and their ends into the ledger, and
//! takes their cancellation, with no client and no provider.

use crate::call_driver::CallDriver;
use crate::journal::RecordedSession;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use windlass_session::event::{EndReason, SessionEvent};
use windlass_session::io::Input;
use windlass_session::time::Timestamp;

/// The wait of a session in which nothing falls due.
const LONG: Duration = Duration::from_secs(60 * 60);

pub(super) struct Rest {
    pub(super) calls: CallDriver,
    pub(super) core: RecordedSession,
    pub(super) started: Instant,
    pub(super) shutdown: watch::Receiver<bool>,
    pub(super) shutdown_timeout: Duration,
    /// The end of the server, if it is shutting down.
    pub(super) deadline: Option<Instant>,
}

impl Rest {
    /// Goes on until no task runs any more, or the server ends.
    pub(super) async fn run(mut self) {
        while !self.core.is_over() {
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                break;
            }
            let due = self.core.next_deadline();
            let due = due.map(|at| self.started + Duration::from_micros(at.0));
            let until = due.into_iter().chain(self.deadline).min();
            let until = until.unwrap_or(now + LONG);
            let is_told = self.deadline.is_some();
            tokio::select! {
                biased;
                input = poll_fn(|context| self.calls.poll_input(context)) => self.feed(input),
                () = tokio::time::sleep_until(until) => self.feed(Input::Tick),
                () = raised(&mut self.shutdown), if !is_told => {
                    self.deadline = Some(Instant::now() + self.shutdown_timeout);
                }
            }
        }
        if self.core.is_over() {
            self.calls.leave();
        } else {
            let reason = EndReason::Shutdown;
            self.calls.publish(&SessionEvent::SessionEnded { reason });
        }
        self.calls.finish(self.deadline).await;
    }

    /// Feeds the core, and every input that follows from its outputs. Other outputs would concern a client or a provider.
    fn feed(&mut self, input: Input) {
        let at = Timestamp::default() + self.started.elapsed();
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut outputs = Vec::new();
            self.core.handle(at, input, &mut outputs);
            for output in outputs {
                self.calls.perform(output, &mut inputs);
            }
        }
    }
}

/// Waits for the shutdown. A flag without a sender counts as raised.
async fn raised(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|is_raised| *is_raised).await;
}
