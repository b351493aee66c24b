//! The signal to a running attempt that its result is no longer awaited. Knows no attempt and no clock.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Signals to a running attempt that its result is no longer awaited.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_cancelled: AtomicBool,
    /// The wakers of the tasks that wait for the signal.
    wakers: Mutex<Vec<Waker>>,
}

impl Cancellation {
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut *self.wakers());
        wakers.into_iter().for_each(Waker::wake);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Acquire)
    }

    /// Completes when the attempt is cancelled, which may be never.
    pub async fn cancelled(&self) {
        poll_fn(|context| {
            let mut wakers = self.wakers();
            // Checked under the lock, so that no waker is added after `cancel` has taken the list.
            if self.is_cancelled() {
                return Poll::Ready(());
            }
            let waker = context.waker();
            if !wakers.iter().any(|known| known.will_wake(waker)) {
                wakers.push(waker.clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Prepares the signal for the next attempt: makes a new one, unless this one has no other holder and was not cancelled.
    pub fn renew(&mut self) {
        let is_cancelled = self.is_cancelled();
        match Arc::get_mut(&mut self.0) {
            Some(shared) if !is_cancelled => {
                let wakers = shared.wakers.get_mut();
                wakers.unwrap_or_else(PoisonError::into_inner).clear();
            }
            Some(_) | None => *self = Self::default(),
        }
    }

    fn wakers(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        // Each change is a single step, so a panic elsewhere leaves the list whole.
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Cancellation;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn an_attempt_is_cancelled_by_nothing_that_came_before_it() {
        let mut cancellation = Cancellation::default();
        let of_first = cancellation.clone();
        cancellation.renew();
        of_first.cancel();
        assert!(!cancellation.is_cancelled());
        cancellation.cancel();
        cancellation.renew();
        assert!(!cancellation.is_cancelled());
    }

    #[test]
    fn who_waits_for_it_hears_of_it() {
        let cancellation = Cancellation::default();
        let mut waiting = pin!(cancellation.cancelled());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
        cancellation.cancel();
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(()));
    }
}
