//! Earlier calls of a conversation as tools see them. Knows no log.

use super::CapabilityFuture;
use crate::error::ErrorType;
use crate::id::{ConversationId, UserId};
use crate::sensitive::Sensitive;
use serde_json::Value;

/// The calls that a conversation keeps.
pub trait CallMemory: Send + Sync {
    /// Calls of a conversation of this user, the newest first. Empty for a conversation of another user, and for an unknown one.
    fn calls(
        &self,
        request: CallsRequest,
    ) -> CapabilityFuture<Result<Vec<EarlierCall>, MemoryUnavailable>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallsRequest {
    pub conversation_id: ConversationId,
    /// The user who asks.
    pub user_id: UserId,
    pub wanted: WantedCalls,
}

/// The calls that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedCalls {
    Newest {
        /// The only tool whose calls are wanted.
        tool: Option<String>,
        /// The tool to leave out where `tool` is `None`.
        but: String,
        calls_max: usize,
    },
    /// The one with this id.
    One(String),
}

/// A call with an answer, as the model read it.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierCall {
    /// The call's id within its conversation.
    pub id: String,
    pub tool: String,
    pub turn: u64,
    pub at_unix_ms: u64,
    /// `None` where the tool has sensitive arguments, or they could not be read.
    pub arguments: Option<Sensitive<Value>>,
    /// `data` of a call that worked, else `message`.
    pub result: Sensitive<Value>,
    pub error: Option<ErrorType>,
    pub duration_ms: u64,
    /// Whether the result holds external content.
    pub is_external: bool,
}

/// The text is for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MemoryUnavailable(pub String);

/// The memory where no conversations are kept.
pub(super) struct NoMemory;

impl CallMemory for NoMemory {
    fn calls(
        &self,
        _: CallsRequest,
    ) -> CapabilityFuture<Result<Vec<EarlierCall>, MemoryUnavailable>> {
        let cause = MemoryUnavailable("this program keeps no conversations".to_owned());
        Box::pin(std::future::ready(Err(cause)))
    }
}
