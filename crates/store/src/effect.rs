//! Effects: intended changes in the outside world, and the attempts at each. Knows no store and no clock.

use crate::id::{AttemptNumber, EffectKey, EntryNumber, Nonce, OwnerId, QuestionNumber};
use crate::log::EffectState;
use crate::task::Task;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_tool::effect_key::KeySpec;
use windlass_tool::id::{EffectId, SessionId, ToolId};
use windlass_tool::sensitive::Sensitive;

/// One effect, as it is kept. Only a run creates one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub effect_id: EffectId,
    pub key: EffectKey,
    /// The key without regard to case, width and accents.
    pub near: EffectKey,
    /// How the key's arguments were compared, for other versions of the tool.
    pub key_spec: Arc<KeySpec>,
    pub tool: ToolId,
    pub tool_version: String,
    /// JSON with sorted names, numbers and texts as they were written.
    pub arguments: Sensitive<String>,
    pub state: EffectState,
    /// Oldest first; never empty.
    pub attempts: Vec<Attempt>,
    /// The recorded answer as JSON; `None` before there is one, and where it was too long to keep.
    pub receipt: Option<Sensitive<String>>,
    /// Of a nested call: its parent effect and its ordinal.
    pub parent: Option<(EffectId, u32)>,
    /// The leg for which it was last run.
    pub leg: SessionId,
    /// The provider's connection over which it was asked for; one number by text, where nothing is lost with a connection.
    pub generation: u64,
    /// The onset of the user turn in which it was asked for.
    pub onset: Option<EntryNumber>,
    /// The entry at which it was begun first: a later effect of its key has a higher one.
    pub first_entry: EntryNumber,
    /// The entry at which it was last settled or replayed.
    pub last_entry: EntryNumber,
    /// A model has heard how it ended.
    pub is_heard: bool,
    pub lookup: LookupState,
    /// Of a call that nobody waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<Task>>,
    /// The audit has a line of its end.
    pub is_audited: bool,
    /// What the audit is to know of the intention, as JSON.
    pub intent: Sensitive<String>,
    pub begun_at_unix_ms: u64,
    /// Of the last change of its state.
    pub changed_at_unix_ms: u64,
}

/// What its handler has been asked about an unknown effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupState {
    /// Nothing since it became unknown, so often before.
    Due { failed: u32 },
    /// The handler was asked, and has not settled it.
    Tried { failed: u32, next_at_unix_ms: u64 },
    /// The handler found that it has not happened.
    NotHappened,
}

impl LookupState {
    pub const NONE: Self = Self::Due { failed: 0 };

    /// Whether the handler of an unknown effect is to be asked now.
    pub fn is_due(self, now_unix_ms: u64) -> bool {
        match self {
            Self::Due { .. } => true,
            Self::Tried {
                next_at_unix_ms, ..
            } => next_at_unix_ms <= now_unix_ms,
            Self::NotHappened => false,
        }
    }
}

/// One run of a handler, or a try at one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub number: AttemptNumber,
    pub nonce: Nonce,
    pub owner: OwnerId,
    /// Where another attempt is to follow this one, that one begins before.
    pub lease_end_unix_ms: u64,
    /// The approval that it runs with.
    pub question: Option<QuestionNumber>,
    /// Of the tool that runs. `None` of attempts from a time when it was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_version: Option<String>,
    /// The approval that was given before, and that covers it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<QuestionNumber>,
    /// `None` until its end is known.
    pub outcome: Option<AttemptOutcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    Succeeded,
    /// It has definitely not happened, and will not.
    Failed,
    /// It ended, and whether it happened is not known.
    Unknown,
    /// A service has taken it on and tells its end itself, until then at the latest. That is the end of the lease, too, which no
    /// process holds any more.
    Accepted {
        until_unix_ms: u64,
    },
}

impl Attempt {
    /// Whether nobody holds the lease any more: its time is over, or its process is dead.
    pub(crate) fn has_lapsed(&self, now_unix_ms: u64, living: &OwnerId) -> bool {
        let is_held = match self.outcome {
            Some(AttemptOutcome::Accepted { .. }) => true,
            Some(_) | None => self.owner == *living,
        };
        self.lease_end_unix_ms <= now_unix_ms || !is_held
    }
}

impl Effect {
    pub fn newest_attempt(&self) -> &Attempt {
        self.attempts
            .last()
            .expect("an effect is made with its first attempt")
    }

    /// Whether every attempt that may have done something was of the version that ran last. What that one's service knows
    /// nothing of, another one's may have done.
    pub(crate) fn is_of_one_version(&self) -> bool {
        let mut in_doubt = self
            .attempts
            .iter()
            .filter(|attempt| attempt.outcome != Some(AttemptOutcome::Failed));
        in_doubt.all(|attempt| {
            let version = attempt.tool_version.as_ref();
            version.is_none_or(|version| *version == self.tool_version)
        })
    }

    /// Whether a service has taken its newest attempt on.
    pub fn is_accepted(&self) -> bool {
        let outcome = self.newest_attempt().outcome;
        matches!(outcome, Some(AttemptOutcome::Accepted { .. }))
    }

    /// Whether its newest attempt has failed and another one is to follow. Only tasks wait so.
    pub fn is_paused(&self) -> bool {
        self.state == EffectState::Running
            && self.newest_attempt().outcome == Some(AttemptOutcome::Failed)
    }

    /// When the last lease of its attempts ends.
    pub fn lease_end_unix_ms(&self) -> u64 {
        let leases = self
            .attempts
            .iter()
            .map(|attempt| attempt.lease_end_unix_ms);
        leases.max().unwrap_or(0)
    }

    /// What its attempts say of it, once the newest holds no lease any more.
    pub(crate) fn state_of_attempts(&self) -> EffectState {
        let all = |outcome| {
            let mut attempts = self.attempts.iter();
            attempts.all(|attempt| attempt.outcome == Some(outcome))
        };
        let mut attempts = self.attempts.iter();
        if attempts.any(|attempt| attempt.outcome == Some(AttemptOutcome::Succeeded)) {
            EffectState::Done
        } else if all(AttemptOutcome::Failed) {
            EffectState::NotDone
        } else {
            EffectState::Unknown
        }
    }
}
