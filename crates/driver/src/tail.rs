//! The legs that a commit wakes: the live ones of its conversation. Knows no store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use windlass_contract::id::SessionId;
use windlass_store::command::{Command, Reply};
use windlass_store::{Batch, ConversationRef};

/// The live legs of a process.
#[derive(Clone, Default)]
pub struct Tails(Arc<Mutex<HashMap<ConversationRef, Vec<Arc<Listener>>>>>);

struct Listener {
    leg: SessionId,
    /// Its session ends, and tells no one anything any more.
    is_retired: AtomicBool,
    news: Mutex<News>,
}

#[derive(Default)]
struct News {
    is_there: bool,
    waker: Option<Waker>,
}

/// One leg's place among them, until it is dropped.
pub struct Tail {
    tails: Tails,
    conversation: ConversationRef,
    listener: Arc<Listener>,
}

impl Tails {
    pub fn listen(&self, conversation: &ConversationRef, leg: &SessionId) -> Tail {
        let listener = Arc::new(Listener {
            leg: leg.clone(),
            is_retired: AtomicBool::new(false),
            news: Mutex::default(),
        });
        let mut tails = self.lock();
        let listeners = tails.entry(conversation.clone()).or_default();
        listeners.push(listener.clone());
        Tail {
            tails: self.clone(),
            conversation: conversation.clone(),
            listener,
        }
    }

    /// Whether the leg lives, and its session tells its model and its client the log's news.
    pub fn is_live(&self, conversation: &ConversationRef, leg: &SessionId) -> bool {
        let is_it =
            |one: &Arc<Listener>| one.leg == *leg && !one.is_retired.load(Ordering::Relaxed);
        let tails = self.lock();
        let listeners = tails.get(conversation);
        listeners.is_some_and(|listeners| listeners.iter().any(is_it))
    }

    /// The replies of the batch are given before this.
    pub fn wake(&self, concerned: &Concerned) {
        let mut wakers = Vec::new();
        if let Some(listeners) = self.lock().get(&concerned.conversation) {
            for listener in listeners {
                if concerned.all_but.as_ref() != Some(&listener.leg) {
                    let mut news = listener.news();
                    news.is_there = true;
                    wakers.extend(news.waker.take());
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationRef, Vec<Arc<Listener>>>> {
        // Each change is one step, so that a panic elsewhere leaves the table whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The legs that a commit concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concerned {
    conversation: ConversationRef,
    all_but: Option<SessionId>,
}

impl Concerned {
    /// `None` if a committed batch has nothing that a leg reads.
    pub fn of(batch: &Batch, replies: &[Reply]) -> Option<Self> {
        let is_news =
            |reply: &Reply| matches!(reply, Reply::Appended(entries) if !entries.is_empty());
        let commands = batch.commands.iter().zip(replies);
        Self::of_those(
            batch,
            commands.map(|(command, reply)| (command, is_news(reply))),
        )
    }

    /// The same for a batch that may or may not have been committed.
    pub fn perhaps(batch: &Batch) -> Option<Self> {
        Self::of_those(batch, batch.commands.iter().map(|command| (command, true)))
    }

    /// Each command comes with whether the entries that it appends are new.
    fn of_those<'a>(
        batch: &Batch,
        commands: impl Iterator<Item = (&'a Command, bool)>,
    ) -> Option<Self> {
        let mut all = false;
        let mut all_but: Option<&SessionId> = None;
        for (command, is_news) in commands {
            match command {
                // A leg knows its own entries.
                Command::Append { leg, .. } => match all_but {
                    _ if !is_news => {}
                    Some(other) if *other != leg.leg => all = true,
                    Some(_) | None => all_but = Some(&leg.leg),
                },
                Command::Open(_)
                | Command::Attach(_)
                | Command::Save { .. }
                | Command::Leave(_)
                | Command::Discard
                | Command::Taint
                | Command::LookUp { .. }
                | Command::Progress(_)
                | Command::TasksSent(_)
                | Command::Heard { .. }
                | Command::Audited(_)
                | Command::Rename(_)
                | Command::Erase => {}
                Command::Resume(_)
                | Command::Request(_)
                | Command::Answer(_)
                | Command::Abandon { .. }
                | Command::Revoke { .. }
                | Command::Withdraw { .. }
                | Command::Record(_)
                | Command::Found(_)
                | Command::CalledBack(_)
                | Command::CancelTask { .. }
                | Command::Settle => all = true,
            }
        }
        if !all && all_but.is_none() {
            return None;
        }
        Some(Self {
            conversation: batch.conversation.clone(),
            all_but: all_but.filter(|_| !all).cloned(),
        })
    }
}

impl Tail {
    /// The leg's session ends: others are to tell its news. It still hears later commits.
    pub fn retire(&self) {
        self.listener.is_retired.store(true, Ordering::Relaxed);
    }

    /// Whether something was committed since this was ready last.
    pub fn poll_committed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut news = self.listener.news();
        if std::mem::take(&mut news.is_there) {
            return Poll::Ready(());
        }
        match &mut news.waker {
            Some(waker) => waker.clone_from(context.waker()),
            waker => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// The same for a leg that is not woken.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.listener.news().is_there)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let mut tails = self.tails.lock();
        if let Some(listeners) = tails.get_mut(&self.conversation) {
            listeners.retain(|listener| !Arc::ptr_eq(listener, &self.listener));
            if listeners.is_empty() {
                tails.remove(&self.conversation);
            }
        }
    }
}
