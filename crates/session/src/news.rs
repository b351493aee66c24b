//! Which sessions of a process are of one conversation, so that each learns that another has changed something: the ledger
//! alone would have to be asked again and again. Knows no store and nothing of what was changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_tool::id::ConversationId;

/// For how many more conversations room is kept, so that a rush of them leaves none behind.
const SPARE_MAX: usize = 256;

/// The conversations that sessions of this process are of. Whoever shares a store shares this.
#[derive(Clone, Debug, Default)]
pub struct Conversations {
    known: Arc<Mutex<HashMap<ConversationId, Conversation>>>,
}

#[derive(Debug, Default)]
struct Conversation {
    sessions: usize,
    /// How much they have changed.
    changes: Arc<AtomicU64>,
}

/// That a session is of a conversation, until it is dropped.
#[derive(Debug)]
pub struct Membership {
    conversations: Conversations,
    conversation_id: ConversationId,
    changes: Arc<AtomicU64>,
    /// How much of it this session knows of.
    known: u64,
}

impl Conversations {
    pub fn join(&self, conversation_id: &ConversationId) -> Membership {
        let mut conversations = self.lock();
        let conversation = conversations.entry(conversation_id.clone()).or_default();
        conversation.sessions += 1;
        let changes = conversation.changes.clone();
        Membership {
            conversations: self.clone(),
            conversation_id: conversation_id.clone(),
            known: changes.load(Ordering::SeqCst),
            changes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Conversation>> {
        // Each change of the map is one step, so that a panic elsewhere leaves it whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    /// This session is about to change something, or to say how that ended: the store has been told, and the others read it
    /// behind that.
    pub fn tell_others(&mut self) {
        let before = self.changes.fetch_add(1, Ordering::SeqCst);
        if before == self.known {
            self.known = before.wrapping_add(1);
        }
    }

    /// Whether another session has told of something since this was asked last.
    pub fn take_news(&mut self) -> bool {
        let changes = self.changes.load(Ordering::SeqCst);
        std::mem::replace(&mut self.known, changes) != changes
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut conversations = self.conversations.lock();
        let Some(conversation) = conversations.get_mut(&self.conversation_id) else {
            return;
        };
        conversation.sessions -= 1;
        if conversation.sessions == 0 {
            conversations.remove(&self.conversation_id);
            conversations.shrink_to(SPARE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_hears_of_the_others_of_its_conversation_and_not_of_itself() {
        let conversations = Conversations::default();
        let join = |id: &str| conversations.join(&ConversationId::new(id));
        let (mut chat, mut voice, mut other) = (join("c-1"), join("c-1"), join("c-2"));
        assert!(!chat.take_news() && !voice.take_news());
        voice.tell_others();
        voice.tell_others();
        assert!(chat.take_news());
        assert!(!chat.take_news() && !voice.take_news() && !other.take_news());
        // What both do at one time, each hears of from the other.
        chat.tell_others();
        voice.tell_others();
        assert!(chat.take_news() && voice.take_news());
        let mut later = join("c-1");
        assert!(!later.take_news());
    }

    #[test]
    fn a_conversation_without_sessions_is_forgotten() {
        let conversations = Conversations::default();
        let first = conversations.join(&ConversationId::new("c-1"));
        let second = conversations.join(&ConversationId::new("c-1"));
        drop(first);
        assert_eq!(conversations.lock().len(), 1);
        drop(second);
        assert!(conversations.lock().is_empty());
    }
}
