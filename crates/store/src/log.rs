//! The log of a conversation: the one form in which words and effects are kept. It knows only the words in a session's entry, for titles
//! and for searches.

use crate::id::{AttemptNumber, EntryNumber, LegNumber, QuestionNumber};
use crate::standing::StandingChange;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use windlass_contract::id::{EffectId, SessionId, ToolId};
use windlass_contract::intent::Intent;
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub number: EntryNumber,
    pub at_unix_ms: u64,
    /// The leg that wrote it, or whose command caused it.
    pub leg: Option<SessionId>,
    /// The leg's own number, for an entry that it wrote itself.
    pub leg_number: Option<LegNumber>,
    /// The key by which a client knows it when it comes again.
    pub key: Option<String>,
    pub event: EntryEvent,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryEvent {
    /// A user turn begins.
    Onset,
    /// Words, calls and answers, in the JSON form of the session that wrote them.
    Said(Sensitive<String>),
    /// An effect began, or its known outcome has changed.
    Effect(EffectChange),
    /// An approval request was put, or answered.
    Question(QuestionChange),
    /// A standing approval was given, used or ended.
    Standing(StandingChange),
    /// A model was told an effect's outcome again.
    Replayed(EffectId),
    /// The user wants a running task stopped.
    CancelRequested(EffectId),
    /// An approved run has intents for the session that asked.
    Asked(LegRequest),
    Attached(Mode),
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectChange {
    pub effect_id: EffectId,
    pub tool: ToolId,
    pub attempt: AttemptNumber,
    pub state: EffectState,
    /// The approval request with whose approval this attempt runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionNumber>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionChange {
    pub number: QuestionNumber,
    pub tool: ToolId,
    pub state: QuestionState,
    /// The effect that the approval began, or that made the approval request void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_id: Option<EffectId>,
}

/// Intents of an approved run, for the leg that asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LegRequest {
    pub leg: SessionId,
    pub question: QuestionNumber,
    pub intents: Vec<Intent>,
    /// The leg was gone: the intents are not carried out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rejected: bool,
}

/// The state of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// An attempt holds its lease.
    Running,
    Done,
    /// It has definitely not happened.
    NotDone,
    /// It was started, and its end is not known.
    Unknown,
}

/// The state of an approval request. An overdue one is still open here; [`crate::Question::is_open`] takes its time into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionState {
    Open,
    Approved,
    Denied,
    /// Another approval request took its place, its effect was done without it, or it is not wanted any more.
    Closed,
}

/// Characters of the title that a conversation has from its first message.
const TITLE_CHARACTERS_MAX: usize = 80;
/// The opening of words, in the form of the sessions.
const WORDS: &str = "{\"kind\":\"words\",";

/// One utterance of the user or the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidWords<'a> {
    pub is_users: bool,
    pub text: Cow<'a, str>,
}

impl<'a> SaidWords<'a> {
    /// The words of a session's entry; `None` for any other entry.
    pub fn of(said: &'a str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Form<'a> {
            #[serde(borrow)]
            role: Cow<'a, str>,
            #[serde(borrow)]
            text: Cow<'a, str>,
        }
        // Most entries of a log are calls and answers, which are long to parse.
        if !said.starts_with(WORDS) {
            return None;
        }
        let form: Form<'a> = serde_json::from_str(said).ok()?;
        Some(Self {
            is_users: form.role == "user",
            text: form.text,
        })
    }

    /// The title of a conversation that begins with these words; `None` if they are blank.
    pub(crate) fn title(&self) -> Option<String> {
        let words: Vec<&str> = self
            .text
            .split_whitespace()
            .take(TITLE_CHARACTERS_MAX)
            .collect();
        let text = words.join(" ");
        if text.is_empty() {
            return None;
        }
        let Some((end, _)) = text.char_indices().nth(TITLE_CHARACTERS_MAX) else {
            return Some(text);
        };
        // A word is not cut, unless it is longer than half a title.
        let cut = &text[..end];
        let whole = cut.rfind(' ').filter(|at| *at >= end / 2);
        Some(format!("{}…", &cut[..whole.unwrap_or(end)]))
    }
}

/// An entry that a leg writes.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// The leg's own number. An entry whose number the log has already is left out. `None` if the entry is known by its key alone.
    pub leg_number: Option<LegNumber>,
    /// An entry whose key the conversation has already is left out.
    pub key: Option<String>,
    pub event: EntryEvent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_beginning_of_the_first_message_in_whole_words() {
        let long = "word ".repeat(40);
        let endless = "ä".repeat(200);
        for (text, title) in [
            ("Order tea.", Some("Order tea.".to_owned())),
            (
                "  Order\n\ttea,\u{a0}please ",
                Some("Order tea, please".to_owned()),
            ),
            (" \n ", None),
            ("", None),
            (&long, Some(format!("{}…", "word ".repeat(15) + "word"))),
            (&endless, Some(format!("{}…", "ä".repeat(80)))),
        ] {
            let words = SaidWords {
                is_users: true,
                text: text.into(),
            };
            assert_eq!(words.title(), title, "{text}");
        }
    }

    #[test]
    fn what_is_no_words_has_none() {
        for said in [
            "",
            "{}",
            "words",
            r#"{"kind":"call","role":"user","text":"Hello."}"#,
            r#"{"kind":"words","role":"user"}"#,
            r#"{"kind":"words","role":1,"text":"Hello."}"#,
            r#"{"kind":"words","role":"user","text":"Hello.""#,
        ] {
            assert_eq!(SaidWords::of(said), None, "{said}");
        }
        let escaped = r#"{"kind":"words","role":"assistant","text":"a\"b","turn":1}"#;
        let words = SaidWords::of(escaped).unwrap();
        assert_eq!((words.is_users, words.text.as_ref()), (false, "a\"b"));
    }
}
