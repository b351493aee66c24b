//! The dialogue between the user and the model: routes words, interruptions, answers and notices among turns, speech, the link, answers and
//! the end of the session, each of which owns its state. Knows no ledger, and of calls their answers alone.

use crate::answers::{Answers, CallAnswer, Notice, Produced};
use crate::client::{Citation, ClientUpdate, ErrorCode, MessageKey};
use crate::context::{ContextWatch, NearlyFull, OtherModel};
use crate::deadlines::Deadline;
use crate::ending::Ending;
use crate::event::{EndReason, SessionEvent, StateChange, TurnSummary};
use crate::facts::{CallRequest, shorten};
use crate::io::Output;
use crate::link::Link;
use crate::log_text::{KeptState, PREFACE, Said, SaidCall, SaidResult, TicketReply};
use crate::model::{
    AnswerBatching, HistoryEntry, LostReason, ModelCommand, ModelToolResponse, Role, Usage,
};
use crate::policy::{LoopHistory, Settled, Verdict};
use crate::projection::{project, result_text};
use crate::saved::{OpenTurn, SAVED_VERSION, Saved, SpentTurn, WaitingText};
use crate::speech::{Speech, Words};
use crate::state::StateController;
use crate::step::SessionStep;
use crate::time::Timestamp;
use crate::turn::{Turn, Turns};
use crate::values::Values;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::envelope::ProjectionBody;
use windlass_contract::error::ErrorType;
use windlass_contract::handler::{SessionFacts, StateValues};
use windlass_contract::id::{CallNumber, EffectId, ToolId};
use windlass_contract::input::InputFacts;
use windlass_contract::intent::Intent;
use windlass_contract::kind::{Category, Mode, Scheduling};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::ValuesEntry;
use windlass_store::{EntryEvent, LegNumber, QuestionNumber};

/// Said to a live model whose window is nearly full.
const NEARLY_FULL: &str = "This conversation has nearly filled what you can keep in mind. Tell the user so in one or two sentences: you may soon \
     forget how it began, or it may end, and a new conversation has room again. Name what is still open. Then go on as before.";

/// The call whose result asks for a change of state.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) call: CallNumber,
    /// `None` if the session does not know the call any more.
    pub(crate) tool: Option<ToolId>,
}

pub(crate) struct Dialogue {
    pub(crate) step: SessionStep,
    pub(crate) turns: Turns,
    state: StateController,
    pub(crate) speech: Speech,
    pub(crate) link: Link,
    pub(crate) answers: Answers,
    pub(crate) ending: Ending,
    context: ContextWatch,
    /// The store has been told that the model has read external content.
    is_tainted: bool,
}

// Output of the model.
impl Dialogue {
    pub(crate) fn new(step: SessionStep) -> Self {
        let config = &step.config;
        Self {
            turns: Turns::default(),
            state: StateController::new(
                config.mode,
                config.limits.trail_entries_max,
                Values::new(config.registry.clone(), config.limits.clone()),
            ),
            speech: Speech::default(),
            link: Link::new(config.mode, config.pending_request.clone()),
            answers: Answers::default(),
            ending: Ending::default(),
            context: ContextWatch::default(),
            is_tainted: false,
            step,
        }
    }

    /// Returns false if the model's output is void.
    pub(crate) fn model_output(&mut self, what: Produced) -> bool {
        self.step.heard_provider();
        self.link.heard();
        if self.speech.is_discarding() {
            return false;
        }
        if matches!(what, Produced::Words | Produced::Calls) {
            self.turns.reacted();
        }
        if let Some(message) = self.answers.reacted(what) {
            self.confirm(message);
            self.turns.heard(message);
        }
        if let Some(turn) = self.turns.model_output(self.step.now) {
            self.step.event(SessionEvent::TurnStarted { turn });
        }
        self.finish_utterance(Role::User);
        if self.state.set_generating(true) {
            self.step.tell_client(ClientUpdate::ModelGenerating);
        }
        true
    }

    /// The model has produced something in this message, so the answers that it can follow have arrived. The ledger is told of effects
    /// and approval requests, and not before: after a crash the model may have to hear of them again.
    fn confirm(&mut self, message: u64) {
        let kept_max = match self.turns.is_idle() {
            true => 0,
            false => self.step.limits().open_calls_max,
        };
        let (effects, questions) = self.answers.confirm(message, kept_max);
        acknowledge(effects, questions, &mut self.step);
    }

    pub(crate) fn on_output_text(&mut self, text: &str) {
        if self.model_output(Produced::Words) {
            self.on_output_transcript(text);
        }
    }

    /// A transcript may trail its turn, so it begins none until the provider ends the transcript's turn.
    pub(crate) fn on_output_transcript(&mut self, piece: &str) {
        if piece.is_empty() || self.speech.is_discarding() {
            return;
        }
        if self.turns.is_idle() {
            self.step.heard_provider();
            self.turns.unattributed_transcript();
        } else {
            self.model_output(Produced::Transcript);
        }
        self.speech
            .piece(Role::Assistant, piece, self.state.get(), &mut self.step);
    }

    pub(crate) fn on_audio(&mut self) {
        self.model_output(Produced::Words);
    }

    pub(crate) fn on_generation_complete(&mut self) {
        self.step.heard_provider();
        self.message_ended(false);
        self.speech.answer_ended(&mut self.step);
        self.turns.generation_completed();
        self.state.set_generating(false);
    }

    /// The end of a message is no reaction: it may be the end of the message that asked.
    fn message_ended(&mut self, with_turn: bool) {
        self.answers.message_ended(with_turn);
        self.turns.message_ended();
    }

    /// The provider's turn is over. `is_last` if the model says nothing more by itself, and waits for no call.
    pub(crate) fn on_turn_complete(&mut self, is_last: bool, unplayed: Duration) {
        self.step.heard_provider();
        self.message_ended(true);
        self.state.set_generating(false);
        if self.speech.answer_ended(&mut self.step) || !is_last {
            return;
        }
        if let Some(words) = self.turns.take_words_alone() {
            self.model_output(Produced::ConfirmedLater);
            self.turns.heard_words_alone(&words);
        }
        self.link.proved();
        let state = self.state.get();
        self.ending.await_farewell(state, unplayed, &mut self.step);
        self.end_turn(false);
    }

    pub(crate) fn on_provider_silence(&mut self) {
        let seconds = self.step.limits().provider_silence_seconds;
        let message = format!("the model has said nothing for {seconds} seconds");
        self.step.error(ErrorCode::ProviderSilent, message);
        self.end_turn(false);
        if self.link.is_ready() {
            self.step.tell_model(ModelCommand::Resynchronize);
        }
    }

    pub(crate) fn on_result_silence(&mut self) {
        let milliseconds = self.step.limits().result_silence_seconds * 1_000;
        self.step
            .event(SessionEvent::ProviderSilentAfterResult { milliseconds });
        self.link.nudge(&mut self.step);
    }
}

// Input and interruptions of the user.
impl Dialogue {
    pub(crate) fn heard_user(&mut self) {
        self.link.said();
        self.ending.postpone_farewell(&mut self.step);
        self.speech.heard_user(&mut self.step);
        let was_continued = self.turns.is_continued();
        let recorded = self.speech.transcript().recorded();
        let begun = self.turns.heard_user(self.step.now, recorded);
        self.user_turn_begun(begun, was_continued);
    }

    fn certain_input(&mut self) {
        self.speech.certain_input(&mut self.step);
        self.step.expect_answer();
        self.link.said();
        self.ending.postpone_farewell(&mut self.step);
        let was_continued = self.turns.is_continued();
        let begun = self.turns.certain_input(self.step.now);
        self.user_turn_begun(begun, was_continued);
    }

    /// The user begins a turn. Results that the model was given in an earlier turn, and has not spoken of, are no sources of the next
    /// answer.
    fn user_turn_begun(&mut self, begun: Option<u64>, was_continued: bool) {
        let Some(turn) = begun else {
            return;
        };
        if was_continued {
            self.speech.drop_citations();
        }
        self.step.event(SessionEvent::TurnStarted { turn });
    }

    pub(crate) fn on_input_transcript(&mut self, piece: &str) {
        if piece.trim().is_empty() {
            return;
        }
        self.heard_user();
        self.step.expect_answer();
        self.speech
            .piece(Role::User, piece, self.state.get(), &mut self.step);
    }

    pub(crate) fn on_input_transcribed(&mut self, text: &str) {
        let text = text.trim();
        if !text.is_empty() {
            self.speech
                .transcribed(text, self.current_turn(), &mut self.step);
        }
    }

    /// The client says that the user has finished speaking.
    pub(crate) fn on_user_finished(&mut self) {
        if self.link.is_ready() {
            self.step.tell_model(ModelCommand::AudioEnded);
            self.speech.heard_user(&mut self.step);
            self.certain_input();
        }
    }

    pub(crate) fn on_image(&mut self, mime_type: String, data: Sensitive<Arc<[u8]>>) {
        if !self.step.config.profile.vision {
            self.step.error(
                ErrorCode::Unsupported,
                "this session's model does not see images; describe it in words, or choose a model that sees",
            );
        } else if !self.link.is_lost() {
            // While there is no connection, a later picture of the camera is worth more than this one.
            self.step
                .tell_model(ModelCommand::Image { mime_type, data });
        }
    }

    /// The user typed text, in this message of the client's.
    pub(crate) fn user_text(&mut self, text: String, message: Option<MessageKey>) {
        if text.trim().is_empty() {
            return;
        }
        if !self.link.is_ready() {
            return self.link.wait(text, message, &mut self.step);
        }
        self.speech.typed(message, &mut self.step);
        self.certain_input();
        self.finish_utterance(Role::User);
        let turn = self.turns.of_user(false);
        let words = Words::of_user(text.trim(), message);
        self.speech.say(words, turn, &mut self.step);
        // A text model reads it in the next request.
        if self.step.config.mode == Mode::Voice {
            self.step
                .tell_model(ModelCommand::UserText(Sensitive(text)));
        }
    }

    /// The provider says that the user has interrupted. Returns whether to carry that out: if the interruption is already known here,
    /// the answer was thrown away then.
    pub(crate) fn on_interrupted(&mut self) -> bool {
        self.step.heard_provider();
        self.message_ended(false);
        self.turns.take_words_alone();
        !self.speech.is_interrupted()
    }

    /// The user wants silence. If the provider is gone, nothing is asked again.
    pub(crate) fn on_client_interrupt(&mut self) {
        if self.link.is_lost() && self.link.take_unanswered().is_some() {
            self.end_turn(true);
        }
    }

    /// Throws away the current answer. Its further output is void until the provider ends it. Calls that have not begun are taken back
    /// next; then follows [`Dialogue::interrupted`].
    pub(crate) fn interrupt(&mut self) {
        let is_complete = self.turns.is_generation_complete();
        self.speech
            .interrupt(self.turns.is_answering(), is_complete, &mut self.step);
        self.ending.audio_ends(self.step.now);
        self.step.tell_client(ClientUpdate::Interrupted);
    }

    pub(crate) fn interrupted(&mut self) {
        if self.turns.is_answering() {
            self.end_turn(true);
        }
        self.speech.interrupted(&mut self.step);
    }

    /// The rest of a farewell will not be heard. Only a user who has said something meanwhile keeps the session open.
    pub(crate) fn cut_farewell(&mut self) {
        if self.turns.is_idle() {
            let state = self.state.get();
            self.ending
                .await_farewell(state, Duration::ZERO, &mut self.step);
        }
    }

    /// The client has played everything. Returns whether that includes the farewell.
    pub(crate) fn on_playback_done(&mut self) -> bool {
        self.ending.audio_ends(self.step.now);
        self.turns.is_idle()
    }
}

// Connections and requests.
impl Dialogue {
    /// The answer to an earlier request is over, and no call of this request has had its answer.
    pub(crate) fn on_request_sent(&mut self, number: u64) {
        self.link.requested(number);
        self.speech.answer_ended(&mut self.step);
        let held = self.answers.request_sent();
        self.keep_unsent(held);
    }

    /// The request has ended, so its answer is no longer awaited.
    pub(crate) fn on_request_ended(&mut self) {
        if self.step.expects_model() {
            self.on_generation_complete();
        }
    }

    pub(crate) fn on_connected(&mut self, generation: u64, resumed: bool) {
        self.link.connected(generation, resumed, &mut self.step);
        self.answers.connected();
    }

    /// Returns the verdict, and the error for the client if no other connection follows. `None` for a connection that was given up
    /// before.
    pub(crate) fn on_lost(
        &mut self,
        generation: u64,
        reason: LostReason,
    ) -> Option<(Verdict, ErrorCode, String)> {
        let is_newest = generation >= self.link.newest_generation();
        is_newest.then(|| self.link.lost(generation, reason, &mut self.step))
    }

    /// The next connection is opened after this pause.
    pub(crate) fn reconnect_after(&mut self, pause: Duration) {
        self.link.tell_lost(&mut self.step);
        if pause.is_zero() {
            self.reconnect();
        } else {
            self.step.set_deadline(Deadline::Reconnect, pause);
        }
    }

    /// The provider gives a handle, or none. The handle covers the whole conversation only if no call is open.
    pub(crate) fn on_handle(
        &mut self,
        handle: Option<Sensitive<String>>,
        model_waits: bool,
        has_open_calls: bool,
    ) {
        let is_answered = self.turns.unanswered(model_waits).next().is_none();
        let recorded = self.speech.transcript().recorded();
        self.link.resumable(
            handle,
            is_answered && !has_open_calls,
            recorded,
            &mut self.step,
        );
    }

    /// Whether a connection whose end was announced may be left without a loss, if no call is open.
    pub(crate) fn may_rotate(&self) -> bool {
        self.ending.is_running() && self.turns.is_idle() && self.link.may_rotate(&self.step)
    }

    /// Opens the next connection.
    pub(crate) fn reconnect(&mut self) {
        let open_turn = self.asked_again();
        let speech = &self.speech;
        self.link
            .reconnect(|| said_after(speech, 0, open_turn), &mut self.step);
    }

    /// The turn whose question waits to be asked again.
    fn asked_again(&self) -> Option<u64> {
        let is_asking = self.link.is_asking_again();
        self.turns.current_number().filter(|_| is_asking)
    }

    /// The provider takes input. The new connection gets first the history, then the input that waited, in its order.
    pub(crate) fn on_ready(&mut self) {
        let open_turn = self.asked_again();
        let speech = &self.speech;
        let said = |recorded| said_after(speech, recorded, open_turn);
        let entries = self.link.ready(said, &mut self.step);
        if !entries.is_empty() {
            self.step.tell_model(ModelCommand::History {
                entries,
                answer_now: false,
            });
        }
        if let Some(text) = self.link.take_unanswered() {
            // The question is the same as before: it begins no turn and earns no new budget.
            self.step
                .tell_model(ModelCommand::UserText(Sensitive(text)));
            self.link.said();
            self.step.expect_answer();
        }
        for WaitingText { text, message } in self.link.take_waiting() {
            self.user_text(text.into_inner(), message);
        }
        if self.turns.is_idle() {
            self.send_pending_message(self.turns.last_number());
        }
        self.send_notices();
    }

    /// The connection is gone, or is given up. Its unconfirmed answers are kept for the next. [`Dialogue::left_connection`] follows.
    pub(crate) fn leave_connection(&mut self) {
        self.link.leave(&mut self.step);
        let unsent = self.answers.leave_connection().collect();
        self.keep_unsent(unsent);
    }

    /// Keeps the outcomes among answers that were not sent, or may not have been read, to tell them later.
    fn keep_unsent(&mut self, answers: Vec<CallAnswer>) {
        for answer in answers {
            if answer.settled.is_outcome || self.leaves_user_waiting(&answer) {
                self.keep_late(answer);
            }
        }
    }

    /// Ends the current turn if the model had said everything. Otherwise keeps its question to be asked again, together with the user's
    /// words during the answer. A model that waits for a call, or has yet to speak of one, has not said everything.
    pub(crate) fn left_connection(&mut self, model_waits: bool) {
        self.speech.answer_ended(&mut self.step);
        self.state.set_generating(false);
        self.keep_unanswered(model_waits);
        // The model's next words on another connection may repeat its words on this one.
        self.turns.message_ended();
    }

    fn keep_unanswered(&mut self, model_waits: bool) {
        self.finish_utterance(Role::Assistant);
        self.finish_utterance(Role::User);
        if !model_waits && self.turns.is_answered() {
            self.ending
                .hear_farewell_out(self.state.get(), &mut self.step);
            self.end_turn(false);
            // No connection is there yet to answer the user's words since then.
            self.step.clear(Deadline::ProviderSilence);
        }
        let Some(asked) = self.turns.ask_again() else {
            return;
        };
        if let Some(joined) = asked.joined {
            self.speech.refile(0, joined, asked.turn);
        }
        // The next connection's model has not heard of the effects of the turn.
        for answer in self.answers.take_back_confirmed() {
            self.keep_late(answer);
        }
        let words = self.speech.transcript().words_of(&[asked.turn]);
        if words.is_empty() {
            self.end_turn(true);
        } else {
            self.link.ask_again(words);
        }
    }

    /// Whether a refusal is the last result of the user's question: its turn is over, so nothing is asked again. Approval requests, and
    /// calls that were taken back, are told of in other ways.
    fn leaves_user_waiting(&self, answer: &CallAnswer) -> bool {
        let is_told_otherwise = matches!(
            answer.settled.response.error_type(),
            Some(
                ErrorType::Cancelled | ErrorType::ConfirmationRequired | ErrorType::OutcomeUnknown
            )
        );
        let turn = answer.call_request.turn;
        let is_last = self.turns.is_idle() && turn == self.turns.last_number();
        is_last && !self.turns.is_wound_up(turn) && !is_told_otherwise
    }
}

// Answers and notices for the model.
impl Dialogue {
    /// Gives one delivery its answer, or keeps the answer if its connection is gone. Returns the deliveries whose answer is final by
    /// that.
    pub(crate) fn answer(&mut self, answer: CallAnswer, blocks: bool) -> Vec<CallRequest> {
        if !self.link.carries(&answer.call_request) {
            self.keep_late(answer.clone());
            return self.release(&answer.call_request, None, blocks);
        }
        if !self.answers.close(&answer.call_request) {
            return self.release(&answer.call_request, None, blocks);
        }
        self.note_external(&answer.settled);
        let response = ModelToolResponse {
            id: answer.call_request.provider_id().cloned(),
            name: answer.call_request.name.clone(),
            projection: project(
                &answer.settled,
                self.step.limits().projection_characters_max,
            ),
            scheduling: answer.scheduling,
        };
        let mut superseding = self.release(&answer.call_request, Some(response), blocks);
        superseding.extend(self.answers.await_reaction(answer, &self.step.config));
        superseding
    }

    /// Settles one delivery of its message, with its answer if it gets one, and sends the answers that this releases. Returns the
    /// deliveries whose answer is final by that.
    pub(crate) fn release(
        &mut self,
        call_request: &CallRequest,
        answer: Option<ModelToolResponse>,
        blocks: bool,
    ) -> Vec<CallRequest> {
        let together = blocks && self.step.config.profile.answers == AnswerBatching::Together;
        let released =
            self.answers
                .settle(call_request.batch, call_request.number, answer, together);
        let mut superseding = Vec::new();
        if !released.answers.is_empty() {
            let is_silent =
                |answer: &ModelToolResponse| answer.scheduling == Some(Scheduling::Silent);
            let asks_for_words = !released.answers.iter().all(is_silent);
            let mut spoken_of = released.answers.iter().filter(|answer| !is_silent(answer));
            let waited = spoken_of.any(|answer| self.step.config.waits_for(&answer.name));
            self.step
                .tell_model(ModelCommand::ToolResponses(released.answers));
            self.link.said();
            if asks_for_words {
                self.link.nudges(self.step.limits().result_nudges_max);
                let from = self.answers.next_message(waited);
                self.turns.answered(call_request.turn, from, waited);
                self.step.expect_answer();
            } else {
                self.link.nudges(0);
                self.turns.expect_continuation(call_request.turn);
            }
            superseding = self
                .answers
                .await_reactions(call_request, &self.step.config);
            let seconds = self.step.limits().result_silence_seconds;
            self.step
                .set_deadline(Deadline::ResultSilence, Duration::from_secs(seconds));
        }
        if let Some(tool_count) = released.complete {
            self.step
                .tell_client(ClientUpdate::ToolsComplete { tool_count });
        }
        superseding
    }

    /// Keeps a result whose connection is gone. A silent result is not kept: it asks for no words, and its text would cause some.
    pub(crate) fn keep_late(&mut self, answer: CallAnswer) {
        if answer.scheduling == Some(Scheduling::Silent) {
            return;
        }
        let late_max = self.step.limits().open_calls_max;
        if let Some(call) = self.answers.keep_late(answer, late_max) {
            self.step.event(SessionEvent::LateResultDropped { call });
        }
    }

    /// Tells the model the results that came too late for their connection, once neither side speaks.
    pub(crate) fn deliver_late(&mut self) {
        if !self.is_silent() {
            return;
        }
        let late = self.answers.take_late();
        if late.is_empty() {
            return;
        }
        let mut responses = Vec::with_capacity(late.len());
        for answer in late {
            self.note_external(&answer.settled);
            self.turns.expect_continuation(answer.call_request.turn);
            responses.push(ModelToolResponse {
                id: None,
                name: answer.call_request.name.clone(),
                projection: project(
                    &answer.settled,
                    self.step.limits().projection_characters_max,
                ),
                scheduling: None,
            });
            self.answers.sent_late(answer, &self.step.config);
        }
        self.step.tell_model(ModelCommand::LateResults(responses));
        self.link.said();
        self.step.expect_answer();
    }

    /// Whether neither side speaks, and the model can hear.
    fn is_silent(&self) -> bool {
        self.link.is_ready() && self.turns.is_idle() && self.ending.is_running()
    }

    /// The model is given this result to read. External content may come up again in each session of the conversation.
    pub(crate) fn note_external(&mut self, settled: &Settled) {
        if settled.quoted {
            self.taint();
        }
    }

    /// The model has read external content that the provider's own tools found.
    pub(crate) fn on_external_content(&mut self, sources: Vec<Citation>) {
        self.taint();
        self.speech.cite(sources, &self.step);
    }

    fn taint(&mut self) {
        if !std::mem::replace(&mut self.is_tainted, true) {
            self.step.push(Output::Taint);
        }
    }

    /// A person has replied. Client and model are told; a text model reads the reply in the log, with its next turn.
    pub(crate) fn on_ticket_reply(&mut self, reply: &TicketReply) {
        if self.step.config.mode == Mode::Text {
            return;
        }
        self.step.tell_client(ClientUpdate::Message(json!({
            "type": "ticket_reply",
            "ticketId": reply.ticket,
            "author": reply.author,
            "text": reply.text.expose(),
        })));
        self.taint();
        self.notify(Notice {
            turn: self.turns.last_number(),
            effect_id: None,
            question: None,
            text: reply.words(),
            is_logged: true,
        });
    }

    /// Earlier sessions of the conversation have warned of these models' windows.
    pub(crate) fn restore_warned(&mut self, models: BTreeSet<Arc<str>>) {
        self.context.restore(models);
    }

    /// A provider has counted an exchange. By voice, client and user are warned once before the window is full; by text, a summary makes
    /// room instead. The log has the warning, so that the conversation's next session does not repeat it.
    pub(crate) fn on_usage(&mut self, usage: Usage, other: Option<OtherModel>) {
        self.step.event(SessionEvent::Usage(usage));
        let nearly_full = self.context.used(&usage, other, &mut self.step);
        let Some(NearlyFull { context, is_own }) = nearly_full else {
            return;
        };
        let number = self.speech.next_entry();
        let said = Said::ContextWarned {
            model: context.model.clone(),
        };
        self.step.append(number, said.event());
        if !is_own || self.step.config.mode != Mode::Voice {
            return;
        }
        self.step.tell_client(ClientUpdate::Message(json!({
            "type": "context_nearly_full",
            "tokens": context.tokens,
            "windowTokens": context.window_tokens,
        })));
        self.notify(Notice {
            turn: self.turns.last_number(),
            effect_id: None,
            question: None,
            text: NEARLY_FULL.to_owned(),
            is_logged: false,
        });
    }

    /// Tells the model of something once neither side speaks.
    pub(crate) fn notify(&mut self, notice: Notice) {
        if self.answers.notify(notice) {
            self.send_notices();
        }
    }

    /// Sends the model the waiting notices, if neither side speaks.
    fn send_notices(&mut self) {
        if !self.is_silent() || !self.answers.is_notice_waiting() {
            return;
        }
        let mut text = PREFACE.to_owned();
        let mut unlogged = String::new();
        for notice in self.answers.send_notices() {
            text.push(' ');
            text.push_str(&notice.text);
            if !notice.is_logged {
                unlogged.push(' ');
                unlogged.push_str(&notice.text);
            }
            self.turns.expect_continuation(notice.turn);
        }
        if !unlogged.is_empty() {
            let noted = format!("{PREFACE}{unlogged}");
            self.speech.note(&noted, &mut self.step);
        }
        self.step.tell_model(ModelCommand::Notice(Sensitive(text)));
        self.link.said();
        self.step.expect_answer();
    }

    /// Writes a call and its result into the log of the conversation.
    pub(crate) fn log_call(&mut self, call_request: &CallRequest, settled: &Settled) {
        let tool = call_request.tool();
        let is_plain = tool.is_some_and(|tool| tool.sensitive.is_empty());
        let arguments = call_request.completed().filter(|_| is_plain);
        let projection = project(settled, self.step.limits().projection_characters_max);
        let said = SaidCall {
            call: call_request.number,
            tool: shorten(&call_request.name),
            turn: call_request.turn,
            arguments: arguments.map(|completed| completed.arguments.expose().as_ref()),
            result: match &projection.body {
                ProjectionBody::Success { data, .. } => SaidResult::Data(data.as_ref()),
                ProjectionBody::Failure { message, .. } => SaidResult::Message(message),
            },
            error: settled.response.error_type(),
            duration_ms: settled.response.meta.duration_ms,
            is_external: settled.quoted,
        };
        self.speech.log_call(&said, &mut self.step);
    }

    /// Logs the end of a call that was said to be at work, for the next session of the conversation.
    pub(crate) fn log_end(&mut self, call_request: &CallRequest, settled: &Settled) {
        self.note_external(settled);
        let result = result_text(settled, self.step.limits().projection_characters_max);
        let tool = shorten(&call_request.name);
        let text =
            format!("The call of {tool} that was still running has ended. Its result: {result}");
        self.speech.note(&text, &mut self.step);
    }

    /// Ends a turn in which the model was refused, or repeated itself, too often, so that the user is not left with a model that talks
    /// to its tools. In text the turn ends with one more answer, which is asked for without tools.
    pub(crate) fn wind_up(&mut self, turn: u64) {
        let is_news = self.turns.winds_up(turn, &self.step.limits().turn);
        if !is_news || self.step.config.mode == Mode::Text {
            return;
        }
        let message = "the model called tools over and over";
        self.step.error(ErrorCode::ToolLoop, message);
        if self.turns.current_number() == Some(turn) {
            self.end_turn(false);
        }
    }
}

// Application state, and the end of turns and sessions.
impl Dialogue {
    pub(crate) fn facts(&self) -> SessionFacts {
        let state = self.state.get();
        SessionFacts {
            is_active: state.is_active,
            is_model_generating: state.is_model_generating,
            pending_end_voice_session: state.pending_end.is_some(),
            values: self.values().clone(),
            input: InputFacts::default(),
        }
    }

    /// The values that handlers keep for the conversation.
    pub(crate) fn values(&self) -> &StateValues {
        self.state.values()
    }

    pub(crate) fn trail(
        &self,
    ) -> impl Iterator<Item = (Timestamp, Option<CallNumber>, Result<&StateChange, &str>)> {
        self.state.trail().map(|entry| {
            let change = entry.change.as_ref().map_err(String::as_str);
            (entry.at, entry.call, change)
        })
    }

    /// Carries out a result's intents, for the session and its conversation.
    pub(crate) fn apply_intents(&mut self, asker: &Asker, intents: &[Intent]) {
        let all: Vec<&Intent> = intents.iter().collect();
        self.apply(asker, &all);
        self.log_changed_values();
    }

    /// Carries out a result's intents for the session alone.
    pub(crate) fn apply_session_intents(&mut self, asker: &Asker, intents: &[Intent]) {
        let of_session = intents.iter().filter(|intent| !intent.is_of_conversation());
        self.apply(asker, &of_session.collect::<Vec<_>>());
    }

    /// Sets the values that a result keeps for the conversation. Returns the log entry about them, for the ledger to write with the
    /// outcome; `None` if nothing has changed.
    pub(crate) fn set_values(&mut self, asker: &Asker, intents: &[Intent]) -> Option<ValuesEntry> {
        let of_conversation = intents.iter().filter(|intent| intent.is_of_conversation());
        self.apply(asker, &of_conversation.collect::<Vec<_>>());
        if !self.state.are_values_changed() {
            return None;
        }
        let number = self.speech.next_entry();
        let EntryEvent::Said(said) = self.state.said_values(number).event() else {
            return None;
        };
        Some(ValuesEntry {
            by: Some((self.step.config.session_id.clone(), number)),
            said,
        })
    }

    /// Rejects the intents of a result that came too late.
    pub(crate) fn reject_intents<'i>(
        &mut self,
        asker: &Asker,
        intents: impl IntoIterator<Item = &'i Intent>,
        why: &str,
    ) {
        for intent in intents {
            let problem = format!("{}: {why}", intent.shown_name());
            self.state.reject(self.step.now, asker.call, &problem);
            self.tell_intent(asker, intent, Err(problem));
        }
    }

    fn apply(&mut self, asker: &Asker, intents: &[&Intent]) {
        if intents.is_empty() {
            return;
        }
        let changes = self.state.apply(self.step.now, asker.call, intents);
        for (intent, change) in intents.iter().zip(changes) {
            self.tell_intent(asker, intent, change);
        }
        self.speech.suppress(self.state.get(), &mut self.step);
    }

    fn tell_intent(&mut self, asker: &Asker, intent: &Intent, change: Result<StateChange, String>) {
        let (call, tool, intent) = (asker.call, asker.tool.clone(), Box::new(intent.clone()));
        self.step.event(match change {
            Ok(change) => SessionEvent::IntentApplied {
                call,
                tool,
                intent,
                change,
            },
            Err(problem) => SessionEvent::IntentRejected {
                call,
                tool,
                intent,
                problem,
            },
        });
    }

    /// Writes the values that handlers keep into the log, where the next session of the conversation finds them.
    fn log_values(&mut self) {
        let number = self.speech.next_entry();
        let said = self.state.said_values(number);
        self.step.append(number, said.event());
    }

    /// Writes an entry that belongs to no effect.
    pub(crate) fn log_entry(&mut self, entry: Option<ValuesEntry>) {
        if let Some(ValuesEntry {
            by: Some((_, number)),
            said,
        }) = entry
        {
            self.step.append(number, EntryEvent::Said(said));
        }
    }

    fn log_changed_values(&mut self) {
        if self.state.are_values_changed() {
            self.log_values();
        }
    }

    /// Takes up the values that handlers keep for the conversation, by its log.
    pub(crate) fn restore_values(&mut self, kept: KeptState) {
        self.state.restore_values(kept, self.speech.last_entry().0);
    }

    /// The log has been read up to an entry about values. `own` is its number if the session wrote it.
    pub(crate) fn learn_values(&mut self, news: &KeptState, own: Option<LegNumber>) {
        self.state.learn_values(news, own);
    }

    /// Ends the current turn, if there is one, and begins the turn of the user's words since then.
    fn end_turn(&mut self, is_interrupted: bool) {
        self.step.clear(Deadline::ProviderSilence);
        // The user's words before the answer were written down when the answer began. The rest came after it.
        self.finish_utterance(Role::Assistant);
        let turn = self.turns.of_user(is_interrupted);
        self.speech
            .finish(Role::User, turn, self.state.get(), &mut self.step);
        // A user who interrupts goes on speaking.
        if !is_interrupted {
            self.speech.user_ended();
        }
        if !self.turns.goes_on(is_interrupted) {
            self.speech.drop_citations();
        }
        self.state.set_generating(false);
        // The question of this turn will not be asked again.
        let effects = self.answers.take_confirmed(0);
        acknowledge(effects, Vec::new(), &mut self.step);
        let Some(ended) = self.turns.end(self.step.now, is_interrupted) else {
            return;
        };
        let (turn, summary) = (ended.turn, ended.summary);
        if ended.is_news {
            self.step.event(SessionEvent::TurnEnded { turn, summary });
        }
        // The client hears of the end of each answer, also of one that continues a turn.
        if !is_interrupted {
            self.step.tell_client(ClientUpdate::TurnComplete { turn });
        }
        self.state.turn_ended(self.step.now);
        if self.state.are_values_old(self.speech.last_entry().0) {
            self.log_values();
        }
        self.speech.suppress(self.state.get(), &mut self.step);
        if let Some(waited) = self.turns.begin_waiting(self.step.now, is_interrupted) {
            let turn = waited.turn;
            if let Some(from) = waited.proved_from {
                self.speech.refile(from, ended.turn, turn);
            }
            self.step.event(SessionEvent::TurnStarted { turn });
            self.step.expect_answer();
            self.ending.postpone_farewell(&mut self.step);
        } else if self.link.is_ready() {
            self.send_pending_message(ended.turn);
        }
    }

    /// Sends the message that a tool wanted to give the model after the turn.
    fn send_pending_message(&mut self, turn: u64) {
        if let Some(message) = self.state.take_pending_message() {
            self.turns.expect_continuation(turn);
            self.step
                .tell_model(ModelCommand::UserText(Sensitive(message)));
        }
        self.send_notices();
    }

    /// Reports and records one speaker's full utterance.
    fn finish_utterance(&mut self, role: Role) {
        let turn = match role {
            Role::User => {
                self.speech.user_ended();
                self.turns.of_user(false)
            }
            Role::Assistant => self.current_turn(),
        };
        self.speech
            .finish(role, turn, self.state.get(), &mut self.step);
    }

    /// The number of the current turn; 0 outside a turn.
    fn current_turn(&self) -> u64 {
        self.turns.current_number().unwrap_or(0)
    }

    /// Whether the session ends now because a tool asked for it.
    pub(crate) fn is_end_due(&mut self) -> bool {
        self.ending.is_due(self.state.get(), &mut self.step)
    }

    /// Says the goodbye that a tool asked for, if one did. Returns why the session ends.
    pub(crate) fn say_goodbye(&mut self) -> Option<EndReason> {
        let end = self.state.get().pending_end.clone();
        let end = end.filter(|_| self.ending.is_running())?;
        self.end_turn(false);
        self.step.tell_client(ClientUpdate::EndVoiceSession {
            reason: end.reason.clone(),
            closing_message: end.closing_message,
            text_response: end.text_response,
        });
        Some(EndReason::Intent(end.reason))
    }

    /// The session begins to end: nothing new begins. Open calls are ended next; then follows [`Dialogue::ended`].
    pub(crate) fn end(&mut self, reason: EndReason) {
        self.end_turn(true);
        self.ending.begin(reason, &mut self.step);
    }

    pub(crate) fn ended(&mut self) {
        let transcripts = self.speech.transcript().entries();
        self.step
            .tell_client(ClientUpdate::SessionComplete { transcripts });
        self.state.deactivate(self.step.now);
    }

    /// The numbers of late results, unconfirmed answers, confirmed answers and notices, and the bytes of transcript.
    pub(crate) fn held(&self) -> ([usize; 4], usize) {
        (
            self.answers.held(),
            self.speech.transcript().recorded_bytes(),
        )
    }

    pub(crate) fn give_room_back(&mut self) {
        self.turns.give_room_back();
        self.speech.give_room_back();
        self.answers.give_room_back();
    }
}

// A session that goes on in another process.
impl Dialogue {
    /// The state that a process needs, beside the log, to go on with this session.
    pub(crate) fn saved(&self, model_waits: bool, last_call: CallNumber) -> Saved {
        let unanswered: Vec<u64> = self.turns.unanswered(model_waits).collect();
        let state = self.state.get();
        let open_turn = self.open_turn(&unanswered);
        let begun = self.turns.last_number();
        Saved {
            version: SAVED_VERSION,
            pending_request: self.link.pending_request().cloned().map(Sensitive),
            turns_begun: open_turn
                .as_ref()
                .map_or(begun, |open| open.number.max(begun)),
            open_turn,
            waiting_texts: self.link.waiting_texts().to_vec(),
            last_call,
            last_entry: self.speech.last_entry(),
            onset: self.speech.onset(),
            pending_end: state.pending_end.clone().map(Sensitive),
            pending_message: state.pending_message.clone().map(Sensitive),
            blocks_made: self.turns.blocks_made(),
        }
    }

    /// The current turn, if the model has not said everything and the user's words are known, with the user's words during the answer;
    /// otherwise the turn that those words begin.
    fn open_turn(&self, unanswered: &[u64]) -> Option<OpenTurn> {
        let number = *unanswered.first()?;
        let (summary, loops) = self.turns.spent(number);
        Some(OpenTurn {
            number,
            words: Sensitive(self.speech.transcript().words_of(unanswered)),
            from: self.speech.transcript().first_number_of(unanswered)?,
            summary,
            loops,
        })
    }

    /// Numbers the session's turns after those of the conversation. A turn that is taken up has already spent its earlier calls.
    pub(crate) fn go_on(&mut self, last_turn: u64, spent: Option<SpentTurn>) {
        self.turns.number_after(last_turn);
        let Some(SpentTurn { calls, loops }) = spent else {
            return;
        };
        let registry = &self.step.config.registry;
        let retrieval_calls = loops.tools().filter(|id| {
            let tool = registry.get(id.as_str());
            tool.is_some_and(|tool| tool.category == Category::Retrieval)
        });
        let summary = TurnSummary {
            calls,
            retrieval_calls: u32::try_from(retrieval_calls.count()).unwrap_or(u32::MAX),
            ..TurnSummary::default()
        };
        let loops = LoopHistory::restored(loops, &self.step.limits().turn);
        self.turns.take_up(self.step.now, summary, loops);
    }

    /// Takes up the state that this session had left in another process.
    pub(crate) fn restore(&mut self, saved: Saved) {
        let entries = saved
            .last_entry
            .0
            .max(self.step.config.numbers_of_epochs_before());
        self.speech = Speech::restored(LegNumber(entries), saved.onset);
        self.state.restore(
            saved.pending_end.map(Sensitive::into_inner),
            saved.pending_message.map(Sensitive::into_inner),
        );
        let (turn, unanswered) = saved.open_turn.map_or((None, None), |open| {
            let loops = LoopHistory::restored(open.loops, &self.step.limits().turn);
            let turn = Turn::restored(open.number, self.step.now, open.summary, loops);
            self.speech
                .keep(Role::User, &open.words, open.number, open.from, &self.step);
            // The question is the same as before: it begins no turn and earns no new budget.
            (Some(turn), Some(open.words.into_inner()))
        });
        self.turns = Turns::restored(saved.turns_begun, turn, saved.blocks_made);
        self.link.restore(saved.waiting_texts, unanswered);
    }
}

/// The words after so many entries of the transcript, except those of the turn that is put to the model again.
fn said_after(speech: &Speech, recorded: u64, open_turn: Option<u64>) -> Vec<HistoryEntry> {
    let said = speech.transcript().after(recorded);
    said.filter(|entry| Some(entry.turn) != open_turn)
        .map(|entry| HistoryEntry {
            role: entry.role,
            text: entry.text.clone(),
        })
        .collect()
}

/// Tells the ledger which effects and approval requests the model has heard of.
fn acknowledge(effects: Vec<EffectId>, questions: Vec<QuestionNumber>, step: &mut SessionStep) {
    if !effects.is_empty() || !questions.is_empty() {
        step.push(Output::Heard { effects, questions });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Dialogue {
        let mut dialogue = Dialogue::new(SessionStep::for_tests());
        dialogue.on_connected(1, false);
        dialogue.on_ready();
        dialogue.step.take_names();
        dialogue
    }

    fn is_said(dialogue: &mut Dialogue, name: &str) -> bool {
        dialogue.step.take_names().contains(&name.to_owned())
    }

    #[test]
    fn a_notice_waits_until_nobody_speaks() {
        let mut dialogue = ready();
        dialogue.user_text("hello".to_owned(), None);
        dialogue.notify(Notice {
            turn: 1,
            effect_id: None,
            question: Some(QuestionNumber(1)),
            text: "done".to_owned(),
            is_logged: false,
        });
        assert!(!is_said(&mut dialogue, "Notice"));
        dialogue.on_output_text("Hello.");
        dialogue.on_turn_complete(true, Duration::ZERO);
        assert!(is_said(&mut dialogue, "Notice"));
        dialogue.on_output_text("It is done.");
        assert!(is_said(&mut dialogue, "Heard"));
    }

    #[test]
    fn a_persons_answer_is_told_when_nobody_speaks() {
        let mut dialogue = ready();
        dialogue.user_text("hello".to_owned(), None);
        dialogue.on_ticket_reply(&TicketReply {
            ticket: "tk1".to_owned(),
            author: None,
            text: Sensitive("It is on its way.".to_owned()),
        });
        let names = dialogue.step.take_names();
        assert!(names.contains(&"Taint".to_owned()), "{names:?}");
        assert!(!names.contains(&"Notice".to_owned()), "{names:?}");
        dialogue.on_output_text("Hello.");
        dialogue.on_turn_complete(true, Duration::ZERO);
        assert!(is_said(&mut dialogue, "Notice"));
    }

    #[test]
    fn what_follows_an_interruption_is_void_until_the_provider_ends_the_answer() {
        let mut dialogue = ready();
        dialogue.user_text("hello".to_owned(), None);
        dialogue.on_output_text("Once upon");
        assert!(dialogue.on_interrupted());
        dialogue.interrupt();
        dialogue.interrupted();
        dialogue.step.take_names();
        dialogue.on_output_text(" a time");
        assert!(dialogue.step.take_names().is_empty());
        assert!(!dialogue.on_interrupted(), "it was carried out");
        dialogue.on_generation_complete();
        assert!(is_said(&mut dialogue, "AcceptAudio"));
        assert!(dialogue.model_output(Produced::Words));
    }

    #[test]
    fn a_question_that_no_connection_has_answered_is_put_to_the_next() {
        let mut dialogue = ready();
        dialogue.user_text("who built it?".to_owned(), None);
        dialogue.leave_connection();
        dialogue.left_connection(false);
        dialogue.reconnect();
        dialogue.on_connected(2, false);
        dialogue.step.take_names();
        dialogue.on_ready();
        assert!(is_said(&mut dialogue, "UserText"));
        assert_eq!(dialogue.turns.last_number(), 1, "it begins no turn");
    }
}
