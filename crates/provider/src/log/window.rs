//! The part of a conversation that goes to a model. Cuts between turns only, so that related messages stay together.

use super::{Message, steps};
use crate::log::{Sees, Step};

/// The newest turns of a log.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    older: &'a [Message],
    messages: &'a [Message],
    summary: Option<&'a str>,
    request: Option<&'a str>,
}

impl<'a> Window<'a> {
    pub(super) fn newest(messages: &'a [Message], tokens_max: u64) -> Self {
        let mut start = messages.len();
        let mut tokens = 0;
        let mut sum = 0_u64;
        let mut has_turn = false;
        for (at, message) in messages.iter().enumerate().rev() {
            sum += message.tokens();
            if !message.begins_turn() && at > 0 {
                continue;
            }
            if has_turn && tokens + sum > tokens_max {
                break;
            }
            // Messages before the first turn go with that turn or not at all.
            start = at;
            tokens += sum;
            sum = 0;
            has_turn = true;
        }
        let (older, messages) = messages.split_at(start);
        Self {
            older,
            messages,
            summary: None,
            request: None,
        }
    }

    /// The newest turns of this window that fit into `tokens_max` tokens; the newest turn in any case.
    #[must_use]
    pub fn newest_of(self, tokens_max: u64) -> Self {
        Self {
            summary: self.summary,
            request: self.request,
            ..Self::newest(self.messages, tokens_max)
        }
    }

    /// Adds a request to the model at the end, which is no part of the conversation.
    #[must_use]
    pub fn with_request(self, request: &'a str) -> Self {
        Self {
            request: Some(request),
            ..self
        }
    }

    /// Puts a summary of the left-out turns before the window.
    #[must_use]
    pub fn with_summary(self, summary: &'a str) -> Self {
        Self {
            summary: Some(summary).filter(|summary| !summary.trim().is_empty()),
            ..self
        }
    }

    /// The turns that the window leaves out, so that they can be summarised.
    #[must_use]
    pub fn older(&self) -> Self {
        Self {
            older: &[],
            messages: self.older,
            summary: None,
            request: None,
        }
    }

    /// The number of turns that the window leaves out.
    pub(super) fn turns_left_out(&self) -> usize {
        let older = self.older.iter();
        older.filter(|message| message.begins_turn()).count()
    }

    /// The turns that the window leaves out, without the first `turns` of them.
    pub(super) fn older_but(&self, turns: usize) -> Self {
        let mut older = self.older();
        let begins = |(at, message): (usize, &Message)| message.begins_turn().then_some(at);
        let start = self.older.iter().enumerate().filter_map(begins).nth(turns);
        // Messages before the first turn go with it.
        let start = if turns == 0 { Some(0) } else { start };
        older.messages = &self.older[start.unwrap_or(self.older.len())..];
        older
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The size of the window in tokens, at four characters each.
    pub fn tokens(&self) -> u64 {
        let summary = self.summary.map_or(0, |summary| {
            u64::try_from(summary.chars().count().div_ceil(4)).unwrap_or(u64::MAX)
        });
        summary + self.messages.iter().map(Message::tokens).sum::<u64>()
    }

    /// The conversation in the form that any provider takes: see [`steps::of`].
    pub(crate) fn steps(&self, sees: Sees) -> Vec<Step<'a>> {
        steps::of(self.messages, self.summary, self.request, sees)
    }
}

impl Message {
    fn tokens(&self) -> u64 {
        u64::try_from(self.size.characters.div_ceil(4)).unwrap_or(u64::MAX)
    }
}
