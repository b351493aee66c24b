//! Where a turn of a conversation is written: the record that its client reads, and the one answer that a confirmation waits
//! for. Knows no format.

use super::conversation::{Asked, Conversation};
use super::record::TurnWriter;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_runtime::effects::{Beside, Ended};
use windlass_runtime::text::ui_stream::UiStream;
use windlass_runtime::text::{FinishReason, TurnEnd, TurnSink};
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode};
use windlass_session::event::SessionEvent;
use windlass_session::io::TokenHash;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::{CallNumber, ClientId, EffectId, UserId};
use windlass_tool::sensitive::Sensitive;

pub(super) struct ChatSink {
    pub(super) conversation: Arc<Conversation>,
    /// Who is asked what the turn asks.
    pub(super) user_id: UserId,
    pub(super) client_id: ClientId,
    pub(super) stream: UiStream<TurnWriter>,
    /// Who waits for what came of a confirmation.
    pub(super) answer: Option<oneshot::Sender<Arc<ToolResponse>>>,
    /// What is answered is a message, and not a question's answer.
    pub(super) is_message: bool,
    /// The answer did not come to its end, so that its message is taken up again when it comes again.
    pub(super) is_broken_off: bool,
    /// What is written is no answer that its message is to get again.
    pub(super) answers_nothing: bool,
    /// What was answered is no question of the conversation's.
    pub(super) has_nobodys_token: bool,
    /// A call that changes something has begun, which a message that is sent again must not begin once more.
    pub(super) has_changed: bool,
    /// Changes of whose ends the turn has spoken.
    pub(super) answered: Vec<EffectId>,
}

impl ChatSink {
    fn asked(&self, token_hash: TokenHash) -> Asked {
        Asked {
            token_hash,
            user_id: self.user_id.clone(),
            client_id: Some(self.client_id.clone()),
            by_voice: false,
            is_here: true,
        }
    }
}

impl TurnSink for ChatSink {
    fn step(&mut self) {
        self.stream.step();
    }

    fn client(&mut self, update: &ClientUpdate) {
        self.stream.client(update);
    }

    fn confirmed(&mut self, call: Option<CallNumber>, response: &Arc<ToolResponse>) {
        // A token of nobody's, or one that may be shown again because nothing was begun.
        let is_retryable = response.error().is_some_and(|error| error.retryable);
        self.has_nobodys_token |= call.is_none();
        let is_no_answer = call.is_none() || (is_retryable && !self.has_changed);
        self.answers_nothing |= is_no_answer && !self.is_message;
        if let Some(answer) = self.answer.take() {
            // Whoever asked may have left.
            let _ = answer.send(response.clone());
        }
        self.stream.confirmed(call, response);
    }

    fn event(&mut self, event: &SessionEvent) {
        if let SessionEvent::CallStarted(started) = event {
            self.has_changed |= started.tool().writes();
        }
        self.stream.event(event);
    }

    fn asks(&mut self, question: &ConfirmationQuestion, token: &Sensitive<String>) {
        self.conversation.has_asked(self.asked(question.token_hash));
        self.stream.asks(question, token);
    }

    fn beside_question(&mut self, user_id: &UserId, ended: Ended) -> Option<Beside> {
        // The one that is being asked is the last.
        let (token_hash, _) = ended.questions.last().copied()?;
        let asked = self.asked(token_hash);
        let conversation = &self.conversation;
        Some(conversation.beside_question(user_id.clone(), ended, asked))
    }

    fn answered(&mut self, effects: Vec<EffectId>) -> Vec<EffectId> {
        self.answered = effects;
        Vec::new()
    }

    fn failed(&mut self, code: ErrorCode, message: &str) {
        self.stream.failed(code, message);
    }

    /// The voice session may begin as soon as the client has read of it, so it finds its request before that.
    fn finished(&mut self, end: &TurnEnd) {
        let is_broken = matches!(end.reason, FinishReason::Cancelled | FinishReason::Failed);
        match self.is_message {
            true => self.is_broken_off = is_broken,
            false => self.answers_nothing |= is_broken && !self.has_changed,
        }
        if let Some(message) = &end.voice_session_start {
            let pending = message.get("pendingRequest").and_then(Value::as_str);
            self.conversation.ask_by_voice(pending.map(str::to_owned));
        }
        self.stream.finished(end);
    }

    fn flush(&mut self) {
        self.stream.flush();
    }
}
