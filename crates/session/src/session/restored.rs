//! A session that takes the place of one whose process has ended: what is saved of a session, and how another goes on with
//! it. Knows no store and no token, only hashes.

use super::Session;
use super::remembered::{is_untold, put_in_order};
use crate::client::ClientUpdate;
use crate::confirmations::{Confirmation, ConfirmationState, Question};
use crate::event::TurnSummary;
use crate::facts::{Delivered, DeliveryKey, Slot};
use crate::io::{LedgerEntry, OutcomeState, Output, TokenHash};
use crate::model::{HistoryEntry, Role};
use crate::policy::{Effect, EffectState, LoopHistory, Settled, confirm};
use crate::snapshot::{
    AskedQuestion, KnownQuestion, OpenTurn, QuestionState, Restored, SNAPSHOT_VERSION, Snapshot,
};
use crate::time::Timestamp;
use crate::transcript::{self, Utterance};
use crate::turn::{Turn, Turns};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::{self, Outcome, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::{CallNumber, EffectId, ToolId};
use windlass_tool::kind::Reach;
use windlass_tool::sensitive::Sensitive;

impl Session {
    /// What a session that takes this one's place has to know. What the store keeps by itself is not in it.
    pub fn snapshot(&self) -> Snapshot {
        let unanswered: Vec<u64> = self.unanswered_turns().collect();
        let open_turn = self.open_turn(&unanswered);
        let turns_begun = self.turns.last_number();
        let state = self.state.get();
        let questions = self.confirmations.iter_unresolved();
        Snapshot {
            version: SNAPSHOT_VERSION,
            began_unix_ms: self.began_unix_ms,
            history: self.history_but_for(match &open_turn {
                Some(_) => &unanswered,
                None => &[],
            }),
            pending_request: self.config.pending_request.clone().map(Sensitive),
            turns_begun: open_turn
                .as_ref()
                .map_or(turns_begun, |open| open.number.max(turns_begun)),
            inputs: self.turns.inputs(),
            open_turn,
            waiting_texts: self.connection.waiting_texts.clone(),
            last_call: self.calls.last_number(),
            questions: questions
                .map(|question| AskedQuestion {
                    call: question.call,
                    token_hash: question.token_hash,
                })
                .collect(),
            pending_end: state.pending_end.clone().map(Sensitive),
            pending_message: state.pending_message.clone().map(Sensitive),
            external_in_context: self.external_in_context,
            blocks_made: self.blocks_made,
        }
    }

    /// The turn under way, where the model has not said everything and the user's words are known, with what the user said into
    /// the answer; else the turn that this begins.
    fn open_turn(&self, unanswered: &[u64]) -> Option<OpenTurn> {
        let number = *unanswered.first()?;
        let words = self.words_of(unanswered);
        let current = self.turns.current();
        let current = current.filter(|turn| turn.number == number);
        (!words.is_empty()).then(|| OpenTurn {
            number,
            words: Sensitive(words),
            summary: current.map_or_else(TurnSummary::default, |turn| turn.summary),
            loops: current.map_or_else(
                || LoopHistory::default().saved(),
                |turn| turn.history.saved(),
            ),
        })
    }

    /// The newest of what was said, within the limit of a transcript.
    fn history_but_for(&self, unanswered: &[u64]) -> Vec<HistoryEntry> {
        let said = self.transcript.after(0);
        let said = said.filter(|entry| !unanswered.contains(&entry.turn));
        let mut history = self.config.history.clone();
        history.extend(said.map(|entry| HistoryEntry {
            role: entry.role,
            text: entry.text.clone(),
        }));
        let mut room = self.config.limits.transcript_characters_max;
        for entry in &mut history {
            transcript::cut(&mut entry.text, room);
        }
        let kept = history
            .iter()
            .rev()
            .take_while(|entry| match room.checked_sub(entry.text.expose().len()) {
                Some(left) => {
                    room = left;
                    true
                }
                None => false,
            })
            .count();
        history.drain(..history.len() - kept);
        history
    }

    /// Goes on where another session stopped. The provider's connection is gone with it, and so are its calls.
    pub(super) fn on_restored(&mut self, restored: Restored, out: &mut Vec<Output>) {
        let Restored {
            snapshot,
            mut effects,
            has_read,
            questions,
        } = restored;
        put_in_order(&mut effects);
        // Sessions of another line have counted their own user's words.
        let is_its_own = |entry: &LedgerEntry| match entry.wish.line {
            Some(line) => line == snapshot.began_unix_ms,
            None => entry.reserved_at_unix_ms >= snapshot.began_unix_ms,
        };
        for foreign in effects.iter_mut().filter(|entry| !is_its_own(entry)) {
            foreign.wish.input = 0;
        }
        self.began_unix_ms = snapshot.began_unix_ms;
        self.external_in_context = snapshot.external_in_context || has_read;
        self.blocks_made = snapshot.blocks_made;
        if !has_bug!(self, CountsAnew) {
            self.calls.number_after(snapshot.last_call);
        }
        self.connection.is_lost = true;
        self.take_up_turns(snapshot.turns_begun, snapshot.inputs, snapshot.open_turn);
        self.connection.waiting_texts = snapshot.waiting_texts;
        self.state.restore(
            snapshot.pending_end.map(Sensitive::into_inner),
            snapshot.pending_message.map(Sensitive::into_inner),
        );
        self.end_if_due(out);
        self.remember_ledger(effects.clone(), out);
        if self.connection.unanswered.is_some() {
            let asked = self.turns.inputs();
            let done = self
                .deliveries
                .settled_with(|effect, _| effect.wish.input == asked);
            self.put_again(done);
        }
        for entry in effects
            .iter()
            .filter(|entry| is_untold(entry) && !entry.is_under_way && is_its_own(entry))
        {
            self.tell_late(entry, out);
        }
        for question in &questions {
            let asked = snapshot.questions.iter();
            let known = asked.filter(|asked| asked.token_hash == question.token_hash);
            let known = known.map(|asked| asked.call).next();
            self.take_up_question(question, known, &effects, out);
        }
        let has = |hash: &TokenHash| questions.iter().any(|one| one.token_hash == *hash);
        for asked in snapshot
            .questions
            .iter()
            .filter(|one| !has(&one.token_hash))
        {
            let error = CallError::new(
                ErrorType::ConfirmationExpired,
                "the question is not open any more: its time is up, or it was taken back",
            );
            let response = self.response_without_tool("confirm", error);
            tell_client(asked.call, response, out);
        }
    }

    fn take_up_turns(&mut self, turns_begun: u64, inputs: u64, open: Option<OpenTurn>) {
        let Some(open) = open else {
            self.turns = Turns::restored(turns_begun, inputs, None);
            return;
        };
        let loops = LoopHistory::restored(open.loops, &self.config.limits.turn);
        let turn = Turn::restored(open.number, self.now, open.summary, loops);
        self.turns = Turns::restored(turns_begun, inputs, Some(turn));
        let words = open.words.into_inner();
        let utterance = Utterance {
            role: Role::User,
            text: words.clone(),
            citations: Vec::new(),
            images: Vec::new(),
        };
        let characters_max = self.config.limits.transcript_characters_max;
        self.transcript
            .record(utterance.entry(self.now, open.number), characters_max);
        // The same wish as before: it begins no turn and earns no new budget.
        self.connection.unanswered = Some(words);
    }

    /// The answer of an effect that no model was given is told to this one, unless it asks for it before.
    pub(super) fn tell_late(&mut self, entry: &LedgerEntry, out: &mut Vec<Output>) {
        let is_its = |effect_id: &Option<EffectId>| effect_id.as_ref() == Some(&entry.effect_id);
        let known = self.deliveries.effect(&entry.fingerprint);
        let known = known.filter(|effect| match &effect.state {
            EffectState::Declined { earlier, .. } => {
                let earlier = earlier.as_deref();
                earlier.is_some_and(|earlier| is_its(&earlier.effect_id))
            }
            EffectState::Settled { .. }
            | EffectState::Open(_)
            | EffectState::Asked(_)
            | EffectState::Failed => is_its(&effect.effect_id),
        });
        let settled = match (known.map(|effect| &effect.state), &entry.response) {
            (Some(EffectState::Settled { settled, .. }), _) => settled.clone(),
            (
                Some(EffectState::Declined {
                    earlier: Some(earlier),
                    ..
                }),
                _,
            ) => earlier.settled.clone(),
            (Some(EffectState::Failed), Some(response)) => Settled {
                effect_id: Some(entry.effect_id.clone()),
                ..self.settled(response.clone(), self.is_quoted(&entry.tool))
            },
            (
                Some(
                    EffectState::Failed
                    | EffectState::Open(_)
                    | EffectState::Asked(_)
                    | EffectState::Declined { .. },
                )
                | None,
                _,
            ) => return,
        };
        let slot = self.slot_of(&entry.tool, &entry.effect_id);
        let tool = self.config.registry.get(entry.tool.as_str());
        let scheduling = tool.and_then(|tool| {
            self.scheduling_of(tool, self.blocks(tool), None, settled.response.is_ok())
        });
        self.keep_late(&slot, &settled, scheduling, out);
    }

    /// A question that was asked before, with what became of it. `known` is the number under which the client still waits
    /// for its end.
    fn take_up_question(
        &mut self,
        question: &KnownQuestion,
        known: Option<CallNumber>,
        effects: &[LedgerEntry],
        out: &mut Vec<Output>,
    ) {
        let number = known.unwrap_or_else(|| self.calls.next_number());
        let (response, state) = match question.state {
            QuestionState::Open if has_bug!(self, LosesQuestions) => return,
            QuestionState::Open => {
                let closed = self.take_up(question.clone().open_as(number), out);
                if let Some(response) = closed.filter(|_| known.is_some()) {
                    tell_client(number, response, out);
                }
                return;
            }
            QuestionState::Declined => {
                let response = self.take_up_refusal(question);
                (response.clone(), ConfirmationState::Resolved(response))
            }
            QuestionState::Consumed => self.take_up_approval(question, effects),
        };
        let question = self.question_of(question, number);
        self.confirmations.open(Confirmation { question, state });
        if known.is_some() {
            tell_client(number, response, out);
        }
    }

    /// What came of an approval. What nobody knows yet may be known when the token comes again.
    fn take_up_approval(
        &self,
        question: &KnownQuestion,
        effects: &[LedgerEntry],
    ) -> (Arc<ToolResponse>, ConfirmationState) {
        let mut entries = effects.iter();
        let entry = entries.find(|entry| entry.effect_id == question.effect_id);
        let response = match entry {
            Some(entry) => self.answer_in_ledger(entry),
            None => self.lost_answer(&question.tool),
        };
        let state = match entry.filter(|entry| entry.state != OutcomeState::Unknown) {
            Some(_) => ConfirmationState::Resolved(response.clone()),
            None => ConfirmationState::Elsewhere {
                tool: question.tool.clone(),
                askers: 0,
            },
        };
        (response, state)
    }

    /// The user said no: a model that asks again gets that, and the user no question.
    fn take_up_refusal(&mut self, question: &KnownQuestion) -> Arc<ToolResponse> {
        let response = self.declined(question.tool.as_str());
        let is_known = self.deliveries.effect(&question.fingerprint).is_some();
        let earlier = self.earlier_wish(&question.fingerprint);
        // The user was asked because nobody knew.
        let doubtful = earlier.filter(|earlier| {
            earlier.is_unknown() && earlier.effect_id.as_ref() == Some(&question.effect_id)
        });
        if !is_known || doubtful.is_some() {
            let effect = Effect {
                effect_id: doubtful.as_ref().map(|_| question.effect_id.clone()),
                wish: self.turns.wish(),
                state: EffectState::Declined {
                    settled: self.settled(response.clone(), false),
                    earlier: doubtful.map(Box::new),
                },
            };
            self.deliveries
                .remember_effect(question.fingerprint, effect);
        }
        response
    }

    /// What whoever answers a question once more is told that the user has declined.
    pub(super) fn declined(&self, tool: &str) -> Arc<ToolResponse> {
        let error = confirm::declined();
        self.response_without_tool(tool, error)
    }

    pub(super) fn answer_in_ledger(&self, entry: &LedgerEntry) -> Arc<ToolResponse> {
        match (entry.state, &entry.response) {
            (_, Some(response)) => response.clone(),
            (OutcomeState::Succeeded, None) => self.kept_without_details(&entry.tool),
            (OutcomeState::Unknown, None) => self.lost_answer(&entry.tool),
            (OutcomeState::Failed, None) => {
                let message = format!("{} was not done", entry.tool);
                let error = CallError::new(ErrorType::Cancelled, message);
                self.response_without_tool(entry.tool.as_str(), error)
            }
        }
    }

    fn question_of(&self, question: &KnownQuestion, call: CallNumber) -> Question {
        let left_ms = self.left_ms(question.expires_at_unix_ms);
        let expires_at: Timestamp = self.now + Duration::from_millis(left_ms);
        Question {
            call,
            token_hash: question.token_hash,
            effect_id: question.effect_id.clone(),
            expires_at,
        }
    }

    /// The place of a call whose provider message is gone: nothing answers it there.
    fn slot_of(&mut self, tool: &ToolId, effect_id: &EffectId) -> Slot {
        Slot::unreadable(Delivered {
            number: self.calls.next_number(),
            batch: 0,
            key: DeliveryKey::Effect(effect_id.clone()).into(),
            unstable_id: None,
            name: tool.clone().into(),
            turn: self.turns.last_number(),
            generation: 0,
        })
    }

    fn settled(&self, response: Arc<ToolResponse>, quoted: bool) -> Settled {
        Settled {
            quoted,
            ..Settled::refusal(response, self.turns.last_number())
        }
    }

    fn is_quoted(&self, tool: &ToolId) -> bool {
        let tool = self.config.registry.get(tool.as_str());
        tool.is_none_or(|tool| tool.reach == Reach::External)
    }

    pub(super) fn response_without_tool(&self, name: &str, error: CallError) -> Arc<ToolResponse> {
        let version = self.config.registry.version().clone();
        Arc::new(ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta: envelope::meta_without_tool(name, version, self.unix_ms()),
        })
    }
}

pub(super) fn tell_client(call: CallNumber, response: Arc<ToolResponse>, out: &mut Vec<Output>) {
    out.push(Output::SendClient(ClientUpdate::ConfirmationResult {
        call: Some(call),
        response: Sensitive(response),
    }));
}
