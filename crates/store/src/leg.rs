//! Conversations, their legs and their deliveries, as they are kept. Knows no store and no clock.

use crate::Hash;
use crate::id::{EffectKey, EntryNumber, Epoch, OwnerId, QuestionNumber};
use serde::{Deserialize, Serialize};
use windlass_tool::id::{ClientId, ConversationId, EffectId, SessionId, TenantId, UserId};
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    pub tenant: TenantId,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    /// A model of it has read external content.
    pub has_external_content: bool,
    /// The number of its newest entry: its version.
    pub last_entry: EntryNumber,
    /// The oldest entry that is still kept.
    pub first_entry: EntryNumber,
    pub last_question: QuestionNumber,
    pub begun_at_unix_ms: u64,
    /// The latest time at which something of it changed; its time never runs backwards.
    pub used_at_unix_ms: u64,
}

/// One voice or text session of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    pub leg: SessionId,
    pub mode: Mode,
    pub epoch: Epoch,
    pub owner: OwnerId,
    pub state: LegState,
    pub client_id: ClientId,
    /// SHA-256 of the token with which its client resumes it.
    pub resume_token: Hash,
    /// What a process needs to go on with it: the provider's handle, and the core's own state. Written by the session.
    pub body: Sensitive<Vec<u8>>,
    /// The highest of its own numbers that the log has.
    pub last_number: u64,
    pub expires_at_unix_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LegState {
    Live,
    Gone,
}

/// Who shows a resume token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    pub resume_token: Hash,
    pub client_id: ClientId,
    pub user_id: UserId,
}

impl Leg {
    /// Whether this client, which this user has signed in on, may take the leg over. The one check on every way in.
    pub fn admits(&self, user_id: &UserId, presented: &Presented, now_unix_ms: u64) -> bool {
        self.state == LegState::Live
            && now_unix_ms < self.expires_at_unix_ms
            && self.resume_token == presented.resume_token
            && self.client_id == presented.client_id
            && *user_id == presented.user_id
    }
}

/// What one provider message asked for, so that the same message is recognised when it comes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub leg: SessionId,
    /// The provider's id, or a hash of what was asked.
    pub id: String,
    pub generation: u64,
    pub key: EffectKey,
    /// SHA-256 of tool and canonical arguments.
    pub arguments: Hash,
    pub became: Became,
}

/// What a delivery came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    Effect(EffectId),
    Question(QuestionNumber),
}
