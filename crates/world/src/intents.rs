//! The real wishes of this world's users, beside the calls that their models make of them. No session, store or handler ever sees an
//! intent: only the judge does.

use crate::spelling::{Spelled, Spellings};
use crate::tools;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One thing that a user wants done once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IntentId(pub(crate) usize);

#[derive(Clone, Debug)]
pub(crate) struct UserIntent {
    pub(crate) conversation: usize,
    pub(crate) tool: Arc<str>,
    /// The meaning: the text that every call of it has, or its form before spelling.
    pub(crate) text: String,
    pub(crate) spelled: Option<Spelled>,
    /// The number of wordings in which it was said, if each is another effect.
    pub(crate) wordings: u32,
    /// A model of the conversation was told its outcome, or may have been.
    pub(crate) is_answered: bool,
}

#[derive(Default)]
pub(crate) struct Intents {
    intents: Vec<UserIntent>,
    pub(crate) spellings: Spellings,
    /// By the free text of a call, which no other call has.
    of_words: BTreeMap<String, IntentId>,
    /// By conversation, tool and arguments: the number of such calls, each provider message counted once.
    asked: BTreeMap<(usize, String, String), u32>,
}

impl Intents {
    pub(crate) fn begin(&mut self, intent: UserIntent) -> IntentId {
        self.intents.push(intent);
        IntentId(self.intents.len() - 1)
    }

    pub(crate) fn get(&self, id: IntentId) -> &UserIntent {
        &self.intents[id.0]
    }

    /// The newest intent of a conversation that one of its models may have heard of.
    pub(crate) fn latest_of(&self, conversation: usize, back: usize) -> Option<IntentId> {
        let ids = (0..self.intents.len()).rev();
        let mut of_conversation = ids.filter(|id| self.intents[*id].conversation == conversation);
        of_conversation.nth(back).map(IntentId)
    }

    pub(crate) fn answered(&mut self, id: IntentId) {
        self.intents[id.0].is_answered = true;
    }

    /// The same for an answer that names no call.
    pub(crate) fn answered_of_tool(&mut self, conversation: usize, is_tool: impl Fn(&str) -> bool) {
        for intent in &mut self.intents {
            intent.is_answered |= intent.conversation == conversation && is_tool(&intent.tool);
        }
    }

    /// These words occur in one call alone.
    pub(crate) fn words(&mut self, words: String, id: IntentId) {
        if &*self.intents[id.0].tool == tools::MEMO {
            self.intents[id.0].wordings += 1;
        }
        self.of_words.insert(words, id);
    }

    /// The intent that a call with this free text carries out.
    pub(crate) fn of_words(&self, words: &str) -> Option<IntentId> {
        self.of_words.get(words).copied()
    }

    /// The meaning of a tool's arguments, which are JSON; `None` for arguments that no model has written.
    pub(crate) fn meaning_of(&self, tool: &str, arguments: &str) -> Option<String> {
        let arguments: Value = serde_json::from_str(arguments).ok()?;
        match tool {
            tools::MEET | tools::WIRE => self.spellings.meaning_of(&arguments),
            _ => {
                let text = arguments.get("text").and_then(Value::as_str);
                Some(text.unwrap_or_default().to_owned())
            }
        }
    }

    /// A model asks for a call, in a message that is no repeat.
    pub(crate) fn note_asked(&mut self, conversation: usize, tool: &str, text: &str) {
        let place = (conversation, tool.to_owned(), text.to_owned());
        *self.asked.entry(place).or_default() += 1;
    }

    /// The number of calls of the conversation that have asked for this.
    pub(crate) fn asked(&self, conversation: usize, tool: &str, text: &str) -> u32 {
        let place = (conversation, tool.to_owned(), text.to_owned());
        self.asked.get(&place).copied().unwrap_or(0)
    }
}
