//! What the client sends, as it changes turns and the session's end.

use super::Session;
use crate::client::{ClientEvent, ErrorCode, MessageKey};
use crate::deadlines::Deadline;
use crate::event::{EndReason, SessionEvent};
use crate::io::Output;
use crate::model::{ModelCommand, Role};
use crate::snapshot::WaitingText;
use std::time::Duration;
use windlass_tool::sensitive::Sensitive;

/// Typed messages that wait for the provider; more are refused.
pub(super) const WAITING_TEXTS_MAX: usize = 8;

impl Session {
    pub(super) fn on_client(&mut self, event: ClientEvent, out: &mut Vec<Output>) {
        match event {
            ClientEvent::Text { text, message } => {
                self.user_text(text.into_inner(), message, out);
            }
            ClientEvent::Image { mime_type, data } => {
                if self.config.profile.vision {
                    if self.connection.is_lost {
                        // What the camera sees by then is worth more than what it saw.
                        return;
                    }
                    out.push(Output::SendModel(ModelCommand::Image { mime_type, data }));
                } else {
                    self.error(
                        ErrorCode::Unsupported,
                        "this session's model does not see images; describe it in words, or choose a model that sees",
                        out,
                    );
                }
            }
            ClientEvent::MicrophoneOpened => self.turns.microphone_opened(),
            ClientEvent::TurnComplete => {
                if self.connection.ready {
                    out.push(Output::SendModel(ModelCommand::AudioEnded));
                    self.certain_input(out);
                }
            }
            ClientEvent::Interrupt => self.on_client_interrupt(out),
            ClientEvent::PlaybackDone => self.on_playback_done(out),
            ClientEvent::Stop => self.finish(EndReason::Stopped, out),
            ClientEvent::Confirm {
                token_hash,
                approved,
            } => self.on_confirm(token_hash, approved, out),
            ClientEvent::Connected => {
                self.deadlines.clear(Deadline::ClientGrace);
                out.push(Output::Event(SessionEvent::ClientConnected));
                self.renew_confirmations(out);
            }
            ClientEvent::Lost => {
                out.push(Output::Event(SessionEvent::ClientLost));
                let grace = Duration::from_secs(self.config.limits.client_grace_seconds);
                self.deadlines.set(Deadline::ClientGrace, self.now + grace);
            }
        }
    }

    /// The user wants silence, from a provider that is gone too: then nothing is asked again.
    fn on_client_interrupt(&mut self, out: &mut Vec<Output>) {
        if self.connection.is_lost && self.connection.unanswered.take().is_some() {
            self.end_turn(true, out);
        }
        self.interrupt(out);
        // What was to be heard of a farewell is gone. Only who has said something meanwhile has more to say.
        if self.turns.current().is_none() {
            self.await_farewell(Duration::ZERO);
        }
    }

    /// Text that the user typed, in this message of the client's.
    pub(super) fn user_text(
        &mut self,
        text: String,
        message: Option<MessageKey>,
        out: &mut Vec<Output>,
    ) {
        if text.trim().is_empty() {
            return;
        }
        if !self.connection.ready {
            if self.connection.waiting_texts.len() < WAITING_TEXTS_MAX {
                let text = Sensitive(text);
                let waiting = WaitingText { text, message };
                self.connection.waiting_texts.push(waiting);
            } else {
                self.error(
                    ErrorCode::TooLarge,
                    "too many messages before the model is ready",
                    out,
                );
            }
            return;
        }
        self.certain_input(out);
        self.turns.said_in(message);
        self.finish_utterance(Role::User, out);
        let turn = self.turns.of_user(false);
        self.record_said(Role::User, text.trim(), turn, out);
        out.push(Output::SendModel(ModelCommand::UserText(Sensitive(text))));
    }

    fn certain_input(&mut self, out: &mut Vec<Output>) {
        if self.connection.is_interruption_known {
            self.stop_discarding(out);
        }
        self.expect_answer();
        self.connection.plan.said();
        self.postpone_farewell();
        let is_continued = self.turns.is_continued();
        if let Some(turn) = self.turns.certain_input(self.now) {
            self.begin_anew(is_continued);
            out.push(Output::Event(SessionEvent::TurnStarted { turn }));
        }
    }
}
