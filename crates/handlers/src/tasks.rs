//! `get_task`, `list_tasks` and `cancel_task`: the outcome of calls that run in the background, and how one is stopped. Knows how a task
//! is shown, and not where tasks are kept.

use crate::arguments::read;
use crate::capability::answer;
use crate::outcome::{Outcome, ready, report, without_effect};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::pin::Pin;
use std::task::{Poll, Waker};
use windlass_contract::envelope::rfc3339;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Context, Execution, Finding, Handler, Invocation, ListedTasks, Lookup, LookupInvocation,
    OutcomeLookup, Report, Success, TaskAsker, TaskCancel, TaskFacts, TaskState, TasksUnavailable,
};
use windlass_contract::id::EffectId;

/// The three requests about tasks.
pub(crate) enum Tasks {
    Get,
    List,
    Cancel,
}

#[derive(Deserialize)]
struct OneTask {
    task_id: String,
}

#[derive(Deserialize)]
struct SomeTasks {
    only_running: bool,
    limit: usize,
}

impl Handler for Tasks {
    fn execute(&self, invocation: Invocation) -> Execution {
        let asked = match self {
            Self::Get => get(invocation),
            Self::List => list(invocation),
            Self::Cancel => cancel(invocation),
        };
        asked.unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(match self {
            Self::Get | Self::Cancel => json!({
                "required": ["task_id"],
                "properties": {"task_id": {"type": "string"}},
            }),
            Self::List => json!({
                "required": ["only_running", "limit"],
                "properties": {
                    "only_running": {"type": "boolean"},
                    "limit": {"type": "integer"},
                },
            }),
        })
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        match self {
            Self::Get | Self::List => None,
            Self::Cancel => Some(self),
        }
    }
}

impl OutcomeLookup for Tasks {
    fn look_up(&self, invocation: LookupInvocation) -> Lookup {
        let LookupInvocation {
            arguments, context, ..
        } = invocation;
        let Ok(OneTask { task_id }) = read(&arguments) else {
            return Lookup::Found(Finding::Unknown);
        };
        let id = EffectId::new(task_id.as_str());
        let mut found = context.capabilities.tasks().find(asker(&context), id);
        let finding = |found: Result<Option<TaskFacts>, TasksUnavailable>| match found {
            Ok(found) => found.as_ref().map_or(Finding::NotHappened, was_cancelled),
            Err(_) => Finding::Unknown,
        };
        match Pin::as_mut(&mut found).poll(&mut std::task::Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => Lookup::Found(finding(found)),
            Poll::Pending => Lookup::Pending(Box::pin(async move { finding(found.await) })),
        }
    }
}

/// Whether a task was cancelled, by its own row. A task that has ended without a cancel request has nothing left to stop.
fn was_cancelled(task: &TaskFacts) -> Finding {
    let outcome = match (task.is_cancel_requested, task.state) {
        (true, TaskState::Unknown) => TaskCancel::GivenUp,
        (true, _) => TaskCancel::Requested,
        (false, TaskState::Running) => return Finding::NotHappened,
        (false, _) => TaskCancel::Ended,
    };
    Finding::Happened(Box::new(told_of_cancelling(task, outcome)))
}

fn get(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    let OneTask { task_id } = read(&arguments)?;
    let id = EffectId::new(task_id.as_str());
    let found = context.capabilities.tasks().find(asker(&context), id);
    Ok(answer(found, move |found| {
        let found = found.map_err(|error| unavailable(&error, &context))?;
        let task = found.ok_or_else(|| unknown(&task_id))?;
        note_external(&task, &context)?;
        let mut told = head(&task);
        if let Some(result) = task.result {
            told.insert("result".into(), result.into_inner());
        }
        Ok(Success::new(json!({"task": told})))
    }))
}

fn list(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    let SomeTasks {
        only_running,
        limit,
    } = read(&arguments)?;
    let wanted = ListedTasks {
        only_running,
        tasks_max: limit,
    };
    let listed = context.capabilities.tasks().list(asker(&context), wanted);
    Ok(answer(listed, move |listed| {
        let listed = listed.map_err(|error| unavailable(&error, &context))?;
        let tasks: Vec<Value> = listed.tasks.iter().map(|task| head(task).into()).collect();
        Ok(Success::new(
            json!({"tasks": tasks, "more": listed.has_more}),
        ))
    }))
}

fn cancel(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    let OneTask { task_id } = read(&arguments)?;
    let id = EffectId::new(task_id.as_str());
    let cancelled = context.capabilities.tasks().cancel(asker(&context), id);
    Ok(answer(cancelled, move |cancelled| {
        let cancelled = cancelled.map_err(|error| unavailable(&error, &context))?;
        let (task, outcome) = cancelled.ok_or_else(|| unknown(&task_id))?;
        Ok(told_of_cancelling(&task, outcome))
    }))
}

fn told_of_cancelling(task: &TaskFacts, outcome: TaskCancel) -> Success {
    let (word, note) = came_of(outcome, task);
    Success::new(json!({"task": head(task), "outcome": word, "note": note}))
}

/// The outcome of a cancel request, as a word and as a sentence for the model.
fn came_of(outcome: TaskCancel, task: &TaskFacts) -> (&'static str, &'static str) {
    match outcome {
        TaskCancel::Requested if task.is_read_only => (
            "stopping",
            "It is being stopped, and has changed nothing. You are told when it has ended.",
        ),
        TaskCancel::Requested => (
            "stopping",
            "Whoever works on it was asked to stop, and may have gone too far for that. Do not say that it was stopped: you are told how it ended.",
        ),
        TaskCancel::GivenUp => (
            "given_up",
            "A service has it and cannot be told to stop. It is waited for no more; if it happens all the same, you are told.",
        ),
        TaskCancel::Ended => ("ended", "It had ended before, and nothing was stopped."),
    }
}

fn asker(context: &Context) -> TaskAsker {
    let caller = &context.caller;
    TaskAsker {
        conversation_id: caller.conversation_id.clone(),
        client_id: caller.client_id.clone(),
        user_id: caller.user_id.clone(),
    }
}

/// Marks an answer with a task's external result as external content.
fn note_external(task: &TaskFacts, context: &Context) -> Outcome<()> {
    if task.is_external && task.result.is_some() && context.mark_external().is_err() {
        return Err(without_effect(
            "tasks cannot be told of now; go on with what you have",
        ));
    }
    Ok(())
}

fn head(task: &TaskFacts) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("task_id".into(), task.id.as_str().into());
    head.insert("tool".into(), task.tool.as_str().into());
    head.insert("state".into(), task.state.as_str().into());
    head.insert("began_at".into(), rfc3339(task.began_at_unix_ms).into());
    if let Some(ended) = task.ended_at_unix_ms {
        head.insert("ended_at".into(), rfc3339(ended).into());
    }
    if let Some(progress) = task
        .progress
        .as_ref()
        .filter(|_| task.state == TaskState::Running)
    {
        let mut told = Map::new();
        told.insert("message".into(), progress.message.expose().as_str().into());
        if let Some(fraction) = progress.fraction {
            told.insert("fraction".into(), fraction.into());
        }
        told.insert("at".into(), rfc3339(progress.at_unix_ms).into());
        head.insert("progress".into(), told.into());
    }
    head.insert("cancel_requested".into(), task.is_cancel_requested.into());
    head.insert("external".into(), task.is_external.into());
    head
}

fn unavailable(error: &TasksUnavailable, context: &Context) -> Box<Report> {
    // The caller's answer stays the same when the audit is closed.
    let _ = context.audit("tasks_unavailable", json!({"cause": error.0}));
    without_effect("tasks cannot be read now; try again in a moment")
}

fn unknown(id: &str) -> Box<Report> {
    Box::new(Report {
        partial_side_effects: Some(false),
        suggestion: Some("list the tasks, and take an id from there".to_owned()),
        details: Some(json!({"pointer": "/task_id"})),
        ..*report(
            FailureKind::NotFound,
            format!("this user has no task {id:?}"),
        )
    })
}
