//! The part of a conversation that goes to a model. Cuts between turns only, so that nothing is torn from what it belongs
//! to.

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
            // What stands before the first turn goes with it or not at all.
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

    /// The newest turns of this window that fit into so many tokens; the newest in any case.
    #[must_use]
    pub fn newest_of(self, tokens_max: u64) -> Self {
        Self {
            summary: self.summary,
            request: self.request,
            ..Self::newest(self.messages, tokens_max)
        }
    }

    /// Has the model asked for something at the end that is none of the conversation.
    #[must_use]
    pub fn with_request(self, request: &'a str) -> Self {
        Self {
            request: Some(request),
            ..self
        }
    }

    /// Puts a summary of what the window leaves out before it.
    #[must_use]
    pub fn with_summary(self, summary: &'a str) -> Self {
        Self {
            summary: Some(summary).filter(|summary| !summary.trim().is_empty()),
            ..self
        }
    }

    /// What the window leaves out, so that it can be summarised.
    #[must_use]
    pub fn older(&self) -> Self {
        Self {
            older: &[],
            messages: self.older,
            summary: None,
            request: None,
        }
    }

    /// How many turns it leaves out.
    pub(super) fn turns_left_out(&self) -> usize {
        let older = self.older.iter();
        older.filter(|message| message.begins_turn()).count()
    }

    /// What it leaves out, but for so many turns at the front.
    pub(super) fn older_but(&self, turns: usize) -> Self {
        let mut older = self.older();
        let begins = |(at, message): (usize, &Message)| message.begins_turn().then_some(at);
        let start = self.older.iter().enumerate().filter_map(begins).nth(turns);
        // What stands before the first turn goes with it.
        let start = if turns == 0 { Some(0) } else { start };
        older.messages = &self.older[start.unwrap_or(self.older.len())..];
        older
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// What the window takes, at four characters a token.
    pub fn tokens(&self) -> u64 {
        let summary = self.summary.map_or(0, |summary| {
            u64::try_from(summary.chars().count().div_ceil(4)).unwrap_or(u64::MAX)
        });
        summary + self.messages.iter().map(Message::tokens).sum::<u64>()
    }

    /// The conversation as any provider takes it: see [`steps::of`].
    pub(crate) fn steps(&self, sees: Sees) -> Vec<Step<'a>> {
        steps::of(self.messages, self.summary, self.request, sees)
    }
}

impl Message {
    fn tokens(&self) -> u64 {
        u64::try_from(self.size.characters.div_ceil(4)).unwrap_or(u64::MAX)
    }
}
