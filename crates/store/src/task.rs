//! Tasks: effects of calls whose end is not waited for. A task is the row of its effect; this file has its further facts, and how many
//! tasks a party may have. Knows no store and no clock.

use crate::command::ToolFacts;
use crate::party::PartyKind;
use serde::{Deserialize, Serialize};
use windlass_contract::id::{ConversationId, EffectId, TenantId, UserId};
use windlass_contract::sensitive::Sensitive;

/// Characters of a task's progress message; the rest is cut.
pub(crate) const PROGRESS_CHARACTERS_MAX: usize = 500;

/// The further facts of an effect whose end is not waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its tool changes nothing: an attempt with an unknown end has done nothing.
    pub is_read_only: bool,
    /// Its results hold external content.
    #[serde(default)]
    pub is_external: bool,
    /// Its latest progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The time when its user wanted it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at_unix_ms: Option<u64>,
    /// The outside recipient of ends has taken this one.
    #[serde(default)]
    pub is_sent: bool,
    /// Its user has deleted the conversation while it was at work: its end is not told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_deleted: bool,
}

impl Task {
    /// The task of an attempt that begins.
    pub(crate) fn of(tool: &ToolFacts) -> Box<Self> {
        Box::new(Self {
            is_read_only: !tool.writes,
            is_external: tool.is_external,
            ..Self::default()
        })
    }
}

/// The progress of a task, in its handler's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub message: Sensitive<String>,
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    pub at_unix_ms: u64,
}

/// The number of tasks of each that may run at a time.
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

/// The number of tasks that run now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningTasks {
    pub of_user: usize,
    pub of_tenant: usize,
}

impl RunningTasks {
    /// The party that has as many tasks as may run, and that limit.
    pub(crate) fn full(&self, shares: &TaskShares) -> Option<(PartyKind, usize)> {
        if self.of_user >= shares.user_max {
            return Some((PartyKind::User, shares.user_max));
        }
        (self.of_tenant >= shares.tenant_max).then_some((PartyKind::Tenant, shares.tenant_max))
    }
}

/// The tasks to list, the one that began last first.
#[derive(Clone, Debug)]
pub struct WantedTasks<'a> {
    pub tenant: &'a TenantId,
    /// The user of the tasks, by the name of their conversations.
    pub user_id: &'a UserId,
    /// And those of every user whose name begins with this. It begins with the name of the user.
    pub prefix: Option<&'a str>,
    pub conversation_id: Option<&'a ConversationId>,
    /// Ended tasks are left out.
    pub only_running: bool,
    /// After this one, by the time at which it began and its id.
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

/// A text cut to the kept length.
pub(crate) fn beginning(text: &Sensitive<String>) -> Sensitive<String> {
    let text = text.expose();
    let end = text.char_indices().nth(PROGRESS_CHARACTERS_MAX);
    Sensitive(
        end.map_or(text.as_str(), |(end, _)| &text[..end])
            .to_owned(),
    )
}
