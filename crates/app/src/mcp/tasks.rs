//! Tasks for clients of the extension `io.modelcontextprotocol/tasks`: the handle of one that a call has begun, its
//! outcome, and its cancellation. The ledger's effect is the task. Knows no connection, and no rule about effects.

use super::message::{Request, TASKS};
use super::reply::{
    Declared, Failure, INTERNAL_ERROR, MISSING_CAPABILITY, Revision, error_json, members, words,
};
use super::{McpHost, Peer};
use crate::chat::{ChatRefusal, request};
use crate::clock;
use serde_json::{Map, Value, json};
use windlass_contract::envelope::{ToolResponse, project, rfc3339};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::id::EffectId;
use windlass_runtime::direct::RemoteAnswer;
use windlass_store::{ConversationRef, Effect, EffectState, Task};

/// Milliseconds between two looks at a task: a tenth of its age, within these.
const POLL_MS: std::ops::RangeInclusive<u64> = 1_000..=30_000;

/// Where a task stands, in the protocol's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Working,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    /// `response` is the answer of an effect that has ended.
    fn of(effect: &Effect, response: Option<&ToolResponse>) -> Self {
        let task = effect.task.as_deref();
        let is_unwanted = task.is_some_and(|task| task.cancel_requested_at_unix_ms.is_some());
        let error = response.and_then(ToolResponse::error);
        let is_stopped = error.is_some_and(|error| error.error_type == ErrorType::Cancelled);
        match effect.state {
            EffectState::Running => Self::Working,
            EffectState::Unknown => Self::Failed,
            EffectState::NotDone if is_unwanted && is_stopped => Self::Cancelled,
            // A tool's failure is the result of its call.
            EffectState::Done | EffectState::NotDone => Self::Completed,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl McpHost {
    /// `tasks/get`, `tasks/update` and `tasks/cancel`.
    pub(super) async fn task(
        &self,
        peer: &Peer,
        takes_tasks: bool,
        request: &Request,
    ) -> Result<Value, Failure> {
        if !takes_tasks {
            return Err(Failure::new(
                MISSING_CAPABILITY,
                format!("the client has not declared the extension {TASKS}"),
            )
            .with_data(json!({"requiredCapabilities": {"extensions": {TASKS: {}}}})));
        }
        let params = &request.params;
        let id = params.get("taskId").and_then(Value::as_str);
        let id = id.ok_or_else(|| Failure::params("taskId is missing, or no text"))?;
        match request.method.as_str() {
            "tasks/get" => self.shown_task(peer, id).await,
            "tasks/cancel" => {
                let id = id_of(id)?;
                let cancelled = self.chat.cancel_remote_task(&peer.caller, &id).await;
                cancelled.map_err(|refusal| unknown(&refusal))?;
                Ok(acknowledged())
            }
            // A task here asks nothing while it runs, so that every answer is one to no request, and is ignored.
            _ => {
                if !params.get("inputResponses").is_some_and(Value::is_object) {
                    return Err(Failure::params("inputResponses is missing, or no object"));
                }
                self.own_task(peer, id).await?;
                Ok(acknowledged())
            }
        }
    }

    /// The handle of a task that a call has begun.
    pub(super) async fn handle_of(&self, peer: &Peer, id: &str) -> Result<Value, Failure> {
        let (_, effect) = self.own_task(peer, id).await?;
        let response = ended(&effect).then(|| self.chat.response_of(&effect));
        let mut result = self.facts(&effect, Status::of(&effect, response.as_ref()));
        result.insert("resultType".to_owned(), "task".into());
        Ok(Value::Object(result))
    }

    async fn own_task(&self, peer: &Peer, id: &str) -> Result<(ConversationRef, Effect), Failure> {
        let found = self.chat.remote_task(&peer.caller, &id_of(id)?).await;
        found.map_err(|refusal| unknown(&refusal))
    }

    async fn shown_task(&self, peer: &Peer, id: &str) -> Result<Value, Failure> {
        let (place, effect) = self.own_task(peer, id).await?;
        let response = ended(&effect).then(|| self.chat.response_of(&effect));
        let status = Status::of(&effect, response.as_ref());
        let mut shown = self.facts(&effect, status);
        match (status, response) {
            (Status::Completed, Some(response)) => {
                let result = self.result_of(peer, &effect, response).await;
                shown.insert("result".to_owned(), result);
            }
            (Status::Failed, _) => {
                let error = CallError::new(ErrorType::OutcomeUnknown, in_doubt(&effect))
                    .with_suggestion(what_next(&effect));
                shown.insert(
                    "error".to_owned(),
                    json!({
                        "code": INTERNAL_ERROR,
                        "message": words(&error),
                        "data": {"dev.windlass/error": error_json(&error)},
                    }),
                );
            }
            (Status::Completed | Status::Working | Status::Cancelled, _) => {}
        }
        if status != Status::Working {
            self.chat.told_remote_task(place, &effect).await;
        }
        Ok(Revision::Stateless.complete(shown))
    }

    /// The result of the call, as it would have been without a task.
    async fn result_of(&self, peer: &Peer, effect: &Effect, response: ToolResponse) -> Value {
        let offer = self.chat.offer(&peer.caller);
        let registry = &offer.tools.registry;
        let tool = registry.of_record(effect.tool.as_str(), &effect.tool_version);
        let declared = Declared {
            schema: tool.and_then(|tool| tool.response.as_ref()),
            is_external: effect.task.as_ref().is_some_and(|task| task.is_external),
        };
        let told = project(&response, declared.is_external, self.told_characters_max);
        let answer = RemoteAnswer {
            response: response.into(),
            told: Some(told),
        };
        self.shown(peer, Revision::Stateless, declared, &answer)
            .await
    }

    /// The facts that every task has.
    fn facts(&self, effect: &Effect, status: Status) -> Map<String, Value> {
        let (began, changed) = (effect.begun_at_unix_ms, changed_at(effect));
        // A task that runs is kept for as long as it does.
        let ttl_ms = ended(effect)
            .then(|| effect.changed_at_unix_ms.saturating_sub(began))
            .map(|ran_ms| ran_ms.saturating_add(self.task_ms));
        let mut facts = members(json!({
            "taskId": effect.effect_id,
            "status": status.as_str(),
            "createdAt": rfc3339(began),
            "lastUpdatedAt": rfc3339(changed),
            "ttlMs": ttl_ms,
        }));
        if let Some(message) = message(effect, status) {
            facts.insert("statusMessage".to_owned(), message.into());
        }
        if status == Status::Working {
            let age_ms = clock::now_unix_ms().saturating_sub(began);
            facts.insert("pollIntervalMs".to_owned(), poll_ms(age_ms).into());
        }
        facts
    }
}

/// The answer to a client whose request is taken, and which sees what becomes of it in the task.
fn acknowledged() -> Value {
    Revision::Stateless.complete(Map::new())
}

fn id_of(text: &str) -> Result<EffectId, Failure> {
    match request::check_id(text) {
        Ok(()) => Ok(EffectId::new(text)),
        Err(_) => Err(unknown(&ChatRefusal::Unknown)),
    }
}

/// The error about a task that the caller does not have, whether or not another caller has it.
fn unknown(refusal: &ChatRefusal) -> Failure {
    match refusal {
        ChatRefusal::Unknown | ChatRefusal::Foreign => Failure::params("there is no such task"),
        ChatRefusal::Blocked(_)
        | ChatRefusal::KeyReused
        | ChatRefusal::Crowded(_)
        | ChatRefusal::Busy
        | ChatRefusal::Internal => Failure::internal(),
    }
}

fn ended(effect: &Effect) -> bool {
    effect.state != EffectState::Running
}

fn poll_ms(age_ms: u64) -> u64 {
    (age_ms / 10).clamp(*POLL_MS.start(), *POLL_MS.end())
}

/// The time of the last news of a task.
fn changed_at(effect: &Effect) -> u64 {
    let settled = effect.changed_at_unix_ms;
    let task = effect.task.as_deref().filter(|_| !ended(effect));
    let news = task.map(|task| {
        let progress = task.progress.as_ref();
        let progressed = progress.map(|progress| progress.at_unix_ms);
        progressed.max(task.cancel_requested_at_unix_ms)
    });
    news.flatten().unwrap_or(settled).max(settled)
}

/// The words about a task beside its status.
fn message(effect: &Effect, status: Status) -> Option<String> {
    let task = effect.task.as_deref()?;
    match status {
        Status::Working => {
            let asked = task.cancel_requested_at_unix_ms.map(|_| {
                let becomes = match task.is_read_only {
                    true => "It is being stopped.",
                    false => "A change that has begun goes on to its own end.",
                };
                format!("It was cancelled. {becomes}")
            });
            let progress = task.progress.as_ref();
            let progress = progress.map(|progress| progress.message.expose().clone());
            asked.or(progress.filter(|message| !message.is_empty()))
        }
        Status::Failed => Some(in_doubt(effect)),
        Status::Cancelled => Some(format!("{} was stopped", effect.tool)),
        Status::Completed => None,
    }
}

/// The words on an effect whose end is not known.
fn in_doubt(effect: &Effect) -> String {
    let tool = &effect.tool;
    match effect.task.as_deref() {
        Some(Task {
            is_read_only: true, ..
        }) => format!("{tool} was started, and is gone without a result; it has changed nothing"),
        Some(Task {
            cancel_requested_at_unix_ms: Some(_),
            ..
        }) => format!(
            "{tool} was cancelled after a service had accepted it, and nobody knows whether it happens all the same"
        ),
        Some(_) | None => {
            format!("{tool} was started, and nobody knows whether it was done")
        }
    }
}

fn what_next(effect: &Effect) -> &'static str {
    let task = effect.task.as_deref();
    match task.is_some_and(|task| task.is_read_only) {
        true => "The same call may be sent again.",
        false => {
            "If that becomes known, this task says it. The same call, sent again, is not done a second time without a person's approval."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_looks_less_often_the_longer_a_task_runs() {
        for (age_ms, expected) in [
            (0, 1_000),
            (10_000, 1_000),
            (60_000, 6_000),
            (300_000, 30_000),
            (86_400_000, 30_000),
        ] {
            assert_eq!(poll_ms(age_ms), expected, "{age_ms}");
        }
    }
}
