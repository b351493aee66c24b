//! Conversations, their legs and their deliveries, as they are kept. Knows no store and no clock.

use crate::id::{EffectKey, EntryNumber, Epoch, OwnerId, QuestionNumber};
use crate::party::Parties;
use crate::standing::StandingApproval;
use crate::{Hash, hexadecimal};
use serde::{Deserialize, Serialize};
use windlass_contract::id::{ClientId, ConversationId, EffectId, SessionId, TenantId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    pub tenant: TenantId,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    /// The parties that began it, as they are counted.
    #[serde(default)]
    pub parties: Parties,
    /// A model of it has read external content.
    pub has_external_content: bool,
    /// The number of its newest entry: its version.
    pub last_entry: EntryNumber,
    /// The oldest entry that is still kept.
    pub first_entry: EntryNumber,
    pub last_question: QuestionNumber,
    pub begun_at_unix_ms: u64,
    /// The latest time at which it changed; its time never runs backwards.
    pub used_at_unix_ms: u64,
    #[serde(default)]
    pub heading: Heading,
    /// Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<StandingApproval>,
}

/// A conversation's heading in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// The beginning of the user's first message, or the name given by the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Sensitive<String>>,
    /// The number of messages of user and model. A conversation without one is not shown.
    pub messages: u64,
}

/// One voice or text session of a conversation, until it is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    pub leg: SessionId,
    pub mode: Mode,
    pub epoch: Epoch,
    pub owner: OwnerId,
    pub client_id: ClientId,
    /// SHA-256 of the token with which its client resumes it.
    #[serde(with = "hexadecimal")]
    pub resume_token: Hash,
    /// The state that a process needs to go on with it: the provider's handle, and the core's own state. Written by the session.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub body: Sensitive<Vec<u8>>,
    /// The highest of its own numbers in the log.
    pub last_number: u64,
    /// The log has its beginning: that is so from its first entry on.
    pub is_announced: bool,
    pub expires_at_unix_ms: u64,
}

fn is_empty(body: &Sensitive<Vec<u8>>) -> bool {
    body.expose().is_empty()
}

/// The party that shows a resume token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    pub resume_token: Hash,
    pub client_id: ClientId,
    pub user_id: UserId,
}

impl Leg {
    /// Whether this client, with this user signed in, may take the leg over. Every way in uses this one check.
    pub fn admits(&self, user_id: &UserId, presented: &Presented, now_unix_ms: u64) -> bool {
        now_unix_ms < self.expires_at_unix_ms
            && self.resume_token == presented.resume_token
            && self.client_id == presented.client_id
            && *user_id == presented.user_id
    }
}

/// The request of one provider message, so that the same message is recognised when it comes again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub leg: SessionId,
    /// The provider's id, or a hash of the request.
    pub id: String,
    pub generation: u64,
    pub key: EffectKey,
    /// SHA-256 of tool and canonical arguments.
    #[serde(with = "hexadecimal")]
    pub arguments: Hash,
    pub became: Became,
}

/// The result of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    Effect(EffectId),
    Question(QuestionNumber),
}
