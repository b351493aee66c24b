//! Effects: intended changes in the outside world, and the attempts at each. Knows no store and no clock.

use crate::id::{AttemptNumber, EffectKey, EntryNumber, Nonce, OwnerId, QuestionNumber};
use crate::log::EffectState;
use crate::task::Task;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_contract::effect_key::KeySpec;
use windlass_contract::id::{EffectId, SessionId, ToolId};
use windlass_contract::sensitive::Sensitive;

/// One effect, as it is kept. Only a run creates one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub effect_id: EffectId,
    pub key: EffectKey,
    /// The key without regard to case, width and accents.
    pub near: EffectKey,
    /// The way in which the key's arguments were compared, for other versions of the tool.
    pub key_spec: Arc<KeySpec>,
    pub tool: ToolId,
    pub tool_version: String,
    /// JSON with sorted names, numbers and texts as they were written.
    pub arguments: Sensitive<String>,
    pub state: EffectState,
    /// Oldest first; never empty.
    pub attempts: Vec<Attempt>,
    /// The recorded answer as JSON; `None` before there is one, and if it was too long to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Sensitive<String>>,
    /// The parent effect of a nested call, and the call's ordinal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(EffectId, u32)>,
    /// The leg for which it was last run.
    pub leg: SessionId,
    /// The provider's connection of the request; in text mode one number, because nothing is lost with a connection.
    pub generation: u64,
    /// The onset of the user turn in which it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onset: Option<EntryNumber>,
    /// The entry at which it was first begun. A later effect of its key has a higher one.
    pub first_entry: EntryNumber,
    /// The entry at which it was last settled or replayed.
    pub last_entry: EntryNumber,
    /// A model has heard its end.
    pub is_heard: bool,
    pub lookup: LookupState,
    /// The task of a call whose end is not waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<Task>>,
    /// The audit has a line about its end.
    pub is_audited: bool,
    /// The audit's facts about the intention, as JSON.
    pub intent: Sensitive<String>,
    pub begun_at_unix_ms: u64,
    /// The time of the last change of its state.
    pub changed_at_unix_ms: u64,
}

/// The state of the handler's lookup of an unknown effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupState {
    /// The handler was not asked since the effect became unknown, and was asked `failed` times before.
    Due { failed: u32 },
    /// The handler was asked, and its finding did not settle the effect.
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
    /// If another attempt is to follow this one, that one begins before this time.
    pub lease_end_unix_ms: u64,
    /// The approval that it runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionNumber>,
    /// The version of the tool that runs. `None` for attempts from a time when it was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_version: Option<String>,
    /// The earlier standing approval that covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<QuestionNumber>,
    /// `None` until its end is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// A service has taken it on and reports its end itself, by this time at the latest. The lease ends then, too, and no process holds
    /// it any more.
    Accepted {
        until_unix_ms: u64,
    },
    /// The attempt has ended with a question of its service to the user. The answer begins the next attempt, by this time at the latest.
    /// The attempt may have done something before the question: no protocol promises that it has not.
    Asked {
        until_unix_ms: u64,
    },
}

impl Attempt {
    /// Whether no process holds the lease any more: its time is over, or its process is dead.
    pub(crate) fn has_lapsed(&self, now_unix_ms: u64, living: &OwnerId) -> bool {
        let is_held = match self.outcome {
            Some(AttemptOutcome::Accepted { .. } | AttemptOutcome::Asked { .. }) => true,
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

    /// Whether every attempt that may have had an effect was of the version that ran last. The service of another version may have done
    /// something that this version's service does not know.
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

    /// Whether its newest attempt waits for the user's answer.
    pub fn is_asking(&self) -> bool {
        let outcome = self.newest_attempt().outcome;
        matches!(outcome, Some(AttemptOutcome::Asked { .. }))
    }

    /// Whether its newest attempt has failed and another one is to follow. Only tasks wait so.
    pub fn is_paused(&self) -> bool {
        self.state == EffectState::Running
            && self.newest_attempt().outcome == Some(AttemptOutcome::Failed)
    }

    /// The end of the last lease of its attempts.
    pub fn lease_end_unix_ms(&self) -> u64 {
        let leases = self
            .attempts
            .iter()
            .map(|attempt| attempt.lease_end_unix_ms);
        leases.max().unwrap_or(0)
    }

    /// The state by its attempts, once the newest holds no lease any more.
    pub(crate) fn state_of_attempts(&self) -> EffectState {
        // An attempt with a question goes on in the next attempt, whose outcome holds for both.
        let newest = self.newest_attempt().number;
        let has_gone_on = |attempt: &Attempt| {
            attempt.number < newest && matches!(attempt.outcome, Some(AttemptOutcome::Asked { .. }))
        };
        let all = |outcome| {
            let mut attempts = self.attempts.iter().filter(|attempt| !has_gone_on(attempt));
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
