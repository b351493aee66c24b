//! The end of a turn by text: until it is cancelled, or its time is up.

use std::pin::Pin;
use std::task::Context;
use tokio::time::Instant;

/// The conditions under which a turn is given up.
pub(super) struct Patience<'a> {
    cancelled: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    /// Whether the future has ended, and must not be polled any more.
    is_cancelled: bool,
    pub(super) until: Instant,
}

impl<'a> Patience<'a> {
    pub(super) fn new(
        cancelled: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
        until: Instant,
    ) -> Self {
        Self {
            cancelled,
            is_cancelled: false,
            until,
        }
    }

    /// Whether the turn is cancelled; wakes the task when it is.
    pub(super) fn poll_cancelled(&mut self, context: &mut Context<'_>) -> bool {
        self.is_cancelled = self.is_cancelled || self.cancelled.as_mut().poll(context).is_ready();
        self.is_cancelled
    }
}
