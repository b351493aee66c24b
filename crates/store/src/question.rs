//! Approval requests, and everything that an approval is bound to. Knows no store and no clock.

use crate::effect::Effect;
use crate::id::{AttemptNumber, EffectKey, EntryNumber, Nonce, QuestionNumber};
use crate::log::{EffectState, QuestionState};
use serde::{Deserialize, Serialize};
use windlass_contract::condition::LocalClock;
use windlass_contract::id::{EffectId, SessionId, ToolId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;

/// One approval request, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub number: QuestionNumber,
    pub key: EffectKey,
    /// The key without regard to case, width and accents.
    pub near: EffectKey,
    pub tool: ToolId,
    pub tool_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_hash: Option<String>,
    /// The arguments that were shown and will run: JSON with sorted names, numbers and texts as they were written.
    pub arguments: Sensitive<String>,
    /// The text that was shown; empty if the tool has no template.
    pub preview: Sensitive<String>,
    /// The hazards that the user was told of before answering.
    #[serde(default, skip_serializing_if = "Hazards::is_empty")]
    pub hazards: Hazards,
    /// Why the tool asks for consent, in words for people, if it does not ask about every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The user's clock in the session that asked, for a tool that is available by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<LocalClock>,
    pub mode: Mode,
    pub user_id: UserId,
    /// The leg that asked, and the call's number, as its client knows it.
    pub leg: SessionId,
    pub call: u64,
    /// The provider's connection of the request, and the onset of the user turn: the effect that an approval begins has both.
    pub generation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onset: Option<EntryNumber>,
    pub nonce: Nonce,
    pub state: QuestionState,
    /// The user's reason for denying it, in the user's words and bounded, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Sensitive<String>>,
    /// The effect that the approval began, or that made the approval request void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_id: Option<EffectId>,
    /// The entry at which it was put, asked for again, approved, denied or closed.
    pub last_entry: EntryNumber,
    /// The model of the asking leg has heard its outcome.
    pub is_heard: bool,
    /// The input that the tool's service wants, if the question is no request for consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<QuestionInput>>,
    pub asked_at_unix_ms: u64,
    pub expires_at_unix_ms: u64,
}

/// The input that a run which has begun wants from the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionInput {
    /// The questions in the form of the tools, as JSON.
    pub asked: Sensitive<String>,
    /// The attempt that goes on by the answer; `None` for a tool without side effects that is waited for.
    pub run: Option<(EffectId, AttemptNumber)>,
}

/// The reasons why an approval request is more than a formality.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hazards {
    /// Effects that have happened, or may have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
    /// A model of the conversation has read external content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external_content: bool,
}

/// An earlier effect that the user is warned of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub effect_id: EffectId,
    pub certainty: Certainty,
    /// The time when it was done, or begun.
    pub at_unix_ms: u64,
    /// JSON with sorted names, numbers and texts as they were written.
    pub arguments: Sensitive<String>,
}

impl Earlier {
    /// The facts about an effect that has begun, and has not failed for certain.
    pub(crate) fn of(effect: &Effect) -> Self {
        Self {
            effect_id: effect.effect_id.clone(),
            certainty: match effect.state {
                EffectState::Done => Certainty::Done,
                EffectState::Running | EffectState::NotDone | EffectState::Unknown => {
                    Certainty::MayHaveHappened
                }
            },
            at_unix_ms: effect.changed_at_unix_ms,
            arguments: effect.arguments.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    Done,
    MayHaveHappened,
}

impl Hazards {
    pub fn names(&self, effect_id: &EffectId) -> bool {
        self.earlier
            .iter()
            .any(|earlier| earlier.effect_id == *effect_id)
    }

    pub fn is_empty(&self) -> bool {
        self.earlier.is_empty() && !self.external_content
    }
}

/// Characters of a reason that are kept: it is a sentence or two, and every model that asks again reads it.
pub const REASON_CHARACTERS_MAX: usize = 1_000;

/// A user's reason for a denial, as it is kept: bounded, without control characters. `None` if nothing readable is left.
pub fn denial_reason(text: &str) -> Option<Sensitive<String>> {
    let is_shown = |character: &char| !character.is_control() || *character == '\n';
    let mut shown = text.trim().chars().filter(is_shown);
    let mut kept: String = shown.by_ref().take(REASON_CHARACTERS_MAX).collect();
    if shown.next().is_some() {
        kept.push('…');
    }
    (!kept.is_empty()).then_some(Sensitive(kept))
}

impl Question {
    /// Whether the approval request waits for its answer.
    pub fn is_open(&self, now_unix_ms: u64) -> bool {
        self.state == QuestionState::Open && now_unix_ms < self.expires_at_unix_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_bounded_and_controls_nothing() {
        let kept = |text: &str| denial_reason(text).map(Sensitive::into_inner);
        assert_eq!(kept("  too dear  ").as_deref(), Some("too dear"));
        assert_eq!(
            kept("one\ntwo\u{7}\u{1b}[2J").as_deref(),
            Some("one\ntwo[2J")
        );
        for nothing in ["", " \n ", "\u{0}\u{1b}"] {
            assert_eq!(kept(nothing), None, "{nothing:?}");
        }
        let whole = "é".repeat(REASON_CHARACTERS_MAX);
        assert_eq!(kept(&whole), Some(whole.clone()));
        let long = kept(&"é".repeat(1_000_000)).unwrap();
        assert_eq!(long, format!("{whole}…"));
    }
}
