//! The log of its conversation for a text session that begins: words and calls, undelivered outcomes, and the last entry that was
//! read. Knows no turn and no model's protocol.

use std::collections::{BTreeMap, BTreeSet};
use windlass_contract::envelope::{Projection, ProjectionBody};
use windlass_contract::id::CallNumber;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::Ledger;
use windlass_driver::history::{self, Found};
use windlass_provider::log::{Arguments, Call, Entry as LogEntry, Image, TextPiece, own_call_id};
use windlass_session::client::MessageKey;
use windlass_session::log_text::{KeptState, Said};
use windlass_session::model::{ModelToolResponse, Role};
use windlass_session::saved::{Began, SpentTurn};
use windlass_store::command::OpenQuestion;
use windlass_store::{
    ConversationRef, Entry, EntryEvent, EntryNumber, Question, QuestionNumber, QuestionState,
    StoreUnavailable,
};

/// Entries of a log that are read: more than a window of any model shows.
pub(super) const ENTRIES_MAX: usize = 2_000;
/// Bytes of words and calls that a session begins with. Older ones are in a summary, if there is one.
const HISTORY_BYTES_MAX: usize = 256 * 1024;
/// Denied approval requests that a model may still have to learn of: the newest ones.
const DENIED_MAX: usize = 20;
/// The number from which ids of earlier turns' calls are made: behind those of any answer of this session.
const EARLIER_ANSWERS: u32 = 30_000_000;

/// The conversation before a session.
#[derive(Debug)]
pub struct Past {
    /// Words and calls, oldest first.
    pub(super) said: Vec<PastEntry>,
    /// A summary of the conversation before that.
    pub(super) summary: Option<Sensitive<String>>,
    pub(super) last_call: CallNumber,
    pub(super) began: Option<Began>,
    /// Open approval requests, with their tokens.
    pub(super) questions: Vec<OpenQuestion>,
    /// The user's last message, if it has no answer.
    pub(super) open_turn: Option<OpenTurn>,
    /// Entries that name the pictures of messages.
    pub(super) shown: Vec<Entry>,
    /// The last entry that was read; `None` for a conversation whose id has just been made.
    pub(super) read_to: Option<EntryNumber>,
}

/// Words or a call, as a model reads them.
#[derive(Debug)]
pub(super) struct PastEntry {
    /// The entry's place in the log.
    pub(super) number: EntryNumber,
    /// The user's message that the entry belongs to.
    message: Option<MessageKey>,
    pub(super) entry: LogEntry,
}

/// A message of the user whose answer was broken off.
#[derive(Debug)]
pub(super) struct OpenTurn {
    pub(super) message: MessageKey,
    /// The calls that were made for it.
    pub(super) spent: SpentTurn,
}

impl Past {
    /// The past of a conversation whose id has just been made.
    pub fn none() -> Self {
        Self {
            said: Vec::new(),
            summary: None,
            last_call: CallNumber(0),
            began: None,
            questions: Vec::new(),
            open_turn: None,
            shown: Vec::new(),
            read_to: None,
        }
    }

    /// The past of a conversation that has just begun under an id that others may know: entries that they write from now on are
    /// read.
    pub fn begun() -> Self {
        Self {
            read_to: Some(EntryNumber(0)),
            ..Self::none()
        }
    }

    /// The past of a session that only answers an approval request about this call. `read_to` is the newest entry of the log.
    pub fn of_answer(call: CallNumber, read_to: EntryNumber) -> Self {
        Self {
            last_call: call,
            read_to: Some(read_to),
            ..Self::none()
        }
    }

    /// Adds the values that handlers keep for the conversation, from its log.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub fn with_state(
        mut self,
        ledger: &dyn Ledger,
        conversation: &ConversationRef,
    ) -> Result<Self, StoreUnavailable> {
        let log = Self::log_of(ledger, conversation)?;
        self.began = KeptState::of_log(&log).map(|state| Began {
            state: Some(state),
            ..Began::default()
        });
        Ok(self)
    }

    /// The newest entries of the log, oldest first, from which text sessions begin.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub fn log_of(
        ledger: &dyn Ledger,
        conversation: &ConversationRef,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        ledger
            .store()
            .entries(conversation, EntryNumber(0), ENTRIES_MAX)
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
            && began.at_work.is_empty()
            && began.unheard_questions.is_empty()
            && began.state.is_none()
            && began.warned_models.is_empty()
            && began.standing.is_empty();
        let shown = log.iter().filter(|entry| names_pictures(entry));
        let shown = shown.cloned().collect();
        let log = said_of(&log);
        began.last_turn = log.iter().map(|(_, said)| turn_of(said)).max().unwrap_or(0);
        let is_empty = is_empty && began.last_turn == 0;
        let (summary, from) = newest_summary(&log);
        Ok(Self {
            said: since(&log, from),
            summary,
            last_call,
            began: (!is_empty).then_some(began),
            questions: asked,
            open_turn: open_turn(&log),
            shown,
            read_to: Some(after),
        })
    }

    /// The last entry of the log when it was read; 0 for a conversation whose id has just been made.
    pub fn read_to(&self) -> EntryNumber {
        self.read_to.unwrap_or_default()
    }

    /// Whether the past has neither words nor calls.
    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Entries of the log that name the pictures of messages. They are returned once.
    pub fn take_shown(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.shown)
    }

    /// Puts pictures, which the log does not keep, before their messages.
    pub fn show(&mut self, mut pictures: Vec<(MessageKey, Vec<Image>)>) {
        if pictures.is_empty() {
            return;
        }
        let mut said = Vec::with_capacity(self.said.len());
        for past in std::mem::take(&mut self.said) {
            let is_of_it = |shown: &(MessageKey, Vec<Image>)| Some(shown.0) == past.message;
            let shown = pictures.iter().position(is_of_it);
            let shown = shown.map(|at| pictures.swap_remove(at).1);
            said.extend(shown.into_iter().flatten().map(|image| PastEntry {
                number: past.number,
                message: None,
                entry: LogEntry::UserImage(image),
            }));
            said.push(past);
        }
        self.said = said;
    }

    /// The highest number of a call in the log.
    pub fn last_call(&self) -> CallNumber {
        self.last_call
    }

    /// Raises the last call's number for calls that are not in the log yet.
    pub fn number_after(&mut self, call: CallNumber) {
        self.last_call = self.last_call.max(call);
    }
}

/// The key prefix of entries that name the pictures of a message.
pub const SHOWN: &str = "shown:";

fn names_pictures(entry: &Entry) -> bool {
    let key = entry.key.as_deref();
    key.is_some_and(|key| key.starts_with(SHOWN))
}

/// The newest denied approval requests in the log, oldest first.
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

fn said_of(entries: &[Entry]) -> Vec<(EntryNumber, Said)> {
    let said = |entry: &Entry| Some((entry.number, Said::of(entry)?));
    entries.iter().filter_map(said).collect()
}

fn turn_of(said: &Said) -> u64 {
    match said {
        Said::Words { turn, .. } | Said::Call { turn, .. } => *turn,
        Said::Notice { .. }
        | Said::Answered { .. }
        | Said::Summary { .. }
        | Said::TicketReply(_)
        | Said::State { .. }
        | Said::ContextWarned { .. } => 0,
    }
}

/// The newest summary, and the first entry that it does not cover.
fn newest_summary(log: &[(EntryNumber, Said)]) -> (Option<Sensitive<String>>, EntryNumber) {
    let mut newest = (None, EntryNumber(0));
    for (_, said) in log {
        if let Said::Summary { text, before } = said
            && *before >= newest.1.0
        {
            newest = (Some(text.clone()), EntryNumber(*before));
        }
    }
    newest
}

/// Words and calls from an entry on, the newest that fit. A repeated message is there once.
fn since(log: &[(EntryNumber, Said)], from: EntryNumber) -> Vec<PastEntry> {
    let mut messages = BTreeSet::new();
    let mut is_first = |said: &Said| match said {
        Said::Words {
            message: Some(key), ..
        } => messages.insert(String::from(*key)),
        _ => true,
    };
    let kept = log
        .iter()
        .filter(|(number, said)| *number >= from && is_first(said));
    let kept: Vec<&(EntryNumber, Said)> = kept.collect();
    let mut room = HISTORY_BYTES_MAX;
    let mut newest_first = Vec::new();
    for (number, said) in kept.into_iter().rev() {
        let Some(entries) = read_again(said) else {
            continue;
        };
        let bytes = match said {
            Said::Words { text, .. } | Said::Notice { text } => text.expose().len(),
            Said::TicketReply(reply) => reply.notice().expose().len(),
            Said::Call {
                arguments, result, ..
            } => {
                let arguments = arguments.as_ref().map_or(0, |one| written(one.expose()));
                arguments + written(result.expose())
            }
            Said::Answered { .. }
            | Said::Summary { .. }
            | Said::State { .. }
            | Said::ContextWarned { .. } => 0,
        };
        let Some(left) = room.checked_sub(bytes) else {
            break;
        };
        room = left;
        let message = match said {
            Said::Words { message, .. } => *message,
            _ => None,
        };
        newest_first.extend(entries.into_iter().rev().map(|entry| PastEntry {
            number: *number,
            message,
            entry,
        }));
    }
    newest_first.reverse();
    newest_first
}

fn written(value: &serde_json::Value) -> usize {
    value.to_string().len()
}

/// The entries for a model in a later turn.
fn read_again(said: &Said) -> Option<Vec<LogEntry>> {
    match said {
        Said::Words {
            role: Role::User,
            text,
            ..
        } => Some(vec![LogEntry::UserText(text.clone())]),
        Said::Words {
            role: Role::Assistant,
            text,
            ..
        } => Some(vec![LogEntry::Text(TextPiece::plain(text.clone()))]),
        Said::Notice { text } => Some(vec![LogEntry::Notice(text.clone())]),
        Said::TicketReply(reply) => Some(vec![LogEntry::Notice(reply.notice())]),
        Said::Call { .. } => call_again(said),
        Said::Answered { .. }
        | Said::Summary { .. }
        | Said::State { .. }
        | Said::ContextWarned { .. } => None,
    }
}

/// A call and its result, under an id that is the same in every turn.
fn call_again(said: &Said) -> Option<Vec<LogEntry>> {
    let Said::Call {
        call,
        tool,
        arguments,
        result,
        error,
        duration_ms,
        is_external,
        ..
    } = said
    else {
        return None;
    };
    let number = u32::try_from(call.0).unwrap_or(u32::MAX) % EARLIER_ANSWERS;
    let id = Some(own_call_id(EARLIER_ANSWERS + number, 0));
    let name: std::sync::Arc<str> = tool.as_str().into();
    let arguments = arguments.as_ref().map(|one| one.expose().to_string());
    let result = result.expose();
    let body = match error {
        Some(error_type) => {
            let facts = error_type.facts();
            ProjectionBody::Failure {
                error_type: *error_type,
                message: result["message"].as_str().unwrap_or_default().to_owned(),
                retryable: facts.retryable.unwrap_or(false),
                suggestion: facts.suggestion.to_owned(),
            }
        }
        None => {
            let data = result.get("data").filter(|data| !data.is_null());
            ProjectionBody::Success {
                data: data.map(|data| data.clone().into()),
                content: Vec::new(),
                cut: None,
                quoted: *is_external,
            }
        }
    };
    let call = LogEntry::Call(Call {
        id: id.clone(),
        name: name.clone(),
        arguments: arguments.as_deref().and_then(Arguments::parse),
        opaque: None,
    });
    let result = LogEntry::Result(ModelToolResponse {
        id,
        name,
        projection: Projection {
            duration_ms: *duration_ms,
            body,
        },
        scheduling: None,
    });
    Some(vec![call, result])
}

/// Whether this entry keeps the whole answer to a message. A message is known by its id and its text, or by the client's key
/// alone.
fn answers(said: &Said, key: &MessageKey) -> bool {
    let Said::Answered { message, body } = said else {
        return false;
    };
    let content = body["content"].as_str().unwrap_or_default();
    let is_of_it =
        MessageKey::of(&format!("{message} {content}")) == *key || MessageKey::of(message) == *key;
    is_of_it && body.get("stream").is_some()
}

/// The user's last message, if it has an id and no answer of it is kept.
fn open_turn(log: &[(EntryNumber, Said)]) -> Option<OpenTurn> {
    let is_users = |said: &Said| {
        matches!(
            said,
            Said::Words {
                role: Role::User,
                ..
            }
        )
    };
    let last = log.iter().rposition(|(_, said)| is_users(said))?;
    let Said::Words {
        message: Some(message),
        ..
    } = &log[last].1
    else {
        return None;
    };
    let is_of_it =
        |said: &Said| matches!(said, Said::Words { message: Some(other), .. } if other == message);
    let begin = log.iter().position(|(_, said)| is_of_it(said))?;
    let since = log[begin..].iter().map(|(_, said)| said);
    let is_answered = since.clone().any(|said| answers(said, message));
    (!is_answered).then(|| OpenTurn {
        message: *message,
        spent: SpentTurn::of(since),
    })
}
