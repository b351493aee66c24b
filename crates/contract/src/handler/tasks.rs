//! Tasks as tools see them: calls in the background, whose ends are reported separately. Knows no ledger.

use super::CapabilityFuture;
use crate::id::{ClientId, ConversationId, EffectId, UserId};
use crate::sensitive::Sensitive;
use serde_json::Value;
use std::sync::Arc;

/// The tasks of users.
pub trait Tasks: Send + Sync {
    /// One task; `None` for a task of another user, and for an unknown one.
    fn find(
        &self,
        asker: TaskAsker,
        id: EffectId,
    ) -> CapabilityFuture<Result<Option<TaskFacts>, TasksUnavailable>>;

    /// The user's tasks, the latest begun first, at most `tasks_max`.
    fn list(
        &self,
        asker: TaskAsker,
        wanted: ListedTasks,
    ) -> CapabilityFuture<Result<TaskList, TasksUnavailable>>;

    /// Requests a task's cancellation; the task afterwards, and the outcome of the request. `None` as for [`Tasks::find`].
    fn cancel(
        &self,
        asker: TaskAsker,
        id: EffectId,
    ) -> CapabilityFuture<Result<Option<(TaskFacts, TaskCancel)>, TasksUnavailable>>;
}

/// Whose tasks are meant: those of the conversation's user; where the conversation has no owner, those of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskAsker {
    pub conversation_id: ConversationId,
    pub client_id: ClientId,
    pub user_id: UserId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedTasks {
    /// Whether tasks that have ended are left out.
    pub only_running: bool,
    pub tasks_max: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskList {
    pub tasks: Vec<TaskFacts>,
    /// Whether there are more.
    pub has_more: bool,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    Running,
    Done,
    /// The effect has definitely not happened.
    NotDone,
    /// The outcome is unknown.
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

/// The known facts of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFacts {
    /// Its `backgroundTaskId`.
    pub id: EffectId,
    pub tool: String,
    pub state: TaskState,
    /// Whether its tool changes nothing.
    pub is_read_only: bool,
    pub began_at_unix_ms: u64,
    /// `None` while it runs.
    pub ended_at_unix_ms: Option<u64>,
    pub progress: Option<ToldProgress>,
    /// Whether the user has asked to stop it.
    pub is_cancel_requested: bool,
    /// `data` of a successful task, else `message`; `None` before its end, and where it was too long to keep.
    pub result: Option<Sensitive<Value>>,
    /// Whether the result holds external content.
    pub is_external: bool,
}

/// The progress of a task, in its handler's words.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldProgress {
    pub message: Sensitive<String>,
    /// 0 to 1.
    pub fraction: Option<f64>,
    pub at_unix_ms: u64,
}

/// The outcome of a cancel request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskCancel {
    /// The running attempt is told to stop.
    Requested,
    /// A service has it and cannot be told; its result is no longer awaited.
    GivenUp,
    /// The task had ended before.
    Ended,
}

/// The text is for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TasksUnavailable(pub String);

/// The tasks where none are kept.
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
