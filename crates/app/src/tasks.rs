//! Tasks out of the ledger: for the tools that report them, for their users over HTTP, and for the webhook that gets each end until it
//! has taken it. Knows the owner of a task, and no rule about it.

mod rounds;

use crate::chat::owner::ConversationOwner;
use crate::failure::Failure;
use crate::handovers::webhook::{Posted, Webhook, WebhookSettings};
use rounds::{LOOKED_AT_MAX, Place, Rounds};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use windlass_config::Config;
use windlass_contract::envelope::rfc3339;
use windlass_contract::handler::{
    CapabilityFuture, ListedTasks, TaskAsker, TaskCancel, TaskFacts, TaskList, TaskState, Tasks,
    TasksUnavailable, ToldProgress,
};
use windlass_contract::id::{ConversationId, EffectId, TenantId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_driver::Ledger;
use windlass_store::command::{Command, Reply, SentTask};
use windlass_store::{
    Batch, ConversationRef, Effect, EffectState, StoreUnavailable, Task, WantedTasks,
};

/// How often it is looked for ends that the webhook has not taken.
const LOOKING_PAUSE: Duration = Duration::from_secs(1);

/// The tasks of a tenant, for tools.
pub(crate) struct LedgerTasks {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) tenant: TenantId,
}

/// The owner of the tasks that an asker may see.
struct Owner {
    user_id: UserId,
    /// The only conversation whose tasks count, where it has no owner.
    conversation_id: Option<ConversationId>,
}

impl LedgerTasks {
    fn owner(&self, asker: &TaskAsker) -> Result<Option<Owner>, StoreUnavailable> {
        let id = &asker.conversation_id;
        let whose = match self.ledger.store().conversation(&self.tenant, id)? {
            Some(known) => ConversationOwner::of(&known.user_id),
            // The conversation began a moment ago. Only its client knows this name.
            None => ConversationOwner {
                owner: Some(asker.client_id.clone()),
                user_id: asker.user_id.clone(),
            },
        };
        if whose.user_id != asker.user_id {
            return Ok(None);
        }
        Ok(Some(Owner {
            conversation_id: whose.owner.is_none().then(|| id.clone()),
            user_id: whose.ledger_user(),
        }))
    }

    /// The task, where the asker may know of it.
    fn own(
        &self,
        asker: &TaskAsker,
        id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        let Some(owner) = self.owner(asker)? else {
            return Ok(None);
        };
        let found = self.ledger.store().effect(&self.tenant, id)?;
        Ok(found.filter(|(of, effect)| {
            let is_meant = |meant: &ConversationId| of.conversation_id == *meant;
            effect.task.is_some()
                && of.user_id == owner.user_id
                && owner.conversation_id.as_ref().is_none_or(is_meant)
        }))
    }

    fn listed(&self, asker: &TaskAsker, wanted: ListedTasks) -> Result<TaskList, StoreUnavailable> {
        let Some(owner) = self.owner(asker)? else {
            return Ok(TaskList::default());
        };
        let mut found = self.ledger.store().tasks_of(&WantedTasks {
            tenant: &self.tenant,
            user_id: &owner.user_id,
            prefix: None,
            conversation_id: owner.conversation_id.as_ref(),
            only_running: wanted.only_running,
            behind: None,
            tasks_max: wanted.tasks_max.saturating_add(1),
        })?;
        let has_more = found.len() > wanted.tasks_max;
        found.truncate(wanted.tasks_max);
        let tasks = found.iter().map(|(_, effect)| facts(effect));
        Ok(TaskList {
            tasks: tasks.collect(),
            has_more,
        })
    }
}

impl Tasks for LedgerTasks {
    fn find(
        &self,
        asker: TaskAsker,
        id: EffectId,
    ) -> CapabilityFuture<Result<Option<TaskFacts>, TasksUnavailable>> {
        let found = self.own(&asker, &id).map_err(|error| unavailable(&error));
        let found = found.map(|found| found.map(|(_, effect)| facts(&effect)));
        Box::pin(std::future::ready(found))
    }

    fn list(
        &self,
        asker: TaskAsker,
        wanted: ListedTasks,
    ) -> CapabilityFuture<Result<TaskList, TasksUnavailable>> {
        let listed = self.listed(&asker, wanted);
        let listed = listed.map_err(|error| unavailable(&error));
        Box::pin(std::future::ready(listed))
    }

    fn cancel(
        &self,
        asker: TaskAsker,
        id: EffectId,
    ) -> CapabilityFuture<Result<Option<(TaskFacts, TaskCancel)>, TasksUnavailable>> {
        let found = self.own(&asker, &id).map_err(|error| unavailable(&error));
        let ledger = self.ledger.clone();
        Box::pin(async move {
            let Some((of, effect)) = found? else {
                return Ok(None);
            };
            let cancelled = cancel(&*ledger, of, effect.effect_id).await;
            let cancelled = cancelled.map_err(|error| unavailable(&error))?;
            Ok(cancelled.map(|(effect, outcome)| (facts(&effect), outcome)))
        })
    }
}

fn unavailable(error: &StoreUnavailable) -> TasksUnavailable {
    TasksUnavailable(error.to_string())
}

/// Has a task stopped, if that is possible; `None` for an unknown task.
pub(crate) async fn cancel(
    ledger: &dyn Ledger,
    conversation: ConversationRef,
    effect_id: EffectId,
) -> Result<Option<(Effect, TaskCancel)>, StoreUnavailable> {
    let replies = ledger.apply(Batch {
        conversation,
        commands: vec![Command::CancelTask { effect_id }],
    });
    Ok(match replies.await?.pop() {
        Some(Reply::Recorded(effect)) if effect.state == EffectState::Running => {
            Some((*effect, TaskCancel::Requested))
        }
        Some(Reply::Recorded(effect)) => Some((*effect, TaskCancel::GivenUp)),
        Some(Reply::TooLate(effect)) => Some((*effect, TaskCancel::Ended)),
        Some(_) | None => None,
    })
}

fn state_of(effect: &Effect) -> TaskState {
    match effect.state {
        EffectState::Running => TaskState::Running,
        EffectState::Done => TaskState::Done,
        EffectState::NotDone => TaskState::NotDone,
        EffectState::Unknown => TaskState::Unknown,
    }
}

fn ended_at(effect: &Effect) -> Option<u64> {
    (effect.state != EffectState::Running).then_some(effect.changed_at_unix_ms)
}

/// The answer of a task that has ended; `None` for a running or unknown one, whose receipt says at most that it was accepted.
fn response(effect: &Effect) -> Option<Value> {
    match effect.state {
        EffectState::Done | EffectState::NotDone => {
            let receipt = effect.receipt.as_ref()?;
            serde_json::from_str(receipt.expose()).ok()
        }
        EffectState::Running | EffectState::Unknown => None,
    }
}

fn facts(effect: &Effect) -> TaskFacts {
    let task = effect.task.as_deref().cloned().unwrap_or_default();
    let Task {
        is_read_only,
        is_external,
        progress,
        cancel_requested_at_unix_ms,
        is_sent: _,
        is_deleted: _,
    } = task;
    let told = |mut response: Value| match response.pointer_mut("/error/message") {
        Some(message) => message.take(),
        None => response["data"].take(),
    };
    TaskFacts {
        id: effect.effect_id.clone(),
        tool: effect.tool.as_str().to_owned(),
        state: state_of(effect),
        is_read_only,
        began_at_unix_ms: effect.begun_at_unix_ms,
        ended_at_unix_ms: ended_at(effect),
        progress: progress.map(|progress| ToldProgress {
            message: progress.message,
            fraction: progress.fraction,
            at_unix_ms: progress.at_unix_ms,
        }),
        is_cancel_requested: cancel_requested_at_unix_ms.is_some(),
        result: response(effect).map(told).map(Sensitive),
        is_external,
    }
}

/// A task as its user reads it over HTTP.
pub(crate) fn task_json(conversation: &ConversationRef, effect: &Effect) -> Value {
    let task = effect.task.as_deref();
    let progress = task.and_then(|task| task.progress.as_ref());
    let cancelled = task.and_then(|task| task.cancel_requested_at_unix_ms);
    json!({
        "taskId": effect.effect_id,
        "tool": effect.tool.as_str(),
        "conversationId": conversation.conversation_id.as_str(),
        "state": state_of(effect).as_str(),
        "startedAt": rfc3339(effect.begun_at_unix_ms),
        "endedAt": ended_at(effect).map(rfc3339),
        "progress": progress.map(|progress| json!({
            "message": progress.message.expose(),
            "fraction": progress.fraction,
            "at": rfc3339(progress.at_unix_ms),
        })),
        "cancelRequestedAt": cancelled.map(rfc3339),
    })
}

/// The same with the task's results.
pub(crate) fn whole_task_json(conversation: &ConversationRef, effect: &Effect) -> Value {
    let mut shown = task_json(conversation, effect);
    shown["response"] = response(effect).unwrap_or_default();
    shown
}

/// Posts the ends of tasks to the configured webhook.
pub(crate) struct TaskEnds {
    ledger: Arc<dyn Ledger>,
    webhook: Webhook,
}

impl TaskEnds {
    /// `None` where the configuration names no webhook.
    ///
    /// # Errors
    ///
    /// The posts cannot be signed.
    pub(crate) fn of(config: &Config, ledger: Arc<dyn Ledger>) -> Result<Option<Self>, Failure> {
        let settings = WebhookSettings {
            section: "tasks",
            address: config.tasks.webhook.as_ref(),
            secret: config.tasks.webhook_secret.as_ref(),
        };
        let webhook = Webhook::of(config, settings)?;
        Ok(webhook.map(|webhook| Self { ledger, webhook }))
    }

    /// Posts each end until it is taken, with growing pauses, also those of earlier processes, until the server is over.
    pub(crate) async fn follow(self, mut is_over: watch::Receiver<bool>) {
        let mut rounds = Rounds::default();
        loop {
            let round = async {
                self.post_due(&mut rounds).await;
                tokio::time::sleep(LOOKING_PAUSE).await;
            };
            tokio::select! {
                // An error says that the server is gone, too.
                _ = is_over.wait_for(|is_over| *is_over) => return,
                () = round => {}
            }
        }
    }

    async fn post_due(&self, rounds: &mut Rounds) {
        let (ledger, behind) = (self.ledger.clone(), rounds.behind());
        let looking = tokio::task::spawn_blocking(move || {
            let behind = behind.as_ref().map(|(at, id)| (*at, id));
            ledger.store().unsent_tasks(behind, LOOKED_AT_MAX)
        });
        let unsent = match looking.await {
            Ok(Ok(unsent)) => unsent,
            Ok(Err(error)) => {
                return tracing::warn!(%error, "ends of tasks cannot be read to be posted");
            }
            // The runtime is over.
            Err(_) => return,
        };
        let place =
            |(_, effect): &(_, Effect)| (effect.changed_at_unix_ms, effect.effect_id.clone());
        let places: Vec<Place> = unsent.iter().map(place).collect();
        for index in rounds.due(&places, Instant::now()) {
            let (conversation, effect) = &unsent[index];
            match self.webhook.send(posted(conversation, effect)).await {
                Ok(()) => {
                    rounds.taken(&effect.effect_id);
                    let replies = self.ledger.apply(Batch {
                        conversation: conversation.clone(),
                        commands: vec![Command::TasksSent(vec![SentTask::of(effect)])],
                    });
                    // If this is not stored, the end is posted once more, under the same id.
                    drop(replies.await);
                }
                Err(problem) => {
                    let pause = rounds.refused(&effect.effect_id, Instant::now());
                    tracing::warn!(
                        task = %effect.effect_id,
                        %problem,
                        again_in_seconds = pause.as_secs(),
                        "tasks.webhook has not taken the end of a task"
                    );
                }
            }
        }
    }
}

/// An end that became known later is another message, and so is that of a later attempt.
fn posted(conversation: &ConversationRef, effect: &Effect) -> Posted {
    let state = state_of(effect).as_str();
    let attempt = effect.newest_attempt().number.0;
    let whose = ConversationOwner::of(&conversation.user_id);
    let mut data = whole_task_json(conversation, effect);
    data["userId"] = whose.user_id.as_str().into();
    Posted {
        id: format!("msg_{}_{attempt}_{state}", effect.effect_id),
        kind: "task.ended",
        data,
    }
}
