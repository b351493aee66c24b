//! The session itself: one input in, outputs out, and the next deadline. It routes inputs to its two halves, the dialogue and the calls, and
//! carries out the steps that need both: interruptions, connections that are left, the end.

use crate::approvals::UserAnswer;
use crate::calls::Calls;
use crate::client::{ClientEvent, ErrorCode};
pub use crate::config::SessionConfig;
use crate::context::{ContextWatch, OtherModel};
use crate::deadlines::Deadline;
use crate::dialogue::Dialogue;
use crate::event::{EndReason, SessionEvent, StateChange};
use crate::io::{Input, News, Output};
use crate::model::{ConnectionEvent, LostReason, ModelEvent, RequestEvent};
use crate::policy::Verdict;
use crate::saved::{Began, Saved};
use crate::step::SessionStep;
use crate::time::Timestamp;
use std::time::Duration;
use windlass_contract::handler::StateValues;
use windlass_contract::id::CallNumber;
use windlass_contract::input::SentInput;
use windlass_contract::kind::Mode;

/// One session of one user.
pub struct Session {
    dialogue: Dialogue,
    calls: Calls,
}

/// The present size of one of the session's growing tables, and its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub name: &'static str,
    pub held: usize,
    pub most: usize,
}

impl Session {
    /// Begins the session. Its first outputs go into `out`.
    pub fn new(config: SessionConfig, out: &mut Vec<Output>) -> Self {
        out.push(Output::Event(SessionEvent::SessionStarted));
        let calls = Calls::new(&config.limits);
        let mut dialogue = Dialogue::new(SessionStep::new(config));
        ContextWatch::begin(&mut dialogue.step);
        out.append(&mut dialogue.step.outputs);
        Self { dialogue, calls }
    }

    /// Takes one input. All outputs that it causes are appended to `out`, in the order in which they are to be performed.
    /// Once the session is over, inputs cause nothing.
    pub fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Output>) {
        if self.is_over() {
            return;
        }
        let step = &mut self.dialogue.step;
        step.now = step.now.max(now);
        std::mem::swap(&mut step.outputs, out);
        self.take(input);
        std::mem::swap(&mut self.dialogue.step.outputs, out);
    }

    /// When the next [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.is_over() {
            None
        } else {
            self.dialogue.step.deadlines.next()
        }
    }

    /// Whether [`Output::Close`] has been given.
    pub fn is_over(&self) -> bool {
        self.dialogue.ending.is_over()
    }

    /// Whether the current turn was wound up, so that the model is to be asked for words alone.
    pub fn is_wound_up(&self) -> bool {
        let turns = &self.dialogue.turns;
        turns
            .current_number()
            .is_some_and(|turn| turns.is_wound_up(turn))
    }

    /// The highest number that a call of the conversation had so far; zero before the first.
    pub fn last_call(&self) -> CallNumber {
        self.dialogue.step.last_call()
    }

    /// Whether work goes on that ends without a user or a model. Its deadlines are due whether or not anybody speaks.
    pub fn is_working(&self) -> bool {
        !self.is_over() && self.calls.is_working()
    }

    /// Whether nothing begins any more, so that no end is told here.
    pub fn is_ending(&self) -> bool {
        !self.dialogue.ending.is_running()
    }

    /// The number of the last turn that began; zero before the first.
    pub fn last_turn(&self) -> u64 {
        self.dialogue.turns.last_number()
    }

    /// Whether the user is asked about this call and has not answered, as far as this session knows.
    pub fn is_asked(&self, call: CallNumber) -> bool {
        self.calls.is_asked(call)
    }

    /// The values that handlers keep for the conversation, as this session knows them.
    pub fn values(&self) -> &StateValues {
        self.dialogue.values()
    }

    pub fn config(&self) -> &SessionConfig {
        &self.dialogue.step.config
    }

    /// The state that a process needs, beside the log, to go on with this session.
    pub fn saved(&self) -> Saved {
        let model_waits = self.calls.any_blocks();
        self.dialogue.saved(model_waits, self.last_call())
    }

    /// The transitions of the application state so far, oldest first, within the limit: the time, the call that asked, and the change or
    /// the reason of its rejection.
    pub fn trail(
        &self,
    ) -> impl Iterator<Item = (Timestamp, Option<CallNumber>, Result<&StateChange, &str>)> {
        self.dialogue.trail()
    }

    /// Frees unused memory, for a session that may rest for a day. Changes nothing that can be seen.
    pub fn give_room_back(&mut self) {
        self.calls.give_room_back();
        self.dialogue.give_room_back();
    }

    /// The present sizes of the session's growing tables.
    pub fn held(&self) -> [Held; 9] {
        let limits = self.dialogue.step.limits();
        let open = limits.open_calls_max;
        // Approved calls run beside the others.
        let running = open + limits.open_confirmations_max;
        let of = |name, held, most| Held { name, held, most };
        let [calls, families, questions, recorded] = self.calls.held();
        let ([late, unconfirmed, confirmed, notices], transcript) = self.dialogue.held();
        let questions_max = crate::approvals::ASKED_MAX + limits.open_confirmations_max;
        let transcript_max = limits.transcript_characters_max;
        [
            of("calls", calls, running),
            of(
                "families of calls",
                families,
                running + crate::calls::LATE_MAX,
            ),
            of("late results", late, open),
            of("unconfirmed answers", unconfirmed, 2 * open + running),
            of("confirmed answers", confirmed, open),
            of("notices", notices, 2 * crate::answers::NOTICES_MAX),
            of("questions", questions, questions_max),
            of(
                "recorded responses",
                recorded,
                limits.recorded_responses_max,
            ),
            of("bytes of transcript", transcript, transcript_max),
        ]
    }
}

impl Session {
    fn take(&mut self, input: Input) {
        let Self { dialogue, calls } = self;
        let is_running = dialogue.ending.is_running();
        match input {
            Input::Model(event) if is_running => self.on_model(event),
            Input::Client(ClientEvent::Revoke { approval }) => {
                calls.on_revoked(approval, dialogue);
            }
            // A call that was said to be at work in text mode goes on beyond its session's end.
            Input::Client(ClientEvent::Cancel { call, way }) => {
                calls.on_user_cancelled(call, way, dialogue);
            }
            Input::Client(event) if is_running => self.on_client(event),
            Input::Request(event) if is_running => self.on_request(event),
            Input::Model(_) | Input::Client(_) | Input::Request(_) => {}
            Input::Connection(ConnectionEvent::Connected {
                generation,
                resumed,
            }) => dialogue.on_connected(generation, resumed),
            Input::Connection(ConnectionEvent::Lost { generation, reason }) => {
                self.on_lost(generation, reason);
            }
            Input::Began(began) => self.on_began(*began),
            Input::Answered {
                question,
                approved,
                reason,
                remember,
                input,
            } => {
                let answer = match approved {
                    true => UserAnswer::Approved { remember },
                    false => UserAnswer::Denied(reason),
                };
                let sent = input.map_or_else(SentInput::default, |input| *input);
                calls.on_answered(question, (answer, sent), dialogue);
            }
            Input::Decided { call, reply } => calls.on_decided(call, reply, dialogue),
            Input::Recorded { call, reply } => calls.on_recorded(call, reply, dialogue),
            Input::News(news) => {
                // A run's requests are carried out before anybody is told of the run.
                let is_asked = |one: &News| matches!(one, News::Asked(_));
                let (asked, others): (Vec<News>, Vec<News>) = news.into_iter().partition(is_asked);
                for one in asked.into_iter().chain(others) {
                    self.calls.on_news(one, &mut self.dialogue);
                    self.end_if_due();
                }
            }
            Input::RateChecked { call, decision } => {
                calls.on_rate_checked(call, decision, dialogue);
            }
            Input::CallFinished { call, result } => calls.on_finished(call, result, dialogue),
            Input::HandlerMessage { call, message } => {
                calls.on_handler_message(call, message, dialogue);
            }
            Input::Shutdown => {
                self.dialogue
                    .step
                    .error(ErrorCode::ShuttingDown, "the server is shutting down");
                self.finish(EndReason::Shutdown);
            }
            Input::Tick => {
                while let Some(deadline) = self
                    .dialogue
                    .step
                    .deadlines
                    .take_due(self.dialogue.step.now)
                {
                    self.on_deadline(deadline);
                    self.end_if_due();
                }
            }
        }
        self.end_if_due();
        self.dialogue.deliver_late();
        self.rotate_if_quiet();
        let Self { dialogue, calls } = self;
        if !calls.is_working() {
            dialogue.ending.drained(&mut dialogue.step);
        } else if calls.has_only_tasks() && dialogue.step.config.mode == Mode::Voice {
            dialogue.ending.parted(&mut dialogue.step);
        }
    }

    fn on_deadline(&mut self, deadline: Deadline) {
        let Self { dialogue, calls } = self;
        match deadline {
            Deadline::Attempt(call) => calls.on_timeout(call, dialogue),
            Deadline::Wait(call) => calls.on_waited(call, dialogue),
            Deadline::Lease(call) => calls.ask_again(call, dialogue),
            Deadline::Retry(call) => calls.on_retry_due(call, dialogue),
            Deadline::Store(call) => calls.on_store_timeout(call, dialogue),
            Deadline::Question(number) => calls.on_question_expired(number, dialogue),
            Deadline::Standing(number) => calls.on_standing_expired(number, dialogue),
            Deadline::ProviderSilence => dialogue.on_provider_silence(),
            Deadline::ResultSilence => dialogue.on_result_silence(),
            Deadline::Farewell => self.end_by_intent(),
            Deadline::Rotation => self.rotate(),
            Deadline::Reconnect => dialogue.reconnect(),
            Deadline::ClientGrace => self.finish(EndReason::ClientLost),
        }
    }

    fn on_model(&mut self, event: ModelEvent) {
        let Self { dialogue, calls } = self;
        match event {
            ModelEvent::Ready { .. } => dialogue.on_ready(),
            ModelEvent::Calls(called) => calls.on_calls(called, dialogue),
            ModelEvent::CallsCancelled(ids) => calls.on_cancelled(&ids, dialogue),
            ModelEvent::SpeechStarted => dialogue.heard_user(),
            ModelEvent::SpeechEnded => dialogue.step.expect_answer(),
            ModelEvent::InputTranscript { text, .. } => {
                dialogue.on_input_transcript(text.expose());
            }
            ModelEvent::InputTranscribed { text } => {
                dialogue.on_input_transcribed(text.expose());
            }
            ModelEvent::OutputTranscript { text, .. } => {
                dialogue.on_output_transcript(text.expose());
            }
            ModelEvent::OutputText { text } => dialogue.on_output_text(text.expose()),
            ModelEvent::AudioStarted => dialogue.on_audio(),
            ModelEvent::GenerationComplete => dialogue.on_generation_complete(),
            ModelEvent::Unplayed(unplayed) => {
                dialogue.ending.audio_ends(dialogue.step.now + unplayed)
            }
            ModelEvent::TurnComplete { idle, unplayed, .. } => {
                let is_last = idle && !calls.any_blocks();
                dialogue.on_turn_complete(is_last, unplayed);
            }
            ModelEvent::Interrupted => {
                if dialogue.on_interrupted() {
                    self.interrupt();
                }
                self.dialogue.speech.interruption_known();
            }
            ModelEvent::ExternalContent { sources } => dialogue.on_external_content(sources.0),
            ModelEvent::GoAway { time_left } => {
                dialogue.link.go_away(time_left, &mut dialogue.step)
            }
            ModelEvent::ResumptionUpdate { handle } => {
                let is_any_open = calls.is_any_open(dialogue.link.generation());
                dialogue.on_handle(handle, calls.any_blocks(), is_any_open);
            }
            ModelEvent::Usage(usage) => dialogue.on_usage(usage, None),
            ModelEvent::UsageOf {
                model,
                context_tokens_max,
                usage,
            } => dialogue.on_usage(
                usage,
                Some(OtherModel {
                    name: model,
                    window_tokens: context_tokens_max,
                }),
            ),
            ModelEvent::Malformed { problem } => {
                dialogue
                    .step
                    .event(SessionEvent::ProviderOddity { problem });
            }
            ModelEvent::Unknown { fields } => {
                for field in fields {
                    let problem = format!("unknown field: {field}");
                    dialogue
                        .step
                        .event(SessionEvent::ProviderOddity { problem });
                }
            }
        }
    }

    fn on_client(&mut self, event: ClientEvent) {
        let dialogue = &mut self.dialogue;
        match event {
            ClientEvent::Text { text, message } => {
                dialogue.user_text(text.into_inner(), message);
            }
            ClientEvent::Image { mime_type, data } => dialogue.on_image(mime_type, data),
            ClientEvent::MicrophoneOpened
            | ClientEvent::Cancel { .. }
            | ClientEvent::Revoke { .. } => {}
            ClientEvent::TurnComplete => dialogue.on_user_finished(),
            ClientEvent::Interrupt => {
                dialogue.on_client_interrupt();
                self.give_up_answer();
            }
            ClientEvent::PlaybackDone => {
                if dialogue.on_playback_done() {
                    self.end_by_intent();
                }
            }
            ClientEvent::Stop => self.finish(EndReason::Stopped),
            ClientEvent::Connected => {
                dialogue.step.clear(Deadline::ClientGrace);
                dialogue.step.event(SessionEvent::ClientConnected);
                self.calls.show_standing(dialogue);
            }
            ClientEvent::Lost => {
                dialogue.step.event(SessionEvent::ClientLost);
                let grace = Duration::from_secs(dialogue.step.limits().client_grace_seconds);
                dialogue.step.set_deadline(Deadline::ClientGrace, grace);
            }
        }
    }

    fn on_request(&mut self, event: RequestEvent) {
        match event {
            RequestEvent::Sent { number } => self.dialogue.on_request_sent(number),
            RequestEvent::Ended => self.dialogue.on_request_ended(),
            RequestEvent::GivenUp => {
                self.give_up_answer();
                self.dialogue.on_generation_complete();
            }
        }
    }

    /// The user wants no more of the answer.
    fn give_up_answer(&mut self) {
        self.interrupt();
        self.dialogue.cut_farewell();
    }

    /// Throws away the current answer, and its calls that have not begun.
    fn interrupt(&mut self) {
        self.dialogue.interrupt();
        self.calls.on_interrupted(&mut self.dialogue);
        self.dialogue.interrupted();
    }

    fn on_lost(&mut self, generation: u64, reason: LostReason) {
        let lost = self.dialogue.on_lost(generation, reason);
        let Some((verdict, code, message)) = lost.filter(|_| self.dialogue.ending.is_running())
        else {
            return;
        };
        self.leave_connection();
        match verdict {
            Verdict::GiveUp => {
                self.dialogue.step.error(code, message);
                self.finish(EndReason::ProviderLost);
            }
            Verdict::Retry(pause) => self.dialogue.reconnect_after(pause),
        }
    }

    /// The connection is gone, or is given up: its calls and answers are ended or kept for the next.
    fn leave_connection(&mut self) {
        let model_waits = self.calls.any_blocks();
        self.dialogue.leave_connection();
        self.calls.leave_connection(&mut self.dialogue);
        self.dialogue.left_connection(model_waits);
        self.calls.drop_unadmitted(&mut self.dialogue);
    }

    /// Leaves a connection whose end was announced, as soon as nothing is lost by that.
    fn rotate_if_quiet(&mut self) {
        let generation = self.dialogue.link.generation();
        if self.dialogue.may_rotate() && !self.calls.is_any_open(generation) {
            self.rotate();
        }
    }

    /// Leaves the connection for the next one, even if calls or answers are open on it.
    fn rotate(&mut self) {
        self.dialogue.link.give_up(&self.dialogue.step);
        self.leave_connection();
        self.dialogue.reconnect();
    }

    /// Takes up the state of the conversation, and this session's state from another process.
    fn on_began(&mut self, began: Began) {
        if let Some(saved) = began.saved {
            self.dialogue.step.number_after(saved.last_call);
            self.dialogue.restore(saved);
            self.end_if_due();
        }
        self.dialogue.go_on(began.last_turn, began.spent);
        if let Some(state) = began.state {
            self.dialogue.restore_values(state);
        }
        self.dialogue.restore_warned(began.warned_models);
        let unheard = (began.unheard, began.unheard_questions);
        let Self { dialogue, calls } = self;
        calls.await_ends(began.at_work, dialogue);
        calls.on_began(began.questions, unheard, dialogue);
        calls.on_began_with_standing(began.standing, dialogue);
    }

    /// An end that a tool asked for is carried out, or waited for.
    fn end_if_due(&mut self) {
        if self.dialogue.is_end_due() {
            self.end_by_intent();
        }
    }

    fn end_by_intent(&mut self) {
        if let Some(reason) = self.dialogue.say_goodbye() {
            self.finish(reason);
        }
    }

    /// Ends the session, except for started changes, which run to their end, and answers that wait for the ledger.
    fn finish(&mut self, reason: EndReason) {
        if !self.dialogue.ending.is_running() {
            return;
        }
        // In text mode the next turn is another session's, and calls at work go on beside it.
        let goes_on = reason == EndReason::Shutdown && self.config().mode == Mode::Text;
        // After a shutdown its client may go on with the session in another process.
        if reason != EndReason::Shutdown {
            self.calls.standing_ends(&mut self.dialogue);
        }
        self.dialogue.end(reason);
        self.calls.end(goes_on, &mut self.dialogue);
        self.dialogue.ended();
    }
}
