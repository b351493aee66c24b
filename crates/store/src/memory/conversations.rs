//! Conversations in a map.

use super::{Tables, Talk};
use crate::{
    Appended, Conversation, Conversations, Entry, NewEntry, Opened, StoreUnavailable,
    TIME_MAX_UNIX_MS,
};
use std::collections::VecDeque;
use windlass_tool::id::{ConversationId, UserId};

impl Tables {
    fn talk(&self, conversation_id: &ConversationId, now_unix_ms: u64) -> Option<&Talk> {
        self.conversations
            .get(conversation_id)
            .filter(|talk| !talk.is_idle(now_unix_ms, &self.limits))
    }
}

impl Conversations for Tables {
    fn open_conversation(
        &mut self,
        conversation_id: &ConversationId,
        user_id: &UserId,
        now_unix_ms: u64,
    ) -> Result<Opened, StoreUnavailable> {
        let now_unix_ms = now_unix_ms.min(TIME_MAX_UNIX_MS);
        let known = self
            .talk(conversation_id, now_unix_ms)
            .map(|talk| talk.conversation.clone());
        match known {
            Some(known) if known.user_id != *user_id => return Ok(Opened::Foreign),
            Some(known) => {
                if let Some(talk) = self.conversations.get_mut(conversation_id) {
                    talk.conversation.use_at(now_unix_ms);
                }
                return Ok(Opened::Continued(known));
            }
            None => {}
        }
        let talk = Talk {
            conversation: Conversation {
                conversation_id: conversation_id.clone(),
                user_id: user_id.clone(),
                begun_at_unix_ms: now_unix_ms,
                used_at_unix_ms: now_unix_ms,
            },
            entries: VecDeque::new(),
            next_sequence: 1,
        };
        self.conversations.insert(conversation_id.clone(), talk);
        Ok(Opened::Begun)
    }

    fn conversation(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<Option<Conversation>, StoreUnavailable> {
        let talk = self.talk(conversation_id, now_unix_ms);
        Ok(talk.map(|talk| talk.conversation.clone()))
    }

    fn append(
        &mut self,
        conversation_id: &ConversationId,
        entries: &[NewEntry],
        now_unix_ms: u64,
    ) -> Result<Appended, StoreUnavailable> {
        let limits = self.limits;
        if entries.iter().any(|entry| entry.is_too_long(&limits)) {
            return Ok(Appended::TooLong);
        }
        let Some(talk) = self.conversations.get_mut(conversation_id) else {
            return Ok(Appended::Missing);
        };
        let mut sequences = Vec::with_capacity(entries.len());
        for entry in entries {
            let known = entry.key.as_ref().and_then(|key| {
                let mut known = talk.entries.iter();
                known.find(|known| known.key.as_ref() == Some(key))
            });
            if let Some(known) = known {
                sequences.push(known.sequence);
                continue;
            }
            talk.entries.push_back(Entry {
                sequence: talk.next_sequence,
                key: entry.key.clone(),
                body: entry.body.clone(),
            });
            sequences.push(talk.next_sequence);
            talk.next_sequence += 1;
        }
        while talk.entries.len() > limits.entries_max {
            talk.entries.pop_front();
        }
        talk.conversation.use_at(now_unix_ms.min(TIME_MAX_UNIX_MS));
        Ok(Appended::Stored(sequences))
    }

    fn entries(
        &mut self,
        conversation_id: &ConversationId,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        let Some(talk) = self.conversations.get(conversation_id) else {
            return Ok(Vec::new());
        };
        let skipped = talk.entries.len().saturating_sub(entries_max);
        Ok(talk.entries.iter().skip(skipped).cloned().collect())
    }

    fn entry(
        &mut self,
        conversation_id: &ConversationId,
        key: &str,
    ) -> Result<Option<Entry>, StoreUnavailable> {
        let talk = self.conversations.get(conversation_id);
        Ok(talk.and_then(|talk| {
            let mut entries = talk.entries.iter();
            entries
                .find(|entry| entry.key.as_deref() == Some(key))
                .cloned()
        }))
    }
}
