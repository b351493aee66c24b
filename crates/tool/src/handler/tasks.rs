//! Tasks as tools see them: calls that nobody waits for, whose ends are told apart. Knows no ledger.

use super::CapabilityFuture;
use crate::id::{ClientId, ConversationId, EffectId, UserId};
use crate::sensitive::Sensitive;
use serde_json::Value;
use std::sync::Arc;

/// The tasks of users.
pub trait Tasks: Send + Sync {
    /// One task; `None` of another user's, or of one that nobody knows.
    fn find(
        &self,
        asker: TaskAsker,
        id: EffectId,
    ) -> CapabilityFuture<Result<Option<TaskFacts>, TasksUnavailable>>;

    /// The user's tasks, the one that began last first, at most `tasks_max`.
    fn list(
        &self,
        asker: TaskAsker,
        wanted: ListedTasks,
    ) -> CapabilityFuture<Result<TaskList, TasksUnavailable>>;

    /// Has a task stopped where it can be; what it is then, and what came of it. `None` as for [`Tasks::find`].
    fn cancel(
        &self,
        asker: TaskAsker,
        id: EffectId,
    ) -> CapabilityFuture<Result<Option<(TaskFacts, TaskCancel)>, TasksUnavailable>>;
}

/// Whose tasks are meant: those of the user of a conversation. Where nobody owns the conversation, those of it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskAsker {
    pub conversation_id: ConversationId,
    pub client_id: ClientId,
    pub user_id: UserId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedTasks {
    /// Leave those out that have ended.
    pub only_running: bool,
    pub tasks_max: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskList {
    pub tasks: Vec<TaskFacts>,
    /// There are more.
    pub has_more: bool,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    Running,
    Done,
    /// It has definitely not happened.
    NotDone,
    /// Nobody knows how it ended.
    Unknown,
}

impl TaskState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::NotDone => "not_done",
            Self::Unknown => "unknown",
        }
    }
}

/// What is known of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFacts {
    /// Its `backgroundTaskId`.
    pub id: EffectId,
    pub tool: String,
    pub state: TaskState,
    /// Its tool changes nothing.
    pub is_read_only: bool,
    pub began_at_unix_ms: u64,
    /// `None` while it runs.
    pub ended_at_unix_ms: Option<u64>,
    pub progress: Option<ToldProgress>,
    /// The user wanted no more of it.
    pub is_cancel_requested: bool,
    /// `data` of one that worked, else `message`; `None` before its end, and where it was too long to keep.
    pub result: Option<Sensitive<Value>>,
    /// The result holds what others wrote.
    pub is_external: bool,
}

/// How far a task is, in its handler's words.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldProgress {
    pub message: Sensitive<String>,
    /// 0 to 1.
    pub fraction: Option<f64>,
    pub at_unix_ms: u64,
}

/// What came of a wish to have a task stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskCancel {
    /// Whoever works on it is told to stop.
    Requested,
    /// A service has it, and cannot be told: nobody waits for it any more.
    GivenUp,
    /// It had ended before.
    Ended,
}

/// The text is for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TasksUnavailable(pub String);

/// Those of a world that keeps none.
pub fn no_tasks() -> Arc<dyn Tasks> {
    Arc::new(NoTasks)
}

struct NoTasks;

fn none<T: Send + 'static>() -> CapabilityFuture<Result<T, TasksUnavailable>> {
    let cause = TasksUnavailable("this program keeps no tasks".to_owned());
    Box::pin(std::future::ready(Err(cause)))
}

impl Tasks for NoTasks {
    fn find(
        &self,
        _: TaskAsker,
        _: EffectId,
    ) -> CapabilityFuture<Result<Option<TaskFacts>, TasksUnavailable>> {
        none()
    }

    fn list(
        &self,
        _: TaskAsker,
        _: ListedTasks,
    ) -> CapabilityFuture<Result<TaskList, TasksUnavailable>> {
        none()
    }

    fn cancel(
        &self,
        _: TaskAsker,
        _: EffectId,
    ) -> CapabilityFuture<Result<Option<(TaskFacts, TaskCancel)>, TasksUnavailable>> {
        none()
    }
}
