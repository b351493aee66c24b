//! How turns and sessions end: summaries, farewells that are heard out, and started changes that run to their end.

use super::{Lifecycle, Session};
use crate::client::ClientUpdate;
use crate::deadlines::Deadline;
use crate::event::{EndReason, SessionEvent};
use crate::io::Output;
use crate::model::{ModelCommand, Role, TranscriptEntry};
use crate::transcript::{self, Utterance};
use std::time::Duration;
use windlass_tool::id::CallNumber;
use windlass_tool::intent::EndAfter;
use windlass_tool::sensitive::Sensitive;

impl Session {
    /// Ends the current turn, if there is one, and begins that of what the user said meanwhile.
    pub(super) fn end_turn(&mut self, is_interrupted: bool, out: &mut Vec<Output>) {
        self.deadlines.clear(Deadline::ProviderSilence);
        // What the user said before the answer was written down when the answer began; the rest came after it.
        self.finish_utterance(Role::Assistant, out);
        self.finish_utterance_of(Role::User, self.turns.of_user(is_interrupted), out);
        if !self.turns.goes_on(is_interrupted) {
            self.transcript.drop_citations();
        }
        self.state.set_generating(false);
        let Some(ended) = self.turns.end(self.now, is_interrupted) else {
            return;
        };
        self.has_had_a_turn();
        let (turn, summary) = (ended.turn, ended.summary);
        if ended.is_news && !has_bug!(self, ForgetsTurnEnds) {
            out.push(Output::Event(SessionEvent::TurnEnded { turn, summary }));
        }
        // The client hears of the end of each answer, also of one that continues a turn.
        if !is_interrupted {
            out.push(Output::SendClient(ClientUpdate::TurnComplete { turn }));
        }
        self.state.turn_ended(self.now);
        self.suppress_audio(out);
        if let Some(waited) = self.turns.begin_waiting(self.now, is_interrupted) {
            let turn = waited.turn;
            if let Some(from) = waited.proved_from {
                self.transcript.refile(from, ended.turn, turn);
            }
            out.push(Output::Event(SessionEvent::TurnStarted { turn }));
            self.expect_answer();
            self.postpone_farewell();
        } else if self.connection.ready {
            self.send_pending_message(ended.turn, out);
        }
    }

    /// The user begins a turn: what the model was given in one before, and has not spoken of, is no source of the next answer.
    pub(super) fn begin_anew(&mut self, was_continued: bool) {
        if was_continued {
            self.transcript.drop_citations();
        }
    }

    /// What a tool wanted said to the model after the turn.
    pub(super) fn send_pending_message(&mut self, turn: u64, out: &mut Vec<Output>) {
        if let Some(message) = self.state.take_pending_message() {
            self.turns.expect_continuation(turn);
            out.push(Output::SendModel(ModelCommand::UserText(Sensitive(
                message,
            ))));
        }
        self.send_notices(out);
    }

    /// Says what one speaker said in full, and records it.
    pub(super) fn finish_utterance(&mut self, role: Role, out: &mut Vec<Output>) {
        let turn = match role {
            Role::User => self.turns.of_user(false),
            Role::Assistant => self.current_turn(),
        };
        self.finish_utterance_of(role, turn, out);
    }

    fn finish_utterance_of(&mut self, role: Role, turn: u64, out: &mut Vec<Output>) {
        let Some(utterance) = self.transcript.finish(role) else {
            return;
        };
        let Utterance {
            role,
            text,
            citations,
            images,
        } = &utterance;
        if *role == Role::User || !self.state.get().suppress_transcript {
            out.push(Output::SendClient(ClientUpdate::Transcript {
                role: *role,
                text: Sensitive(text.clone()),
                is_final: true,
                citations: citations.clone(),
                images: images.clone(),
            }));
        }
        self.record_said(*role, text, turn, out);
    }

    /// The number of the turn under way; 0 where there is none.
    pub(super) fn current_turn(&self) -> u64 {
        self.turns.current().map_or(0, |turn| turn.number)
    }

    pub(super) fn record_said(&mut self, role: Role, text: &str, turn: u64, out: &mut Vec<Output>) {
        let mut text = Sensitive(text.to_owned());
        // As it is kept here, so that the conversation's account and a session's own can be compared.
        transcript::cut(&mut text, usize::MAX);
        let characters_max = self.config.limits.transcript_characters_max;
        let entry = TranscriptEntry {
            role,
            text: text.clone(),
            at: self.now,
            turn,
        };
        self.transcript.record(entry, characters_max);
        out.push(Output::Event(SessionEvent::Transcript { role, text, turn }));
    }

    /// The turn in which the end was asked for is over: what it said is still to be heard.
    pub(super) fn await_farewell(&mut self, unplayed: Duration) {
        if self.state.get().pending_end.is_some() {
            let grace = Duration::from_millis(self.config.limits.farewell_grace_ms);
            self.deadlines
                .set(Deadline::Farewell, self.now + unplayed + grace);
        }
    }

    /// Nothing more will come of the farewell: what of it has come is still to be heard.
    pub(super) fn hear_farewell_out(&mut self) {
        self.await_farewell(self.audio_ends.since(self.now));
    }

    /// An end that was asked for is never forgotten: at once where it says so, at latest when the model stays silent.
    pub(super) fn end_if_due(&mut self, out: &mut Vec<Output>) {
        let Some(end) = &self.state.get().pending_end else {
            return;
        };
        if end.after == EndAfter::Immediate {
            return self.end_by_intent(out);
        }
        if !self.deadlines.is_set(Deadline::Farewell) {
            let patience = Duration::from_secs(self.config.limits.provider_silence_seconds);
            self.deadlines.set(Deadline::Farewell, self.now + patience);
        }
    }

    /// A user who speaks into the farewell has more to say: it is heard and answered first, or waited for in vain.
    pub(super) fn postpone_farewell(&mut self) {
        if self.deadlines.is_set(Deadline::Farewell) {
            let patience = Duration::from_secs(self.config.limits.provider_silence_seconds);
            self.deadlines.set(Deadline::Farewell, self.now + patience);
        }
    }

    pub(super) fn on_playback_done(&mut self, out: &mut Vec<Output>) {
        self.audio_ends = self.now;
        let is_spoken = self.turns.current().is_none();
        if is_spoken && self.state.get().pending_end.is_some() {
            self.end_by_intent(out);
        }
    }

    pub(super) fn on_farewell_over(&mut self, out: &mut Vec<Output>) {
        self.end_by_intent(out);
    }

    fn end_by_intent(&mut self, out: &mut Vec<Output>) {
        if self.lifecycle != Lifecycle::Running {
            return;
        }
        let Some(end) = self.state.get().pending_end.clone() else {
            return;
        };
        self.end_turn(false, out);
        out.push(Output::SendClient(ClientUpdate::EndVoiceSession {
            reason: end.reason.clone(),
            closing_message: end.closing_message,
            text_response: end.text_response,
        }));
        self.finish(EndReason::Intent(end.reason), out);
    }

    /// Ends the session, but for the started changes, which run to their end.
    pub(super) fn finish(&mut self, reason: EndReason, out: &mut Vec<Output>) {
        if self.lifecycle != Lifecycle::Running {
            return;
        }
        self.turns.close();
        self.end_turn(true, out);
        self.deadlines.clear(Deadline::ProviderSilence);
        self.deadlines.clear(Deadline::ResultSilence);
        self.deadlines.clear(Deadline::Farewell);
        self.deadlines.clear(Deadline::Rotation);
        self.deadlines.clear(Deadline::Reconnect);
        self.deadlines.clear(Deadline::ClientGrace);
        // The conversation goes on after a restart, and what the user was asked can be answered there.
        if reason != EndReason::Shutdown {
            self.withdraw_all(out);
        }
        self.give_up_waiting(out);
        self.lifecycle = Lifecycle::Draining(reason);
        let open: Vec<CallNumber> = self.calls.iter().map(|call| call.number()).collect();
        for number in open {
            self.take_back(number, false, out);
        }
        let transcripts = self.transcript.entries();
        out.push(Output::SendClient(ClientUpdate::SessionComplete {
            transcripts,
        }));
        self.state.deactivate(self.now);
    }

    pub(super) fn close_if_drained(&mut self, out: &mut Vec<Output>) {
        let Lifecycle::Draining(reason) = &self.lifecycle else {
            return;
        };
        if self.calls.len() > 0 && !has_bug!(self, EndsBeforeChangesAreDone) {
            return;
        }
        if self.confirmations.is_any_no_untold() {
            return;
        }
        let reason = reason.clone();
        // The last chance: nobody tries again after the end.
        out.extend(self.unsettled.records());
        if reason == EndReason::Stopped {
            out.push(Output::SendClient(ClientUpdate::Stopped));
        }
        out.push(Output::Event(SessionEvent::SessionEnded {
            reason: reason.clone(),
        }));
        out.push(Output::Close(reason));
        self.lifecycle = Lifecycle::Over;
    }
}
