//! Tickets by which a conversation is handed over to a person, as tools see them. Knows neither their store nor their receivers. (The
//! tickets with which callers sign in are something else.)

use super::CapabilityFuture;
use crate::id::{ConversationId, UserId};
use crate::sensitive::Sensitive;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The tickets that this program keeps.
pub trait Handovers: Send + Sync {
    /// Opens a ticket, unless it was opened before. The ticket is durable when the answer comes.
    fn open(&self, request: NewHandover) -> CapabilityFuture<Result<Handover, HandoverError>>;

    /// The ticket with this id, if it was opened.
    fn find(&self, id: String) -> CapabilityFuture<Result<Option<Handover>, HandoverError>>;
}

/// How soon a person is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    Low,
    #[default]
    Normal,
    High,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHandover {
    /// The id of the ticket, in letters and digits: equal for all attempts at it, and different for every other ticket.
    pub id: String,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    pub reason: Sensitive<String>,
    pub summary: Sensitive<String>,
    pub urgency: Urgency,
    /// How the user can be reached, as they said it.
    pub contact: Option<Sensitive<String>>,
}

/// A ticket that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    pub id: String,
    pub urgency: Urgency,
    pub opened_at_unix_ms: u64,
}

/// The reason why no ticket was opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// The limit of open tickets is reached for this conversation or this user.
    #[error("{0}")]
    TooMany(String),
    /// The text is for operators.
    #[error("{0}")]
    Unavailable(String),
}

/// The tickets where none are kept: each request is refused.
pub fn no_handovers() -> Arc<dyn Handovers> {
    Arc::new(NoHandovers)
}

struct NoHandovers;

impl NoHandovers {
    fn answer<T: Send + 'static>() -> CapabilityFuture<Result<T, HandoverError>> {
        let cause = HandoverError::Unavailable("only a server keeps tickets".to_owned());
        Box::pin(std::future::ready(Err(cause)))
    }
}

impl Handovers for NoHandovers {
    fn open(&self, _: NewHandover) -> CapabilityFuture<Result<Handover, HandoverError>> {
        Self::answer()
    }

    fn find(&self, _: String) -> CapabilityFuture<Result<Option<Handover>, HandoverError>> {
        Self::answer()
    }
}
