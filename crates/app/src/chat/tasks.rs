//! Tasks for their users: a list, one task, and stopping one. Knows the owner of a task; the ledger has its content.

use super::owner::ConversationOwner;
use super::remote::is_remote;
use super::view::knows;
use super::{ChatHost, ChatRefusal, unavailable};
use crate::tasks::{cancel, task_json, whole_task_json};
use serde_json::{Value, json};
use windlass_contract::handler::TaskCancel;
use windlass_contract::id::{ConversationId, EffectId, UserId};
use windlass_runtime::caller::{Caller, is_proven_id};
use windlass_store::command::Command;
use windlass_store::{ConversationRef, Effect, EffectState, WantedTasks};

/// The wanted page of the list of tasks.
#[derive(Clone, Debug)]
pub(crate) struct TasksRequest {
    pub(crate) tasks_max: usize,
    pub(crate) only_running: bool,
    pub(crate) conversation: Option<ConversationId>,
    pub(crate) behind: Option<TaskCursor>,
}

/// The task behind which a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskCursor {
    begun_at_unix_ms: u64,
    id: EffectId,
}

impl TaskCursor {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (begun, id) = text.split_once('.')?;
        Some(Self {
            begun_at_unix_ms: begun.parse().ok()?,
            id: EffectId::new(id),
        })
    }

    fn text(effect: &Effect) -> String {
        format!("{}.{}", effect.begun_at_unix_ms, effect.effect_id)
    }
}

impl ChatHost {
    /// The caller's tasks, the latest first.
    pub(crate) async fn tasks(
        &self,
        caller: &Caller,
        wanted: TasksRequest,
    ) -> Result<Value, ChatRefusal> {
        let own = match &wanted.conversation {
            None => UserId::new(caller.client_id.as_str()),
            Some(id) => {
                let known = self.conversations.known(&caller.tenant, id);
                let known = known.map_err(unavailable)?.ok_or(ChatRefusal::Unknown)?;
                let admitted = ConversationOwner::of(&known.user_id).admits(caller, None);
                admitted.map_err(|_| ChatRefusal::Unknown)?;
                known.user_id
            }
        };
        // A client may have named users, whose names follow its own. A client that has proven who it is speaks for itself alone.
        let is_wide = wanted.conversation.is_none() && !is_proven_id(caller.client_id.as_str());
        let prefix = is_wide.then(|| format!("{}/", caller.client_id));
        let (ledger, tenant) = (self.shared.ledger.clone(), caller.tenant.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let behind = wanted.behind.as_ref();
            let mut found = ledger.store().tasks_of(&WantedTasks {
                tenant: &tenant,
                user_id: &own,
                prefix: prefix.as_deref(),
                conversation_id: wanted.conversation.as_ref(),
                only_running: wanted.only_running,
                behind: behind.map(|one| (one.begun_at_unix_ms, &one.id)),
                tasks_max: wanted.tasks_max.saturating_add(1),
            })?;
            let has_more = found.len() > wanted.tasks_max;
            found.truncate(wanted.tasks_max);
            let next = found.last().filter(|_| has_more);
            let next = next.map(|(_, effect)| TaskCursor::text(effect));
            let tasks = found.iter().map(|(of, effect)| task_json(of, effect));
            Ok(json!({"tasks": tasks.collect::<Vec<Value>>(), "next": next}))
        });
        let read = reading.await.map_err(|_| ChatRefusal::Internal)?;
        read.map_err(unavailable)
    }

    /// One of the caller's tasks, with its results. If its conversation has no owner, the caller has to name the conversation.
    pub(crate) fn task(
        &self,
        caller: &Caller,
        id: &EffectId,
        conversation: Option<&str>,
    ) -> Result<Value, ChatRefusal> {
        let (reference, effect) = self.own_task(caller, id, conversation)?;
        Ok(whole_task_json(&reference, &effect))
    }

    /// Has one of the caller's tasks stopped, if that is possible.
    pub(crate) async fn cancel_task(
        &self,
        caller: &Caller,
        id: &EffectId,
        conversation: Option<&str>,
    ) -> Result<(Value, TaskCancel), ChatRefusal> {
        let (reference, effect) = self.own_task(caller, id, conversation)?;
        let cancelled = cancel(&*self.shared.ledger, reference.clone(), effect.effect_id).await;
        let cancelled = cancelled.map_err(unavailable)?;
        let (effect, outcome) = cancelled.ok_or(ChatRefusal::Unknown)?;
        Ok((task_json(&reference, &effect), outcome))
    }

    /// A task that a call of this caller's program has begun. A task of a conversation with a model is none for another program, also
    /// where it is of the same user.
    pub(crate) async fn remote_task(
        &self,
        caller: &Caller,
        id: &EffectId,
    ) -> Result<(ConversationRef, Effect), ChatRefusal> {
        let found = self.own_remote_task(caller, id)?;
        if found.1.state != EffectState::Running {
            return Ok(found);
        }
        // A task of a dead process runs no more.
        self.conversations.settle(&found.0).await;
        self.own_remote_task(caller, id)
    }

    /// Has such a task stopped, if that is possible.
    pub(crate) async fn cancel_remote_task(
        &self,
        caller: &Caller,
        id: &EffectId,
    ) -> Result<(), ChatRefusal> {
        let (reference, effect) = self.own_remote_task(caller, id)?;
        let cancelled = cancel(&*self.shared.ledger, reference, effect.effect_id).await;
        cancelled.map_err(unavailable).map(drop)
    }

    /// The end of such a task was told, so that the same call is another one from now on.
    pub(crate) async fn told_remote_task(&self, place: ConversationRef, effect: &Effect) {
        if effect.is_heard {
            return;
        }
        let heard = Command::Heard {
            effects: vec![effect.effect_id.clone()],
            questions: effect.newest_attempt().question.into_iter().collect(),
        };
        if let Err(error) = self.conversations.commit(place, vec![heard]).await {
            // Then the same call is answered with it once more.
            tracing::warn!(%error, "it is not stored that a program was told the end of a task");
        }
    }

    fn own_remote_task(
        &self,
        caller: &Caller,
        id: &EffectId,
    ) -> Result<(ConversationRef, Effect), ChatRefusal> {
        let found = self.shared.ledger.store().effect(&caller.tenant, id);
        let found = found.map_err(unavailable)?;
        let own = found.filter(|(of, effect)| {
            effect.task.is_some()
                && is_remote(&of.conversation_id)
                && of.user_id == self.remote_place(caller, &of.conversation_id).user_id
        });
        own.ok_or(ChatRefusal::Unknown)
    }

    fn own_task(
        &self,
        caller: &Caller,
        id: &EffectId,
        conversation: Option<&str>,
    ) -> Result<(ConversationRef, Effect), ChatRefusal> {
        let found = self.shared.ledger.store().effect(&caller.tenant, id);
        let found = found.map_err(unavailable)?;
        let (reference, effect) = found
            .filter(|(_, effect)| effect.task.is_some())
            .ok_or(ChatRefusal::Unknown)?;
        let whose = ConversationOwner::of(&reference.user_id);
        let is_own = whose.admits(caller, None).is_ok();
        match is_own && knows(&whose, &reference, conversation) {
            true => Ok((reference, effect)),
            false => Err(ChatRefusal::Unknown),
        }
    }
}
