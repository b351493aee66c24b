//! The way to stop a call of a text session from outside its turn: a few waiting requests, each with its way back. Knows no
//! caller, and nothing of the rights to stop a call.

use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use windlass_contract::id::CallNumber;
use windlass_session::client::CancelOutcome;

/// Requests of one session that wait; a further one waits for room.
const WAITING_MAX: usize = 8;

/// A request to stop one call.
#[derive(Debug)]
pub(super) struct CallStop {
    call: CallNumber,
    way_back: oneshot::Sender<CancelOutcome>,
}

/// A session's answer to a request to stop a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopAnswer {
    Outcome(CancelOutcome),
    /// The session has never had the call, or has ended.
    NotHere,
    /// The session did not handle the request in time, and will not stop the call later.
    Busy,
}

impl CallStop {
    pub(super) fn call(&self) -> CallNumber {
        self.call
    }

    /// Reports the outcome. A request that is dropped instead concerns a call of another session.
    pub(super) fn came_to(self, outcome: CancelOutcome) {
        // The requester may have left.
        let _ = self.way_back.send(outcome);
    }
}

/// Stops calls of one session, as long as the session lives.
#[derive(Clone, Debug)]
pub struct CallStopper(mpsc::Sender<CallStop>);

impl CallStopper {
    /// The outcome of stopping a call, or [`StopAnswer::Busy`] after `patience`.
    pub async fn stop(&self, call: CallNumber, patience: Duration) -> StopAnswer {
        let asked = async {
            let (way_back, outcome) = oneshot::channel();
            let stop = CallStop { call, way_back };
            self.0.send(stop).await.ok()?;
            outcome.await.ok()
        };
        match timeout(patience, asked).await {
            Ok(Some(outcome)) => StopAnswer::Outcome(outcome),
            Ok(None) => StopAnswer::NotHere,
            Err(_) => StopAnswer::Busy,
        }
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.0.is_closed()
    }
}

/// The session's side of the stopper.
#[derive(Debug)]
pub(super) struct CallStops {
    stopper: CallStopper,
    waiting: mpsc::Receiver<CallStop>,
}

impl Default for CallStops {
    fn default() -> Self {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        Self {
            stopper: CallStopper(sender),
            waiting,
        }
    }
}

impl CallStops {
    pub(super) fn stopper(&self) -> CallStopper {
        self.stopper.clone()
    }

    /// The next request whose answer is still awaited.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<CallStop> {
        loop {
            match self.waiting.poll_recv(context) {
                // A requester that gave up waiting was told that nothing is stopped.
                Poll::Ready(Some(stop)) if stop.way_back.is_closed() => {}
                Poll::Ready(Some(stop)) => return Poll::Ready(stop),
                // This value holds a sender itself, so the queue never ends until it is closed.
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Drops the waiting requests and takes no more: no call is left that could be stopped.
    pub(super) fn close(&mut self) {
        self.waiting.close();
        while self.waiting.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    const PATIENCE: Duration = Duration::from_secs(5);
    const CALL: CallNumber = CallNumber(1);

    #[tokio::test(start_paused = true)]
    async fn a_session_that_does_not_come_to_a_request_is_busy_and_stops_nothing_later() {
        let mut stops = CallStops::default();
        let stopper = stops.stopper();
        for _ in 0..=WAITING_MAX {
            assert_eq!(stopper.stop(CALL, PATIENCE).await, StopAnswer::Busy);
        }
        let asked = tokio::spawn(async move { stopper.stop(CallNumber(2), PATIENCE).await });
        let stop = poll_fn(|context| stops.poll_next(context)).await;
        assert_eq!(stop.call(), CallNumber(2));
        stop.came_to(CancelOutcome::Stopped);
        let stopped = StopAnswer::Outcome(CancelOutcome::Stopped);
        assert_eq!(asked.await.unwrap(), stopped);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_without_calls_keeps_no_request() {
        let mut stops = CallStops::default();
        let stopper = stops.stopper();
        let waits = stopper.clone();
        let asked = tokio::spawn(async move { waits.stop(CALL, PATIENCE).await });
        // The request is there, and not taken yet.
        while stops.waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(!stopper.is_over());
        stops.close();
        assert_eq!(asked.await.unwrap(), StopAnswer::NotHere);
        assert_eq!(stopper.stop(CALL, PATIENCE).await, StopAnswer::NotHere);
        assert!(stopper.is_over() && stops.waiting.is_empty());
    }
}
