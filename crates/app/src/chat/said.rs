//! What was said in a conversation, within its bound; the oldest goes first. Knows no turn.

use std::collections::VecDeque;
use windlass_session::model::{HistoryEntry, Role};
use windlass_tool::sensitive::Sensitive;

/// Bytes of what was said that a conversation hands to its next session, and of what waits to be stored.
const SAID_BYTES_MAX: usize = 32 * 1024;
/// Bytes of one entry of it: a long one leaves room for what was said before.
const ENTRY_BYTES_MAX: usize = SAID_BYTES_MAX / 2;

/// What was said, by text and by voice.
#[derive(Default)]
pub(super) struct Said {
    entries: VecDeque<HistoryEntry>,
    bytes: usize,
}

impl Said {
    pub(super) fn all(&self) -> Vec<HistoryEntry> {
        self.entries.iter().cloned().collect()
    }

    /// Whether the last that was said is this of the user's.
    pub(super) fn ends_with(&self, entry: &HistoryEntry) -> bool {
        entry.role == Role::User && self.entries.back() == Some(entry)
    }

    pub(super) fn remember(&mut self, mut entry: HistoryEntry) {
        let text = entry.text.expose();
        if text.len() > ENTRY_BYTES_MAX {
            let end = text.floor_char_boundary(ENTRY_BYTES_MAX);
            entry.text = Sensitive(text[..end].to_owned());
        }
        self.bytes += entry.text.expose().len();
        self.entries.push_back(entry);
        while self.bytes > SAID_BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.text.expose().len();
        }
    }

    pub(super) fn take(&mut self) -> Vec<HistoryEntry> {
        self.bytes = 0;
        std::mem::take(&mut self.entries).into()
    }
}
