//! Waking a task at the earliest of many deadlines, and when a flag is raised, at no cost to the wakes between. Knows no
//! deadline's meaning.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

/// One timer, moved only when an earlier deadline comes up. A deadline that has moved further away costs one needless wake
/// instead of a reset for every frame.
pub(super) struct Timer {
    sleep: Pin<Box<Sleep>>,
    armed: Option<(Instant, Waker)>,
}

impl Timer {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            sleep: Box::pin(tokio::time::sleep_until(now)),
            armed: None,
        }
    }

    /// Ready if the deadline, or an earlier one of a previous call, has passed.
    pub(super) fn poll_until(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        deadline: Option<Instant>,
    ) -> Poll<()> {
        let Some(deadline) = deadline else {
            return Poll::Pending;
        };
        if let Some((armed_for, waker)) = &self.armed {
            let is_armed = *armed_for <= deadline && waker.will_wake(context.waker());
            if is_armed && now < *armed_for {
                return Poll::Pending;
            }
            if !is_armed {
                self.armed = None;
            }
        }
        if self.armed.is_none() {
            self.sleep.as_mut().reset(deadline);
            self.armed = Some((deadline, context.waker().clone()));
        }
        if self.sleep.as_mut().poll(context).is_ready() {
            self.armed = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// A flag that is raised once: the server's shutdown, or the withdrawal of a client's key.
pub(super) struct FlagWatch {
    flag: watch::Receiver<bool>,
    /// `None` once it was raised.
    wait: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waker: Option<Waker>,
}

impl FlagWatch {
    pub(super) fn new(flag: watch::Receiver<bool>) -> Self {
        let mut waiting = flag.clone();
        Self {
            flag,
            wait: Some(Box::pin(async move {
                // A flag without a sender counts as raised.
                let _ = waiting.wait_for(|is_raised| *is_raised).await;
            })),
            waker: None,
        }
    }

    /// `true` once, when the flag is raised.
    pub(super) fn poll_raised(&mut self, context: &mut Context<'_>) -> bool {
        let Some(wait) = &mut self.wait else {
            return false;
        };
        let is_registered = self
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()));
        if is_registered && matches!(self.flag.has_changed(), Ok(false)) {
            return false;
        }
        self.waker = Some(context.waker().clone());
        if wait.as_mut().poll(context).is_pending() {
            return false;
        }
        self.wait = None;
        true
    }
}
