//! The session itself: one input in, outputs out, and which deadline comes next.

use crate::io::{Input, Output};
use crate::limits::Limits;
use crate::model::{HistoryEntry, ModelProfile};
use crate::time::Timestamp;
use std::sync::Arc;
use windlass_tool::id::{ConversationId, SessionId, UserId};
use windlass_tool::kind::Mode;
use windlass_tool::registry::Registry;

/// What a session is created with and keeps for its whole life.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    pub session_id: SessionId,
    pub user_id: UserId,
    pub conversation_id: ConversationId,
    pub mode: Mode,
    /// Pinned: a reload serves new sessions only.
    pub registry: Arc<Registry>,
    pub limits: Arc<Limits>,
    pub profile: Arc<ModelProfile>,
    /// Milliseconds since the Unix epoch at timestamp zero.
    pub started_unix_ms: u64,
    /// What was said before, in this conversation or in the client's own account of it.
    pub history: Vec<HistoryEntry>,
    /// What the user wants answered at once.
    pub pending_request: Option<String>,
}

/// One session of one user.
pub struct Session {
    config: SessionConfig,
}

impl Session {
    /// Begins the session. Its first outputs go into `out`.
    pub fn new(config: SessionConfig, _out: &mut Vec<Output>) -> Self {
        Self { config }
    }

    /// Takes one input. All outputs that it causes are appended to `out`, in the order in which they are to be obeyed.
    pub fn handle(&mut self, _now: Timestamp, _input: Input, _out: &mut Vec<Output>) {}

    /// When the next [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Whether [`Output::Close`] has been given.
    pub fn is_over(&self) -> bool {
        false
    }

    pub fn config(&self) -> &SessionConfig {
        &self.config
    }
}
