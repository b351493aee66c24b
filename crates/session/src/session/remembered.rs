//! What the conversation's earlier sessions did, as far as it matters to this one: the ledger's entries become effects that
//! are remembered. Knows no store.

use super::Session;
use crate::calls::Call;
use crate::deadlines::Deadline;
use crate::io::{LedgerEntry, OutcomeState, Output, ReservationError, Wish};
use crate::policy::{Effect, EffectState, Settled};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::{self, Outcome, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::{EffectId, ToolId};
use windlass_tool::kind::Reach;

/// How often a store is asked again that could not say what the conversation has changed.
const LEDGER_AGAIN: Duration = Duration::from_secs(1);

impl Session {
    /// What earlier sessions of the conversation left in the ledger. What this one's user says comes after all of it, however
    /// late the ledger is read.
    pub(super) fn on_ledger(
        &mut self,
        ledger: Result<Vec<LedgerEntry>, ReservationError>,
        out: &mut Vec<Output>,
    ) {
        let Ok(mut entries) = ledger else {
            let again = self.now + LEDGER_AGAIN;
            self.deadlines.set(Deadline::LedgerAgain, again);
            while let Some(call) = self.take_remembering() {
                self.refuse_without_store(call, out);
            }
            return;
        };
        for entry in &mut entries {
            entry.wish.input = 0;
        }
        self.remember_ledger(entries, out);
    }

    /// What is in the ledger of this conversation is known from here on. Of a session whose place this one has taken, its
    /// entries say when they were asked for; what was lost of that session was not said in this one.
    pub(super) fn remember_ledger(&mut self, mut entries: Vec<LedgerEntry>, out: &mut Vec<Output>) {
        self.unsettled.is_ledger_read = true;
        // What this session did itself it knows better. Of several entries of one wish the newest, which is the last, counts.
        entries.retain(|entry| self.deliveries.effect(&entry.fingerprint).is_none());
        for entry in entries {
            let effect = Effect {
                state: self.state_in_ledger(&entry),
                effect_id: Some(entry.effect_id),
                wish: Wish {
                    input: entry.wish.input.min(self.turns.inputs()),
                    ..entry.wish
                },
            };
            self.deliveries.remember_effect(entry.fingerprint, effect);
        }
        while let Some(call) = self.take_remembering() {
            self.recall(call, out);
        }
    }

    /// What an entry of the ledger says of its effect.
    pub(super) fn state_in_ledger(&self, entry: &LedgerEntry) -> EffectState {
        let response = match (entry.state, entry.response.clone()) {
            (OutcomeState::Failed, _) => return EffectState::Failed,
            (OutcomeState::Succeeded | OutcomeState::Unknown, Some(response)) => response,
            (OutcomeState::Succeeded, None) => self.kept_without_details(&entry.tool),
            (OutcomeState::Unknown, None) => self.lost_answer(&entry.tool),
        };
        self.remembered(&entry.tool, &entry.effect_id, response, entry.is_answered)
    }

    /// The first change that waits to learn what was done before.
    fn take_remembering(&mut self) -> Option<Box<Call>> {
        let call = self.calls.take_remembering()?;
        self.deadlines.clear(Deadline::Store(call.number()));
        Some(call)
    }

    fn remembered(
        &self,
        tool: &ToolId,
        effect_id: &EffectId,
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
                effect_id: Some(effect_id.clone()),
            },
            answer_reached_model,
        }
    }

    /// A change that was made and whose answer was too long to keep.
    pub(super) fn kept_without_details(&self, tool: &ToolId) -> Arc<ToolResponse> {
        let version = self.config.registry.version().clone();
        let note = format!("{tool} did this already; what it answered is not available any more");
        Arc::new(ToolResponse {
            outcome: Outcome::Success {
                data: Some(serde_json::json!({ "note": note }).into()),
                content: Vec::new(),
            },
            intents: Vec::new(),
            meta: envelope::meta_without_tool(tool.as_str(), version, self.unix_ms()),
        })
    }

    /// A change that was begun and of which nothing more was heard.
    pub(super) fn lost_answer(&self, tool: &ToolId) -> Arc<ToolResponse> {
        let version = self.config.registry.version().clone();
        let error = CallError::new(
            ErrorType::OutcomeUnknown,
            format!("{tool} was started, and how it ended is not known"),
        );
        Arc::new(ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta: envelope::meta_without_tool(tool.as_str(), version, self.unix_ms()),
        })
    }
}
