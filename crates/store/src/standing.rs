//! Standing approvals: a user's one approval for all calls with the same values, and its duration. Knows no store and no clock.

use crate::id::QuestionNumber;
use serde::{Deserialize, Serialize};
use windlass_contract::id::{ClientId, EffectId, SessionId, ToolId};
use windlass_contract::sensitive::Sensitive;

/// Bytes of the values that identify a standing approval; longer ones are not remembered. Each conversation is read with its standing
/// approvals.
pub const STANDING_VALUES_BYTES_MAX: usize = 2_048;

/// One standing approval, as it is kept with its conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingApproval {
    /// The approval request that it was given with, and that names it.
    pub question: QuestionNumber,
    pub tool: ToolId,
    pub tool_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_hash: Option<String>,
    /// The values that have to be the same, by the JSON pointers of their arguments: canonical JSON.
    pub values: Sensitive<String>,
    pub scope: StandingScope,
    pub given_at_unix_ms: u64,
    pub expires_at_unix_ms: u64,
}

/// The calls that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandingScope {
    /// The calls of one session by voice.
    Session(SessionId),
    /// The calls of the conversation's text sessions with this client.
    Client(ClientId),
}

/// The contents of an approval that is to be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStanding {
    /// As in [`StandingApproval::values`].
    pub values: Sensitive<String>,
    pub lasts_ms: u64,
    /// The client of the session by text that was given the approval.
    pub client_id: Option<ClientId>,
}

/// The log's news of a standing approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingChange {
    pub question: QuestionNumber,
    pub tool: ToolId,
    pub event: StandingEvent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandingEvent {
    Given,
    /// A call ran by it. With its effect, if it has one.
    Used(Option<EffectId>),
    Ended(StandingEnd),
}

/// The reason why the user is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandingEnd {
    /// The user has revoked it.
    Revoked,
    /// Its time is over.
    Expired,
    /// Its session is over.
    SessionEnded,
    /// The tool has another version, or other code.
    ToolChanged,
    /// A newer one took its place.
    Replaced,
    /// The answer that gave it has begun nothing, because the store was too late.
    Withdrawn,
}

impl StandingEnd {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::SessionEnded => "session_ended",
            Self::ToolChanged => "tool_changed",
            Self::Replaced => "replaced",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl StandingApproval {
    /// The name by which clients know it.
    pub fn id(&self) -> String {
        standing_id(self.question)
    }

    pub fn holds(&self, now_unix_ms: u64) -> bool {
        now_unix_ms < self.expires_at_unix_ms
    }
}

/// The name of the standing approval that was given with a request.
pub fn standing_id(question: QuestionNumber) -> String {
    format!("approval-{}", question.0)
}

/// The approval request behind the name of a standing approval; `None` if it is no such name.
pub fn standing_number(id: &str) -> Option<QuestionNumber> {
    let number = id.strip_prefix("approval-")?;
    let number: u32 = number.parse().ok()?;
    (standing_id(QuestionNumber(number)) == id).then_some(QuestionNumber(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_spelling() {
        for (id, number) in [
            ("approval-1", Some(1)),
            ("approval-4294967295", Some(u32::MAX)),
            ("approval-4294967296", None),
            ("approval-01", None),
            ("approval-+1", None),
            ("approval-", None),
            ("approval-1 ", None),
            ("Approval-1", None),
            ("1", None),
            ("", None),
        ] {
            assert_eq!(standing_number(id), number.map(QuestionNumber), "{id}");
        }
    }
}
