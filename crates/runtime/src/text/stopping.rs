//! The way by which a call of a text session is stopped from outside its turn: a few requests that wait, each with its way back.
//! Knows no caller, and nothing of what may be stopped.

use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};
use windlass_session::client::CancelOutcome;
use windlass_tool::id::CallNumber;

/// Requests of one session that wait; who brings one more waits for room.
const WAITING_MAX: usize = 8;

/// One call that is to be stopped.
#[derive(Debug)]
pub(super) struct CallStop {
    call: CallNumber,
    way_back: oneshot::Sender<CancelOutcome>,
}

impl CallStop {
    pub(super) fn call(&self) -> CallNumber {
        self.call
    }

    pub(super) fn came_to(self, outcome: CancelOutcome) {
        // Who asked may have left.
        let _ = self.way_back.send(outcome);
    }
}

/// Stops calls of one session, as long as that lives.
#[derive(Clone, Debug)]
pub struct CallStopper(mpsc::Sender<CallStop>);

impl CallStopper {
    /// What comes of it; `None` where the session has ended.
    pub async fn stop(&self, call: CallNumber) -> Option<CancelOutcome> {
        let (way_back, outcome) = oneshot::channel();
        let stop = CallStop { call, way_back };
        self.0.send(stop).await.ok()?;
        outcome.await.ok()
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.0.is_closed()
    }
}

/// The session's end of it.
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

    /// The next request. It holds a sender itself, so that there is always one to come.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<CallStop> {
        match self.waiting.poll_recv(context) {
            Poll::Ready(Some(stop)) => Poll::Ready(stop),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
