//! What a text session finds in the log of its conversation when it begins: what was said, what it is still to be told, and how
//! far the log was read. Knows no turn and no model's protocol.

use std::collections::{BTreeMap, BTreeSet};
use windlass_driver::Ledger;
use windlass_driver::history::{self, Found};
use windlass_session::client::MessageKey;
use windlass_session::model::HistoryEntry;
use windlass_session::said::{self, Said};
use windlass_session::saved::Began;
use windlass_store::command::OpenQuestion;
use windlass_store::{
    ConversationRef, Entry, EntryEvent, EntryNumber, Question, QuestionNumber, QuestionState,
    StoreUnavailable,
};
use windlass_tool::id::CallNumber;
use windlass_tool::sensitive::Sensitive;

/// Entries of a log that are read: more than a window of any model shows.
pub(super) const ENTRIES_MAX: usize = 2_000;
/// Bytes of what was said that a session begins with. What is older is in a summary, if it is anywhere.
const HISTORY_BYTES_MAX: usize = 256 * 1024;
/// Denied approval requests that a model may still have to hear of: the newest ones.
const DENIED_MAX: usize = 20;

/// The conversation before a session.
#[derive(Debug)]
pub struct Past {
    pub(super) history: Vec<HistoryEntry>,
    /// Where each entry of the history stands in the log.
    pub(super) numbers: Vec<EntryNumber>,
    /// What was said before the history, in few words.
    pub(super) summary: Option<Sensitive<String>>,
    pub(super) last_call: CallNumber,
    pub(super) began: Option<Began>,
    /// Questions that wait for the user, with their tokens.
    pub(super) questions: Vec<OpenQuestion>,
    /// The last entry that was read; `None` of a conversation whose id has just been made.
    pub(super) read_to: Option<EntryNumber>,
}

impl Past {
    /// That of a conversation whose id has just been made.
    pub fn none() -> Self {
        Self {
            read_to: None,
            ..Self::of_answer(CallNumber(0), EntryNumber(0))
        }
    }

    /// That of a session which only gives an answer to a question about this call. `read_to` is the newest entry of the log.
    pub fn of_answer(call: CallNumber, read_to: EntryNumber) -> Self {
        Self {
            history: Vec::new(),
            numbers: Vec::new(),
            summary: None,
            last_call: call,
            began: None,
            questions: Vec::new(),
            read_to: Some(read_to),
        }
    }

    /// Reads the log.
    pub fn read(
        ledger: &dyn Ledger,
        conversation: &ConversationRef,
    ) -> Result<Self, StoreUnavailable> {
        let Found {
            log,
            after,
            mut began,
            asked,
            last_call,
        } = history::find(ledger, conversation, ENTRIES_MAX)?;
        for number in denied(&log) {
            let question = ledger.store().question_of_number(conversation, number)?;
            let is_told = |question: &Question| {
                question.is_heard || ledger.is_live(conversation, &question.leg)
            };
            began
                .unheard_questions
                .extend(question.filter(|question| !is_told(question)));
        }
        let is_empty = began.questions.is_empty()
            && began.unheard.is_empty()
            && began.unheard_questions.is_empty();
        let (summary, said) = said_since_summary(log);
        let history = said::history(&said, None, HISTORY_BYTES_MAX);
        let numbers = said.iter().rev().take(history.len());
        let mut numbers: Vec<EntryNumber> = numbers.map(|entry| entry.number).collect();
        numbers.reverse();
        Ok(Self {
            history,
            numbers,
            summary,
            last_call,
            began: (!is_empty).then_some(began),
            questions: asked,
            read_to: Some(after),
        })
    }

    /// What was said before, for [`windlass_session::session::SessionConfig::history`].
    pub fn history(&self) -> &[HistoryEntry] {
        &self.history
    }

    /// For [`windlass_session::session::SessionConfig::last_call`].
    pub fn last_call(&self) -> CallNumber {
        self.last_call
    }
}

/// The questions that were denied, by the log, the newest of them, oldest first.
fn denied(entries: &[Entry]) -> impl Iterator<Item = QuestionNumber> {
    let mut states = BTreeMap::new();
    for entry in entries {
        if let EntryEvent::Question(change) = &entry.event {
            states.insert(change.number, change.state);
        }
    }
    let denied = states
        .into_iter()
        .filter(|(_, state)| *state == QuestionState::Denied);
    let denied: Vec<QuestionNumber> = denied.map(|(number, _)| number).collect();
    let skipped = denied.len().saturating_sub(DENIED_MAX);
    denied.into_iter().skip(skipped)
}

/// The newest summary, and the entries with words that it does not cover. A message that was sent again is there once.
fn said_since_summary(entries: Vec<Entry>) -> (Option<Sensitive<String>>, Vec<Entry>) {
    let mut summary = None;
    let mut from = 0;
    for entry in &entries {
        if let Some(Said::Summary { text, before }) = Said::of(entry)
            && before >= from
        {
            summary = Some(text);
            from = before;
        }
    }
    let mut messages = BTreeSet::new();
    let mut is_words = |entry: &Entry| match Said::of(entry) {
        Some(Said::Words { message, .. }) => {
            let key = message.map(|key: MessageKey| String::from(key));
            key.is_none_or(|key| messages.insert(key))
        }
        Some(_) | None => false,
    };
    let said = entries
        .into_iter()
        .filter(|entry| entry.number.0 >= from && is_words(entry));
    (summary, said.collect())
}
