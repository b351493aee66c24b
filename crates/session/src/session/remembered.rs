//! What the conversation's earlier sessions did, as far as it matters to this one: the ledger's entries become effects that
//! are remembered. Knows no store.

use super::Session;
use crate::io::{LedgerEntry, OutcomeState};
use crate::policy::{Effect, EffectState, Settled};
use std::sync::Arc;
use windlass_tool::envelope::{self, Outcome, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::ToolId;
use windlass_tool::kind::Reach;

impl Session {
    /// What earlier sessions of the conversation, or this one before a crash, left in the ledger.
    pub(super) fn on_ledger(&mut self, entries: Vec<LedgerEntry>) {
        for entry in entries {
            let state = match (entry.state, entry.response) {
                (OutcomeState::Failed, _) => EffectState::Failed,
                (OutcomeState::Succeeded, Some(response)) => {
                    self.remembered(&entry.tool, response, entry.is_answered)
                }
                (OutcomeState::Succeeded, None) => {
                    let response = self.kept_without_details(&entry.tool);
                    self.remembered(&entry.tool, response, entry.is_answered)
                }
                (OutcomeState::Unknown, response) => {
                    let response = response.unwrap_or_else(|| self.lost_answer(&entry.tool));
                    self.remembered(&entry.tool, response, entry.is_answered)
                }
            };
            let effect = Effect {
                effect_id: Some(entry.effect_id),
                asked_at_input: self.turns.inputs(),
                state,
            };
            self.deliveries.remember_effect(entry.fingerprint, effect);
        }
    }

    fn remembered(
        &self,
        tool: &ToolId,
        response: Arc<ToolResponse>,
        answer_reached_model: bool,
    ) -> EffectState {
        let tool = self.config.registry.get(tool.as_str());
        EffectState::Settled {
            settled: Settled {
                quoted: tool.is_none_or(|tool| tool.reach == Reach::External),
                response,
                turn: 0,
                is_outcome: true,
                answered_on: None,
            },
            answer_reached_model,
        }
    }

    /// A change that was made and whose answer was too long to keep.
    fn kept_without_details(&self, tool: &ToolId) -> Arc<ToolResponse> {
        let version = self.config.registry.version().clone();
        let note = format!("{tool} did this already; what it answered is not available any more");
        Arc::new(ToolResponse {
            outcome: Outcome::Success {
                data: Some(Arc::new(serde_json::json!({ "note": note }))),
                content: Vec::new(),
            },
            intents: Vec::new(),
            meta: envelope::meta_without_tool(tool.as_str(), version, self.unix_ms()),
        })
    }

    /// A change that was begun and of which nothing more was heard.
    fn lost_answer(&self, tool: &ToolId) -> Arc<ToolResponse> {
        let version = self.config.registry.version().clone();
        let error = CallError::new(
            ErrorType::OutcomeUnknown,
            format!("{tool} was started, and how it ended is not known"),
        );
        Arc::new(ToolResponse {
            outcome: Outcome::Failure(error),
            intents: Vec::new(),
            meta: envelope::meta_without_tool(tool.as_str(), version, self.unix_ms()),
        })
    }
}
