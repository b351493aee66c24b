//! Tasks: how many may run, their progress, and the tasks that their user wants stopped.

use super::DecisionBuilder;
use crate::command::{Refusal, Reply, SentTask, TaskProgress, ToolFacts};
use crate::log::{EffectState, EntryEvent};
use crate::task::{Progress, Task, beginning};

impl DecisionBuilder<'_> {
    /// The task of a new attempt of this tool. A nested call has none: its handler waits for it.
    pub(super) fn task_of(tool: &ToolFacts, is_nested: bool) -> Option<Box<Task>> {
        (tool.is_background && !is_nested).then(|| Task::of(tool))
    }

    /// Why no further task may begin, if none may.
    pub(super) fn refused_task(&self, task: Option<&Task>) -> Option<Reply> {
        task?;
        // The task has its place already.
        if self.continued.is_some() {
            return None;
        }
        let shares = &self.context.limits.tasks;
        let (of, most) = self.rows.running_tasks.full(shares)?;
        Some(Reply::Refused(Refusal::TooManyTasks { of, most }))
    }

    /// Keeps the progress of the newest attempt. Reports of an earlier attempt, or after the end, do not count.
    pub(super) fn progress(&mut self, told: &TaskProgress) -> Reply {
        let now_unix_ms = self.now_unix_ms;
        let Some(effect) = self.effects.first_mut() else {
            return Reply::Done;
        };
        let is_current =
            effect.state == EffectState::Running && effect.newest_attempt().number == told.attempt;
        if let Some(task) = effect.task.as_mut().filter(|_| is_current) {
            task.progress = Some(Progress {
                message: beginning(&told.progress.message),
                fraction: told.progress.fraction,
                at_unix_ms: now_unix_ms,
            });
            self.changed_effects.push(effect.effect_id.clone());
        }
        Reply::Done
    }

    /// The user wants a task stopped. An effect that a service has accepted cannot be taken back: it is not waited for, and its callback
    /// tells whether it happens all the same.
    pub(super) fn cancel_task(&mut self) -> Reply {
        self.settle_lapsed();
        let now_unix_ms = self.now_unix_ms;
        let known = self.effects.first_mut();
        let Some(effect) = known.filter(|effect| effect.task.is_some()) else {
            return Reply::Missing;
        };
        if effect.state != EffectState::Running {
            return Reply::TooLate(Box::new(effect.clone()));
        }
        let (effect_id, is_accepted) = (effect.effect_id.clone(), effect.is_accepted());
        let Some(task) = &mut effect.task else {
            return Reply::Missing;
        };
        let is_new = task.cancel_requested_at_unix_ms.is_none();
        task.cancel_requested_at_unix_ms.get_or_insert(now_unix_ms);
        self.changed_effects.push(effect_id.clone());
        match (is_accepted, is_new) {
            (true, _) => self.settle(0, EffectState::Unknown),
            (false, true) => {
                self.log(None, EntryEvent::CancelRequested(effect_id));
            }
            (false, false) => {}
        }
        Reply::Recorded(Box::new(self.effects[0].clone()))
    }

    /// A later end of the same task is still to be told.
    pub(super) fn tasks_sent(&mut self, sent: &[SentTask]) -> Reply {
        for effect in &mut self.effects {
            let is_it = |sent: &SentTask| *sent == SentTask::of(effect);
            if sent.iter().any(is_it)
                && let Some(task) = &mut effect.task
                && !std::mem::replace(&mut task.is_sent, true)
            {
                self.changed_effects.push(effect.effect_id.clone());
            }
        }
        Reply::Done
    }
}
