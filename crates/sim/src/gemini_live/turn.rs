//! The model's turn: its begin, its end and its interruption. Knows no reason for an answer.

use super::calls::Scheduling;
use super::context::Context;
use super::frames::{self, Tally};
use super::program::{Program, Wait};
use super::session::{Session, Turn};
use crate::runner::Output;
use serde_json::json;
use std::time::Duration;

impl Session {
    pub(crate) fn open_turn(&mut self, context: &mut Context<'_>) {
        if self.turn.open {
            return;
        }
        self.turn = Turn {
            open: true,
            play_until: self.turn.play_until.max(context.now),
            ..Turn::default()
        };
        // During a generation the session cannot be resumed.
        if self.resumable {
            self.resumable = false;
            context.send(frames::resumption(None));
        }
    }

    /// Notes that audio of this length was sent.
    pub(crate) fn sent_audio(&mut self, context: &Context<'_>, milliseconds: u64) {
        self.turn.audio_ms += milliseconds;
        if context.shared.settings.await_playback {
            self.turn.play_until =
                self.turn.play_until.max(context.now) + Duration::from_millis(milliseconds);
        }
    }

    pub(crate) fn think(&mut self, context: &mut Context<'_>, text: &str) {
        self.turn.thought_characters += text.len();
        let part = json!({ "text": text, "thought": true });
        let beside = serde_json::Map::new();
        context.send(frames::model_turn(&self.setup.profile, vec![part], beside));
    }

    /// Ends the generation; the turn ends when its audio has been heard.
    pub(crate) fn complete_generation(&mut self, context: &mut Context<'_>) {
        if self.turn.open && self.turn.generated {
            context.send(frames::content(json!({ "generationComplete": true })));
        }
    }

    pub(crate) fn end_turn(&mut self, context: &mut Context<'_>) {
        if !self.turn.open {
            return;
        }
        self.turn.open = false;
        let tally = Tally {
            prompt_characters: self.setup.preamble_characters + self.memory.characters(),
            audio_ms: self.turn.audio_ms,
            thought_characters: self.turn.thought_characters,
        };
        let idle = self.parked.is_empty() && self.calls.is_empty();
        context.send(frames::turn_complete(&self.setup.profile, &tally, idle));
        self.offer_handle(context);
    }

    /// Sends a new handle, if the client wants handles and nothing is running.
    pub(crate) fn offer_handle(&mut self, context: &mut Context<'_>) {
        let Some(session) = self.stored_as else {
            return;
        };
        if !self.calls.is_empty() || self.turn.open {
            return;
        }
        if let Some(handle) = context.shared.sessions.mint(session, &self.memory) {
            self.resumable = true;
            context.send(frames::resumption(Some(&handle)));
        }
    }

    /// Handles new input: speech in progress stops, blocking calls are cancelled, and programs with non-blocking calls continue to wait.
    pub(crate) fn interrupt(&mut self, context: &mut Context<'_>) {
        if let Some(mut program) = self.foreground.take() {
            self.note_unfinished(&program);
            let cancelled = self.calls.cancel(program.number, true);
            if !cancelled.is_empty() {
                context.send(frames::cancellation(&cancelled));
            }
            if program.in_background && program.skip_to_continuation() {
                self.parked.push(program);
            }
        }
        if self.turn.open {
            context.send(frames::content(json!({ "interrupted": true })));
            self.turn.open = false;
            self.turn.play_until = context.now;
            context.send(frames::content(json!({ "turnComplete": true })));
            self.offer_handle(context);
        }
    }

    fn note_unfinished(&mut self, program: &Program) {
        if let Wait::Speech(speech) = &program.wait {
            self.memory.model_said(speech.said());
        }
    }

    /// Resumes a program whose results have come, if its scheduling allows it now.
    pub(crate) fn resume_parked(&mut self, context: &mut Context<'_>) -> bool {
        self.parked.retain(|program| {
            let silent = program.scheduling == Some(Scheduling::Silent);
            let answered = self.calls.of_program(program.number).next().is_none();
            !(silent && answered)
        });
        let idle = self.foreground.is_none() && !self.turn.open && !self.ears.is_speaking();
        let blocked = self.foreground.as_ref().is_some_and(|program| {
            self.calls
                .of_program(program.number)
                .any(|call| call.blocking)
        });
        let may_cut_in =
            !blocked && (self.setup.profile.talks_over_user || !self.ears.is_speaking());
        let ready = self.parked.iter().position(|program| {
            let urgent = program.scheduling == Some(Scheduling::Interrupt) && may_cut_in;
            (idle || urgent) && self.calls.of_program(program.number).next().is_none()
        });
        let Some(index) = ready else {
            return false;
        };
        let mut program = self.parked.remove(index);
        program.wait = Wait::Nothing;
        self.interrupt(context);
        self.foreground = Some(program);
        true
    }

    pub(crate) fn close(&mut self, context: &mut Context<'_>, code: u16, reason: String) {
        context.out.push(Output::Close { code, reason });
        self.over = true;
    }
}
