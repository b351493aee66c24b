//! What running handlers say before they end: a bounded queue from their threads to the session's task, which takes room
//! only for what waits in it. Knows no call.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use windlass_tool::handler::{HandlerMessage, Outbox, OutboxClosed};
use windlass_tool::id::CallRef;

/// Messages of handlers that wait for the session. A handler that finds the queue full is told so.
const MESSAGES_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Messages(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(CallRef, HandlerMessage)>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Queue {
    fn is_open(&self) -> bool {
        !self.is_closed && self.waiting.len() < MESSAGES_MAX
    }
}

impl Messages {
    pub(super) fn take(&self) -> Option<(CallRef, HandlerMessage)> {
        self.lock().waiting.pop_front()
    }

    pub(super) fn poll_take(&self, context: &mut Context<'_>) -> Poll<(CallRef, HandlerMessage)> {
        let mut queue = self.lock();
        match queue.waiting.pop_front() {
            Some(message) => Poll::Ready(message),
            None => {
                match &mut queue.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    waker => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    /// Nobody takes messages any more.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        queue.waiting = VecDeque::new();
        queue.waker = None;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Each change is one step, so that a panic elsewhere leaves the queue whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox for Messages {
    fn is_open(&self) -> bool {
        self.lock().is_open()
    }

    fn send(&self, call: CallRef, message: HandlerMessage) -> Result<(), OutboxClosed> {
        let mut queue = self.lock();
        if !queue.is_open() {
            return Err(OutboxClosed);
        }
        queue.waiting.push_back((call, message));
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}
