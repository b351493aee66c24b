//! Approvals that another session of the conversation has used, and may be at yet: whoever approves once more waits for what
//! comes of it, as if the change were made here. Knows no store and no other session; the driver sees both.

use super::Session;
use super::restored::tell_client;
use crate::confirmations::ConfirmationState;
use crate::deadlines::Deadline;
use crate::io::{LedgerEntry, OutcomeState, Output};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::{CallNumber, ToolId};
use windlass_tool::registry::TIMEOUT_MS_MAX;

impl Session {
    /// Somebody approves what was approved before, and what came of it is not known here.
    pub(super) fn await_effect(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let Some(entry) = self.confirmations.by_call(number) else {
            return;
        };
        let ConfirmationState::Elsewhere { tool, askers } = &entry.state else {
            return;
        };
        let (tool, is_first) = (tool.clone(), *askers == 0);
        let effect_id = entry.question.effect_id.clone();
        if !entry.join() {
            return self.refuse_token(Some(number), out);
        }
        if !is_first {
            return;
        }
        // Nobody knows how long a change of a tool that is gone may take: as long as that of any tool.
        let tool = self.config.registry.get(tool.as_str());
        let patience_ms = tool.map_or(TIMEOUT_MS_MAX, |tool| tool.timeout_ms);
        let until = self.now + Duration::from_millis(patience_ms);
        self.deadlines.set(Deadline::Elsewhere(number), until);
        out.push(Output::AwaitEffect {
            call: number,
            effect_id,
        });
    }

    /// No session of the process is at the effect any more. What nobody knows yet may be known when the token comes again.
    pub(super) fn on_effect_awaited(
        &mut self,
        number: CallNumber,
        entry: Option<&LedgerEntry>,
        out: &mut Vec<Output>,
    ) {
        let Some(tool) = self.awaited(number) else {
            return;
        };
        self.deadlines.clear(Deadline::Elsewhere(number));
        let is_settled = |entry: &&LedgerEntry| entry.state != OutcomeState::Unknown;
        match entry.filter(is_settled) {
            Some(entry) => {
                let response = self.answer_in_ledger(entry);
                let resolved = ConfirmationState::Resolved(response.clone());
                self.answer_askers(number, &response, resolved, out);
            }
            None => {
                let response = entry
                    .and_then(|entry| entry.response.clone())
                    .unwrap_or_else(|| self.lost_answer(&tool));
                let elsewhere = ConfirmationState::Elsewhere { tool, askers: 0 };
                self.answer_askers(number, &response, elsewhere, out);
            }
        }
    }

    /// It takes longer than it may: whoever waits is told so.
    pub(super) fn on_elsewhere_timeout(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let Some(tool) = self.awaited(number) else {
            return;
        };
        let message = format!(
            "{tool} was approved before and is still under way in another session of this conversation; ask again in a moment"
        );
        let error = CallError::new(ErrorType::OutcomeUnknown, message);
        let response = self.response_without_tool(tool.as_str(), error);
        let elsewhere = ConfirmationState::Elsewhere { tool, askers: 0 };
        self.answer_askers(number, &response, elsewhere, out);
    }

    /// The session ends: whoever waits for another one's change hears that it goes on.
    pub(super) fn give_up_waiting(&mut self, out: &mut Vec<Output>) {
        for number in self.confirmations.awaited_elsewhere() {
            self.deadlines.clear(Deadline::Elsewhere(number));
            self.on_elsewhere_timeout(number, out);
        }
    }

    /// The tool of a question of which somebody waits to hear the end.
    fn awaited(&mut self, number: CallNumber) -> Option<ToolId> {
        match &self.confirmations.by_call(number)?.state {
            ConfirmationState::Elsewhere { tool, askers } if *askers > 0 => Some(tool.clone()),
            ConfirmationState::Elsewhere { .. }
            | ConfirmationState::Open(_)
            | ConfirmationState::Running { .. }
            | ConfirmationState::Resolved(_) => None,
        }
    }

    /// What came of an approved call goes to everybody who approved it.
    pub(super) fn answer_askers(
        &mut self,
        number: CallNumber,
        response: &Arc<ToolResponse>,
        next: ConfirmationState,
        out: &mut Vec<Output>,
    ) {
        let Some(entry) = self.confirmations.by_call(number) else {
            return;
        };
        let askers = std::mem::replace(&mut entry.state, next).askers();
        for _ in 0..askers {
            tell_client(number, response.clone(), out);
        }
    }
}
