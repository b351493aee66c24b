//! One request of the queue, and the answer that somebody waits for. Knows no batch.

use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use windlass_store::{Decline, Outcome, StoreUnavailable, Transaction};
use windlass_tool::id::{ConversationId, SessionId};

/// A request, whatever it asks.
pub(super) trait Job: Send {
    /// Carries it out and keeps the answer until the transaction has ended. Called again where that one failed for the
    /// sake of another request.
    fn run(&mut self, transaction: &mut dyn Transaction);

    /// What depends on whether it is carried out.
    fn kind(&self) -> &Kind;

    /// Answers with what was found, if it holds.
    fn answer(self: Box<Self>, committed: Result<(), StoreUnavailable>);
}

/// What depends on a request, and so when it may run.
pub(super) enum Kind {
    /// Nothing but its own answer.
    Plain,
    /// A change of the world starts where it is answered: not before every earlier outcome is stored.
    Reservation,
    /// It writes down what must not be lost.
    Lasting(Lasting),
}

/// What sessions rely on, so that it is stored before whatever a session does next, however long the disk takes nothing.
#[derive(Clone, Debug)]
pub(super) enum Lasting {
    Outcome(Outcome),
    Reading(Reading),
    Closing(Closing),
}

/// Nobody may approve a question any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The user has declined it.
    Declined(Decline),
    /// Its token, SHA-256, is taken back: the call was, or its session is over.
    Withdrawn([u8; 32]),
}

impl Closing {
    pub(crate) fn note(&self, transaction: &mut dyn Transaction) -> Result<(), StoreUnavailable> {
        match self {
            Self::Declined(decline) => transaction.decline(decline).map(drop),
            Self::Withdrawn(token_hash) => transaction.revoke(token_hash).map(drop),
        }
    }
}

/// The model of a session has read what others wrote.
#[derive(Clone, Debug)]
pub struct Reading {
    pub conversation_id: ConversationId,
    pub session_id: SessionId,
    pub now_unix_ms: u64,
}

impl Reading {
    pub(crate) fn note(&self, transaction: &mut dyn Transaction) -> Result<(), StoreUnavailable> {
        let (conversation, session) = (&self.conversation_id, &self.session_id);
        transaction.note_reading(conversation, session, self.now_unix_ms)
    }
}

impl Kind {
    pub(super) fn lasting(&self) -> Option<&Lasting> {
        match self {
            Self::Lasting(lasting) => Some(lasting),
            Self::Plain | Self::Reservation => None,
        }
    }
}

/// An answer to come. Dropping it takes nothing back.
#[derive(Debug)]
pub struct Pending<T> {
    receiver: oneshot::Receiver<Result<T, StoreUnavailable>>,
}

impl<T> Pending<T> {
    /// An answer that needs no waiting for.
    pub(super) fn refused(error: StoreUnavailable) -> Self {
        let (sender, receiver) = oneshot::channel();
        // The receiver is at hand.
        let _ = sender.send(Err(error));
        Self { receiver }
    }

    /// Waits on a thread that may block.
    pub fn wait(self) -> Result<T, StoreUnavailable> {
        self.receiver
            .blocking_recv()
            .unwrap_or_else(|_| Err(gone()))
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, StoreUnavailable>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver)
            .poll(context)
            .map(|answer| answer.unwrap_or_else(|_| Err(gone())))
    }
}

fn gone() -> StoreUnavailable {
    StoreUnavailable::Failed {
        cause: "its thread has ended".to_owned(),
    }
}

pub(super) struct Request<T, F> {
    request: F,
    found: Option<Result<T, StoreUnavailable>>,
    kind: Kind,
    sender: oneshot::Sender<Result<T, StoreUnavailable>>,
}

impl<T, F> Request<T, F>
where
    F: FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable>,
{
    pub(super) fn new(request: F, kind: Kind) -> (Self, Pending<T>) {
        let (sender, receiver) = oneshot::channel();
        let request = Self {
            request,
            found: None,
            kind,
            sender,
        };
        (request, Pending { receiver })
    }
}

impl<T, F> Job for Request<T, F>
where
    T: Send,
    F: FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable> + Send,
{
    fn run(&mut self, transaction: &mut dyn Transaction) {
        self.found = Some((self.request)(transaction));
    }

    fn kind(&self) -> &Kind {
        &self.kind
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreUnavailable>) {
        let Self { found, sender, .. } = *self;
        let answer = committed.and_then(|()| found.unwrap_or_else(|| Err(gone())));
        // Nobody needs to wait for it.
        let _ = sender.send(answer);
    }
}

/// A request of which nobody waits for the answer.
pub(super) struct Unawaited<F>(pub(super) F);

impl<F> Job for Unawaited<F>
where
    F: FnMut(&mut dyn Transaction) -> Result<(), StoreUnavailable> + Send,
{
    fn run(&mut self, transaction: &mut dyn Transaction) {
        // A step that fails dooms the transaction, which says so.
        let _ = (self.0)(transaction);
    }

    fn kind(&self) -> &Kind {
        &Kind::Plain
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreUnavailable>) {
        if let Err(error) = committed {
            tracing::warn!(%error, "something that nobody waits for is not kept");
        }
    }
}
