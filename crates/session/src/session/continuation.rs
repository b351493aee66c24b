//! What an earlier session of the conversation left open, taken up by this one: questions that the user may still answer,
//! and the numbers that its calls had. Knows no store.

use super::Session;
use crate::calls::{Call, Earlier, Phase};
use crate::confirmations::{Confirmation, ConfirmationState, Question};
use crate::deadlines::Deadline;
use crate::event::{Resolution, SessionEvent};
use crate::facts::{CallFacts, Delivered, DeliveryKey};
use crate::io::{AnsweredQuestion, Continued, OpenQuestion, Output};
use crate::policy::{Completed, Effect, EffectState, Settled, confirm};
use crate::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::{Outcome, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::registry::Tool;

impl Session {
    /// The client knows calls by their numbers, so that this session's go on where those of the earlier one ended.
    pub(super) fn on_continued(&mut self, continued: Continued, out: &mut Vec<Output>) {
        self.calls.number_after(continued.last_call);
        for question in continued.questions {
            self.calls.number_after(question.call);
            self.take_up(question, out);
        }
        let known = continued.approved.iter().chain(&continued.declined);
        for call in known.filter_map(|known| known.call) {
            self.calls.number_after(call);
        }
        for question in continued.declined {
            self.remember_declined(question);
        }
        for question in continued.approved {
            self.remember_answered(question);
        }
    }

    /// How long a question may still be answered. A wall clock that was set back since it was asked does not prolong it.
    pub(super) fn left_ms(&self, expires_at_unix_ms: u64) -> u64 {
        let longest_ms = self
            .config
            .limits
            .confirmation_seconds
            .saturating_mul(1_000);
        expires_at_unix_ms
            .saturating_sub(self.unix_ms())
            .min(longest_ms)
    }

    pub(super) fn remember_declined(&mut self, question: AnsweredQuestion) {
        let response = self.declined(question.tool.as_str());
        self.remember_answered(AnsweredQuestion {
            response: Some(response),
            ..question
        });
    }

    /// Whoever sends the token again hears what came of it, for as long as it is valid.
    pub(super) fn remember_answered(&mut self, question: AnsweredQuestion) {
        let left_ms = self.left_ms(question.expires_at_unix_ms);
        let mut known = question.call.into_iter();
        if left_ms == 0 || known.any(|call| self.confirmations.by_call(call).is_some()) {
            return;
        }
        let call = question.call.unwrap_or_else(|| self.calls.next_number());
        let state = match question.response {
            Some(response) => ConfirmationState::Resolved(response),
            None => ConfirmationState::Elsewhere {
                tool: question.tool,
                askers: 0,
            },
        };
        self.confirmations.open(Confirmation {
            question: Question {
                call,
                token_hash: question.token_hash,
                effect_id: question.effect_id,
                expires_at: self.now + Duration::from_millis(left_ms),
            },
            state,
        });
    }

    /// A question counts as if this session had asked it. One whose time is up does not, and one that nobody may answer any
    /// more is closed with what whoever tries is told.
    pub(super) fn take_up(
        &mut self,
        question: OpenQuestion,
        out: &mut Vec<Output>,
    ) -> Option<Arc<ToolResponse>> {
        let left_ms = self.left_ms(question.expires_at_unix_ms);
        if left_ms == 0 || self.confirmations.by_call(question.call).is_some() {
            return None;
        }
        let expires_at = self.now + Duration::from_millis(left_ms);
        match self.may_wait_on(&question) {
            Ok(tool) => self.wait_on(question, tool, expires_at),
            Err(error) => return Some(self.close_unwaitable(question, error, expires_at, out)),
        }
        None
    }

    /// The tool that was shown, or why nobody can approve it.
    fn may_wait_on(&self, question: &OpenQuestion) -> Result<Arc<Tool>, CallError> {
        let tool = self.config.registry.get(question.tool.as_str());
        let tool = tool.filter(|tool| tool.version == question.tool_version);
        let Some(tool) = tool.filter(|tool| tool.allows(self.config.mode)) else {
            let message = format!(
                "{} has changed since you were asked, so that this approval does not count; ask for it again",
                question.tool
            );
            return Err(CallError::new(ErrorType::ConfirmationExpired, message));
        };
        match self.confirmations.busy_count() < self.config.limits.open_confirmations_max {
            true => Ok(tool.clone()),
            false => Err(confirm::too_many(tool)),
        }
    }

    fn close_unwaitable(
        &mut self,
        question: OpenQuestion,
        error: CallError,
        expires_at: Timestamp,
        out: &mut Vec<Output>,
    ) -> Arc<ToolResponse> {
        let token_hash = question.token_hash;
        out.push(Output::WithdrawConfirmation { token_hash });
        // A session that takes this one's place finds no question, and is not to guess what became of it.
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(question.call),
            resolution: Resolution::Withdrawn,
        }));
        let response = self.response_without_tool(question.tool.as_str(), error);
        self.confirmations.open(Confirmation {
            question: Question {
                call: question.call,
                token_hash,
                effect_id: question.effect_id,
                expires_at,
            },
            state: ConfirmationState::Resolved(response.clone()),
        });
        response
    }

    fn wait_on(&mut self, question: OpenQuestion, tool: Arc<Tool>, expires_at: Timestamp) {
        let earlier = self.earlier_wish(&question.fingerprint);
        let settled = self.answered_meanwhile(&tool);
        // Which turn asked is not known any more; none of this session's has begun since.
        let turn = self.turns.last_number();
        let effect = Effect {
            effect_id: Some(question.effect_id.clone()),
            wish: self.turns.wish(),
            state: EffectState::Asked(settled),
        };
        self.deliveries
            .remember_effect(question.fingerprint, effect);
        self.deadlines
            .set(Deadline::Confirmation(question.call), expires_at);
        self.confirmations.open(Confirmation {
            question: Question {
                call: question.call,
                token_hash: question.token_hash,
                effect_id: question.effect_id.clone(),
                expires_at,
            },
            state: ConfirmationState::Open(Box::new(call_of(question, tool, turn, earlier))),
        });
    }

    /// What the ledger has said of the same wish.
    pub(super) fn earlier_wish(&mut self, fingerprint: &[u8; 32]) -> Option<Earlier> {
        let effect = self.deliveries.effect(fingerprint)?;
        match &effect.state {
            EffectState::Settled { settled, .. } => Some(Earlier {
                settled: settled.clone(),
                effect_id: effect.effect_id.clone(),
                wish: effect.wish,
                is_second_wish: true,
                ran_at_lookup: false,
            }),
            EffectState::Declined { earlier, .. } => earlier.as_deref().cloned(),
            // Two questions about one wish say the same of what was before.
            EffectState::Asked(_) => {
                let asked = self.confirmations.call_like(fingerprint)?;
                asked.earlier.as_deref().cloned()
            }
            // Who looks up what became of it, or is about to ask, knows.
            EffectState::Open(number) => {
                let call = self.calls.get_mut(*number);
                let call = call.filter(|call| call.phase.may_ask())?;
                call.earlier.as_deref().cloned()
            }
            EffectState::Failed => None,
        }
    }

    /// What a model that asks for the same again is answered.
    fn answered_meanwhile(&self, tool: &Arc<Tool>) -> Settled {
        let response = Arc::new(ToolResponse {
            outcome: Outcome::Failure(confirm::required(tool).into()),
            intents: Vec::new(),
            meta: self.meta_of(tool),
        });
        Settled::refusal(response, 0)
    }
}

/// What runs if the user approves. No provider message of this session asked for it.
fn call_of(question: OpenQuestion, tool: Arc<Tool>, turn: u64, earlier: Option<Earlier>) -> Call {
    let delivered = Delivered {
        number: question.call,
        batch: 0,
        key: DeliveryKey::Question(question.call).into(),
        unstable_id: None,
        name: tool.id.as_str().into(),
        turn,
        generation: 0,
    };
    let completed = Completed {
        arguments: question.arguments,
        defaults_applied: Arc::default(),
        clamped: None,
    };
    let facts = Arc::new(CallFacts {
        delivered,
        tool,
        completed,
    });
    Call {
        fingerprint: Some(question.fingerprint),
        kept_effect: Some(question.effect_id),
        earlier: earlier.map(Box::new),
        phase: Phase::Waiting,
        ..Call::new(facts, false)
    }
}
