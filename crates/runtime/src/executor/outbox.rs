//! Messages of running handlers: a bounded queue from their threads to the session's task, which takes memory only for waiting
//! messages; and the way back for answers of tools that handlers called. Knows no call.

use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot;
use windlass_contract::depth::{dismantle, is_too_deep};
use windlass_contract::envelope::ToolResponse;
use windlass_contract::handler::{
    CapabilityFuture, HandlerMessage, Outbox, OutboxClosed, ReplyNumber,
};
use windlass_contract::id::CallRef;
use windlass_contract::sensitive::Sensitive;

/// Messages of handlers that wait for the session. A handler that finds the queue full gets an error.
const MESSAGES_MAX: usize = 256;
/// Bytes of waiting messages, after which no further one is taken.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Bytes of one message. The limit is the same however few wait, so that a handler that may send at all can send any message up
/// to it.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Messages(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(CallRef, HandlerMessage)>,
    waiting_bytes: usize,
    waker: Option<Waker>,
    /// Handlers that wait for a tool's answer. Each has a message in the queue, or an open call in the core.
    replies: HashMap<ReplyNumber, oneshot::Sender<ToolResponse>>,
    last_reply: u64,
    is_closed: bool,
}

impl Queue {
    fn push(&mut self, call: CallRef, message: HandlerMessage) -> Result<(), OutboxClosed> {
        let bytes = message.bytes();
        if bytes > MESSAGE_BYTES_MAX || !self.is_open() {
            return Err(OutboxClosed);
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back((call, message));
        Ok(())
    }

    fn is_open(&self) -> bool {
        !self.is_closed
            && self.waiting.len() < MESSAGES_MAX
            && self.waiting_bytes < WAITING_BYTES_MAX
    }

    fn take(&mut self) -> Option<(CallRef, HandlerMessage)> {
        let (call, message) = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(message.bytes());
        Some((call, message))
    }
}

impl Messages {
    pub(super) fn take(&self) -> Option<(CallRef, HandlerMessage)> {
        self.lock().take()
    }

    pub(super) fn poll_take(&self, context: &mut Context<'_>) -> Poll<(CallRef, HandlerMessage)> {
        let mut queue = self.lock();
        match queue.take() {
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

    /// Ends the queue: no more messages are taken, and no more answers are passed on.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        queue.waiting = VecDeque::new();
        queue.waiting_bytes = 0;
        queue.waker = None;
        queue.replies = HashMap::new();
    }

    /// Passes on the answer that a handler waits for. The handler may have ended meanwhile.
    pub(super) fn answer(&self, reply: ReplyNumber, response: Arc<ToolResponse>) {
        let waiting = self.lock().replies.remove(&reply);
        if let Some(waiting) = waiting {
            let _ = waiting.send(Arc::unwrap_or_clone(response));
        }
    }

    fn wake(mut queue: MutexGuard<'_, Queue>) {
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
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
        let message = message.into_shallow().ok_or(OutboxClosed)?;
        let mut queue = self.lock();
        queue.push(call, message)?;
        Self::wake(queue);
        Ok(())
    }

    fn call_tool(
        &self,
        call: CallRef,
        tool: Arc<str>,
        arguments: Value,
    ) -> CapabilityFuture<Result<ToolResponse, OutboxClosed>> {
        let (sender, answer) = oneshot::channel();
        if is_too_deep(&arguments) {
            dismantle(arguments);
            return Box::pin(std::future::ready(Err(OutboxClosed)));
        }
        let mut queue = self.lock();
        queue.last_reply += 1;
        let reply = ReplyNumber(queue.last_reply);
        let message = HandlerMessage::CallTool {
            reply,
            tool,
            arguments: Sensitive(arguments),
        };
        if queue.push(call, message).is_err() {
            return Box::pin(std::future::ready(Err(OutboxClosed)));
        }
        queue.replies.insert(reply, sender);
        Self::wake(queue);
        Box::pin(async move { answer.await.map_err(|_| OutboxClosed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_contract::id::CallNumber;

    #[test]
    fn what_waits_is_bounded_in_bytes_and_room_comes_back_as_it_is_taken() {
        let messages = Messages::default();
        let call = CallRef {
            call: CallNumber(1),
            attempt: 1,
        };
        let of_bytes = |bytes: usize| HandlerMessage::Client(json!({ "text": "x".repeat(bytes) }));
        assert_eq!(messages.send(call, of_bytes(50 << 20)), Err(OutboxClosed));
        assert!(messages.is_open());
        let mut sent = 0;
        while messages.is_open() {
            messages.send(call, of_bytes(1_000_000)).unwrap();
            sent += 1;
        }
        assert_eq!(sent, 5);
        assert_eq!(messages.send(call, of_bytes(1)), Err(OutboxClosed));
        assert!(messages.take().is_some());
        messages.send(call, of_bytes(1)).unwrap();
        while messages.take().is_some() {}
        assert_eq!(messages.lock().waiting_bytes, 0);
    }
}
