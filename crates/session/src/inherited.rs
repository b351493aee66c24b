//! What a session that goes on with a conversation inherits of the questions that earlier ones have asked, worked out from
//! what the store has of each. Knows no store.

use crate::io::{AnsweredQuestion, Continued, FoundQuestion, LedgerEntry, OpenQuestion, TokenHash};
use crate::snapshot::{KnownQuestion, QuestionState};
use std::sync::Arc;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::CallNumber;

impl Continued {
    /// `last_call` is the highest number that a call had, `numbers` those by which the client knows the calls of its questions,
    /// `questions` the user's whose time is not up, and `ledger` has the conversation's effects.
    pub fn of(
        last_call: CallNumber,
        numbers: &[(TokenHash, CallNumber)],
        questions: impl IntoIterator<Item = KnownQuestion>,
        ledger: &[LedgerEntry],
    ) -> Self {
        let mut continued = Self {
            last_call,
            questions: Vec::new(),
            approved: Vec::new(),
            declined: Vec::new(),
        };
        for question in questions {
            let of_it = |(hash, _): &&(TokenHash, CallNumber)| *hash == question.token_hash;
            let known = numbers.iter().find(of_it).map(|(_, call)| *call);
            match (question.state, known) {
                (QuestionState::Open, known) => {
                    // One that was asked after the last word of its session was written down.
                    let next = CallNumber(continued.last_call.0.saturating_add(1));
                    let call = known.unwrap_or(next);
                    continued.last_call = continued.last_call.max(call);
                    continued.questions.push(question.open_as(call));
                }
                // Whoever sends its token again hears what came of it.
                (QuestionState::Consumed, Some(call)) => {
                    let of_it = |entry: &&LedgerEntry| entry.effect_id == question.effect_id;
                    let entry = ledger.iter().find(of_it);
                    continued.approved.push(AnsweredQuestion {
                        response: entry.and_then(|entry| entry.response.clone()),
                        ..question.answered_as(Some(call))
                    });
                }
                (QuestionState::Declined, call) => {
                    continued.declined.push(question.answered_as(call));
                }
                (QuestionState::Consumed, None) => {}
            }
        }
        continued
    }
}

impl FoundQuestion {
    /// One that another session of the conversation has asked, and what came of it, where that is known.
    pub fn of(question: KnownQuestion, response: Option<Arc<ToolResponse>>) -> Self {
        let state = question.state;
        if state == QuestionState::Open {
            return Self::Open(question.open_as(CallNumber(0)));
        }
        let answered = AnsweredQuestion {
            response,
            ..question.answered_as(None)
        };
        match state {
            QuestionState::Declined => Self::Declined(answered),
            QuestionState::Open | QuestionState::Consumed => Self::Approved(answered),
        }
    }
}

impl KnownQuestion {
    /// As one that the user may still answer, under the number by which the client knows its call.
    pub(crate) fn open_as(self, call: CallNumber) -> OpenQuestion {
        OpenQuestion {
            call,
            token_hash: self.token_hash,
            effect_id: self.effect_id,
            tool: self.tool,
            tool_version: self.tool_version,
            fingerprint: self.fingerprint,
            arguments: self.arguments,
            expires_at_unix_ms: self.expires_at_unix_ms,
        }
    }

    fn answered_as(self, call: Option<CallNumber>) -> AnsweredQuestion {
        AnsweredQuestion {
            call,
            token_hash: self.token_hash,
            effect_id: self.effect_id,
            tool: self.tool,
            response: None,
            expires_at_unix_ms: self.expires_at_unix_ms,
        }
    }
}
