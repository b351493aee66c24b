//! The provider's connections as they come and go: what a loss leaves open, what the next connection is told first, and
//! when one is left for another. The decisions are those of `policy/reconnect.rs`.

use super::{Lifecycle, Session};
use crate::client::{ClientUpdate, ErrorCode};
use crate::connection::ClosedIds;
use crate::deadlines::Deadline;
use crate::event::{EndReason, SessionEvent};
use crate::io::Output;
use crate::model::{
    ConnectionEvent, HistoryEntry, HistoryInput, LostReason, ModelCommand, Role, TranscriptEntry,
};
use crate::policy::Verdict;
use crate::snapshot::WaitingText;
use crate::turn::Turn;
use std::time::Duration;
use windlass_tool::sensitive::Sensitive;

impl Session {
    pub(super) fn on_connection(&mut self, event: ConnectionEvent, out: &mut Vec<Output>) {
        match event {
            ConnectionEvent::Connected {
                generation,
                resumed,
            } => {
                self.connection.generation = generation;
                self.connection.is_lost = false;
                self.connection.closed_ids = ClosedIds::default();
                out.push(Output::Event(SessionEvent::ProviderConnected {
                    generation,
                    resumed,
                }));
            }
            ConnectionEvent::Lost { generation, reason } => {
                if generation >= self.connection.plan.generation() {
                    self.on_lost(generation, reason, out);
                }
            }
        }
    }

    fn on_lost(&mut self, generation: u64, reason: LostReason, out: &mut Vec<Output>) {
        let limits = self.config.limits.clone();
        let verdict = if has_bug!(self, KeepsRefusedHandles) {
            let problem = String::new();
            let taken_for = LostReason::Network { problem };
            self.connection.plan.lost(&taken_for, self.now, &limits)
        } else {
            self.connection.plan.lost(&reason, self.now, &limits)
        };
        let (code, message) = describe_loss(&reason);
        out.push(Output::Event(SessionEvent::ProviderLost {
            generation,
            reason,
        }));
        if self.lifecycle != Lifecycle::Running {
            return;
        }
        self.leave_connection(out);
        match verdict {
            Verdict::GiveUp => {
                self.error(code, message, out);
                self.finish(EndReason::ProviderLost, out);
            }
            Verdict::Retry(pause) => {
                self.connection.is_told_lost = true;
                let attempt = self.connection.plan.attempts();
                out.push(Output::SendClient(ClientUpdate::Reconnecting { attempt }));
                if pause.is_zero() {
                    self.reconnect(out);
                } else {
                    self.deadlines.set(Deadline::Reconnect, self.now + pause);
                }
            }
        }
    }

    pub(super) fn on_go_away(&mut self, time_left: Option<Duration>, out: &mut Vec<Output>) {
        let time_left_ms =
            time_left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        out.push(Output::Event(SessionEvent::ProviderGoAway { time_left_ms }));
        let limits = &self.config.limits;
        let at = self.connection.plan.go_away(self.now, time_left, limits);
        if !has_bug!(self, StaysToTheEnd) {
            self.deadlines.set(Deadline::Rotation, at);
        }
    }

    pub(super) fn on_handle(&mut self, handle: Option<Sensitive<String>>, out: &mut Vec<Output>) {
        let resumable = handle.is_some();
        out.push(Output::Event(SessionEvent::ProviderResumable { resumable }));
        let is_answered = self.unanswered_turns().next().is_none();
        let holds_everything = is_answered && !self.has_open_calls();
        let recorded = self.transcript.recorded();
        self.connection
            .plan
            .update(handle, holds_everything, recorded);
    }

    /// Whether the model waits for a call that it made on this connection.
    fn has_open_calls(&self) -> bool {
        let generation = self.connection.generation;
        self.calls.iter().any(|call| {
            call.spoken && call.grant.is_none() && call.delivered().generation == generation
        })
    }

    /// Leaves a connection whose end was announced, as soon as nothing is lost by it.
    pub(super) fn rotate_if_quiet(&mut self, out: &mut Vec<Output>) {
        let plan = &self.connection.plan;
        if plan.is_leaving()
            && self.lifecycle == Lifecycle::Running
            && plan.may_rotate(self.config.profile.resumption, self.now)
            && self.turns.current().is_none()
            && !self.has_open_calls()
        {
            self.rotate(out);
        }
    }

    /// Leaves the connection for the next one, whatever is under way.
    pub(super) fn rotate(&mut self, out: &mut Vec<Output>) {
        if !has_bug!(self, LeavesWithoutCounting) {
            self.connection.plan.left(self.now);
        }
        self.leave_connection(out);
        self.reconnect(out);
    }

    /// Opens the next connection.
    pub(super) fn reconnect(&mut self, out: &mut Vec<Output>) {
        self.deadlines.clear(Deadline::Reconnect);
        self.deadlines.clear(Deadline::Rotation);
        let opening = self.connection.plan.open(self.config.profile.resumption);
        self.connection.seed = if opening.handle.is_none() {
            let earlier = self.config.history.iter().cloned();
            earlier.chain(self.said_after(0)).collect()
        } else {
            Vec::new()
        };
        out.push(Output::Connect {
            generation: opening.generation,
            handle: opening.handle,
            history_follows: !self.connection.seed.is_empty(),
        });
    }

    /// What was said after so many entries of the transcript, but for what has yet to be answered.
    fn said_after(&self, recorded: u64) -> impl Iterator<Item = HistoryEntry> {
        let unanswered = self.connection.unanswered.as_ref();
        let open_turn = unanswered.and_then(|_| self.turns.current().map(|turn| turn.number));
        self.transcript
            .after(recorded)
            .filter(move |entry| Some(entry.turn) != open_turn)
            .map(|entry| HistoryEntry {
                role: entry.role,
                text: entry.text.clone(),
            })
    }

    /// The provider takes input: what the new connection has to know comes first, then what waited, in its order.
    pub(super) fn on_ready(&mut self, out: &mut Vec<Output>) {
        self.connection.ready = true;
        self.connection.plan.ready(self.now);
        if std::mem::take(&mut self.connection.is_told_lost) {
            out.push(Output::SendClient(ClientUpdate::Reconnected));
        }
        let entries = self.take_history();
        if !entries.is_empty() {
            let history = ModelCommand::History {
                entries,
                answer_now: false,
            };
            out.push(Output::SendModel(history));
        }
        if let Some(text) = self.connection.unanswered.take() {
            // The same wish as before: it begins no turn and earns no new budget.
            out.push(Output::SendModel(ModelCommand::UserText(Sensitive(text))));
            self.connection.plan.said();
            self.expect_answer();
        }
        let pending = self
            .config
            .pending_request
            .take()
            .filter(|request| !request.trim().is_empty());
        let waiting = std::mem::take(&mut self.connection.waiting_texts);
        if let Some(request) = pending {
            self.user_text(request, None, out);
        }
        for WaitingText { text, message } in waiting {
            self.user_text(text.into_inner(), message, out);
        }
        if self.turns.current().is_none() {
            self.send_pending_message(self.turns.last_number(), out);
        }
        self.send_notices(out);
        self.tell_untold(out);
    }

    /// What the connection that is ready now has to be told of the conversation before it.
    fn take_history(&mut self) -> Vec<HistoryEntry> {
        let plan = &self.connection.plan;
        if plan.generation() <= 1 {
            return self.config.history.clone();
        }
        if !plan.is_resuming() {
            return std::mem::take(&mut self.connection.seed);
        }
        // Of the models that take history at the beginning only, a resumed session takes none.
        match self.config.profile.history {
            HistoryInput::ClientContent => self.said_after(plan.recorded()).collect(),
            HistoryInput::InitialClientContent => Vec::new(),
        }
    }

    /// The connection is gone, or is given up: what was under way on it is ended or kept for the next.
    fn leave_connection(&mut self, out: &mut Vec<Output>) {
        let model_waits = self.calls.any_blocks();
        self.connection.ready = false;
        self.connection.is_lost = true;
        for deadline in [
            Deadline::ProviderSilence,
            Deadline::ResultSilence,
            Deadline::Rotation,
        ] {
            self.deadlines.clear(deadline);
        }
        self.keep_unconfirmed(out);
        self.keep_unread_notices();
        self.connection.messages.ended(true);
        self.calls.leave_connection();
        self.hold_microphone(out);
        self.connection.owes_turn_end = false;
        self.stop_discarding(out);
        self.state.set_generating(false);
        self.keep_unanswered(model_waits, out);
        self.turns.expect_repeat();
    }

    /// The turn under way is ended where the model had said everything; else its question is kept, to be asked again, and with
    /// it what the user said into the answer. A model that waits for a call, or has yet to speak of one, has not.
    fn keep_unanswered(&mut self, model_waits: bool, out: &mut Vec<Output>) {
        self.finish_utterance(Role::Assistant, out);
        self.finish_utterance(Role::User, out);
        let current = self.turns.current();
        if !model_waits && current.is_some_and(Turn::is_answered) {
            self.hear_farewell_out();
            self.end_turn(false, out);
            // Nobody is there yet who could answer what the user said meanwhile.
            self.deadlines.clear(Deadline::ProviderSilence);
        }
        let joins = self.turns.waiting();
        let Some(turn) = self.turns.current_mut() else {
            return;
        };
        let number = turn.number;
        // What the user says next joins the question.
        turn.heard_model = false;
        turn.forget_answers();
        if let Some(waiting) = joins {
            self.transcript.refile(0, waiting, number);
        }
        self.turns.join_waiting();
        let words = self.words_of(&[number]);
        if words.is_empty() {
            self.end_turn(true, out);
        } else {
            self.connection.unanswered = Some(words);
            let done = self
                .deliveries
                .settled_with(|_, settled| settled.turn == number);
            self.put_again(done);
        }
    }

    /// The turns whose words no model has answered in full: the one under way, and that of what waits for its end.
    pub(super) fn unanswered_turns(&self) -> impl Iterator<Item = u64> {
        let current = self.turns.current();
        let model_waits = self.calls.any_blocks();
        let open = current.filter(|turn| model_waits || !turn.is_answered());
        let open = open.map(|turn| turn.number);
        open.into_iter().chain(self.turns.waiting())
    }

    /// What the user said in these turns, as far as it is written down.
    pub(super) fn words_of(&self, turns: &[u64]) -> String {
        let is_asked =
            |entry: &&TranscriptEntry| turns.contains(&entry.turn) && entry.role == Role::User;
        let words: Vec<&str> = self
            .transcript
            .after(0)
            .filter(is_asked)
            .map(|entry| entry.text.expose().as_str())
            .collect();
        words.join("\n")
    }
}

/// What the client is told of a lost provider; the details are for the log.
fn describe_loss(reason: &LostReason) -> (ErrorCode, String) {
    match reason {
        LostReason::Unauthorized => (
            ErrorCode::ProviderAuth,
            "the model's provider refused the server's key".to_owned(),
        ),
        LostReason::Closed { code, .. } => (
            ErrorCode::ProviderUnavailable,
            format!("the model's provider ended the session (close code {code})"),
        ),
        LostReason::Network { .. } => (
            ErrorCode::ProviderUnavailable,
            "the model's provider cannot be reached".to_owned(),
        ),
        LostReason::Dropped { .. } => (
            ErrorCode::ProviderUnavailable,
            "the connection to the model's provider broke".to_owned(),
        ),
        LostReason::Refused { status } => (
            ErrorCode::ProviderUnavailable,
            format!("the model's provider refused the session (HTTP {status})"),
        ),
        LostReason::SetupTimeout => (
            ErrorCode::ProviderUnavailable,
            "the model's provider did not answer the setup in time".to_owned(),
        ),
    }
}
