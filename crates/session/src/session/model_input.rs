//! What the model says, as it changes turns and calls.

use super::{Charge, Session};
use crate::client::ClientUpdate;
use crate::deadlines::Deadline;
use crate::event::SessionEvent;
use crate::facts::{Delivered, Slot};
use crate::io::Output;
use crate::model::{IncomingCall, ModelEvent, Role, UNNAMED};
use crate::policy::{Proposal, delivery_key};
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::sensitive::Sensitive;

/// What the model produces, as far as it tells what the model has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Produced {
    Words,
    Calls,
    /// Of words, perhaps of those of a message that is over.
    Transcript,
    /// Of words that were heard before, of which the provider says only now that they were an answer.
    Earlier,
}

impl Session {
    pub(super) fn on_model(&mut self, event: ModelEvent, out: &mut Vec<Output>) {
        let is_output = matches!(
            event,
            ModelEvent::Calls(_) | ModelEvent::OutputText { .. } | ModelEvent::AudioStarted
        );
        if is_output && !self.connection.discarding {
            self.turns.reacted();
        }
        match event {
            ModelEvent::Ready { .. } => self.on_ready(out),
            ModelEvent::Calls(calls) => self.on_calls(calls, out),
            ModelEvent::CallsCancelled(ids) => self.on_calls_cancelled(&ids, out),
            ModelEvent::SpeechStarted => self.heard_user(out),
            ModelEvent::SpeechEnded => self.expect_answer(),
            ModelEvent::InputTranscript { text, .. } => self.on_input_transcript(&text, out),
            ModelEvent::InputTranscribed { text } => self.on_input_transcribed(&text, out),
            ModelEvent::OutputTranscript { text, .. } => self.on_output_transcript(&text, out),
            ModelEvent::OutputText { text } => {
                if self.model_output(Produced::Words, out) {
                    self.on_output_transcript(&text, out);
                }
            }
            ModelEvent::AudioStarted => {
                self.model_output(Produced::Words, out);
            }
            ModelEvent::GenerationComplete => self.on_generation_complete(out),
            ModelEvent::Unplayed(unplayed) => self.audio_ends = self.now + unplayed,
            ModelEvent::TurnComplete { idle, unplayed, .. } => {
                self.on_turn_complete(idle, unplayed, out)
            }
            ModelEvent::Interrupted => self.on_interrupted(out),
            ModelEvent::GoAway { time_left } => self.on_go_away(time_left, out),
            ModelEvent::ResumptionUpdate { handle } => self.on_handle(handle, out),
            ModelEvent::Usage(usage) => out.push(Output::Event(SessionEvent::Usage(usage))),
            ModelEvent::Malformed { problem } => {
                out.push(Output::Event(SessionEvent::ProviderOddity { problem }));
            }
            ModelEvent::Unknown { fields } => {
                let problem = format!("unknown fields: {}", fields.join(", "));
                out.push(Output::Event(SessionEvent::ProviderOddity { problem }));
            }
        }
    }

    fn on_calls(&mut self, calls: Vec<IncomingCall>, out: &mut Vec<Output>) {
        if calls.is_empty() {
            return;
        }
        let is_void = self.connection.discarding;
        if has_bug!(self, BeginsATurnPerMessage) {
            self.end_turn(false, out);
        }
        if !is_void {
            self.model_output(Produced::Calls, out);
        }
        let Some(turn) = self.turns.current().map(|turn| turn.number) else {
            return self.refuse_void_calls(calls, out);
        };
        if is_void {
            return self.refuse_void_calls(calls, out);
        }
        let batch = self.calls.open_batch(calls.len());
        let calls_max = self.config.limits.calls_per_message_max;
        for (index, call) in calls.into_iter().enumerate() {
            self.on_call(call, batch, turn, index < calls_max, out);
        }
    }

    /// Step 1: what cannot be read is refused; nothing is guessed, repaired or dropped.
    fn on_call(
        &mut self,
        call: IncomingCall,
        batch: u64,
        turn: u64,
        is_within_limit: bool,
        out: &mut Vec<Output>,
    ) {
        let IncomingCall {
            id,
            name,
            arguments,
        } = call;
        let error = match (name, arguments) {
            (Some(name), Ok(arguments)) if is_within_limit => {
                let proposal = Proposal {
                    batch,
                    provider_id: id,
                    name,
                    arguments,
                    turn,
                };
                return self.admit(proposal, out);
            }
            (Some(name), Ok(_)) => {
                let error =
                    CallError::new(ErrorType::BudgetExceeded, "too many calls in one message");
                (name, error)
            }
            (Some(name), Err(problem)) => {
                let message = format!("the arguments are no JSON object: {problem}");
                (name, CallError::new(ErrorType::Validation, message))
            }
            (None, _) => {
                let error = CallError::new(ErrorType::Validation, "the call names no tool");
                (UNNAMED.into(), error)
            }
        };
        let (name, error) = error;
        let slot = self.slot(batch, id, name, turn);
        self.refuse(slot, error, Charge::Nothing, out);
    }

    /// Calls of an answer that the user interrupted are not run.
    fn refuse_void_calls(&mut self, calls: Vec<IncomingCall>, out: &mut Vec<Output>) {
        let batch = self.calls.open_batch(calls.len());
        for call in calls {
            let name = call.name.unwrap_or_else(|| UNNAMED.into());
            let slot = self.slot(batch, call.id, name, 0);
            let error = CallError::new(
                ErrorType::Cancelled,
                "the user interrupted before the call began",
            );
            self.refuse(slot, error, Charge::Nothing, out);
        }
    }

    fn slot(&mut self, batch: u64, id: Option<Arc<str>>, name: Arc<str>, turn: u64) -> Slot {
        let (key, unstable_id) = delivery_key(id, &name, None, turn);
        Slot::unreadable(Delivered {
            number: self.calls.next_number(),
            batch,
            key,
            unstable_id,
            name,
            turn,
            generation: self.connection.generation,
        })
    }

    fn on_input_transcript(&mut self, text: &Sensitive<String>, out: &mut Vec<Output>) {
        let piece = text.expose();
        if piece.trim().is_empty() {
            return;
        }
        self.heard_user(out);
        self.expect_answer();
        self.transcript.append(Role::User, piece);
        self.show_piece(Role::User, piece, out);
    }

    fn on_input_transcribed(&mut self, text: &Sensitive<String>, out: &mut Vec<Output>) {
        let text = text.expose().trim();
        if text.is_empty() {
            return;
        }
        out.push(Output::SendClient(ClientUpdate::Transcript {
            role: Role::User,
            text: Sensitive(text.to_owned()),
            is_final: true,
            citations: Vec::new(),
            images: Vec::new(),
        }));
        self.record_said(Role::User, text, self.current_turn(), out);
    }

    /// Transcripts may trail their turn, so that they begin none until the provider ends what they are of.
    fn on_output_transcript(&mut self, text: &Sensitive<String>, out: &mut Vec<Output>) {
        let piece = text.expose();
        if piece.is_empty() || self.connection.discarding {
            return;
        }
        if self.turns.current().is_some() {
            self.model_output(Produced::Transcript, out);
        } else {
            self.heard_provider();
            self.turns.words_alone();
        }
        self.transcript.append(Role::Assistant, piece);
        self.show_piece(Role::Assistant, piece, out);
    }

    fn show_piece(&mut self, role: Role, piece: &str, out: &mut Vec<Output>) {
        if role == Role::Assistant && self.state.get().suppress_transcript {
            return;
        }
        out.push(Output::SendClient(ClientUpdate::Transcript {
            role,
            text: Sensitive(piece.to_owned()),
            is_final: false,
            citations: Vec::new(),
            images: Vec::new(),
        }));
    }

    /// The model produces. Returns false where what it produces is void.
    fn model_output(&mut self, what: Produced, out: &mut Vec<Output>) -> bool {
        self.heard_provider();
        self.connection.plan.heard();
        if self.connection.discarding {
            return false;
        }
        self.confirm_by(what, out);
        if let Some(turn) = self.turns.model_output(self.now) {
            out.push(Output::Event(SessionEvent::TurnStarted { turn }));
        }
        self.finish_utterance(Role::User, out);
        if self.state.set_generating(true) {
            out.push(Output::SendClient(ClientUpdate::ModelGenerating));
        }
        true
    }

    /// Takes what the model produces for a reaction to what it can follow.
    fn confirm_by(&mut self, what: Produced, out: &mut Vec<Output>) {
        let messages = &mut self.connection.messages;
        let reached = match what {
            Produced::Words => Some(messages.produced()),
            Produced::Calls => Some(messages.called()),
            Produced::Transcript => messages.transcribed(),
            Produced::Earlier => None,
        };
        let Some(reached) = reached else {
            return;
        };
        self.confirm_answers(reached, out);
        if let Some(turn) = self.turns.current_mut() {
            turn.owes_words = turn.owes_words.filter(|from| *from > reached);
        }
    }

    fn on_generation_complete(&mut self, out: &mut Vec<Output>) {
        self.heard_provider();
        self.message_ended(false, out);
        self.connection.owes_turn_end = false;
        self.stop_discarding(out);
        // The answer that was interrupted is not the one to what the user said then.
        let heard = self.turns.current_mut().filter(|turn| turn.heard_model);
        if let Some(turn) = heard {
            turn.generation_complete = true;
        }
        self.state.set_generating(false);
    }

    /// The end of a message is no reaction: it may be of the very one that asked.
    fn message_ended(&mut self, with_turn: bool, _out: &mut Vec<Output>) {
        self.connection.messages.ended(with_turn);
        self.turns.message_ended();
        if has_bug!(self, TakesEndsForReactions) {
            self.confirm_answers(u64::MAX, _out);
        }
    }

    fn heard_provider(&mut self) {
        self.deadlines.clear(Deadline::ProviderSilence);
        self.deadlines.clear(Deadline::ResultSilence);
    }

    fn heard_user(&mut self, out: &mut Vec<Output>) {
        self.connection.plan.said();
        self.postpone_farewell();
        let recorded = self.transcript.recorded();
        let is_continued = self.turns.is_continued();
        if let Some(turn) = self.turns.heard_user(self.now, recorded) {
            self.begin_anew(is_continued);
            out.push(Output::Event(SessionEvent::TurnStarted { turn }));
        }
    }

    fn on_turn_complete(&mut self, idle: bool, unplayed: Duration, out: &mut Vec<Output>) {
        self.heard_provider();
        self.message_ended(true, out);
        self.state.set_generating(false);
        if std::mem::take(&mut self.connection.owes_turn_end) {
            self.stop_discarding(out);
            return;
        }
        self.stop_discarding(out);
        if !idle || self.calls.any_blocks() {
            return;
        }
        if let Some(words) = self.turns.take_words_alone() {
            self.model_output(Produced::Earlier, out);
            self.turns.heard_words_alone(&words);
        }
        self.connection.plan.proved();
        self.await_farewell(unplayed);
        self.end_turn(false, out);
    }

    fn on_interrupted(&mut self, out: &mut Vec<Output>) {
        self.heard_provider();
        self.message_ended(false, out);
        self.turns.take_words_alone();
        // Where it was not before, the answer that this ends was thrown away when the user said so here.
        if !self.connection.owes_turn_end {
            self.interrupt(out);
        }
        self.connection.is_interruption_known = self.connection.discarding;
    }

    /// Throws away the answer under way. What still comes of it is void until the provider ends it.
    pub(super) fn interrupt(&mut self, out: &mut Vec<Output>) {
        let under_way = self.turns.current().filter(|turn| turn.heard_model);
        let is_complete = under_way.is_none_or(|turn| turn.generation_complete);
        out.push(Output::DiscardAudio);
        self.audio_ends = self.now;
        self.told.discarding_audio = true;
        if under_way.is_some() {
            self.connection.owes_turn_end = true;
            self.connection.discarding = !is_complete;
        }
        out.push(Output::SendClient(ClientUpdate::Interrupted));
        if has_bug!(self, Panics) {
            unreachable!("a bug was planted");
        }
        if has_bug!(self, FloodsTheClient) {
            out.extend((0..3_000).map(|_| Output::SendClient(ClientUpdate::Interrupted)));
        }
        self.cancel_on_interrupt(out);
        if self.turns.current().is_some_and(|turn| turn.heard_model) {
            self.end_turn(true, out);
        }
        if !self.connection.discarding {
            self.stop_discarding(out);
        }
    }

    pub(super) fn stop_discarding(&mut self, out: &mut Vec<Output>) {
        self.connection.discarding = false;
        self.connection.is_interruption_known = false;
        if std::mem::take(&mut self.told.discarding_audio) {
            out.push(Output::AcceptAudio);
        }
    }
}
