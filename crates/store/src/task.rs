//! Tasks: effects of calls that nobody waits for. A task is the row of its effect; what it has beside others is here, and who may have
//! how many of them. Knows no store and no clock.

use crate::command::ToolFacts;
use crate::party::PartyKind;
use serde::{Deserialize, Serialize};
use windlass_tool::id::{ConversationId, EffectId, TenantId, UserId};
use windlass_tool::sensitive::Sensitive;

/// Characters of what a task says of how far it is; of more the beginning is kept.
pub(crate) const PROGRESS_CHARACTERS_MAX: usize = 500;

/// What an effect has beside others where nobody waits for its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its tool changes nothing: where nobody knows how it ended, nothing has happened.
    pub is_read_only: bool,
    /// Its results hold what others wrote.
    #[serde(default)]
    pub is_external: bool,
    /// What it said last of how far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// When its user wanted no more of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at_unix_ms: Option<u64>,
    /// Who is told of ends from outside has taken this one.
    #[serde(default)]
    pub is_sent: bool,
    /// Its user has deleted the conversation while it was at work: nobody is told how it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_deleted: bool,
}

impl Task {
    /// That of an attempt that begins.
    pub(crate) fn of(tool: &ToolFacts) -> Box<Self> {
        Box::new(Self {
            is_read_only: !tool.writes,
            is_external: tool.is_external,
            ..Self::default()
        })
    }
}

/// How far a task is, in its handler's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub message: Sensitive<String>,
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    pub at_unix_ms: u64,
}

/// How many tasks of each may run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskShares {
    pub user_max: usize,
    pub tenant_max: usize,
}

impl Default for TaskShares {
    fn default() -> Self {
        Self {
            user_max: 20,
            tenant_max: 1_000,
        }
    }
}

/// How many tasks run now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningTasks {
    pub of_user: usize,
    pub of_tenant: usize,
}

impl RunningTasks {
    /// Who has as many as may run, and how many that is.
    pub(crate) fn full(&self, shares: &TaskShares) -> Option<(PartyKind, usize)> {
        if self.of_user >= shares.user_max {
            return Some((PartyKind::User, shares.user_max));
        }
        (self.of_tenant >= shares.tenant_max).then_some((PartyKind::Tenant, shares.tenant_max))
    }
}

/// Which tasks are listed, the one that began last first.
#[derive(Clone, Debug)]
pub struct WantedTasks<'a> {
    pub tenant: &'a TenantId,
    /// Whose they are, by the name of its conversations.
    pub user_id: &'a UserId,
    /// And those of every user whose name begins so. It begins with the name of the user.
    pub prefix: Option<&'a str>,
    pub conversation_id: Option<&'a ConversationId>,
    /// Leave those out that have ended.
    pub only_running: bool,
    /// Behind this one, by the time at which it began and its id.
    pub behind: Option<(u64, &'a EffectId)>,
    pub tasks_max: usize,
}

impl WantedTasks<'_> {
    /// Whether a user's tasks are meant.
    pub fn is_users(&self, user_id: &UserId) -> bool {
        let begins = |prefix| user_id.as_str().starts_with(prefix);
        user_id == self.user_id || self.prefix.is_some_and(begins)
    }
}

/// A text as it is kept.
pub(crate) fn beginning(text: &Sensitive<String>) -> Sensitive<String> {
    let text = text.expose();
    let end = text.char_indices().nth(PROGRESS_CHARACTERS_MAX);
    Sensitive(
        end.map_or(text.as_str(), |(end, _)| &text[..end])
            .to_owned(),
    )
}
