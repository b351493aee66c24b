//! Earlier calls of a conversation as tools see them. Knows no log.

use super::CapabilityFuture;
use crate::error::ErrorType;
use crate::id::{ConversationId, UserId};
use crate::sensitive::Sensitive;
use serde_json::Value;

/// What a conversation keeps of its calls.
pub trait CallMemory: Send + Sync {
    /// Calls of a conversation of this user, the newest first. None of a conversation that is another's, or is not known.
    fn calls(
        &self,
        request: CallsRequest,
    ) -> CapabilityFuture<Result<Vec<EarlierCall>, MemoryUnavailable>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallsRequest {
    pub conversation_id: ConversationId,
    /// Who asks.
    pub user_id: UserId,
    pub wanted: WantedCalls,
}

/// Which calls are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedCalls {
    Newest {
        /// Of this tool alone.
        tool: Option<String>,
        /// Of every tool but this one, where none is named.
        but: String,
        calls_max: usize,
    },
    /// The one with this id.
    One(String),
}

/// A call that has its answer, as the model read it.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierCall {
    /// By which it is named within its conversation.
    pub id: String,
    pub tool: String,
    pub turn: u64,
    pub at_unix_ms: u64,
    /// `None` where the tool has sensitive ones, or nobody could read them.
    pub arguments: Option<Sensitive<Value>>,
    /// `data` of a call that worked, else `message`.
    pub result: Sensitive<Value>,
    pub error: Option<ErrorType>,
    pub duration_ms: u64,
    /// It holds what others wrote.
    pub is_external: bool,
}

/// The text is for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MemoryUnavailable(pub String);

/// The memory of a world that keeps no conversations.
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
