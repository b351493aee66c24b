//! The outlets of a conversation's turn: the record that its client reads, and the one answer that a confirmation waits for. Knows no
//! format.

use super::confirm::asked_json;
use super::conversation::{Confirmation, Conversation};
use super::delivery::asked_entry;
use super::record::TurnWriter;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_contract::id::ClientId;
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::text::ui_stream::UiStream;
use windlass_runtime::text::{Confirmed, FinishReason, TurnEnd, TurnSink};
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode};
use windlass_session::event::SessionEvent;
use windlass_store::NewEntry;

pub(super) struct ChatSink {
    pub(super) conversation: Arc<Conversation>,
    /// The client that gets the turn's approval requests, if it is not the conversation's owner.
    pub(super) asks_client: Option<ClientId>,
    pub(super) stream: UiStream<TurnWriter>,
    /// The receiver of a confirmation's outcome.
    pub(super) waiting: Option<oneshot::Sender<Confirmation>>,
    /// Bytes of an entry of the log.
    pub(super) entry_bytes_max: usize,
    /// The new approval request in place of the answered one.
    pub(super) asked_anew: Option<Value>,
    /// The turn answers a message, and not an approval request.
    pub(super) is_message: bool,
    /// The answer did not come to its end, so that its message is taken up again when it comes again.
    pub(super) is_broken_off: bool,
    /// The written text is no answer to keep for its message.
    pub(super) answers_nothing: bool,
    /// A call that changes something has begun, which a message that is sent again must not begin once more.
    pub(super) has_changed: bool,
    /// The last call that ended is an effect of the ledger.
    pub(super) has_effect: bool,
    /// The log entries of the turn, beside those of its session.
    pub(super) entries: Vec<NewEntry>,
}

impl TurnSink for ChatSink {
    fn step(&mut self) {
        self.stream.step();
    }

    fn client(&mut self, update: &ClientUpdate) {
        self.stream.client(update);
    }

    fn confirmed(&mut self, confirmed: &Confirmed<'_>) {
        // The token belongs to no call, or the answer was not taken and counts when it comes again.
        let is_no_answer = confirmed.call.is_none() || confirmed.is_open;
        self.answers_nothing |= is_no_answer && !self.is_message;
        let confirmation = Confirmation::of(confirmed, self.asked_anew.take());
        // The ledger has the outcome of an effect.
        let has_effect = std::mem::take(&mut self.has_effect);
        if let Some((question, approved)) = confirmed.answer.filter(|_| !has_effect) {
            let entry = confirmation.entry(question, approved, self.entry_bytes_max);
            self.entries.extend(entry);
        }
        if let Some(waiting) = self.waiting.take() {
            // The client may have left.
            let _ = waiting.send(confirmation);
        }
        self.stream.confirmed(confirmed);
    }

    fn event(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::CallStarted(started) => self.has_changed |= started.tool().writes(),
            SessionEvent::CallFinished(record) if record.parent().is_none() => {
                self.has_effect = record.effect_id.is_some();
            }
            _ => {}
        }
        self.stream.event(event);
    }

    fn asks(&mut self, question: &ConfirmationQuestion, token: &Sensitive<String>) {
        if let Some(client) = &self.asks_client {
            self.entries.push(asked_entry(question.question, client));
        }
        if self.waiting.is_some() {
            self.asked_anew = Some(asked_json(question, token, Mode::Text));
        }
        self.stream.asks(question, token);
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
