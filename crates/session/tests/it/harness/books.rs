//! What a store would keep of one conversation, and the session that takes the place of another. What a script brings of
//! earlier sessions is not in these books.

use std::collections::{BTreeMap, BTreeSet};
use windlass_session::io::{Begun, Input, LedgerEntry, OutcomeState, Output, TokenHash};
use windlass_session::snapshot::{KnownQuestion, QuestionState, Restored, Snapshot};
use windlass_tool::id::{CallNumber, EffectId};

#[derive(Default)]
pub(super) struct Books {
    effects: BTreeMap<EffectId, LedgerEntry>,
    /// Effects of earlier sessions of which nobody knows how they ended.
    doubtful: BTreeSet<EffectId>,
    questions: BTreeMap<TokenHash, KnownQuestion>,
    /// What the store is being asked to reserve, with the token that is used up by it.
    reserving: Option<(LedgerEntry, Option<TokenHash>)>,
    /// What was asked last for each call, until the store has answered.
    asked: BTreeMap<CallNumber, KnownQuestion>,
}

impl Books {
    pub(super) fn write(&mut self, output: &Output) {
        match output {
            Output::RequestConfirmation(request) => {
                if let Some(old) = &request.replaces {
                    self.questions.remove(old);
                }
                let question = KnownQuestion {
                    token_hash: [0; 32],
                    effect_id: EffectId::new(""),
                    tool: request.tool.clone(),
                    tool_version: request.tool_version.clone(),
                    fingerprint: request.fingerprint,
                    arguments: request.arguments.clone(),
                    state: QuestionState::Open,
                    expires_at_unix_ms: 0,
                };
                self.asked.insert(request.call, question);
            }
            Output::DeclineConfirmation { token_hash } => {
                self.answer(token_hash, QuestionState::Declined);
            }
            Output::WithdrawConfirmation { token_hash } => {
                self.questions.remove(token_hash);
            }
            Output::MarkAnswered { effect_id } => {
                if let Some(effect) = self.effects.get_mut(effect_id) {
                    effect.is_answered = true;
                }
            }
            Output::RecordOutcome(record) => {
                if let Some(effect) = self.effects.get_mut(&record.effect_id) {
                    effect.state = record.state;
                    effect.response = record.response.clone().map(|response| response.0);
                }
            }
            Output::Reserve(request) => {
                let entry = LedgerEntry {
                    fingerprint: request.fingerprint,
                    effect_id: EffectId::new(""),
                    tool: request.tool.clone(),
                    state: OutcomeState::Unknown,
                    response: None,
                    is_answered: false,
                    is_under_way: false,
                    // By the session itself.
                    reserved_at_unix_ms: u64::MAX,
                    wish: request.wish,
                };
                self.reserving = Some((entry, request.grant));
            }
            _ => {}
        }
    }

    fn answer(&mut self, token: &TokenHash, state: QuestionState) {
        if let Some(question) = self.questions.get_mut(token) {
            question.state = state;
        }
    }

    /// What a session is told of earlier ones.
    pub(super) fn hear(&mut self, input: &Input) {
        if let Input::Ledger(Ok(remembered)) = input {
            let effects = remembered.effects.iter();
            let doubtful = effects.filter(|effect| effect.state == OutcomeState::Unknown);
            let ids = doubtful.map(|effect| effect.effect_id.clone());
            self.doubtful.extend(ids);
        }
    }

    /// The effect that was just asked to be reserved gets its id.
    pub(super) fn reserved(&mut self, effect_id: &EffectId) -> Begun {
        let known = self.effects.get(effect_id);
        let may_be_done = match known {
            Some(known) => known.state == OutcomeState::Unknown,
            None => self.doubtful.contains(effect_id),
        };
        let (entry, grant) = self.reserving.take().unwrap();
        if let Some(token) = grant {
            self.answer(&token, QuestionState::Consumed);
        }
        let effect_id = effect_id.clone();
        let entry = LedgerEntry {
            effect_id: effect_id.clone(),
            ..entry
        };
        self.effects.insert(effect_id.clone(), entry);
        Begun {
            effect_id,
            may_be_done,
        }
    }

    pub(super) fn proposed(
        &mut self,
        call: CallNumber,
        effect_id: &EffectId,
        token_hash: TokenHash,
        expires_at_unix_ms: u64,
    ) {
        let question = KnownQuestion {
            token_hash,
            effect_id: effect_id.clone(),
            expires_at_unix_ms,
            ..self.asked.remove(&call).unwrap()
        };
        self.questions.insert(token_hash, question);
    }

    /// What a session is given that goes on at this time.
    pub(super) fn restored(&self, snapshot: Snapshot, now_unix_ms: u64) -> Restored {
        let effects: Vec<LedgerEntry> = self.effects.values().cloned().collect();
        let questions = self.questions.values();
        Restored {
            snapshot,
            questions: questions
                .filter(|question| question.expires_at_unix_ms > now_unix_ms)
                .cloned()
                .collect(),
            effects,
            has_read: false,
        }
    }
}
