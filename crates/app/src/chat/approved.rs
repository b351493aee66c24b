//! The outcome of another program's call that a person has approved: read from the request for the approval, so that a program which comes
//! back for it makes no further call. Knows no protocol, and no rule about effects.

use super::answers::confirmation;
use super::{ChatHost, ChatRefusal, unavailable};
use crate::clock;
use serde_json::json;
use std::time::Duration;
use windlass_contract::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::registry::Tool;
use windlass_store::command::Command;
use windlass_store::{
    ConversationRef, Effect, EffectState, Question, QuestionNumber, QuestionState,
};

/// How often it is looked whether an attempt has ended that nobody here waits for.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// An approved call, for whose outcome its program comes back.
#[derive(Clone, Copy)]
pub(super) struct ApprovedCall<'a> {
    pub(super) number: QuestionNumber,
    pub(super) tool: &'a Tool,
    /// Whether a task that runs is an outcome.
    pub(super) takes_tasks: bool,
}

impl ChatHost {
    /// How an approved call ended; waits for that, unless it is a task that its caller takes. `None` where the ledger has to judge the call: it was not approved, or it may have
    /// to be looked up or tried again.
    pub(super) async fn outcome_of_approval(
        &self,
        place: &ConversationRef,
        approved: ApprovedCall<'_>,
    ) -> Result<Option<ToolResponse>, ChatRefusal> {
        let ApprovedCall {
            number,
            tool,
            takes_tasks,
        } = approved;
        let given = self.outcome_in_memory(place, number).await;
        loop {
            let found = self.remote_question(place, number)?;
            let Some((question, None)) = found else {
                return Ok(None);
            };
            if question.state != QuestionState::Approved {
                return Ok(None);
            }
            let store = self.conversations.store();
            let Some(effect_id) = &question.effect_id else {
                let recorded = confirmation(place, store, number, true).map_err(unavailable)?;
                let recorded = recorded.and_then(|kept| serde_json::from_value(kept).ok());
                let ended = recorded.or(given);
                return Ok(Some(ended.unwrap_or_else(|| self.not_kept(&question))));
            };
            let effect = store.effect(&place.tenant, effect_id);
            let Some((_, effect)) = effect.map_err(unavailable)? else {
                return Ok(Some(self.not_kept(&question)));
            };
            match effect.state {
                EffectState::Done | EffectState::NotDone => {
                    return Ok(Some(self.response_of(&effect)));
                }
                EffectState::Running | EffectState::Unknown if !tool.repeatable => return Ok(None),
                EffectState::Running if takes_tasks && effect.task.is_some() => {
                    return Ok(Some(self.at_work(&effect)));
                }
                EffectState::Running if effect.is_accepted() => {
                    return Ok(Some(self.response_of(&effect)));
                }
                EffectState::Running => tokio::time::sleep(LOOK_PAUSE).await,
                EffectState::Unknown => {
                    let message = format!(
                        "{} was started after its approval, and how it ended is not known",
                        tool.id
                    );
                    let error = CallError::new(ErrorType::OutcomeUnknown, message);
                    return Ok(Some(self.remote_response(&question, error)));
                }
            }
        }
    }

    /// The program has been told what came of a request, so that the same call is another one from now on.
    pub(crate) async fn told_remote(&self, place: &ConversationRef, number: QuestionNumber) {
        let question = self.remote_question(place, number);
        let Ok(Some((Question { effect_id, .. }, None))) = question else {
            return;
        };
        let heard = Command::Heard {
            effects: effect_id.into_iter().collect(),
            questions: vec![number],
        };
        if let Err(error) = self.conversations.commit(place.clone(), vec![heard]).await {
            // Then it is told once more.
            tracing::warn!(%error, "it is not stored that a program was told of its call");
        }
    }

    /// The outcome of the answer to a request, if the answer was given in this process.
    async fn outcome_in_memory(
        &self,
        place: &ConversationRef,
        number: QuestionNumber,
    ) -> Option<ToolResponse> {
        let held = self
            .conversations
            .get(&place.tenant, &place.conversation_id)?;
        let mut outcome = held.outcome_of(number)?;
        // An error means that no outcome will come.
        let known = outcome.wait_for(Option::is_some).await.ok()?;
        known.as_ref().map(|known| (*known.response).clone())
    }

    /// A task that runs.
    fn at_work(&self, effect: &Effect) -> ToolResponse {
        let outcome = Outcome::Success {
            data: Some(json!({ "status": "accepted", "state": "running" }).into()),
            content: Vec::new(),
        };
        let mut response = self.response_by_name(effect.tool.as_str(), outcome);
        response.meta.preliminary = true;
        response.meta.background_task_id = Some(effect.effect_id.as_str().into());
        response
    }

    /// The answer of an effect that has ended, or of one that a service has accepted.
    pub(crate) fn response_of(&self, effect: &Effect) -> ToolResponse {
        let receipt = effect.receipt.as_ref();
        let kept = receipt.and_then(|receipt| serde_json::from_str(receipt.expose()).ok());
        kept.unwrap_or_else(|| {
            let outcome = match effect.state {
                EffectState::NotDone => {
                    let message = format!("{} was not done", effect.tool);
                    Outcome::Failure(CallError::new(ErrorType::Cancelled, message).into())
                }
                EffectState::Done | EffectState::Running | EffectState::Unknown => {
                    Outcome::Success {
                        data: Some(
                            json!({ "note": "It was done. Its details are not kept." }).into(),
                        ),
                        content: Vec::new(),
                    }
                }
            };
            self.response_by_name(effect.tool.as_str(), outcome)
        })
    }

    /// It has run, or has begun to, and changed nothing that the ledger would know.
    fn not_kept(&self, question: &Question) -> ToolResponse {
        let message = format!("{} was approved, and its result is not kept", question.tool);
        let error = CallError::new(ErrorType::Internal, message).with_suggestion(
            "Send the call again without its requestState; a person is asked anew.",
        );
        self.remote_response(question, error)
    }

    fn response_by_name(&self, tool: &str, outcome: Outcome) -> ToolResponse {
        let version = self.toolbox.load().version.clone();
        ToolResponse {
            outcome,
            intents: Vec::new(),
            meta: meta_without_tool(tool, version, clock::now_unix_ms()),
        }
    }

    fn remote_response(&self, question: &Question, error: CallError) -> ToolResponse {
        self.response_by_name(question.tool.as_str(), Outcome::Failure(error.into()))
    }
}
