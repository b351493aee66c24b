//! Questions that another session of the conversation has asked. What was approved there may be under way yet: whoever approves
//! it once more waits for what comes of it, as if the change were made here. What nobody has answered there is taken up here.
//! Knows no store and no other session; the driver sees both.

use super::Session;
use super::restored::tell_client;
use crate::confirmations::{Confirmation, ConfirmationState};
use crate::deadlines::Deadline;
use crate::event::{Resolution, SessionEvent};
use crate::io::{
    FoundQuestion, LedgerEntry, OpenQuestion, OutcomeState, Output, ReservationError, TokenHash,
};
use crate::policy::EffectState;
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::{CallNumber, ToolId};
use windlass_tool::registry::TIMEOUT_MS_MAX;

/// Answers with tokens of which this session knows nothing that wait for the store at one time; further ones are refused.
pub(super) const SOUGHT_MAX: usize = 16;

impl Session {
    /// No question of this session's has the token. An earlier one may have asked it: whoever approved there and sends the
    /// token again is to hear what came of it.
    pub(super) fn seek_approval(
        &mut self,
        token_hash: TokenHash,
        approved: bool,
        out: &mut Vec<Output>,
    ) {
        if self.sought.len() >= SOUGHT_MAX {
            return self.refuse_token(None, out);
        }
        let is_asked = self.sought.iter().any(|(sought, _)| *sought == token_hash);
        self.sought.push((token_hash, approved));
        if is_asked {
            return;
        }
        if !self.deadlines.is_set(Deadline::Approvals) {
            let patience = Duration::from_millis(self.config.limits.reserve_timeout_ms);
            self.deadlines.set(Deadline::Approvals, self.now + patience);
        }
        out.push(Output::FindApproval { token_hash });
    }

    pub(super) fn on_approval_found(
        &mut self,
        token_hash: TokenHash,
        found: Result<Option<Box<FoundQuestion>>, ReservationError>,
        out: &mut Vec<Output>,
    ) {
        let is_its = |(sought, _): &mut (TokenHash, bool)| *sought == token_hash;
        let mut answers: Vec<_> = self.sought.extract_if(.., is_its).collect();
        if self.sought.is_empty() {
            self.deadlines.clear(Deadline::Approvals);
        }
        if self.unheard_refusals.contains(&token_hash) {
            answers
                .iter_mut()
                .for_each(|(_, approved)| *approved = false);
        }
        match found {
            _ if answers.is_empty() => return,
            Ok(Some(question)) => match *question {
                // What it is about may have been begun before, which the ledger alone says.
                FoundQuestion::Open(_) if !self.unsettled.is_ledger_read => {
                    return self.cannot_tell(answers, out);
                }
                FoundQuestion::Open(question) => {
                    let is_no = answers.first().is_some_and(|(_, approved)| !approved);
                    self.take_up_found(question, is_no, out);
                }
                FoundQuestion::Approved(question) => self.remember_answered(question),
                FoundQuestion::Declined(question) => self.remember_declined(question),
            },
            Ok(None) => {}
            Err(_) => return self.cannot_tell(answers, out),
        }
        for (_, approved) in answers {
            match self.confirmations.call_of(&token_hash) {
                Some(_) => self.on_confirm(token_hash, approved, out),
                None => self.refuse_token(None, out),
            }
        }
    }

    /// The session that asked it is gone: it counts as if this one had asked, and in the place of this one's own question about
    /// the same wish. Where that has been approved, the user says yes to what is done already.
    fn take_up_found(&mut self, question: OpenQuestion, is_no: bool, out: &mut Vec<Output>) {
        let effect = self.deliveries.effect(&question.fingerprint);
        if let Some(EffectState::Open(number)) = effect.map(|effect| &effect.state) {
            let call = self.calls.get_mut(*number);
            let is_stoppable = call.is_some_and(|call| call.is_stoppable());
            // What runs here does so by another right; a no to the question stays one.
            match is_no {
                true if is_stoppable => {}
                true => return self.decline_found(question, out),
                false => return,
            }
        }
        let own = self.confirmations.open_like(&question.fingerprint);
        if let Some(own) = own.map(|own| own.call) {
            self.withdraw(own, out);
        }
        let token_hash = question.token_hash;
        let call = self.calls.next_number();
        self.take_up(OpenQuestion { call, ..question }, out);
        if is_no && self.confirmations.call_of(&token_hash).is_none() {
            // Its time is up by this session's clock. By that of a later one it may not be.
            out.push(Output::DeclineConfirmation { token_hash });
        }
    }

    /// The store takes longer than anybody waits.
    pub(super) fn give_up_seeking(&mut self, out: &mut Vec<Output>) {
        self.deadlines.clear(Deadline::Approvals);
        let answers = std::mem::take(&mut self.sought);
        self.cannot_tell(answers, out);
    }

    /// A no counts, whenever the store hears of it.
    fn keep_refusal(&mut self, token_hash: TokenHash, out: &mut Vec<Output>) {
        out.push(Output::DeclineConfirmation { token_hash });
        let unheard = &mut self.unheard_refusals;
        unheard.retain(|unheard| *unheard != token_hash);
        if unheard.len() >= SOUGHT_MAX {
            unheard.remove(0);
        }
        unheard.push(token_hash);
    }

    fn cannot_tell(&mut self, answers: Vec<(TokenHash, bool)>, out: &mut Vec<Output>) {
        for (token_hash, approved) in answers {
            if !approved {
                self.keep_refusal(token_hash, out);
            }
            let error = CallError::new(
                ErrorType::Transient,
                "whether this approval counts cannot be told, because the store does not answer; send it again",
            );
            self.refuse_answer(None, error, out);
        }
    }

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
        if self.hear_news(number, entry, out) {
            return;
        }
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
        let message =
            format!("{tool} was approved before and is still under way; ask again in a moment");
        let error = CallError::new(ErrorType::OutcomeUnknown, message);
        let response = self.response_without_tool(tool.as_str(), error);
        let elsewhere = ConfirmationState::Elsewhere { tool, askers: 0 };
        self.answer_askers(number, &response, elsewhere, out);
    }

    /// The session ends: whoever waits for another one's change hears that it goes on.
    pub(super) fn give_up_waiting(&mut self, out: &mut Vec<Output>) {
        self.give_up_seeking(out);
        for number in self.confirmations.awaited_elsewhere() {
            self.deadlines.clear(Deadline::Elsewhere(number));
            self.on_elsewhere_timeout(number, out);
        }
    }

    /// The user approves what was begun by another right meanwhile: there is nothing left to begin, and the user hears what comes
    /// of that.
    pub(super) fn await_run_beside(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let Some((call, question)) = self.confirmations.take_open(number) else {
            return;
        };
        let token_hash = question.token_hash;
        out.push(Output::WithdrawConfirmation { token_hash });
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(number),
            resolution: Resolution::Withdrawn,
        }));
        self.confirmations.open(Confirmation {
            question,
            state: ConfirmationState::Elsewhere {
                tool: call.tool().id.clone(),
                askers: 0,
            },
        });
        self.await_effect(number, out);
    }

    /// The tool of a question of which somebody waits to hear the end.
    fn awaited(&mut self, number: CallNumber) -> Option<ToolId> {
        match &self.confirmations.by_call(number)?.state {
            ConfirmationState::Elsewhere { tool, askers } if *askers > 0 => Some(tool.clone()),
            ConfirmationState::Elsewhere { .. }
            | ConfirmationState::Open(_)
            | ConfirmationState::Running { .. }
            | ConfirmationState::Declined(_)
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
        let mut askers = std::mem::replace(&mut entry.state, next).askers();
        if has_bug!(self, AnswersOneClick) {
            askers = askers.min(1);
        }
        for _ in 0..askers {
            tell_client(number, response.clone(), out);
        }
    }
}
